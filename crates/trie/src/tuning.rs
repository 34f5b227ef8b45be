//! The numbers that decide how a trie is built and walked.
//!
//! They change times and memory, and never a mask. A trie is made with one [`Tuning`], which stays with it, so that
//! tests run the engine with small numbers, where every path of it is met over a few dozen tokens, and with those
//! that ship.

/// The numbers of one trie. The default ships; the comments state the effect of its values over vocabularies of
/// 100,000 and 128,000 tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// The least number of children of a node that are searched. Fewer are passed over one by one, which is faster
    /// for them.
    pub(crate) searched_children: usize,
    /// The least number of nodes of a subtree of the byte trie that gets a quotient. The tokens of smaller subtrees
    /// are walked byte by byte.
    pub(crate) quotient_nodes: usize,
    /// The greatest depth of nested quotients. It bounds the time and memory of building, and the recursion of a walk.
    pub(crate) quotient_levels: u8,
    /// The least number of tokens of a set that is also kept as a mask. Setting a bit takes about a nanosecond, and
    /// the union of two masks over 128,000 ids about half a microsecond. A value of 400 takes 6 MB more and is no
    /// faster; a value of 3,000 is a tenth slower.
    pub(crate) mask_tokens: u32,
    /// The least number of tokens of a subtree that gets a summary, so that the walk asks whether all of them are
    /// allowed.
    pub(crate) summary_tokens: u32,
    /// The most tokens that may hold a symbol for it to be an exception in a bulk acceptance. The tokens of such a
    /// symbol are kept as a list.
    pub(crate) listed_tokens: usize,
    /// The most nodes among which exceptions are found by looking at each node. Among more, the lists of nodes are
    /// searched.
    pub(crate) scanned_nodes: usize,
    /// The most symbols of a token that is not kept in the list of long tokens, and of a node that is not kept among
    /// the deep ones.
    pub(crate) short_symbols: usize,
    /// The least number of tokens of a subtree that is accepted in bulk.
    pub(crate) bulk_tokens: u32,
    /// The number of tokens of a subtree for which one exception is permitted. At 16 the four signs that end a
    /// sentence are too many exceptions: each place after one takes twice as many instructions.
    pub(crate) tokens_per_exception: usize,
    /// The greatest depth of nested bulk acceptances, each of which takes a call.
    pub(crate) bulk_depth: u8,
    /// The most states in a row that are looked at to decide whether all tokens of a subtree are allowed. Longer
    /// tokens are walked one by one. Where a string is counted, a value of 20 costs a quarter more instructions, and
    /// a value of 40 a tenth.
    pub(crate) run_states: usize,
    /// The most tokens of a kind that are kept as a list. More tokens are kept as a mask.
    pub(crate) kind_list_tokens: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            searched_children: 8,
            quotient_nodes: 48,
            quotient_levels: 5,
            mask_tokens: 1_024,
            summary_tokens: 16,
            listed_tokens: 1 << 14,
            scanned_nodes: 384,
            short_symbols: 12,
            bulk_tokens: 48,
            tokens_per_exception: 10,
            bulk_depth: 4,
            run_states: 64,
            kind_list_tokens: 1_024,
        }
    }
}
