//! Why there is no constraint.

use std::{
    error::Error as StdError,
    path::{Path, PathBuf},
    sync::Arc,
};

use unskew_automata::RegexError;
use unskew_grammar::{GrammarError, SyntaxError};
use unskew_schema::SchemaError;

use crate::{SpecError, tag::TagError};

/// An error of a part, of any type.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Parts that are right by themselves and do not go together. Names of options stand between backticks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub String);

/// Why there is no constraint. The message is one line: the place, the reason and the way out.
///
/// Names of options stand between backticks, as in [`SpecOptions`](crate::SpecOptions).
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
    /// A tokenizer that cannot be loaded, or a text that it cannot spell.
    #[error(transparent)]
    Tokens(BoxError),
    /// A constraint that cannot be compiled.
    #[error(transparent)]
    Constraint(BoxError),
    /// Options of a constraint that do not belong together.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Parts that do not go together.
    #[error(transparent)]
    Combination(#[from] Mismatch),
    /// The caller asked for the end.
    #[error("cancelled")]
    Cancelled,
    /// The fuel that the caller gave was used up.
    #[error(
        "compiling the constraint takes more than {limit} units of fuel; make it smaller, or give it more fuel"
    )]
    Fuel {
        /// The fuel that the caller gave.
        limit: u64,
    },
    /// The time that the caller gave was over.
    #[error("the constraint was not compiled by its deadline; make it smaller, or give it more time")]
    Deadline,
}

/// The result of functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Where in the text of a constraint it is, for people: a line and a column, a JSON pointer, or the option.
    pub fn place(&self) -> Option<String> {
        match self {
            Self::File { path, source } => {
                let place = place(&**source).map_or_else(String::new, |place| format!(", {place}"));
                Some(format!("{}{place}", path.display()))
            }
            Self::Constraint(source) => place(&**source),
            Self::Spec(error) => error.place(),
            _ => None,
        }
    }

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

/// Where in the text of a constraint an error of a part is: a line and a column, or a JSON pointer.
pub fn place(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let place = if let Some(shared) = error.downcast_ref::<Arc<Error>>() {
            shared.place()
        } else if let Some(error) = error.downcast_ref::<GrammarError>() {
            error.location().map(|place| place.to_string())
        } else if let Some(error) = error.downcast_ref::<SyntaxError>() {
            Some(error.location.to_string())
        } else if let Some(error) = error.downcast_ref::<SchemaError>() {
            error.pointer().filter(|pointer| !pointer.is_empty()).map(str::to_owned)
        } else if let Some(error) = error.downcast_ref::<TagError>() {
            Some(error.pointer.clone()).filter(|pointer| !pointer.is_empty())
        } else {
            let error = error.downcast_ref::<RegexError>();
            error
                .and_then(RegexError::place)
                .map(|place| format!("line {}, column {}", place.line, place.column))
        };
        if place.is_some() {
            return place;
        }
        next = error.source();
    }
    None
}
