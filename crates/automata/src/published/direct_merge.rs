//! DirectMerge: from a DFA over bytes to the automaton of exactly the proper token sequences, merge by merge.
//!
//! An automaton that is read through all tokens accepts every spelling of a text, and the tokenizer writes only one,
//! the *proper* one. The other spellings have three costs. They skew the distribution of the model: a short token
//! that begins a possible output is drawn because it is common, not because the rest of the output is likely. They
//! show the model sequences on which it was never trained. And they hide tokens that are forced. For two names and
//! the vocabulary of `tests/integration/direct_merge.rs`, all spellings are:
//!
//! ```text
#![doc = include_str!("../../docs/two-names-lifted.txt")]
//! ```
//!
//! and the proper sequences are:
//!
//! ```text
#![doc = include_str!("../../docs/two-names-merged.txt")]
//! ```
//!
//! Under a model whose short tokens are common words (the one of `tests/integration/canonical.rs` in the crate
//! `unskew-samplers`), masked decoding draws the first name with these probabilities:
//!
//! ```text
#![doc = include_str!("../../docs/two-names-distribution.txt")]
//! ```
//!
//! The method is V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex Constraints* (2024), sections "Ensuring
//! Both Compliance and Proper Tokenization" and, in the appendix, Algorithm 1 (merges of two different tokens) and
//! Algorithm 2 (of a token with itself). It assumes that the tokenizer applies each merge once, in order of rank, as
//! one pass from left to right in which pairs do not overlap. The published figures for two names count the ends of
//! the names separately; a minimal automaton shares them (a test asserts all figures):
//!
//! | automaton | states as published | states here | edges |
//! |---|--:|--:|--:|
//! | all spellings | 17 | 16 | 48 |
//! | proper sequences | 5 | 4 | 4 |
//!
//! The implementation is more general than the publication in two points:
//! - **Several edges of one token.** If merges share a result, or bytes a symbol, a state may get two edges of one
//!   token. Both algorithms hold for such automata too: they depend only on the tokens before and after a state, and
//!   the parity of a run of one token depends on the tokens alone. So no table is refused, and the subset
//!   construction at the end makes the result deterministic. Over tables whose tokens spell their merges, it changed
//!   nothing in any of 30,000 random cases.
//! - **A result that is one of the two tokens** (`a b -> a`) has a label of its own until its pass ends.
//!
//! Edges are found by token: each token knows the states that it leaves and enters. A merge of tokens that are on no
//! edge costs two look-ups: GPT-2's 50,000 merges over two names take 0.2 ms.
//!
//! Tried instead of the intermediate steps of Algorithm 2 (double every state, redirect, then apply Algorithm 1 to
//! the doubles): its result is built directly, since all edges into the doubles have the same token.

use std::collections::BTreeSet;

use unskew_core::{Merge, MergeTable, TokenId, Vocabulary};

use super::{MergedDfa, PublishedError, PublishedLimits, sparse::Sparse};
use crate::{Dfa, StateId};

/// The token of each byte before the first merge.
///
/// # Example
///
/// ```
/// use unskew_automata::published::InitialTokens;
/// use unskew_core::{TokenId, Vocabulary};
///
/// let mut builder = Vocabulary::builder();
/// for text in ["ab", "b", "a", "b"] {
///     builder.text(text.as_bytes());
/// }
/// let symbols = InitialTokens::from_vocabulary(&builder.build()?);
/// assert_eq!(symbols.get(b'b'), Some(TokenId(1)));
/// assert_eq!(symbols.get(b'c'), None);
/// assert_eq!(InitialTokens::new([(b'b', TokenId(3))]).get(b'b'), Some(TokenId(3)));
/// # Ok::<(), unskew_core::VocabularyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitialTokens {
    of: Box<[Option<TokenId>; 256]>,
}

impl InitialTokens {
    /// The map of these symbols. If a byte has several, the last one counts.
    pub fn new(symbols: impl IntoIterator<Item = (u8, TokenId)>) -> Self {
        let mut of = Box::new([None; 256]);
        for (byte, token) in symbols {
            of[usize::from(byte)] = Some(token);
        }
        Self { of }
    }

    /// For each byte the text token that spells it alone. If there are several, the one with the smallest id.
    ///
    /// This is right for byte-level models, in which each of these tokens is unique. If several ids spell the same
    /// byte, only the tokenizer knows which of them is the symbol; then use [`new`](Self::new).
    pub fn from_vocabulary(vocabulary: &Vocabulary) -> Self {
        let mut single: Vec<(u8, TokenId)> = vocabulary
            .text_tokens()
            .filter_map(|(token, text)| match text {
                [byte] => Some((*byte, token)),
                _ => None,
            })
            .collect();
        single.reverse();
        Self::new(single)
    }

