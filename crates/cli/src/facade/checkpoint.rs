//! Transformers from the contents of files, for programs that have none: pages, and the embedded models.

use unskew_runner::{Llama, LoadOptions};
use unskew_vocab::Tokenizer;

use super::{
    AnyModel, Model,
    error::{Error, Result},
    model::{Kind, own_tokens},
};

impl Model {
    /// A transformer from the contents of the files of a checkpoint: config.json, tokenizer.json, and one file of
    /// weights (model.safetensors). For programs without files.
    ///
    /// Cost: weights become products that are ready to be computed, which are a second copy of them.
    ///
    /// # Errors
    ///
    /// [`Error`] as [`load_with`](Self::load_with).
    pub fn from_bytes(
        config: &str,
        tokenizer: &[u8],
        weights: &[u8],
        options: &mut LoadOptions<'_>,
    ) -> Result<Self> {
        let tokenizer = Tokenizer::from_bytes(tokenizer).map_err(Error::tokens)?;
        Self::of_bytes(config, tokenizer, weights, options)
    }

    pub(super) fn of_bytes(
        config: &str,
        tokenizer: Tokenizer,
        weights: &[u8],
        options: &mut LoadOptions<'_>,
    ) -> Result<Self> {
        let llama = Llama::from_bytes_with(config, weights, options);
        let llama = llama.map_err(|error| Error::Model(error.into()))?;
        let tokens = own_tokens(llama.config(), tokenizer, &[])?;
        Ok(Self::of_parts(AnyModel::new(llama), tokens, Kind::Transformer))
    }
}
