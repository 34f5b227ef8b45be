//! The entries of a library, in two generations and within a limit in bytes.
//!
//! An entry is inserted into the young generation. A hit in the old generation moves the entry to the young one. When
//! the young generation takes half of the limit, it becomes the old one, and the old one is dropped. So an entry
//! stays as long as it is asked for before half of the limit is filled with others. An insertion costs the same for
//! any number of entries; a dropped generation is freed after the lock is released.
//!
//! Nodes and automata are shared: a fusion refers to its automaton, a fragment of a mask to its nodes. A generation
//! counts each of them once, by its [`LibraryId`], as long as an entry of the generation refers to it. Tries of exits
//! are built after their node was inserted; their bytes are counted with the young generation.
//!
//! Tried instead: a list in the order of use (LRU). It keeps a little more of the entries in use, and takes two links
//! for each entry and a write under the lock for each hit; and an entry that refers to others has no size of its own
//! there.

use std::{
    hash::Hash,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use hashbrown::{HashMap, hash_map};
use smallvec::SmallVec;
use unskew_automata::{Dfa, StateId};
use unskew_core::TokenId;
use unskew_grammar::kit::terminal::{ScanState, counted::UnitState};
use unskew_trie::ByteSet;

use super::{
    by_count::TokensByCount,
    fragments::{Fragment, SharedFragmentKey, SpelledGrammar},
    fused::NextKey,
    key_tokens::KeyTokens,
    library::NumberedDfa,
    nodes::{NodeKey, TreeNode},
};
use crate::ids::COUNTS;

/// The id of a node, a suffix group, an automaton or a grammar in a library. It is given once in the life of the
/// library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct LibraryId(NonZeroU64);

/// Gives ids.
#[derive(Debug)]
pub(crate) struct LibraryIds(AtomicU64);

impl LibraryIds {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    pub(crate) fn next(&self) -> LibraryId {
        let id = self.0.fetch_add(1, Ordering::Relaxed);
        // At a billion a second, 2^64 ids last for five centuries.
        LibraryId(NonZeroU64::new(id).expect("2^64 ids are never given"))
    }
}

impl LibraryId {
    /// The id as two numbers, for keys that are lists of numbers.
    pub(crate) fn halves(self) -> [u32; 2] {
        let id = self.0.get();
        [id as u32, (id >> 32) as u32]
    }
}

/// The size of a [`TreeLibrary`](crate::TreeLibrary) and its look-ups.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LibraryStats {
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Entries that were dropped to keep the limit, or not kept because they are too large for it.
    pub evicted: u64,
    /// Entries now: automata, nodes, and fragments of masks.
    pub entries: usize,
    /// The bytes of the entries. Dropped entries to which a scratch still refers are not counted.
    pub bytes: usize,
    /// The limit of these bytes.
    pub limit: usize,
}

/// The key of an entry.
pub(crate) trait CacheEntry: Eq + Hash + Sized {
    type Value: Clone;

    fn table(tables: &Tables) -> &HashMap<Self, Self::Value>;

    fn table_mut(tables: &mut Tables) -> &mut HashMap<Self, Self::Value>;

    /// The bytes of key and value, without a row of the table and without the shared things that they
    /// [hold](Self::each_held).
    fn bytes(&self, _value: &Self::Value) -> usize {
        0
    }

    /// Calls `each` with every shared thing to which the entry refers, and its bytes.
    fn each_held(&self, _value: &Self::Value, _each: &mut dyn FnMut(LibraryId, usize)) {}
}

/// An automaton: the bytes that [extend](crate::network::extending::extending) its texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExtendingOf(pub(crate) LibraryId);

/// See [`TreeLibrary::around`](crate::TreeLibrary::around).
pub(crate) type Around = (u8, u8, bool);

/// An automaton with units and a state.
pub(crate) type CountsOf = (LibraryId, StateId);

/// The number of an automaton, and what its states know of units.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Measured(pub(crate) LibraryId, pub(crate) Arc<[UnitState]>);

/// An automaton: the tokens that contain a text of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KeyTokensOf(pub(crate) LibraryId);

/// An automaton, a state, and the language that follows: see [`TreeLibrary::fused`](crate::TreeLibrary::fused).
pub(crate) type FusionOf = (LibraryId, ScanState, NextKey);

