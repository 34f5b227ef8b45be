//! Common types of values, in their usual delimiters.
//!
//! A block reaches from one hard pair to the next, so it contains the delimiters themselves: `"body",` after a colon
//! is another block than `"body"}`. So each type is built with each of the ends that its format has. Whole patterns
//! are built. Their blocks are found again in every pattern with the same text between the same pairs.

use std::sync::Arc;

use super::{constraint::VegasConstraint, library::VegasLibrary};
use crate::{CanonicalError, CanonicalIndex, Dfa, Limits, published::PublishedError};

/// The most states of a block for which all token sets are computed in advance. In larger blocks they are computed
/// only for the states in which characters end.
const SMALL: usize = 64;

/// Values of JSON.
const JSON: [&str; 14] = [
    r#""([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*""#,
    r#""([^"\\\x00-\x1f\x7f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*""#,
    r#""[^"\\\x00-\x1f]*""#,
    r#""[^"\\]*""#,
    r#""[^"]*""#,
    "-?(0|[1-9][0-9]*)",
    "(0|[1-9][0-9]*)",
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?",
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "(true|false)",
    "null",
    "(true|false|null)",
    "\"[0-9]{4}-[0-9]{2}-[0-9]{2}\"",
    "\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})\"",
];

/// Values of YAML, up to the end of the line.
const YAML: [&str; 9] = [
    "[^\n]*",
    "[^\n]+",
    "[ -~]+",
    "\"[^\"\n]*\"",
    "-?(0|[1-9][0-9]*)",
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?",
    "(true|false)",
    "null",
    "[0-9]{4}-[0-9]{2}-[0-9]{2}",
];

impl VegasLibrary {
    /// Builds the common types of values of JSON and YAML, each in its usual delimiters, with the token sets of
    /// their states. JSON: strings, integers, numbers, Booleans, null, dates and times. YAML: the same, and the rest
    /// of a line.
    ///
    /// # Errors
    ///
    /// [`PublishedError::LibraryMismatch`], and the errors of the limits. A type that the tokenizer cannot write is
    /// skipped.
    pub fn prebuild(&self, index: &Arc<CanonicalIndex>, limits: &Limits) -> Result<(), PublishedError> {
        let mut patterns: Vec<String> = Vec::new();
        for value in JSON {
            patterns.push(format!(r#"\{{("[a-z]": {value}, )*"[a-z]": {value}\}}"#));
            patterns.push(format!(r#"\{{("[a-z]":{value},)*"[a-z]":{value}\}}"#));
            patterns.push(format!(r"\[({value}, )*{value}\]"));
            patterns.push(format!("\\{{\n(  \"[a-z]\": {value},\n)*  \"[a-z]\": {value}\n\\}}"));
            patterns.push(value.to_owned());
        }
        patterns.extend(YAML.map(|value| format!("([a-z]: {value}\n)*[a-z]: {value}")));
        for pattern in patterns {
            let dfa = Dfa::from_pattern(&pattern, limits).map_err(CanonicalError::from)?;
            match VegasConstraint::new(&dfa, index, self, limits) {
                Ok(constraint) => constraint.compute_token_sets(|block, is_boundary| {
                    block.is_some_and(|states| is_boundary || states <= SMALL)
                }),
                Err(PublishedError::Canonical(CanonicalError::NothingCanonical { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
