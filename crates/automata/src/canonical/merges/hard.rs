//! Hard bigrams: pairs of bytes that no token contains.
//!
//! A pair of bytes is *hard* if no token of the vocabulary contains it. In any text, a token ends between the two
//! bytes, and no merge ever joins the text on the left with the text on the right. So the text may be cut there, and
//! each side may be encoded alone. In the vocabularies of current models more than half of the pairs of printable
//! ASCII are hard.
//!
//! The table is over bytes (8 KiB), not over characters. A non-ASCII character is several pairs, and nearly no pair
//! inside it is hard. The pair of its last byte and the first byte of the next character decides. Tried instead, as
//! in the published notebook: searching the strings of the merges for one given delimiter.

use unskew_core::Vocabulary;
use unskew_trie::ByteSet;

/// The pairs of bytes that no token contains.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HardPairs {
    /// By the first byte: the second bytes with which it occurs in a token, one bit each.
    pub(crate) soft: Box<[[u64; 4]; 256]>,
}

impl HardPairs {
    /// The table of `vocabulary`. O(b) for b bytes of tokens.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut table = Self { soft: Box::new([[0; 4]; 256]) };
        for (_, text) in vocabulary.text_tokens() {
            text.windows(2).for_each(|pair| table.soften(pair[0], pair[1]));
        }
        table
    }

    /// Marks a pair as not hard.
    pub(crate) fn soften(&mut self, left: u8, right: u8) {
        self.soft[usize::from(left)][usize::from(right / 64)] |= 1 << (right % 64);
    }

    /// The bytes that form a hard pair after `left`.
    #[inline]
    pub(crate) fn hard_after(&self, left: u8) -> ByteSet {
        self.soft[usize::from(left)].map(|word| !word).into()
    }
}
