//! Faithful outputs inside a serving engine: `unskew.Faithful` and `unskew.Walk`, over the walks of the samplers.
//!
//! The engine owns the batch. A plug-in of it begins a walk for each sequence, feeds it the row of logits after each
//! token, and forces the token that the walk answers with. So the random numbers are the walk's
//! (`unskew_samplers::Walks` says why): the engine's temperature, its truncations and its arithmetic after the
//! plug-in have no say, and the log-probabilities that an engine reports *before* its processors, which is the
//! default of vLLM, are the model's own. A walk that is rejected ends its sequence by a reserved id, and the client
//! begins another one.
//!
//! States are shared by all walks of one prompt, constraint, length and temperature ([`states`]); nothing here knows
//! an engine.

mod states;

use std::sync::Arc;

use pyo3::{prelude::*, types::PyDict};
use unskew::{
    core::{TokenId, TokenKind, Vocabulary},
    engine::Compiled,
    samplers::{self, Task, WalkEnd, WalkMode, WalkStep, Walks},
};

use self::states::{Key, State, States};
use crate::{compiler::Compiler, constraint::Constraint, error::Class, tokenizer::numbers, view};

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
    states: Arc<States>,
    row_len: usize,
    end_id: TokenId,
    reject_id: TokenId,
    state_bytes: usize,
}

/// One sequence of an engine, with the walk along it.
#[pyclass(module = "unskew")]
#[derive(Debug)]
pub(crate) struct Walk {
    walk: samplers::Walk<Compiled>,
    state: Arc<State>,
    row_len: usize,
    end_id: TokenId,
    reject_id: TokenId,
    /// The last answer: after it, the walk is over.
    over: Option<TokenId>,
    /// Why the walk is over although it was not rejected.
    error: Option<String>,
}

#[pymethods]
impl Faithful {
    #[new]
    #[pyo3(signature = (compiler, *, end_id=None, reject_id=None, max_bytes=MAX_BYTES, state_bytes=STATE_BYTES))]
    fn new(
        compiler: Py<Compiler>,
        end_id: Option<u32>,
        reject_id: Option<u32>,
        max_bytes: usize,
        state_bytes: usize,
    ) -> PyResult<Self> {
        let vocabulary = Arc::clone(compiler.get().tokens().vocabulary());
        let row_len = vocabulary.len();
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
            Some(id) => marks_rejections(&vocabulary, id)?,
            None => default_reject_id(&vocabulary).ok_or_else(|| {
                Class::Option
                    .error("no id is free to mark a rejection: name one as `reject_id` that no output needs")
            })?,
        };
        let states = Arc::new(States::new(max_bytes));
        Ok(Self { compiler, states, row_len, end_id, reject_id, state_bytes })
    }

    /// Begins a walk along a new sequence.
    #[pyo3(signature = (
        constraint, prompt, *, seed, max_tokens, mode="cars", temperature=1.0, reject_id=None, timeout=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
    fn begin(
        &self,
        py: Python<'_>,
        constraint: &Constraint,
        prompt: Vec<u32>,
        seed: u64,
        max_tokens: usize,
        mode: &str,
        temperature: f64,
        reject_id: Option<u32>,
        timeout: Option<f64>,
    ) -> PyResult<Walk> {
        let reject_id = match reject_id {
            Some(id) => marks_rejections(self.compiler.get().tokens().vocabulary(), id)?,
            None => self.reject_id,
        };
        let key = key(constraint, prompt, max_tokens, mode, temperature)?;
        let compiled = self.compiler.get().compiled(py, constraint, timeout)?;
        let (state, walk) = py.detach(|| {
            let state = match self.states.find(&key, Some(&compiled)) {
                Some(state) => state,
                None => self.insert(key, compiled)?,
            };
            let walk = self.states.begin(&state, seed);
            let walk = walk.map_err(|error| Class::Sample.error(error.to_string()))?;
            Ok::<_, PyErr>((state, walk))
        })?;
        let Self { row_len, end_id, .. } = *self;
        Ok(Walk { walk, state, row_len, end_id, reject_id, over: None, error: None })
    }

    /// The findings about a prompt and a constraint so far, as `Walk.stats`; None where no walk of them is known.
    #[pyo3(signature = (constraint, prompt, *, max_tokens, mode="cars", temperature=1.0))]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        constraint: &Constraint,
        prompt: Vec<u32>,
        max_tokens: usize,
        mode: &str,
        temperature: f64,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let key = key(constraint, prompt, max_tokens, mode, temperature)?;
        self.states.find(&key, None).map(|state| stats(py, &state)).transpose()
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
        py.detach(|| self.states.usage().0)
    }

    /// The memory of all that was learned, in bytes.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.states.usage().1)
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Faithful over rows of {} logits>", self.row_len)
    }
}

