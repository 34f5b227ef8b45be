//! The tokens of a position: which can be read from there and lead on, whatever stands in front.
//!
//! A row is no walk through the product of the automata. The tokens that the DFA reads are a walk of the DFA alone, kept for
//! all positions of that state; those that the tokenizer's splitting reads, and where they end, are known once for all
//! constraints ([`super::ends`]). What is in both is looked at where it ends:
//!
//! - a group of tokens at once, where they end in one state of the splitting and the DFA certainly goes on with what such a
//!   group needs: mostly the walk is sure of that, and for large groups of which it is not there is one that is;
//! - else token by token. What decides is mostly the pair of states behind the token, beside its last byte; pairs are few,
//!   and each is asked about once;
//! - a few tokens are left for the search ([`Query::may_precede`]).
//!
//! Tried instead:
//!
//! - The product built whole beforehand. Its masks take about as long, and a bounded string takes 3 seconds to build.
//! - The product made as it is walked. In a wide position it makes two thousand states for each value of a counter, which
//!   differ in the splitting and in the place inside a character.
//! - No walk but one: where it is not sure, twenty thousand tokens are looked at one by one.

use std::sync::Arc;

use rustc_hash::FxHashMap as Map;
use unskew_core::{ByteAutomaton, DenseTable, MaskMut, TokenId, Verdict, words_for};

use super::{
    automaton::Role,
    by_need::{OVERHEAD, Query},
    certain::only_place,
    completion::bits,
    constraint::{Row, SHORT},
    derivation::NONE,
    ends::{EndsOf, Group, Plain, set, smallest},
    position::Position,
    vegas::ByteSet,
    whole::WholePieces,
};
use crate::StateId;

/// A walk of the DFA is worth more tokens than these.
const EACH: usize = 512;

/// Tokens that a DFA reads from one of its states.
pub(super) struct Lifted {
    /// One bit for each of those that end where it certainly goes on; `None` if there are none.
    sure: Option<Box<[u32]>>,
    /// The others, with the states behind them, some perhaps several times.
    others: Box<[(u32, StateId)]>,
    /// What it is sure of: that it goes on with a byte out of each of these sets, or accepts.
    needs: Vec<ByteSet>,
}

impl Lifted {
    fn bytes(&self) -> usize {
        self.sure.as_ref().map_or(0, |words| size_of_val(&words[..])) + size_of_val(&self.others[..])
    }
}

/// What is known of a position between characters, whatever stands in front.
#[derive(Clone, Copy)]
struct Pair {
    is_boundary: bool,
    is_alive: bool,
    /// The bytes with which it certainly goes on in its piece.
    goes: ByteSet,
}

fn is_in(words: &[u32], token: u32) -> bool {
    words[token as usize / 32] >> (token % 32) & 1 != 0
}

fn remove(words: &mut [u32], token: u32) {
    if let Some(word) = words.get_mut(token as usize / 32) {
        *word &= !(1 << (token % 32));
    }
}

impl<'a> Query<'a> {
    /// The tokens that can be read from `at` and lead on, whatever stands in front: one bit each, in words of a mask over
    /// the vocabulary. Added tokens are not among them.
    pub(super) fn row(&mut self, at: Position) -> &Row {
        if !self.memo.rows.contains_key(&at) {
            let row = self.new_row(at);
            let (Row::Short(list) | Row::Long(list)) = &row;
            self.memo.bytes += OVERHEAD + size_of_val(&list[..]);
            self.memo.rows.insert(at, row);
        }
        &self.memo.rows[&at]
    }

