//! Automata over tokens while they are built: a list of edges for each state, deterministic or not.
//!
//! Over bytes the stages pass on a dense [`Table`](crate::dfa::table::Table). A row for each of 100,000 tokens would
//! take half a megabyte for a state with three edges, so over tokens the edges are lists. This file repeats the dense
//! stages for lists: trimming, the subset construction, minimisation (with the partition of
//! [`minimize`](crate::dfa::minimize)) and the canonical numbering.

use std::collections::HashMap;

use unskew_core::TokenId;

use super::{PublishedError, PublishedLimits};
use crate::{StateId, dfa::minimize::Partition};

/// A partial automaton over tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sparse {
    pub(crate) start: u32,
    /// One for each state.
    pub(crate) accepting: Vec<bool>,
    /// By state: its edges, in any order.
    pub(crate) edges: Vec<Vec<(TokenId, u32)>>,
}

impl Sparse {
    pub(crate) fn len(&self) -> usize {
        self.accepting.len()
    }

    /// The automaton without the states that are unreachable or cannot reach acceptance. `None` if the start is one
    /// of them. Time and memory O(m) for m edges.
    pub(crate) fn trimmed(self) -> Option<Self> {
        let mut sources: Vec<Vec<u32>> = vec![vec![]; self.len()];
        let mut reached = vec![false; self.len()];
        reached[self.start as usize] = true;
        let mut found = vec![self.start];
        while let Some(state) = found.pop() {
            for (_, target) in &self.edges[state as usize] {
                sources[*target as usize].push(state);
                if !std::mem::replace(&mut reached[*target as usize], true) {
                    found.push(*target);
                }
            }
        }
        let mut kept: Vec<bool> =
            self.accepting.iter().zip(&reached).map(|(accepting, reached)| *accepting && *reached).collect();
        found.extend((0..).zip(&kept).filter(|(_, kept)| **kept).map(|(state, _): (u32, _)| state));
        while let Some(state) = found.pop() {
            for source in &sources[state as usize] {
                if !std::mem::replace(&mut kept[*source as usize], true) {
                    found.push(*source);
                }
            }
        }
        kept[self.start as usize].then(|| self.kept(&kept))
    }

    fn kept(self, kept: &[bool]) -> Self {
        let mut count = 0;
        let new_ids: Vec<u32> = kept
            .iter()
            .map(|kept| {
                count += u32::from(*kept);
                count.wrapping_sub(1)
            })
            .collect();
        let states = self.accepting.iter().zip(self.edges).zip(kept).filter(|(_, kept)| **kept);
        let (accepting, edges) = states
            .map(|((accepting, edges), _)| {
                let inside = edges.into_iter().filter(|(_, target)| kept[*target as usize]);
                let renamed = inside.map(|(token, target)| (token, new_ids[target as usize]));
                (*accepting, renamed.collect())
            })
            .unzip();
        Self { start: new_ids[self.start as usize], accepting, edges }
    }

