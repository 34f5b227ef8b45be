//! Sets of tokens in words of a mask, one bit each, and in lists where they are few.

use unskew_core::{MaskRef, WORD_BITS};

/// Sets of at most so many tokens are kept as lists.
pub(crate) const SHORT: usize = 64;

/// The tokens of a position.
#[derive(Clone, Debug)]
pub(crate) enum TokenSet {
    /// In ascending order.
    Short(Box<[u32]>),
    /// One bit each.
    Long(Box<[u32]>),
}

impl TokenSet {
    pub(crate) fn new(words: Vec<u32>) -> Self {
        // Mostly it is seen soon that there are more.
        if bits(&words).nth(SHORT).is_none() {
            Self::Short(bits(&words).collect())
        } else {
            Self::Long(words.into())
        }
    }
}

/// The positions of the bits that are set.
pub(crate) fn bits(words: &[u32]) -> impl Iterator<Item = u32> {
    MaskRef::new(words, words.len() * WORD_BITS).into_ids().map(|id| id.0)
}

/// Whether `token` is in the set; tokens after its last word are not.
pub(crate) fn is_in(words: &[u32], token: u32) -> bool {
    words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 != 0)
}

/// Adds `token`.
pub(crate) fn set(words: &mut [u32], token: u32) {
    words[token as usize / 32] |= 1 << (token % 32);
}

/// Adds the tokens of `more`, which is as long.
pub(crate) fn unite(words: &mut [u32], more: &[u32]) {
    words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
}
