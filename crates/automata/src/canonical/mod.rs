//! Only token sequences that the tokenizer itself writes: `encode(decode(ids)) = ids`.
//!
//! A constraint on the text alone lets in every spelling of it. A model has hardly ever seen most of them, so masking
//! by such a constraint gives weight to tokens that are merely a prefix of something allowed, and hides that often only one
//! token can follow. The encoder's own sequences are a regular language over tokens, so they are enforced exactly.
//!
//! | folder | contents |
//! |---|---|
//! | `merges` | the merge tree of each token, and which tokens may be neighbours |
//! | `texts` | the texts that the encoder takes as they are |
//! | `tokenizer` | both and the splitting for one tokenizer: [`TokenizerAutomaton`] |
//! | `index` | that beside one vocabulary, and what constraints share: [`CanonicalIndex`] |
//! | `viability` | the positions of a constraint, and the tokens that lead on from them |
//! | `token_set` | sets of tokens in words of a mask |
//! | `vegas` | parts of constraints between delimiters, computed once for all constraints |
//! | `constraint` | masks and positions: [`CanonicalConstraint`] |
//!
//! The algorithms are those of V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex Constraints* (2024), sections
//! CartesianMerge and appendix (Algorithms 3 and 4), with the splitting of real tokenizers added.

mod constraint;
mod error;
mod index;
mod merges;
#[cfg(test)]
mod testing;
mod texts;
mod token_set;
mod tokenizer;
mod vegas;
mod viability;

pub use constraint::{CanonicalConstraint, CanonicalScratch, CanonicalState};
pub use error::{CanonicalError, NothingCanonical};
pub use index::CanonicalIndex;
pub use merges::derivation::MergeOrder;
pub use tokenizer::{AutomatonFileError, TokenizerAutomaton};
pub use vegas::{
    HardBigrams, LibraryFileError, LibraryStats, VegasConfiguration, VegasLibrary, vegas_configurations,
};
