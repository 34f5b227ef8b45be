//! Counts of the work that masks take: the same on every machine, so that tests can bound them.

/// What a scratch has done so far. The counts are the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct GrammarStats {
    /// Masks that were asked for.
    pub masks: u64,
    /// Of these, masks that were not there yet.
    pub made: u64,
    /// Walks over the vocabulary. Those that make a node of a [`TreeLibrary`](crate::TreeLibrary) are not counted.
    pub walks: u64,
    /// Bytes that these walks read: how often they asked what is behind one.
    pub reads: u64,
    /// Bytes for which the next place was worked out anew, in walks and elsewhere.
    pub steps: u64,
    /// The readings that were looked at for that.
    pub readings: u64,
    /// The items of the parser that were looked at: in its states, where rules end, and in what these return to. How many that
    /// are for a byte grows with the text where the grammar is ambiguous in a way that nothing of it can be merged.
    pub items: u64,
    /// How often a text that may not come again was looked at, or looked for among those that were used.
    pub used_texts: u64,
    /// How often the tables were full.
    pub emptied: u64,
}
