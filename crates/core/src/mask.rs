//! Token masks: one bit per token id, in words of 32 bits, least significant bit first, tail bits zero.
//!
//! llguidance, XGrammar and GPU kernels use this layout, so that a mask goes to them without a copy. Whole words are
//! public, because an engine that fills a mask from cached rows works on words.
//!
//! Owned and borrowed forms mirror `Vec`, `&[T]` and `&mut [T]`: [`TokenMask`], [`MaskRef`] and [`MaskMut`];
//! [`MaskBatch`] is many masks in one allocation.

use std::fmt;

use crate::TokenId;

/// Bits in a word of a mask.
pub const WORD_BITS: usize = 32;

/// The number of words of a mask over `vocab_len` ids.
pub const fn words_for(vocab_len: usize) -> usize {
    vocab_len.div_ceil(WORD_BITS)
}

/// An owned mask: the allowed ones of `len` token ids.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, TokenMask};
///
/// let mut mask = TokenMask::new(40);
/// mask.as_mut().insert(TokenId(33));
/// assert!(mask.contains(TokenId(33)));
/// assert_eq!(mask.words(), [0, 0b10]);
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(33)]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct TokenMask {
    words: Vec<u32>,
    len: usize,
}

impl TokenMask {
    /// A mask over `len` ids that allows no id.
    pub fn new(len: usize) -> Self {
        Self { words: vec![0; words_for(len)], len }
    }

    /// A borrow of the mask, to be changed.
    #[allow(
        clippy::should_implement_trait,
        reason = "MaskMut carries a lifetime, so AsMut cannot express it"
    )]
    #[inline]
    pub fn as_mut(&mut self) -> MaskMut<'_> {
        MaskMut { words: &mut self.words, len: self.len }
    }

    /// A borrow of the mask.
    #[allow(
        clippy::should_implement_trait,
        reason = "MaskRef carries a lifetime, so AsRef cannot express it"
    )]
    pub fn as_ref(&self) -> MaskRef<'_> {
        MaskRef { words: &self.words, len: self.len }
    }

    /// The number of ids that the mask covers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mask covers no id at all; see [`none`](Self::none) for a mask that allows no id.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The words of the mask.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether `id` is allowed. False beyond the end.
    #[inline]
    pub fn contains(&self, id: TokenId) -> bool {
        self.as_ref().contains(id)
    }

    /// The number of allowed ids.
    pub fn count(&self) -> usize {
        self.as_ref().count()
    }

    /// Whether no id is allowed.
    pub fn none(&self) -> bool {
        self.as_ref().none()
    }

    /// The allowed ids, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = TokenId> {
        self.as_ref().into_ids()
    }
}

impl fmt::Debug for TokenMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// A borrowed mask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MaskRef<'a> {
    /// `words_for(len)` words; bits at and beyond `len` are zero.
    words: &'a [u32],
    len: usize,
}

impl<'a> MaskRef<'a> {
    /// A view of `words` as a mask over `len` ids.
    ///
    /// # Panics
    ///
    /// If the number of words is not [`words_for(len)`](words_for), or a tail bit is set.
    pub fn new(words: &'a [u32], len: usize) -> Self {
        assert_eq!(words.len(), words_for(len), "a mask over {len} ids has {} words", words_for(len));
        let mask = Self { words, len };
        assert!(mask.tail_is_zero(), "the bits of a mask beyond its {len} ids must be zero");
        mask
    }

    /// The number of ids that the mask covers.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the mask covers no id at all.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The words of the mask.
    pub fn words(self) -> &'a [u32] {
        self.words
    }

    /// Whether `id` is allowed. False beyond the end.
    #[inline]
    pub fn contains(self, id: TokenId) -> bool {
        let word = self.words.get(id.index() / WORD_BITS).copied().unwrap_or(0);
        word >> (id.index() % WORD_BITS) & 1 != 0
    }

    /// The number of allowed ids.
    pub fn count(self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no id is allowed.
    pub fn none(self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The allowed ids, in ascending order.
    pub fn into_ids(self) -> impl Iterator<Item = TokenId> + 'a {
        Ids { words: self.words, next: 0, first: 0, rest: 0 }
    }

    /// An owned copy.
    pub fn to_owned(self) -> TokenMask {
        TokenMask { words: self.words.to_vec(), len: self.len }
    }

    /// Whether every bit beyond the last id is zero, as the layout demands.
    pub fn tail_is_zero(self) -> bool {
        let used = self.len % WORD_BITS;
        used == 0 || self.words.last().is_none_or(|word| word >> used == 0)
    }
}

/// The ids of a mask, word by word: a search for each next bit takes several times as long.
struct Ids<'a> {
    /// The words that are left.
    words: &'a [u32],
    /// The first id of these words.
    next: u32,
    /// The bits that are left of the word before them, and the first id of that word.
    rest: u32,
    first: u32,
}