    fn new_row(&mut self, at: Position) -> Row {
        let (automata, vocabulary) = (self.automata, self.vocabulary);
        let tokenizer = automata.tokenizer;
        let ends = tokenizer.ends(at.split, vocabulary, self.trie);
        let lifted = self.lifted(at.regex);
        let begun = if at.fresh { tokenizer.whole.children(WholePieces::ROOT) } else { &[] };
        let is_begun =
            |token: u32| !begun.is_empty() && tokenizer.whole.child(WholePieces::ROOT, token).is_some();

        let mut words = self.groups(at, &ends, &lifted);
        let mut found: Vec<u32> = Vec::new();
        let mut pairs =
            Pairs { at, ends: &ends, plain: tokenizer.plain(vocabulary), last: None, known: Map::default() };
        if let Some(sure) = &lifted.sure {
            let left =
                sure.iter().zip(&ends.made).zip(&words).map(|((sure, made), words)| sure & made & !words);
            for token in bits(&left.collect::<Vec<u32>>()).filter(|token| !is_begun(*token)) {
                let regex = automata.dfa.run(at.regex, vocabulary.text(TokenId(token)).unwrap_or_default());
                if regex.is_some_and(|regex| pairs.leads_on(self, token, regex)) {
                    found.push(token);
                }
            }
        }
        let is_known = |token: u32| !words.is_empty() && is_in(&words, token) || is_begun(token);
        for (token, regex) in lifted.others.iter().copied() {
            if is_in(&ends.made, token) && !is_known(token) && pairs.leads_on(self, token, regex) {
                found.push(token);
            }
        }
        for (byte, token) in (0..=255u8).zip(&tokenizer.fallback).filter(|(_, token)| **token != NONE) {
            if let Some(behind) = automata.step_fallback(at, byte)
                && self.may_precede(*token, behind)
            {
                found.push(*token);
            }
        }
        if at.fresh {
            begun.iter().for_each(|(token, _)| remove(&mut words, *token));
            let begun = begun.iter().map(|(token, _)| *token);
            let begun = begun.filter(|token| tokenizer.roles[*token as usize] == Role::Made);
            for token in begun.chain(tokenizer.only_whole.iter().copied()) {
                let behind = automata.run(at, vocabulary.text(TokenId(token)).unwrap_or_default());
                if behind.is_some_and(|behind| self.may_begin(token, behind)) {
                    found.push(token);
                }
            }
        }
        if words.is_empty() && found.len() <= 2 * SHORT {
            found.sort_unstable();
            found.dedup();
            if found.len() <= SHORT {
                return Row::Short(found.into());
            }
        }
        words.resize(words_for(vocabulary.len()), 0);
        found.iter().for_each(|token| set(&mut words, *token));
        Row::new(words)
    }

    /// The tokens that the DFA reads from `state`.
    fn lifted(&mut self, state: StateId) -> Arc<Lifted> {
        if let Some(known) = self.memo.lifted.get(&state) {
            return Arc::clone(known);
        }
        // What can go on from here in a certain way can mostly do so from behind tokens too.
        let (tokenizer, here) = (self.automata.tokenizer, self.sure(state));
        let begin = tokenizer.ends(tokenizer.split.start, self.vocabulary, self.trie);
        let needs = begin.groups.iter().flat_map(|group| &group.needs).copied();
        let needs = smallest(needs.filter(|need| !need.and(&here).is_empty()));
        let lifted = Arc::new(self.walk(state, needs));
        self.memo.bytes += OVERHEAD + lifted.bytes();
        self.memo.lifted.insert(state, Arc::clone(&lifted));
        lifted
    }

    /// The same, sure of other needs; without the other tokens.
    fn lifted_for(&mut self, state: StateId, needs: &[ByteSet]) -> Arc<Lifted> {
        let known = self.memo.lifted_for.entry(state).or_default();
        if let Some(known) = known.iter().find(|known| known.needs == needs) {
            return Arc::clone(known);
        }
        let lifted = Arc::new(Lifted { others: Box::default(), ..self.walk(state, needs.to_vec()) });
        self.memo.bytes += OVERHEAD + lifted.bytes();
        self.memo.lifted_for.entry(state).or_default().push(Arc::clone(&lifted));
        lifted
    }