    /// The symbol of `byte`.
    #[inline]
    pub fn get(&self, byte: u8) -> Option<TokenId> {
        self.of[usize::from(byte)]
    }
}

impl MergedDfa {
    /// The automaton that accepts exactly `tokenise(w)` for all texts `w` of `dfa`, where the tokenizer spells `w`
    /// with `symbols` and then applies each of `merges` once, in order of rank, as one pass from left to right.
    ///
    /// - **One piece.** Tokenizers split a text into pieces before they merge, and merges never cross pieces. Here
    ///   the whole text is one piece: this is right for texts that the split pattern does not split, such as one word
    ///   with the space before it, and for tokenizers without a split pattern.
    /// - **One pass per merge.** An encoder that always applies the remaining merge of lowest rank gives the same
    ///   result for every table that training can produce: in such a table, all merges that consume a token come
    ///   after the merge that produces it. Over a shuffled table the two may differ, and this is the one-pass
    ///   tokenizer.
    /// - Texts with a byte that has no symbol are left out.
    ///
    /// # Cost
    ///
    /// O(r) for a table of r merges, and for each merge the edges that it touches. A merge may double the states
    /// between its two tokens: this is little for names, dates and records, and much for `[a-z]*`, to which thousands
    /// of merges apply. [`PublishedLimits::merge_states`], [`PublishedLimits::merge_edges`] and
    /// [`PublishedLimits::merge_steps`] bound it.
    ///
    /// # Errors
    ///
    /// - [`PublishedError::Unspellable`] if `symbols` spell no text of `dfa`.
    /// - [`PublishedError::ForeignToken`] if a used symbol or merge has a token that `vocabulary` does not have.
    /// - [`PublishedError::TooManyMergedStates`], [`PublishedError::TooManyMergedEdges`],
    ///   [`PublishedError::MergeTooCostly`].
    ///
    /// # Source
    ///
    /// V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex Constraints* (2024), appendix, Algorithms 1 and 2.
    ///
    /// # Example
    ///
    /// ```
    /// use unskew_automata::{Dfa, Limits, published::{InitialTokens, MergedDfa, PublishedLimits}};
    /// use unskew_core::{Merge, MergeTable, TokenId, Vocabulary};
    ///
    /// let mut builder = Vocabulary::builder();
    /// let [a, b, aa, ab] = ["a", "b", "aa", "ab"].map(|text| builder.text(text.as_bytes()));
    /// let vocabulary = builder.build()?;
    /// let merges = MergeTable::new(vec![
    ///     Merge { left: a, right: a, result: aa },
    ///     Merge { left: a, right: b, result: ab },
    /// ])?;
    /// let dfa = Dfa::from_pattern("a*b", &Limits::default())?;
    /// let limits = PublishedLimits::default();
    /// let symbols = InitialTokens::from_vocabulary(&vocabulary);
    /// let proper = MergedDfa::direct_merge(&dfa, &vocabulary, &symbols, &merges, &limits)?;
    ///
    /// assert!(proper.accepts(&[aa, b])); // aab
    /// assert!(proper.accepts(&[aa, ab])); // aaab
    /// assert!(!proper.accepts(&[a, ab])); // spells aab too, but the tokenizer does not write it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn direct_merge(
        dfa: &Dfa,
        vocabulary: &Vocabulary,
        symbols: &InitialTokens,
        merges: &MergeTable,
        limits: &PublishedLimits,
    ) -> Result<Self, PublishedError> {
        let vocab_len = vocabulary.len();
        let automaton = Sparse {
            start: dfa.start().0,
            accepting: dfa.states().map(|state| dfa.is_accepting(state)).collect(),
            edges: dfa.states().map(|state| symbol_edges(dfa, symbols, state)).collect(),
        };
        let merged = merge_all(automaton, merges.merges(), vocab_len, limits)?.ok_or_else(|| {
            let missing = dfa.bytes().filter(|byte| symbols.get(*byte).is_none()).collect();
            PublishedError::Unspellable { missing }
        })?;
        let smallest = merged.determinized(limits, merges.len())?.minimized();
        Ok(Self::from_canonical(smallest.canonical(), vocab_len))
    }
}

fn symbol_edges(dfa: &Dfa, symbols: &InitialTokens, state: StateId) -> Vec<(TokenId, u32)> {
    let bytes = dfa.edges(state).flat_map(|edge| edge.bytes.map(move |byte| (byte, edge.target.0)));
    bytes.filter_map(|(byte, target)| Some((symbols.get(byte)?, target))).collect()
}

