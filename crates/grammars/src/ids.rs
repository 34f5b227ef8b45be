//! Ids of things that are kept once, and the tables that they index.
//!
//! Parser states, continuations, configurations, prefixes of keys and other things are kept once in tables and named
//! by 32-bit numbers. Each kind of thing has an id type of its own ([`id!`]), so that the compiler refuses an id of
//! one table as an index of another. The number `u32::MAX` is no id: `Option` of an id takes 32 bits too, and no
//! table needs a number that stands for "none".
//!
//! [`Table`] is a vector that an id type indexes, [`Lists`] keeps lists once and gives them ids, and [`Interner`] is
//! the hash table under it. The interner keeps the hash beside the id: a table that grows hashes nothing again, and
//! most scratches grow theirs several times.
//!
//! Tried instead: aliases of `u32`. Ten of them were put into each other without a word, and `u32::MAX` had six
//! meanings.

use std::{
    fmt,
    hash::{BuildHasher, Hash},
    marker::PhantomData,
    ops::{Index, IndexMut},
};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

/// The two counts of an `Arc`, in bytes.
pub(crate) const COUNTS: usize = 2 * size_of::<usize>();

/// A number that names a thing of one kind.
pub(crate) trait Id: Copy + Eq + Ord + Hash + fmt::Debug {
    /// The id of this number.
    ///
    /// # Panics
    ///
    /// If the number is `u32::MAX`. Limits on memory stop tables before they have so many entries.
    fn from_raw(raw: u32) -> Self;

    /// The number.
    fn raw(self) -> u32;

    /// The id of the entry at this index of a table.
    ///
    /// # Panics
    ///
    /// As [`from_raw`](Self::from_raw).
    #[inline]
    fn from_index(index: usize) -> Self {
        Self::from_raw(number(index))
    }

    /// The index of the entry in a table.
    #[inline]
    fn index(self) -> usize {
        self.raw() as usize
    }
}

/// Declares an id type, of this crate or public. It stores the complement of its number as a `NonZeroU32`, so that
/// `Option` of it takes 32 bits.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $crate::ids::id! { @ $(#[$doc])* pub(crate) $name }
    };
    ($(#[$doc:meta])* pub $name:ident) => {
        $crate::ids::id! { @ $(#[$doc])* pub $name }
    };
    (@ $(#[$doc:meta])* $vis:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        $vis struct $name(std::num::NonZeroU32);

        impl $name {
            #[inline]
            pub(crate) const fn of(raw: u32) -> Self {
                match std::num::NonZeroU32::new(!raw) {
                    Some(complement) => Self(complement),
                    None => panic!("limited"),
                }
            }
        }

        impl $crate::ids::Id for $name {
            #[inline]
            fn from_raw(raw: u32) -> Self {
                Self::of(raw)
            }

            #[inline]
            fn raw(self) -> u32 {
                !self.0.get()
            }
        }

        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                // The complements are stored.
                other.0.cmp(&self.0)
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), $crate::ids::Id::raw(*self))
            }
        }

        const _: () = assert!(size_of::<Option<$name>>() == size_of::<u32>());
    };
}
pub(crate) use id;

/// A length or an index as a number of 32 bits.
///
/// # Panics
///
/// If it is larger. Limits on grammars and on the memory of scratches are lower.
#[inline]
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("limited")
}

/// A vector that ids of type `I` index.
#[derive(Clone)]
pub(crate) struct Table<I, T> {
    entries: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self { entries: Vec::new(), ids: PhantomData }
    }
}

impl<I, T: fmt::Debug> fmt::Debug for Table<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.fmt(f)
    }
}

impl<I, T> From<Vec<T>> for Table<I, T> {
    fn from(entries: Vec<T>) -> Self {
        Self { entries, ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<E: IntoIterator<Item = T>>(entries: E) -> Self {
        Self::from(Vec::from_iter(entries))
    }
}

impl<I: Id, T> Table<I, T> {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id of the next entry.
    pub(crate) fn next_id(&self) -> I {
        I::from_index(self.entries.len())
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: T) -> I {
        let id = self.next_id();
        self.entries.push(entry);
        id
    }

    /// The memory of the entries themselves, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.entries.capacity() * size_of::<T>()
    }

    /// The ids and entries, in the order of their ids.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.entries.iter().enumerate().map(|(index, entry)| (I::from_index(index), entry))
    }

    /// All entries, in the order of their ids.
    pub(crate) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// The entry of `id`, if the table has one.
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())
    }
}

impl<I: Id, T: Clone> Table<I, T> {
    /// A table of `len` entries that are equal.
    pub(crate) fn filled(len: usize, entry: T) -> Self {
        Self::from(vec![entry; len])
    }
}

impl<I: Id, T: Clone + Default> Table<I, T> {
    /// The entry of `id`, in a table that grows by default entries up to it.
    pub(crate) fn grown_to(&mut self, id: I) -> &mut T {
        if self.entries.len() <= id.index() {
            self.entries.resize(id.index() + 1, T::default());
        }
        &mut self.entries[id.index()]
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.entries[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.entries[id.index()]
    }
}

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
        (first..first + self.len).map(I::from_raw)
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
    fn ids_are_ordered_as_their_numbers() {
        let numbers = [0, 1, 7, 1 << 31, u32::MAX - 1];
        let ids = numbers.map(Thing::of);
        assert!(ids.is_sorted());
        assert_eq!(ids.map(Id::raw), numbers);
        assert!(ids.array_windows().all(|[left, right]| left < right && left != right));
    }

    #[test]
    #[should_panic(expected = "limited")]
    fn the_highest_number_is_no_id() {
        Thing::of(u32::MAX);
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

    #[test]
    fn tables_grow_to_an_id() {
        let mut table: Table<Thing, u8> = Table::default();
        *table.grown_to(Thing::of(2)) = 9;
        assert_eq!((table.entries(), table.next_id()), (&[0, 0, 9][..], Thing::of(3)));
        assert_eq!(table.get(Thing::of(3)), None);
    }
}
