//! Which tokens can be read from each state of the automaton of marked texts, and where they end: known once for all
//! constraints.
//!
//! A row of a constraint is a part of what its DFA reads and of what the tokenizer's splitting reads. The second does not
//! depend on the constraint, and is asked for in few states: some twenty between characters. Of 92,000 tokens that are read
//! where a text begins nearly all end in one of five states, so that these are groups.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use unskew_core::{TokenId, TokenTrie, Vocabulary, words_for};

use super::{
    automaton::TokenizerAutomaton,
    certain::{Certain, Closes},
    vegas::ByteSet,
};
use crate::table::DEAD;

/// How many bytes are kept.
const KEPT: usize = 64 << 20;

/// Groups of at least so many tokens are masks, and smaller ones lists.
const LARGE: usize = 128;

/// By state: the tokens that are read from there. Fallback tokens are not among them.
#[derive(Debug)]
pub(crate) struct Ends {
    rows: Box<[OnceLock<Arc<EndsOf>>]>,
    /// How many more bytes may be kept.
    left: AtomicUsize,
}

/// The tokens that are read from a state, in words of a mask.
#[derive(Debug)]
pub(crate) struct EndsOf {
    /// Those that merges make.
    pub(crate) made: Box<[u32]>,
    /// By token: the state behind it, for those.
    pub(crate) end: Box<[u32]>,
    /// By where they end, the largest first: in universal states where the text may end.
    pub(crate) groups: Vec<Group>,
    /// The small ones, as lists.
    pub(crate) small: Vec<Group>,
    /// Those that end inside a character which further tokens can end ([`Certain::closes`]).
    pub(crate) closed: Box<[u32]>,
}

/// Tokens that end in one state, and within which no added token can end.
#[derive(Debug)]
pub(crate) struct Group {
    /// In words of a mask, or a list of a small group.
    pub(crate) tokens: Box<[u32]>,
    /// Where a constraint certainly goes on with a byte out of each of these sets, each of the tokens leads on: in another
    /// piece, or with a byte before which the last one of the token is hard.
    pub(crate) needs: Vec<ByteSet>,
}

/// Tokens that some automata never refuse, in words of a mask.
#[derive(Debug)]
pub(crate) struct Plain {
    /// No added token can end in them at all.
    pub(crate) without_ends: Box<[u32]>,
    /// Normalisation form C changes nothing in them, nor at their beginning, whatever stands in front.
    pub(crate) steady: Box<[u32]>,
    /// They lead the automaton of texts without added tokens from where it begins to there.
    pub(crate) returns: Box<[u32]>,
    /// By token: the last byte.
    pub(crate) last: Box<[u8]>,
}

/// Those of `sets` that hold no other one: what meets these meets all.
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

/// Adds `token` to a set in words of a mask.
pub(crate) fn set(words: &mut [u32], token: u32) {
    words[token as usize / 32] |= 1 << (token % 32);
}

impl Plain {
    pub(crate) fn new(tokenizer: &TokenizerAutomaton, vocabulary: &Vocabulary) -> Self {
        let certain = tokenizer.certain();
        let [mut without_ends, mut steady, mut returns] =
            [(); 3].map(|()| vec![0u32; words_for(vocabulary.len())]);
        let mut last = vec![0; vocabulary.len()];
        let added = &tokenizer.text;
        for (token, text) in vocabulary.text_tokens() {
            last[token.index()] = text.last().copied().unwrap_or_default();
            let behind = text.iter().try_fold(added.start, |state, byte| {
                Some(added.step(state, *byte)).filter(|next| *next != DEAD)
            });
            if behind == Some(added.start) {
                set(&mut returns, token.0);
            }
            if !text.iter().any(|byte| certain.may_end_added(*byte)) {
                set(&mut without_ends, token.0);
            }
            if certain.place(text).is_some() {
                set(&mut steady, token.0);
            }
        }
        Self {
            without_ends: without_ends.into(),
            steady: steady.into(),
            returns: returns.into(),
            last: last.into(),
        }
    }
}

