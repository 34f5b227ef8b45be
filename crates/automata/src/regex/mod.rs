//! The syntax of patterns: from a text to a tree, or an error with its place.
//!
//! | file | contents |
//! |---|---|
//! | `dialect` | how a text is read: the dialects, and where they differ |
//! | `rust` | the dialect of the crate `regex`, by its own parser, and look-around besides |
//! | `check` | the price of a tree of that parser, before it is expanded |
//! | `reader` | the other dialects |
//! | `groups` | the part of the reader that opens and closes groups |
//! | `escapes`, `case` | the parts that end in a set of characters |
//! | `parsed` | the tree of each dialect, and facts about it |

mod case;
mod check;
mod dialect;
mod escapes;
mod groups;
pub(crate) mod parsed;
mod reader;
mod rust;

pub use dialect::{Dialect, Pattern, UnknownDialect};
pub(crate) use escapes::{PYTHON_WORD, known};
pub use parsed::{Bounded, Counted};
pub(crate) use parsed::{OPENINGS, parse};
