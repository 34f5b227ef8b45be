//! Keys: texts that must not repeat in a scope, as the names of an object or the items of an array without
//! repetitions.
//!
//! A terminal whose texts are keys ([`Terminal::Distinct`](unskew_grammar::Terminal::Distinct)) is read like any
//! other terminal, but a key that its scope has used is no longer one of its texts. That rule needs a memory, which
//! no grammar and no automaton of useful size has. So there are two parsers:
//!
//! - **The tracking parser** stores in each of its items the set of used keys, kept once as a number, and in each
//!   hypothesis of such a terminal the prefix of the key. It reads exactly the language, and the state of a sequence
//!   is a configuration of it.
//! - **The erased parser** makes masks and knows nothing of used keys. It has few states, which recur, and all
//!   sequences that differ only in their used keys share its masks.
//!
//! A mask is made for the configuration that is left when the keys are [erased](crate::parser::erasure). It then has
//! too many tokens: those that end a used key, that reach a prefix with used keys alone after it, or that write two
//! keys at once. They are few; they are [found](crate::mask::repeats), and the tracking parser reads each of them.
//!
//! There are no dead ends: the terminal has more texts than a scope takes, and a prefix is read only as long as an
//! unused key begins with it.
//!
//! Tried instead:
//!
//! - Keys in every configuration. Masks of two objects with different names then have nothing in common.
//! - Both parsers side by side, each reading the tokens. Where a text has two hypotheses and one of them has ended,
//!   the erased parser continues both, and its masks have wrong tokens that are nowhere near a used key.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;
use unskew_grammar::kit::terminal::ScanState;

use super::persistent_map::{Map, PersistentMaps};
use crate::{
    ids::{Id, Table, id},
    network::terminals::{ScanTerminal, Terminals},
};

id! {
    /// A set of used keys.
    KeySet
}

id! {
    /// A whole key.
    KeyText
}

id! {
    /// The prefix of a key of a terminal, at least one byte.
    KeyPrefix
}

impl KeySet {
    /// No key was used.
    pub(crate) const EMPTY: Self = Self::of(0);

    /// In a frame: the set that the ended rule leaves.
    pub(crate) const INHERITED: Self = Self::of(u32::MAX - 1);
}

/// Sets of keys, kept once for each order in which their keys were used.
#[derive(Debug)]
pub(crate) struct KeySets {
    sets: Table<KeySet, Set>,
    ids: HashMap<(KeySet, KeyText), KeySet>,
    maps: PersistentMaps,
    /// How many keys were looked at.
    pub(crate) looks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    /// The last key, and the set of all others.
    last: Option<(KeySet, KeyText)>,
    len: u32,
    /// Its keys, if they are more than [`FEW`].
    keys: Map,
}

/// A list of so few keys is compared in less time than a map is searched.
const FEW: u32 = 8;

impl Default for KeySets {
    fn default() -> Self {
        let mut sets = Table::default();
        let empty = sets.push(Set { last: None, len: 0, keys: None });
        debug_assert_eq!(empty, KeySet::EMPTY);
        Self { sets, ids: HashMap::new(), maps: PersistentMaps::default(), looks: 0 }
    }
}

impl KeySets {
    /// `set` with one key more. O(log n) for n keys.
    pub(crate) fn with(&mut self, set: KeySet, key: KeyText) -> KeySet {
        if let Some(known) = self.ids.get(&(set, key)) {
            return *known;
        }
        let Set { len, mut keys, .. } = self.sets[set];
        if len >= FEW {
            if len == FEW {
                let all: SmallVec<[KeyText; FEW as usize]> = self.keys(set).collect();
                keys = all.into_iter().fold(None, |keys, key| self.maps.with(keys, key.raw(), 0));
            }
            keys = self.maps.with(keys, key.raw(), 0);
        }
        let next = self.sets.push(Set { last: Some((set, key)), len: len + 1, keys });
        self.ids.insert((set, key), next);
        next
    }

    /// The last key of a set, and the set of the others; `None` for the empty set.
    pub(crate) fn last(&self, set: KeySet) -> Option<(KeySet, KeyText)> {
        self.sets[set].last
    }

    /// The keys of a set, the last one first.
    pub(crate) fn keys(&self, set: KeySet) -> impl Iterator<Item = KeyText> {
        std::iter::successors(self.last(set), |(others, _)| self.last(*others)).map(|(_, key)| key)
    }

    /// O(log n) for n keys.
    pub(crate) fn contains(&mut self, set: KeySet, key: KeyText) -> bool {
        let Set { len, keys, .. } = self.sets[set];
        self.looks += 1 + u64::from(len.min(FEW));
        if len > FEW {
            return self.maps.get(keys, key.raw()).is_some();
        }
        self.keys(set).any(|other| other == key)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.sets.len() * (2 * size_of::<Set>() + 40) + self.maps.memory_usage()
    }
}

#[derive(Clone, Copy, Debug)]
struct PrefixData {
    terminal: ScanTerminal,
    /// The prefix without its last byte, if that is not its first.
    before: Option<KeyPrefix>,
    byte: u8,
    state: ScanState,
    /// The prefix as a whole key, once it was one.
    key: Option<KeyText>,
}

/// The part of a key before its last byte: no byte of a key of this terminal, or a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Before {
    Terminal(ScanTerminal),
    Prefix(KeyPrefix),
}

/// Prefixes of keys, and whole keys, each kept once.
#[derive(Default, Debug)]
pub(crate) struct KeyTexts {
    prefixes: Table<KeyPrefix, PrefixData>,
    ids: HashMap<(Before, u8), KeyPrefix>,
    keys: Table<KeyText, Arc<[u8]>>,
    key_ids: HashMap<Arc<[u8]>, KeyText>,
    bytes: usize,
}

