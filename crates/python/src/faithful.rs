//! Faithful outputs inside a serving engine: `unskew.Faithful` and `unskew.Walk`, over the walks of the samplers.
//!
//! The engine owns the batch. A plug-in of it begins a walk for each sequence, asks it for the token of each position
//! with the row of logits there, and forces the token that the walk answers with. So the random numbers are the walk's
//! (`unskew_samplers::Walks` says why): the engine's temperature, its truncations and its arithmetic after the
//! plug-in have no say, and the log-probabilities that an engine reports *before* its processors, which is the
//! default of vLLM, are the model's own. A walk that is rejected ends its sequence by a reserved id, and the client
//! begins another one.
//!
//! Walks of one task (prompt, constraint, model, length, warp) learn from each other; [`WalkTable`] holds the tasks.
//! Nothing here knows an engine.

use std::sync::Arc;

use pyo3::{prelude::*, types::PyDict};
use unskew::{
    core::{TokenId, TokenKind, Vocabulary, WithEnd},
    engine::Compiled,
    samplers::{
        self, FedRows, Task, Truncation, WalkEnd, WalkKey, WalkMode, WalkStats, WalkStep, WalkSums,
        WalkTable, Walks, Warp,
    },
};

use crate::{
    compiler::Compiler,
    constraint::Constraint,
    error::{Class, guarded},
    tokenizer::numbers,
    typed::Given,
    view,
};

/// The default limits, in bytes: of all states, and of one.
const MAX_BYTES: usize = 1 << 30;
const STATE_BYTES: usize = 64 << 20;

/// The longest output that may be asked for, in tokens.
const MAX_TOKENS: usize = 1 << 24;

/// Walks of a serving engine that draw from the model's own distribution under constraints. Threads share it.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Faithful {
    compiler: Py<Compiler>,
    table: WalkTable<Key, WithEnd<Compiled>>,
    row_len: usize,
    end_id: TokenId,
    reject_id: TokenId,
    state_bytes: usize,
}

/// One sequence of an engine, with the walk along it.
#[pyclass(module = "unskew")]
#[derive(Debug)]
pub(crate) struct Walk {
    walk: samplers::Walk<WithEnd<Compiled>>,
    task: Arc<Walks<WithEnd<Compiled>>>,
    row_len: usize,
    end_id: TokenId,
    reject_id: TokenId,
    /// The position at which the walk is over, and the answer from there on.
    over: Option<(usize, TokenId)>,
    /// Why the walk is over although it was not rejected.
    error: Option<String>,
}

/// Everything that the distribution of an output depends on, but for the contents of files.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    /// The model, as its engine names it: adapter, weights, images of the prompt.
    context: String,
    spec: String,
    prompt: Vec<u32>,
    mode: WalkMode,
    max_tokens: usize,
    warp: WarpKey,
}

impl WalkKey for Key {
    fn bytes(&self) -> usize {
        self.context.len() + self.spec.len() + self.prompt.len() * size_of::<u32>()
    }
}

/// The bits of a temperature, top-k, and the bits of top-p and min-p.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct WarpKey {
    temperature: u64,
    top_k: Option<usize>,
    top_p: Option<u64>,
    min_p: Option<u64>,
}

impl Key {
    /// The key of a task with these options, which are the names and values of keywords.
    fn of(constraint: &Constraint, prompt: Vec<u32>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut mode = WalkMode::Cars;
        let (mut max_tokens, mut context) = (None, String::new());
        let mut warp = WarpKey { temperature: 1f64.to_bits(), top_k: None, top_p: None, min_p: None };
        let bits =
            |value: Bound<'_, PyAny>| Ok::<_, PyErr>(value.extract::<Option<f64>>()?.map(f64::to_bits));
        for (name, value) in options.into_iter().flatten() {
            match &*name.extract::<String>()? {
                "max_tokens" => max_tokens = Some(value.extract()?),
                "mode" => mode = mode_of(&value.extract::<String>()?)?,
                "context" => context = value.extract()?,
                "temperature" => warp.temperature = value.extract::<f64>()?.to_bits(),
                "top_k" => warp.top_k = value.extract()?,
                "top_p" => warp.top_p = bits(value)?,
                "min_p" => warp.min_p = bits(value)?,
                other => return Err(Class::Option.error(format!("a walk has no option `{other}`"))),
            }
        }
        let max_tokens = max_tokens.ok_or_else(|| Class::Option.error("give `max_tokens`"))?;
        if max_tokens > MAX_TOKENS {
            let message = format!("`max_tokens` is {max_tokens}: give at most {MAX_TOKENS}");
            return Err(Class::Option.error(message));
        }
        Ok(Self { context, spec: constraint.spec.to_json(), prompt, mode, max_tokens, warp })
    }
}

