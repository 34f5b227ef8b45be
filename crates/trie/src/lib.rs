//! The tokens of a vocabulary as a trie, and masks filled by running a byte automaton over all of them at once.
//!
//! # Should you use this crate?
//!
//! To write an engine of constrained decoding whose constraints are automata over bytes: yes. To use one that exists,
//! start from `unskew-automata` (regexes), `unskew-grammars` (context-free grammars) or the `unskew` crate.
//!
//! # Contents
//!
//! - [`TokenTrie`]: the text tokens of a vocabulary, built once and shared. It [fills](TokenTrie::fill) masks,
//!   [walks](TokenTrie::walk) an automaton of any type over the tokens, and finds the tokens that
//!   [begin](TokenTrie::beginning_with) with a text.
//! - [`ByteAutomaton`]: an automaton over bytes, with a [`Verdict`] for the tokens that end in a state;
//!   [`DenseTable`] is one given as a table.
//! - [`SafeBytes`]: bytes with which an automaton comes to no dead end, if it can tell.
//! - [`KindTokens`]: the tokens of one kind, where an automaton divides tokens into kinds.
//! - [`ByteSet`]: a set of bytes.
//! - [`heal`]: the end of a prompt, given back to the model.
//!
//! # How a mask is filled
//!
//! Each module names only those before it:
//!
//! | module | contents |
//! |---|---|
//! | `automaton` | the automata that are run, and the numbers that no state may have |
//! | `tuning` | the numbers that decide how a trie is built and walked |
//! | `ids` | indices into the tables, a type for each |
//! | `byte_trie` | the plain trie over bytes |
//! | `symbols` | classes of characters that patterns rarely distinguish, and the states to which they lead |
//! | `safe` | bytes that lead to no dead end, and the bytes below each node of the plain trie |
//! | `quotient` | the trie over symbols: tokens of equal shape are one node |
//! | `walk` | the automaton on the quotient: symbol by symbol, in bulk with exceptions, or byte by byte |
//! | `trie` | [`TokenTrie`] |
//! | `healing` | [`heal`] |
//!
//! # Example
//!
//! An automaton that reads the letter `a`, and then anything but a quote:
//!
//! ```
//! use unskew_core::{TokenMask, Vocabulary};
//! use unskew_trie::{ByteAutomaton, DEAD, TokenTrie};
//!
//! struct Text;
//!
//! impl ByteAutomaton for Text {
//!     fn class(&self, byte: u8) -> u8 {
//!         byte
//!     }
//!
//!     fn step(&mut self, state: u32, byte: u8) -> u32 {
//!         match (state, byte) {
//!             (0, b'a') => 1,
//!             (1, byte) if byte != b'"' => 1,
//!             _ => DEAD,
//!         }
//!     }
//! }
//!
//! let mut builder = Vocabulary::builder();
//! for text in ["a", "apple", "a\"", "pear"] {
//!     builder.text(text.as_bytes());
//! }
//! let trie = TokenTrie::new(builder.build()?)?;
//! let mut mask = TokenMask::new(trie.vocab_len());
//! trie.fill(&mut Text, 0, mask.as_mut());
//! assert_eq!(mask.ids().map(|id| trie.vocabulary().name(id)).collect::<Vec<_>>(), ["a", "apple"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod alphabet;
mod automaton;
mod byte_set;
mod byte_trie;
mod healing;
mod ids;
mod quotient;
mod safe;
mod symbols;
#[cfg(test)]
mod testing;
mod trie;
mod tuning;
mod walk;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct ReadmeExamples;

pub use alphabet::Alphabet;
pub use automaton::{ByteAutomaton, DEAD, DenseTable, Verdict};
pub use byte_set::ByteSet;
pub use healing::heal;
pub use safe::SafeBytes;
pub use trie::{TokenTooLong, TokenTrie};
pub use walk::KindTokens;
