//! From errors of the library to exceptions.
//!
//! The classes are in Python (`unskew/_errors.py`), because there a class can have two bases: `unskew.Error`, and the
//! class of Python that says the same.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use pyo3::{prelude::*, sync::PyOnceLock, types::PyType};
use unskew::{Error, SpecError, chain, engine, engine::MatcherError};

/// The module with the classes.
const MODULE: &str = "unskew._errors";

/// A class of exceptions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    Constraint,
    Deadline,
    Fuel,
    Tokenizer,
    Matcher,
    Sample,
    Option,
    Internal,
}

impl Class {
    fn of(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 8] = [const { PyOnceLock::new() }; 8];
        let name = match self {
            Self::Constraint => "ConstraintError",
            Self::Deadline => "DeadlineError",
            Self::Fuel => "FuelError",
            Self::Tokenizer => "TokenizerError",
            Self::Matcher => "MatcherError",
            Self::Sample => "SampleError",
            Self::Option => "OptionError",
            Self::Internal => "InternalError",
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

/// The answer of `work`, whose panic is an `InternalError`. pyo3's own exception for it is none of `Exception`, so
/// that it ends a server in the place of one request.
///
/// What `work` changes stays whole: a matcher puts a new state in the place of the old one, once it is made, and a
/// scratch whose last user has panicked is thrown away.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

fn of_panic(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
    Class::Internal.error(format!("a fault of unskew, and not of its caller: {text}"))
}

/// Panics, so that programs can test what they do then.
#[pyfunction]
pub(crate) fn _panic() -> PyResult<()> {
    guarded(|| panic!("asked for"))
}

/// Why there is no constraint.
pub(crate) fn of_engine(error: &engine::Error) -> PyErr {
    let message = chain(error);
    match error {
        engine::Error::Deadline => Class::Deadline.error(message),
        engine::Error::Fuel { .. } => Class::Fuel.error(message),
        engine::Error::Tokens(_) => Class::Tokenizer.error(message),
        _ => Class::Constraint.with_place(message, error.place()),
    }
}

/// Why options are no constraint.
pub(crate) fn of_spec(error: &SpecError) -> PyErr {
    Class::Constraint.with_place(chain(error), error.place())
}

/// Why there are no outputs.
pub(crate) fn of_facade(error: &Error) -> PyErr {
    let message = chain(error);
    match error {
        Error::Engine(error) => match &**error {
            engine::Error::File { path, .. } => {
                Class::Constraint.with_place(message, Some(path.display().to_string()))
            }
            engine::Error::Combination(_) => Class::Option.error(message),
            other => of_engine(other),
        },
        Error::Sample(_) | Error::Model(_) | Error::Cancelled | Error::TimeLimit { .. } => {
            Class::Sample.error(message)
        }
        _ => Class::Option.error(message),
    }
}

/// Wrong use of a matcher.
pub(crate) fn of_matcher(error: &MatcherError) -> PyErr {
    Class::Matcher.error(chain(error))
}
