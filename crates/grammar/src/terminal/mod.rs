//! Languages of terminals that are kept in a compact form instead of as an automaton, and facts about terminals.
//!
//! | file | contents |
//! |---|---|
//! | `counted` | the texts of an automaton with a bounded number of units: [`CountedUnits`](crate::CountedUnits) |
//! | `difference` | a regular language minus finitely many texts: [`Difference`](crate::Difference) |
//! | `reading` | terminals byte by byte, whatever their form |
//! | `remaining` | the number of texts that a terminal has left |

pub(crate) mod counted;
pub(crate) mod difference;
pub(crate) mod reading;
pub(crate) mod remaining;

use unskew_core::ids::Id;

/// The two counts of an `Arc`, in bytes.
pub const COUNTS: usize = 2 * size_of::<usize>();

unskew_core::id! {
    /// A state of a terminal that is [scanned](reading::Scan): of its automaton, with a count of units or a node of the
    /// texts that are left out.
    pub ScanState
}

unskew_core::id! {
    /// How far a terminal is read: of a literal, the length of the prefix; of any other terminal, the state of its
    /// scanner.
    pub ReadState
}

impl From<ScanState> for ReadState {
    #[inline]
    fn from(state: ScanState) -> Self {
        Self::of(state.raw())
    }
}
