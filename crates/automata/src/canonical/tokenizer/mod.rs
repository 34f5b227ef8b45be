//! The tables of one tokenizer, [`TokenizerAutomaton`], and their file format.

pub(crate) mod automaton;
pub(crate) mod file;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
#[path = "../../../tests/integration/common/files.rs"]
mod files;
pub(crate) mod fingerprint;
mod reader;

pub use automaton::TokenizerAutomaton;
pub use file::AutomatonFileError;
