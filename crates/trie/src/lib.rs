//! The tokens of a vocabulary as a trie.
mod byte_set;
mod fill;
mod healing;
mod quotient;
mod symbols;
mod trie;

pub use byte_set::ByteSet;
pub use fill::{ByteAutomaton, DEAD, DenseTable, KindTokens, Verdict};
pub use healing::heal;
pub use trie::{TokenTooLong, TokenTrie};
