//! The tokens that the splitter reads from each of its states, and the states after them: computed once for all
//! constraints.
//!
//! A token set of a constraint is a subset of the tokens that its DFA reads and of the tokens that the splitter
//! reads. The second set does not depend on the constraint. It is needed for few states: some twenty between
//! characters. From the start of a text 92,000 tokens are read, and nearly all of them end in one of five states. So
//! the tokens are grouped by their end state.

use std::{collections::BTreeMap, sync::Arc};

use unskew_core::{TokenId, words_for};
use unskew_trie::ByteSet;

use super::{shared_cache::SharedCache, split_liveness::CharacterMemo, tables::CanonicalIndex};
use crate::{
    canonical::{
        token_set::{is_in, set, unite},
        tokenizer::automaton::Role,
    },
    ids::{CharacterState, Id, SplitState, WholeNode},
};

/// The capacity of the cache, in bytes.
const CACHE_BYTES: usize = 72 << 20;

/// The least size of a group that is stored as a mask. Smaller groups are lists.
const LARGE_GROUP: usize = 128;

/// By splitter state, and by whether a piece begins or continues there: the tokens that are read. Fallback tokens
/// are not included.
#[derive(Debug)]
pub(crate) struct SplitTransitions(SharedCache<(SplitState, bool), Arc<TokenTargets>>);

/// The tokens that are read from a state, in words of a mask.
#[derive(Debug)]
pub(crate) struct TokenTargets {
    /// The tokens that merges create. If a piece begins in the state, also the tokens that are only written as a
    /// whole piece.
    pub(crate) merged: Box<[u32]>,
    /// By token: its end, or [`TokenTarget::NONE`] if it is not in `merged`.
    pub(crate) target: Box<[TokenTarget]>,
    /// The large groups by end state, the largest first. The end states accept.
    pub(crate) groups: Vec<Group>,
    /// The small groups, as lists.
    pub(crate) small: Vec<Group>,
    /// The tokens of all groups, and the tokens that end inside a character that further tokens can complete
    /// ([`SplitLiveness::completes_character`](super::split_liveness::SplitLiveness::completes_character)). A token
    /// that begins a whole-piece sequence is included only if tokens outside that sequence can complete the
    /// character.
    pub(crate) viable: Box<[u32]>,
    /// The results of [`viable_with`](Self::viable_with), by the set of satisfied groups.
    results: SharedCache<u128, Arc<[u32]>>,
}

/// The splitter state after a token, and further facts that are needed together with it. All are packed into one
/// word, since most accesses miss the processor's caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TokenTarget(u32);

impl TokenTarget {
    /// The token is not read.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// State numbers from `STATES - 1` on do not fit. They are stored as unknown.
    const STATES: u32 = (1 << 23) - 1;

    fn new(state: SplitState, returns: bool, last: u8) -> Self {
        Self(state.raw().min(Self::STATES - 1) << 9 | u32::from(returns) << 8 | u32::from(last))
    }

    /// The splitter state after the token, which is read. `None` if the state's number does not fit.
    #[inline]
    pub(crate) fn state(self) -> Option<SplitState> {
        Some(self.0 >> 9).filter(|state| *state < Self::STATES - 1).map(SplitState::of)
    }

    /// Whether the token leads the text DFA from its start state back to its start state.
    #[inline]
    pub(crate) fn returns(self) -> bool {
        self.0 >> 8 & 1 != 0
    }

    /// The last byte of the token.
    #[inline]
    pub(crate) fn last(self) -> u8 {
        self.0 as u8
    }
}

/// The cost of a result without its words, in bytes.
const OVERHEAD: usize = 96;

/// The number of results that are kept for each state.
const RESULTS_KEPT: usize = 32;

/// Tokens that end in one state and within which no added token can end.
#[derive(Debug)]
pub(crate) struct Group {
    /// Words of a mask, or a list if the group is small.
    pub(crate) tokens: Box<[u32]>,
    /// If a constraint can certainly continue with some byte of each of these sets, then every token of the group
    /// leads to a live position. The text continues in another piece, or with a byte that forms a hard bigram with
    /// the token's last byte.
    pub(crate) needs: Vec<ByteSet>,
    /// Alternatively: every token leads to a live position if the constraint can certainly continue with this list
    /// of [`SplitLiveness::lookahead2_lists`](super::split_liveness::SplitLiveness::lookahead2_lists).
    lookahead2: Option<u8>,
}

