//! Who ends an output, and how specs write it.

use std::{fmt, str::FromStr};

/// Who ends an output. See the law at [`WithEnd`](crate::WithEnd).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutputEnd {
    /// The model, by one of the ids that end a sequence.
    Model,
    /// The constraint: the output ends where the model's text leaves it.
    Free,
}

/// As specs write it: `model` or `free`.
impl fmt::Display for OutputEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Free => "free",
        })
    }
}

impl FromStr for OutputEnd {
    type Err = UnknownEnd;

    fn from_str(text: &str) -> Result<Self, UnknownEnd> {
        match text {
            "model" => Ok(Self::Model),
            "free" => Ok(Self::Free),
            _ => Err(UnknownEnd),
        }
    }
}

/// The text is no [`OutputEnd`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "it is `model` (an output ends where the model ends its text) or `free` (where the text leaves the constraint)"
)]
pub struct UnknownEnd;