impl EndsOf {
    fn new(tokenizer: &TokenizerAutomaton, state: u32, vocabulary: &Vocabulary, trie: &TokenTrie) -> Self {
        let (split, certain): (_, &Certain) = (&tokenizer.split, tokenizer.certain());
        let mut made = vec![0u32; words_for(vocabulary.len())];
        let mut by_end: Vec<(u32, u32)> = Vec::new();
        let mut end_of = vec![DEAD; vocabulary.len()];
        trie.walk(
            state,
            |state, byte| {
                let column = usize::from(split.classes.get(byte));
                let next = split.next[state as usize * split.classes.len() + column];
                (next != DEAD).then_some(next)
            },
            |token, end| {
                if tokenizer.is_made(token.0) {
                    set(&mut made, token.0);
                    end_of[token.index()] = end;
                    by_end.push((end, token.0));
                }
            },
        );
        let text = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        by_end.iter().for_each(|(end, _)| *counts.entry(*end).or_default() += 1);
        let goes_on = |end: u32| split.accepting[end as usize] && certain.universal[end as usize];
        let mut counts: Vec<(u32, usize)> = counts.into_iter().filter(|(end, _)| goes_on(*end)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let large = counts.partition_point(|(_, count)| *count >= LARGE);
        let mut lists: Vec<(u32, Vec<u32>)> = counts.iter().map(|(end, _)| (*end, Vec::new())).collect();
        let mut closed = vec![0u32; made.len()];
        let mut memo = Closes::default();
        let index_of: BTreeMap<u32, usize> = lists.iter().map(|(end, _)| *end).zip(0..).collect();
        let mut last_bytes = vec![ByteSet::default(); lists.len()];
        for (end, token) in by_end {
            if certain.ends_added(text(token)) {
                continue;
            }
            if certain.places[end as usize] != 0 {
                let place = certain.place(text(token)).filter(|place| *place != 0 && certain.is_calm_inside);
                if place.is_some_and(|place| certain.closes(tokenizer, &mut memo, token, end, place)) {
                    set(&mut closed, token);
                }
            } else if let Some(index) = index_of.get(&end) {
                lists[*index].1.push(token);
                text(token).last().into_iter().for_each(|last| last_bytes[*index].insert(*last));
            }
        }
        let hard = &tokenizer.facts(vocabulary).hard;
        let mut groups: Vec<Group> = Vec::new();
        for ((end, tokens), last_bytes) in lists.into_iter().zip(&last_bytes) {
            let (begins, goes) = (&certain.begins[end as usize], &certain.goes[end as usize]);
            let needs = smallest(last_bytes.iter().map(|last| {
                let mut need = goes.and(&hard.behind(last));
                need.union(begins);
                need
            }));
            groups.push(Group { tokens: tokens.into(), needs });
        }
        let small = groups.split_off(large);
        for group in &mut groups {
            let mut words = vec![0u32; made.len()];
            group.tokens.iter().for_each(|token| set(&mut words, *token));
            group.tokens = words.into();
        }
        Self { made: made.into(), end: end_of.into(), groups, small, closed: closed.into() }
    }

    fn bytes(&self) -> usize {
        let groups = self.groups.iter().chain(&self.small).map(|group| size_of_val(&group.tokens[..]));
        size_of_val(&self.made[..]) * 2 + size_of_val(&self.end[..]) + groups.sum::<usize>()
    }
}

impl Ends {
    pub(crate) fn new(states: usize) -> Self {
        Self { rows: (0..states).map(|_| OnceLock::new()).collect(), left: AtomicUsize::new(KEPT) }
    }

    /// What is read from `state`: kept, or made now.
    pub(crate) fn of(
        &self,
        tokenizer: &TokenizerAutomaton,
        state: u32,
        vocabulary: &Vocabulary,
        trie: &TokenTrie,
    ) -> Arc<EndsOf> {
        let place = &self.rows[state as usize];
        if let Some(row) = place.get() {
            return Arc::clone(row);
        }
        let row = Arc::new(EndsOf::new(tokenizer, state, vocabulary, trie));
        let take = |left: usize| left.checked_sub(row.bytes());
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Arc::clone(place.get_or_init(|| row));
        }
        row
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let kept = self.rows.iter().filter_map(OnceLock::get);
        size_of_val(&self.rows[..]) + kept.map(|row| row.bytes()).sum::<usize>()
    }
}