#[derive(Default)]
pub(crate) struct Tables {
    automata: HashMap<Arc<Dfa>, LibraryId>,
    extending: HashMap<ExtendingOf, ByteSet>,
    nodes: HashMap<NodeKey, Arc<TreeNode>>,
    around: HashMap<Around, Arc<[TokenId]>>,
    by_count: HashMap<CountsOf, Arc<TokensByCount>>,
    measured: HashMap<Measured, LibraryId>,
    key_tokens: HashMap<KeyTokensOf, Arc<KeyTokens>>,
    fused: HashMap<FusionOf, Option<NumberedDfa>>,
    grammars: HashMap<SpelledGrammar, LibraryId>,
    fragments: HashMap<SharedFragmentKey, Option<Arc<Fragment>>>,
}

/// Calls `each` with an automaton and its bytes.
pub(crate) fn hold_automaton((number, dfa): (LibraryId, &Arc<Dfa>), each: &mut dyn FnMut(LibraryId, usize)) {
    each(number, dfa.memory_usage() + size_of::<Dfa>() + COUNTS);
}

/// Calls `each` with a node and its bytes.
pub(crate) fn hold_node(node: &TreeNode, each: &mut dyn FnMut(LibraryId, usize)) {
    each(node.id, node.memory_usage() + COUNTS);
}

/// The bytes of an entry and of each shared thing to which it refers, counted once: a fragment of a mask names one
/// node many times.
fn bytes_of<K: CacheEntry>(key: &K, value: &K::Value) -> usize {
    let mut held: SmallVec<[(LibraryId, usize); 8]> = SmallVec::new();
    key.each_held(value, &mut |id, bytes| held.push((id, bytes)));
    held.sort_unstable();
    held.dedup_by_key(|(id, _)| *id);
    key.bytes(value) + held.iter().map(|(_, bytes)| bytes).sum::<usize>()
}

macro_rules! entry {
    ($key:ty => $value:ty, $field:ident; $($rest:tt)*) => {
        impl CacheEntry for $key {
            type Value = $value;

            fn table(tables: &Tables) -> &HashMap<Self, Self::Value> {
                &tables.$field
            }

            fn table_mut(tables: &mut Tables) -> &mut HashMap<Self, Self::Value> {
                &mut tables.$field
            }

            $($rest)*
        }
    };
}

entry! {
    Arc<Dfa> => LibraryId, automata;
    fn each_held(&self, value: &LibraryId, each: &mut dyn FnMut(LibraryId, usize)) {
        hold_automaton((*value, self), each);
    }
}
entry! { ExtendingOf => ByteSet, extending; }
entry! {
    NodeKey => Arc<TreeNode>, nodes;
    fn each_held(&self, value: &Arc<TreeNode>, each: &mut dyn FnMut(LibraryId, usize)) {
        hold_node(value, each);
    }
}
entry! {
    Around => Arc<[TokenId]>, around;
    fn bytes(&self, value: &Arc<[TokenId]>) -> usize {
        size_of_val(&value[..]) + COUNTS
    }
}
entry! {
    CountsOf => Arc<TokensByCount>, by_count;
    fn bytes(&self, value: &Arc<TokensByCount>) -> usize {
        value.memory_usage() + size_of::<TokensByCount>() + COUNTS
    }
}
entry! {
    Measured => LibraryId, measured;
    fn bytes(&self, _: &LibraryId) -> usize {
        size_of_val(&*self.1) + COUNTS
    }
}
entry! {
    KeyTokensOf => Arc<KeyTokens>, key_tokens;
    fn bytes(&self, value: &Arc<KeyTokens>) -> usize {
        value.memory_usage() + size_of::<KeyTokens>() + COUNTS
    }
}
entry! {
    FusionOf => Option<NumberedDfa>, fused;
    fn bytes(&self, _: &Option<NumberedDfa>) -> usize {
        self.2.memory_usage()
    }

    fn each_held(&self, value: &Option<NumberedDfa>, each: &mut dyn FnMut(LibraryId, usize)) {
        if let Some((number, dfa)) = value {
            hold_automaton((*number, dfa), each);
        }
    }
}
entry! {
    SpelledGrammar => LibraryId, grammars;
    fn bytes(&self, _: &LibraryId) -> usize {
        size_of_val(&self.0[..])
    }
}
entry! {
    SharedFragmentKey => Option<Arc<Fragment>>, fragments;
    fn bytes(&self, fragment: &Option<Arc<Fragment>>) -> usize {
        size_of_val(&self.2[..]) + fragment.as_ref().map_or(0, |fragment| fragment.memory_usage() + COUNTS)
    }

    fn each_held(&self, fragment: &Option<Arc<Fragment>>, each: &mut dyn FnMut(LibraryId, usize)) {
        if let Some(fragment) = fragment {
            fragment.each_held(each);
        }
    }
}

