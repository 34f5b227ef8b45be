//! Why the facade has no model, no constraint or no output.

use std::{path::Path, sync::Arc};

use unskew_engine::{self as engine, BoxError, Mismatch};
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
    /// A file, a tokenizer or a constraint that cannot be used, or parts that do not go together.
    #[error(transparent)]
    Engine(#[from] Arc<engine::Error>),
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
    /// A method or a parameter of it.
    #[error(transparent)]
    Method(#[from] MethodError),
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
    /// An output that is no value of a type.
    #[error("the output is no such value: {0}")]
    Value(BoxError),
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
        engine::Error::File { path: path.to_owned(), source: source.into() }.into()
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
        engine::Error::Tokens(source.into()).into()
    }

    pub(crate) fn combination(message: impl Into<String>) -> Self {
        engine::Error::Combination(Mismatch(message.into())).into()
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

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        Self::Engine(Arc::new(error))
    }
}

impl From<engine::SpecError> for Error {
    fn from(error: engine::SpecError) -> Self {
        engine::Error::from(error).into()
    }
}