    /// An equivalent automaton in which no state has two edges of one token: `self`, or the subset construction.
    ///
    /// # Errors
    ///
    /// The limits for merging, which report `rank`.
    pub(crate) fn determinized(
        mut self,
        limits: &PublishedLimits,
        rank: usize,
    ) -> Result<Self, PublishedError> {
        let mut deterministic = true;
        for edges in &mut self.edges {
            edges.sort_unstable();
            edges.dedup();
            deterministic &= edges.windows(2).all(|pair| pair[0].0 != pair[1].0);
        }
        if deterministic {
            return Ok(self);
        }
        let mut small = Self { start: 0, accepting: vec![], edges: vec![] };
        let mut sets: Vec<Vec<u32>> = vec![vec![self.start]];
        let mut numbers = HashMap::from([(vec![self.start], 0)]);
        let (mut edge_count, mut steps) = (0, 0);
        while let Some(set) = sets.get(small.len()).cloned() {
            let mut out: Vec<(TokenId, u32)> =
                set.iter().flat_map(|state| &self.edges[*state as usize]).copied().collect();
            steps += out.len() as u64 + 1;
            out.sort_unstable();
            out.dedup();
            let mut edges = Vec::new();
            for group in out.chunk_by(|left, right| left.0 == right.0) {
                let target: Vec<u32> = group.iter().map(|(_, target)| *target).collect();
                let next = StateId::from_index(sets.len()).0;
                let number = *numbers.entry(target).or_insert_with_key(|target| {
                    sets.push(target.clone());
                    next
                });
                edges.push((group[0].0, number));
            }
            edge_count += edges.len();
            small.accepting.push(set.iter().any(|state| self.accepting[*state as usize]));
            small.edges.push(edges);
            limits.check_cancelled()?;
            if sets.len() > limits.merge_states {
                return Err(PublishedError::TooManyMergedStates { limit: limits.merge_states, rank });
            }
            if edge_count > limits.merge_edges {
                return Err(PublishedError::TooManyMergedEdges { limit: limits.merge_edges, rank });
            }
            if steps > limits.merge_steps {
                return Err(PublishedError::MergeTooCostly { limit: limits.merge_steps, rank });
            }
        }
        Ok(small)
    }

    /// The minimal automaton of the same language. `self` must be deterministic and trimmed. Hopcroft's refinement,
    /// as in [`minimize`](crate::dfa::minimize); time O(m log n log m) for n states and m edges.
    pub(crate) fn minimized(self) -> Self {
        let mut inverse: Vec<Vec<(TokenId, u32)>> = vec![vec![]; self.len()];
        for (source, edges) in (0u32..).zip(&self.edges) {
            for (token, target) in edges {
                inverse[*target as usize].push((*token, source));
            }
        }
        let mut blocks = Partition::new(self.len());
        for (state, _) in self.accepting.iter().enumerate().filter(|(_, accepting)| **accepting) {
            blocks.mark(StateId::from_index(state));
        }
        blocks.split_marked(|_, _| {});
        let mut due: Vec<usize> = (0..blocks.count()).collect();
        let mut sources = Vec::new();
        while let Some(splitter) = due.pop() {
            sources.clear();
            for member in blocks.members(splitter) {
                sources.extend_from_slice(&inverse[member.index()]);
            }
            sources.sort_unstable();
            for group in sources.chunk_by(|left, right| left.0 == right.0) {
                for (_, source) in group {
                    blocks.mark(StateId(*source));
                }
                blocks.split_marked(|_, smaller| due.push(smaller));
            }
        }
        if blocks.count() == self.len() {
            return self;
        }
        let of = |state: u32| blocks.of[state as usize];
        let (accepting, edges) = (0..blocks.count())
            .map(|block| {
                let one = blocks.members(block)[0].index();
                let edges = self.edges[one].iter().map(|(token, target)| (*token, of(*target)));
                (self.accepting[one], edges.collect())
            })
            .unzip();
        Self { start: of(self.start), accepting, edges }
    }

    /// The same automaton with its states numbered breadth-first from the start, which is 0, and its edges in ascending
    /// order of tokens. Two minimal trimmed automata have the same canonical form exactly when they accept the same
    /// sequences.
    pub(crate) fn canonical(mut self) -> Self {
        let mut new_ids: Vec<Option<u32>> = vec![None; self.len()];
        new_ids[self.start as usize] = Some(0);
        let mut order = vec![self.start];
        let mut at = 0;
        while let Some(state) = order.get(at).copied() {
            at += 1;
            let edges = &mut self.edges[state as usize];
            edges.sort_unstable();
            for (_, target) in edges {
                let next = StateId::from_index(order.len()).0;
                *target = *new_ids[*target as usize].get_or_insert_with(|| {
                    order.push(*target);
                    next
                });
            }
        }
        let accepting = order.iter().map(|state| self.accepting[*state as usize]).collect();
        let edges = order.iter().map(|state| std::mem::take(&mut self.edges[*state as usize])).collect();
        Self { start: 0, accepting, edges }
    }
}
