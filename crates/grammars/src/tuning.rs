//! The numbers that decide how masks are put together, and how much work is spent to merge parser states.
//!
//! They change times and memory, and never a mask. A library is made with one [`Tuning`], and constraints over it
//! have the same one, so that tests run the engine with numbers at which every path of it is met over a small
//! vocabulary, and with those that ship.
//!
//! Numbers that decide a layout are constants beside it: the number of placeholders, of recent tokens of a state, of
//! keys in a list.

/// The numbers of a library and of the constraints over it. The default ships; the comments state the effect of its
/// values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The least number of safe bytes of a permissive state. With fewer, a walk is short.
    pub permissive_bytes: usize,
    /// The most states that are followed from a permissive state.
    pub permissive_states: usize,
    /// The most states that the safe bytes of a terminal may reach. They are looked for in each state of a terminal
    /// that a walk meets.
    pub safe_states: usize,
    /// The least number of classes of bytes of an automaton with permissive states. With fewer, a walk is quick.
    pub permissive_classes: usize,
    /// The most tokens that are longer than a permissive state is followed. With more, a walk is short.
    pub permissive_read: usize,
    /// A permissive state is followed for so many characters that at most so many tokens are longer.
    pub permissive_long: usize,
    /// The most tokens that are read for bounds of units. For more, all are sorted by their costs.
    pub counted_read: usize,

    /// The most terminals and loops that are fused into one automaton. Beyond it, the mask is built by a walk.
    pub fused_parts: u32,
    /// The most terminals that a segment may overlap before the mask is built by a walk.
    pub fused_ways: usize,
    /// The most states of a fused automaton.
    pub fused_states: usize,
    /// The most steps to build a fused automaton. The value takes about a millisecond.
    pub fused_steps: u64,

    /// The most nodes that are opened for one hypothesis before the mask is built by a walk. Each is another sequence
    /// of terminals that are no literals, and tokens of hundreds of bytes may have as many sequences as there are
    /// ways to cut them.
    pub opened_nodes: usize,
    /// From a suffix node with at most this number of descendants, suffixes are read directly. It is less work than
    /// to build a node, or to look for it.
    pub read_descendants: u32,

    /// The least number of first bytes of the tokens that leave a node for which it is continued by fragments.
    pub fragment_groups: usize,
    /// The least number of terminals that may follow for which a fragment is looked for. Fewer are added in less time.
    pub fragment_edges: usize,
    /// The deepest nesting of fragments. Beyond it, tokens are added without fragments.
    pub fragment_nesting: u32,
    /// The most points that are looked at for one mask before it is built by a walk.
    pub fragment_points: usize,
    /// The most numbers of a spelled-out grammar whose fragments a library keeps. A larger grammar is not worth
    /// comparing.
    pub shared_numbers: usize,

    /// The most pairs and frames that are looked at to leave covered items out of one set, and again after each item
    /// that is left out. It bounds the work of ambiguous grammars.
    pub covered_looks: usize,
    /// The most levels of rules above a cut. It is more than any rules without recursion that people write.
    pub truncated_levels: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            permissive_bytes: 16,
            permissive_states: 512,
            safe_states: 16,
            permissive_classes: 20,
            permissive_read: 1 << 14,
            permissive_long: 1 << 10,
            counted_read: 1 << 11,
            fused_parts: 4,
            fused_ways: 8,
            fused_states: 1 << 9,
            fused_steps: 200_000,
            opened_nodes: 1_000,
            read_descendants: 64,
            fragment_groups: 8,
            fragment_edges: 8,
            fragment_nesting: 24,
            fragment_points: 4_000,
            shared_numbers: 1 << 16,
            covered_looks: 512,
            truncated_levels: 64,
        }
    }
}

impl Tuning {
    /// The numbers at which fragments are built wherever they can be.
    pub fn with_all_fragments() -> Self {
        Self { fragment_groups: 0, fragment_edges: 0, ..Self::default() }
    }

    /// The numbers at which all that is bounded soon comes to its bound, and masks are built by walks.
    pub fn tight() -> Self {
        Self {
            permissive_bytes: 1,
            permissive_states: 2,
            permissive_classes: 0,
            counted_read: 0,
            fused_parts: 2,
            fused_ways: 1,
            fused_states: 6,
            opened_nodes: 2,
            read_descendants: 1,
            fragment_nesting: 3,
            fragment_points: 6,
            covered_looks: 4,
            truncated_levels: 2,
            ..Self::with_all_fragments()
        }
    }
}
