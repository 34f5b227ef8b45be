//! A DFA read by tokens, and the constraints over it.
//!
//! | file | contents |
//! |---|---|
//! | `token_dfa` | the steps and masks of a DFA over the tokens of a vocabulary: [`TokenDfa`] |
//! | `constraint` | the same with the mask of each state computed once: [`RegexConstraint`] |
//! | `lazy` | patterns whose DFA exceeds the limits, with states that are built when they are reached: [`LazyRegexConstraint`] |
//! | `any` | the choice between the two for a pattern: [`regex`](regex()) |

mod any;
mod constraint;
mod lazy;
mod token_dfa;

pub use any::{AnyRegex, regex};
pub use constraint::RegexConstraint;
pub use lazy::{LazyRegexConstraint, LazyScratch, LazyState};
pub use token_dfa::TokenDfa;
