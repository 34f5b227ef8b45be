//! Regular expressions as exact constraints over tokens.
//!
//! A pattern goes through these stages, each with a type or a file of its own:
//!
//! ```text
//! pattern --syntax--> tree --nfa--> NFA over bytes --determinize--> DFA --minimize--> Dfa --token_dfa--> TokenDfa
//!                                                        literals --acyclic--^                               |
//!                                                                                    masks, kept: RegexConstraint
//! ```
//!
//! # Exact means
//!
//! - A token is allowed if and only if its text can be continued to a whole match **with tokens of the vocabulary**. An
//!   allowed token never leads to a dead end.
//! - The whole output matches. `^` and `$` may stand anywhere and mean what they mean in the `regex` crate.
//! - What cannot be enforced is a [`RegexError`] with its place, never ignored: look-around, back-references, word
//!   boundaries, and `^` and `$` under the flag `m`.
//! - Outputs are valid UTF-8 as a whole; single tokens need not be.
//! - Every stage has a limit ([`Limits`]), and the error names the value and the limit.
//!
//! # Should you use this crate?
//!
//! For dates, numbers, identifiers, enumerations, records without nesting: yes. For JSON with nesting, or a programming
//! language, use a grammar: a regular expression cannot count brackets. For one of a million known items use a sorted
//! set; a DFA of a million texts is large. To search in text use the `regex` crate.
//!
//! All token sequences that spell a match are allowed, not only those that the tokenizer itself would write. For these
//! alone there is [`CanonicalConstraint`], and for texts of a single piece the automaton itself, [`MergedDfa`]. A pattern
//! whose DFA passes the limits is a [`LazyRegexConstraint`]; [`regex`](regex()) chooses.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use unskew_automata::{Limits, RegexConstraint};
//! use unskew_core::{Constraint, TokenId, TokenMask, TokenTrie, Vocabulary};
//!
//! let mut builder = Vocabulary::builder();
//! for digit in b'0'..=b'9' {
//!     builder.text(&[digit]);
//! }
//! let dash = builder.text(b"-");
//! let year = builder.text(b"2026-");
//! let vocabulary = Arc::new(builder.build()?);
//! let trie = Arc::new(TokenTrie::new(&vocabulary)?); // shared by all constraints over this vocabulary
//!
//! let pattern = "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]";
//! let date = RegexConstraint::new(pattern, vocabulary, trie, &Limits::default())?;
//!
//! let mut state = date.start();
//! date.advance(&mut (), &mut state, year)?;
//! let mut mask = TokenMask::new(date.vocab_len());
//! date.fill_mask(&mut (), &state, mask.as_mut());
//! assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(0), TokenId(1)]); // a month begins with 0 or 1
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acyclic;
mod algebra;
mod canonical;
mod check;
mod classes;
mod closure;
mod closures;
pub mod debug;
mod determinize;
mod dfa;
mod direct_merge;
mod edges;
mod error;
mod explicit;
mod inclusion;
mod lazy;
mod lift;
mod limits;
mod merged;
mod minimize;
mod nfa;
mod regex;
mod sparse;
mod split;
mod state;
mod syntax;
mod table;
mod token_dfa;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;

pub use algebra::DfaBuilder;
pub use canonical::{
    AutomatonFileError, CanonicalConstraint, CanonicalError, CanonicalIndex, CanonicalScratch,
    CanonicalState, HardBigrams, LibraryFileError, LibraryStats, MergeOrder, NothingCanonical,
    TokenizerAutomaton, VegasConfiguration, VegasLibrary, vegas_configurations,
};
pub use classes::ByteClasses;
pub use dfa::{Dfa, Edge};
pub use direct_merge::ByteSymbols;
pub use error::{Construct, Place, RegexError};
pub use explicit::DfaEdges;
pub use lazy::{AnyRegex, LazyRegexConstraint, LazyScratch, LazyState, regex};
pub use lift::LiftedDfa;
pub use limits::Limits;
pub use merged::MergedDfa;
pub use regex::RegexConstraint;
pub use split::{SplitError, SplitLimits};
pub use state::StateId;
pub use token_dfa::TokenDfa;
