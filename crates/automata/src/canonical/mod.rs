//! Only token sequences that the tokenizer itself writes: `encode(decode(ids)) = ids`.

mod automaton;
mod completion;
mod constraint;
mod derivation;
mod encode;
mod error;
mod file;
#[cfg(test)]
mod file_tests;
mod forest;
mod nfc;
mod pair;
mod product;
#[cfg(test)]
mod testing;
mod text;
mod whole;

pub use automaton::TokenizerAutomaton;
pub use constraint::{CanonicalConstraint, CanonicalScratch, CanonicalState};
pub use derivation::MergeOrder;
pub use error::{CanonicalError, NothingCanonical};
pub use file::AutomatonFileError;
