//! Ids: indices into the tables of a trie, a type for each table.
//!
//! Loops over a table count with `usize`; ids stand where one table names an entry of another.

use unskew_core::id;
pub(crate) use unskew_core::ids::Id;

/// `value` in 32 bits.
///
/// # Panics
///
/// If it does not fit. A vocabulary has less than 4 GiB of text, and no table has more entries than that.
pub(crate) fn index(value: usize) -> u32 {
    u32::try_from(value).expect("a vocabulary holds less than 4 GiB of text")
}

id! {
    /// A node of the byte trie of all tokens. The sentinel at the end stands for the root.
    NodeId
}

id! {
    /// A quotient.
    QuotientId
}

id! {
    /// A summary of a subtree.
    SummaryId
}

id! {
    /// A set of symbols.
    SetId
}

id! {
    /// A mask of many tokens.
    MaskId
}
