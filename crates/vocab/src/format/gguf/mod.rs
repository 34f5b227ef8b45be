//! GGUF files: the tokenizer that stands in their metadata. `unskew-gguf` reads the metadata.

mod pre_tokenizers;
mod tokenizer;

use unskew_gguf::GgufError;

use crate::TokenizerError;

impl From<GgufError> for TokenizerError {
    fn from(error: GgufError) -> Self {
        match error {
            GgufError::Read(error) => Self::Read(error),
            error => Self::Gguf(error),
        }
    }
}
