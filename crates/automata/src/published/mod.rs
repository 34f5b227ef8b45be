//! Automata of published papers, exact and whole. The constraints of this crate supersede them.
//!
//! | file | contents | use instead |
//! |---|---|---|
//! | `direct_merge`, `merged` | DirectMerge (V. Tran-Thien 2024, section DirectMerge): the automaton of the tokenizer's sequences within one piece, [`MergedDfa`] | [`CanonicalConstraint`](crate::CanonicalConstraint), which takes whole texts and needs no automaton of them |
//! | `lift` | all edges of a DFA over tokens (Willard and Louf 2023, algorithm 4): [`LiftedDfa`] | [`RegexConstraint`](crate::RegexConstraint), which computes the masks of the states that a sequence reaches |
//! | `sparse`, `edges` | token automata as lists of edges, and the constraint over them | |
//! | `error` | their errors and limits: [`PublishedError`], [`PublishedLimits`] | |
//!
//! They serve as oracles in tests, and make figures of the papers reproducible. Vegas is in the folder
//! `canonical/vegas`, since its blocks are parts of the product of the canonical engine.

mod direct_merge;
mod edges;
mod error;
mod lift;
mod merged;
mod sparse;

pub use direct_merge::InitialTokens;
pub use error::{PublishedError, PublishedLimits};
pub use lift::LiftedDfa;
pub use merged::MergedDfa;
