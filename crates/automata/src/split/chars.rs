//! Sets of characters, and the partition of all characters into atoms: classes that no set distinguishes.
//!
//! All stages but the last run over atoms. The patterns in use have 10 to 27 of them. Over bytes instead, each
//! `\p{L}` would put an NFA of hundreds of states into the construction with priorities, where every state is a list
//! of threads; and look-ahead at one character would be look-ahead at up to four bytes.

use std::collections::HashMap;

use regex_syntax::hir::ClassUnicode;

/// Surrogates are code points and not characters. Ranges may run over them; the partition leaves them out.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);
const LAST: u32 = char::MAX as u32;

/// A step's view of a text. The vocabulary may spell the same characters in another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    /// The text unchanged.
    Text,
    /// Each space is replaced by this character.
    Blanks(char),
    /// Each byte is replaced by a character of GPT-2's alphabet. In this view, characters up to U+00FF denote bytes.
    Bytes,
}

impl View {
    /// The characters of texts that a step sees as a member of `set`.
    pub(super) fn seen(self, set: CharSet) -> CharSet {
        match self {
            Self::Text => set,
            Self::Blanks(mark) => {
                let special = CharSet::from_chars(&[' ', mark]);
                let others = set.without(&special);
                if set.contains(mark) { others.union(&CharSet::from_chars(&[' '])) } else { others }
            }
            Self::Bytes => CharSet::from_ranges(
                (0..=255u8)
                    .filter(|byte| set.contains(unskew_core::byte_to_alphabet(*byte)))
                    .map(|byte| (u32::from(byte), u32::from(byte))),
            ),
        }
    }
}

/// A set of characters: ranges in ascending order that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    pub(super) const EMPTY: Self = Self(Vec::new());

    pub(super) fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut set: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match set.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => set.push((low, high)),
            }
        }
        Self(set)
    }

    pub(super) fn from_chars(chars: &[char]) -> Self {
        Self::from_ranges(chars.iter().map(|char| (u32::from(*char), u32::from(*char))))
    }

    pub(super) fn from_class(class: &ClassUnicode) -> Self {
        Self::from_ranges(class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))))
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.0.iter().chain(&other.0).copied())
    }

    pub(super) fn complement(&self) -> Self {
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
        Self(ranges)
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        self.complement().union(other).complement()
    }

    pub(super) fn contains(&self, char: char) -> bool {
        let code = u32::from(char);
        let at = self.0.partition_point(|(_, high)| *high < code);
        self.0.get(at).is_some_and(|(low, _)| *low <= code)
    }

    pub(super) fn ranges(&self) -> usize {
        self.0.len()
    }
}

/// Distinct sets, by number.
#[derive(Default)]
pub(super) struct Sets {
    list: Vec<CharSet>,
    numbers: HashMap<CharSet, usize>,
}

impl Sets {
    pub(super) fn add(&mut self, set: CharSet) -> usize {
        if let Some(number) = self.numbers.get(&set) {
            return *number;
        }
        self.list.push(set.clone());
        self.numbers.insert(set, self.list.len() - 1);
        self.list.len() - 1
    }

    pub(super) fn get(&self, number: usize) -> &CharSet {
        &self.list[number]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

/// A partition of all characters into classes.
pub(super) struct Atoms {
    /// All characters in ascending order: the first and the last of a run, and its atom.
    pub(super) runs: Vec<(u32, u32, u32)>,
    pub(super) count: usize,
    /// By set and atom: whether the atom is a part of the set.
    pub(super) members: Vec<Vec<bool>>,
}

impl Atoms {
    /// The coarsest partition that has each of `sets` as a union of atoms. Atoms are numbered by their smallest
    /// character. Time O(s r log r) for s sets and r ranges in all.
    pub(super) fn new(sets: &[&CharSet]) -> Self {
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
    pub(super) fn of_byte(&self, byte: u8) -> usize {
        let code = u32::from(byte);
        self.runs[self.runs.partition_point(|(_, high, _)| *high < code)].2 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_tell_sets_apart_and_nothing_else() {
        let letters = CharSet::from_ranges([(0x61, 0x7a), (0x41, 0x5a), (0x4e00, 0x9fff)]);
        let upper = CharSet::from_ranges([(0x41, 0x5a)]);
        let odd = CharSet::from_ranges([(0xd000, 0xd900)]);
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
    fn complement_is_an_involution() {
        for set in [
            CharSet::default(),
            CharSet::from_ranges([(0, LAST)]),
            CharSet::from_ranges([(5, 9), (10, 12), (40, LAST)]),
        ] {
            assert_eq!(set.complement().complement(), set);
        }
    }
}
