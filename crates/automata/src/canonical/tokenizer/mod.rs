//! The tables of one tokenizer, [`TokenizerAutomaton`].

pub(crate) mod automaton;
#[cfg(feature = "published")]
pub(crate) mod fingerprint;

pub use automaton::TokenizerAutomaton;
