//! Reasons why a schema does not compile. Every message is one line: the fault, its place, and a way out.

use unskew_automata::RegexError;
use unskew_grammar::GrammarError;

/// The reason why a schema does not compile.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The text is not JSON, or an object has the same key twice.
    #[error("at byte {offset}: {message}")]
    #[non_exhaustive]
    Json {
        /// The offset of the fault, in bytes.
        offset: usize,
        /// The fault, in words.
        message: String,
    },
    /// A keyword has a value that the draft forbids.
    #[error("{pointer}: `{keyword}` {message}")]
    #[non_exhaustive]
    Invalid {
        /// The JSON pointer of the schema.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// The rule that the value breaks.
        message: String,
    },
    /// A keyword is understood and cannot be enforced exactly.
    #[error("{pointer}: `{keyword}` is not enforced: {reason}; {way_out}")]
    #[non_exhaustive]
    Unsupported {
        /// The JSON pointer of the schema.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// The reason.
        reason: String,
        /// A change to the schema or the options that helps.
        way_out: &'static str,
    },
    /// The automaton of a string or number is too large.
    #[error("{pointer}: {source}")]
    #[non_exhaustive]
    Automaton {
        /// The JSON pointer of the schema.
        pointer: String,
        /// The error of the automaton.
        source: RegexError,
    },
    /// The automaton of the texts or numbers that `enum` lists is too large.
    #[error(
        "{pointer}: `{keyword}` lists {count} values, and their automaton passes {limit} {unit} (Limits::{field}): list fewer, \
         raise `SchemaLimits::automata`, or make a set of the outputs (`unskew-sets`), which takes millions"
    )]
    #[non_exhaustive]
    Values {
        /// The JSON pointer of the schema.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// The number of values that the keyword lists.
        count: usize,
        /// The limit.
        limit: u64,
        /// The unit of the limit.
        unit: &'static str,
        /// The field of [`Limits`](unskew_automata::Limits) that holds the limit.
        field: &'static str,
    },
    /// A part of the work exceeds its limit.
    #[error("{pointer}{what} pass {limit}; raise `SchemaLimits::{field}`{}, or simplify the schema", to(*needed))]
    #[non_exhaustive]
    Limit {
        /// The JSON pointer of the schema with `: ` after it, or the empty text.
        pointer: String,
        /// The quantity that is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The field of [`SchemaLimits`](crate::SchemaLimits) that holds the limit.
        field: &'static str,
        /// The limit that is enough for the whole schema, where that is known.
        needed: Option<usize>,
    },
    /// The [`Cancel`](unskew_core::Cancel) of the options was set.
    #[error("the compilation was cancelled")]
    Cancelled,
    /// No value satisfies the schema.
    #[error("{pointer}: no value satisfies {reason}")]
    #[non_exhaustive]
    Unsatisfiable {
        /// The JSON pointer of the innermost schema that no value satisfies and that every output needs.
        pointer: String,
        /// Its keywords that exclude each other, with their values.
        reason: String,
    },
    /// The grammar is too large.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
}

impl SchemaError {
    pub(crate) fn limit(pointer: &str, what: &'static str, limit: usize, field: &'static str) -> Self {
        let pointer = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
        Self::Limit { pointer, what, limit, field, needed: None }
    }

    /// The same error with the limit that is enough.
    pub(crate) fn needing(mut self, enough: usize) -> Self {
        if let Self::Limit { needed, .. } = &mut self {
            *needed = Some(enough);
        }
        self
    }

    /// The error before [`Trials::conflict`](crate::trials::Trials::conflict) has found the reason.
    pub(crate) fn unsatisfiable() -> Self {
        Self::Unsatisfiable { pointer: "#".to_owned(), reason: "the schema".to_owned() }
    }

    pub(crate) fn invalid(pointer: String, keyword: &str, message: impl Into<String>) -> Self {
        Self::Invalid { pointer, keyword: keyword.to_owned(), message: message.into() }
    }

    /// The keyword that the error names, if it names one.
    pub fn keyword(&self) -> Option<&str> {
        match self {
            Self::Invalid { keyword, .. }
            | Self::Unsupported { keyword, .. }
            | Self::Values { keyword, .. } => Some(keyword),
            _ => None,
        }
    }

    /// The JSON pointer of the schema that the error names, if it names one.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::Invalid { pointer, .. }
            | Self::Unsupported { pointer, .. }
            | Self::Values { pointer, .. }
            | Self::Unsatisfiable { pointer, .. }
            | Self::Automaton { pointer, .. } => Some(pointer),
            _ => None,
        }
    }
}

/// The limit that is enough, as a part of a sentence.
fn to(needed: Option<usize>) -> String {
    needed.map_or_else(String::new, |needed| format!(" to {needed}"))
}
