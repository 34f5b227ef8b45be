//! The fate of a construct of a grammar, or of a keyword of a schema.
//!
//! Notations and schemas report it in the same words.

use std::fmt;

/// The fate of a construct.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Fate {
    /// Outputs follow the construct exactly.
    Enforced,
    /// Outputs follow the construct, and some values that it allows are excluded.
    Narrowed,
    /// The construct changes no text, or no output reaches it.
    Annotation,
    /// The construct makes the grammar unusable.
    Rejected,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforced => "enforced",
            Self::Narrowed => "narrowed",
            Self::Annotation => "annotation",
            Self::Rejected => "rejected",
        })
    }
}
