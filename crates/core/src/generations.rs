//! A map within a limit of bytes that forgets its older half when it is full.
//!
//! Entries are young or old. A new entry is young, and an old entry that is asked for becomes young again. When the
//! young entries would take more than half of the limit, the old ones are dropped and the young ones become old. So
//! an entry that is used at least once a generation stays, a look-up writes nothing in the frequent case, and there
//! is no list of uses to keep in order.
//!
//! Tried instead: to drop all entries of a full map. A sequence that needs a little more room than there is then
//! makes all entries again and again, also the entries of each step.

use std::{
    borrow::Borrow,
    collections::{HashMap, hash_map::RandomState},
    fmt,
    hash::{BuildHasher, Hash},
};

/// A map that keeps the recently used entries, within a limit of bytes.
///
/// The bytes are those of the map's tables, and those that its entries are said to own. The map belongs to one thread
/// at a time.
///
/// # Example
///
/// ```
/// use unskew_core::Generations;
///
/// let mut squares: Generations<u32, u64> = Generations::new(2_000);
/// for number in 0..1_000u32 {
///     squares.insert(number, u64::from(number).pow(2), 0);
///     assert_eq!(squares.get(&7).copied(), (number >= 7).then_some(49)); // it is in use, and stays
/// }
/// assert!(squares.bytes() <= 2_000 && squares.evicted() > 900);
/// ```
#[derive(Clone)]
pub struct Generations<K, V, S = RandomState> {
    young: Generation<K, V, S>,
    old: Generation<K, V, S>,
    limit: usize,
    evicted: u64,
}

#[derive(Clone)]
struct Generation<K, V, S> {
    /// Each value with the bytes that it and its key own.
    entries: HashMap<K, (V, usize), S>,
    /// The bytes of all entries together.
    owned: usize,
    /// The bytes of the table.
    table: usize,
}

impl<K, V, S: Default> Default for Generation<K, V, S> {
    fn default() -> Self {
        Self { entries: HashMap::default(), owned: 0, table: 0 }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default> Generation<K, V, S> {
    /// The memory of a table with `len` entries: the standard library keeps one in eight slots of a power of two free,
    /// and a byte for each slot.
    fn table(len: usize) -> usize {
        let slots = match len {
            0 => return 0,
            1..=3 => 4,
            4..=7 => 8,
            _ => (len * 8 / 7).next_power_of_two(),
        };
        slots * (size_of::<(K, (V, usize))>() + 1) + 16
    }

    fn bytes(&self) -> usize {
        self.owned + self.table
    }

    fn insert(&mut self, key: K, value: V, bytes: usize) {
        if let Some((_, before)) = self.entries.insert(key, (value, bytes)) {
            self.owned -= before;
        }
        self.owned += bytes;
        self.table = Self::table(self.entries.len());
    }

    /// Removes an entry. The table keeps its size.
    fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(K, V, usize)>
    where
        K: Borrow<Q>,
    {
        let (key, (value, bytes)) = self.entries.remove_entry(key)?;
        self.owned -= bytes;
        Some((key, value, bytes))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default> Generations<K, V, S> {
    /// An empty map that takes up to `limit` bytes. A limit of zero keeps nothing.
    pub fn new(limit: usize) -> Self {
        Self { young: Generation::default(), old: Generation::default(), limit, evicted: 0 }
    }

    /// The value of `key`, which is young from now on. One look-up more than that of a map.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.renew(key);
        self.young.entries.get(key).map(|(value, _)| value)
    }

    /// As [`get`](Self::get). The bytes of the value still count as they did when it was inserted.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.renew(key);
        self.young.entries.get_mut(key).map(|(value, _)| value)
    }

    /// The value of `key`, which keeps its age.
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.entries.get(key).or_else(|| self.old.entries.get(key)).map(|(value, _)| value)
    }

    /// The value of `key` if it is young: then [`get`](Self::get) changes nothing. This is for maps that threads
    /// share: the threads need to exclude each other only where an entry moves.
    pub fn peek_young<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.entries.get(key).map(|(value, _)| value)
    }

    /// All entries, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (&K, &V)> {
        self.young.entries.iter().chain(&self.old.entries).map(|(key, (value, _))| (key, value))
    }

    /// Makes an old entry young.
    fn renew<Q: Hash + Eq + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if self.old.entries.is_empty() || self.young.entries.contains_key(key) {
            return;
        }
        if let Some((key, value, bytes)) = self.old.remove(key) {
            self.insert(key, value, bytes);
        }
    }

    /// Keeps `value`, which together with `key` owns `bytes` outside of the map, and replaces an earlier value.
    /// Amortised O(1), except for the drop of a generation.
    ///
    /// An entry that takes more than half of the limit by itself is not kept; [`evicted`](Self::evicted) counts it.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.old.remove(&key);
        let before = self.young.entries.get(&key).map(|(_, bytes)| *bytes);
        let len = self.young.entries.len() + usize::from(before.is_none());
        let others = self.young.owned - before.unwrap_or(0) + Generation::<K, V, S>::table(len);
        if others.saturating_add(bytes) > self.limit / 2 {
            let is_too_large = Generation::<K, V, S>::table(1).saturating_add(bytes) > self.limit / 2;
            if before.is_some() || !is_too_large {
                self.turn();
                self.old.remove(&key);
            }
            if is_too_large {
                self.evicted += 1;
                return;
            }
        }
        self.young.insert(key, value, bytes);
    }

    /// Drops the old entries; the young ones are old from now on. For several maps with a limit in common.
    pub fn turn(&mut self) {
        let young = std::mem::take(&mut self.young);
        let old = std::mem::replace(&mut self.old, young);
        self.evicted += old.entries.len() as u64;
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.young.entries.len() + self.old.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries that were dropped to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The memory of all entries and of the tables, in bytes: never more than the limit.
    pub fn bytes(&self) -> usize {
        self.young.bytes() + self.old.bytes()
    }

    /// The part of [`bytes`](Self::bytes) that the young entries take.
    pub fn young_bytes(&self) -> usize {
        self.young.bytes()
    }
}

