//! The languages of terminals, without those of others and in bounded numbers.
//!
//! | file | contents |
//! |---|---|
//! | `counted` | a bounded number of units between two marks: [`Counted`](crate::Counted) |
//! | `except` | a regular language without some texts: [`Except`](crate::Except) |
//! | `remaining` | how many texts a terminal has left |
//! | `extending` | the bytes with which texts go on where they may end |

pub(crate) mod counted;
pub(crate) mod except;
pub(crate) mod extending;
pub(crate) mod remaining;
