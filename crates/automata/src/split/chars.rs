//! Sets of characters as a step sees them, each kept once.
//!
//! All stages but the last run over [atoms](crate::dfa::atoms). The patterns in use have 10 to 27 of them.

use std::collections::HashMap;

use crate::dfa::CharSet;

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
                let special = CharSet::from_iter([' ', mark]);
                let others = set.without(&special);
                if set.contains(mark) { others.union(&CharSet::from_iter([' '])) } else { others }
            }
            Self::Bytes => CharSet::new(
                (0..=255u8)
                    .filter(|byte| set.contains(unskew_core::byte_to_alphabet(*byte)))
                    .map(|byte| (u32::from(byte), u32::from(byte))),
            ),
        }
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
