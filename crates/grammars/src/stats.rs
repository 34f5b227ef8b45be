//! Counts of the work of computing masks. They are the same on every machine, so tests bound them instead of times.

/// The work of a scratch so far. The counts are the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct GrammarStats {
    /// Masks that were requested.
    pub masks: u64,
    /// Requested masks that had to be computed.
    pub made: u64,
    /// Walks over the vocabulary. A walk that builds a node of a [`TreeLibrary`](crate::TreeLibrary) is not counted.
    pub walks: u64,
    /// Bytes that these walks read: transitions that were looked up.
    pub reads: u64,
    /// Transitions that had to be computed, in walks and elsewhere.
    pub steps: u64,
    /// Hypotheses that were visited to compute these transitions.
    pub hypotheses: u64,
    /// Parser items that were visited: in parser states, at the ends of rules, and in the states to which
    /// rules return. The number per byte grows with the text only if the grammar is ambiguous and its
    /// readings cannot be merged.
    pub items: u64,
    /// The most steps of a mask, as [`GrammarLimits::mask_steps`](unskew_grammar::GrammarLimits::mask_steps) counts
    /// them: it pays for all that it comes to, also for what was ready.
    pub mask_steps: u64,
    /// Comparisons and look-ups of the used texts of distinct terminals.
    pub used_texts: u64,
    /// Times at which the tables were full and were dropped.
    pub emptied: u64,
}