#[derive(Default)]
struct Generation {
    tables: Tables,
    /// The shared things to which entries refer: the number of references, and the bytes that were counted.
    held: HashMap<LibraryId, (u32, usize)>,
    entries: usize,
    bytes: usize,
}

impl Generation {
    fn insert<K: CacheEntry>(&mut self, key: K, value: K::Value) {
        let held_before = self.held.allocation_size();
        self.entries += 1;
        self.bytes += key.bytes(&value);
        key.each_held(&value, &mut |id, bytes| {
            let (count, repetition) = self.held.entry(id).or_insert((0, bytes));
            if *count == 0 {
                self.bytes += *repetition;
            }
            *count += 1;
        });
        let table = K::table_mut(&mut self.tables);
        let before = table.allocation_size();
        table.insert(key, value);
        self.bytes += table.allocation_size() - before + self.held.allocation_size() - held_before;
    }

    /// Removes an entry. The table keeps the memory of its row.
    fn remove<K: CacheEntry>(&mut self, key: &K) -> Option<(K, K::Value)> {
        let (key, value) = K::table_mut(&mut self.tables).remove_entry(key)?;
        self.entries -= 1;
        self.bytes -= key.bytes(&value);
        key.each_held(&value, &mut |id, _| {
            if let hash_map::Entry::Occupied(mut held) = self.held.entry(id) {
                held.get_mut().0 -= 1;
                if let (0, bytes) = *held.get() {
                    self.bytes -= bytes;
                    held.remove();
                }
            }
        });
        Some((key, value))
    }
}

#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
    hits: u64,
    misses: u64,
    evicted: u64,
}

/// The entries of a library.
pub(crate) struct LibraryCache {
    limit: usize,
    /// How often a generation was dropped.
    turns: AtomicU64,
    /// The bytes by which nodes have grown since the last insertion.
    grown: AtomicUsize,
    generations: Mutex<Generations>,
}

