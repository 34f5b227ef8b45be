//! The formats of files: `tokenizer.json` with the steps around its model, rank files, GGUF files, and the encodings
//! in them.

pub(crate) mod base64;
pub(crate) mod charsmap;
pub(crate) mod gguf;
pub(crate) mod json;
mod oniguruma;
pub(crate) mod pipeline;
pub(crate) mod rank_file;