impl WarpKey {
    fn warp(self) -> PyResult<Warp> {
        let wrong = |error: &dyn std::fmt::Display| Class::Option.error(error.to_string());
        let mut truncation = None;
        if self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some() {
            let cut = Truncation::new(self.top_k, self.top_p.map(f64::from_bits));
            let cut = cut.and_then(|cut| cut.with_min_p(self.min_p.map_or(0.0, f64::from_bits)));
            truncation = Some(cut.map_err(|error| wrong(&error))?);
        }
        Warp::new(f64::from_bits(self.temperature), truncation).map_err(|error| wrong(&error))
    }
}

fn mode_of(name: &str) -> PyResult<WalkMode> {
    Ok(match name {
        "cars" => WalkMode::Cars,
        "rejection" => WalkMode::Rejection,
        "weights" => WalkMode::Weights,
        "twist" => WalkMode::Twisted,
        _ => {
            let message =
                format!("there is no mode `{name}`: take `cars`, `rejection`, `weights` or `twist`");
            return Err(Class::Option.error(message));
        }
    })
}

#[pymethods]
impl Faithful {
    #[new]
    #[pyo3(signature = (
        compiler, *, end_id=None, reject_id=None, row_len=None, max_bytes=MAX_BYTES, state_bytes=STATE_BYTES
    ))]
    fn new(
        compiler: Py<Compiler>,
        end_id: Option<u32>,
        reject_id: Option<u32>,
        row_len: Option<usize>,
        max_bytes: usize,
        state_bytes: usize,
    ) -> PyResult<Self> {
        let vocabulary = Arc::clone(compiler.get().tokens().vocabulary());
        // A tokenizer may have ids beyond the rows of the model.
        let row_len = row_len.unwrap_or(vocabulary.len());
        let ends = vocabulary.end_of_sequence();
        let end_id = match end_id.map(TokenId) {
            Some(id) if ends.contains(&id) => id,
            Some(id) => {
                let message =
                    format!("`end_id` is {id}, which is no id that ends a sequence: {:?}", numbers(ends));
                return Err(Class::Option.error(message));
            }
            None => *ends.first().ok_or_else(|| {
                Class::Option.error("the tokenizer has no end of sequence: give `eos` when it is loaded")
            })?,
        };
        let reject_id = match reject_id {
            Some(id) => marks_rejections(&vocabulary, row_len, id)?,
            None => default_reject_id(&vocabulary, row_len).ok_or_else(|| {
                Class::Option
                    .error("no id is free to mark a rejection: name one as `reject_id` that no output needs")
            })?,
        };
        let table = WalkTable::new(max_bytes);
        Ok(Self { compiler, table, row_len, end_id, reject_id, state_bytes })
    }

    /// Begins a walk along a new sequence.
    #[pyo3(signature = (constraint, prompt, *, seed, alone=false, reject_id=None, timeout=None, fuel=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
    fn begin(
        &self,
        py: Python<'_>,
        constraint: Given,
        prompt: Vec<u32>,
        seed: u64,
        alone: bool,
        reject_id: Option<u32>,
        timeout: Option<f64>,
        fuel: Option<u64>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Walk> {
        let Self { row_len, end_id, .. } = *self;
        let reject_id = match reject_id {
            Some(id) => marks_rejections(self.compiler.get().tokens().vocabulary(), row_len, id)?,
            None => self.reject_id,
        };
        let key = Key::of(&constraint, prompt, options)?;
        let end = constraint.spec.end();
        let compiled = self.compiler.get().compiled(py, &constraint, timeout, fuel)?;
        let begin = || {
            // A file that the constraint names may have changed.
            let known =
                || self.table.find(&key).filter(|walks| walks.constraint().inner().is_same(&compiled));
            let task = match known() {
                // What others have learned would decide what a seed gives.
                _ if alone => Arc::new(self.task(&key, compiled.with_end(end))?),
                Some(task) => task,
                None => {
                    let bytes = compiled.memory_usage();
                    let task = self.task(&key, compiled.with_end(end))?;
                    self.table.insert(key, task, bytes)
                }
            };
            let walk = self.table.begin(&task, seed);
            let walk = walk.map_err(|error| Class::Sample.error(error.to_string()))?;
            Ok::<_, PyErr>((task, walk))
        };
        let (task, walk) = guarded(|| py.detach(begin))?;
        Ok(Walk { walk, task, row_len, end_id, reject_id, over: None, error: None })
    }

    /// The findings about a prompt and a constraint so far, as `Walk.stats`; None where no walk of them is known.
    #[pyo3(signature = (constraint, prompt, **options))]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        constraint: Given,
        prompt: Vec<u32>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let key = Key::of(&constraint, prompt, options)?;
        self.table.find(&key).map(|task| stats(py, &task)).transpose()
    }

    /// Forgets all that was learned in contexts of this name (all, where it is None): their model was replaced. Their
    /// walks under way are rejected at their next position.
    #[pyo3(signature = (context=None))]
    fn forget(&self, py: Python<'_>, context: Option<&str>) {
        py.detach(|| self.table.forget(|key| context.is_none_or(|context| key.context == context)));
    }

    /// The id that ends a rejected sequence.
    #[getter]
    fn reject_id(&self) -> u32 {
        self.reject_id.0
    }

    /// The id that ends an accepted sequence.
    #[getter]
    fn end_id(&self) -> u32 {
        self.end_id.0
    }

    /// The length of a row of logits.
    #[getter]
    fn row_len(&self) -> usize {
        self.row_len
    }

    /// The number of prompts and constraints that are known.
    #[getter]
    fn states(&self, py: Python<'_>) -> usize {
        py.detach(|| self.table.usage().0)
    }

    /// The memory of all that was learned, in bytes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.table.usage().1)
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Faithful over rows of {} logits>", self.row_len)
    }
}

