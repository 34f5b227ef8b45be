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

use super::{automaton::TokenizerAutomaton, certain::Certain, mix::Map};
use crate::table::DEAD;

/// How many bytes are kept.
const KEPT: usize = 64 << 20;

/// Fewer tokens are no group.
const GROUP: usize = 128;

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
    /// By where they end, the largest first: in universal states where the text may end.
    pub(crate) groups: Vec<Group>,
    /// Those that end inside a character which further tokens can end ([`Certain::closes`]), and in which no added token
    /// can end.
    pub(crate) closed: Box<[u32]>,
}

/// Tokens that end in one state, and in which no added token can end.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) end: u32,
    pub(crate) plain: Arc<[u32]>,
    /// Those of them that are ASCII.
    pub(crate) ascii: Arc<[u32]>,
}

impl EndsOf {
    fn new(
        tokenizer: &TokenizerAutomaton,
        state: u32,
        vocabulary: &Vocabulary,
        trie: &TokenTrie,
    ) -> Self {
        let (split, certain): (_, &Certain) = (&tokenizer.split, tokenizer.certain());
        let mut made = vec![0u32; words_for(vocabulary.len())];
        let mut by_end: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let set = |words: &mut [u32], token: u32| words[token as usize / 32] |= 1 << (token % 32);
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
                    by_end.entry(end).or_default().push(token.0);
                }
            },
        );
        let is_plain = |text: &[u8]| !text.iter().any(|byte| certain.may_end_added(*byte));
        let text = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let (mut closed, mut memo) = (vec![0u32; made.len()], Map::default());
        for (end, tokens) in by_end.iter().filter(|(end, _)| certain.places[**end as usize] != 0) {
            for token in tokens.iter().filter(|_| certain.is_calm_inside) {
                if is_plain(text(*token)) && certain.closes(tokenizer, &mut memo, *token, *end) {
                    set(&mut closed, *token);
                }
            }
        }
        let mut groups: Vec<(u32, Vec<u32>)> = by_end.into_iter().collect();
        let goes_on = |end: u32| split.accepting[end as usize] && certain.universal[end as usize];
        groups.retain(|(end, tokens)| tokens.len() >= GROUP && goes_on(*end));
        groups.sort_by_key(|(_, tokens)| std::cmp::Reverse(tokens.len()));
        let group = |(end, tokens): (u32, Vec<u32>)| {
            let [mut plain, mut ascii] = [(); 2].map(|()| vec![0u32; made.len()]);
            for token in tokens {
                if is_plain(text(token)) {
                    set(&mut plain, token);
                    if text(token).is_ascii() {
                        set(&mut ascii, token);
                    }
                }
            }
            Group { end, plain: plain.into(), ascii: ascii.into() }
        };
        let groups = groups.into_iter().map(group).collect();
        Self { made: made.into(), groups, closed: closed.into() }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.made[..]) * (2 + 2 * self.groups.len())
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
