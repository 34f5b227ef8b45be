//! Errors in the text of a grammar. Each message is one line with the location, the text found there, and the
//! expected one.
//!
//! An error does not hold the text of the grammar. The text may be megabytes long, and the caller has it.

use std::fmt;

/// A location in the text of a grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    /// The offset in bytes.
    pub offset: usize,
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The number of the file: 0 is the text itself, and others are imported.
    pub file: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A syntax error with its location.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{location}: {kind}")]
pub struct SyntaxError {
    /// The kind of the error.
    pub kind: SyntaxErrorKind,
    /// The location.
    pub location: Location,
}

/// The kind of a syntax error.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// The text is too long. Nothing of it was read.
    #[error(
        "the grammar is {bytes} bytes long; the limit is {limit} (GrammarLimits::grammar_bytes): shorten it, or raise \
         the limit"
    )]
    TooLong {
        /// The length of the text, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Groups nest too deep.
    #[error("groups nest deeper than {limit} levels (GrammarLimits::nest): flatten them, or raise the limit")]
    NestTooDeep {
        /// The limit, in levels.
        limit: usize,
    },
    /// Another construct was expected here.
    #[error("found {found}, expected {expected}")]
    Unexpected {
        /// The text that was found.
        found: String,
        /// The expected constructs.
        expected: &'static str,
    },
    /// A construct begins here and is not closed.
    #[error("{what} is not closed: expected {close}")]
    Unclosed {
        /// The construct.
        what: &'static str,
        /// The text that would close it.
        close: &'static str,
    },
    /// A name without a definition.
    #[error("{what} `{name}` is not defined{}", hint(nearest.as_deref(), *way_out))]
    Undefined {
        /// The kind of the name, such as `rule` or `terminal`.
        what: &'static str,
        /// The name.
        name: String,
        /// The most similar defined name, if it is similar enough.
        nearest: Option<String>,
        /// The text to write instead, if the name looks like another notation.
        way_out: Option<&'static str>,
    },
    /// The start rule has no definition.
    #[error("start rule `{name}` is not defined{}", other_starts(rules))]
    NoStart {
        /// The name.
        name: String,
        /// Rules that may be meant, the likeliest first.
        rules: Vec<String>,
    },
    /// A second definition of a name.
    #[error("`{name}` is defined a second time; the first definition is at {first}: join them with `|`")]
    Redefined {
        /// The name.
        name: String,
        /// The location of the first definition.
        first: Location,
    },
    /// A terminal that contains itself.
    #[error("`{name}` contains itself, and {place} must not be recursive: {way_out}")]
    Recursive {
        /// The name.
        name: String,
        /// The kind of text that must not be recursive.
        place: &'static str,
        /// The text to write instead.
        way_out: &'static str,
    },
    /// A construct of the language that cannot be enforced exactly here.
    #[error("{construct} is not supported: {way_out}")]
    Unsupported {
        /// The construct.
        construct: String,
        /// The text to write instead.
        way_out: &'static str,
    },
    /// A grammar or file to which the text refers has an error, or is not there.
    #[error("{construct}: {message}")]
    Nested {
        /// The reference, such as `@name`.
        construct: String,
        /// The error.
        message: String,
    },
    /// An error in a file whose notation was found by its first rule.
    #[error("{kind} (the file is read as {notation}, for its first rule is written so)")]
    ReadAs {
        /// The error.
        kind: Box<SyntaxErrorKind>,
        /// The notation.
        notation: &'static str,
    },
    /// Any other error, in words.
    #[error("{message}")]
    Invalid {
        /// The fault and a way out.
        message: String,
    },
}

impl SyntaxErrorKind {
    /// The error itself, without the notation as which its file was read.
    pub fn plain(&self) -> &Self {
        match self {
            Self::ReadAs { kind, .. } => kind,
            kind => kind,
        }
    }
}

fn other_starts(rules: &[String]) -> String {
    match rules {
        [] => String::new(),
        rules => {
            format!(": `--start` (`start` in a spec) names another rule, such as `{}`", rules.join("`, `"))
        }
    }
}

fn hint(nearest: Option<&str>, way_out: Option<&str>) -> String {
    match (nearest, way_out) {
        (Some(name), _) => format!("; is `{name}` meant?"),
        (None, Some(way_out)) => format!(": {way_out}"),
        (None, None) => String::new(),
    }
}
