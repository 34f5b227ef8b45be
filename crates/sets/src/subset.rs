//! Some items of a set, as bits: named filters, and the items that a delta leaves.
//!
//! Items with a common prefix follow each other in the order of a set. A filter leaves a prefix while there is a bit
//! in the prefix's range.

use std::{fmt, io::BufRead, ops::Range};

use unskew_core::{TokenId, Vocabulary};

use crate::{
    ItemSet, SetError, SetLimits,
    error::SetFileError,
    lines::{Form, Found, encode_lines, shown},
};

const WORD: u32 = u64::BITS;

/// A subset of the items of an [`ItemSet`], by their places in its order.
#[derive(Clone, PartialEq, Eq)]
pub struct Subset {
    len: u32,
    words: Vec<u64>,
}

impl Subset {
    /// No item of a set of `len`.
    pub fn none(len: usize) -> Self {
        let len = u32::try_from(len).expect("a set has fewer than 2^32 items");
        Self { len, words: vec![0; len.div_ceil(WORD) as usize] }
    }

    /// Every item of a set of `len`.
    pub fn all(len: usize) -> Self {
        let mut all = Self::none(len);
        all.words.fill(u64::MAX);
        if let Some(last) = all.words.last_mut().filter(|_| !all.len.is_multiple_of(WORD)) {
            *last = (1 << (all.len % WORD)) - 1;
        }
        all
    }

    /// The memory of the subset, in bytes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.words[..])
    }

    /// The items at these places.
    ///
    /// # Panics
    ///
    /// If a place is not one of the set's.
    pub fn from_places(len: usize, places: impl IntoIterator<Item = u32>) -> Self {
        let mut subset = Self::none(len);
        places.into_iter().for_each(|place| subset.insert(place));
        subset
    }

    /// The items of `set` that are the lines of a text, as `encode` writes them; lines without text are dropped.
    ///
    /// # Errors
    ///
    /// [`SetError::NoSuchItem`] where a line is no item, [`SetError::File`] where `set` was built for another
    /// vocabulary than `vocabulary`, and as [`SetBuilder::push_lines`](crate::SetBuilder::push_lines) with the line.
    pub fn from_lines<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        set: &ItemSet,
        vocabulary: &Vocabulary,
        text: impl BufRead,
        encode: impl Fn(&str) -> Result<Vec<TokenId>, E> + Sync,
    ) -> Result<Self, SetError> {
        set.check_vocabulary(vocabulary)?;
        let form = Form { vocabulary, prefix: "", line_bytes: SetLimits::default().line_bytes };
        let mut subset = Self::none(set.len());
        encode_lines(text, form, &mut 0, encode, |found| {
            if let Found::Item(line, text, item) = found {
                let no_such_item = || SetError::NoSuchItem { line, text: shown(text) };
                subset.insert(set.find(&item).ok_or_else(no_such_item)?);
            }
            Ok(())
        })?;
        Ok(subset)
    }

    /// The number of items of the whole set.
    pub fn set_len(&self) -> usize {
        self.len as usize
    }

    /// The number of items in the subset. O(n / 64) for a set of n items.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the item at `place` is in the subset. False for places after the last item.
    #[inline]
    pub fn contains(&self, place: u32) -> bool {
        let word = self.words.get((place / WORD) as usize).copied().unwrap_or(0);
        word >> (place % WORD) & 1 == 1
    }

    /// Adds the item at `place` to the subset.
    ///
    /// # Panics
    ///
    /// If there is no such place. [`remove`](Self::remove) panics for the same reason.
    pub fn insert(&mut self, place: u32) {
        assert!(place < self.len, "place {place} of a set of {} items", self.len);
        self.words[(place / WORD) as usize] |= 1 << (place % WORD);
    }

    /// Removes the item at `place` from the subset.
    pub fn remove(&mut self, place: u32) {
        assert!(place < self.len, "place {place} of a set of {} items", self.len);
        self.words[(place / WORD) as usize] &= !(1 << (place % WORD));
    }

    /// The intersection of two subsets of one set.
    ///
    /// # Panics
    ///
    /// If the sets have different lengths.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        assert_eq!(self.len, other.len, "subsets of different sets");
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
        self
    }

    /// The first item in `range`, found word by word.
    #[inline]
    pub(crate) fn first_in(&self, range: Range<u32>) -> Option<u32> {
        let end = range.end.min(self.len);
        if range.start >= end {
            return None;
        }
        let mut word = (range.start / WORD) as usize;
        let mut bits = self.words[word] >> (range.start % WORD) << (range.start % WORD);
        let last = ((end - 1) / WORD) as usize;
        while bits == 0 {
            word += 1;
            if word > last {
                return None;
            }
            bits = self.words[word];
        }
        let place = word as u32 * WORD + bits.trailing_zeros();
        (place < end).then_some(place)
    }
}

