//! The id of a token: a newtype, so that an id is never mistaken for a count, a byte or a row.

use std::fmt;

/// The id of a token: its position in a [`Vocabulary`](crate::Vocabulary) and in a row of logits.
///
/// Ids are `u32`, as tokenizers, checkpoints and GPU kernels have them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The id as an index into a slice.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The id of position `index`.
    ///
    /// # Panics
    ///
    /// If `index` does not fit in 32 bits; a vocabulary never holds that many tokens.
    #[inline]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("token ids are 32 bits wide"))
    }
}

impl From<u32> for TokenId {
    fn from(id: u32) -> Self {
        Self(id)
    }
}

impl From<TokenId> for u32 {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
