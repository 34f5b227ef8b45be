//! Sets of bytes, as 256 bits.

use std::fmt;

/// A set of bytes.
///
/// # Example
///
/// ```
/// use unskew_trie::ByteSet;
///
/// let digits: ByteSet = (b'0'..=b'9').collect();
/// assert!(digits.contains(b'7') && !digits.contains(b'a'));
/// assert_eq!(digits.and(&[b'a', b'1'].into_iter().collect()).iter().collect::<Vec<_>>(), [b'1']);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// Adds a byte.
    #[inline]
    pub fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    /// Whether `byte` is in the set.
    #[inline]
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The number of bytes in the set.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The number of bytes of the set that are less than `byte`: the index of `byte` among them, if it is one.
    #[inline]
    pub fn rank(&self, byte: u8) -> usize {
        let word = usize::from(byte / 64);
        let below = (self.0[word] & ((1 << (byte % 64)) - 1)).count_ones();
        self.0[..word].iter().map(|word| word.count_ones()).sum::<u32>() as usize + below as usize
    }

    /// The bytes of the set, in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let mut left = *self;
        std::iter::from_fn(move || left.pop_first())
    }

    /// Removes the least byte.
    #[inline]
    pub fn pop_first(&mut self) -> Option<u8> {
        let index = self.0.iter().position(|word| *word != 0)?;
        let bit = self.0[index].trailing_zeros();
        self.0[index] &= self.0[index] - 1;
        Some(index as u8 * 64 + bit as u8)
    }

    /// The bytes that are in both sets.
    #[inline]
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] & other.0[index]))
    }

    /// Whether some byte is in both sets.
    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(word, other)| word & other != 0)
    }

    /// Adds all bytes of `other`.
    #[inline]
    pub fn union(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// The set as bits: byte `b` is bit `b % 64` of word `b / 64`.
    #[inline]
    pub fn words(&self) -> [u64; 4] {
        self.0
    }
}

impl From<[u64; 4]> for ByteSet {
    /// From bits: byte `b` is bit `b % 64` of word `b / 64`.
    fn from(words: [u64; 4]) -> Self {
        Self(words)
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        let mut set = Self::default();
        bytes.into_iter().for_each(|byte| set.insert(byte));
        set
    }
}

impl fmt::Debug for ByteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> = self.iter().collect();
        write!(f, "{:?}", bytes.escape_ascii().to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_holds_what_was_put_in(
            bytes in prop::collection::btree_set(any::<u8>(), 0..40),
            others in prop::collection::btree_set(any::<u8>(), 0..200),
        ) {
            let set: ByteSet = bytes.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), bytes.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!((set.len(), set.is_empty()), (bytes.len(), bytes.is_empty()));
            prop_assert!((0..=255).all(|byte| set.contains(byte) == bytes.contains(&byte)));
            prop_assert!(set.iter().enumerate().all(|(index, byte)| set.rank(byte) == index));
            prop_assert_eq!(ByteSet::from(set.words()), set);
            let other: ByteSet = others.iter().copied().collect();
            let both: Vec<u8> = bytes.intersection(&others).copied().collect();
            prop_assert_eq!(set.meets(&other), !both.is_empty());
            prop_assert_eq!(set.and(&other).iter().collect::<Vec<_>>(), both);
            let mut all = set;
            all.union(&other);
            prop_assert_eq!(all, bytes.union(&others).copied().collect::<ByteSet>());
        }
    }
}
