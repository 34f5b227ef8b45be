//! Hard bigrams: the table of the canonical engine, with the questions that cut a pattern and a product.

use std::fmt;

use unskew_core::Vocabulary;
use unskew_trie::ByteSet;

use crate::canonical::merges::hard::HardPairs;

/// The pairs of bytes that no token contains.
///
/// # Example
///
/// ```
/// use unskew_automata::published::HardBigrams;
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
pub struct HardBigrams(pub(super) HardPairs);

impl HardBigrams {
    /// The table of `vocabulary`. O(b) for b bytes of tokens.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        Self(HardPairs::new(vocabulary))
    }

    /// Whether no token contains `left` followed by `right`.
    pub fn is_hard(&self, left: u8, right: u8) -> bool {
        self.0.hard_after(left).contains(right)
    }

    /// Whether every byte of `left` forms a hard pair with every byte of `right`. True if either set is empty.
    pub fn all_hard(&self, left: &ByteSet, right: &ByteSet) -> bool {
        left.iter().all(|left| {
            let soft = &self.0.soft[usize::from(left)];
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