impl fmt::Debug for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} items", self.count(), self.len)
    }
}

/// Named subsets in the form of a file: their number, and for each the length of its name, the name and the words.
pub(crate) fn subsets_to_bytes(subsets: &[(&str, &Subset)]) -> Vec<u8> {
    let number = |len: usize| u32::try_from(len).expect("names and their number are short").to_le_bytes();
    let mut bytes = number(subsets.len()).to_vec();
    for (name, subset) in subsets {
        bytes.extend(number(name.len()));
        bytes.extend(name.as_bytes());
        bytes.extend(subset.words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes
}

/// The names, and the words of each.
fn read_subsets(mut bytes: &[u8], items: u32) -> Option<Vec<(&str, &[u8])>> {
    let mut take = |len: usize| bytes.split_off(..len);
    let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize);
    let count = number(take(4)?)?;
    let words = items.div_ceil(WORD) as usize * 8;
    let mut subsets = Vec::new();
    for _ in 0..count {
        let name_len = number(take(4)?)?;
        let name = std::str::from_utf8(take(name_len)?).ok()?;
        subsets.push((name, take(words)?));
    }
    bytes.is_empty().then_some(subsets)
}

impl ItemSet {
    fn named(&self) -> Result<Vec<(&str, &[u8])>, SetFileError> {
        self.verify_part("subsets", self.subsets_part())?;
        let part = self.section(crate::item_set::layout::SUBSETS);
        read_subsets(part, self.len() as u32).ok_or(SetFileError::Invalid { part: "subsets" })
    }

    /// The names of the subsets that were saved with the set.
    ///
    /// # Errors
    ///
    /// [`SetFileError`] where the subsets are damaged.
    pub fn subset_names(&self) -> Result<Vec<String>, SetFileError> {
        Ok(self.named()?.into_iter().map(|(name, _)| name.to_owned()).collect())
    }

    /// The subset of this name that was saved with the set.
    ///
    /// # Errors
    ///
    /// [`SetFileError`] where there is no such subset, or the subsets are damaged.
    pub fn subset(&self, name: &str) -> Result<Subset, SetFileError> {
        let named = self.named()?;
        let Some((_, bytes)) = named.iter().find(|(other, _)| *other == name) else {
            let known = named.into_iter().map(|(name, _)| name.to_owned()).collect();
            return Err(SetFileError::NoSuchSubset { name: name.to_owned(), known });
        };
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let subset = Subset { len: self.len() as u32, words };
        // Bits after the last item.
        let tail = subset.len % WORD;
        if tail != 0 && subset.words.last().is_some_and(|last| last >> tail != 0) {
            return Err(SetFileError::Invalid { part: "subsets" });
        }
        Ok(subset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_of_a_range_is_that_of_a_scan(
            len in 1usize..300,
            places in prop::collection::vec(0u32..300, 0..20),
            begin in 0u32..310,
            end in 0u32..310,
        ) {
            let subset = Subset::from_places(len, places.iter().copied().filter(|place| (*place as usize) < len));
            let naive = (begin..end).find(|place| places.contains(place) && (*place as usize) < len);
            prop_assert_eq!(subset.first_in(begin..end), naive);
            prop_assert_eq!(Subset::all(len).count(), len);
        }
    }
}
