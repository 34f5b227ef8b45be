//! Outputs of a model that is a Python function, or one of ours: `unskew.sample`.
//!
//! The sampler works on a thread of its own without the interpreter lock, and the thread that asks for the next
//! output answers its questions ([`worker`]). So the function is always called on the thread of the caller, with its
//! context (torch's `no_grad`, a contextvar), an exception of it comes out of the iterator as it is, and Ctrl-C ends
//! the wait. The sampler rests while nobody asks for an output.
//!
//! Tried instead: the sampler on the caller's thread. It is then bound to one thread, since samplers of the facade
//! are, and an iteration on another thread is a panic.

pub(crate) mod audit;
mod source;
mod worker;

use std::{sync::Arc, time::Duration};

use pyo3::{
    exceptions::PyUserWarning,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use unskew::{Draft, METHODS, Method, Output, Prompt, Request, Spec, TokenSpace, core::Cancel};

use self::{
    source::Source,
    worker::{Ask, Asked, Drawing, Question, Worker},
};
use crate::{
    capture::{self, Capture},
    constraint::{Constraint, end_of},
    error::{Class, of_facade},
    tokenizer::{Tokenizer, numbers},
    typed::{self, Given, Reader},
    view,
};

/// The largest batch: each sequence of it holds a row of logits.
const MAX_BATCH: usize = 65_536;

/// One output.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Draw {
    output: Output,
    prompt: usize,
    tokens: Arc<TokenSpace>,
    reader: Option<Reader>,
}

impl Draw {
    /// The text with the names of control tokens in it, which marks of calls may be.
    fn whole_text(&self) -> String {
        let vocabulary = self.tokens.vocabulary();
        let bytes = self.output.ids.iter().flat_map(|id| match vocabulary.text(*id) {
            Some(text) => text.to_vec(),
            None => vocabulary.name(*id).as_bytes().to_vec(),
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }

    /// Refuses an output that was cut off, which is no output of the constraint.
    fn whole(&self) -> PyResult<String> {
        match self.output.finish.name() {
            "stop" => Ok(self.whole_text()),
            _ => Err(Class::Sample.error(format!(
                "the output was cut off after {} tokens, so that it has no value: raise `max_tokens`",
                self.output.ids.len()
            ))),
        }
    }
}

#[pymethods]
impl Draw {
    /// The ids, without the end of the sequence.
    #[getter]
    fn ids(&self) -> Vec<u32> {
        numbers(&self.output.ids)
    }

    /// The text, with replacement characters where it is not UTF-8.
    #[getter]
    fn text(&self) -> &str {
        &self.output.text
    }

    /// The value of the text, of the type that the constraint was made of; without one, the text.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.reader {
            Some(_) => typed::value(py, self.reader.as_ref(), &self.whole()?),
            None => typed::value(py, None, &self.output.text),
        }
    }

    /// The calls of tools in the text, each with its name and typed arguments.
    #[getter]
    fn calls(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        typed::calls(py, self.reader.as_ref(), &self.whole()?)
    }

    /// The natural logarithm of the probability that the model itself gives the output, its end included.
    #[getter]
    fn log_prob(&self) -> f64 {
        self.output.log_prob
    }

    /// The logarithm of the weight that an average over outputs must give this one; 0 for exact samplers.
    #[getter]
    fn log_weight(&self) -> f64 {
        self.output.log_weight
    }

    /// The place of its prompt among several; 0 of one.
    #[getter]
    fn prompt(&self) -> usize {
        self.prompt
    }

