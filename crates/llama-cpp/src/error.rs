//! Why a model of llama.cpp does not load, or does not evaluate a batch.

use std::path::PathBuf;

use unskew_core::BatchError;

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
    /// The batch is refused. The limit on a sequence is that of the options.
    #[error(transparent)]
    Batch(#[from] BatchError),
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
