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
pub(crate) mod draw;
mod source;
pub(crate) mod stream;
mod worker;

use std::{sync::Arc, time::Duration};

use pyo3::{
    exceptions::{PyTypeError, PyUserWarning},
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use unskew::{Draft, Event, METHODS, Method, Output, Prompt, Request, Spec, TokenSpace, core::Cancel};

use self::{
    draw::Draw,
    source::Source,
    worker::{Ask, Asked, Drawing, Question, Worker},
};
use crate::{
    constraint::{Constraint, end_of},
    error::{Class, of_facade},
    tokenizer::{Tokenizer, numbers},
    typed::{Given, Reader},
    view,
};

/// The largest batch: each sequence of it holds a row of logits.
const MAX_BATCH: usize = 65_536;

/// What a sampler gives.
enum Drawn {
    /// Tokens, the prompt among them, of the sequence that is under way.
    Appended(Vec<u32>),
    Output(Box<Draw>),
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
    /// Called with the sampler and the number of its outputs.
    progress: Option<Py<PyAny>>,
    drawn: usize,
    /// The tokens of the prompt, where those of passes are told.
    prompt_len: usize,
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
        loop {
            match self.next_event(py, false)? {
                None => return Ok(None),
                Some(Drawn::Appended(_)) => {}
                Some(Drawn::Output(draw)) => return Ok(Some(*draw)),
            }
        }
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
    /// What comes next: an output, or tokens of one that is under way. None: there are no more. `is_under_way`: an
    /// output was asked for already.
    fn next_event(&mut self, py: Python<'_>, is_under_way: bool) -> PyResult<Option<Drawn>> {
        // An error ends the iterator: the worker is dropped.
        let Some(worker) = self.worker.take() else { return Ok(None) };
        if !is_under_way {
            worker.want()?;
        }
        let (output, log_mass) = loop {
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
                Question::Output(output, log_mass) => break (output, log_mass),
                Question::Appended(ids) => {
                    self.worker = Some(worker);
                    return Ok(Some(Drawn::Appended(ids)));
                }
                Question::Ready(_) | Question::Progress(..) | Question::Audited(_) => {}
            }
        };
        self.log_mass = log_mass;
        let Some((prompt, output)) = output else { return Ok(None) };
        // Of several prompts an error ends the outputs of one.
        if self.is_each || output.is_ok() {
            self.worker = Some(worker);
        }
        let output = *output.map_err(|error| of_facade(&error))?;
        self.warn(py, &output)?;
        self.drawn += 1;
        if let Some(progress) = &self.progress {
            progress.call1(py, (&self.sampler, self.drawn))?;
        }
        let draw = Draw::new(output, prompt, &self.tokens, self.reader.clone());
        Ok(Some(Drawn::Output(Box::new(draw))))
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
    max_tokens: Option<i128>,
    batch: i128,
    temperature: f64,
    top_k: Option<i128>,
    top_p: Option<f64>,
    time_limit: Option<f64>,
}

impl Options {
    /// A request for outputs of a model.
    fn request(self, source: &Source<'_>, ask: &Ask) -> PyResult<Request> {
        let batch = usize::try_from(self.batch).ok().filter(|batch| (1..=MAX_BATCH).contains(batch));
        let batch = batch.ok_or_else(|| {
            Class::Option.error(format!("`batch` is {}: give 1 to {MAX_BATCH}", self.batch))
        })?;
        let time_limit = self.time_limit.map(seconds).transpose()?;
        let request = source.model(Asked::Model, ask)?.prompt("").after(self.prompt);
        let request = request.map_err(|error| of_facade(&error))?;
        let truncate = match (count::<usize>("top_k", self.top_k)?, self.top_p) {
            (None, None) => None,
            (k, p) => Some(unskew::Truncate::top(k, p).map_err(|error| of_facade(&error))?),
        };
        Ok(request
            .temperature(self.temperature)
            .truncate(truncate.map(unskew::Truncate::BeforeMask))
            .max_tokens(count::<usize>("max_tokens", self.max_tokens)?)
            .batch(batch)
            .time_limit(time_limit)
            .cancel(ask.cancel().clone()))
    }
}

/// A number from 0 on that `T` has room for.
fn count<T: TryFrom<i128>>(name: &str, given: Option<i128>) -> PyResult<Option<T>> {
    let why = |given| Class::Option.error(format!("`{name}` is {given}: give a number from 0 to 2^64 - 1"));
    given.map(|given| T::try_from(given).map_err(|_| why(given))).transpose()
}

/// What is called with a sampler and the number of its outputs: a function of the caller, or for `True` a line on
/// standard error.
fn progress_of(given: Option<Bound<'_, PyAny>>, outputs: Option<usize>) -> PyResult<Option<Py<PyAny>>> {
    let Some(given) = given else { return Ok(None) };
    match given.extract::<bool>() {
        Ok(true) => {
            let line = given.py().import("unskew._audit")?.getattr("Line")?.call1((outputs,))?;
            Ok(Some(line.unbind()))
        }
        Ok(false) => Ok(None),
        Err(_) if given.is_callable() => Ok(Some(given.unbind())),
        Err(_) => Err(PyTypeError::new_err(
            "`progress` is True, or a function of a sampler and the number of its outputs",
        )),
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
    top_k=None, top_p=None, draft=None, progress=None, end=None, time_limit=None
))]
#[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
pub(crate) fn sample(
    py: Python<'_>,
    logits: Bound<'_, PyAny>,
    constraint: Option<Given>,
    tokenizer: Option<&Tokenizer>,
    n: Option<i128>,
    sampler: &str,
    seed: Option<i128>,
    prompt: Option<&Bound<'_, PyAny>>,
    max_tokens: Option<i128>,
    batch: i128,
    temperature: f64,
    top_k: Option<i128>,
    top_p: Option<f64>,
    draft: Option<Bound<'_, PyAny>>,
    progress: Option<Bound<'_, PyAny>>,
    end: Option<&str>,
    time_limit: Option<f64>,
) -> PyResult<Draws> {
    let asked = Wanted {
        n,
        sampler,
        seed,
        prompt,
        max_tokens,
        batch,
        temperature,
        top_k,
        top_p,
        draft,
        progress,
        end,
        time_limit,
    };
    begin(py, &logits, constraint, tokenizer, asked, false)
}

