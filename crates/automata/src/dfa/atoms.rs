//! Sets of characters, and the partition of all characters into atoms: classes that no set distinguishes.
//!
//! A construction that reads characters runs over atoms. Over bytes instead, each `\p{L}` would put an automaton of
//! hundreds of states into it; and look-ahead at one character would be look-ahead at up to four bytes.

use std::{collections::HashMap, fmt::Write as _};

use regex_syntax::hir::ClassUnicode;

/// Surrogates are code points and not characters, and in no set.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);
const LAST: u32 = char::MAX as u32;

/// A set of characters: ranges of code points in ascending order that neither overlap nor touch, without surrogates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    /// No character.
    pub const EMPTY: Self = Self(Vec::new());

    /// The characters in any of these ranges of code points, both ends included.
    pub fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut set: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match set.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => set.push((low, high)),
            }
        }
        Self::without_surrogates(set)
    }

    /// Every character.
    pub fn all() -> Self {
        Self::EMPTY.complement()
    }

    /// The characters in one of the sets or in both.
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied())
    }

    /// All other characters.
    pub fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut from = 0;
        for (low, high) in &self.0 {
            if from < *low {
                ranges.push((from, low - 1));
            }
            from = high + 1;
        }
        if from <= LAST {
            ranges.push((from, LAST));
        }
        Self::without_surrogates(ranges)
    }

    /// The characters that `other` does not have.
    pub fn without(&self, other: &Self) -> Self {
        self.complement().union(other).complement()
    }

    /// Whether the character is in the set.
    pub fn contains(&self, char: char) -> bool {
        let code = u32::from(char);
        let at = self.0.partition_point(|(_, high)| *high < code);
        self.0.get(at).is_some_and(|(low, _)| *low <= code)
    }

    /// The ranges, in ascending order.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether it has no character.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The character of a set with exactly one.
    pub fn single(&self) -> Option<char> {
        match self.0[..] {
            [(first, last)] if first == last => char::from_u32(first),
            _ => None,
        }
    }

    /// The set as a class in the syntax of the `regex` crate.
    pub fn pattern(&self) -> String {
        let mut pattern = String::from("[");
        for (first, last) in &self.0 {
            write!(pattern, r"\x{{{first:x}}}-\x{{{last:x}}}").expect("a string takes everything");
        }
        pattern + "]"
    }

    fn without_surrogates(mut ranges: Vec<(u32, u32)>) -> Self {
        let (first, last) = SURROGATES;
        let from = ranges.partition_point(|(_, high)| *high < first);
        let to = ranges.partition_point(|(low, _)| *low <= last);
        if from < to {
            let below = Some((ranges[from].0, first - 1)).filter(|(low, high)| low <= high);
            let above = Some((last + 1, ranges[to - 1].1)).filter(|(low, high)| low <= high);
            ranges.splice(from..to, below.into_iter().chain(above));
        }
        Self(ranges)
    }
}

impl FromIterator<char> for CharSet {
    fn from_iter<T: IntoIterator<Item = char>>(chars: T) -> Self {
        Self::new(chars.into_iter().map(|char| (u32::from(char), u32::from(char))))
    }
}

impl From<&ClassUnicode> for CharSet {
    fn from(class: &ClassUnicode) -> Self {
        Self::new(class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))))
    }
}

/// A partition of all characters into classes.
#[derive(Debug)]
pub(crate) struct Atoms {
    /// All characters in ascending order: the first and the last of a run, and its atom.
    pub(crate) runs: Vec<(u32, u32, u32)>,
    pub(crate) count: usize,
    /// By set and atom: whether the atom is a part of the set.
    pub(crate) members: Vec<Vec<bool>>,
}

