//! The entries of a library, in two generations and within a limit in bytes.
//!
//! An entry is inserted into the young generation. A hit in the old generation moves the entry to the young one. The young
//! generation becomes the old one when it takes half of the limit, and the old one is dropped: so an entry stays as long
//! as somebody asks for it before half of the limit is filled with others. An insertion costs the same whatever the
//! library holds; dropping a generation is done after the lock is released.
//!
//! Nodes and automata are shared: a join refers to its automaton, a part of a mask to its nodes. A generation counts each of
//! them once, by its [`LibraryId`], as long as an entry of the generation refers to it. Tries of exits are made after their
//! node was inserted; their bytes are counted with the young generation.
//!
//! Tried instead: a list in the order of use (LRU). It keeps a little more of what is used, and takes two links for each
//! entry and a write under the lock for each hit; and an entry that refers to others has no size of its own there.

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
use unskew_automata::Dfa;
use unskew_core::TokenId;
use unskew_trie::ByteSet;

use super::holding::Holding;
use super::{
    bodies::Bodies,
    joined::NextKey,
    nodes::{Key, Marked, Node, Numbered},
};
use crate::ids::COUNTS;
use crate::mask::shared::{Shared, SpelledGrammar};

/// A node, a group of exits, an automaton or a grammar in a library. An id is given once in the life of a library.
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

/// What a [`TreeLibrary`](crate::TreeLibrary) holds and has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LibraryStats {
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Entries that were dropped to keep the limit, or never kept because they are too large for it.
    pub evicted: u64,
    /// Entries now: automata, nodes, and parts of masks.
    pub entries: usize,
    /// What the entries take, in bytes. Entries that were dropped and that a scratch still refers to are not counted.
    pub bytes: usize,
    /// What they may take.
    pub limit: usize,
}

/// The key of an entry.
pub(crate) trait Entry: Eq + Hash + Sized {
    type Value: Clone;

    fn table(tables: &Tables) -> &HashMap<Self, Self::Value>;

    fn table_mut(tables: &mut Tables) -> &mut HashMap<Self, Self::Value>;

    /// What key and value take besides a row of the table and besides what they [hold](Self::each_held), in bytes.
    fn bytes(&self, _value: &Self::Value) -> usize {
        0
    }

    /// Calls `each` with every shared thing that the entry refers to, and the bytes of that.
    fn each_held(&self, _value: &Self::Value, _each: &mut dyn FnMut(LibraryId, usize)) {}
}

/// An automaton, by its number: which bytes [extend](crate::terminal::extending::extending) its texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExtendingOf(pub(crate) LibraryId);

/// Two bytes: see [`TreeLibrary::around`](crate::TreeLibrary::around).
pub(crate) type Around = (u8, u8, bool);

/// An automaton of units and a state of the unit.
pub(crate) type BodiesOf = (LibraryId, u32);

/// An automaton: the tokens that hold a text of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HoldingOf(pub(crate) LibraryId);

/// An automaton, a state, and what follows: see [`TreeLibrary::joined`](crate::TreeLibrary::joined).
pub(crate) type JoinOf = (LibraryId, u32, NextKey);

#[derive(Default)]
pub(crate) struct Tables {
    automata: HashMap<Arc<Dfa>, LibraryId>,
    extending: HashMap<ExtendingOf, ByteSet>,
    nodes: HashMap<Key, Arc<Node>>,
    around: HashMap<Around, Arc<[TokenId]>>,
    unbounded: HashMap<Marked, Numbered>,
    bodies: HashMap<BodiesOf, Arc<Bodies>>,
    holding: HashMap<HoldingOf, Arc<Holding>>,
    joined: HashMap<JoinOf, Option<Numbered>>,
    pub(crate) shared: Shared,
}

/// Calls `each` with an automaton and its bytes.
pub(crate) fn hold_automaton((number, dfa): (LibraryId, &Arc<Dfa>), each: &mut dyn FnMut(LibraryId, usize)) {
    each(number, dfa.memory_usage() + size_of::<Dfa>() + COUNTS);
}

