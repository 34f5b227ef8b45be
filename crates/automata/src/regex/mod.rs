//! The syntax of patterns: from a text to a tree, or an error with its place.
//!
//! | file | contents |
//! |---|---|
//! | `syntax` | the parser under limits, with errors that have a place |
//! | `looking` | the same for patterns with look-around |
//! | `check` | refuses constructs without an exact meaning, and estimates the price of a tree before it is expanded |

mod check;
pub(crate) mod looking;
pub(crate) mod syntax;
