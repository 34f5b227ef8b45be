//! Context-free grammars as exact constraints over tokens.
//!
//! # Should you use this crate?
//!
//! Use it to mask the tokens of a model by a grammar in an engine of your own, with a vocabulary and a trie that you
//! have. The [`Grammar`](unskew_grammar::Grammar) itself is in `unskew-grammar`, its texts (Lark, GBNF, EBNF, ABNF)
//! are read by `unskew-notation`, and JSON Schema by `unskew-schema`. A program that starts from any of these texts,
//! and wants a cache, batches and reasons of rejections too, takes `unskew-engine`.
//!
//! # Where things are
//!
//! ```text
//! Grammar --network/--> automata of rules --parser/--> parser states ------.
//!              |                                                           |
//!              +------> automata of terminals --parser/--> configurations -+--constraint/--> GrammarConstraint
//!                             |                                            |
//!                             '--trees/--> tokens by path --mask/----------'
//!
//! unique/: keys, which the parser remembers    captures/: named parts of a whole output
//! ```
//!
//! | folder | contents |
//! |---|---|
//! | `network/` | rules and terminals as automata, over one vocabulary |
//! | `unique/` | keys: texts that must not repeat in their scope |
//! | `parser/` | a general parser, and the configurations of a text |
//! | `captures/` | named parts of whole outputs |
//! | `trees/` | subterminal trees (DOMINO) and the library that shares them |
//! | `mask/` | masks and their fragments |
//! | `constraint/` | [`GrammarConstraint`], its states and its tables; `canonical/`, the sequences that the tokenizer itself writes |
//! | `speculation`, `stats`, `tuning` | guesses by counts, counts of work, the numbers that tune |
//!
//! Nothing of `unskew-grammar` is exported again: a grammar comes from that crate as the vocabulary comes from
//! `unskew-core` and the trie from `unskew-trie`, and each name has one path.
//!
//! # Features
//!
//! - `canonical` (on): [`CanonicalGrammar`]. Costs the tables of Unicode's normalisation forms.
//!
//! # Exact means
//!
//! - A token is allowed if and only if its text can be continued to a word of the grammar. The vocabulary
//!   must have a token for each single byte that the grammar uses. Every text can then be spelled, and an
//!   allowed token never leads to a dead end.
//! - There is no lexer. A terminal matches any of its texts, and a text is divided between adjacent terminals
//!   in every possible way. Look-around (`/int\b/`) says where one may not end.
//! - A control token that the grammar names is that token and not its text. A control token that ends a
//!   sequence in the vocabulary is the [end of the output](unskew_grammar::Terminal::Token).
//! - What cannot be enforced exactly is a [`GrammarError`](unskew_grammar::GrammarError), with its location in the text
//!   of the grammar if there is one.
//! - Every stage has a limit ([`GrammarLimits`](unskew_grammar::GrammarLimits)), and no stage recurses over user input.
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
#[cfg(feature = "canonical")]
pub use constraint::canonical::{CanonicalGrammar, CanonicalGrammarScratch, CanonicalGrammarState};
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
