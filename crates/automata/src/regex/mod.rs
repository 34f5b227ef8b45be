//! The syntax of patterns: from a text to a tree without look-around, or an error with its place.

mod check;
pub(crate) mod syntax;
