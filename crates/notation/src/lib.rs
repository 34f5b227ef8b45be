//! Notations of grammars: texts in Lark, GBNF, EBNF, classical BNF, the EBNF of XGrammar and ABNF become a
//! [`Grammar`](unskew_grammar::Grammar), and a grammar becomes a text in GBNF.
//!
//! # Should you use this crate?
//!
//! Use it to read grammars that people write, to report what each of their constructs becomes, or to hand a grammar to
//! llama.cpp. A program that makes its grammars itself needs `unskew-grammar` alone; masks of a grammar are made by
//! `unskew-grammars`, and constraints of any kind, from their texts to their masks, by `unskew-engine`.
//!
//! # Where things are
//!
//! ```text
//!            .----------------------------- syntax/ ------------------------------.
//! text --text/--> bnf/, lark/, xgrammar/ --> tree/ of definitions --lower/--> rules --layout/--> looks/, lazy/ --> Grammar
//!                                                                                |
//!                                                                                '--explain--> the fate of each construct
//! Grammar --gbnf/--> text in GBNF
//! ```
//!
//! | folder | contents |
//! |---|---|
//! | `syntax/` | the front ends, one for each notation, and what they share; its head has a drawing of its own |
//! | `lazy/` | lazy terminals, which end at their first end: rules without the readings that compete with them |
//! | `looks/` | look-around beyond a terminal, carried through the rules |
//! | `layout/` | blocks by indentation (`%declare`), written out by column |
//! | `gbnf/` | a grammar as GBNF |
//! | `explain` | the fate of each construct of a text |
//!
//! `lazy/`, `looks/` and `layout/` rewrite a grammar with such uses of terminals into a plain one. They are part of
//! reading: a [`Grammar`](unskew_grammar::Grammar) is plain always, and no engine knows of them.
//!
//! # Example
//!
//! ```
//! use unskew_grammar::GrammarLimits;
//! use unskew_notation::{GbnfOptions, GrammarOptions, from_lark, to_gbnf};
//!
//! let text = r#"
//!     start: "(" start* ")" | WORD
//!     WORD: /[a-z]+/
//! "#;
//! let grammar = from_lark(text, &GrammarOptions::default(), &GrammarLimits::default())?;
//! let gbnf = to_gbnf(&grammar, &GbnfOptions::default())?;
//! assert_eq!(gbnf.text, "root ::= \"(\" root* \")\" | [a-z]+\n");
//! # Ok::<(), unskew_grammar::GrammarError>(())
//! ```

mod explain;
mod gbnf;
mod layout;
mod lazy;
mod looks;
mod syntax;

pub use explain::{Explained, explain};
pub use gbnf::{Gbnf, GbnfOptions, Loosening, LooseningKind, to_gbnf};
pub use syntax::{
    GrammarFormat, GrammarOptions, Indenter, Resolve, Resolver, from_ebnf, from_gbnf, from_lark,
    imported_files, parse,
};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