    fn walk(&mut self, state: StateId, needs: Vec<ByteSet>) -> Lifted {
        let len = self.vocabulary.len();
        let mut words = vec![0u32; words_for(len)];
        let table = self.automata.dfa.dense();
        let mut reader = Ending { table, needs: &needs, is_sure: false, others: Vec::new(), query: self };
        reader.query.trie.fill(&mut reader, state.0, MaskMut::new_cleared(&mut words, len));
        let Ending { is_sure, others, .. } = reader;
        Lifted { sure: is_sure.then(|| words.into()), others: others.into(), needs }
    }

    /// The tokens out of `lifted` that certainly lead on from `at`, group by group: those of which it is sure, where it is
    /// sure of what the group needs, and else, if the group is large, those that another walk is sure of. Empty for none.
    fn groups(&mut self, at: Position, ends: &EndsOf, lifted: &Lifted) -> Vec<u32> {
        let is_met = |need: &ByteSet| lifted.needs.iter().any(|met| met.and(need) == *met);
        let is_sure = |group: &&Group| group.needs.iter().all(is_met);
        let mut words: Vec<u32> = Vec::new();
        if let Some(sure) = &lifted.sure {
            words.resize(sure.len(), 0);
            for tokens in ends.groups.iter().filter(is_sure).map(|group| &group.tokens).chain([&ends.closed])
            {
                words.iter_mut().zip(tokens).for_each(|(word, tokens)| *word |= tokens);
            }
            for token in ends.small.iter().filter(is_sure).flat_map(|group| &group.tokens) {
                set(&mut words, *token);
            }
            words.iter_mut().zip(sure).for_each(|(word, sure)| *word &= sure);
        }
        let mut others: Vec<u32> = Vec::new();
        if lifted.others.len() > EACH {
            others.resize(ends.made.len(), 0);
            lifted.others.iter().for_each(|(token, _)| set(&mut others, *token));
        }
        for group in ends.groups.iter().filter(|group| !is_sure(group)) {
            let count = |words: &[u32]| -> u32 {
                words.iter().zip(&group.tokens).map(|(word, tokens)| (word & tokens).count_ones()).sum()
            };
            if lifted.sure.as_ref().map_or(0, |sure| count(sure)) + count(&others) <= EACH as u32 {
                continue;
            }
            if let Some(sure) = &self.lifted_for(at.regex, &group.needs).sure {
                words.resize(sure.len(), 0);
                for ((word, sure), tokens) in words.iter_mut().zip(sure).zip(&group.tokens) {
                    *word |= sure & tokens;
                }
            }
        }
        // Where an added token might end with the next byte, a token may begin with such a byte.
        let plain = self.automata.tokenizer.plain(self.vocabulary);
        if !self.certain.is_calm(at.text) {
            words.iter_mut().zip(&plain.without_ends).for_each(|(word, plain)| *word &= plain);
        }
        if self.composes() {
            words.iter_mut().zip(&plain.steady).for_each(|(word, plain)| *word &= plain);
        }
        words
    }

    /// A token that may follow `front` and is settled to lead on from `at`; or else all that may follow and can be read, and
    /// the positions behind them. For wide positions: it takes a walk of the DFA, and the forbidden neighbours of `front`.
    pub(super) fn follower(&mut self, front: u32, at: Position) -> Result<u32, Vec<(u32, Position)>> {
        let (automata, vocabulary) = (self.automata, self.vocabulary);
        let tokenizer = automata.tokenizer;
        let ends = tokenizer.ends(at.split, vocabulary, self.trie);
        let lifted = self.lifted(at.regex);
        let mut sure = self.groups(at, &ends, &lifted);
        let mut read = lifted.sure.as_ref().map_or_else(|| vec![0; ends.made.len()], |sure| sure.to_vec());
        lifted.others.iter().for_each(|(token, _)| set(&mut read, *token));
        read.iter_mut().zip(&ends.made).for_each(|(read, made)| *read &= made);
        tokenizer.neighbours.forbidden(front, |token| {
            remove(&mut sure, token);
            remove(&mut read, token);
        });
        if let Some(follower) = bits(&sure).next() {
            return Ok(follower);
        }
        let fallback = (0..=255u8).zip(&tokenizer.fallback).filter(|(_, token)| **token != NONE);
        let fallback = fallback.filter_map(|(byte, token)| Some((*token, automata.step_fallback(at, byte)?)));
        let made = bits(&read).filter_map(|token| {
            Some((token, automata.run(at, vocabulary.text(TokenId(token)).unwrap_or_default())?))
        });
        let reads: Vec<(u32, Position)> =
            fallback.chain(made).filter(|(token, _)| self.may_follow(front, *token)).collect();
        match reads.iter().find(|(token, behind)| self.settled(*token, *behind) == Some(true)) {
            Some((follower, _)) => Ok(*follower),
            None => Err(reads),
        }
    }

