//! Only token sequences that the tokenizer itself writes: `encode(decode(ids)) = ids`.
//!
//! A constraint on the text alone lets in every spelling of it. A model has hardly ever seen most of them, so masking
//! by such a constraint gives weight to tokens that are merely a prefix of something allowed, and hides that often only one
//! token can follow. The encoder's own sequences are a regular language over tokens, so they are enforced exactly.
//!
//! | file | what it knows |
//! |---|---|
//! | `derivation` | how each token comes about: its merge tree |
//! | `pair` | whether two tokens may be neighbours: the walk along two trees |
//! | `forest` | the same for all tokens at once: intervals |
//! | `text`, `added`, `form` | which texts the encoder takes as they are |
//! | `whole` | pieces that are looked up as a whole |
//! | `automaton` | all of that for one tokenizer: [`TokenizerAutomaton`] |
//! | `index` | that beside one vocabulary, and what constraints share: [`CanonicalIndex`] |
//! | `position` | a constraint beside the splitting, byte by byte |
//! | `certain` | from where every ordinary text goes on |
//! | `ends` | which tokens the splitting reads from where |
//! | `followers` | which of them may follow a token |
//! | `kept` | answers for all constraints |
//! | `by_need` | what may stand in front of a position without a dead end, when it is asked for |
//! | `product`, `settle`, `completion`, `complete` | the same for all positions at once |
//! | `constraint` | masks and positions: [`CanonicalConstraint`] |
//!
//! The algorithms are those of V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex Constraints* (2024), sections
//! CartesianMerge and appendix (Algorithms 3 and 4), with the splitting of real tokenizers added.

mod added;
mod automaton;
mod by_need;
mod certain;
mod complete;
mod completion;
mod constraint;
mod derivation;
mod encode;
mod ends;
mod error;
mod file;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
#[path = "../../tests/common/files.rs"]
mod files;
mod fingerprint;
mod followers;
mod forest;
mod form;
mod index;
mod kept;
mod meeting;
mod pair;
mod position;
mod product;
mod reads;
mod rows;
mod settle;
#[cfg(test)]
mod testing;
mod text;
mod vegas;
mod whole;

pub use automaton::TokenizerAutomaton;
pub use constraint::{CanonicalConstraint, CanonicalScratch, CanonicalState};
pub use derivation::MergeOrder;
pub use error::{CanonicalError, NothingCanonical};
pub use file::AutomatonFileError;
pub use index::CanonicalIndex;
pub use vegas::{
    HardBigrams, LibraryFileError, LibraryStats, VegasConfiguration, VegasLibrary, vegas_configurations,
};
