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
    capture: engine::Capture,
}

#[pymethods]
impl Capture {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.capture.name
    }

    /// The text.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.capture.text)
    }

    /// Its first byte in the output, and the one after its last.
    #[getter]
    fn byte_span(&self) -> (usize, usize) {
        (self.capture.bytes.start, self.capture.bytes.end)
    }

    /// The first token that has a byte of it, and the one after the last.
    #[getter]
    fn token_span(&self) -> (usize, usize) {
        (self.capture.tokens.start, self.capture.tokens.end)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.name()).repr()?.to_string();
        let text = self.text(py).repr()?.to_string();
        Ok(format!(
            "<unskew.Capture {name} {text} byte_span={:?} token_span={:?}>",
            self.byte_span(),
            self.token_span()
        ))
    }
}

/// Captures for Python. `None`: the output is not whole.
pub(crate) fn of_result(
    captures: Result<Vec<engine::Capture>, CaptureError>,
    class: Class,
) -> PyResult<Option<Vec<Capture>>> {
    match captures {
        Ok(captures) => Ok(Some(captures.into_iter().map(|capture| Capture { capture }).collect())),
        Err(CaptureError::Unfinished) => Ok(None),
        Err(error) => Err(class.error(error.to_string())),
    }
}