impl Group {
    /// Whether the group's tokens lead to live positions, for a constraint that can certainly continue with each
    /// byte of `bytes` and with the lists of
    /// [`SplitLiveness::lookahead2_lists`](super::split_liveness::SplitLiveness::lookahead2_lists) in
    /// `lookahead2_lists`, one bit each.
    fn is_satisfied(&self, bytes: &ByteSet, lookahead2_lists: u8) -> bool {
        self.lookahead2.is_some_and(|lookahead2| lookahead2_lists >> lookahead2 & 1 != 0)
            || self.needs.iter().all(|need| !need.and(bytes).is_empty())
    }
}

/// Sets of tokens that some automata never refuse, in words of a mask.
#[derive(Debug)]
pub(crate) struct TokenProperties {
    /// No byte of the token can end an added token.
    pub(crate) without_ends: Box<[u32]>,
    /// The text consists of ordinary characters
    /// ([`SplitLiveness::place`](super::split_liveness::SplitLiveness::place)). Normalisation form C changes nothing
    /// in it or at its beginning, after any text.
    pub(crate) steady: Box<[u32]>,
    /// The token leads the text DFA from its start state back to its start state.
    pub(crate) returns: Box<[u32]>,
    /// By token: the last byte.
    pub(crate) last: Box<[u8]>,
    /// The token is only written as a whole piece, or is the first token of a whole-piece sequence.
    whole_starts: Box<[u32]>,
    /// The tokens of `whole_starts` that are a whole-piece sequence of one token.
    whole_of_one: Box<[u32]>,
}

/// The sets that contain no other one of `sets`. A set that intersects these intersects all.
pub(crate) fn smallest(sets: impl Iterator<Item = ByteSet>) -> Vec<ByteSet> {
    let mut smallest: Vec<ByteSet> = Vec::new();
    for set in sets {
        if !smallest.iter().any(|other| other.and(&set) == *other) {
            smallest.retain(|other| set.and(other) != set);
            smallest.push(set);
        }
    }
    smallest
}

impl TokenProperties {
    pub(crate) fn new(index: &CanonicalIndex) -> Self {
        let CanonicalIndex { automaton: tokenizer, vocabulary, .. } = index;
        let liveness = index.liveness();
        let [mut without_ends, mut steady, mut returns] =
            [(); 3].map(|()| vec![0u32; words_for(vocabulary.len())]);
        let mut last = vec![0; vocabulary.len()];
        let [mut whole_starts, mut whole_of_one] = [(); 2].map(|()| vec![0u32; words_for(vocabulary.len())]);
        tokenizer.only_whole.iter().for_each(|token| set(&mut whole_starts, *token));
        for (token, node) in tokenizer.whole.children(WholeNode::ROOT) {
            if tokenizer.roles[*token as usize] == Role::Merged {
                set(&mut whole_starts, *token);
                if tokenizer.whole.is_complete(*node) {
                    set(&mut whole_of_one, *token);
                }
            }
        }
        let added = &tokenizer.text;
        for (token, text) in vocabulary.text_tokens() {
            last[token.index()] = text.last().copied().unwrap_or_default();
            let after = text.iter().try_fold(added.start(), |state, byte| added.step(state, *byte));
            if after == Some(added.start()) {
                set(&mut returns, token.0);
            }
            if !text.iter().any(|byte| liveness.may_end_added(*byte)) {
                set(&mut without_ends, token.0);
            }
            if liveness.place(text).is_some() {
                set(&mut steady, token.0);
            }
        }
        Self {
            without_ends: without_ends.into(),
            steady: steady.into(),
            returns: returns.into(),
            last: last.into(),
            whole_starts: whole_starts.into(),
            whole_of_one: whole_of_one.into(),
        }
    }

