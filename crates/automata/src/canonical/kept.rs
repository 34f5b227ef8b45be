//! Answers that are kept for all constraints of a tokenizer, written once and never changed, without a lock.
//!
//! A table of slots that are each written once. A key has a few slots where it may be; if all are taken by others, or the
//! bytes that may be kept are used up, an answer is given and not kept. So what is kept first stays, which is what comes most
//! often; a table that forgets would need a lock that all masks share.

use std::{
    hash::{BuildHasher, Hash},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustc_hash::FxBuildHasher;

/// A key is in one of so many slots.
const PROBES: usize = 8;

/// Some answers by key.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    slots: Box<[OnceLock<(K, V)>]>,
    /// How many more bytes may be kept, of how many.
    left: AtomicUsize,
    bytes: usize,
}

impl<K: Hash + Eq + Copy, V: Clone> Kept<K, V> {
    /// Room for at most so many answers of so many bytes together, beside what the slots take.
    pub(crate) fn new(slots: usize, bytes: usize) -> Self {
        let slots = (0..slots.max(PROBES)).map(|_| OnceLock::new()).collect();
        Self { slots, left: AtomicUsize::new(bytes), bytes }
    }

    /// The slots where `key` may be.
    fn slots(&self, key: K) -> impl Iterator<Item = &OnceLock<(K, V)>> {
        let hash = FxBuildHasher.hash_one(key);
        let first = usize::try_from(hash % self.slots.len() as u64).unwrap_or(0);
        self.slots.iter().cycle().skip(first).take(PROBES)
    }

    pub(crate) fn get(&self, key: K) -> Option<V> {
        // They are taken in their order.
        let taken = self.slots(key).map_while(OnceLock::get);
        taken.filter(|(other, _)| *other == key).map(|(_, value)| value.clone()).next()
    }

    /// Keeps an answer of so many bytes, if there is room.
    pub(crate) fn keep(&self, key: K, value: V, bytes: usize) {
        let take = |left: usize| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return;
        }
        let mut entry = (key, value);
        for slot in self.slots(key) {
            match slot.set(entry) {
                Ok(()) => return,
                Err(back) => entry = back,
            }
            if slot.get().is_some_and(|(other, _)| *other == key) {
                break;
            }
        }
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.slots[..]) + self.bytes - self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_given_and_no_more_than_fits() {
        let kept: Kept<u32, u32> = Kept::new(64, 400);
        for key in 0..200 {
            assert_eq!(kept.get(key), None);
            kept.keep(key, key * 3, 10);
            kept.keep(key, key * 5, 10);
            assert!(kept.get(key).is_none_or(|value| value == key * 3));
        }
        let found = (0..200).filter(|key| kept.get(*key) == Some(key * 3)).count();
        assert!((20..=40).contains(&found), "{found}");
        let slots = 64 * size_of::<OnceLock<(u32, u32)>>();
        assert_eq!(kept.memory_usage(), slots + found * 10);
        // One slot for all.
        let kept: Kept<u32, u32> = Kept::new(0, usize::MAX);
        (0..100).for_each(|key| kept.keep(key, key, 1));
        assert_eq!((0..100).filter(|key| kept.get(*key) == Some(*key)).count(), PROBES);
    }

    #[test]
    fn several_threads_may_keep_the_same() {
        let kept: Kept<u32, u32> = Kept::new(1 << 10, usize::MAX);
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
