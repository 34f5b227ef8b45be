//! Context-free grammars as exact constraints over tokens.
//!
//! ```text
//! Lark, GBNF, EBNF, ABNF --syntax/--> Grammar (grammar/) --network/--> automata of rules --parser/--> parser states
//!                                  |                                                                  |
//!                                  +-terminal/--> automata of terminals --parser/--> configurations --+
//!                                                        |                                |
//!                                                        +--trees/--> tokens by path --mask/--> GrammarConstraint
//! ```
//!
//! # Exact means
//!
//! - A token is allowed if and only if its text can be continued to a word of the grammar. The vocabulary
//!   must have a token for each single byte that the grammar uses. Every text can then be spelled, and an
//!   allowed token never leads to a dead end.
//! - There is no lexer. A terminal matches any of its texts, and a text is divided between adjacent terminals
//!   in every possible way. Look-around (`/int\b/`) says where one may not end.
//! - A control token that the grammar names is that token and not its text. A control token that ends a
//!   sequence in the vocabulary is the [end of the output](Terminal::Token).
//! - A construct that a front end cannot enforce exactly is a [`GrammarError`] with its location.
//! - Every stage has a limit ([`GrammarLimits`]), and no stage recurses over user input.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use unskew_core::{Constraint, TokenId, Vocabulary};
//! use unskew_grammar::GrammarLimits;
//! use unskew_grammars::GrammarConstraint;
//! use unskew_notation::{GrammarOptions, from_lark};
//! use unskew_trie::TokenTrie;
//!
//! let limits = GrammarLimits::default();
//! let text = r#"
//!     start: "(" start* ")" | WORD
//!     WORD: /[a-z]+/
//!     %ignore " "
//! "#;
//! let grammar = from_lark(text, &GrammarOptions::default(), &limits)?;
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
//! // The token ends the word, closes a bracket and opens another.
//! assert!(constraint.allows(&mut scratch, &state, bridge));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod captures;
mod constraint;
mod ids;
mod mask;
mod network;
mod parser;
mod speculation;
mod stats;
mod trees;
mod tuning;
mod unique;

pub use captures::{Capture, CaptureError, Captures};
pub use constraint::{GrammarConstraint, GrammarScratch, GrammarState};
pub use network::written::LeftOut;
pub use speculation::{CountConfig, CountFileError, CountModel};
pub use stats::GrammarStats;
pub use trees::{cache::LibraryStats, library::TreeLibrary};
#[doc(hidden)]
pub use tuning::Tuning;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;