/// The automaton after all merges, trimmed but neither deterministic nor minimal; `None` if it accepts nothing.
fn merge_all(
    automaton: Sparse,
    merges: &[Merge],
    vocab_len: usize,
    limits: &PublishedLimits,
) -> Result<Option<Sparse>, PublishedError> {
    let Some(automaton) = automaton.trimmed() else { return Ok(None) };
    let mut graph = Graph::new(&automaton, vocab_len, limits)?;
    drop(automaton);
    for (rank, merge) in merges.iter().enumerate() {
        let (Some(left), Some(right)) = (graph.label_in_use(merge.left), graph.label_in_use(merge.right))
        else {
            continue;
        };
        graph.rank = rank;
        let own_name = merge.result == merge.left || merge.result == merge.right;
        let result = if own_name { graph.new_label(merge.result) } else { graph.label(merge.result)? };
        if left == right {
            graph.merge_same(left, result)?;
        } else {
            graph.merge_different(left, right, result)?;
        }
        if own_name {
            let name = graph.label(merge.result)?;
            graph.rename(result, name)?;
        }
    }
    graph.rank = merges.len();
    Ok(graph.into_sparse().trimmed())
}

/// The automaton during the merges: edges by both ends, and states by token. Labels are short numbers of tokens.
struct Graph<'a> {
    limits: &'a PublishedLimits,
    /// The rank of the present merge.
    rank: usize,
    start: u32,
    accepting: Vec<bool>,
    /// By state: labels and targets of the edges that leave it.
    out: Vec<BTreeSet<(u32, u32)>>,
    /// By state: labels and sources of the edges that enter it.
    into: Vec<BTreeSet<(u32, u32)>>,
    /// States without edges, whose numbers can be used again.
    free: Vec<u32>,
    labels: Vec<Label>,
    /// By token: its label plus one, 0 if it has none. The initial zeroes cost no memory until a page is used.
    label_of: Vec<u32>,
    edges: usize,
    steps: u64,
}

struct Label {
    token: TokenId,
    /// The number of edges with this label.
    edges: usize,
    /// A superset of the states that an edge with this label leaves: states that lost their last one remain.
    leaves: Vec<u32>,
    /// A superset of the states that an edge with this label enters: states that lost their last one remain.
    enters: Vec<u32>,
}

impl<'a> Graph<'a> {
    fn new(
        automaton: &Sparse,
        vocab_len: usize,
        limits: &'a PublishedLimits,
    ) -> Result<Self, PublishedError> {
        let mut graph = Self {
            limits,
            rank: 0,
            start: automaton.start,
            accepting: vec![],
            out: vec![],
            into: vec![],
            free: vec![],
            labels: vec![],
            label_of: vec![0; vocab_len],
            edges: 0,
            steps: 0,
        };
        for accepting in &automaton.accepting {
            graph.add_state(*accepting)?;
        }
        for (source, edges) in (0..).zip(&automaton.edges) {
            for (token, target) in edges {
                let label = graph.label(*token)?;
                graph.add(source, label, *target)?;
            }
        }
        Ok(graph)
    }

    fn into_sparse(self) -> Sparse {
        let tokens = |edges: BTreeSet<(u32, u32)>| {
            edges.into_iter().map(|(label, target)| (self.labels[label as usize].token, target)).collect()
        };
        Sparse {
            start: self.start,
            accepting: self.accepting,
            edges: self.out.into_iter().map(tokens).collect(),
        }
    }

    /// The label of `token`, if some edge has it.
    fn label_in_use(&self, token: TokenId) -> Option<u32> {
        let label = self.label_of.get(token.index())?.checked_sub(1)?;
        (self.labels[label as usize].edges > 0).then_some(label)
    }

    /// The label of `token`, which gets one if it has none.
    fn label(&mut self, token: TokenId) -> Result<u32, PublishedError> {
        let vocab_len = self.label_of.len();
        match self.label_of.get(token.index()) {
            None => Err(PublishedError::ForeignToken { token, vocab_len }),
            Some(0) => {
                let label = self.new_label(token);
                self.label_of[token.index()] = label + 1;
                Ok(label)
            }
            Some(label) => Ok(label - 1),
        }
    }

    fn new_label(&mut self, token: TokenId) -> u32 {
        self.labels.push(Label { token, edges: 0, leaves: vec![], enters: vec![] });
        StateId::from_index(self.labels.len() - 1).0
    }

