//! Texts that stand in a constraint or in a file, and regexes, which are such a text in a dialect.

use std::path::PathBuf;

use unskew_automata::Dialect;

/// A text that stands here, or in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The text itself.
    Text(String),
    /// A file, in UTF-8. A line break at its end is not part of the text.
    File(PathBuf),
}

/// A regular expression and how it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegexSpec {
    /// Its text.
    pub source: Source,
    /// The dialect that it is written in.
    pub dialect: Dialect,
}
