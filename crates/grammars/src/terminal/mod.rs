//! Terminals: the automata of their texts, without those of others and in bounded numbers.
//!
//! | file | contents |
//! |---|---|
//! | `scanner` | terminals as the scanner reads them, and the classes of bytes that none of them tells apart |
//! | `counted` | a bounded number of units between two marks: [`Counted`](crate::Counted) |
//! | `except` | a regular language without some texts: [`Except`](crate::Except) |

pub(crate) mod counted;
pub(crate) mod except;
pub(crate) mod scanner;