impl Atoms {
    /// The coarsest partition that has each of `sets` as a union of atoms. Atoms are numbered by their smallest
    /// character. Time O(s r log r) for s sets and r ranges in all.
    pub(crate) fn new(sets: &[&CharSet]) -> Self {
        let mut begins = vec![0, SURROGATES.0, SURROGATES.1 + 1, LAST + 1];
        begins.extend(sets.iter().flat_map(|set| &set.0).flat_map(|(low, high)| [*low, high + 1]));
        begins.sort_unstable();
        begins.dedup();
        // Each set moves its elementary intervals out of their blocks into new ones. A block may become empty.
        let mut blocks = vec![0u32; begins.len() - 1];
        let mut count = 1u32;
        let mut spans = Vec::with_capacity(sets.len());
        for set in sets {
            let spans_of_set: Vec<(usize, usize)> = set
                .0
                .iter()
                .map(|(low, high)| {
                    let find =
                        |at: u32| begins.binary_search(&at).expect("the ends of all ranges are in the list");
                    (find(*low), find(high + 1))
                })
                .collect();
            let mut moved: HashMap<u32, u32> = HashMap::new();
            for (begin, end) in &spans_of_set {
                for block in &mut blocks[*begin..*end] {
                    *block = *moved.entry(*block).or_insert_with(|| {
                        count += 1;
                        count - 1
                    });
                }
            }
            spans.push(spans_of_set);
        }

        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        let mut atom_of_interval = vec![None; blocks.len()];
        for (interval, block) in blocks.iter().enumerate() {
            let (low, high) = (begins[interval], begins[interval + 1] - 1);
            if SURROGATES.0 <= low && high <= SURROGATES.1 {
                continue;
            }
            let fresh = u32::try_from(numbers.len()).expect("fewer atoms than characters");
            let atom = *numbers.entry(*block).or_insert(fresh);
            atom_of_interval[interval] = Some(atom);
            match runs.last_mut() {
                Some(last) if last.2 == atom && last.1 + 1 == low => last.1 = high,
                _ => runs.push((low, high, atom)),
            }
        }
        let count = numbers.len();
        let members = spans
            .into_iter()
            .map(|spans| {
                let mut members = vec![false; count];
                for atom in spans.into_iter().flat_map(|(begin, end)| &atom_of_interval[begin..end]).flatten()
                {
                    members[*atom as usize] = true;
                }
                members
            })
            .collect();
        Self { runs, count, members }
    }

    /// The atom of the character U+0000 to U+00FF that denotes `byte`.
    #[cfg(feature = "canonical")]
    pub(crate) fn of_byte(&self, byte: u8) -> usize {
        let code = u32::from(byte);
        self.runs[self.runs.partition_point(|(_, high, _)| *high < code)].2 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_tell_sets_apart_and_nothing_else() {
        let letters = CharSet::new([(0x61, 0x7a), (0x41, 0x5a), (0x4e00, 0x9fff)]);
        let upper = CharSet::new([(0x41, 0x5a)]);
        let odd = CharSet::new([(0xd000, 0xd900)]);
        let atoms = Atoms::new(&[&letters, &upper, &odd, &letters.complement()]);
        assert_eq!(atoms.count, 4);
        let of = |char: char| {
            let code = u32::from(char);
            atoms.runs.iter().find(|run| run.0 <= code && code <= run.1).expect("every character").2 as usize
        };
        assert_eq!(of('a'), of('一'));
        assert_eq!(of('\0'), of(char::MAX));
        assert!(atoms.members[0][of('B')]);
        assert!(!atoms.members[1][of('b')]);
        assert!(!atoms.members[3][of('b')]);
        assert!(
            atoms.runs.iter().all(|run| char::from_u32(run.0).is_some() && char::from_u32(run.1).is_some())
        );
        let total: u32 = atoms.runs.iter().map(|run| run.1 - run.0 + 1).sum();
        assert_eq!(total, 0x11_0000 - 0x800);
    }

    #[test]
    fn sets_are_canonical() {
        let set = CharSet::new([(5, 9), (1, 2), (3, 4), (7, 12), (20, 20)]);
        assert_eq!(set.ranges(), [(1, 12), (20, 20)]);
        assert_eq!(set.complement().ranges(), [(0, 0), (13, 19), (21, 0xd7ff), (0xe000, LAST)]);
        assert_eq!(CharSet::new([(0xd7ff, 0xe000)]).ranges(), [(0xd7ff, 0xd7ff), (0xe000, 0xe000)]);
        let apart = CharSet::new([(0xd000, 0xd801), (0xd900, 0xd901), (0xdf00, 0xe001)]);
        assert_eq!(apart.ranges(), [(0xd000, 0xd7ff), (0xe000, 0xe001)]);
        assert_eq!(CharSet::new([SURROGATES]), CharSet::EMPTY);
        assert_eq!(CharSet::all().complement(), CharSet::EMPTY);
        assert_eq!(CharSet::from_iter(['a']).single(), Some('a'));
    }

    #[test]
    fn complement_is_an_involution() {
        for set in
            [CharSet::default(), CharSet::new([(0, LAST)]), CharSet::new([(5, 9), (10, 12), (40, LAST)])]
        {
            assert_eq!(set.complement().complement(), set);
        }
    }
}
