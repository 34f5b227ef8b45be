//! Ids of things that are kept once ([`unskew_core::ids`]), and what gives them out.
//!
//! Parser states, continuations, configurations, prefixes of keys and other things are kept once in tables. [`Lists`]
//! keeps lists once and gives them ids, and [`Interner`] is the hash table under it. The interner keeps the hash beside
//! the id: a table that grows hashes nothing again, and most scratches grow theirs several times.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
pub(crate) use unskew_core::{
    id,
    ids::{Id, Table, number},
};
pub(crate) use unskew_grammar::kit::terminal::COUNTS;

/// Ids that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdRange<I> {
    pub(crate) first: I,
    len: u32,
}

impl<I: Id> IdRange<I> {
    pub(crate) fn new(first: I, len: usize) -> Self {
        Self { first, len: number(len) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The position of `id` in the range.
    #[inline]
    pub(crate) fn offset_of(&self, id: I) -> Option<u32> {
        id.raw().checked_sub(self.first.raw()).filter(|offset| *offset < self.len)
    }

    #[inline]
    pub(crate) fn contains(&self, id: I) -> bool {
        self.offset_of(id).is_some()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I> {
        let first = self.first.raw();
        (first..first + self.len).map(I::of)
    }
}

/// The ids of things, by their hashes.
#[derive(Debug)]
pub(crate) struct Interner<I> {
    /// Half a hash and an id.
    table: HashTable<(u32, I)>,
    hasher: DefaultHashBuilder,
}

impl<I> Default for Interner<I> {
    fn default() -> Self {
        /// A scratch of a short text needs no more.
        const FIRST: usize = 56;
        Self { table: HashTable::with_capacity(FIRST), hasher: DefaultHashBuilder::default() }
    }
}

impl<I: Id> Interner<I> {
    pub(crate) fn hash(&self, thing: impl Hash) -> u64 {
        self.hasher.hash_one(thing)
    }

    /// The id of the thing of this hash for which `is_same` answers true. If there is none, `next` is its id from now
    /// on.
    pub(crate) fn get_or_insert(&mut self, hash: u64, next: I, mut is_same: impl FnMut(I) -> bool) -> I {
        let half = (hash ^ hash >> 32) as u32;
        // The table takes some bits from either end.
        let whole = |half: u32| u64::from(half) << 32 | u64::from(half);
        let entry = self.table.entry(
            whole(half),
            |(other, id)| *other == half && is_same(*id),
            |(other, _)| whole(*other),
        );
        match entry {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(vacant) => {
                vacant.insert((half, next));
                next
            }
        }
    }

    /// The memory that the table takes for each id, in bytes, at most.
    pub(crate) const ENTRY: usize = 2 * size_of::<(u32, I)>() + 2;
}

/// Lists that are kept once, each with an id.
#[derive(Debug)]
pub(crate) struct Lists<I, T> {
    items: Vec<T>,
    /// By list: the index of its first item; and the number of all items.
    first: Vec<u32>,
    interner: Interner<I>,
}

impl<I, T> Default for Lists<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), first: vec![0], interner: Interner::default() }
    }
}

impl<I: Id, T: Copy + Eq + Hash> Lists<I, T> {
    /// The number of lists.
    pub(crate) fn len(&self) -> usize {
        self.first.len() - 1
    }

    #[inline]
    pub(crate) fn get(&self, list: I) -> &[T] {
        &self.items[self.first[list.index()] as usize..self.first[list.index() + 1] as usize]
    }

    /// The id of `list`, and whether it is new.
    pub(crate) fn insert(&mut self, list: &[T]) -> (I, bool) {
        let (items, first) = (&self.items, &self.first);
        let get = |id: I| &items[first[id.index()] as usize..first[id.index() + 1] as usize];
        let next = I::from_index(first.len() - 1);
        let id = self.interner.get_or_insert(self.interner.hash(list), next, |id| get(id) == list);
        if id == next {
            self.items.extend_from_slice(list);
            self.first.push(number(self.items.len()));
        }
        (id, id == next)
    }

    /// In bytes, about.
    pub(crate) fn memory_usage(&self) -> usize {
        self.items.len() * size_of::<T>() + self.first.len() * (size_of::<u32>() + Interner::<I>::ENTRY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    id! {
        /// A thing.
        Thing
    }

    #[test]
    fn lists_are_kept_once() {
        let mut lists: Lists<Thing, u8> = Lists::default();
        let (empty, is_new) = lists.insert(&[]);
        assert!(is_new);
        let (some, is_new) = lists.insert(&[3, 1]);
        assert!(is_new && some != empty);
        assert_eq!(lists.insert(&[3, 1]), (some, false));
        assert_eq!(lists.insert(&[]), (empty, false));
        assert_eq!((lists.get(empty), lists.get(some), lists.len()), (&[][..], &[3, 1][..], 2));
    }

    #[test]
    fn ranges_have_their_ids_and_no_others() {
        let range = IdRange::new(Thing::of(4), 3);
        assert_eq!(range.ids().collect::<Vec<_>>(), [4, 5, 6].map(Thing::of));
        let offsets = [3, 4, 6, 7].map(|raw| range.offset_of(Thing::of(raw)));
        assert_eq!(offsets, [None, Some(0), Some(2), None]);
    }
}
