//! Models: a checkpoint that runs here, or rows that JavaScript has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use unskew::{
    core::{Extension, FnModel, LanguageModel, Logits, Rows, TokenId},
    runner::LoadOptions,
};
use wasm_bindgen::prelude::*;

use crate::{Tokenizer, fault::Fault};

type ByPrefix = HashMap<Vec<TokenId>, Box<[f32]>>;

/// The rows that JavaScript has given for the next pass, by their prefixes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(Arc<Mutex<ByPrefix>>);

impl Given {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ByPrefix> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A language model with its tokens.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) model: unskew::Model,
    /// Where the rows are a function of JavaScript.
    pub(crate) given: Option<Given>,
}

#[wasm_bindgen]
impl Model {
    /// A checkpoint: config.json, tokenizer.json and model.safetensors.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `model` or `tokenizer`.
    #[wasm_bindgen(js_name = fromCheckpoint)]
    pub fn from_checkpoint(config: &str, tokenizer: &[u8], weights: &[u8]) -> Result<Model, Fault> {
        let model = unskew::Model::from_bytes(config, tokenizer, weights, &mut LoadOptions::default());
        Ok(Self { model: model?, given: None })
    }

    /// A model whose rows are given, pass by pass.
    ///
    /// # Errors
    ///
    /// None: a row is as long as the vocabulary.
    pub fn given(tokenizer: &Tokenizer) -> Result<Model, Fault> {
        let given = Given::default();
        let rows = given.clone();
        let row_of = move |prefix: &[TokenId], row: &mut [f32]| match rows.lock().get(prefix) {
            Some(given) => row.copy_from_slice(given),
            // The row after a prompt is read with the prompt, and looked at where it was asked for. A sampler that
            // looked at this one would fail.
            None => row.fill(f32::NAN),
        };
        let model = FnModel::new(tokenizer.size(), row_of);
        let model = unskew::Model::new(model, Arc::clone(&tokenizer.tokens))?;
        Ok(Self { model, given: Some(given) })
    }

    /// The row after `tokens`.
    ///
    /// # Errors
    ///
    /// A [`Fault`] of kind `argument` where JavaScript has the rows and for an id beyond the vocabulary, and `model`
    /// where the model fails.
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>, Fault> {
        if self.given.is_some() {
            return Err(Fault::argument("the rows of this model are a function of yours: call it"));
        }
        let ids = self.tokenizer().known(tokens)?;
        let mut model = self.model.any_model().clone();
        let mut sequence = model.start();
        let mut logits = Logits::new();
        let extension = Extension { sequence: &mut sequence, tokens: &ids, rows: Rows::Last };
        model
            .extend(&mut [extension], &mut logits)
            .map_err(|error| Fault::new("model", unskew::chain(&error)))?;
        Ok(logits.row(0).to_vec())
    }

    /// Its tokens.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn tokenizer(&self) -> Tokenizer {
        Tokenizer { tokens: Arc::clone(self.model.tokens()) }
    }
}
