//! The states of an object: the number of its members, and the witnesses found so far.

use unskew_grammars::ExprId;

use super::members::{MemberWay, WitnessSet};

/// A state of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainState {
    /// The number of members, up to [`Chain::most`].
    pub(super) count: u32,
    pub(super) found: WitnessSet,
}

/// The bounds on the states of an object.
pub(super) struct Chain {
    /// The largest count that is distinguished. Larger counts are equivalent to it, or exceed the maximum.
    pub(super) most: u32,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// The number of witnesses.
    pub(super) witnesses: usize,
    /// The largest number of members with names that the schema does not list, if these names run out.
    pub(super) others: Option<u32>,
}

impl Chain {
    pub(super) const START: ChainState = ChainState { count: 0, found: WitnessSet::EMPTY };

    /// The number of sets of witnesses.
    fn sets(&self) -> usize {
        1 << self.witnesses
    }

    /// The position of a state in [`all`](Self::all).
    pub(super) fn index(&self, state: ChainState) -> usize {
        state.count as usize * self.sets() + state.found.index()
    }

    /// All states with at most `most` members, in the order of their indices.
    pub(super) fn all(&self, most: u32) -> Vec<ChainState> {
        let counts = 0..=self.most.min(most);
        let states = |count| WitnessSet::all(self.witnesses).map(move |found| ChainState { count, found });
        counts.flat_map(states).collect()
    }

    /// The number of states with at most `most` members.
    pub(super) fn states(&self, most: u32) -> usize {
        (most as usize + 1).saturating_mul(self.sets())
    }

    /// The successors of a state by `ways`, each with its first way.
    pub(super) fn next<'w>(
        &self,
        state: ChainState,
        ways: &'w [MemberWay],
    ) -> impl Iterator<Item = (ChainState, ExprId)> + use<'w> {
        let full = self.max.is_some_and(|max| state.count >= max);
        let count = (state.count + 1).min(self.most);
        let mut seen = vec![];
        ways.iter().filter(move |_| !full).filter_map(move |way| {
            // The ways with the fewest conditions come first.
            let found = state.found.union(way.found);
            if seen.contains(&found) {
                return None;
            }
            seen.push(found);
            Some((ChainState { count, found }, way.expr))
        })
    }

    /// Whether all witnesses are found.
    pub(super) fn is_complete(&self, found: WitnessSet) -> bool {
        found.index() + 1 == self.sets()
    }

    /// Whether an object may end in the state.
    pub(super) fn ends(&self, state: ChainState) -> bool {
        state.count >= self.min && self.is_complete(state.found)
    }
}
