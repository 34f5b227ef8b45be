//! Errors as JavaScript gets them: a kind that programs compare, a message with the way out, and the place.

use std::fmt;

use serde::Serialize;
use unskew::{
    Error,
    engine::{self, MatcherError},
};
use wasm_bindgen::JsValue;

/// A place in the text of a constraint. Indices are those of JavaScript's strings, in UTF-16.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Place {
    /// A JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// From 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The first index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// The index behind the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

/// Why something was not done. JavaScript sees an `UnskewError` of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// One of the kinds in `js/unskew.d.ts`.
    pub kind: &'static str,
    /// The reason and the way out.
    pub message: String,
    /// Where in the text of a constraint it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<Place>>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Fault {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new("argument", message)
    }

    pub(crate) fn of_engine(error: &engine::Error) -> Self {
        let kind = match error {
            engine::Error::File { .. } | engine::Error::Spec(_) => "spec",
            engine::Error::Tokens(_) => "tokenizer",
            engine::Error::Fuel { .. } => "fuel",
            engine::Error::Combination(_) => "combination",
            _ => "constraint",
        };
        Self::new(kind, engine::chain(error))
    }

    pub(crate) fn of_facade(error: &Error) -> Self {
        let kind = match error {
            Error::Engine(error) => return Self::of_engine(error),
            Error::Model(_) => "model",
            Error::Method(_) | Error::Draft(_) => "sampler",
            Error::Temperature(_) | Error::Truncation(_) => "argument",
            Error::Sample(unskew::samplers::SampleError::Model(_)) => "model",
            _ => "sample",
        };
        Self::new(kind, unskew::chain(error))
    }

    pub(crate) fn of_matcher(error: &MatcherError) -> Self {
        let kind = match error {
            MatcherError::Rollback { .. } => "rollback",
            MatcherError::Limit { .. } => "limit",
            MatcherError::StopNeeded => "combination",
            _ => "argument",
        };
        Self::new(kind, engine::chain(error))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::of_facade(&error)
    }
}

impl From<Fault> for JsValue {
    fn from(fault: Fault) -> Self {
        JsValue::from_str(&json(&fault))
    }
}

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Texts, numbers and lists of them: nothing here has keys that are no texts.
    serde_json::to_string(value).unwrap_or_default()
}
