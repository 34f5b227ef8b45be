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

    /// Marks a pair as not hard.
    pub(crate) fn soften(&mut self, left: u8, right: u8) {
        self.soft[usize::from(left)][usize::from(right / 64)] |= 1 << (right % 64);
    }

    /// Whether no token contains `left` followed by `right`.
    #[inline]
    pub fn is_hard(&self, left: u8, right: u8) -> bool {
        self.soft[usize::from(left)][usize::from(right / 64)] >> (right % 64) & 1 == 0
    }

    /// The bytes that form a hard pair after `left`.
    #[inline]
    pub(crate) fn hard_after(&self, left: u8) -> ByteSet {
        self.soft[usize::from(left)].map(|word| !word).into()
    }

    /// Whether every byte of `left` forms a hard pair with every byte of `right`. True if either set is empty.
    pub fn all_hard(&self, left: &ByteSet, right: &ByteSet) -> bool {
        left.iter().all(|left| {
            let soft = &self.soft[usize::from(left)];
            soft.iter().zip(right.words()).all(|(soft, right)| soft & right == 0)
        })
    }

    /// The number of hard pairs of these bytes. For printable ASCII with tab and newline there are 97 x 97 pairs.
    pub fn count(&self, bytes: &ByteSet) -> usize {
        bytes.iter().map(|left| bytes.iter().filter(|right| self.is_hard(left, *right)).count()).sum()
    }
}

impl fmt::Debug for HardBigrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HardBigrams").field("hard", &self.count(&(0..=255).collect())).finish()
    }
}
