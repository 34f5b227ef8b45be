//! Deterministic automata over bytes: compiled from the tree of a pattern, from literals, or edge by edge, and
//! combined.
//!
//! ```text
//! tree --nfa--> NFA over bytes --determinize--> Table --minimize--> Dfa (automaton)
//!                     literals --acyclic----------^
//!                        edges --builder----------^
//!                Dfa, Dfa, ... --algebra----------^
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `classes` | bytes that no state distinguishes: [`ByteClasses`], [`Cuts`] |
//! | `atoms` | sets of characters: [`CharSet`], and characters that no set distinguishes |
//! | `utf8` | from sets of characters to bytes |
//! | `state` | state numbers: [`StateId`], and vectors indexed by them |
//! | `acyclic` | the automaton of a list of texts, built minimal |
//! | `nfa` | Thompson's automaton of a tree, within limits |
//! | `closure` | the NFA states that are reachable without reading a byte |
//! | `determinize` | the subset construction |
//! | `table` | the transition table that the stages work on |
//! | `minimize` | states with the same language become one (Hopcroft's algorithm) |
//! | `automaton` | the finished automaton: [`Dfa`] |
//! | `algebra` | union, intersection, difference and others under one budget: [`DfaAlgebra`] |
//! | `look/` | patterns that look around, and order among matches: [`Patterns`] |
//! | `factors` | the concatenations of adjacent texts of a sequence, by its suffix automaton |
//! | `characters` | edges as ranges of code points: [`Characters`] |
//! | `builder` | an automaton edge by edge: [`DfaBuilder`] |
//! | `explore` | an automaton from a start and a step: [`Explored`] |

mod acyclic;
mod algebra;
pub(crate) mod atoms;
mod automaton;
mod builder;
mod characters;
mod classes;
pub(crate) mod closure;
pub(crate) mod determinize;
pub(crate) mod explore;
mod factors;
mod look;
pub(crate) mod minimize;
pub(crate) mod nfa;
mod numbering;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod utf8;

pub use algebra::DfaAlgebra;
pub use atoms::CharSet;
pub use automaton::{Dfa, Edge};
pub use builder::DfaBuilder;
pub use characters::{Characters, Piece};
pub use classes::{ByteClasses, Cuts};
pub use explore::{Explored, Graph, strata};
pub use look::{InContext, LookAround, PatternId, Patterns, Reading};
pub use state::StateId;