impl Iterator for Ids<'_> {
    type Item = TokenId;

    fn next(&mut self) -> Option<TokenId> {
        /// The number of words that are passed over together: a mask of few tokens is zero nearly everywhere.
        const MANY: usize = 16;
        while self.rest == 0 {
            while let Some((many, left)) = self.words.split_first_chunk::<MANY>()
                && many.iter().fold(0, |any, word| any | word) == 0
            {
                (self.words, self.next) = (left, self.next + (MANY * WORD_BITS) as u32);
            }
            let (word, left) = self.words.split_first()?;
            (self.rest, self.first) = (*word, self.next);
            (self.words, self.next) = (left, self.next + WORD_BITS as u32);
        }
        let id = TokenId(self.first + self.rest.trailing_zeros());
        self.rest &= self.rest - 1;
        Some(id)
    }
}

impl fmt::Debug for MaskRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} ids: ", self.count(), self.len)?;
        f.debug_list().entries(self.into_ids().map(|id| id.0)).finish()
    }
}

/// A mask borrowed to be changed. Its methods cannot set a tail bit, except by the words of
/// [`into_words`](Self::into_words).
pub struct MaskMut<'a> {
    words: &'a mut [u32],
    len: usize,
}

impl<'a> MaskMut<'a> {
    /// A view of `words` as a mask over `len` ids. It allows the ids whose bits are set; bits beyond the end are
    /// cleared. O(1).
    ///
    /// # Panics
    ///
    /// If the number of words is not [`words_for(len)`](words_for).
    pub fn new(words: &'a mut [u32], len: usize) -> Self {
        assert_eq!(words.len(), words_for(len), "a mask over {len} ids has {} words", words_for(len));
        let mut mask = Self { words, len };
        mask.clear_tail();
        mask
    }

    fn clear_tail(&mut self) {
        if !self.len.is_multiple_of(WORD_BITS)
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << (self.len % WORD_BITS)) - 1;
        }
    }

    /// The number of ids that the mask covers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mask covers no id at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A shorter borrow of the same mask.
    pub fn reborrow(&mut self) -> MaskMut<'_> {
        MaskMut { words: self.words, len: self.len }
    }

    /// The mask, to be read.
    pub fn as_ref(&self) -> MaskRef<'_> {
        MaskRef { words: self.words, len: self.len }
    }

    /// Allows no id.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Allows every id.
    pub fn fill(&mut self) {
        self.words.fill(u32::MAX);
        self.clear_tail();
    }

    /// Allows `id`.
    ///
    /// # Panics
    ///
    /// If `id` is beyond the end.
    #[inline]
    pub fn insert(&mut self, id: TokenId) {
        assert!(id.index() < self.len, "token id {id} is outside a mask over {} ids", self.len);
        self.words[id.index() / WORD_BITS] |= 1 << (id.index() % WORD_BITS);
    }

    /// The words, for an engine that sets many bits at once. The engine must leave the bits at and beyond
    /// [`len`](Self::len) zero: every reader of a mask relies on it.
    #[inline]
    pub fn into_words(self) -> &'a mut [u32] {
        self.words
    }

    /// Forbids `id`. An id beyond the end is ignored.
    #[inline]
    pub fn remove(&mut self, id: TokenId) {
        if let Some(word) = self.words.get_mut(id.index() / WORD_BITS) {
            *word &= !(1 << (id.index() % WORD_BITS));
        }
    }

    /// Becomes a copy of `other`.
    ///
    /// # Panics
    ///
    /// If the lengths differ; [`union`](Self::union) and [`intersect`](Self::intersect) panic then too.
    pub fn copy_from(&mut self, other: MaskRef<'_>) {
        assert_eq!(self.len, other.len, "masks of different lengths");
        self.words.copy_from_slice(other.words);
    }

    /// Allows also the ids that `other` allows.
    pub fn union(&mut self, other: MaskRef<'_>) {
        assert_eq!(self.len, other.len, "masks of different lengths");
        for (word, more) in self.words.iter_mut().zip(other.words) {
            *word |= more;
        }
    }

    /// Allows also the ids of a mask that comes word by word, such as one of a file. Missing words allow no id, and
    /// bits beyond the end are dropped.
    #[inline]
    pub fn union_words(&mut self, words: impl IntoIterator<Item = u32>) {
        self.words.iter_mut().zip(words).for_each(|(word, more)| *word |= more);
        self.clear_tail();
    }

    /// Keeps only the ids that `other` allows too.
    pub fn intersect(&mut self, other: MaskRef<'_>) {
        assert_eq!(self.len, other.len, "masks of different lengths");
        for (word, other) in self.words.iter_mut().zip(other.words) {
            *word &= other;
        }
    }
}

impl fmt::Debug for MaskMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// Many masks over the same ids in one allocation: `rows x words_for(len)` words, row-major.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MaskBatch {
    words: Vec<u32>,
    rows: usize,
    len: usize,
}

impl MaskBatch {
    /// `rows` masks over `len` ids that allow no id.
    pub fn new(rows: usize, len: usize) -> Self {
        Self { words: vec![0; rows * words_for(len)], rows, len }
    }

