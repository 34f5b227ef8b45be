//! Languages of terminals that are kept in a compact form instead of as an automaton, and facts about terminals.
//!
//! | file | contents |
//! |---|---|
//! | `counted` | a bounded repetition of a unit between two marks: [`Counted`](crate::Counted) |
//! | `except` | a regular language minus finitely many texts: [`Except`](crate::Except) |
//! | `remaining` | the number of texts that a terminal has left |
//! | `extending` | the bytes that may continue a complete text of a terminal |

pub(crate) mod counted;
pub(crate) mod except;
pub(crate) mod extending;
pub(crate) mod remaining;