impl Faithful {
    fn task(&self, key: &Key, constraint: WithEnd<Compiled>) -> PyResult<Walks<WithEnd<Compiled>>> {
        let vocabulary = Arc::clone(constraint.inner().tokens().vocabulary());
        let task = Task::without_model(self.row_len, constraint, &vocabulary, key.max_tokens);
        let task = Task { max_bytes: self.state_bytes, ..task };
        Ok(Walks::new(task, key.mode, key.warp.warp()?))
    }
}

#[pymethods]
impl Walk {
    /// The id at `position`, the number of ids of the output before it: `row` are the logits there. Without a row, None
    /// where it is needed.
    #[pyo3(signature = (position, row=None))]
    fn at(
        &mut self,
        py: Python<'_>,
        position: usize,
        row: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<u32>> {
        let Some(row) = row else {
            return guarded(|| Ok(py.detach(|| self.known(position)).map(|id| id.0)));
        };
        let rows = view::FloatRows::new(row, 1, self.row_len)?;
        let rows = rows.get();
        guarded(|| Ok(Some(py.detach(|| self.next(position, rows.row(0), &mut FedRows::default())).0)))
    }

    /// Whether the walk ended with an output; None while it is under way.
    #[getter]
    fn accepted(&self) -> Option<bool> {
        self.over.map(|_| matches!(self.walk.end(), Some(WalkEnd::Accepted(_))) && self.error.is_none())
    }

    /// The output, without the end; None without one.
    #[getter]
    fn ids(&self) -> Option<Vec<u32>> {
        self.output().map(|output| numbers(&output.tokens))
    }

    /// The natural logarithm of the model's probability of the output, its end included.
    #[getter]
    fn log_prob(&self) -> Option<f64> {
        self.output().map(|output| output.log_prob)
    }

    /// The logarithm of the weight of the output: 0 but for the mode `weights`.
    #[getter]
    fn log_weight(&self) -> Option<f64> {
        self.output().map(|output| output.log_weight)
    }

    /// The logarithms of the model's mass that each mask along the output leaves, that at its end included.
    #[getter]
    fn log_masks(&self) -> Option<Vec<f64>> {
        self.output().map(|output| output.log_masks.clone())
    }

    /// Why the walk is over, where it was neither accepted nor rejected.
    #[getter]
    fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The findings about its prompt and constraint so far: a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats(py, &self.task)
    }