    /// The number of masks.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of ids that each mask covers.
    pub fn vocab_len(&self) -> usize {
        self.len
    }

    /// All words, row-major, as a GPU buffer takes them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Mask `row`.
    ///
    /// # Panics
    ///
    /// If there is no such row; [`row_mut`](Self::row_mut) panics then too.
    pub fn row(&self, row: usize) -> MaskRef<'_> {
        assert!(row < self.rows, "row {row} of a batch of {}", self.rows);
        let words = words_for(self.len);
        MaskRef { words: &self.words[row * words..(row + 1) * words], len: self.len }
    }

    /// Mask `row`, to be changed.
    pub fn row_mut(&mut self, row: usize) -> MaskMut<'_> {
        assert!(row < self.rows, "row {row} of a batch of {}", self.rows);
        let words = words_for(self.len);
        MaskMut { words: &mut self.words[row * words..(row + 1) * words], len: self.len }
    }
}

impl fmt::Debug for MaskBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.rows).map(|row| self.row(row))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fill_leaves_the_tail_zero_at_every_length() {
        for len in 0..200 {
            let mut mask = TokenMask::new(len);
            mask.as_mut().fill();
            assert_eq!(mask.count(), len);
            assert!(mask.as_ref().tail_is_zero());
            assert!(!mask.contains(TokenId::from_index(len)));
        }
    }

    #[test]
    fn words_that_are_too_many_or_too_few_keep_the_tail_zero() {
        for (len, count) in [(0, 0), (1, 1), (32, 32), (33, 33), (64, 64), (100, 96)] {
            let mut mask = TokenMask::new(len);
            mask.as_mut().union_words([u32::MAX; 3]);
            assert_eq!(mask.count(), count);
            assert!(mask.as_ref().tail_is_zero());
        }
    }

    proptest! {
        /// The bits lie between runs of zeros that are passed over together, and at the ends of words and masks.
        #[test]
        fn ids_are_the_bits_that_are_set(
            len in 0usize..3000,
            set in prop::collection::btree_set(0usize..3000, 0..12),
            dense in 0usize..3000,
            width in 0usize..200,
        ) {
            let mut mask = TokenMask::new(len);
            let all = set.into_iter().chain(dense..dense + width).filter(|id| *id < len);
            all.for_each(|id| mask.as_mut().insert(TokenId::from_index(id)));
            let expected = (0..len).map(TokenId::from_index).filter(|id| mask.contains(*id));
            prop_assert!(mask.ids().eq(expected));
        }
    }

    #[test]
    #[should_panic(expected = "outside a mask over 33 ids")]
    fn a_tail_bit_cannot_be_set() {
        TokenMask::new(33).as_mut().insert(TokenId(33));
    }

    #[test]
    #[should_panic(expected = "beyond its 33 ids must be zero")]
    fn a_foreign_mask_with_a_tail_bit_is_refused() {
        MaskRef::new(&[0, 0b10], 33);
    }

    #[test]
    fn rows_of_a_batch_do_not_overlap() {
        let mut batch = MaskBatch::new(3, 33);
        batch.row_mut(1).fill();
        assert_eq!((0..3).map(|row| batch.row(row).count()).collect::<Vec<_>>(), [0, 33, 0]);
    }

    proptest! {
        /// The operations are those of sets, for every length and every content.
        #[test]
        fn masks_are_sets(
            len in 1usize..100,
            left in prop::collection::btree_set(0u32..100, 0..40),
            right in prop::collection::btree_set(0u32..100, 0..40),
        ) {
            let clip = |ids: BTreeSet<u32>| ids.into_iter().filter(|id| (*id as usize) < len).collect::<BTreeSet<_>>();
            let (left, right) = (clip(left), clip(right));
            let mask = |ids: &BTreeSet<u32>| {
                let mut mask = TokenMask::new(len);
                ids.iter().for_each(|id| mask.as_mut().insert(TokenId(*id)));
                mask
            };
            let set = |mask: &TokenMask| mask.ids().map(|id| id.0).collect::<BTreeSet<_>>();

            let mut union = mask(&left);
            union.as_mut().union(mask(&right).as_ref());
            prop_assert_eq!(set(&union), left.union(&right).copied().collect());
            prop_assert_eq!(union.count(), left.union(&right).count());
            let mut by_words = mask(&left);
            by_words.as_mut().union_words(mask(&right).words().iter().copied());
            prop_assert_eq!(&by_words, &union);

            let mut both = mask(&left);
            both.as_mut().intersect(mask(&right).as_ref());
            prop_assert_eq!(set(&both), left.intersection(&right).copied().collect());

            let mut without = mask(&left);
            right.iter().for_each(|id| without.as_mut().remove(TokenId(*id)));
            prop_assert_eq!(set(&without), left.difference(&right).copied().collect());
            prop_assert_eq!(without.none(), left.is_subset(&right));
        }
    }
}
