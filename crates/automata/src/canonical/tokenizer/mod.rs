//! The tables of one tokenizer, [`TokenizerAutomaton`].

pub(crate) mod automaton;
pub(crate) mod fingerprint;

pub use automaton::TokenizerAutomaton;