    fn add_state(&mut self, accepting: bool) -> Result<u32, PublishedError> {
        if let Some(state) = self.free.pop() {
            self.accepting[state as usize] = accepting;
            return Ok(state);
        }
        let limit = self.limits.merge_states;
        if self.accepting.len() >= limit {
            return Err(PublishedError::TooManyMergedStates { limit, rank: self.rank });
        }
        self.accepting.push(accepting);
        self.out.push(BTreeSet::new());
        self.into.push(BTreeSet::new());
        Ok(StateId::from_index(self.accepting.len() - 1).0)
    }

    /// Removes a state that is not the start, with all its edges.
    fn remove_state(&mut self, state: u32) {
        for (label, target) in self.out[state as usize].clone() {
            self.remove(state, label, target);
        }
        for (label, source) in self.into[state as usize].clone() {
            self.remove(source, label, state);
        }
        self.accepting[state as usize] = false;
        self.free.push(state);
    }

    fn add(&mut self, source: u32, label: u32, target: u32) -> Result<(), PublishedError> {
        self.spend(1)?;
        let first_out = self.targets(source, label).next().is_none();
        if !self.out[source as usize].insert((label, target)) {
            return Ok(());
        }
        let first_in = self.sources(target, label).next().is_none();
        self.into[target as usize].insert((label, source));
        self.edges += 1;
        let entry = &mut self.labels[label as usize];
        entry.edges += 1;
        if first_out {
            entry.leaves.push(source);
        }
        if first_in {
            entry.enters.push(target);
        }
        let limit = self.limits.merge_edges;
        if self.edges > limit {
            return Err(PublishedError::TooManyMergedEdges { limit, rank: self.rank });
        }
        Ok(())
    }