    /// How the output ended: `stop`, or `length` where it was cut off.
    #[getter]
    fn finish(&self) -> &'static str {
        self.output.finish.name()
    }

    /// How the sampler came by it: `proposed`, `accepted`, `resampled`, `chained` or `searched`.
    #[getter]
    fn origin(&self) -> &'static str {
        self.output.origin.name()
    }

    /// The parts of it that the constraint names; None where it was cut off.
    fn captures(&self) -> PyResult<Option<Vec<Capture>>> {
        let captures = self.output.captures.clone().unwrap_or(Ok(Vec::new()));
        capture::of_result(captures, Class::Sample)
    }

    /// Of an output that `disc` has resampled, how many equal proposals its proposals are worth: it is within
    /// ln(1 + 1 / effective) nats of the model's distribution, as far as their weights tell. None of others.
    #[getter]
    fn effective(&self) -> Option<f64> {
        self.output.effective
    }

    /// Positions that the model evaluated for it.
    #[getter]
    fn positions(&self) -> u64 {
        self.output.cost.positions
    }

    /// Calls of the model for it.
    #[getter]
    fn passes(&self) -> u64 {
        self.output.cost.passes
    }

    /// Outputs proposed for it, those given up half-way among them.
    #[getter]
    fn proposals(&self) -> u64 {
        self.output.cost.proposals
    }

    /// Tokens that a draft proposed and the model verified; 0 without drafts.
    #[getter]
    fn drafts_tested(&self) -> u64 {
        self.output.drafted.map_or(0, |drafted| drafted.drafts_tested)
    }

    /// Those of them that were accepted.
    #[getter]
    fn drafts_accepted(&self) -> u64 {
        self.output.drafted.map_or(0, |drafted| drafted.drafts_accepted)
    }

    /// What a table has of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("prompt", self.prompt)?;
        dict.set_item("text", self.text())?;
        dict.set_item("log_prob", self.log_prob())?;
        dict.set_item("log_weight", self.log_weight())?;
        dict.set_item("finish", self.finish())?;
        dict.set_item("origin", self.origin())?;
        dict.set_item("ids", self.ids())?;
        dict.set_item("passes", self.passes())?;
        dict.set_item("proposals", self.proposals())?;
        Ok(dict)
    }

    /// A line of a table.
    fn _repr_html_(&self) -> String {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let Output { text, log_prob, log_weight, .. } = &self.output;
        format!(
            "<pre style=\"margin:0\">{}</pre><small>log-probability {log_prob:.3}, log-weight {log_weight:.3}, {}</small>",
            escape(text),
            self.origin()
        )
    }

    fn __repr__(&self) -> String {
        let Output { text, log_prob, log_weight, .. } = &self.output;
        format!("<unskew.Draw {text:?} log_prob={log_prob:.4} log_weight={log_weight:.4}>")
    }
}

/// An iterator over outputs, which are drawn as they are asked for.
#[pyclass(module = "unskew")]
#[derive(Debug)]
pub(crate) struct Draws {
    /// None once there are no more.
    worker: Option<Worker>,
    /// The model, if it is a function.
    model: Option<Py<PyAny>>,
    /// The model that drafts, if it is a function.
    draft: Option<Py<PyAny>>,
    vocab_len: usize,
    /// Whether there are several prompts, of which an error ends one.
    is_each: bool,
    /// Whether a warning has told of outputs that were resampled.
    is_warned: bool,
    tokens: Arc<TokenSpace>,
    /// What makes values of outputs.
    reader: Option<Reader>,
    #[pyo3(get)]
    seed: u64,
    #[pyo3(get)]
    sampler: String,
    /// The sampler, the distribution of its outputs and, where it was chosen, the reason.
    #[pyo3(get)]
    explain: String,
    /// The natural logarithm of an estimate of P(constraint), the probability that the model satisfies the constraint
    /// by itself, from the outputs so far; None where the sampler gives none.
    #[pyo3(get)]
    log_mass: Option<f64>,
}

#[pymethods]
impl Draws {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Draw>> {
        let Some(worker) = self.worker.take() else { return Ok(None) };
        // An error ends the iterator: the worker is dropped. Of several prompts it ends the outputs of one.
        let Some((prompt, output)) = self.next_output(py, &worker)? else { return Ok(None) };
        if self.is_each || output.is_ok() {
            self.worker = Some(worker);
        }
        let output = *output.map_err(|error| of_facade(&error))?;
        self.warn(py, &output)?;
        let (tokens, reader) = (Arc::clone(&self.tokens), self.reader.clone());
        Ok(Some(Draw { output, prompt, tokens, reader }))
    }

    /// All outputs that are left.
    fn to_list<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(slf.py());
        for draw in slf.try_iter()? {
            list.append(draw?)?;
        }
        Ok(list)
    }

    /// All outputs that are left, as a table of pandas.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let pandas = slf.py().import("pandas")?;
        let rows = PyList::empty(slf.py());
        for draw in slf.try_iter()? {
            rows.append(draw?.call_method0("to_dict")?)?;
        }
        pandas.call_method1("DataFrame", (rows,))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, _error: &Bound<'_, PyTuple>) {
        self.close();
    }

    /// Ends the drawing. Outputs under way are given up.
    fn close(&mut self) {
        self.worker = None;
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Draws {}, seed {}>", self.explain, self.seed)
    }
}

