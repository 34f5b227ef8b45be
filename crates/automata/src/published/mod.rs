//! Automata that papers describe, exact and whole; the constraints of this crate have overtaken them.
//!
//! | file | contents | instead |
//! |---|---|---|
//! | `direct_merge`, `merged` | DirectMerge (V. Tran-Thien 2024, section DirectMerge): the automaton of the tokenizer's sequences within one piece, [`MergedDfa`] | [`CanonicalConstraint`](crate::CanonicalConstraint), which takes whole texts and needs no automaton of them |
//! | `lift` | all edges of a DFA over tokens (Willard and Louf 2023, algorithm 4): [`LiftedDfa`] | [`RegexConstraint`](crate::RegexConstraint), which computes the masks of the states that a sequence reaches |
//! | `sparse`, `edges` | token automata by their edges, and the constraint over such an automaton | |
//!
//! They are oracles of the constraints, and make figures of the papers reproducible. Vegas is in the folder `canonical/vegas`: its
//! blocks are parts of the product that is made there.

mod direct_merge;
mod edges;
mod lift;
mod merged;
mod sparse;

pub use direct_merge::ByteSymbols;
pub use lift::LiftedDfa;
pub use merged::MergedDfa;