/// The options of `sample`.
struct Wanted<'a, 'py> {
    n: Option<i128>,
    sampler: &'a str,
    seed: Option<i128>,
    prompt: Option<&'a Bound<'py, PyAny>>,
    max_tokens: Option<i128>,
    batch: i128,
    temperature: f64,
    top_k: Option<i128>,
    top_p: Option<f64>,
    draft: Option<Bound<'py, PyAny>>,
    progress: Option<Bound<'py, PyAny>>,
    end: Option<&'a str>,
    time_limit: Option<f64>,
}

/// Begins to draw. `tells`: of the tokens of each pass.
fn begin<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyAny>,
    constraint: Option<Given>,
    tokenizer: Option<&Tokenizer>,
    asked: Wanted<'_, 'py>,
    tells: bool,
) -> PyResult<Draws> {
    let Wanted {
        n,
        sampler,
        seed,
        prompt,
        max_tokens,
        batch,
        temperature,
        top_k,
        top_p,
        draft,
        progress,
        end,
        time_limit,
    } = asked;
    let source = Source::of(logits, tokenizer.map(|tokenizer| &tokenizer.tokens))?;
    let method = method(sampler)?;
    let vocab_len = source.tokens().vocabulary().len();
    let (ask, worker) = worker::channels(Cancel::default());
    let prompts = source.prompts(prompt)?;
    let first = match &prompts {
        None => source.prompt(prompt)?,
        // A constraint is checked with a prompt, which an empty text is not for every model.
        Some(prompts) => prompts.first().cloned().unwrap_or_else(|| "".into()),
    };
    let n = count::<usize>("n", n)?;
    let progress = progress_of(progress, n)?;
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
    let mut request = options.request(&source, &ask)?.seed(count::<u64>("seed", seed)?).draft(drafts);
    if let Some(n) = n {
        request = request.outputs(n);
    }
    let mut prompt_len = 0;
    if tells {
        prompt_len = request.start().map_err(|error| of_facade(&error))?.prompt.len();
        let ask = ask.clone();
        request = request.observe(move |event| {
            if let Event::Evaluated { appended, .. } = event {
                ask.tell(Question::Appended(numbers(appended)));
            }
        });
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
                progress,
                drawn: 0,
                prompt_len,
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
