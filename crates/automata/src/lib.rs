//! Regular expressions as exact constraints over tokens.
//!
//! Each folder is a stage, and a stage depends only on the stages before it:
//!
//! ```text
//! pattern --regex/--> tree --dfa/--> Dfa --tokens/--> TokenDfa, RegexConstraint, LazyRegexConstraint
//!                                     |
//! tokenizer: splitting --split/--+    |
//!            merges, texts ------+-- canonical/ --> TokenizerAutomaton, CanonicalConstraint
//!                                     |
//!                                     +-- published/ --> LiftedDfa, MergedDfa, VegasConstraint
//! ```
//!
//! # Exact means
//!
//! - A token is allowed if and only if its text can be continued to a whole match **with tokens of the vocabulary**.
//!   An allowed token never leads to a dead end.
//! - The whole output matches. `^` and `$` are allowed anywhere, and mean what they mean in the [`Dialect`] of the
//!   pattern.
//! - Look-around and word boundaries are conditions on the text around them, anywhere in a pattern. [`dfa::Patterns`]
//!   and [`dfa::DfaAlgebra::in_context`] have them for a part of a text.
//! - A construct that cannot be enforced is a [`RegexError`] with its place, and is never ignored: back-references,
//!   and look-ahead inside look-behind.
//! - Outputs are valid UTF-8 as a whole; single tokens need not be.
//! - Every stage has a limit ([`Limits`]), and the error names the value and the limit.
//!
//! # Should you use this crate?
//!
//! For dates, numbers, identifiers, enumerations and records without nesting: yes. For JSON with nesting, or a
//! programming language, use a grammar: a regular expression cannot count brackets. For one of a million known items
//! use a sorted set; a DFA of a million texts is large. To search in text use the `regex` crate.
//!
//! All token sequences that spell a match are allowed, not only those that the tokenizer itself writes.
//! [`CanonicalConstraint`] allows only the tokenizer's own sequences. A pattern whose DFA exceeds the limits is a
//! [`LazyRegexConstraint`]; [`regex`](regex()) chooses between the two.
//!
//! # Features
//!
//! - `canonical` (on): [`CanonicalConstraint`], the tokenizer's own sequences. Costs the tables of Unicode's
//!   normalisation forms.
//! - `debug` (on): [`debug`], the printers of automata. Costs petgraph.
//! - `published` (off): the automata of published papers, whole. Tests compare the constraints above with them.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use unskew_automata::{Limits, RegexConstraint};
//! use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
//! use unskew_trie::TokenTrie;
//!
//! let mut builder = Vocabulary::builder();
//! for digit in b'0'..=b'9' {
//!     builder.text(&[digit]);
//! }
//! let dash = builder.text(b"-");
//! let year = builder.text(b"2026-");
//! let trie = Arc::new(TokenTrie::new(builder.build()?)?); // shared by all constraints over this vocabulary
//!
//! let pattern = "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]";
//! let date = RegexConstraint::new(pattern, trie, &Limits::default())?;
//!
//! let mut state = date.start();
//! date.advance(&mut (), &mut state, year)?;
//! let mut mask = TokenMask::new(date.vocab_len());
//! date.fill_mask(&mut (), &state, mask.as_mut());
//! assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(0), TokenId(1)]); // a month begins with 0 or 1
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "canonical")]
pub mod canonical;
#[cfg(feature = "debug")]
pub mod debug;
pub mod dfa;
mod error;
#[cfg(feature = "canonical")]
mod ids;
mod limits;
#[cfg(feature = "published")]
pub mod published;
mod regex;
#[cfg(feature = "canonical")]
mod split;
pub mod tokens;

#[doc = include_str!("../README.md")]
#[cfg(all(doctest, feature = "canonical"))]
struct ReadmeExamples;

#[cfg(feature = "canonical")]
pub use canonical::{CanonicalConstraint, CanonicalError, CanonicalIndex, TokenizerAutomaton};
pub use dfa::{Dfa, StateId};
pub use error::{Construct, Place, RegexError};
pub use limits::Limits;
pub use regex::{Bounded, Counted, Dialect, Pattern, UnknownDialect};
pub use tokens::{AnyRegex, LazyRegexConstraint, RegexConstraint, TokenDfa, regex};