    /// Whether `token` is only written as a whole piece, or is the first token of a whole-piece sequence.
    pub(crate) fn starts_whole(&self, token: u32) -> bool {
        is_in(&self.whole_starts, token)
    }

    /// Whether merges create `token` from a piece that is written as another token.
    fn is_whole_of_one(&self, token: u32) -> bool {
        is_in(&self.whole_of_one, token)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.whole_starts[..]) * 5 + self.last.len()
    }
}

impl TokenTargets {
    fn new(index: &CanonicalIndex, state: SplitState, is_piece_start: bool) -> Self {
        let CanonicalIndex { automaton: tokenizer, vocabulary, trie, .. } = index;
        let (split, liveness, properties) = (&tokenizer.split, index.liveness(), index.properties());
        let mut merged = vec![0u32; words_for(vocabulary.len())];
        // Each token by its end state, and by whether only the end of its piece makes it certainly live.
        let mut by_end: Vec<((SplitState, bool), u32)> = Vec::new();
        let mut target_of = vec![TokenTarget::NONE; vocabulary.len()];
        trie.walk(
            state,
            |state, byte| split.step(state, byte),
            |token, end| {
                let starts_whole = is_piece_start && properties.starts_whole(token.0);
                if starts_whole || tokenizer.is_merged(token.0) {
                    set(&mut merged, token.0);
                    let (returns, last) =
                        (is_in(&properties.returns, token.0), properties.last[token.index()]);
                    target_of[token.index()] = TokenTarget::new(end, returns, last);
                    by_end.push(((end, starts_whole), token.0));
                }
            },
        );
        let text = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut counts: BTreeMap<(SplitState, bool), usize> = BTreeMap::new();
        by_end.iter().for_each(|(end, _)| *counts.entry(*end).or_default() += 1);
        let mut counts: Vec<((SplitState, bool), usize)> =
            counts.into_iter().filter(|((end, _), _)| split.is_accepting(*end)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let large = counts.partition_point(|(_, count)| *count >= LARGE_GROUP);
        let mut lists: Vec<((SplitState, bool), Vec<u32>)> =
            counts.iter().map(|(end, _)| (*end, Vec::new())).collect();
        let mut closed = vec![0u32; merged.len()];
        let mut memo = CharacterMemo::default();
        let index_of: BTreeMap<(SplitState, bool), usize> =
            lists.iter().map(|(end, _)| *end).zip(0..).collect();
        let mut last_bytes = vec![ByteSet::default(); lists.len()];
        for ((end, starts_whole), token) in by_end {
            if liveness.ends_added(text(token)) || starts_whole && properties.is_whole_of_one(token) {
                continue;
            }
            if liveness.places[end] != 0 {
                // After the first token of a whole-piece sequence, only tokens outside that sequence count.
                let node = tokenizer.whole.child(WholeNode::ROOT, token).filter(|_| starts_whole);
                let is_inside = |place: &CharacterState| *place != CharacterState::BETWEEN;
                let place = liveness.place(text(token)).filter(is_inside);
                let place = place.filter(|_| liveness.is_calm_inside);
                let completes_character = place.is_some()
                    && match node {
                        Some(node) => {
                            let leaves = |next: u32| tokenizer.whole.child(node, next).is_none();
                            liveness.completes_character_with(index, &mut memo, (token, end, place), leaves)
                        }
                        None => {
                            !starts_whole && liveness.completes_character(index, &mut memo, token, end, place)
                        }
                    };
                if completes_character {
                    set(&mut closed, token);
                }
            } else if let Some(index) = index_of.get(&(end, starts_whole)) {
                lists[*index].1.push(token);
                text(token).last().into_iter().for_each(|last| last_bytes[*index].insert(*last));
            }
        }
        let hard = &index.bigram_facts().hard;
        let mut groups: Vec<Group> = Vec::new();
        for (((end, starts_whole), tokens), last_bytes) in lists.into_iter().zip(&last_bytes) {
            let (live_after_boundary, live_next) =
                (&liveness.live_after_boundary[end], &liveness.live_next[end]);
            let needs = smallest(last_bytes.iter().map(|last| match starts_whole {
                true => *live_after_boundary,
                false => {
                    let mut need = live_next.and(&hard.hard_after(last));
                    need.union(live_after_boundary);
                    need
                }
            }));
            groups.push(Group { tokens: tokens.into(), needs, lookahead2: liveness.lookahead2_of[end] });
        }
        let small = groups.split_off(large);
        for group in &mut groups {
            let mut words = vec![0u32; merged.len()];
            group.tokens.iter().for_each(|token| set(&mut words, *token));
            group.tokens = words.into();
        }
        let results = SharedCache::new(1, RESULTS_KEPT * (OVERHEAD + size_of_val(&merged[..])));
        let mut viable = closed;
        groups.iter().for_each(|group| unite(&mut viable, &group.tokens));
        small.iter().flat_map(|group| &group.tokens).for_each(|token| set(&mut viable, *token));
        Self {
            merged: merged.into(),
            target: target_of.into(),
            groups,
            small,
            viable: viable.into(),
            results,
        }
    }

    /// The tokens that end between characters and lead to live positions, one bit each, for a constraint that can
    /// certainly continue with each byte of `bytes` and with the lists of
    /// [`SplitLiveness::lookahead2_lists`](super::split_liveness::SplitLiveness::lookahead2_lists) in
    /// `lookahead2_lists`, one bit each.
    pub(crate) fn viable_with(&self, bytes: &ByteSet, lookahead2_lists: u8) -> Arc<[u32]> {
        let is_satisfied = |group: &Group| group.is_satisfied(bytes, lookahead2_lists);
        let all = self.groups.iter().chain(&self.small);
        // The key has 128 bits. The largest groups come first; the tokens of further groups are left to the search.
        let key = all
            .take(128)
            .enumerate()
            .fold(0u128, |key, (index, group)| key | u128::from(is_satisfied(group)) << index);
        if let Some(known) = self.results.get(key) {
            return known;
        }
        let mut words = vec![0u32; self.merged.len()];
        for (index, group) in self
            .groups
            .iter()
            .chain(&self.small)
            .take(128)
            .enumerate()
            .filter(|(index, _)| key >> index & 1 != 0)
        {
            if index < self.groups.len() {
                unite(&mut words, &group.tokens);
            } else {
                group.tokens.iter().for_each(|token| set(&mut words, *token));
            }
        }
        let words: Arc<[u32]> = words.into();
        self.results.keep(key, Arc::clone(&words), OVERHEAD + size_of_val(&words[..]));
        words
    }

    /// The most memory that it takes, in bytes.
    fn bytes(&self) -> usize {
        self.own_bytes() + RESULTS_KEPT * (OVERHEAD + size_of_val(&self.merged[..]))
    }

    fn own_bytes(&self) -> usize {
        let groups = self.groups.iter().chain(&self.small);
        let of = |group: &Group| {
            size_of::<Group>() + size_of_val(&group.tokens[..]) + size_of_val(&group.needs[..])
        };
        size_of::<Self>()
            + size_of_val(&self.merged[..]) * 2
            + size_of_val(&self.target[..])
            + groups.map(of).sum::<usize>()
    }
}

impl SplitTransitions {
    pub(crate) fn new() -> Self {
        Self(SharedCache::new(1, CACHE_BYTES))
    }

    /// The tokens that are read from `state`, cached.
    pub(crate) fn of(
        &self,
        index: &CanonicalIndex,
        state: SplitState,
        is_piece_start: bool,
    ) -> Arc<TokenTargets> {
        let tokenizer = &index.automaton;
        // Without whole pieces, the start of a piece makes no difference.
        let has_whole =
            !tokenizer.only_whole.is_empty() || !tokenizer.whole.children(WholeNode::ROOT).is_empty();
        let key = (state, is_piece_start && has_whole);
        if let Some(targets) = self.0.get(key) {
            return targets;
        }
        let targets = Arc::new(TokenTargets::new(index, key.0, key.1));
        self.0.keep(key, Arc::clone(&targets), targets.bytes());
        targets
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.0.sum(|targets| targets.own_bytes() + targets.results.memory_usage())
    }
}
