//! The text of one output while it is drawn: `unskew.stream`.
//!
//! A sampler that may give up what it has begun has no text under way that stands. `masked` and `greedy` keep each
//! token, and are the only ones here. What they write follows the mask, and not the model's own distribution.

use pyo3::prelude::*;

use super::{Drawn, Draws, Wanted, begin, draw::Draw};
use crate::{error::Class, tokenizer::Tokenizer, typed::Given};

/// An iterator over the pieces of a text.
#[pyclass(module = "unskew")]
#[derive(Debug)]
pub(crate) struct Stream {
    draws: Draws,
    is_begun: bool,
    /// The tokens so far, those of the prompt among them.
    ids: Vec<u32>,
    /// The text that was given.
    given: String,
    /// The output as `sample` gives it, once it is whole.
    draw: Option<Py<Draw>>,
}

#[pymethods]
impl Stream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<String>> {
        while self.draw.is_none() {
            let text = match self.draws.next_event(py, self.is_begun)? {
                None => return Ok(None),
                Some(Drawn::Appended(ids)) => {
                    self.ids.extend(ids);
                    self.text()
                }
                Some(Drawn::Output(draw)) => {
                    let text = draw.text().to_owned();
                    self.draw = Some(Py::new(py, *draw)?);
                    text
                }
            };
            self.is_begun = true;
            if let Some(piece) = text.strip_prefix(&*self.given).filter(|piece| !piece.is_empty()) {
                let piece = piece.to_owned();
                self.given = text;
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// The output as `sample` gives it, once its text was read to the end.
    #[getter]
    fn draw(&self, py: Python<'_>) -> PyResult<Py<Draw>> {
        let draw = self.draw.as_ref().map(|draw| draw.clone_ref(py));
        draw.ok_or_else(|| Class::Sample.error("the output is not whole yet: read the stream to its end"))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.draws.close();
    }

    /// Ends the drawing.
    fn close(&mut self) {
        self.draws.close();
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Stream {:?}>", self.given)
    }
}

impl Stream {
    /// The characters of the tokens so far. One whose bytes are not all there is left out.
    fn text(&self) -> String {
        let ids = self.ids.get(self.draws.prompt_len..).unwrap_or_default();
        let bytes = self.draws.tokens.vocabulary().decode(&crate::tokenizer::ids(ids));
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        String::from_utf8_lossy(&bytes[..whole]).into_owned()
    }
}

/// The text of one output as it is drawn.
#[pyfunction]
#[pyo3(signature = (
    logits, constraint, tokenizer=None, *, sampler="masked", seed=None, prompt=None, max_tokens=None, temperature=1.0, top_k=None,
    top_p=None, end=None, time_limit=None
))]
#[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
pub(crate) fn stream(
    py: Python<'_>,
    logits: Bound<'_, PyAny>,
    constraint: Option<Given>,
    tokenizer: Option<&Tokenizer>,
    sampler: &str,
    seed: Option<i128>,
    prompt: Option<&Bound<'_, PyAny>>,
    max_tokens: Option<i128>,
    temperature: f64,
    top_k: Option<i128>,
    top_p: Option<f64>,
    end: Option<&str>,
    time_limit: Option<f64>,
) -> PyResult<Stream> {
    if !["masked", "greedy"].contains(&sampler) {
        return Err(Class::Option.error(format!(
            "`sampler` is {sampler:?}: only \"masked\" and \"greedy\" keep each token that they draw; `sample` and `asample` give the \
             outputs of others as they come"
        )));
    }
    let (n, batch, draft, progress) = (Some(1), 1, None, None);
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
    let draws = begin(py, &logits, constraint, tokenizer, asked, true)?;
    if draws.is_each {
        return Err(Class::Option.error("a stream has one prompt: call it for each"));
    }
    Ok(Stream { draws, is_begun: false, ids: Vec::new(), given: String::new(), draw: None })
}
