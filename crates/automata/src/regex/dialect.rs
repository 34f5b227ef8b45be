//! The dialects in which people write regexes.
//!
//! One text means different things to different engines: `\<think\>` has two word boundaries in the `regex` crate and
//! two angle brackets in Python, `[a--b]` is a set operation in one and a range in the other. So a regex has a dialect,
//! and no text is read by the rules of another one.
//!
//! | | [`Python`](Dialect::Python) | [`Rust`](Dialect::Rust) | [`Ecma`](Dialect::Ecma) | [`Xgrammar`](Dialect::Xgrammar) |
//! |---|---|---|---|---|
//! | as in | `re`, for texts | the crate `regex` | ECMA-262, flag `u` | the EBNF of XGrammar |
//! | `\d`, `\w`, `\s` | Unicode, as `str` has it | Unicode | ASCII; `\s` Unicode | ASCII |
//! | `.` is no | `\n` | `\n` | `\n`, `\r`, U+2028, U+2029 | anything |
//! | `$` | the end, also before a last `\n` | the end | the end | at the end, without effect |
//! | `[`, `&&`, `--`, `~~` in a class | characters | nested classes, operators | characters | characters |
//! | `\<`, `\>` | characters | word boundaries | characters | characters |
//! | `{` that begins no repetition | a character | an error | a character | an error |
//! | `a{,3}` | at most three | an error | characters | at most three |
//! | `a++` | possessive | `(?:a+)+` | an error | an error |
//! | case under the flag `i` | `str.lower`, and its exceptions | simple folding | simple folding | ASCII |
//!
//! Constructs that are not regular are errors: back-references, recursion, conditions on groups, and atomic groups but
//! for those of single characters. A construct without a meaning in the dialect is read as elsewhere if it has one
//! meaning there: `\p{L}`, `(?<name>...)` and `\z` in Python's, `(?i)` and `\A` in ECMA's.
//!
//! Tried instead: one dialect, that of the crate `regex`, for all. Users of Python's servers wrote `\<think\>` and got
//! texts without the brackets, and no error.

use std::{fmt, str::FromStr};

/// The dialect of a regex: how its text is read. See the table of this file in the crate's README.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Dialect {
    /// Patterns of Python's module `re` for texts, version 3.14.
    #[default]
    Python,
    /// Patterns of the crate `regex`, with look-around.
    Rust,
    /// Patterns of ECMA-262 under the flag `u`, which JSON Schema has. Single braces are characters, as in browsers.
    Ecma,
    /// Regexes in the EBNF of XGrammar.
    Xgrammar,
}

impl Dialect {
    /// The dialects that people choose from.
    pub const NAMED: [Self; 3] = [Self::Python, Self::Rust, Self::Ecma];

    /// The name, as options have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Rust => "rust",
            Self::Ecma => "ecma",
            Self::Xgrammar => "xgrammar",
        }
    }

    /// A regex in this dialect.
    pub fn pattern(self, text: &str) -> Pattern<'_> {
        Pattern { text, dialect: self }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No name of a dialect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no dialect of regexes: they are `python`, `rust` and `ecma`")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let known = Self::NAMED.into_iter().find(|dialect| dialect.name() == name);
        known.ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

/// A regex: a text, and the dialect in which it is written. A text alone is in the dialect of the crate `regex`.
///
/// # Example
///
/// ```
/// use unskew_automata::{Dfa, Dialect, Limits};
///
/// let limits = Limits::default();
/// assert!(Dfa::from_pattern(Dialect::Python.pattern(r"\<b\>"), &limits)?.accepts(b"<b>"));
/// assert!(Dfa::from_pattern(r"\<b\>", &limits)?.accepts(b"b"));
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pattern<'t> {
    /// The text.
    pub text: &'t str,
    /// How the text is read.
    pub dialect: Dialect,
}

impl<'t, T: AsRef<str> + ?Sized> From<&'t T> for Pattern<'t> {
    fn from(text: &'t T) -> Self {
        Dialect::Rust.pattern(text.as_ref())
    }
}
