//! One output: `unskew.Draw`.
//!
//! It keeps what it tells and no model, so that it is pickled, sent to another process, or kept in a file.

use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyDict, PyTuple},
};
use unskew::{Output, TokenSpace};

use crate::{
    capture::{self, Capture, Parts},
    error::Class,
    tokenizer::numbers,
    typed::{self, Reader},
};

/// One output.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Draw {
    /// The ids, without the end of the sequence.
    #[pyo3(get)]
    ids: Vec<u32>,
    /// The text, with replacement characters where it is not UTF-8.
    #[pyo3(get)]
    text: String,
    /// The text with the names of control tokens in it, which marks of calls may be.
    whole: String,
    /// The natural logarithm of the probability that the model itself gives the output, its end included.
    #[pyo3(get)]
    log_prob: f64,
    /// The logarithm of the weight that an average over outputs must give this one; 0 for exact samplers.
    #[pyo3(get)]
    log_weight: f64,
    /// The place of its prompt among several; 0 of one.
    #[pyo3(get)]
    prompt: usize,
    /// How the output ended: `stop`, or `length` where it was cut off.
    #[pyo3(get)]
    finish: String,
    /// How the sampler came by it: `proposed`, `accepted`, `resampled`, `chained` or `searched`.
    #[pyo3(get)]
    origin: String,
    captures: Result<Option<Vec<Capture>>, String>,
    /// Of an output that `disc` has resampled, how many equal proposals its proposals are worth: it is within
    /// ln(1 + 1 / effective) nats of the model's distribution, as far as their weights tell. None of others.
    #[pyo3(get)]
    effective: Option<f64>,
    /// Positions that the model evaluated for it.
    #[pyo3(get)]
    positions: u64,
    /// Calls of the model for it.
    #[pyo3(get)]
    passes: u64,
    /// Outputs proposed for it, those given up half-way among them.
    #[pyo3(get)]
    proposals: u64,
    /// Tokens that a draft proposed and the model verified; 0 without drafts.
    #[pyo3(get)]
    drafts_tested: u64,
    /// Those of them that were accepted.
    #[pyo3(get)]
    drafts_accepted: u64,
    reader: Option<Reader>,
}

impl Draw {
    pub(super) fn new(output: Output, prompt: usize, tokens: &TokenSpace, reader: Option<Reader>) -> Self {
        let vocabulary = tokens.vocabulary();
        let bytes = output.ids.iter().flat_map(|id| match vocabulary.text(*id) {
            Some(text) => text.to_vec(),
            None => vocabulary.name(*id).as_bytes().to_vec(),
        });
        let whole = String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned();
        let (tested, accepted) =
            output.drafted.map_or((0, 0), |drafted| (drafted.drafts_tested, drafted.drafts_accepted));
        Self {
            ids: numbers(&output.ids),
            text: output.text,
            whole,
            log_prob: output.log_prob,
            log_weight: output.log_weight,
            prompt,
            finish: output.finish.name().to_owned(),
            origin: output.origin.name().to_owned(),
            captures: capture::told(output.captures.unwrap_or(Ok(Vec::new()))),
            effective: output.effective,
            positions: output.cost.positions,
            passes: output.cost.passes,
            proposals: output.cost.proposals,
            drafts_tested: tested,
            drafts_accepted: accepted,
            reader,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Refuses an output that was cut off, which is no output of the constraint.
    fn whole(&self) -> PyResult<&str> {
        match &*self.finish {
            "stop" => Ok(&self.whole),
            _ => Err(Class::Sample.error(format!(
                "the output was cut off after {} tokens, so that it has no value: raise `max_tokens`",
                self.ids.len()
            ))),
        }
    }
}

#[pymethods]
impl Draw {
    /// The value of the text, of the type that the constraint was made of; without one, the text.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.reader {
            Some(_) => typed::value(py, self.reader.as_ref(), self.whole()?),
            None => typed::value(py, None, &self.text),
        }
    }

    /// The calls of tools in the text, each with its name and typed arguments.
    #[getter]
    fn calls(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        typed::calls(py, self.reader.as_ref(), self.whole()?)
    }

    /// The parts of it that the constraint names; None where it was cut off.
    fn captures(&self) -> PyResult<Option<Vec<Capture>>> {
        self.captures.clone().map_err(|why| Class::Sample.error(why))
    }

    /// What a table has of it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("prompt", self.prompt)?;
        dict.set_item("text", &self.text)?;
        dict.set_item("log_prob", self.log_prob)?;
        dict.set_item("log_weight", self.log_weight)?;
        dict.set_item("finish", &self.finish)?;
        dict.set_item("origin", &self.origin)?;
        dict.set_item("ids", &self.ids)?;
        dict.set_item("passes", self.passes)?;
        dict.set_item("proposals", self.proposals)?;
        Ok(dict)
    }

    /// A line of a table.
    fn _repr_html_(&self) -> String {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let Self { text, log_prob, log_weight, origin, .. } = self;
        format!(
            "<pre style=\"margin:0\">{}</pre><small>log-probability {log_prob:.3}, log-weight {log_weight:.3}, {origin}</small>",
            escape(text)
        )
    }

    fn __repr__(&self) -> String {
        let Self { text, log_prob, log_weight, .. } = self;
        format!("<unskew.Draw {text:?} log_prob={log_prob:.4} log_weight={log_weight:.4}>")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, draw) = (slf.py(), slf.get());
        let texts = (&draw.text, &draw.whole, &draw.finish, &draw.origin);
        let logs = (draw.log_prob, draw.log_weight, draw.effective);
        let counts = [
            draw.prompt as u64,
            draw.positions,
            draw.passes,
            draw.proposals,
            draw.drafts_tested,
            draw.drafts_accepted,
        ];
        let captures = match &draw.captures {
            Ok(captures) => {
                let parts = captures.as_ref().map(|list| list.iter().map(Capture::parts).collect::<Vec<_>>());
                parts.into_bound_py_any(py)?
            }
            Err(why) => why.into_bound_py_any(py)?,
        };
        let reader = draw.reader.as_deref();
        let state = (&draw.ids, texts, logs, counts, captures, reader).into_pyobject(py)?;
        Ok((py.import("unskew._unskew")?.getattr("_draw")?, state))
    }
}

/// The captures of a draw, or why they are not known.
#[derive(FromPyObject)]
pub(crate) enum Told {
    Why(String),
    Parts(Option<Vec<Parts>>),
}

/// A draw from its parts: what pickle calls.
#[pyfunction]
pub(crate) fn _draw(
    ids: Vec<u32>,
    texts: (String, String, String, String),
    logs: (f64, f64, Option<f64>),
    counts: [u64; 6],
    captures: Told,
    reader: Option<Py<PyAny>>,
) -> Draw {
    let (text, whole, finish, origin) = texts;
    let (log_prob, log_weight, effective) = logs;
    let [prompt, positions, passes, proposals, drafts_tested, drafts_accepted] = counts;
    let captures = match captures {
        Told::Why(why) => Err(why),
        Told::Parts(parts) => Ok(parts.map(|parts| parts.into_iter().map(Capture::of_parts).collect())),
    };
    Draw {
        ids,
        text,
        whole,
        log_prob,
        log_weight,
        prompt: prompt as usize,
        finish,
        origin,
        captures,
        effective,
        positions,
        passes,
        proposals,
        drafts_tested,
        drafts_accepted,
        reader: reader.map(Reader::new),
    }
}
