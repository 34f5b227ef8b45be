//! Models that run here or on a server: `unskew.Model` and `unskew.Endpoint`.
//!
//! A user with a GGUF file, the folder of a checkpoint or the address of a server needs neither torch nor a function of
//! rows: `sample` and `audit` take a model where they take a function. The models are those of the command line's
//! `--model`.

use std::{path::PathBuf, sync::Arc};

use pyo3::prelude::*;
use unskew::{ModelSource, endpoint, runner};

use crate::{
    error::{Class, guarded, of_facade},
    tokenizer::Tokenizer,
};

/// A language model that unskew runs: a GGUF file, the folder of a checkpoint, or `table:FILE`.
#[pyclass(frozen, subclass, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) model: unskew::Model,
    source: String,
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (source, *, tokenizer=None, quantize=None))]
    fn new(
        py: Python<'_>,
        source: PathBuf,
        tokenizer: Option<PathBuf>,
        quantize: Option<&str>,
    ) -> PyResult<Self> {
        let source = source.to_string_lossy().into_owned();
        let place = ModelSource::from(&*source);
        if matches!(place, ModelSource::Endpoint(_)) {
            return Err(Class::Option.error("the address of a server is an `unskew.Endpoint`"));
        }
        let quantization = match quantize {
            None => None,
            Some("q8_0") => Some(runner::Quantization::Q8_0),
            Some(other) => return Err(Class::Option.error(format!("`quantize` is {other:?}: give \"q8_0\""))),
        };
        let load = || {
            let mut options = runner::LoadOptions::default();
            options.quantization = quantization.unwrap_or(options.quantization);
            unskew::Model::load_with(&place, tokenizer.as_deref(), &mut options)
        };
        let model = guarded(|| py.detach(load).map_err(|error| of_facade(&error)))?;
        Ok(Self { model, source })
    }

    /// Its tokens.
    #[getter]
    fn tokenizer(&self) -> Tokenizer {
        Arc::clone(self.model.tokens()).into()
    }

    fn __repr__(&self) -> String {
        format!("<unskew.Model {}>", self.source)
    }
}

/// A model that a server runs: vLLM, SGLang, llama.cpp, Ollama, LM Studio, or any with OpenAI's interface.
#[pyclass(frozen, extends = Model, module = "unskew")]
#[derive(Debug)]
pub(crate) struct Endpoint;

#[pymethods]
impl Endpoint {
    #[new]
    #[pyo3(signature = (address, *, model=None, tokenizer=None, server=None, key=None, timeout=None, retries=None))]
    #[allow(clippy::too_many_arguments, reason = "each is an option by its name")]
    fn new(
        py: Python<'_>,
        address: String,
        model: Option<&str>,
        tokenizer: Option<PathBuf>,
        server: Option<&str>,
        key: Option<&str>,
        timeout: Option<u64>,
        retries: Option<u32>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut options = endpoint::Options::default();
        let (timeout, retries) = (timeout.map(|it| it.to_string()), retries.map(|it| it.to_string()));
        let given = [
            ("model", model),
            ("server", server),
            ("key", key),
            ("timeout", timeout.as_deref()),
            ("retries", retries.as_deref()),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                options.set(name, value).map_err(|error| Class::Option.error(unskew::chain(&error)))?;
            }
        }
        let connect = || unskew::Model::connect(&address, tokenizer.as_deref(), &options);
        let model = guarded(|| py.detach(connect).map_err(|error| of_facade(&error)))?;
        let base = Model { model, source: address };
        Ok(PyClassInitializer::from(base).add_subclass(Self))
    }

    fn __repr__(slf: PyRef<'_, Self>) -> String {
        format!("<unskew.Endpoint {}>", slf.as_super().source)
    }
}