impl Faithful {
    fn insert(&self, key: Key, compiled: Compiled) -> PyResult<Arc<State>> {
        let vocabulary = Arc::clone(compiled.tokens().vocabulary());
        let task = Task::without_model(self.row_len, compiled.clone(), &vocabulary, key.max_tokens);
        let task = Task { max_bytes: self.state_bytes, ..task };
        let walks = Walks::new(task, key.mode, f64::from_bits(key.temperature));
        let walks = walks.map_err(|error| Class::Option.error(error.to_string()))?;
        let state = State::new(walks, compiled, &key);
        Ok(self.states.insert(key, state))
    }
}

#[pymethods]
impl Walk {
    /// Goes on with the row of logits after the tokens so far; answers with the id that the sequence has to be
    /// continued with.
    fn step(&mut self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<u32> {
        let mut read = Vec::with_capacity(self.row_len);
        view::logits(row, 1, self.row_len, &mut read)?;
        Ok(py.detach(|| self.next(&read)).0)
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

    /// Why the walk is over, where it was neither accepted nor rejected.
    #[getter]
    fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The findings about its prompt and constraint so far: a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats(py, &self.state)
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

    fn next(&mut self, row: &[f32]) -> TokenId {
        if let Some(id) = self.over {
            return id;
        }
        let id = match self.walk.step(row) {
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
        self.over = Some(id);
        id
    }
}

/// Goes on with many walks in one call, each with its row; answers with the id of each.
#[pyfunction]
pub(crate) fn step_walks(
    py: Python<'_>,
    mut walks: Vec<PyRefMut<'_, Walk>>,
    rows: &Bound<'_, PyAny>,
) -> PyResult<Vec<u32>> {
    let Some(row_len) = walks.first().map(|walk| walk.row_len) else { return Ok(Vec::new()) };
    let mut read = Vec::with_capacity(walks.len() * row_len);
    view::logits(rows, walks.len(), row_len, &mut read)?;
    let mut of: Vec<&mut Walk> = walks.iter_mut().map(|walk| &mut **walk).collect();
    // One after the other: what one of them learns, the next one knows, in the same order on every machine that
    // shares a batch.
    let step = || of.iter_mut().zip(read.chunks_exact(row_len)).map(|(walk, row)| walk.next(row).0).collect();
    Ok(py.detach(step))
}

fn key(
    constraint: &Constraint,
    prompt: Vec<u32>,
    max_tokens: usize,
    mode: &str,
    temperature: f64,
) -> PyResult<Key> {
    let mode = match mode {
        "cars" => WalkMode::Cars,
        "rejection" => WalkMode::Rejection,
        "weights" => WalkMode::Weights,
        "twist" => WalkMode::Twisted,
        _ => {
            let message =
                format!("there is no mode `{mode}`: take `cars`, `rejection`, `weights` or `twist`");
            return Err(Class::Option.error(message));
        }
    };
    if max_tokens > MAX_TOKENS {
        let message = format!("`max_tokens` is {max_tokens}: give at most {MAX_TOKENS}");
        return Err(Class::Option.error(message));
    }
    let spec = constraint.spec.to_json();
    Ok(Key { spec, prompt, mode, max_tokens, temperature: temperature.to_bits() })
}

fn stats<'py>(py: Python<'py>, state: &State) -> PyResult<Bound<'py, PyDict>> {
    let stats = py.detach(|| state.walks.stats());
    let answer = PyDict::new(py);
    answer.set_item("tries", stats.tries)?;
    answer.set_item("accepted", stats.accepted)?;
    answer.set_item("log_estimate", stats.log_estimate)?;
    answer.set_item("relative_error", stats.relative_error)?;
    answer.set_item("log_bound", stats.log_bound)?;
    answer.set_item("prefixes", stats.usage.prefixes)?;
    answer.set_item("bytes", stats.usage.trie_bytes + stats.usage.row_bytes)?;
    Ok(answer)
}

/// The id, if it can mark rejections.
fn marks_rejections(vocabulary: &Vocabulary, id: u32) -> PyResult<TokenId> {
    let (id, len) = (TokenId(id), vocabulary.len());
    if id.index() < len && !vocabulary.is_end_of_sequence(id) {
        return Ok(id);
    }
    Err(Class::Option.error(format!("`reject_id` is {id}: give an id below {len} that ends no sequence")))
}

/// An id that no output needs: a byte that is in no text of UTF-8 comes before control tokens, which prompts and
/// grammars name.
fn default_reject_id(vocabulary: &Vocabulary) -> Option<TokenId> {
    let never = |bytes: &[u8]| matches!(bytes, [0xc0 | 0xc1 | 0xf5..=0xff]);
    let byte = vocabulary.text_tokens().filter(|(_, bytes)| never(bytes)).map(|(id, _)| id).last();
    byte.or_else(|| {
        let mut all = (0..vocabulary.len()).rev().map(TokenId::from_index);
        let free =
            |id: &TokenId| vocabulary.kind(*id) == TokenKind::Control && !vocabulary.is_end_of_sequence(*id);
        all.find(free)
    })
}
