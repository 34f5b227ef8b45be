//! Ids of things that are kept once, and the tables that they index: the kit of the engines, and no part of the API.
//!
//! An engine names the states, nodes and terms of its tables by 32-bit numbers. Each kind of thing has an id type of
//! its own ([`id!`](crate::id)), so that the compiler refuses an id of one table as an index of another. The number
//! `u32::MAX` is no id: `Option` of an id takes 32 bits too, and no table needs a number that stands for "none".
//!
//! Tried instead: aliases of `u32`. Ten of them were put into each other without a word, and `u32::MAX` had six
//! meanings.

use std::{
    fmt,
    hash::Hash,
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// A number that names a thing of one kind.
pub trait Id: Copy + Eq + Ord + Hash + fmt::Debug {
    /// The id of this number.
    ///
    /// # Panics
    ///
    /// If the number is `u32::MAX`. Limits on memory stop tables before they have so many entries.
    fn of(raw: u32) -> Self;

    /// The number.
    fn raw(self) -> u32;

    /// The id of the entry at this index of a table.
    ///
    /// # Panics
    ///
    /// As [`of`](Self::of).
    #[inline]
    fn from_index(index: usize) -> Self {
        Self::of(number(index))
    }

    /// The index of the entry in a table.
    #[inline]
    fn index(self) -> usize {
        self.raw() as usize
    }

    /// The id that an entry of a table of plain numbers names, where `u32::MAX` stands for none.
    #[inline]
    fn of_entry(entry: u32) -> Option<Self> {
        (entry != u32::MAX).then(|| Self::of(entry))
    }
}

/// Declares an id type. It stores the number plus one as a `NonZeroU32`, so that `Option` of it takes 32 bits.
#[macro_export]
#[doc(hidden)]
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $crate::id! { $(#[$doc])* pub(crate) $name }
    };
    ($(#[$doc:meta])* $vis:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(std::num::NonZeroU32);

        impl $name {
            #[inline]
            pub(crate) const fn of(raw: u32) -> Self {
                match std::num::NonZeroU32::new(raw.wrapping_add(1)) {
                    Some(plus_one) => Self(plus_one),
                    None => panic!("limited"),
                }
            }
        }

        impl $crate::ids::Id for $name {
            #[inline]
            fn of(raw: u32) -> Self {
                Self::of(raw)
            }

            #[inline]
            fn raw(self) -> u32 {
                self.0.get() - 1
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

/// A length or an index as a number of 32 bits.
///
/// # Panics
///
/// If it is larger. Limits on what is read and on the memory of scratches are lower.
#[inline]
pub fn number(index: usize) -> u32 {
    u32::try_from(index).expect("limited")
}

/// A vector that ids of type `I` index.
#[derive(Clone, PartialEq, Eq)]
pub struct Table<I, T> {
    entries: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self::from(Vec::new())
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
    /// A table of `len` entries that are equal.
    pub fn filled(entry: T, len: usize) -> Self
    where
        T: Clone,
    {
        Self::from(vec![entry; len])
    }

    /// The number of entries.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id of the next entry.
    pub fn next_id(&self) -> I {
        I::from_index(self.entries.len())
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: T) -> I {
        let id = self.next_id();
        self.entries.push(entry);
        id
    }

    /// The memory of the entries themselves, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.entries.capacity() * size_of::<T>()
    }

    /// All ids, in ascending order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.entries.len()).map(I::from_index)
    }

    /// The ids and entries, in the order of their ids.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.ids().zip(&self.entries)
    }

    /// All entries, in the order of their ids.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// The table as a list.
    pub fn into_entries(self) -> Vec<T> {
        self.entries
    }

    /// The entry of `id`, if the table has one.
    pub fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())
    }

    /// The entry of `id`, in a table that grows by default entries up to it.
    pub fn grown_to(&mut self, id: I) -> &mut T
    where
        T: Clone + Default,
    {
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
    fn tables_have_an_entry_for_each_id_and_grow() {
        let mut table: Table<Thing, u8> = [3, 1].into_iter().collect();
        table[Thing::of(1)] = 9;
        assert_eq!(table.iter().collect::<Vec<_>>(), [(Thing::of(0), &3), (Thing::of(1), &9)]);
        *table.grown_to(Thing::of(3)) = 7;
        assert_eq!((table.entries(), table.next_id()), (&[3, 9, 0, 7][..], Thing::of(4)));
        assert_eq!(table.get(Thing::of(4)), None);
        assert_eq!(Table::<Thing, u8>::filled(5, 2).into_entries(), [5, 5]);
    }
}
