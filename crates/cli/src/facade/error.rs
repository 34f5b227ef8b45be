//! Why the facade has no model, no constraint or no output.

use std::{
    error::Error as StdError,
    path::{Path, PathBuf},
};

use unskew_samplers::{
    SampleError, TemperatureError, TrieFileError, TruncationError, speculative::SpeculationError,
};

use super::{AnyModelError, MethodError, SpecError};

/// An error of a part, of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Parts that are right by themselves and do not go together. Names of options stand between backticks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub String);

/// Why the facade has no model, no constraint or no output.
///
/// Names of options stand between backticks, as in [`SpecOptions`](super::SpecOptions).
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
    /// A part that this program was built without.
    #[error("{what} needs the feature `{feature}` of unskew, and this program was built without it")]
    NotBuilt {
        /// The part.
        what: &'static str,
        /// The feature.
        feature: &'static str,
    },
}

/// The result of the facade.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(path: &Path, source: impl Into<BoxError>) -> Self {
        Self::File { path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn tokens(source: impl Into<BoxError>) -> Self {
        Self::Tokens(source.into())
    }

    pub(crate) fn constraint(source: impl Into<BoxError>) -> Self {
        Self::Constraint(source.into())
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

/// An error and its sources as one line.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        // A transparent error repeats its source.
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
