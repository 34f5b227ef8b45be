//! Why the facade has no model, no constraint or no output.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use unskew_engine::{BoxError, Mismatch, SpecError};
use unskew_samplers::{
    SampleError, TemperatureError, TrieFileError, TruncationError, speculative::SpeculationError,
};

use super::{AnyModelError, MethodError};

/// Why the facade has no model, no constraint or no output.
///
/// Names of options stand between backticks, as in [`SpecOptions`](unskew_engine::SpecOptions).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file, or a folder.
        path: PathBuf,
        /// The reason.
        source: BoxError,
    },
    /// A model that cannot be loaded, or cannot be evaluated.
    #[error(transparent)]
    Model(BoxError),
    /// A GGUF file whose model our own decoder does not know.
    #[cfg(feature = "runner")]
    #[error("{source}; llama.cpp may run it, with the feature `llama-cpp` of unskew")]
    NeedsLlamaCpp {
        /// The key, the tensor or the type that our own decoder does not know.
        source: unskew_runner::LoadError,
    },
    /// A tokenizer that cannot be loaded, or a text that it cannot spell.
    #[error(transparent)]
    Tokens(BoxError),
    /// A constraint that cannot be compiled.
    #[error(transparent)]
    Constraint(BoxError),
    /// Options of a constraint that do not belong together.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A method or a parameter of it.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// Parts that do not go together.
    #[error(transparent)]
    Combination(#[from] Mismatch),
    /// A draft that does not fit the model or the method.
    #[error(transparent)]
    Draft(#[from] SpeculationError),
    /// A temperature that is none.
    #[error(transparent)]
    Temperature(#[from] TemperatureError),
    /// A truncation that is none.
    #[error(transparent)]
    Truncation(#[from] TruncationError),
    /// Bytes that hold no bounds of this task.
    #[error(transparent)]
    Learned(#[from] TrieFileError),
    /// The sampler has no output.
    #[error(transparent)]
    Sample(SampleError<AnyModelError>),
    /// The [`Cancel`](unskew_core::Cancel) of the request asked for the end.
    #[error("cancelled")]
    Cancelled,
    /// The [time limit](super::Request::time_limit) is over.
    #[error("the `time_limit` of {seconds} seconds is over, after {outputs} outputs; {WITHIN_TIME}")]
    TimeLimit {
        /// The limit.
        seconds: f64,
        /// The outputs that were drawn before.
        outputs: u64,
    },
    /// A part that this program was built without.
    #[error("{what} needs the feature `{feature}` of unskew, and this program was built without it")]
    NotBuilt {
        /// The part.
        what: &'static str,
        /// The feature.
        feature: &'static str,
    },
}

/// The advice of [`Error::TimeLimit`].
const WITHIN_TIME: &str = "what costs least is `sampler` masked, whose outputs carry weights; twist is nearer to the model for as much";

/// The result of the facade.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(path: &Path, source: impl Into<BoxError>) -> Self {
        Self::File { path: path.to_owned(), source: source.into() }
    }

    /// Of a GGUF file that our own decoder does not run.
    #[cfg(feature = "runner")]
    pub(crate) fn of_gguf(source: unskew_runner::LoadError) -> Self {
        match source.is_beyond() {
            true => Self::NeedsLlamaCpp { source },
            false => Self::Model(source.into()),
        }
    }

    pub(crate) fn tokens(source: impl Into<BoxError>) -> Self {
        Self::Tokens(source.into())
    }

    pub(crate) fn combination(message: impl Into<String>) -> Self {
        Self::Combination(Mismatch(message.into()))
    }
}

impl From<SampleError<AnyModelError>> for Error {
    fn from(error: SampleError<AnyModelError>) -> Self {
        match error {
            SampleError::Cancelled => Self::Cancelled,
            other => Self::Sample(other),
        }
    }
}

impl From<Arc<unskew_engine::Error>> for Error {
    /// A compiler keeps errors for all that ask for the same.
    fn from(error: Arc<unskew_engine::Error>) -> Self {
        use unskew_engine::Error as Engine;
        match Arc::try_unwrap(error) {
            Ok(error) => error.into(),
            Err(shared) => match &*shared {
                Engine::Spec(source) => Self::Spec(source.clone()),
                Engine::Combination(source) => Self::Combination(source.clone()),
                Engine::Tokens(_) => Self::Tokens(shared.into()),
                _ => Self::Constraint(shared.into()),
            },
        }
    }
}

impl From<unskew_engine::Error> for Error {
    fn from(error: unskew_engine::Error) -> Self {
        use unskew_engine::Error as Engine;
        match error {
            Engine::File { path, source } => Self::File { path, source },
            Engine::Tokens(source) => Self::Tokens(source),
            Engine::Spec(source) => Self::Spec(source),
            Engine::Combination(source) => Self::Combination(source),
            Engine::Constraint(source) => Self::Constraint(source),
            other => Self::Constraint(other.into()),
        }
    }
}
