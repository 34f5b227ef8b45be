//! Why a schema is not a grammar. Every message is one line: what, where, and a way out.

use unskew_automata::RegexError;
use unskew_grammars::GrammarError;

/// Why a schema is not a grammar.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The text is not JSON, or names a key twice.
    #[error("at byte {offset}: {message}")]
    Json {
        /// Where, in bytes.
        offset: usize,
        /// What is the matter.
        message: String,
    },
    /// A keyword has a value that it must not have.
    #[error("{pointer}: `{keyword}` {message}")]
    Invalid {
        /// The schema, as a JSON pointer.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// What it must be.
        message: String,
    },
    /// A keyword is understood and cannot be enforced exactly.
    #[error("{pointer}: `{keyword}` is not enforced: {reason}; {way_out}")]
    Unsupported {
        /// The schema, as a JSON pointer.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// Why.
        reason: String,
        /// What can be done.
        way_out: &'static str,
    },
    /// The automaton of a string or number is too large.
    #[error("{pointer}: {source}")]
    Automaton {
        /// The schema, as a JSON pointer.
        pointer: String,
        /// What is the matter with it.
        source: RegexError,
    },
    /// The automaton of the texts or numbers that `enum` lists is too large.
    #[error(
        "{pointer}: `{keyword}` lists {count} values, and their automaton passes {limit} {unit} (Limits::{field}): list fewer, \
         raise `SchemaLimits::automata`, or make a set of the outputs (`unskew-sets`), which takes millions"
    )]
    Values {
        /// The schema, as a JSON pointer.
        pointer: String,
        /// The keyword.
        keyword: String,
        /// How many values it lists.
        count: usize,
        /// The limit.
        limit: u64,
        /// What is limited.
        unit: &'static str,
        /// The field of the limits of automata.
        field: &'static str,
    },
    /// Something is too large.
    #[error("{pointer}{what} pass {limit}; raise `SchemaLimits::{field}`, or simplify the schema")]
    Limit {
        /// The schema, as a JSON pointer with `: ` behind it, or nothing.
        pointer: String,
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The field of the limits.
        field: &'static str,
    },
    /// The [`Cancel`](unskew_core::Cancel) of the options asked for the end.
    #[error("the compilation was cancelled")]
    Cancelled,
    /// No value satisfies the schema.
    #[error("no value satisfies the schema")]
    Unsatisfiable,
    /// The grammar is too large.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
}

impl SchemaError {
    pub(crate) fn limit(pointer: &str, what: &'static str, limit: usize, field: &'static str) -> Self {
        let pointer = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
        Self::Limit { pointer, what, limit, field }
    }

    pub(crate) fn invalid(pointer: String, keyword: &str, message: impl Into<String>) -> Self {
        Self::Invalid { pointer, keyword: keyword.to_owned(), message: message.into() }
    }

    /// The keyword that the error is about, if it is about one.
    pub fn keyword(&self) -> Option<&str> {
        match self {
            Self::Invalid { keyword, .. }
            | Self::Unsupported { keyword, .. }
            | Self::Values { keyword, .. } => Some(keyword),
            _ => None,
        }
    }

    /// The JSON pointer of the schema that the error is about, if it is about one.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::Invalid { pointer, .. }
            | Self::Unsupported { pointer, .. }
            | Self::Values { pointer, .. }
            | Self::Automaton { pointer, .. } => Some(pointer),
            _ => None,
        }
    }
}
