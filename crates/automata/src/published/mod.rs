//! Automata of published papers, exact and whole. The constraints of this crate supersede them.
//!
//! | file | contents | use instead |
//! |---|---|---|
//! | `direct_merge`, `merged` | DirectMerge (V. Tran-Thien 2024, section DirectMerge): the automaton of the tokenizer's sequences within one piece, [`MergedDfa`] | [`CanonicalConstraint`](crate::CanonicalConstraint), which takes whole texts and needs no automaton of them |
//! | `lift` | all edges of a DFA over tokens (Willard and Louf 2023, algorithm 4): [`LiftedDfa`] | [`RegexConstraint`](crate::RegexConstraint), which computes the masks of the states that a sequence reaches |
//! | `sparse`, `edges` | token automata as lists of edges, and the constraint over them | |
//! | `error` | their errors and limits: [`PublishedError`], [`PublishedLimits`] | |
//!
//! | `vegas` | Vegas configurations (the same paper, section CartesianMerge and appendix): the product of a constraint with its tokenizer, built whole, with parts that constraints share: [`VegasConstraint`] | [`CanonicalConstraint`](crate::CanonicalConstraint), which explores the product on demand |
//!
//! They serve as oracles in tests, and make figures of the papers reproducible. They are a feature of the crate,
//! `published`, that nothing of this project has in its default build.

mod direct_merge;
mod edges;
mod error;
mod lift;
mod merged;
mod sparse;
mod vegas;

pub use direct_merge::InitialTokens;
pub use error::{PublishedError, PublishedLimits};
pub use lift::LiftedDfa;
pub use merged::MergedDfa;
pub use vegas::{
    HardBigrams, LibraryFileError, LibraryStats, VegasConfiguration, VegasConstraint, VegasLibrary,
    vegas_configurations,
};
