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
mod lark;
mod lower;
mod reader;
mod regular;
mod tree;

pub use error::{Location, SyntaxError, SyntaxErrorKind};
pub use lark::LarkOptions;

use self::{
    error::{location, nearest},
    lower::Ignored,
    tree::Tree,
};
use crate::{Grammar, GrammarError, GrammarLimits};

/// The language that a grammar is written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GrammarFormat {
    /// That of llama.cpp.
    Gbnf,
    /// That of the W3C, and of transformers-CFG.
    Ebnf,
    /// That of the Lark parser, as llguidance reads it.
    Lark,
}

impl GrammarFormat {
    /// The language of files with this extension, without its dot, in upper or lower case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let formats = [("gbnf", Self::Gbnf), ("ebnf", Self::Ebnf), ("lark", Self::Lark)];
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
            GrammarFormat::Lark => Self::from_lark(text, &LarkOptions::default(), limits),
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
        let start = start(text, &tree, "root")?;
        lower::lower(text, &tree, start, &Ignored::default(), limits)
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
        // The first rule is the start where there is no `root`; without any there is none of the two.
        let start = if tree.definitions.is_empty() {
            start(text, &tree, "root")?
        } else {
            tree.find("root").unwrap_or(0)
        };
        lower::lower(text, &tree, start, &Ignored::default(), limits)
    }

    /// The grammar that `text` describes in Lark, in the dialect that llguidance made of it. Outputs are what the rule
    /// `start` stands for, or another one that the options name.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    ///
    /// # Example
    ///
    /// White space between terminals, at most two characters of it in one place:
    ///
    /// ```
    /// use unskew_grammars::{Grammar, GrammarLimits, LarkOptions};
    ///
    /// let text = r#"
    /// start: "[" [INT ("," INT)*] "]"
    /// %import common (INT, WS)
    /// %ignore WS
    /// "#;
    /// let options = LarkOptions { max_ignored_chars: Some(2), ..LarkOptions::default() };
    /// let grammar = Grammar::from_lark(text, &options, &GrammarLimits::default())?;
    /// assert_eq!(grammar.rule_name(grammar.start()), "start");
    /// # Ok::<(), unskew_grammars::GrammarError>(())
    /// ```
    pub fn from_lark(
        text: &str,
        options: &LarkOptions,
        limits: &GrammarLimits,
    ) -> Result<Self, GrammarError> {
        check_length(text, limits)?;
        let (tree, ignored) = lark::read(text, options, limits)?;
        let start = start(text, &tree, &options.start)?;
        lower::lower(text, &tree, start, &ignored, limits)
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

/// The definition of the rule that whole outputs are made of.
fn start(text: &str, tree: &Tree<'_>, name: &str) -> Result<usize, SyntaxError> {
    tree.find(name).ok_or_else(|| {
        let defined = tree.definitions.iter().map(|definition| tree.name(definition.name));
        let nearest = nearest(name, defined);
        let kind = SyntaxErrorKind::Undefined { what: "rule", name: name.to_owned(), nearest };
        SyntaxError { kind, location: location(text, text.len()) }
    })
}