/// Calls `each` with a node and its bytes.
pub(crate) fn hold_node(node: &Node, each: &mut dyn FnMut(LibraryId, usize)) {
    each(node.id, node.memory_usage() + COUNTS);
}

/// The bytes of an entry with each shared thing that it refers to, counted once: a part of a mask names one node many times.
fn bytes_of<K: Entry>(key: &K, value: &K::Value) -> usize {
    let mut held: SmallVec<[(LibraryId, usize); 8]> = SmallVec::new();
    key.each_held(value, &mut |id, bytes| held.push((id, bytes)));
    held.sort_unstable();
    held.dedup_by_key(|(id, _)| *id);
    key.bytes(value) + held.iter().map(|(_, bytes)| bytes).sum::<usize>()
}

macro_rules! entry {
    ($key:ty => $value:ty, $($field:ident).+; $($rest:tt)*) => {
        impl Entry for $key {
            type Value = $value;

            fn table(tables: &Tables) -> &HashMap<Self, Self::Value> {
                &tables.$($field).+
            }

            fn table_mut(tables: &mut Tables) -> &mut HashMap<Self, Self::Value> {
                &mut tables.$($field).+
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
    Key => Arc<Node>, nodes;
    fn each_held(&self, value: &Arc<Node>, each: &mut dyn FnMut(LibraryId, usize)) {
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
    Marked => Numbered, unbounded;
    fn bytes(&self, _: &Numbered) -> usize {
        self.0.len() + self.2.len()
    }

    fn each_held(&self, (number, dfa): &Numbered, each: &mut dyn FnMut(LibraryId, usize)) {
        hold_automaton((*number, dfa), each);
    }
}
entry! {
    BodiesOf => Arc<Bodies>, bodies;
    fn bytes(&self, value: &Arc<Bodies>) -> usize {
        value.memory_usage() + size_of::<Bodies>() + COUNTS
    }
}
entry! {
    HoldingOf => Arc<Holding>, holding;
    fn bytes(&self, value: &Arc<Holding>) -> usize {
        value.memory_usage() + size_of::<Holding>() + COUNTS
    }
}
entry! {
    JoinOf => Option<Numbered>, joined;
    fn bytes(&self, _: &Option<Numbered>) -> usize {
        self.2.memory_usage()
    }

    fn each_held(&self, value: &Option<Numbered>, each: &mut dyn FnMut(LibraryId, usize)) {
        if let Some((number, dfa)) = value {
            hold_automaton((*number, dfa), each);
        }
    }
}
entry! {
    SpelledGrammar => LibraryId, shared.grammars;
    fn bytes(&self, _: &LibraryId) -> usize {
        size_of_val(&self.0[..])
    }
}

#[derive(Default)]
struct Generation {
    tables: Tables,
    /// The shared things that entries refer to: how many entries do, and the bytes that were counted.
    held: HashMap<LibraryId, (u32, usize)>,
    entries: usize,
    bytes: usize,
}

impl Generation {
    fn insert<K: Entry>(&mut self, key: K, value: K::Value) {
        let held_before = self.held.allocation_size();
        self.entries += 1;
        self.bytes += key.bytes(&value);
        key.each_held(&value, &mut |id, bytes| {
            let (count, counted) = self.held.entry(id).or_insert((0, bytes));
            if *count == 0 {
                self.bytes += *counted;
            }
            *count += 1;
        });
        let table = K::table_mut(&mut self.tables);
        let before = table.allocation_size();
        table.insert(key, value);
        self.bytes += table.allocation_size() - before + self.held.allocation_size() - held_before;
    }

    /// The rows of the tables stay where they are.
    fn remove<K: Entry>(&mut self, key: &K) -> Option<(K, K::Value)> {
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
pub(crate) struct Kept {
    limit: usize,
    /// How often a generation was dropped.
    turns: AtomicU64,
    /// What nodes have grown by since they were inserted.
    grown: AtomicUsize,
    generations: Mutex<Generations>,
}

impl Kept {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, turns: AtomicU64::new(0), grown: AtomicUsize::new(0), generations: Mutex::default() }
    }

    /// The value of `key`.
    pub(crate) fn get<K: Entry>(&self, key: &K) -> Option<K::Value> {
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

    /// Keeps `value`, unless it is too large for the limit. Answers the value that is kept: another thread may have been first.
    pub(crate) fn keep<K: Entry>(&self, key: K, value: K::Value) -> K::Value {
        let bytes = bytes_of(&key, &value);
        let mut guard = self.lock();
        let generations = &mut *guard;
        let known = K::table(&generations.young.tables).get(&key);
        if let Some(known) = known.or_else(|| K::table(&generations.old.tables).get(&key)) {
            return known.clone();
        }
        // A generation holds several of them.
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

    /// Makes the young generation the old one if it is full. Answers the old one, to be dropped without the lock.
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

    /// A node has taken so many bytes more.
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

    /// An insertion does not leave the tables half done: an allocation that fails ends the process.
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(len: u32) -> Arc<[TokenId]> {
        (0..len).map(TokenId).collect()
    }

    fn key(number: u32) -> Around {
        let [low, high, ..] = number.to_le_bytes();
        (low, high, false)
    }

    #[test]
    fn an_entry_in_use_stays_and_others_go() {
        let kept = Kept::new(64 << 10);
        let hot = kept.keep(key(0), list(100));
        for number in 1..2_000 {
            kept.keep(key(number), list(100));
            let found = kept.get(&key(0)).expect("it is in use");
            assert!(Arc::ptr_eq(&found, &hot));
            let stats = kept.stats();
            // The tables double as they grow.
            assert!(stats.bytes <= stats.limit * 11 / 10, "{stats:?}");
        }
        let stats = kept.stats();
        assert_eq!(stats.hits, 1_999);
        assert_eq!(stats.evicted + stats.entries as u64, 2_000);
        assert!(stats.entries > 50 && stats.bytes > stats.limit / 3, "{stats:?}");
        assert!(kept.get(&key(1)).is_none() && kept.get(&key(1_999)).is_some());
        assert!(kept.turns() > 20);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let kept = Kept::new(1 << 10);
        assert_eq!(kept.keep(key(0), list(100)).len(), 100);
        assert!(kept.get(&key(0)).is_none());
        assert_eq!((kept.stats().entries, kept.stats().evicted, kept.stats().misses), (0, 1, 1));
    }

    /// Refers to things by their ids and bytes.
    #[derive(PartialEq, Eq, Hash)]
    struct Referring(Vec<(LibraryId, usize)>);

    impl Entry for Referring {
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

    /// A part of a mask that referred to one large node twenty times was never kept, and each request made it anew.
    #[test]
    fn shared_things_are_counted_once_in_an_entry() {
        let ids = LibraryIds::new();
        let [one, other] = [ids.next(), ids.next()];
        let referring = Referring([[(one, 100), (other, 7)]; 20].concat());
        assert_eq!(bytes_of(&referring, &()), 107);
    }

    #[test]
    fn shared_things_are_counted_once_in_a_generation() {
        let kept = Kept::new(1 << 20);
        let ids = LibraryIds::new();
        let dfa = Arc::new(Dfa::from_pattern("[a-c]{2,9}", &unskew_automata::Limits::default()).unwrap());
        let number = ids.next();
        let join = |state| (number, state, NextKey::Once(number));
        kept.keep(join(0), Some((number, Arc::clone(&dfa))));
        let first = kept.stats().bytes;
        assert!(first > dfa.memory_usage());
        for state in 1..4 {
            kept.keep(join(state), Some((number, Arc::clone(&dfa))));
        }
        assert!(kept.stats().bytes < first + dfa.memory_usage());
        // Removed one by one, they leave nothing but tables.
        let mut guard = kept.lock();
        for state in 0..4 {
            guard.young.remove(&join(state)).unwrap();
        }
        assert!(guard.young.held.is_empty());
        let tables = guard.young.tables.joined.allocation_size() + guard.young.held.allocation_size();
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
