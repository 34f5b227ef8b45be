//! Constraints to canonical token sequences, those with `encode(decode(ids)) = ids`.
//!
//! A constraint on the text alone admits every spelling of each accepted text. The model saw most of these spellings
//! rarely or never in training. A mask over spellings therefore gives weight to tokens that are merely a prefix of
//! an allowed token, and it hides that often only one token can follow. The encoder's own sequences are a regular
//! language over tokens, so this module enforces them exactly.
//!
//! | folder | contents |
//! |---|---|
//! | `merges` | the merge tree of each token, and which tokens may be neighbours |
//! | `texts` | the texts that the encoder does not rewrite |
//! | `tokenizer` | merges, texts and the splitting of one tokenizer: [`TokenizerAutomaton`] |
//! | `index` | that automaton with one vocabulary, and the caches that constraints share: [`CanonicalIndex`] |
//! | `viability` | the positions of a constraint, and the tokens that lead to live positions |
//! | `token_set` | sets of tokens as words of a mask |
//! | `tuning` | the numbers that change times and no masks |
//! | `part` | facts about regular parts of texts, which constraints share |
//! | `engine` | masks and states of any exact automaton: [`CanonicalEngine`] |
//! | `constraint` | those of a DFA: [`CanonicalConstraint`] |
//!
//! The algorithms are those of V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex Constraints* (2024),
//! section CartesianMerge and appendix (Algorithms 3 and 4). The splitting of real tokenizers is added here.

mod constraint;
mod engine;
mod error;
pub(crate) mod index;
pub(crate) mod merges;
mod part;
#[cfg(test)]
pub(crate) mod testing;
mod texts;
pub(crate) mod token_set;
pub(crate) mod tokenizer;
mod tuning;
pub(crate) mod viability;

pub use constraint::CanonicalConstraint;
pub use engine::{CanonicalEngine, CanonicalMemo, CanonicalScratch};
pub use error::{CanonicalError, NothingCanonical};
pub use index::CanonicalIndex;
pub use index::split_liveness::Safety;
pub use merges::derivation::MergeOrder;
pub use part::{Allowed, TextPart, utf8_state};
pub use tokenizer::TokenizerAutomaton;
pub use viability::{
    language::LazyDfa,
    lookahead::{PartTokens, TokensByLookahead},
    sequence::CanonicalState,
};

pub use crate::split::{SplitError, SplitLimits};
