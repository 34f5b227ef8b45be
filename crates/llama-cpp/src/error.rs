//! Why a model of llama.cpp does not load, or does not evaluate a batch.

use std::path::PathBuf;

/// Why a GGUF file does not become a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is no GGUF file, or a damaged one. llama.cpp has not seen it.
    #[cfg(feature = "llama-cpp")]
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: unskew_vocab::GgufError,
    },
    /// llama.cpp refuses the file.
    #[error("{}: llama.cpp does not load the model: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Its own words.
        reason: String,
    },
    /// llama.cpp has no memory for the cache of the model.
    #[error("llama.cpp makes no context with a cache of {cells} tokens: {reason}; take smaller `Options`")]
    Context {
        /// The tokens that the cache was to hold.
        cells: usize,
        /// Its own words.
        reason: String,
    },
    /// Options that no model can have.
    #[error("options of llama.cpp: {reason}")]
    Options {
        /// The reason.
        reason: String,
    },
    /// llama.cpp is in use by another part of the program, which has not given it back.
    #[error("another part of this program has initialised llama.cpp; only one can")]
    InUse,
}

/// An error of evaluating a batch. No sequence of the batch has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlamaCppError {
    /// Logits are wanted for an empty sequence.
    #[error("item {item} of the batch asks for logits after an empty sequence; append a token first")]
    EmptyContext {
        /// The item of the batch.
        item: usize,
    },
    /// A sequence would exceed the context.
    #[error(
        "item {item} of the batch would hold {len} tokens, the context is {context}; truncate it first, or open the model with a \
         larger `Options::context`"
    )]
    ContextFull {
        /// The item of the batch.
        item: usize,
        /// The length that the sequence would have.
        len: usize,
        /// The limit.
        context: usize,
    },
    /// A token id is outside the vocabulary.
    #[error(
        "item {item} of the batch appends token {token}, but ids end below {vocab_len}; check the tokenizer"
    )]
    UnknownToken {
        /// The item of the batch.
        item: usize,
        /// The id.
        token: u32,
        /// The length of the vocabulary.
        vocab_len: usize,
    },
    /// A sequence was started by another model.
    #[error("item {item} of the batch was started by another model; start it with this one")]
    ForeignSequence {
        /// The item of the batch.
        item: usize,
    },
    /// One sequence alone does not fit into the cache of llama.cpp.
    #[error(
        "llama.cpp has no room in its cache for {tokens} more tokens of one sequence; open the model with more `Options::cells`"
    )]
    NoRoom {
        /// The tokens of the pass.
        tokens: usize,
    },
    /// llama.cpp failed.
    #[error("llama.cpp failed to evaluate a batch: {reason}")]
    Failed {
        /// Its own words.
        reason: String,
    },
}
