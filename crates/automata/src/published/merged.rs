//! The automaton of proper token sequences: the result of DirectMerge, as data and as a constraint.
//!
//! All edges are in two flat arrays, the edges of a state together and in ascending order of tokens. A text has one
//! proper sequence and many spellings, so a state has few edges; a dense row for each state, as in the automaton over
//! bytes, would be as wide as the vocabulary.

use std::fmt;

use unskew_core::TokenId;

use super::{edges::constraint_by_edges, sparse::Sparse};
use crate::StateId;

/// A minimal deterministic automaton over tokens, built by [`direct_merge`](Self::direct_merge): it accepts the token
/// sequences that a byte-pair tokenizer writes for the texts of a regular language, and no other spellings of the
/// texts.
///
/// # Invariants
///
/// - Every state is reachable from the start, and every state can reach an accepting state.
/// - It is in canonical form: minimal, states numbered breadth-first from the start (edges in ascending order of
///   tokens). Two of them over equally many ids are equal (`==`) exactly when they accept the same sequences.
///
/// # Example
///
/// See [`direct_merge`](Self::direct_merge).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MergedDfa {
    vocab_len: usize,
    /// By state. The start is state 0.
    accepting: Vec<bool>,
    /// `edges[offsets[s]..offsets[s + 1]]` leave state `s`, in ascending order of tokens, without duplicates.
    offsets: Vec<u32>,
    edges: Vec<(TokenId, StateId)>,
}

impl MergedDfa {
    /// The automaton of a canonical form.
    pub(crate) fn from_canonical(automaton: Sparse, vocab_len: usize) -> Self {
        let mut offsets = vec![0];
        let mut edges = Vec::with_capacity(automaton.edges.iter().map(Vec::len).sum());
        for out in automaton.edges {
            edges.extend(out.into_iter().map(|(token, target)| (token, StateId(target))));
            offsets.push(u32::try_from(edges.len()).expect("limits keep edges below 2^32"));
        }
        Self { vocab_len, accepting: automaton.accepting, offsets, edges }
    }

    /// The state before the first token.
    pub fn start(&self) -> StateId {
        StateId(0)
    }

    /// The state after `token`, or `None` if no accepted sequence continues with it. O(log k) for k edges.
    ///
    /// # Panics
    ///
    /// If the automaton has no such state. The other methods that take a state also panic.
    #[inline]
    pub fn step(&self, state: StateId, token: TokenId) -> Option<StateId> {
        let edges = self.slice(state);
        edges.binary_search_by_key(&token, |(token, _)| *token).ok().map(|at| edges[at].1)
    }

    /// Whether the sequence may end here.
    #[inline]
    pub fn is_accepting(&self, state: StateId) -> bool {
        self.accepting[state.index()]
    }

    /// Whether the whole sequence is accepted.
    pub fn accepts(&self, tokens: &[TokenId]) -> bool {
        let end = tokens.iter().try_fold(self.start(), |state, token| self.step(state, *token));
        end.is_some_and(|state| self.is_accepting(state))
    }

    /// The edges of `state`, in ascending order of tokens.
    pub fn edges(&self, state: StateId) -> impl ExactSizeIterator<Item = (TokenId, StateId)> {
        self.slice(state).iter().copied()
    }

    /// The only token that is allowed, unless the sequence may end: the model need not be asked for it. O(1).
    pub fn forced_token(&self, state: StateId) -> Option<TokenId> {
        match self.slice(state) {
            [(token, _)] if !self.is_accepting(state) => Some(*token),
            _ => None,
        }
    }

    /// The number of states: at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is always a state")]
    pub fn len(&self) -> usize {
        self.accepting.len()
    }

    /// The number of edges.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Every state, in ascending order.
    pub fn states(&self) -> impl DoubleEndedIterator<Item = StateId> + use<> {
        (0..self.len()).map(StateId::from_index)
    }

    /// The memory of the tables, in bytes. The struct itself is not counted.
    pub fn memory_usage(&self) -> usize {
        self.accepting.len() + size_of_val(&self.offsets[..]) + size_of_val(&self.edges[..])
    }

    fn slice(&self, state: StateId) -> &[(TokenId, StateId)] {
        &self.edges[self.offsets[state.index()] as usize..self.offsets[state.index() + 1] as usize]
    }
}

constraint_by_edges!(MergedDfa, |automaton| automaton.vocab_len);

impl fmt::Debug for MergedDfa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergedDfa")
            .field("states", &self.len())
            .field("edges", &self.edge_count())
            .finish_non_exhaustive()
    }
}