impl Draws {
    /// The next output, with the place of its prompt.
    fn next_output(
        &mut self,
        py: Python<'_>,
        worker: &Worker,
    ) -> PyResult<Option<(usize, unskew::Result<Box<Output>>)>> {
        worker.want()?;
        loop {
            match worker.receive(py)? {
                Question::Rows(asked, prefixes) => {
                    let function = match asked {
                        Asked::Model => &self.model,
                        Asked::Draft => &self.draft,
                    };
                    let Some(function) = function else {
                        return Err(Class::Sample.error("nobody has the rows of this model"));
                    };
                    worker.give(rows(function.bind(py), &prefixes, self.vocab_len)?)?;
                }
                Question::Output(output, log_mass) => {
                    self.log_mass = log_mass;
                    return Ok(output);
                }
                Question::Ready(_) | Question::Progress(..) | Question::Audited(_) => {}
            }
        }
    }

    /// Tells once of outputs that are not quite of the model's distribution.
    fn warn(&mut self, py: Python<'_>, output: &Output) -> PyResult<()> {
        let Some(effective) = output.effective.filter(|_| !self.is_warned) else { return Ok(()) };
        self.is_warned = true;
        let text = format!(
            "an output was resampled from proposals that are worth {effective:.1} equal ones: it is within {:.2} nats of the \
             model's distribution (`draw.origin`, `draw.effective`); sampler=\"cars\" has no such outputs",
            (1.0 + 1.0 / effective).ln()
        );
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &std::ffi::CString::new(text).unwrap_or_default(), 1)
    }
}

/// The rows of the user's model after `prefixes`.
fn rows(model: &Bound<'_, PyAny>, prefixes: &[Vec<u32>], vocab_len: usize) -> PyResult<Vec<f32>> {
    let answer = model.call1((PyList::new(model.py(), prefixes)?,))?;
    let mut rows = Vec::with_capacity(prefixes.len() * vocab_len);
    view::logits(&answer, prefixes.len(), vocab_len, &mut rows)?;
    Ok(rows)
}

/// The common part of `sample` and `audit`.
struct Options {
    prompt: Prompt,
    max_tokens: Option<usize>,
    batch: usize,
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    time_limit: Option<f64>,
}

impl Options {
    /// A request for outputs of a model.
    fn request(self, source: &Source<'_>, ask: &Ask) -> PyResult<Request> {
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(Class::Option.error(format!("`batch` is {}: give 1 to {MAX_BATCH}", self.batch)));
        }
        let time_limit = self.time_limit.map(seconds).transpose()?;
        let request = source.model(Asked::Model, ask)?.prompt("").after(self.prompt);
        let request = request.map_err(|error| of_facade(&error))?;
        let truncate = match (self.top_k, self.top_p) {
            (None, None) => None,
            (k, p) => Some(unskew::Truncate::top(k, p).map_err(|error| of_facade(&error))?),
        };
        Ok(request
            .temperature(self.temperature)
            .truncate(truncate.map(unskew::Truncate::BeforeMask))
            .max_tokens(self.max_tokens)
            .batch(self.batch)
            .time_limit(time_limit)
            .cancel(ask.cancel().clone()))
    }
}

/// A time in seconds.
fn seconds(seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| Class::Option.error(format!("`time_limit` is {seconds}: give seconds above 0")))
}

/// The drafts that have a name.
fn named_draft(draft: &Bound<'_, PyAny>) -> Option<Draft> {
    match draft.extract::<String>().as_deref() {
        Ok("ngram") => Some(Draft::Ngram),
        Ok("counts") => Some(Draft::Counts),
        _ => None,
    }
}

/// The constraint of an option, with the end of its outputs.
fn spec_of(constraint: Option<&Constraint>, end: Option<&str>) -> PyResult<Spec> {
    let mut spec = constraint.map(|constraint| constraint.spec.clone()).unwrap_or_default();
    if let Some(end) = end {
        spec.end = Some(end_of(end)?);
    }
    Ok(spec)
}

