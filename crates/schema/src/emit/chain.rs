//! The states of an object: the number of its members, and the witnesses found so far.

use unskew_grammar::ExprId;

use super::members::{MemberWay, WitnessSet};

/// A state of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainState {
    /// The number of members, up to [`Chain::most`].
    pub(super) count: u32,
    pub(super) found: WitnessSet,
}

/// States that have different continuations: counts up to the minimum, and from `upper` on. Counts between the two
/// are equivalent to the minimum.
#[derive(Clone, Copy)]
pub(super) struct Layer {
    min: u32,
    upper: u32,
    most: u32,
    witnesses: usize,
}

impl Layer {
    /// The states in the order of their indices.
    pub(super) fn all(self) -> impl Iterator<Item = ChainState> {
        let counts = (0..=self.min.min(self.most)).chain(self.upper..=self.most);
        counts.flat_map(move |count| {
            WitnessSet::all(self.witnesses).map(move |found| ChainState { count, found })
        })
    }

    /// The position in [`all`](Self::all) of the state that is equivalent to this one.
    pub(super) fn index(self, state: ChainState) -> usize {
        let place = if state.count < self.upper {
            state.count.min(self.min)
        } else {
            self.min.saturating_add(1) + (state.count - self.upper)
        };
        (place as usize) << self.witnesses | state.found.index()
    }
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

    /// The states after at most `members` members that have different continuations. With `left`, only so many members
    /// can follow: then a count between the minimum and `max - left` stays within both
    /// bounds whichever members follow, and all these counts are one state. So a maximum that is almost the number of
    /// members costs little.
    pub(super) fn layer(&self, members: u32, left: Option<u32>) -> Layer {
        let most = self.most.min(members);
        // A bound may be the largest number.
        let first = self.min.saturating_add(1);
        let upper = match (self.max, left) {
            (Some(max), Some(left)) => max.saturating_sub(left).saturating_add(1).max(first),
            _ => first,
        };
        Layer { min: self.min, upper, most, witnesses: self.witnesses }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// States of one index have the same continuations: by the definition, over every choice of later members.
    #[test]
    fn states_of_a_layer_have_different_continuations() {
        let total = 7;
        let bounds = || (0..=total + 1).chain([u32::MAX]);
        let pairs = bounds().flat_map(|min| bounds().map(move |max| (min, max)));
        for (min, max) in pairs.filter(|(min, max)| min <= max) {
            let chain = Chain { most: max, min, max: Some(max), witnesses: 0, others: None };
            for before in 0..=total {
                let left = total - before;
                let layer = chain.layer(before, Some(left));
                let states: Vec<ChainState> = layer.all().collect();
                assert!(states.iter().enumerate().all(|(index, state)| layer.index(*state) == index));
                for count in 0..=before.min(max) {
                    let found = WitnessSet::EMPTY;
                    let same = states[layer.index(ChainState { count, found })];
                    for later in 0..=left {
                        let fits = |count: u32| (min..=max).contains(&(count + later));
                        assert_eq!(
                            fits(count),
                            fits(same.count),
                            "{min}..={max}, {before}, {count}, {later}"
                        );
                    }
                }
            }
        }
    }
}
