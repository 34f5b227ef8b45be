//! Numbers of things that are kept once.
//!
//! The things lie where their numbers say; here is only which number a thing has. Its hash is kept with it: a table that grows hashes
//! nothing again, and most scratches grow theirs several times.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

/// No such thing.
pub(crate) const NONE: u32 = u32::MAX;

/// The two counts of an `Arc`, in bytes.
pub(crate) const COUNTS: usize = 2 * size_of::<usize>();

/// The numbers of things, by their hashes.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Half a hash and a number.
    table: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl Default for Ids {
    fn default() -> Self {
        /// A scratch of a short text needs no more.
        const FIRST: usize = 56;
        Self { table: HashTable::with_capacity(FIRST), hasher: DefaultHashBuilder::default() }
    }
}

impl Ids {
    pub(crate) fn hash(&self, thing: impl Hash) -> u64 {
        self.hasher.hash_one(thing)
    }

    /// The number of the thing of this hash for which `is_same` says so. If there is none, `next` is its number from now on.
    pub(crate) fn get_or_insert(
        &mut self,
        hash: u64,
        next: u32,
        mut is_same: impl FnMut(u32) -> bool,
    ) -> u32 {
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
            Entry::Vacant(place) => {
                place.insert((half, next));
                next
            }
        }
    }

    /// The memory that it takes for each number, in bytes: no more.
    pub(crate) const ENTRY: usize = 2 * size_of::<(u32, u32)>() + 2;
}