    fn remove(&mut self, source: u32, label: u32, target: u32) {
        if self.out[source as usize].remove(&(label, target)) {
            self.into[target as usize].remove(&(label, source));
            self.edges -= 1;
            self.labels[label as usize].edges -= 1;
            self.steps += 1;
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), PublishedError> {
        self.limits.check_cancelled()?;
        self.steps += steps as u64;
        let limit = self.limits.merge_steps;
        if self.steps > limit {
            return Err(PublishedError::MergeTooCostly { limit, rank: self.rank });
        }
        Ok(())
    }

    fn targets(&self, state: u32, label: u32) -> impl Iterator<Item = u32> {
        self.out[state as usize].range((label, 0)..=(label, u32::MAX)).map(|(_, target)| *target)
    }

    fn sources(&self, state: u32, label: u32) -> impl Iterator<Item = u32> {
        self.into[state as usize].range((label, 0)..=(label, u32::MAX)).map(|(_, source)| *source)
    }

    /// Criterion 1: whether `state` can be reached by a sequence that does not end in `label`.
    fn is_entered_otherwise(&self, state: u32, label: u32) -> bool {
        state == self.start || has_other(&self.into[state as usize], label)
    }

    /// Criterion 2: whether `state` can be followed by a sequence that does not begin with `label`, possibly empty.
    fn is_left_otherwise(&self, state: u32, label: u32) -> bool {
        self.accepting[state as usize] || has_other(&self.out[state as usize], label)
    }

    /// The states that `left` enters and `right` leaves, in ascending order. O(k) for the shorter of the two lists.
    fn between(&mut self, left: u32, right: u32) -> Result<Vec<u32>, PublishedError> {
        let enters = &self.labels[left as usize].enters;
        let leaves = &self.labels[right as usize].leaves;
        let by_left = enters.len() < leaves.len();
        let list = if by_left { enters } else { leaves };
        let steps = list.len();
        let mut live: Vec<u32> = list
            .iter()
            .copied()
            .filter(|state| match by_left {
                true => self.sources(*state, left).next().is_some(),
                false => self.targets(*state, right).next().is_some(),
            })
            .collect();
        live.sort_unstable();
        live.dedup();
        let both = live
            .iter()
            .copied()
            .filter(|state| {
                self.sources(*state, left).next().is_some() && self.targets(*state, right).next().is_some()
            })
            .collect();
        if by_left {
            self.labels[left as usize].enters = live;
        } else {
            self.labels[right as usize].leaves = live;
        }
        self.spend(steps)?;
        Ok(both)
    }

    /// Algorithm 1: `left right -> result` for two different tokens. Pairs cannot overlap, so each state between them
    /// is independent. Conceptually it is split into three parts: one that `left` does not enter (it has all edges
    /// out), one that `left` enters and `right` does not leave, and one in the middle of pairs, which becomes edges.
    fn merge_different(&mut self, left: u32, right: u32, result: u32) -> Result<(), PublishedError> {
        for state in self.between(left, right)? {
            let sources: Vec<u32> = self.sources(state, left).collect();
            let targets: Vec<u32> = self.targets(state, right).collect();
            for source in &sources {
                for target in &targets {
                    self.add(*source, result, *target)?;
                }
            }
            let entered = self.is_entered_otherwise(state, left);
            let left_otherwise = self.is_left_otherwise(state, right);
            match (entered, left_otherwise) {
                (false, false) => self.remove_state(state),
                (false, true) => targets.iter().for_each(|target| self.remove(state, right, *target)),
                (true, false) => sources.iter().for_each(|source| self.remove(*source, left, state)),
                (true, true) => {
                    let other = self.add_state(self.accepting[state as usize])?;
                    // This comes before edges are copied, so that a loop of `left` becomes an edge from each part
                    // into the second.
                    for source in &sources {
                        self.remove(*source, left, state);
                        self.add(*source, left, other)?;
                    }
                    for (label, target) in self.out[state as usize].clone() {
                        if label != right {
                            self.add(other, label, target)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Algorithm 2: `token token -> result`. In a run of tokens, pairs form from the left, so the parity of the
    /// number of tokens before a state matters. States inside runs are doubled: the given state is the even one. An
    /// edge from even to odd and one from odd to even make a pair. A single token remains only at the end of a run,
    /// that is, at an odd state that has other edges or accepts.
    fn merge_same(&mut self, token: u32, result: u32) -> Result<(), PublishedError> {
        let inside = self.between(token, token)?;
        let position = |state: u32| inside.binary_search(&state).ok();
        let targets: Vec<Vec<u32>> =
            inside.iter().map(|state| self.targets(*state, token).collect()).collect();
        let sources: Vec<Vec<u32>> =
            inside.iter().map(|state| self.sources(*state, token).collect()).collect();
        self.spend(targets.iter().chain(&sources).map(Vec::len).sum())?;

        // The parities that occur. A run begins outside: a state without an incoming edge of the token has read none.
        let (mut even, mut odd) = (vec![false; inside.len()], vec![false; inside.len()]);
        let mut open = Vec::new();
        for (index, state) in inside.iter().enumerate() {
            if self.is_entered_otherwise(*state, token) {
                even[index] = true;
                open.push((index, true));
            }
            if sources[index].iter().any(|source| position(*source).is_none()) {
                odd[index] = true;
                open.push((index, false));
            }
        }
        while let Some((index, is_even)) = open.pop() {
            self.spend(targets[index].len())?;
            for next in targets[index].iter().filter_map(|target| position(*target)) {
                let reached = if is_even { &mut odd } else { &mut even };
                if !std::mem::replace(&mut reached[next], true) {
                    open.push((next, !is_even));
                }
            }
        }

        // The odd states in which runs end, with the edges that they had before this merge.
        let mut ends = vec![None; inside.len()];
        for (index, state) in inside.iter().enumerate().filter(|(index, _)| odd[*index]) {
            if self.is_left_otherwise(*state, token) {
                let edges = self.out[*state as usize].clone();
                let end = self.add_state(self.accepting[*state as usize])?;
                for (label, target) in edges.into_iter().filter(|(label, _)| *label != token) {
                    self.add(end, label, target)?;
                }
                ends[index] = Some(end);
            }
        }
        for (index, state) in inside.iter().enumerate() {
            for source in &sources[index] {
                self.remove(*source, token, *state);
                if position(*source).is_some_and(|source| !even[source]) {
                    continue;
                }
                if let Some(end) = ends[index] {
                    self.add(*source, token, end)?;
                }
                for target in &targets[index] {
                    self.add(*source, result, *target)?;
                }
            }
        }
        for (index, state) in inside.iter().enumerate() {
            if !even[index] {
                self.remove_state(*state);
            }
        }
        Ok(())
    }

    /// Gives all edges of label `from` the label `to`.
    fn rename(&mut self, from: u32, to: u32) -> Result<(), PublishedError> {
        for state in std::mem::take(&mut self.labels[from as usize].leaves) {
            for target in self.targets(state, from).collect::<Vec<_>>() {
                self.remove(state, from, target);
                self.add(state, to, target)?;
            }
        }
        Ok(())
    }
}

/// Whether an edge in the set has another label.
fn has_other(edges: &BTreeSet<(u32, u32)>, label: u32) -> bool {
    [edges.first(), edges.last()].into_iter().flatten().any(|(other, _)| *other != label)
}

#[cfg(test)]
mod tests;
