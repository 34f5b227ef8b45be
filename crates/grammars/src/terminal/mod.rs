//! Languages of terminals that are kept in a compact form instead of as an automaton, and facts about terminals.
//!
//! | file | contents |
//! |---|---|
//! | `counted` | the texts of an automaton with a bounded number of units: [`CountedUnits`](crate::CountedUnits) |
//! | `difference` | a regular language minus finitely many texts: [`Difference`](crate::Difference) |
//! | `reading` | terminals byte by byte, whatever their form |
//! | `remaining` | the number of texts that a terminal has left |
//! | `extending` | the bytes that may continue a complete text of a terminal |
//! | `safe` | the bytes with which a terminal comes to no dead end |

pub(crate) mod counted;
pub(crate) mod difference;
pub(crate) mod extending;
pub(crate) mod reading;
pub(crate) mod remaining;
pub(crate) mod safe;

use crate::ids::Id;

crate::ids::id! {
    /// A state of a terminal that is [scanned](reading::Scan): of its automaton, with a count of units or a node of the
    /// texts that are left out.
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