    /// What is known of the position that `at` is.
    fn pair(&mut self, at: Position) -> Pair {
        let is_boundary = self.is_boundary(at);
        let goes = self.certain.goes[at.split as usize].and(&self.sure(at.regex));
        Pair { is_boundary, is_alive: is_boundary || self.is_alive(at), goes }
    }

    /// Whether texts are brought into normalisation form C that the constraint accepts.
    pub(super) fn composes(&self) -> bool {
        self.automata.nfc.next.len() > 1
    }
}

/// Behind which tokens of a row one is where, and what is known of that.
struct Pairs<'a> {
    at: Position,
    ends: &'a EndsOf,
    plain: &'a Plain,
    /// By states of the DFA and of the splitting.
    known: Map<(StateId, u32), Pair>,
    /// What was asked for last: tokens of one subtree of the trie mostly end alike.
    last: Option<(StateId, u32, Pair)>,
}

impl Pairs<'_> {
    /// Whether `token`, which the splitting reads and which leads the DFA to `regex`, leads on.
    fn leads_on(&mut self, query: &mut Query<'_>, token: u32, regex: StateId) -> bool {
        let split = self.ends.end[token as usize];
        // The other two automata are mostly where they were.
        let behind = Position { regex, split, fresh: false, ..self.at };
        let returns =
            self.at.text == query.automata.tokenizer.text.start && is_in(&self.plain.returns, token);
        if query.composes() || !returns {
            let text = query.vocabulary.text(TokenId(token)).unwrap_or_default();
            return query.automata.run(self.at, text).is_some_and(|behind| query.may_precede(token, behind));
        }
        if query.certain.places[split as usize] != 0 {
            return query.may_precede(token, behind);
        }
        let pair = match self.last {
            Some((last_regex, last_split, pair)) if (last_regex, last_split) == (regex, split) => pair,
            _ => *self.known.entry((regex, split)).or_insert_with(|| query.pair(behind)),
        };
        self.last = Some((regex, split, pair));
        let hard = || query.facts.hard.behind(self.plain.last[token as usize]);
        pair.is_boundary
            || pair.is_alive && (!pair.goes.and(&hard()).is_empty() || query.may_precede(token, behind))
    }
}

/// The DFA, read by tokens: they are allowed where it is certain that it goes on, and the others are noted.
struct Ending<'a, 'q, 'c> {
    table: DenseTable<'a>,
    needs: &'a [ByteSet],
    /// Whether something is allowed.
    is_sure: bool,
    others: Vec<(u32, StateId)>,
    query: &'q mut Query<'c>,
}

impl ByteAutomaton for Ending<'_, '_, '_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.table.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.table.step(state, byte)
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        let state = StateId(state);
        let is_certain = match self.query.need.places.get(state.index()).copied().unwrap_or(1) {
            places if places & 1 != 0 => {
                self.query.automata.dfa.is_accepting(state) || {
                    let sure = self.query.sure(state);
                    self.needs.iter().all(|need| !need.and(&sure).is_empty())
                }
            }
            // In a place that is not known, nothing is certain.
            places => match only_place(places) {
                0 => false,
                place => self.query.is_free(state, place),
            },
        };
        self.is_sure |= is_certain;
        if is_certain { Verdict::All } else { Verdict::Each }
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        self.others.push((token.0, StateId(state)));
        false
    }
}
