//! Answers that are kept for all constraints of a tokenizer, within a limit of bytes, and shared by threads.
//!
//! A few maps that each forget their older half when they are full ([`Generations`]), each with a lock. The lock is held
//! for a look-up or an insertion and never while an answer is made: two threads may make the same answer, and one of the
//! two is kept. A look-up of what was used lately takes the lock for reading, so that masks do not wait for each other.
//!
//! Tried instead: slots that are written once, without a lock. The first entries stayed for good, and a constraint that came
//! when all slots were taken made everything anew for each of its masks.

use std::{
    hash::{BuildHasher, Hash},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rustc_hash::FxBuildHasher;
use unskew_core::Generations;

type Map<K, V> = Generations<K, V, FxBuildHasher>;

/// Some answers by key.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    maps: Box<[RwLock<Map<K, V>>]>,
}

impl<K: Hash + Eq + Copy, V: Clone> Kept<K, V> {
    /// Room for so many bytes, keys and tables included, in so many maps of which each has a lock.
    pub(crate) fn new(maps: usize, bytes: usize) -> Self {
        let maps = maps.max(1);
        Self { maps: (0..maps).map(|_| RwLock::new(Generations::new(bytes / maps))).collect() }
    }

    fn map(&self, key: K) -> &RwLock<Map<K, V>> {
        // The maps look at the other bits.
        &self.maps[(FxBuildHasher.hash_one(key) >> 20) as usize % self.maps.len()]
    }

    pub(crate) fn get(&self, key: K) -> Option<V> {
        let map = self.map(key);
        if let Some(value) = read(map).peek_young(&key) {
            return Some(value.clone());
        }
        // What is not there is made next, so that one more lock is no matter.
        write(map).get(&key).cloned()
    }

    /// Keeps an answer that owns so many bytes.
    pub(crate) fn keep(&self, key: K, value: V, bytes: usize) {
        write(self.map(key)).insert(key, value, bytes);
    }

    /// What `of` says of all answers together.
    pub(crate) fn sum(&self, of: impl Fn(&V) -> usize) -> usize {
        self.maps.iter().map(|map| read(map).entries().map(|(_, value)| of(value)).sum::<usize>()).sum()
    }

    /// The memory, as far as answers are said to own it.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.maps[..]) + self.maps.iter().map(|map| read(map).bytes()).sum::<usize>()
    }
}

// Nothing panics while a lock is held, but for a lack of memory.
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
        let kept: Kept<u32, u32> = Kept::new(4, 40_000);
        for key in 0..2_000 {
            assert_eq!(kept.get(key), None);
            kept.keep(key, key * 3, 100);
            assert_eq!(kept.get(key), Some(key * 3));
            // What is asked for again and again stays, however much comes.
            assert_eq!(kept.get(0), Some(0));
            assert!(kept.memory_usage() <= 40_000 + 4 * size_of::<RwLock<Map<u32, u32>>>());
        }
        let found = (0..2_000).filter(|key| kept.get(*key) == Some(key * 3)).count();
        assert!((80..=300).contains(&found), "{found}");
    }

    #[test]
    fn several_threads_may_keep_the_same() {
        let kept: Kept<u32, u32> = Kept::new(4, 1 << 16);
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