    fn __repr__(&self) -> String {
        let state = match self.accepted() {
            None => "under way",
            Some(true) => "accepted",
            Some(false) => "rejected",
        };
        format!("<unskew.Walk {state}>")
    }
}

impl Walk {
    fn output(&self) -> Option<&samplers::WalkOutput> {
        match self.walk.end() {
            Some(WalkEnd::Accepted(output)) if self.over.is_some() && self.error.is_none() => Some(output),
            _ => None,
        }
    }

    fn next(&mut self, position: usize, row: &[f32], rows: &mut FedRows) -> TokenId {
        let step = self.walk.at(position, row, rows);
        self.answer(position, step)
    }

    fn known(&mut self, position: usize) -> Option<TokenId> {
        let step = self.walk.known_at(position)?;
        Some(self.answer(position, step))
    }

    fn answer(&mut self, position: usize, step: WalkStep) -> TokenId {
        if let Some((from, id)) = self.over
            && position >= from
        {
            return id;
        }
        let id = match step {
            WalkStep::Token(id) if id == self.reject_id => {
                self.error = Some(format!(
                    "the output needs the id {id}, which marks rejections: name another one as `reject_id`"
                ));
                self.reject_id
            }
            WalkStep::Token(id) => return id,
            WalkStep::End => self.end_id,
            WalkStep::Over => self.reject_id,
        };
        if let Some(WalkEnd::Failed(error)) = self.walk.end() {
            self.error = Some(error.to_string());
        }
        self.over = Some((position, id));
        id
    }
}

/// The ids at the positions of many walks, each with the row of this index; answers with the id of each.
#[pyfunction]
#[pyo3(signature = (walks, positions, logits, rows=None))]
pub(crate) fn step_walks(
    py: Python<'_>,
    mut walks: Vec<PyRefMut<'_, Walk>>,
    positions: Vec<usize>,
    logits: &Bound<'_, PyAny>,
    rows: Option<Vec<usize>>,
) -> PyResult<Vec<u32>> {
    let Some(row_len) = walks.first().map(|walk| walk.row_len) else { return Ok(Vec::new()) };
    let rows = rows.unwrap_or_else(|| (0..walks.len()).collect());
    if positions.len() != walks.len() || rows.len() != walks.len() {
        let message =
            format!("{} positions and {} rows of {} walks", positions.len(), rows.len(), walks.len());
        return Err(Class::Sample.error(message));
    }
    let least = rows.iter().max().map_or(0, |row| row + 1);
    let view = view::FloatRows::new(logits, least, row_len)?;
    let all = view.get();
    let mut of: Vec<&mut Walk> = walks.iter_mut().map(|walk| &mut **walk).collect();
    // One after the other: what one of them learns, the next one knows, in the same order on every machine that
    // shares a batch.
    let step = || {
        let mut fed = FedRows::default();
        let each = of.iter_mut().zip(positions).zip(&rows);
        each.map(|((walk, position), row)| walk.next(position, all.row(*row), &mut fed).0).collect()
    };
    guarded(|| Ok(py.detach(step)))
}

