//! The tokens of a model: `unskew.Tokenizer`.

use std::sync::Arc;

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType},
};
use unskew::{
    TokenSpace,
    core::{TokenId, Vocabulary, words_for},
    engine, vocab,
};

use crate::error::{Class, guarded, of_engine};

/// The tokens of a model: which bytes each id stands for, and how a text becomes ids.
#[pyclass(frozen, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Tokenizer {
    pub(crate) tokens: Arc<TokenSpace>,
    /// The call that makes it again, for pickle; None of the tokens of a model.
    again: Option<Py<PyAny>>,
}

impl From<Arc<TokenSpace>> for Tokenizer {
    fn from(tokens: Arc<TokenSpace>) -> Self {
        Self { tokens, again: None }
    }
}

impl Tokenizer {
    /// The same, which pickle makes again by the method `name` with these arguments.
    fn again<'py>(
        self,
        py: Python<'py>,
        name: &str,
        arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
        vocab_size: usize,
        eos: Option<&[u32]>,
    ) -> PyResult<Self> {
        let options = PyDict::new(py);
        if vocab_size > 0 {
            options.set_item("vocab_size", vocab_size)?;
        }
        options.set_item("eos", eos)?;
        let arguments = (name,).into_pyobject(py)?.add(arguments.into_pyobject(py)?)?;
        let caller = py.import("operator")?.getattr("methodcaller")?;
        let again = caller.call(arguments.cast::<PyTuple>()?, Some(&options))?;
        Ok(Self { again: Some(again.unbind()), ..self })
    }
}

