//! Ids: indices into the tables of a trie, a type for each table.
//!
//! An id is stored as its index plus one, so that an optional id takes four bytes too. Loops over a table count with
//! `usize`; ids stand where one table names an entry of another.

use std::num::NonZeroU32;

/// `value` in 32 bits.
///
/// # Panics
///
/// If it does not fit. A vocabulary has less than 4 GiB of text, and no table has more entries than that.
pub(crate) fn index(value: usize) -> u32 {
    u32::try_from(value).expect("a vocabulary holds less than 4 GiB of text")
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name(NonZeroU32);

        impl $name {
            /// The id of the entry at `index`.
            #[inline]
            pub(crate) fn new(index: usize) -> Self {
                let plus_one = NonZeroU32::MIN.checked_add(crate::ids::index(index));
                Self(plus_one.expect("no table is that long"))
            }

            /// The index of the entry.
            #[inline]
            pub(crate) fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

ids! {
    /// A node of the byte trie of all tokens. The sentinel at the end stands for the root.
    NodeId
    /// A quotient.
    QuotientId
    /// A summary of a subtree.
    SummaryId
    /// A set of symbols.
    SetId
    /// A mask of many tokens.
    MaskId
}
