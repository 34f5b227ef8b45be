//! Sets of characters, for character classes. A class in a grammar is a set of code points and not of bytes.
//!
//! Surrogates are never members, so every set is the language of some valid UTF-8.

/// The surrogates, which are no characters.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);
const LAST: u32 = 0x10_ffff;

/// A set of Unicode scalar values: ranges in ascending order, with gaps between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    /// Every character.
    pub(crate) fn all() -> Self {
        Self::new(vec![(0, LAST)])
    }

    /// The characters in any of these ranges, both ends included.
    pub(crate) fn new(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = vec![];
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(without_surrogates(&joined))
    }

    /// The ranges, in ascending order.
    pub(crate) fn into_ranges(self) -> Vec<(u32, u32)> {
        self.0
    }

    /// The complement.
    pub(crate) fn negated(&self) -> Self {
        let mut ranges = vec![];
        let mut next = 0;
        for (first, last) in &self.0 {
            if next < *first {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        Self(without_surrogates(&ranges))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The character of a set with exactly one.
    pub(crate) fn single(&self) -> Option<char> {
        match self.0[..] {
            [(first, last)] if first == last => char::from_u32(first),
            _ => None,
        }
    }

    /// The set as a class in regex syntax.
    pub(crate) fn pattern(&self) -> String {
        use std::fmt::Write as _;

        let mut pattern = String::from("[");
        for (first, last) in &self.0 {
            write!(pattern, r"\x{{{first:x}}}-\x{{{last:x}}}").expect("a string takes everything");
        }
        pattern + "]"
    }
}

fn without_surrogates(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let (first, last) = SURROGATES;
    let below = |&(from, to): &(u32, u32)| (from < first).then(|| (from, to.min(first - 1)));
    let above = |&(from, to): &(u32, u32)| (to > last).then(|| (from.max(last + 1), to));
    let below = ranges.iter().filter_map(below);
    below.chain(ranges.iter().filter_map(above)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_canonical() {
        let set = CharSet::new(vec![(5, 9), (1, 2), (3, 4), (7, 12), (20, 20)]);
        assert_eq!(set.0, [(1, 12), (20, 20)]);
        assert_eq!(set.negated().0, [(0, 0), (13, 19), (21, 0xd7ff), (0xe000, LAST)]);
        assert_eq!(set.negated().negated(), set);
        assert_eq!(CharSet::new(vec![(0xd7ff, 0xe000)]).0, [(0xd7ff, 0xd7ff), (0xe000, 0xe000)]);
        assert!(CharSet::new(vec![SURROGATES]).is_empty() && CharSet::all().negated().is_empty());
        assert_eq!(CharSet::new(vec![(0x61, 0x61)]).single(), Some('a'));
    }
}
