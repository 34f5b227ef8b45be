//! A cache of answers for all constraints of a tokenizer: bounded in bytes and shared by threads.
//!
//! It consists of a few maps. Each map has a lock, and drops its older half when it is full ([`Generations`]). The
//! lock is held for a look-up or an insertion, never while an answer is computed. So two threads may compute the
//! same answer, and one of the two is kept. A look-up of a recently used answer takes the lock for reading, so masks
//! do not wait for each other.
//!
//! Tried instead: slots that are written once, without a lock. The first entries stayed forever, and a constraint
//! that came after all slots were taken recomputed everything for each of its masks.

use std::{
    hash::{BuildHasher, Hash},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rustc_hash::FxBuildHasher;
use unskew_core::Generations;

type Map<K, V> = Generations<K, V, FxBuildHasher>;

/// A cache of answers by key.
#[derive(Debug)]
pub(crate) struct SharedCache<K, V> {
    maps: Box<[RwLock<Map<K, V>>]>,
}

impl<K: Hash + Eq + Copy, V: Clone> SharedCache<K, V> {
    /// A cache with room for `bytes` bytes, keys and tables included, in `maps` maps with a lock each.
    pub(crate) fn new(maps: usize, bytes: usize) -> Self {
        let maps = maps.max(1);
        Self { maps: (0..maps).map(|_| RwLock::new(Generations::new(bytes / maps))).collect() }
    }

    fn map(&self, key: K) -> &RwLock<Map<K, V>> {
        // The maps themselves use the other bits of the hash.
        &self.maps[(FxBuildHasher.hash_one(key) >> 20) as usize % self.maps.len()]
    }

    pub(crate) fn get(&self, key: K) -> Option<V> {
        let map = self.map(key);
        if let Some(value) = read(map).peek_young(&key) {
            return Some(value.clone());
        }
        // A missing answer is computed next, so the cost of one more lock does not matter.
        write(map).get(&key).cloned()
    }

    /// Inserts an answer that owns `bytes` bytes.
    pub(crate) fn keep(&self, key: K, value: V, bytes: usize) {
        write(self.map(key)).insert(key, value, bytes);
    }

    /// The sum of `of` over all cached answers.
    pub(crate) fn sum(&self, of: impl Fn(&V) -> usize) -> usize {
        self.maps.iter().map(|map| read(map).entries().map(|(_, value)| of(value)).sum::<usize>()).sum()
    }

    /// The memory in bytes, according to the sizes given to [`keep`](Self::keep).
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.maps[..]) + self.maps.iter().map(|map| read(map).bytes()).sum::<usize>()
    }
}

// No code panics while a lock is held, except for a lack of memory.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_given_and_no_more_than_fits() {
        let kept: SharedCache<u32, u32> = SharedCache::new(4, 40_000);
        for key in 0..2_000 {
            assert_eq!(kept.get(key), None);
            kept.keep(key, key * 3, 100);
            assert_eq!(kept.get(key), Some(key * 3));
            // An entry in constant use stays, however many others are inserted.
            assert_eq!(kept.get(0), Some(0));
            assert!(kept.memory_usage() <= 40_000 + 4 * size_of::<RwLock<Map<u32, u32>>>());
        }
        let found = (0..2_000).filter(|key| kept.get(*key) == Some(key * 3)).count();
        assert!((80..=300).contains(&found), "{found}");
    }

    #[test]
    fn several_threads_may_keep_the_same() {
        let kept: SharedCache<u32, u32> = SharedCache::new(4, 1 << 16);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for key in 0..500 {
                        kept.keep(key, key + 1, 1);
                        assert!(kept.get(key).is_none_or(|value| value == key + 1));
                    }
                });
            }
        });
        assert!((0..500).filter(|key| kept.get(*key).is_some()).count() > 450);
    }
}
