//! Languages of terminals that are kept in a compact form instead of as an automaton, and facts about terminals.
//!
//! | file | contents |
//! |---|---|
//! | `bounded` | a bounded repetition of a unit between two marks: [`BoundedRepetition`](crate::BoundedRepetition) |
//! | `length` | the texts of an automaton up to a length: [`BoundedLength`](crate::BoundedLength) |
//! | `difference` | a regular language minus finitely many texts: [`Difference`](crate::Difference) |
//! | `remaining` | the number of texts that a terminal has left |
//! | `extending` | the bytes that may continue a complete text of a terminal |
//! | `safe` | the bytes with which a terminal comes to no dead end |

pub(crate) mod bounded;
pub(crate) mod difference;
pub(crate) mod extending;
pub(crate) mod length;
pub(crate) mod reading;
pub(crate) mod remaining;
pub(crate) mod safe;

use crate::ids::Id;

crate::ids::id! {
    /// A state of the scanner of a terminal: of an automaton, a [difference](difference) or a [repetition](bounded).
    ScanState
}

crate::ids::id! {
    /// How far a terminal is read: of a literal, the length of the prefix; of any other terminal, the state of its
    /// scanner.
    ReadState
}

impl From<ScanState> for ReadState {
    #[inline]
    fn from(state: ScanState) -> Self {
        Self::of(state.raw())
    }
}
