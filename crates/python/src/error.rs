//! From errors of the library to exceptions.
//!
//! The classes are in Python (`unskew/_errors.py`), because there a class can have two bases: `unskew.Error`, and the class of Python that
//! says the same.

use std::error::Error as StdError;

use pyo3::{prelude::*, sync::PyOnceLock, types::PyType};
use unskew::{
    Error, SpecError,
    automata::RegexError,
    chain, engine,
    engine::{MatcherError, tag::TagError},
    grammars::{GrammarError, SyntaxError},
    schema::SchemaError,
};

/// The module with the classes.
const MODULE: &str = "unskew._errors";

/// A class of exceptions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    Constraint,
    Deadline,
    Tokenizer,
    Matcher,
    Sample,
    Option,
}

impl Class {
    fn of(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 6] = [const { PyOnceLock::new() }; 6];
        let name = match self {
            Self::Constraint => "ConstraintError",
            Self::Deadline => "DeadlineError",
            Self::Tokenizer => "TokenizerError",
            Self::Matcher => "MatcherError",
            Self::Sample => "SampleError",
            Self::Option => "OptionError",
        };
        CLASSES[self as usize].import(py, MODULE, name)
    }

    /// An exception of this class.
    pub(crate) fn error(self, message: impl Into<String>) -> PyErr {
        self.with_place(message.into(), None)
    }

    fn with_place(self, message: String, place: Option<String>) -> PyErr {
        Python::attach(|py| {
            let made = self.of(py).and_then(|class| match place {
                Some(place) => class.call1((message, place)),
                None => class.call1((message,)),
            });
            made.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

/// Why there is no constraint.
pub(crate) fn of_engine(error: &engine::Error) -> PyErr {
    let message = chain(error);
    match error {
        engine::Error::Deadline => Class::Deadline.error(message),
        engine::Error::Tokens(_) => Class::Tokenizer.error(message),
        engine::Error::File { path, source } => {
            let place = place(&**source).map_or_else(String::new, |place| format!(", {place}"));
            Class::Constraint.with_place(message, Some(format!("{}{place}", path.display())))
        }
        engine::Error::Constraint(source) => Class::Constraint.with_place(message, place(&**source)),
        engine::Error::Spec(error) => of_spec(error),
        _ => Class::Constraint.error(message),
    }
}

/// Why options are no constraint.
pub(crate) fn of_spec(error: &SpecError) -> PyErr {
    let place = match error {
        SpecError::Value { option, .. } => Some(format!("`{option}`")),
        _ => None,
    };
    Class::Constraint.with_place(chain(error), place)
}

/// Why there are no outputs.
pub(crate) fn of_facade(error: &Error) -> PyErr {
    let message = chain(error);
    match error {
        Error::File { path, .. } => Class::Constraint.with_place(message, Some(path.display().to_string())),
        Error::Constraint(source) => Class::Constraint.with_place(message, place(&**source)),
        Error::Spec(error) => of_spec(error),
        Error::Tokens(_) => Class::Tokenizer.error(message),
        Error::Sample(_) | Error::Model(_) | Error::Cancelled => Class::Sample.error(message),
        _ => Class::Option.error(message),
    }
}

/// Wrong use of a matcher.
pub(crate) fn of_matcher(error: &MatcherError) -> PyErr {
    Class::Matcher.error(chain(error))
}

/// Where in the text of a constraint an error is: a line and a column, or a JSON pointer.
fn place(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let place = if let Some(error) = error.downcast_ref::<GrammarError>() {
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