/// Ids as the library knows them.
pub(crate) fn ids(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

/// Ids as Python knows them.
pub(crate) fn numbers(ids: &[TokenId]) -> Vec<u32> {
    ids.iter().map(|id| id.0).collect()
}

fn refused(error: impl Into<unskew::BoxError>) -> PyErr {
    Class::Tokenizer.error(unskew::chain(&*error.into()))
}

/// Loads a tokenizer without the interpreter lock.
fn load(
    py: Python<'_>,
    vocab_size: usize,
    eos: Option<Vec<u32>>,
    load: impl FnOnce() -> Result<vocab::Tokenizer, vocab::TokenizerError> + Send,
) -> PyResult<Tokenizer> {
    let tokenizer = guarded(|| py.detach(load).map_err(refused))?;
    let end = ids(&eos.unwrap_or_default());
    let tokens =
        TokenSpace::from_tokenizer(tokenizer, &end, vocab_size).map_err(|error| of_engine(&error))?;
    Ok(Arc::new(tokens).into())
}

#[pymethods]
impl Tokenizer {
    /// Loads a `tokenizer.json`, a GGUF file, or the folder of a checkpoint, which says which tokens end a sequence.
    #[staticmethod]
    #[pyo3(signature = (path, *, vocab_size=0, eos=None))]
    fn from_file(
        py: Python<'_>,
        path: std::path::PathBuf,
        vocab_size: usize,
        eos: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let made = if path.is_dir() {
            let read = || unskew::folder_tokenizer(&path);
            let (tokenizer, end) = guarded(|| py.detach(read).map_err(refused))?;
            load(py, vocab_size, Some(eos.clone().unwrap_or_else(|| numbers(&end))), || Ok(tokenizer))
        } else {
            load(py, vocab_size, eos.clone(), || vocab::Tokenizer::from_file(&path))
        };
        made?.again(py, "from_file", (path.as_path(),), vocab_size, eos.as_deref())
    }

    /// Reads the text of a `tokenizer.json`.
    #[staticmethod]
    #[pyo3(signature = (text, *, vocab_size=0, eos=None))]
    fn from_json(
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        vocab_size: usize,
        eos: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let bytes = match text.cast::<PyString>() {
            Ok(text) => text.to_cow()?.into_owned().into_bytes(),
            Err(_) => text.extract::<Vec<u8>>()?,
        };
        let made = load(py, vocab_size, eos.clone(), move || vocab::Tokenizer::from_bytes(&bytes))?;
        made.again(py, "from_json", (text,), vocab_size, eos.as_deref())
    }

    /// The tokenizer of a `transformers` fast tokenizer, or one of the `tokenizers` package.
    #[staticmethod]
    #[pyo3(signature = (tokenizer, *, vocab_size=0, eos=None))]
    fn from_hf(
        py: Python<'_>,
        tokenizer: &Bound<'_, PyAny>,
        vocab_size: usize,
        eos: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let backend = tokenizer.getattr_opt("backend_tokenizer")?.unwrap_or_else(|| tokenizer.clone());
        if !backend.hasattr("to_str")? {
            return Err(PyTypeError::new_err(
                "from_hf takes a fast tokenizer of transformers, or a tokenizers.Tokenizer",
            ));
        }
        let text: String = backend.call_method0("to_str")?.extract()?;
        let eos = match (eos, tokenizer.getattr_opt("eos_token_id")?) {
            (Some(eos), _) => Some(eos),
            (None, Some(id)) if !id.is_none() => Some(vec![id.extract()?]),
            (None, _) => None,
        };
        let made = load(py, vocab_size, eos.clone(), || vocab::Tokenizer::from_bytes(text.as_bytes()))?;
        made.again(py, "from_json", (&text,), vocab_size, eos.as_deref())
    }

    /// Reads a rank file, as tiktoken has them, with its pattern and its special tokens.
    #[staticmethod]
    #[pyo3(signature = (ranks, pattern, special=Vec::new(), *, vocab_size=0, eos=None))]
    fn from_tiktoken(
        py: Python<'_>,
        ranks: Vec<u8>,
        pattern: String,
        special: Vec<(String, u32)>,
        vocab_size: usize,
        eos: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let made = load(py, vocab_size, eos.clone(), || {
            let special: Vec<_> = special.iter().map(|(name, id)| (&**name, *id)).collect();
            vocab::Tokenizer::from_rank_file(&ranks, &pattern, &special)
        })?;
        let ranks = PyBytes::new(py, &ranks);
        made.again(py, "from_tiktoken", (ranks, pattern, special), vocab_size, eos.as_deref())
    }

    /// A vocabulary alone: bytes of text tokens, names of control tokens, and None for unused ids.
    #[staticmethod]
    #[pyo3(signature = (tokens, *, eos))]
    fn from_vocabulary(py: Python<'_>, tokens: Vec<Bound<'_, PyAny>>, eos: Vec<u32>) -> PyResult<Self> {
        let mut builder = Vocabulary::builder();
        for token in &tokens {
            if token.is_none() {
                builder.unused();
            } else if let Ok(name) = token.cast::<PyString>() {
                builder.control(&name.to_cow()?);
            } else {
                builder.text(token.cast::<PyBytes>()?.as_bytes());
            }
        }
        for id in ids(&eos) {
            builder.end_of_sequence(id);
        }
        let vocabulary = builder.build().map_err(refused)?;
        let made: Self = Arc::new(TokenSpace::from_vocabulary(vocabulary)).into();
        made.again(py, "from_vocabulary", (PyList::new(py, tokens)?,), 0, Some(&eos))
    }

    /// How many ids there are: the length of a row of logits.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.tokens.vocabulary().len()
    }

    /// How many words of 32 bits a mask has.
    #[getter]
    fn mask_words(&self) -> usize {
        words_for(self.tokens.vocabulary().len())
    }

    /// The ids that end a sequence.
    #[getter]
    fn eos(&self) -> Vec<u32> {
        numbers(self.tokens.vocabulary().end_of_sequence())
    }

    /// What is unusual about how the file says that ids become text, if anything.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.tokens.notes().iter().map(ToString::to_string).collect()
    }

    /// The ids of a text in the middle of another, as of an output.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        let made = py.detach(|| self.tokens.encode_output(text));
        made.map(|ids| numbers(&ids)).map_err(|error| of_engine(&error))
    }

    /// The ids of a prompt, with those that the tokenizer puts in front of a text.
    fn encode_prompt(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        let made = py.detach(|| self.tokens.encode_prompt(text));
        made.map(|ids| numbers(&ids)).map_err(|error| of_engine(&error))
    }

    /// The text of an output, with replacement characters where it is not UTF-8.
    #[pyo3(name = "decode")]
    fn text(&self, ids: Vec<u32>) -> PyResult<String> {
        Ok(self.tokens.decode(&self.known(&ids)?))
    }

    /// The bytes of an output.
    fn decode_bytes<'py>(&self, py: Python<'py>, ids: Vec<u32>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.tokens.vocabulary().decode(&self.known(&ids)?)))
    }

    /// A tokenizer of a file is read again from its path.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyType>,))> {
        match &slf.get().again {
            Some(again) => Ok((again.bind(slf.py()).clone(), (slf.get_type(),))),
            None => Err(PyTypeError::new_err(
                "the tokens of a model are not pickled: make a `Tokenizer` of the model's file, or pickle its path",
            )),
        }
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Tokenizer of {} ids>", self.tokens.vocabulary().len())
    }
}

impl Tokenizer {
    fn known(&self, numbers: &[u32]) -> PyResult<Vec<TokenId>> {
        let ids = ids(numbers);
        let len = self.tokens.vocabulary().len();
        match ids.iter().find(|id| id.index() >= len) {
            Some(token) => {
                let error = engine::MatcherError::BeyondVocabulary { token: *token, len };
                Err(crate::error::of_matcher(&error))
            }
            None => Ok(ids),
        }
    }
}
