//! Grammars as text: GBNF, EBNF and Lark.
//!
//! ```text
//! text --gbnf, ebnf, lark--> tree of definitions --lower--> Grammar
//! ```
//!
//! What the three write alike is in [`escape`] and [`bnf`]; each language has a file that says what it is and where it
//! differs from its original. None of them recurses.

mod bnf;
mod chars;
mod cursor;
mod ebnf;
mod error;
mod escape;
mod gbnf;
mod lower;
mod tree;

pub use error::{Location, SyntaxError, SyntaxErrorKind};

use self::error::location;
use crate::{Grammar, GrammarError, GrammarLimits};

/// The language that a grammar is written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GrammarFormat {
    /// That of llama.cpp.
    Gbnf,
    /// That of the W3C, and of transformers-CFG.
    Ebnf,
}

impl GrammarFormat {
    /// The language of files with this extension, without its dot, in upper or lower case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let formats = [("gbnf", Self::Gbnf), ("ebnf", Self::Ebnf)];
        formats.into_iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|(_, format)| format)
    }
}

impl Grammar {
    /// The grammar that `text` describes in the language `format`.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Syntax`], with a place; [`GrammarError::Terminal`] and [`GrammarError::TooManyNodes`].
    pub fn parse(text: &str, format: GrammarFormat, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        match format {
            GrammarFormat::Gbnf => Self::from_gbnf(text, limits),
            GrammarFormat::Ebnf => Self::from_ebnf(text, limits),
        }
    }

    /// The grammar that `text` describes in GBNF, the language of llama.cpp. Outputs are what `root` stands for.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let text = r#"
    /// root  ::= "[" value ("," value)* "]"
    /// value ::= [0-9]+ | rooot
    /// "#;
    /// let error = Grammar::from_gbnf(text, &GrammarLimits::default()).unwrap_err();
    /// assert_eq!(error.to_string(), "line 3, column 20: rule `rooot` is not defined; is `root` meant?");
    /// ```
    pub fn from_gbnf(text: &str, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        check_length(text, limits)?;
        let tree = gbnf::read(text, limits)?;
        let start = tree.find("root").ok_or_else(|| no_start(text, "`root ::= …`"))?;
        lower::lower(text, &tree, start, limits)
    }

    /// The grammar that `text` describes in EBNF: that of the W3C, or the freer GBNF of transformers-CFG. Outputs are
    /// what `root` stands for, or the first rule where there is no `root`.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn from_ebnf(text: &str, limits: &GrammarLimits) -> Result<Self, GrammarError> {
        check_length(text, limits)?;
        let tree = ebnf::read(text, limits)?;
        if tree.definitions.is_empty() {
            return Err(no_start(text, "`name ::= …`").into());
        }
        lower::lower(text, &tree, tree.find("root").unwrap_or(0), limits)
    }
}

fn check_length(text: &str, limits: &GrammarLimits) -> Result<(), SyntaxError> {
    // Offsets are kept in four bytes.
    let limit = limits.grammar_bytes.min(u32::MAX as usize);
    if text.len() > limit {
        let kind = SyntaxErrorKind::TooLong { bytes: text.len(), limit };
        return Err(SyntaxError { kind, location: location(text, 0) });
    }
    Ok(())
}

/// The text ends without the rule that whole outputs are made of.
fn no_start(text: &str, expected: &'static str) -> SyntaxError {
    let kind = SyntaxErrorKind::Unexpected { found: "no such rule".to_owned(), expected };
    SyntaxError { kind, location: location(text, text.len()) }
}