impl<K, V, S> fmt::Debug for Generations<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generations")
            .field("young", &self.young.entries.len())
            .field("old", &self.old.entries.len())
            .field("limit", &self.limit)
            .field("evicted", &self.evicted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The map by its definition, with two plain maps.
    #[derive(Default)]
    struct Model {
        young: BTreeMap<u8, (u32, usize)>,
        old: BTreeMap<u8, (u32, usize)>,
        evicted: u64,
    }

    impl Model {
        fn bytes(entries: &BTreeMap<u8, (u32, usize)>) -> usize {
            // A table with as many entries as one of the map's own.
            let mut map: HashMap<u8, (u32, usize)> = HashMap::new();
            map.extend(entries.iter().map(|(key, entry)| (*key, *entry)));
            let slots = match map.capacity() {
                0 => 0,
                3 => 4,
                7 => 8,
                capacity => (capacity * 8 / 7).next_power_of_two(),
            };
            let table = if slots == 0 { 0 } else { slots * (size_of::<(u8, (u32, usize))>() + 1) + 16 };
            table + entries.values().map(|(_, bytes)| bytes).sum::<usize>()
        }

        fn turn(&mut self) {
            let young = std::mem::take(&mut self.young);
            self.evicted += std::mem::replace(&mut self.old, young).len() as u64;
        }

        fn insert(&mut self, key: u8, value: u32, bytes: usize, limit: usize) {
            self.old.remove(&key);
            let mut young = self.young.clone();
            young.insert(key, (value, bytes));
            if Self::bytes(&young) <= limit / 2 {
                self.young = young;
                return;
            }
            let alone = BTreeMap::from([(key, (value, bytes))]);
            let is_too_large = Self::bytes(&alone) > limit / 2;
            if !is_too_large || self.young.contains_key(&key) {
                self.turn();
                self.old.remove(&key);
            }
            if is_too_large {
                self.evicted += 1;
            } else {
                self.young = alone;
            }
        }

        fn get(&mut self, key: u8, limit: usize) -> Option<u32> {
            if !self.young.contains_key(&key)
                && let Some((value, bytes)) = self.old.remove(&key)
            {
                self.insert(key, value, bytes, limit);
            }
            self.young.get(&key).map(|(value, _)| *value)
        }
    }

    proptest! {
        #[test]
        fn it_is_two_maps_by_definition(
            limit in 0usize..4_000,
            steps in prop::collection::vec((any::<bool>(), 0u8..40, 0usize..300), 0..200),
        ) {
            let mut map: Generations<u8, u32> = Generations::new(limit);
            let mut model = Model::default();
            for (value, (inserts, key, bytes)) in (0..).zip(steps) {
                if inserts {
                    map.insert(key, value, bytes);
                    model.insert(key, value, bytes, limit);
                } else {
                    prop_assert_eq!(map.get(&key).copied(), model.get(key, limit));
                }
                prop_assert_eq!(map.len(), model.young.len() + model.old.len());
                prop_assert_eq!(map.evicted(), model.evicted);
                prop_assert_eq!(map.young_bytes(), Model::bytes(&model.young));
                prop_assert!(map.bytes() <= limit);
                prop_assert_eq!(map.entries().count(), map.len());
                for key in 0..40 {
                    let expected = model.young.get(&key).or(model.old.get(&key));
                    prop_assert_eq!(map.peek(&key), expected.map(|(value, _)| value));
                    prop_assert_eq!(map.peek_young(&key), model.young.get(&key).map(|(value, _)| value));
                }
            }
        }
    }

    #[test]
    fn the_older_half_goes() {
        let mut map: Generations<u32, u32> = Generations::new(100_000);
        let mut least = usize::MAX;
        for key in 0..10_000 {
            map.insert(key, key, 100);
            if map.evicted() > 0 {
                least = least.min(map.len());
                // The previous entry is always there, also in a full map.
                assert_eq!(map.peek(&(key - 1)), Some(&(key - 1)));
            }
        }
        assert!(least > 200, "{least}");
        assert!(map.bytes() <= 100_000 && map.bytes() > 30_000, "{}", map.bytes());
        assert_eq!(map.evicted() + map.len() as u64, 10_000);
    }

    #[test]
    fn an_entry_that_is_too_large_is_not_kept() {
        let mut map: Generations<&str, u32> = Generations::new(1_000);
        map.insert("small", 1, 10);
        map.insert("large", 2, 600);
        assert_eq!((map.get("large").copied(), map.get("small").copied()), (None, Some(1)));
        assert_eq!((map.evicted(), map.len()), (1, 1));
        *map.get_mut("small").unwrap() = 3;
        assert_eq!(map.peek("small"), Some(&3));
        map.turn();
        map.turn();
        assert!(map.is_empty());
        assert_eq!(map.bytes(), 0);
        map.insert("small", 1, usize::MAX);
        assert!(map.is_empty());
    }
}
