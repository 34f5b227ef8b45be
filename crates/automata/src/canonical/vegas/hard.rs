//! Hard bigrams: pairs of bytes between which no token passes.
//!
//! A pair of bytes is *hard* if no token of the vocabulary contains it. Whatever stands around it, a token ends between
//! the two, and no merge ever joins what is on its left with what is on its right. So a text may be cut there, and each
//! side be encoded alone. In the vocabularies of today's models that is more than half of the pairs of printable ASCII.
//!
//! The table is of bytes, 8 KiB, and not of characters: a character beyond ASCII is many pairs, nearly none of them hard
//! in the middle, and the pair of its last byte and the next character's first one is what decides. Tried instead, by the
//! published notebook: looking for the delimiter in the strings of the merges, for a given delimiter only.

use std::fmt;

use unskew_core::Vocabulary;
use unskew_trie::ByteSet;

/// The pairs of bytes that no token contains.
///
/// # Example
///
/// ```
/// use unskew_automata::HardBigrams;
/// use unskew_core::Vocabulary;
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "b", ":", " ", " a", "ab"] {
///     builder.text(text.as_bytes());
/// }
/// let hard = HardBigrams::new(&builder.build()?);
/// assert!(hard.is_hard(b':', b' ') && hard.is_hard(b'b', b'a'));
/// assert!(!hard.is_hard(b' ', b'a') && !hard.is_hard(b'a', b'b'));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HardBigrams {
    /// By the first byte: the second bytes with which it occurs in a token, one bit each.
    soft: Box<[[u64; 4]; 256]>,
}

impl HardBigrams {
    /// The table of `vocabulary`. O(b) for b bytes of tokens.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let mut table = Self { soft: Box::new([[0; 4]; 256]) };
        for (_, text) in vocabulary.text_tokens() {
            text.windows(2).for_each(|pair| table.soften(pair[0], pair[1]));
        }
        table
    }

    /// Takes a pair for one that may stand in a token.
    pub(crate) fn soften(&mut self, left: u8, right: u8) {
        self.soft[usize::from(left)][usize::from(right / 64)] |= 1 << (right % 64);
    }

    /// Whether no token contains `left` with `right` behind it.
    #[inline]
    pub fn is_hard(&self, left: u8, right: u8) -> bool {
        self.soft[usize::from(left)][usize::from(right / 64)] >> (right % 64) & 1 == 0
    }

    /// The bytes before which `left` is hard.
    #[inline]
    pub(crate) fn behind(&self, left: u8) -> ByteSet {
        self.soft[usize::from(left)].map(|word| !word).into()
    }

    /// Whether every byte of `left` is hard before every byte of `right`. True if either is empty.
    pub fn all_hard(&self, left: &ByteSet, right: &ByteSet) -> bool {
        left.iter().all(|left| {
            let soft = &self.soft[usize::from(left)];
            soft.iter().zip(right.words()).all(|(soft, right)| soft & right == 0)
        })
    }

    /// How many pairs of these bytes are hard; of 97 x 97 pairs for printable ASCII with tab and newline.
    pub fn count(&self, bytes: &ByteSet) -> usize {
        bytes.iter().map(|left| bytes.iter().filter(|right| self.is_hard(left, *right)).count()).sum()
    }
}

impl fmt::Debug for HardBigrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HardBigrams").field("hard", &self.count(&(0..=255).collect())).finish()
    }
}
