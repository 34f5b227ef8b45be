//! States that are found one after another from a start, numbered once each, with the edges between them.
//!
//! A product of automata, a set of positions, a count: a construction knows a start and a step, and not how many states
//! there will be. [`Explored`] is its work list, its map from states to numbers and its edges in one. The caller asks
//! for the next state until there is none and adds the edges that leave it, so that limits, errors and the labels of
//! edges stay the caller's.
//!
//! Tried instead: a function that takes the step as a closure. Most steps fail in a way of their own and count work on
//! the way, and some skip edges; each of these was another closure. The subset construction and the product of two
//! automata have maps of their own: with these sets they take a tenth longer.

use std::{hash::Hash, ops::RangeInclusive};

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::{Cuts, Dfa, DfaBuilder};
use crate::{Limits, RegexError};

/// Things that are numbered in the order in which they are found.
pub(crate) type Numbered<K> = IndexSet<K, FxBuildHasher>;

/// States under exploration, numbered from zero in the order in which they were found.
///
/// # Example
///
/// ```
/// use unskew_automata::{dfa::Explored, Limits};
///
/// // Numbers of at most three digits whose digits have an even sum.
/// let mut found = Explored::new((0, 0));
/// while let Some((digits, sum)) = found.next_state() {
///     for digit in (0..10u8).filter(|_| digits < 3) {
///         found.edge(b'0' + digit..=b'0' + digit, (digits + 1, (sum + digit) % 2));
///     }
/// }
/// let dfa = found.graph().automaton(|state| found.state(state).1 == 0, &Limits::default())?;
/// assert!(dfa.accepts(b"112") && !dfa.accepts(b"111") && !dfa.accepts(b"1111"));
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Explored<K, L = RangeInclusive<u8>> {
    states: Numbered<K>,
    graph: Graph<L>,
}

/// By state: its edges, in the order in which they were added, with the states that they lead to.
#[derive(Clone, Debug)]
pub struct Graph<L = RangeInclusive<u8>>(Vec<Vec<(L, u32)>>);

impl<L> Default for Graph<L> {
    /// No state.
    fn default() -> Self {
        Self(vec![])
    }
}

impl<K: Clone + Eq + Hash, L> Explored<K, L> {
    /// The state `start` alone.
    pub fn new(start: K) -> Self {
        Self { states: Numbered::from_iter([start]), graph: Graph::default() }
    }

    /// The first state that was not asked for yet.
    pub fn next_state(&mut self) -> Option<K> {
        let next = self.states.get_index(self.graph.0.len())?.clone();
        self.graph.0.push(vec![]);
        Some(next)
    }

    /// Adds an edge from the state that was asked for last.
    ///
    /// # Panics
    ///
    /// If no state was asked for, or there are more than 2^32.
    pub fn edge(&mut self, label: L, to: K) {
        let to = u32::try_from(self.states.insert_full(to).0).expect("limited");
        self.graph.0.last_mut().expect("a state was asked for").push((label, to));
    }

    /// The state with this number.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn state(&self, number: usize) -> &K {
        &self.states[number]
    }

    /// The number of states so far.
    #[allow(clippy::len_without_is_empty, reason = "there is always a start")]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// The edges of the states that were asked for.
    pub fn graph(&self) -> &Graph<L> {
        &self.graph
    }

    /// The edges alone.
    pub fn into_graph(self) -> Graph<L> {
        self.graph
    }
}

impl<L> Graph<L> {
    /// The edges of each state.
    pub fn edges(&self) -> &[Vec<(L, u32)>] {
        &self.0
    }
}

impl Graph {
    /// The automaton that starts in the first state and accepts in those for which `accepts` holds.
    ///
    /// # Errors
    ///
    /// As [`DfaBuilder::build`].
    ///
    /// # Panics
    ///
    /// If an edge leads to a state that was not asked for.
    pub fn automaton(&self, accepts: impl Fn(usize) -> bool, limits: &Limits) -> Result<Dfa, RegexError> {
        let mut made = DfaBuilder::new(limits);
        for state in 0..self.0.len() {
            made.state(accepts(state))?;
        }
        for (from, edges) in (0..).zip(&self.0) {
            edges.iter().for_each(|(bytes, to)| made.edge(from, bytes.clone(), *to));
        }
        made.build()
    }
}

impl Dfa {
    /// The automaton of the states that `step` leads to from `start`, which takes the same step over all bytes of each
    /// of `ranges`.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing), or a limit.
    pub fn explored<K: Clone + Eq + Hash>(
        ranges: &[RangeInclusive<u8>],
        start: K,
        step: impl Fn(&K, u8) -> Option<K>,
        accepts: impl Fn(&K) -> bool,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        let mut found = Explored::new(start);
        while let Some(state) = found.next_state() {
            limits.spend(ranges.len() as u64)?;
            for range in ranges {
                if let Some(next) = step(&state, *range.start()) {
                    found.edge(range.clone(), next);
                }
            }
            if found.len() > limits.dfa_states {
                return Err(RegexError::TooManyDfaStates { limit: limits.dfa_states });
            }
        }
        found.graph.automaton(|state| accepts(found.state(state)), limits)
    }
}

/// Ranges of bytes that none of `dfas` tells apart, in ascending order: all bytes are in one.
pub fn strata<'d>(dfas: impl IntoIterator<Item = &'d Dfa>) -> Vec<RangeInclusive<u8>> {
    let mut cuts = Cuts::default();
    dfas.into_iter().for_each(|dfa| cuts.classes(dfa.classes()));
    cuts.ranges()
}