/// A sampler, by its name with parameters.
fn method(name: &str) -> PyResult<Method> {
    name.parse().map_err(|error: unskew::MethodError| of_facade(&error.into()))
}

/// Outputs of the model `logits` under a constraint.
#[pyfunction]
#[pyo3(signature = (
    logits, constraint, tokenizer=None, *, n=None, sampler="auto", seed=None, prompt=None, max_tokens=None, batch=16, temperature=1.0,
    top_k=None, top_p=None, draft=None, end=None, time_limit=None
))]
#[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
pub(crate) fn sample(
    py: Python<'_>,
    logits: Bound<'_, PyAny>,
    constraint: Option<Given>,
    tokenizer: Option<&Tokenizer>,
    n: Option<usize>,
    sampler: &str,
    seed: Option<u64>,
    prompt: Option<&Bound<'_, PyAny>>,
    max_tokens: Option<usize>,
    batch: usize,
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    draft: Option<Bound<'_, PyAny>>,
    end: Option<&str>,
    time_limit: Option<f64>,
) -> PyResult<Draws> {
    let source = Source::of(&logits, tokenizer.map(|tokenizer| &tokenizer.tokens))?;
    let method = method(sampler)?;
    let vocab_len = source.tokens().vocabulary().len();
    let (ask, worker) = worker::channels(Cancel::default());
    let prompts = source.prompts(prompt)?;
    let first = match &prompts {
        None => source.prompt(prompt)?,
        // A constraint is checked with a prompt, which an empty text is not for every model.
        Some(prompts) => prompts.first().cloned().unwrap_or_else(|| "".into()),
    };
    let options = Options { prompt: first, max_tokens, batch, temperature, top_k, top_p, time_limit };
    let named = draft.as_ref().and_then(named_draft);
    let drafting = match &draft {
        Some(other) if named.is_none() => {
            let tokens = other.is_callable().then(|| source.tokens());
            Some(Source::of(other, tokens).map_err(|_| {
                Class::Option.error(
                    "`draft` is \"ngram\", \"counts\", an `unskew.Model`, or a function as `logits` is",
                )
            })?)
        }
        _ => None,
    };
    let drafts = match &drafting {
        Some(drafting) => Some(Draft::Model(drafting.model(Asked::Draft, &ask)?)),
        None => named,
    };
    let mut request = options.request(&source, &ask)?.seed(seed).draft(drafts);
    if let Some(n) = n {
        request = request.outputs(n);
    }
    request.check(&method).map_err(|error| of_facade(&error))?;
    let reader = constraint.as_ref().and_then(|constraint| constraint.reader.clone());
    let spec = spec_of(constraint.as_deref(), end)?;
    let is_each = prompts.is_some();
    worker.start(ask, move |ask| {
        worker::draw(ask, || {
            let request = request.constrain(spec)?;
            if let Some(prompts) = prompts {
                return request.sample_each_with(prompts, n.unwrap_or(1), method).map(Drawing::Each);
            }
            let draws = request.sample_with(method)?;
            Ok(Drawing::One(Box::new(match n {
                Some(n) => draws.take(n),
                None => draws,
            })))
        });
    })?;
    match worker.receive(py)? {
        Question::Ready(ready) => {
            let worker::Ready { seed, sampler, explain } = ready.map_err(|error| of_facade(&error))?;
            Ok(Draws {
                worker: Some(worker),
                model: source.function(),
                draft: drafting.and_then(|drafting| drafting.function()),
                vocab_len,
                is_each,
                is_warned: false,
                tokens: Arc::clone(source.tokens()),
                reader,
                seed,
                sampler,
                explain,
                log_mass: None,
            })
        }
        _ => Err(Class::Sample.error("the sampler did not start")),
    }
}

/// The samplers, with their parameters and the distributions of their outputs: a list of dicts.
#[pyfunction]
pub(crate) fn methods(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let rows = METHODS.iter().map(|row| {
        let answer = PyDict::new(py);
        answer.set_item("name", row.name)?;
        answer.set_item("help", row.help)?;
        answer.set_item("distribution", row.distribution)?;
        let parameters: Vec<_> = row.parameters.iter().map(|parameter| parameter.name).collect();
        answer.set_item("parameters", parameters)?;
        Ok(answer)
    });
    rows.collect()
}
