//! Languages of terminals that are kept in a compact form instead of as an automaton, and facts about terminals.
//!
//! | file | contents |
//! |---|---|
//! | `bounded` | a bounded repetition of a unit between two marks: [`BoundedRepetition`](crate::BoundedRepetition) |
//! | `difference` | a regular language minus finitely many texts: [`Difference`](crate::Difference) |
//! | `remaining` | the number of texts that a terminal has left |
//! | `extending` | the bytes that may continue a complete text of a terminal |

pub(crate) mod bounded;
pub(crate) mod difference;
pub(crate) mod extending;
pub(crate) mod remaining;

crate::ids::id! {
    /// A state of the scanner of a terminal: of an automaton, a [difference](difference) or a [repetition](bounded).
    ScanState
}