/// The ids at the positions of many walks that need no row: of prefixes that are known, and of positions that were
/// decided. None where the row is needed.
#[pyfunction]
pub(crate) fn known_walks(
    py: Python<'_>,
    mut walks: Vec<PyRefMut<'_, Walk>>,
    positions: Vec<usize>,
) -> PyResult<Vec<Option<u32>>> {
    let mut of: Vec<&mut Walk> = walks.iter_mut().map(|walk| &mut **walk).collect();
    let known =
        || of.iter_mut().zip(positions).map(|(walk, position)| walk.known(position).map(|id| id.0)).collect();
    guarded(|| Ok(py.detach(known)))
}

/// The findings of processes that have learned apart about one task, together: dicts of `Walk.stats`, None of them left
/// out.
#[pyfunction]
pub(crate) fn merge_stats<'py>(
    py: Python<'py>,
    stats: Vec<Option<Bound<'py, PyDict>>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let all = stats.iter().flatten().map(stats_of).collect::<PyResult<Vec<_>>>()?;
    WalkStats::merged(&all).map(|stats| dict_of(py, &stats)).transpose()
}

fn stats<'py>(py: Python<'py>, task: &Walks<WithEnd<Compiled>>) -> PyResult<Bound<'py, PyDict>> {
    dict_of(py, &py.detach(|| task.stats()))
}

fn dict_of<'py>(py: Python<'py>, stats: &WalkStats) -> PyResult<Bound<'py, PyDict>> {
    let answer = PyDict::new(py);
    answer.set_item("tries", stats.tries)?;
    answer.set_item("accepted", stats.accepted)?;
    answer.set_item("log_estimate", stats.log_estimate)?;
    answer.set_item("relative_error", stats.relative_error)?;
    answer.set_item("log_bound", stats.log_bound)?;
    answer.set_item("sums", stats.sums.map(|sums| (sums.first, sums.second, sums.weighed)))?;
    answer.set_item("prefixes", stats.usage.prefixes)?;
    answer.set_item("bytes", stats.usage.trie_bytes + stats.usage.row_bytes)?;
    Ok(answer)
}

fn stats_of(dict: &Bound<'_, PyDict>) -> PyResult<WalkStats> {
    let item = |name: &str| dict.as_any().get_item(name);
    // A tuple, or a list where it was JSON.
    let sums: Option<Vec<Bound<'_, PyAny>>> = item("sums")?.extract()?;
    let sums = match sums.as_deref() {
        None => None,
        Some([first, second, weighed]) => {
            Some(WalkSums { first: first.extract()?, second: second.extract()?, weighed: weighed.extract()? })
        }
        Some(_) => return Err(Class::Sample.error("`sums` are three values")),
    };
    let counts = (item("tries")?.extract()?, item("accepted")?.extract()?);
    let usage = (item("prefixes")?.extract()?, item("bytes")?.extract()?);
    Ok(WalkStats::new(counts, sums, item("log_bound")?.extract()?, usage))
}

/// The id, if it can mark rejections.
fn marks_rejections(vocabulary: &Vocabulary, row_len: usize, id: u32) -> PyResult<TokenId> {
    let (id, len) = (TokenId(id), vocabulary.len().min(row_len));
    if id.index() < len && !vocabulary.is_end_of_sequence(id) {
        return Ok(id);
    }
    Err(Class::Option.error(format!("`reject_id` is {id}: give an id below {len} that ends no sequence")))
}

/// An id that no output needs: a byte that is in no text of UTF-8 comes before control tokens, which prompts and
/// grammars name.
fn default_reject_id(vocabulary: &Vocabulary, row_len: usize) -> Option<TokenId> {
    let never = |bytes: &[u8]| matches!(bytes, [0xc0 | 0xc1 | 0xf5..=0xff]);
    let all = vocabulary.text_tokens().filter(|(id, bytes)| never(bytes) && id.index() < row_len);
    all.map(|(id, _)| id).last().or_else(|| {
        let mut all = (0..vocabulary.len().min(row_len)).rev().map(TokenId::from_index);
        let free =
            |id: &TokenId| vocabulary.kind(*id) == TokenKind::Control && !vocabulary.is_end_of_sequence(*id);
        all.find(free)
    })
}
