//! Whether a position is live: the part of the lazy engine that reads bytes ([`super::lazy_product`] reads tokens).
//!
//! Precomputed facts decide most positions. A breadth-first search decides the others and stops at the first
//! position that is certainly live. Where the next safe state of the constraint is far, as before `</think>`, the
//! positions that are nearest to one come first: a search in all directions meets thousands of positions for each
//! byte. Tried instead: a depth-first search. It follows a run of blanks to the end of its counter where a letter
//! would succeed.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use rustc_hash::FxHashSet as Set;
use unskew_trie::ByteSet;

use super::{language::LazyDfa, lazy_product::Query, position::Position};
use crate::{Dfa, StateId};

impl<L: LazyDfa> Query<'_, L> {
    /// Whether precomputed facts show that `at` is live.
    #[inline]
    fn is_certain(&self, at: Position) -> bool {
        self.liveness.universal[at.split]
            && self.liveness.holds(self.automata.language.safety(at.regex), at.text)
            || self.automata.is_accepting(at)
    }

    /// Whether an accepted text continues from `at`: a search that ends at the first position that is certainly live.
    pub(crate) fn is_live(&mut self, at: Position) -> bool {
        if self.is_certain(at) {
            return true;
        }
        if let Some(known) = self.memo.live.get(&at) {
            return *known;
        }
        // The answer is not used.
        if self.memo.is_beyond {
            return false;
        }
        if self.is_live_by_lookahead1(at) || self.is_live_by_lookahead2(at) {
            self.memo.live.insert(at, true, 0);
            return true;
        }
        let mut targets: Vec<Position> = Vec::new();
        self.product.targets(self.context, at, &mut targets);
        if targets.is_empty() {
            self.memo.live.insert(at, false, 0);
            return false;
        }
        // The visited positions, each with the index of its predecessor.
        let mut met: Vec<(Position, usize)> = vec![(at, 0)];
        let mut seen: Set<Position> = Set::from_iter([at]);
        // Distances and indices: of equal distances the position that was met first.
        let mut open: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
        let mut on = 0;
        loop {
            for target in targets.iter().copied() {
                let known = self.memo.live.get(&target).copied();
                if known == Some(true) || self.is_certain(target) {
                    // All positions on the path are live. Nothing is known of the others.
                    loop {
                        self.memo.live.insert(met[on].0, true, 0);
                        if on == 0 {
                            return true;
                        }
                        on = met[on].1;
                    }
                }
                if known.is_none() && seen.insert(target) {
                    open.push(Reverse((self.automata.language.distance(target.regex), met.len())));
                    met.push((target, on));
                }
            }
            if met.len() > self.automata.language.most_positions() {
                self.memo.is_beyond = true;
                return false;
            }
            let Some(Reverse((_, next))) = open.pop() else { break };
            on = next;
            self.product.targets(self.context, met[on].0, &mut targets);
        }
        met.into_iter().for_each(|(dead, _)| self.memo.live.insert(dead, false, 0));
        false
    }

    /// Whether a byte leads from `at` to a position that is certainly live, directly or after a boundary.
    fn is_live_by_lookahead1(&self, at: Position) -> bool {
        let liveness = self.liveness;
        let live = self.live_bytes(at.regex);
        liveness.live_next[at.split].meets(&live) || liveness.live_after_boundary[at.split].meets(&live)
    }

    /// Whether one byte, directly or after a boundary, leads from `at` to a state from which another leads to a
    /// position that is certainly live. This is the case after two blanks.
    fn is_live_by_lookahead2(&mut self, at: Position) -> bool {
        let liveness = self.liveness;
        let read = self.read_bytes(at.regex);
        liveness.lookahead2[at.split].iter().filter(|(byte, _)| read.contains(*byte)).any(|(byte, after)| {
            let next = self.automata.language.step(at.regex, *byte);
            next.is_some_and(|next| liveness.live_next[*after].meets(&self.live_bytes(next)))
        })
    }

    /// The ASCII bytes after which a state of the DFA is certainly live.
    #[inline]
    pub(crate) fn live_bytes(&self, state: StateId) -> ByteSet {
        self.automata.language.live(state)
    }

    /// The bytes that the DFA reads from a state.
    #[inline]
    pub(crate) fn read_bytes(&self, state: StateId) -> ByteSet {
        self.automata.language.read(state)
    }

    /// Whether the piece may end in `at`: the text ends, another piece begins, or an added token follows.
    pub(crate) fn is_boundary(&mut self, at: Position) -> bool {
        let live_after_boundary = &self.liveness.live_after_boundary[at.split];
        if self.automata.is_accepting(at) || live_after_boundary.meets(&self.live_bytes(at.regex)) {
            return true;
        }
        let mark = self.automata.mark(at);
        let has_added = !self.tokenizer().added.is_empty() || self.automata.language.has_ids();
        if mark.is_none() && !(has_added && self.automata.may_end(at)) {
            return false;
        }
        if mark.is_some_and(|mark| self.is_certain(mark)) {
            return true;
        }
        if let Some(known) = self.memo.boundary.get(&at) {
            return *known;
        }
        let added: Vec<Position> = self.automata.added(at).map(|(_, after)| after).collect();
        let is_boundary = mark.into_iter().chain(added).any(|after| self.is_live(after));
        self.memo.boundary.insert(at, is_boundary, 0);
        is_boundary
    }
}

/// By state of `dfa`: the number of bytes to the next state for which `is_target` holds.
pub(crate) fn distances(dfa: &Dfa, is_target: impl Fn(StateId) -> bool) -> Vec<u32> {
    let mut sources: Vec<Vec<StateId>> = vec![Vec::new(); dfa.len()];
    for state in dfa.states() {
        dfa.edges(state).for_each(|edge| sources[edge.target.index()].push(state));
    }
    let mut distance = vec![u32::MAX; dfa.len()];
    let mut open: VecDeque<StateId> = dfa.states().filter(|state| is_target(*state)).collect();
    open.iter().for_each(|state| distance[state.index()] = 0);
    while let Some(state) = open.pop_front() {
        for source in &sources[state.index()] {
            if distance[source.index()] == u32::MAX {
                distance[source.index()] = distance[state.index()] + 1;
                open.push_back(*source);
            }
        }
    }
    distance
}