impl LibraryCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, turns: AtomicU64::new(0), grown: AtomicUsize::new(0), generations: Mutex::default() }
    }

    /// The value of `key`.
    pub(crate) fn get<K: CacheEntry>(&self, key: &K) -> Option<K::Value> {
        let mut guard = self.lock();
        let generations = &mut *guard;
        if let Some(value) = K::table(&generations.young.tables).get(key) {
            generations.hits += 1;
            return Some(value.clone());
        }
        let Some((key, value)) = generations.old.remove(key) else {
            generations.misses += 1;
            return None;
        };
        generations.hits += 1;
        generations.young.insert(key, value.clone());
        let dropped = self.turn(generations);
        drop(guard);
        drop(dropped);
        Some(value)
    }

    /// Keeps `value`, unless it is too large for the limit. Answers the kept value: another thread may have been first.
    pub(crate) fn keep<K: CacheEntry>(&self, key: K, value: K::Value) -> K::Value {
        let bytes = bytes_of(&key, &value);
        let mut guard = self.lock();
        let generations = &mut *guard;
        let known = K::table(&generations.young.tables).get(&key);
        if let Some(known) = known.or_else(|| K::table(&generations.old.tables).get(&key)) {
            return known.clone();
        }
        // A generation holds several entries.
        if bytes > self.limit / 8 {
            generations.evicted += 1;
            return value;
        }
        generations.young.insert(key, value.clone());
        let dropped = self.turn(generations);
        drop(guard);
        drop(dropped);
        value
    }

    /// Makes the young generation the old one if it is full. Answers the generation that was old, to be dropped
    /// without the lock.
    fn turn(&self, generations: &mut Generations) -> Option<Generation> {
        generations.young.bytes += self.grown.swap(0, Ordering::Relaxed);
        if generations.young.bytes <= self.limit / 2 {
            return None;
        }
        let young = std::mem::take(&mut generations.young);
        let dropped = std::mem::replace(&mut generations.old, young);
        generations.evicted += dropped.entries as u64;
        self.turns.fetch_add(1, Ordering::Relaxed);
        Some(dropped)
    }

    /// Counts bytes by which a node has grown.
    pub(crate) fn grow(&self, bytes: usize) {
        self.grown.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How often a generation was dropped.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> LibraryStats {
        let generations = self.lock();
        let Generations { young, old, hits, misses, evicted } = &*generations;
        LibraryStats {
            hits: *hits,
            misses: *misses,
            evicted: *evicted,
            entries: young.entries + old.entries,
            bytes: young.bytes + old.bytes + self.grown.load(Ordering::Relaxed),
            limit: self.limit,
        }
    }

    /// A poisoned lock is no harm: an insertion leaves no table half done, because a failed allocation ends the
    /// process.
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;

    fn list(len: u32) -> Arc<[TokenId]> {
        (0..len).map(TokenId).collect()
    }

    fn key(number: u32) -> Around {
        let [low, high, ..] = number.to_le_bytes();
        (low, high, false)
    }

    #[test]
    fn an_entry_in_use_stays_and_others_go() {
        let cache = LibraryCache::new(64 << 10);
        let hot = cache.keep(key(0), list(100));
        for number in 1..2_000 {
            cache.keep(key(number), list(100));
            let found = cache.get(&key(0)).expect("it is in use");
            assert!(Arc::ptr_eq(&found, &hot));
            let stats = cache.stats();
            // Tables double as they grow, beyond the limit for a moment.
            assert!(stats.bytes <= stats.limit * 11 / 10, "{stats:?}");
        }
        let stats = cache.stats();
        assert_eq!(stats.hits, 1_999);
        assert_eq!(stats.evicted + stats.entries as u64, 2_000);
        assert!(stats.entries > 50 && stats.bytes > stats.limit / 3, "{stats:?}");
        assert!(cache.get(&key(1)).is_none() && cache.get(&key(1_999)).is_some());
        assert!(cache.turns() > 20);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let cache = LibraryCache::new(1 << 10);
        assert_eq!(cache.keep(key(0), list(100)).len(), 100);
        assert!(cache.get(&key(0)).is_none());
        assert_eq!((cache.stats().entries, cache.stats().evicted, cache.stats().misses), (0, 1, 1));
    }

    /// An entry that refers to things by their ids and bytes.
    #[derive(PartialEq, Eq, Hash)]
    struct Referring(Vec<(LibraryId, usize)>);

    impl CacheEntry for Referring {
        type Value = ();

        fn table(_: &Tables) -> &HashMap<Self, ()> {
            unreachable!("it is asked for its bytes alone")
        }

        fn table_mut(_: &mut Tables) -> &mut HashMap<Self, ()> {
            unreachable!("it is asked for its bytes alone")
        }

        fn each_held(&self, (): &(), each: &mut dyn FnMut(LibraryId, usize)) {
            self.0.iter().for_each(|(id, bytes)| each(*id, *bytes));
        }
    }

    /// A fragment that referred to one large node twenty times was never kept, and each request built it again.
    #[test]
    fn shared_things_are_counted_once_in_an_entry() {
        let ids = LibraryIds::new();
        let [one, other] = [ids.next(), ids.next()];
        let referring = Referring([[(one, 100), (other, 7)]; 20].concat());
        assert_eq!(bytes_of(&referring, &()), 107);
    }

    #[test]
    fn shared_things_are_counted_once_in_a_generation() {
        let cache = LibraryCache::new(1 << 20);
        let ids = LibraryIds::new();
        let dfa = Arc::new(Dfa::from_pattern("[a-c]{2,9}", &unskew_automata::Limits::default()).unwrap());
        let number = ids.next();
        let fuse = |state| (number, ScanState::of(state), NextKey::Once(number));
        cache.keep(fuse(0), Some((number, Arc::clone(&dfa))));
        let first = cache.stats().bytes;
        assert!(first > dfa.memory_usage());
        for state in 1..4 {
            cache.keep(fuse(state), Some((number, Arc::clone(&dfa))));
        }
        assert!(cache.stats().bytes < first + dfa.memory_usage());
        // Removed one by one, they leave nothing but tables.
        let mut guard = cache.lock();
        for state in 0..4 {
            guard.young.remove(&fuse(state)).unwrap();
        }
        assert!(guard.young.held.is_empty());
        let tables = guard.young.tables.fused.allocation_size() + guard.young.held.allocation_size();
        assert_eq!((guard.young.bytes, guard.young.entries), (tables, 0));
    }

    #[test]
    fn ids_do_not_come_again_after_four_billion() {
        let ids = LibraryIds(AtomicU64::new(u64::from(u32::MAX) - 1));
        let given: Vec<LibraryId> = (0..4).map(|_| ids.next()).collect();
        let mut halves: Vec<[u32; 2]> = given.iter().map(|id| id.halves()).collect();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), 4);
        assert!(given.is_sorted());
    }
}