impl KeyTexts {
    /// The prefix of one byte of a key of `terminal`, if one begins with it.
    pub(crate) fn first(
        &mut self,
        terminals: &Terminals,
        terminal: ScanTerminal,
        byte: u8,
    ) -> Option<KeyPrefix> {
        let before = Before::Terminal(terminal);
        if let Some(known) = self.ids.get(&(before, byte)) {
            return Some(*known);
        }
        let state = terminals.first(terminal, terminals.class(byte))?;
        Some(self.add(before, PrefixData { terminal, before: None, byte, state, key: None }))
    }

    /// The prefix with one byte more, if a key begins with it.
    pub(crate) fn step(&mut self, terminals: &Terminals, prefix: KeyPrefix, byte: u8) -> Option<KeyPrefix> {
        let before = Before::Prefix(prefix);
        if let Some(known) = self.ids.get(&(before, byte)) {
            return Some(*known);
        }
        let PrefixData { terminal, state, .. } = self.prefixes[prefix];
        let state = terminals.step(terminal, state, terminals.class(byte))?;
        Some(self.add(before, PrefixData { terminal, before: Some(prefix), byte, state, key: None }))
    }

    fn add(&mut self, before: Before, data: PrefixData) -> KeyPrefix {
        let prefix = self.prefixes.push(data);
        self.ids.insert((before, data.byte), prefix);
        prefix
    }

    /// `before`, or nothing, and then these bytes, as the prefix of a key of `terminal`, if it is one.
    pub(crate) fn prefix(
        &mut self,
        terminals: &Terminals,
        terminal: ScanTerminal,
        before: Option<KeyPrefix>,
        bytes: &[u8],
    ) -> Option<KeyPrefix> {
        bytes.iter().try_fold(before, |prefix, byte| {
            let next = match prefix {
                None => self.first(terminals, terminal, *byte),
                Some(prefix) => self.step(terminals, prefix, *byte),
            };
            next.map(Some)
        })?
    }

    /// The state of the scanner after the prefix.
    #[inline]
    pub(crate) fn state(&self, prefix: KeyPrefix) -> ScanState {
        self.prefixes[prefix].state
    }

    /// A prefix without its last byte, and that byte.
    #[inline]
    pub(crate) fn last(&self, prefix: KeyPrefix) -> (Option<KeyPrefix>, u8) {
        let PrefixData { before, byte, .. } = self.prefixes[prefix];
        (before, byte)
    }

    /// All prefixes of `prefix` that are longer than `from`, the longest one first, each with its last byte.
    pub(crate) fn since(
        &self,
        from: Option<KeyPrefix>,
        prefix: KeyPrefix,
    ) -> impl Iterator<Item = (KeyPrefix, u8)> {
        let at = move |prefix: KeyPrefix| (Some(prefix) != from).then(|| (prefix, self.last(prefix).1));
        std::iter::successors(at(prefix), move |(prefix, _)| at(self.last(*prefix).0?))
    }

    /// The bytes of a prefix after those of `from`, with which it begins.
    pub(crate) fn bytes(&self, from: Option<KeyPrefix>, prefix: KeyPrefix) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.since(from, prefix).map(|(_, byte)| byte).collect();
        bytes.reverse();
        bytes
    }

    /// A prefix as a whole key.
    pub(crate) fn whole(&mut self, prefix: KeyPrefix) -> KeyText {
        if let Some(known) = self.prefixes[prefix].key {
            return known;
        }
        let key = self.key(&self.bytes(None, prefix));
        self.prefixes[prefix].key = Some(key);
        key
    }

    /// The id of a whole key.
    pub(crate) fn key(&mut self, bytes: &[u8]) -> KeyText {
        if let Some(known) = self.key_ids.get(bytes) {
            return *known;
        }
        let bytes: Arc<[u8]> = bytes.into();
        self.bytes += bytes.len();
        let id = self.keys.push(Arc::clone(&bytes));
        self.key_ids.insert(bytes, id);
        id
    }

    /// The bytes of a whole key.
    pub(crate) fn of(&self, key: KeyText) -> &Arc<[u8]> {
        &self.keys[key]
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes + self.prefixes.len() * 3 * size_of::<PrefixData>() + self.keys.len() * 96
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_kept_once() {
        let mut sets = KeySets::default();
        let [seven, eight] = [7, 8].map(KeyText::of);
        let one = sets.with(KeySet::EMPTY, seven);
        let two = sets.with(one, eight);
        assert_eq!(sets.with(KeySet::EMPTY, seven), one);
        assert_ne!(one, two);
        assert_eq!(sets.keys(two).collect::<Vec<_>>(), [eight, seven]);
        assert!(sets.contains(two, seven) && !sets.contains(one, eight));
        assert!(!sets.contains(KeySet::EMPTY, seven));
    }

    #[test]
    fn large_sets_have_their_keys_and_no_others() {
        let mut sets = KeySets::default();
        let made: Vec<KeySet> = (0..40)
            .scan(KeySet::EMPTY, |set, key| {
                *set = sets.with(*set, KeyText::of(3 * key));
                Some(*set)
            })
            .collect();
        for (len, set) in (1..).zip(made) {
            let is_right =
                |key: u32| sets.contains(set, KeyText::of(key)) == (key.is_multiple_of(3) && key < 3 * len);
            assert!((0..130).all(is_right), "{len}");
        }
    }
}
