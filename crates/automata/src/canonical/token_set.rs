//! Sets of tokens: one bit each in words of a mask, or a list if the set is small.

use unskew_core::{MaskRef, WORD_BITS};

/// The largest set that is stored as a list.
pub(crate) const SHORT_LIST: usize = 64;

/// The set of tokens that are allowed in a position.
#[derive(Clone, Debug)]
pub(crate) enum TokenSet {
    /// In ascending order.
    Short(Box<[u32]>),
    /// One bit each.
    Long(Box<[u32]>),
}

impl TokenSet {
    pub(crate) fn new(words: Vec<u32>) -> Self {
        // Most large sets exceed the limit after a few words, so this count ends early.
        if bits(&words).nth(SHORT_LIST).is_none() {
            Self::Short(bits(&words).collect())
        } else {
            Self::Long(words.into())
        }
    }
}

/// The positions of the bits that are set, in ascending order.
pub(crate) fn bits(words: &[u32]) -> impl Iterator<Item = u32> {
    MaskRef::new(words, words.len() * WORD_BITS).into_ids().map(|id| id.0)
}

/// Whether `token` is in the set. Tokens beyond the last word are not in it.
pub(crate) fn is_in(words: &[u32], token: u32) -> bool {
    words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 != 0)
}

/// Adds `token`.
pub(crate) fn set(words: &mut [u32], token: u32) {
    words[token as usize / 32] |= 1 << (token % 32);
}

/// Adds the tokens of `more`, which has the same length.
pub(crate) fn unite(words: &mut [u32], more: &[u32]) {
    words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
}
