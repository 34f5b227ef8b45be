//! Parts of outputs that a constraint names: `unskew.Capture`.

use pyo3::{
    prelude::*,
    types::{PyBytes, PyString},
};
use unskew::engine::{self, CaptureError};

use crate::error::Class;

/// A part of an output that the constraint names.
#[pyclass(frozen, eq, module = "unskew")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Capture {
    /// The name.
    #[pyo3(get)]
    name: String,
    text: Vec<u8>,
    /// Its first byte in the output, and the one after its last.
    #[pyo3(get)]
    byte_span: (usize, usize),
    /// The first token that has a byte of it, and the one after the last.
    #[pyo3(get)]
    token_span: (usize, usize),
}

/// A capture as pickle keeps it.
pub(crate) type Parts = (String, Vec<u8>, (usize, usize), (usize, usize));

impl Capture {
    pub(crate) fn parts(&self) -> Parts {
        (self.name.clone(), self.text.clone(), self.byte_span, self.token_span)
    }

    pub(crate) fn of_parts((name, text, byte_span, token_span): Parts) -> Self {
        Self { name, text, byte_span, token_span }
    }
}

#[pymethods]
impl Capture {
    /// The text.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.text)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, &self.name).repr()?.to_string();
        let text = self.text(py).repr()?.to_string();
        Ok(format!(
            "<unskew.Capture {name} {text} byte_span={:?} token_span={:?}>",
            self.byte_span, self.token_span
        ))
    }
}

/// Captures, or why they are not known. `None`: the output is not whole.
pub(crate) fn told(
    captures: Result<Vec<engine::Capture>, CaptureError>,
) -> Result<Option<Vec<Capture>>, String> {
    match captures {
        Ok(captures) => {
            let made = captures.into_iter().map(|capture| Capture {
                name: capture.name.to_string(),
                text: capture.text,
                byte_span: (capture.bytes.start, capture.bytes.end),
                token_span: (capture.tokens.start, capture.tokens.end),
            });
            Ok(Some(made.collect()))
        }
        Err(CaptureError::Unfinished) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Captures for Python. `None`: the output is not whole.
pub(crate) fn of_result(
    captures: Result<Vec<engine::Capture>, CaptureError>,
    class: Class,
) -> PyResult<Option<Vec<Capture>>> {
    told(captures).map_err(|why| class.error(why))
}
