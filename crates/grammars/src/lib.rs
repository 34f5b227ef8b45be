//! Context-free grammars as exact constraints over tokens.
//!
//! ```text
//! Lark, GBNF, EBNF --syntax/--> Grammar (grammar/) --network/--> automata over terminals and rules --parser/--> what is left to do
//!                                  |                                                                    |
//!                                  +-terminal/--> automata over bytes --parser/--> readings of a text --+
//!                                                        |                             |
//!                                                        +--trees/--> tokens by path --mask/--> GrammarConstraint
//! ```
//!
//! # Exact means
//!
//! - A token is allowed if and only if its text can be continued to a word of the grammar. The vocabulary must have a token
//!   for each single byte that the grammar uses; then every text can be spelled, and an allowed token never leads to a dead
//!   end.
//! - There is no lexer: a terminal stands for each of its texts, and neighbours are read apart in every possible way. Where
//!   a scanner is to read the outputs, ask for [maximal munch](GrammarConstraint::with_maximal_munch).
//! - A control token that the grammar names is that token and not its text. One that ends a sequence in the vocabulary is the
//!   [end of the output](Terminal::Token).
//! - What a front end cannot enforce exactly is a [`GrammarError`] with its place.
//! - Every stage has a limit ([`GrammarLimits`]), and nothing recurses over what a user gives.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use unskew_core::{Constraint, TokenId, Vocabulary};
//! use unskew_trie::TokenTrie;
//! use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits, LarkOptions};
//!
//! let limits = GrammarLimits::default();
//! let text = r#"
//!     start: "(" start* ")" | WORD
//!     WORD: /[a-z]+/
//!     %ignore " "
//! "#;
//! let grammar = Grammar::from_lark(text, &LarkOptions::default(), &limits)?;
//!
//! let mut builder = Vocabulary::builder();
//! for byte in 0..=255 {
//!     builder.text(&[byte]);
//! }
//! let bridge = builder.text(b") (");
//! let trie = Arc::new(TokenTrie::new(builder.build()?)?);
//! let constraint = GrammarConstraint::new(&grammar, trie, &limits)?;
//!
//! let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
//! for byte in *b"((ab" {
//!     constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte)))?;
//! }
//! assert!(constraint.allows(&mut scratch, &state, bridge)); // it ends a word and a bracket and begins a bracket
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod constraint;
mod error;
mod explain;
mod grammar;
mod ids;
mod lazy;
mod limits;
mod mask;
mod munch;
mod network;
mod parser;
mod speculation;
mod stats;
mod syntax;
mod terminal;
mod trees;
mod unique;

pub use constraint::{GrammarConstraint, GrammarScratch, GrammarState};
pub use error::GrammarError;
pub use explain::{Explained, Fate, explain};
pub use grammar::analysis::{Analysis, Finding, FindingKind, GrammarSize, LeftRecursion, RuleFacts};
pub use grammar::data::{Expr, ExprId, Grammar, GrammarBuilder, RuleId, Terminal, TerminalId, Unordered};
pub use limits::GrammarLimits;
pub use speculation::{CountConfig, CountFileError, CountModel};
pub use stats::GrammarStats;
pub use syntax::{GrammarFormat, LarkOptions, Location, SyntaxError, SyntaxErrorKind};
pub use terminal::{counted::Counted, except::Except};
pub use trees::{kept::LibraryStats, nodes::TreeLibrary};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
