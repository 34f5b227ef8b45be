//! What may stand in front of a position, found out when it is asked for.
//!
//! A token may stand in front of a position if the two together can be completed. Where everything that the constraint reads
//! can be spelled ([`Facts::is_regular_for`](super::vegas::block::Facts::is_regular_for)), that is
//!
//! - false if the position is not alive: no accepted text goes on from there;
//! - else true if the piece may end there: the text ends, an added token follows, or a mark leads to a living position. For
//!   the encoder's own tokens of the text that goes on from there begin behind the boundary (proof in `vegas/block.rs`);
//! - else true if it goes on with a byte before which the last byte of the token is hard, likewise;
//! - else a matter of reachability: is there a token that may follow, and may that stand in front of where it leads?
//!
//! Each question is answered at once where [`certain`](super::certain) knows enough, which in most positions it does, and
//! else by a search that ends with the first such position, over at most what can be reached where nothing is certain.
//! [`ByNeed::new`] refuses a constraint for which that might be much: then it is [completed whole](super::complete), within
//! its limit. Answers are kept in a [`Memo`], which belongs to a scratch: it may be thrown away between two questions, and
//! masks never wait for each other.
//!
//! A row of tokens is not a walk through the product of the automata either. The tokens that the DFA reads are a walk of the
//! DFA, those that the tokenizer's splitting reads are known once for all constraints ([`super::ends`]), and what is in
//! both is looked at where it ends: groups at once where that is certain, and else token by token. That takes two to eight
//! times as long as the walk of the DFA alone. Tried instead:
//!
//! - The product built whole beforehand. Its masks take half of that, and a bounded string takes 3 seconds to build.
//! - The product made as it is walked. In a wide position it makes two thousand states for each value of a counter, which
//!   differ in the splitting and in the place inside a character.
//! - The search for an accepted text depth-first: it follows a run of blanks to the end of its counter where a letter would
//!   have done. And the search over tokens breadth-first: in `[acgt]{200}` it looks at all that can be written.

use std::sync::Arc;

use rustc_hash::{FxHashMap as Map, FxHashSet as Set};
use unskew_core::{ByteAutomaton, DenseTable, MaskMut, TokenId, TokenTrie, Verdict, Vocabulary, words_for};

use super::{
    automaton::{Role, TokenizerAutomaton},
    certain::{Certain, Closes, Safe, only_place, utf8},
    completion::bits,
    constraint::{Context, Row, SHORT},
    derivation::NONE,
    ends::{EndsOf, Group, smallest},
    position::{Automata, Position},
    vegas::{ByteSet, block::Facts},
    whole::WholePieces,
};
use crate::{Limits, StateId, table::DEAD};

/// So many tokens that lead on are kept for each position.
const FOLLOWERS: usize = 8;

/// Up to so many tokens that can be read from a position are kept.
const FEW: usize = 2_048;

/// Up to so many tokens of a row are looked at token by token.
const EACH: usize = 512;

/// What an entry of a map costs beside its contents, in bytes.
const OVERHEAD: usize = 48;

/// Pairs of states where nothing is certain: with more of them a constraint is completed whole, within the limits.
const PAIRS: usize = 1 << 24;

/// What is known beforehand of a constraint that is completed by need.
#[derive(Debug)]
pub(crate) struct ByNeed {
    safe: Vec<Safe>,
    /// By state of the DFA: the places in a character where it is reached ([`utf8`]), one bit each. Empty where all is
    /// ASCII.
    places: Vec<u8>,
    /// Of bytes that no automaton tells apart one each, as far as the constraint reads them.
    bytes: Vec<u8>,
    /// The tokens of single bytes that it reads.
    symbols: Vec<(u8, u32)>,
    /// The most bytes that a memo may have.
    limit: usize,
}

/// Answers that were found.
#[derive(Default)]
pub(crate) struct Memo {
    alive: Map<Position, bool>,
    /// By position: whether the piece may end there.
    boundary: Map<Position, bool>,
    /// By state of the DFA and place in a character: see [`Query::is_free`].
    free: Map<(StateId, u8), bool>,
    /// By class of a token and state of the splitting: see [`Certain::closes`].
    closes: Closes,
    /// By state of the DFA: the place of its [`Certain::out`] in the next list, plus one; 0 if it is not there.
    sure_at: Vec<u32>,
    sure: Vec<ByteSet>,
    /// By position: tokens that lead on.
    followers: Map<Position, Vec<u32>>,
    /// By position: all tokens that can be read, where they are few.
    reads: Map<Position, Arc<[(u32, Position)]>>,
    /// By the class of a token and a position behind it: whether they can be completed.
    complete: Map<(u32, Position), bool>,
    /// By state of the DFA: the tokens that it reads.
    lifted: Map<StateId, Arc<Lifted>>,
    rows: Map<Position, Row>,
    bytes: usize,
}

/// A constraint with a memo, for questions.
pub(crate) struct Query<'a> {
    pub(crate) need: &'a ByNeed,
    pub(crate) automata: Automata<'a>,
    pub(crate) certain: &'a Certain,
    pub(crate) facts: &'a Facts,
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) trie: &'a TokenTrie,
    pub(crate) memo: &'a mut Memo,
}

impl ByNeed {
    /// `None` if the constraint has to be completed whole.
    pub(crate) fn new(automata: Automata<'_>, vocabulary: &Vocabulary, limits: &Limits) -> Option<Self> {
        let Automata { dfa, tokenizer, .. } = automata;
        if !tokenizer.facts(vocabulary).is_regular_for(dfa, tokenizer) {
            return None;
        }
        let (safe, places) = tokenizer.certain().safe(dfa, PAIRS)?;
        let mut used = [false; 256];
        dfa.bytes().for_each(|byte| used[usize::from(byte)] = true);
        let (_, mut bytes) = automata.columns();
        bytes.retain(|byte| used[usize::from(*byte)]);
        let symbols = (0..=255u8).zip(tokenizer.symbols.iter().copied());
        let is_read = |(byte, symbol): &(u8, u32)| used[usize::from(*byte)] && tokenizer.is_made(*symbol);
        let symbols = symbols.filter(is_read).collect();
        Some(Self { safe, places, bytes, symbols, limit: limits.lazy_bytes })
    }

    pub(crate) fn query<'a>(&'a self, context: &'a Context, memo: &'a mut Memo) -> Query<'a> {
        if memo.bytes > self.limit {
            *memo = Memo::default();
        }
        let Context { tokenizer, vocabulary, trie, .. } = context;
        Query {
            need: self,
            automata: context.automata(),
            certain: tokenizer.certain(),
            facts: tokenizer.facts(vocabulary),
            vocabulary,
            trie,
            memo,
        }
    }

    /// Where one byte, a mark or an added token leads from `at`.
    fn targets<'a>(&'a self, automata: Automata<'a>, at: Position) -> impl Iterator<Item = Position> + 'a {
        let by_bytes = self.bytes.iter().filter_map(move |byte| automata.step(at, *byte));
        let fallback = self.bytes.iter().filter_map(move |byte| automata.step_fallback(at, *byte));
        let added = automata.added(at).map(|(_, behind)| behind);
        automata.mark(at).into_iter().chain(by_bytes).chain(fallback).chain(added)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.safe[..]) + self.bytes.len()
    }
}

impl Memo {
    fn entries(&mut self, count: usize) {
        self.bytes += count * OVERHEAD;
    }
}

/// What a search met: a token and the position behind it, and the place in the list of what it was met from.
#[derive(Clone, Copy)]
struct Met {
    token: u32,
    at: Position,
    from: usize,
}

impl Query<'_> {
    fn tokenizer(&self) -> &TokenizerAutomaton {
        self.automata.tokenizer
    }

    /// Whether it is certain that `at` is alive.
    #[inline]
    fn is_certain(&self, at: Position) -> bool {
        self.certain.universal[at.split as usize]
            && self.certain.holds(self.need.safe[at.regex.index()], at.text)
            || self.automata.is_accepting(at)
    }

    /// Whether an accepted text goes on from `at`: a breadth-first search that ends where that is certain.
    pub(crate) fn is_alive(&mut self, at: Position) -> bool {
        if self.is_certain(at) {
            return true;
        }
        if let Some(known) = self.memo.alive.get(&at) {
            return *known;
        }
        if self.is_alive_soon(at) {
            self.memo.alive.insert(at, true);
            self.memo.entries(1);
            return true;
        }
        // What was met, each with its place in the list of what it was met from.
        let mut met: Vec<(Position, usize)> = vec![(at, 0)];
        let mut seen: Set<Position> = Set::from_iter([at]);
        let mut next = 0;
        while let Some((from, _)) = met.get(next).copied() {
            for target in self.need.targets(self.automata, from) {
                let known = self.memo.alive.get(&target).copied();
                if known == Some(true) || self.is_certain(target) {
                    // All on the way here are alive; of the others nothing is known.
                    let mut on = next;
                    loop {
                        self.memo.alive.insert(met[on].0, true);
                        self.memo.entries(1);
                        if on == 0 {
                            return true;
                        }
                        on = met[on].1;
                    }
                }
                if known.is_none() && seen.insert(target) {
                    met.push((target, next));
                }
            }
            next += 1;
        }
        self.memo.entries(met.len());
        self.memo.alive.extend(met.into_iter().map(|(dead, _)| (dead, false)));
        false
    }

    /// Whether a byte leads from `at` to where it is certain, behind a mark or not: that is so behind two blanks.
    fn is_alive_soon(&mut self, at: Position) -> bool {
        let certain = self.certain;
        certain.soon[at.split as usize].iter().any(|(byte, behind)| {
            let next = self.automata.dfa.step(at.regex, *byte);
            next.is_some_and(|next| !certain.goes[*behind as usize].and(&self.sure(next)).is_empty())
        })
    }

    /// The bytes of ASCII that certainly lead on from a state of the DFA.
    fn sure(&mut self, state: StateId) -> ByteSet {
        let memo = &mut *self.memo;
        if memo.sure_at.is_empty() {
            memo.sure_at = vec![0; self.automata.dfa.len()];
            memo.bytes += size_of_val(&memo.sure_at[..]);
        }
        let at = &mut memo.sure_at[state.index()];
        if *at == 0 {
            memo.sure.push(self.certain.out(self.automata.dfa, &self.need.safe, state));
            *at = u32::try_from(memo.sure.len()).expect("fewer than 2^32 states");
            memo.bytes += size_of::<ByteSet>();
        }
        memo.sure[*at as usize - 1]
    }

    /// Whether the piece may end in `at`: the text ends, another piece begins, or an added token follows.
    pub(crate) fn is_boundary(&mut self, at: Position) -> bool {
        let begins = &self.certain.begins[at.split as usize];
        if self.automata.is_accepting(at) || !begins.is_empty() && !self.sure(at.regex).and(begins).is_empty()
        {
            return true;
        }
        let mark = self.automata.mark(at);
        if mark.is_none() && (self.tokenizer().added.is_empty() || !self.automata.may_end(at)) {
            return false;
        }
        if let Some(known) = self.memo.boundary.get(&at) {
            return *known;
        }
        let added: Vec<Position> = self.automata.added(at).map(|(_, behind)| behind).collect();
        let is_boundary = mark.into_iter().chain(added).any(|behind| self.is_alive(behind));
        self.memo.boundary.insert(at, is_boundary);
        self.memo.entries(1);
        is_boundary
    }

    /// Whether it is certain that `at` goes on with a byte before which `last` is hard.
    fn is_hard_behind(&mut self, last: u8, at: Position) -> bool {
        let goes = &self.certain.goes[at.split as usize];
        let hard = self.facts.hard.behind(last);
        !goes.is_empty() && !self.sure(at.regex).and(goes).and(&hard).is_empty()
    }

    /// Whether it is certain that `token` may stand in front of `at`, which is inside a character: because the constraint
    /// takes whatever ends it, and the tokenizer has tokens that end it behind this one.
    fn is_closed(&mut self, token: u32, at: Position) -> bool {
        let place = self.certain.places[at.split as usize];
        place != 0
            && !self.composes()
            && self.certain.is_calm_inside
            && self.is_free(at.regex, place)
            && self.certain.closes(self.automata.tokenizer, &mut self.memo.closes, token, at.split, DEAD)
    }

    /// Whether the DFA goes on from `state` with all that ends a character, of which `place` says what is left, and then
    /// either accepts or certainly goes on in another piece.
    fn is_free(&mut self, state: StateId, place: u8) -> bool {
        if let Some(known) = self.memo.free.get(&(state, place)) {
            return *known;
        }
        let dfa = self.automata.dfa;
        let is_free = if place == 0 {
            let sure = self.sure(state);
            dfa.is_accepting(state) || self.certain.typical.iter().all(|begins| !begins.and(&sure).is_empty())
        } else {
            // Bytes that lead to the same place and state are looked at once.
            let mut last = None;
            (0x80..0xc0u8).all(|byte| {
                let Some(place) = utf8(place, byte) else { return true };
                let Some(next) = dfa.step(state, byte) else { return false };
                last.replace((next, place)) == Some((next, place)) || self.is_free(next, place)
            })
        };
        self.memo.free.insert((state, place), is_free);
        self.memo.entries(1);
        is_free
    }

    /// Whether it takes no search over tokens to see that `token` may stand in front of `at`, or may not; and which.
    fn settled(&mut self, token: u32, at: Position) -> Option<bool> {
        if self.is_boundary(at) {
            return Some(true);
        }
        if self.is_closed(token, at) {
            return Some(true);
        }
        if !self.is_alive(at) {
            return Some(false);
        }
        let last = self.vocabulary.text(TokenId(token)).and_then(|text| text.last().copied());
        if last.is_some_and(|last| self.is_hard_behind(last, at)) {
            return Some(true);
        }
        if let Some(followers) = self.memo.followers.get(&at) {
            let neighbours = &self.automata.tokenizer.neighbours;
            if followers.iter().any(|next| neighbours.may_follow(token, *next)) {
                return Some(true);
            }
        }
        self.memo.complete.get(&(self.class(token), at)).copied()
    }

    fn class(&self, token: u32) -> u32 {
        self.tokenizer().neighbours.class[token as usize]
    }

    /// Whether `token` may stand in front of `at`, in the same piece.
    pub(crate) fn may_precede(&mut self, token: u32, at: Position) -> bool {
        if let Some(settled) = self.settled(token, at) {
            return settled;
        }
        // What was met last comes first: where it is far to where a piece may end, nearly every way leads there, and there
        // are many ways.
        let mut met: Vec<Met> = vec![Met { token, at, from: 0 }];
        let mut seen: Set<(u32, Position)> = Set::from_iter([(self.class(token), at)]);
        let mut open: Vec<usize> = vec![0];
        while let Some(next) = open.pop() {
            let Met { token, at, .. } = met[next];
            match self.leads_on(token, at) {
                Ok(mut follower) => {
                    let mut on = next;
                    loop {
                        let Met { token, at, from } = met[on];
                        let class = self.class(token);
                        self.memo.complete.insert((class, at), true);
                        let followers = self.memo.followers.entry(at).or_default();
                        if followers.len() < FOLLOWERS && !followers.contains(&follower) {
                            followers.push(follower);
                        }
                        self.memo.entries(2);
                        if on == 0 {
                            return true;
                        }
                        (follower, on) = (token, from);
                    }
                }
                Err(all) => {
                    for (token, at) in all.iter().copied() {
                        if self.tokenizer().neighbours.may_follow(met[next].token, token)
                            && self.tokenizer().roles[token as usize] != Role::Whole
                            && !seen.contains(&(self.class(token), at))
                            && self.settled(token, at).is_none()
                        {
                            seen.insert((self.class(token), at));
                            open.push(met.len());
                            met.push(Met { token, at, from: next });
                        }
                    }
                }
            }
        }
        self.memo.entries(met.len());
        for Met { token, at, .. } in met {
            let class = self.class(token);
            self.memo.complete.insert((class, at), false);
        }
        false
    }

    /// A token that may follow `token` and that is settled to lead on from `at`; or else those that are not settled, among
    /// others.
    fn leads_on(&mut self, token: u32, at: Position) -> Result<u32, Arc<[(u32, Position)]>> {
        let tokenizer = self.automata.tokenizer;
        let leads_on = |query: &mut Self, next: u32, behind: Position| {
            tokenizer.roles[next as usize] != Role::Whole
                && tokenizer.neighbours.may_follow(token, next)
                && query.settled(next, behind) == Some(true)
        };
        if let Some(known) = self.memo.reads.get(&at).cloned() {
            let found = known.iter().find(|(next, behind)| leads_on(self, *next, *behind));
            return found.map(|(next, _)| *next).ok_or(known);
        }
        // Symbols are few, and in a wide position one of them does.
        let need = self.need;
        for (byte, symbol) in &need.symbols {
            if let Some(behind) = self.automata.step(at, *byte)
                && leads_on(self, *symbol, behind)
            {
                return Ok(*symbol);
            }
        }
        let mut all: Vec<(u32, Position)> = Vec::new();
        let found = self.any_token(at, |query, next, behind| {
            all.push((next, behind));
            leads_on(query, next, behind)
        });
        if found {
            return Ok(all[all.len() - 1].0);
        }
        let all: Arc<[(u32, Position)]> = all.into();
        if all.len() <= FEW {
            self.memo.bytes += OVERHEAD + size_of_val(&all[..]);
            self.memo.reads.insert(at, Arc::clone(&all));
        }
        Err(all)
    }

    /// Calls `visit` with the tokens that can be read from `at` and the positions behind them, until it answers true.
    /// Answers whether it did. Tokens of fallback included; whether they lead on is for `visit` to say.
    fn any_token(&mut self, at: Position, mut visit: impl FnMut(&mut Self, u32, Position) -> bool) -> bool {
        let (trie, automata) = (self.trie, self.automata);
        let tokenizer = automata.tokenizer;
        for (byte, token) in (0..=255u8).zip(&tokenizer.fallback).filter(|(_, token)| **token != NONE) {
            if let Some(behind) = automata.step_fallback(at, byte)
                && visit(self, *token, behind)
            {
                return true;
            }
        }
        trie.any(
            at,
            |at, byte| automata.step(at, byte),
            |token, behind| tokenizer.is_made(token.0) && visit(self, token.0, behind),
        )
    }

    /// Whether `at` can be completed where `node` of the pieces that are looked up as a whole was reached.
    pub(crate) fn may_precede_node(&mut self, node: u32, at: Position) -> bool {
        let tokenizer = self.automata.tokenizer;
        let whole = &tokenizer.whole;
        if !whole.is_complete(node) && self.is_boundary(at) {
            return true;
        }
        let last = whole.token(node);
        if !self.may_precede(last, at) {
            return false;
        }
        let byte = self.vocabulary.text(TokenId(last)).and_then(|text| text.last().copied());
        if byte.is_some_and(|byte| self.is_hard_behind(byte, at)) {
            return true;
        }
        self.any_token(at, |query, token, behind| {
            tokenizer.neighbours.may_follow(last, token)
                && match whole.child(node, token) {
                    Some(child) => query.may_precede_node(child, behind),
                    None => query.may_precede(token, behind),
                }
        })
    }

    /// Whether `token`, as the first of a piece, leads to `at` and no dead end.
    pub(crate) fn may_begin(&mut self, token: u32, at: Position) -> bool {
        match self.tokenizer().roles[token as usize] {
            Role::Made | Role::Fallback => match self.tokenizer().whole.child(WholePieces::ROOT, token) {
                Some(node) => self.may_precede_node(node, at),
                None => self.may_precede(token, at),
            },
            Role::Whole => self.is_boundary(at),
            Role::Never | Role::Added => false,
        }
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
        let (sure, others) = self.ending(state, &needs);
        let lifted = Arc::new(Lifted { sure, others, needs });
        self.memo.bytes += OVERHEAD + lifted.bytes();
        self.memo.lifted.insert(state, Arc::clone(&lifted));
        lifted
    }

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
        let mut each: Vec<u32> =
            lifted.others.iter().copied().filter(|token| is_in(&ends.made, *token)).collect();
        let mut words: Vec<u32> = Vec::new();
        if let Some(sure) = &lifted.sure {
            words = self.groups(at, &ends, &lifted.needs, sure);
            let left =
                sure.iter().zip(&ends.made).zip(&words).map(|((sure, made), words)| sure & made & !words);
            each.extend(bits(&left.collect::<Vec<u32>>()));
            if each.len() > EACH {
                self.single_groups(at, &ends, &mut each, &mut words);
            }
        }
        each.retain(|token| {
            let behind = automata.run(at, vocabulary.text(TokenId(*token)).unwrap_or_default());
            behind.is_some_and(|behind| self.may_precede(*token, behind))
        });
        for (byte, token) in (0..=255u8).zip(&tokenizer.fallback).filter(|(_, token)| **token != NONE) {
            if let Some(behind) = automata.step_fallback(at, byte)
                && self.may_precede(*token, behind)
            {
                each.push(*token);
            }
        }
        if at.fresh {
            let is_read = |token: &u32| lifted.reads(*token);
            let read = |token: u32| automata.run(at, vocabulary.text(TokenId(token))?);
            let begun = tokenizer.whole.children(WholePieces::ROOT).iter().map(|(token, _)| *token);
            let begun = begun.filter(|token| tokenizer.roles[*token as usize] == Role::Made);
            for token in begun.chain(tokenizer.only_whole.iter().copied()).filter(is_read) {
                let begins = read(token).is_some_and(|behind| self.may_begin(token, behind));
                each.retain(|other| *other != token);
                if let Some(word) = words.get_mut(token as usize / 32) {
                    *word &= !(1 << (token % 32));
                }
                if begins {
                    each.push(token);
                }
            }
        }
        if words.is_empty() && each.len() <= SHORT {
            each.sort_unstable();
            return Row::Short(each.into());
        }
        words.resize(words_for(vocabulary.len()), 0);
        each.iter().for_each(|token| words[*token as usize / 32] |= 1 << (token % 32));
        Row::new(words)
    }

    /// The tokens out of `sure` that certainly lead on from `at`: those of groups that need no more than a byte out of each
    /// of `needs`.
    fn groups(&self, at: Position, ends: &EndsOf, needs: &[ByteSet], sure: &[u32]) -> Vec<u32> {
        let mut words = vec![0u32; sure.len()];
        let is_met = |need: &ByteSet| needs.iter().any(|met| met.and(need) == *met);
        let is_sure = |group: &&Group| group.needs.iter().all(is_met);
        for group in ends.groups.iter().filter(is_sure).map(|group| &group.tokens).chain([&ends.closed]) {
            words.iter_mut().zip(group).for_each(|(word, group)| *word |= group);
        }
        words.iter_mut().zip(sure).for_each(|(word, sure)| *word &= sure);
        self.leave_plain(at, &mut words);
        words
    }

    /// Leaves only the tokens that no automaton but the splitting and the DFA refuses from `at`.
    fn leave_plain(&self, at: Position, words: &mut [u32]) {
        let plain = self.automata.tokenizer.plain(self.vocabulary);
        // Where an added token might end with the next byte, a token may begin with such a byte.
        if !self.certain.is_calm(at.text) {
            words.iter_mut().zip(&plain.without_ends).for_each(|(word, plain)| *word &= plain);
        }
        if self.composes() {
            words.iter_mut().zip(&plain.steady).for_each(|(word, plain)| *word &= plain);
        }
    }

    /// Moves tokens from `each` to `words` that certainly lead on from `at`, large group by large group.
    fn single_groups(&mut self, at: Position, ends: &EndsOf, each: &mut Vec<u32>, words: &mut [u32]) {
        for group in &ends.groups {
            if each.iter().filter(|token| is_in(&group.tokens, **token)).count() <= EACH {
                continue;
            }
            let (sure, _) = self.ending(at.regex, &group.needs);
            let Some(mut sure) = sure else { continue };
            sure.iter_mut().zip(&group.tokens).for_each(|(sure, group)| *sure &= group);
            self.leave_plain(at, &mut sure);
            each.retain(|token| !is_in(&sure, *token));
            words.iter_mut().zip(&sure).for_each(|(word, sure)| *word |= sure);
        }
    }

    /// Whether texts are brought into normalisation form C that the constraint accepts.
    fn composes(&self) -> bool {
        self.automata.nfc.next.len() > 1
    }

    /// The tokens that the DFA reads from `state`, in two parts: those to where it accepts or certainly goes on with some
    /// byte out of each of these sets, or, inside a character, [takes whatever ends it](Self::is_free), one bit each; and
    /// others.
    fn ending(&mut self, state: StateId, needs: &[ByteSet]) -> (Option<Box<[u32]>>, Box<[u32]>) {
        let len = self.vocabulary.len();
        let mut words = vec![0u32; words_for(len)];
        let table = self.automata.dfa.dense();
        let mut reader = Ending { table, needs, is_sure: false, others: Vec::new(), query: self };
        reader.query.trie.fill(&mut reader, state.0, MaskMut::new_cleared(&mut words, len));
        let Ending { is_sure, mut others, .. } = reader;
        others.sort_unstable();
        others.dedup();
        (is_sure.then(|| words.into()), others.into())
    }
}

/// Tokens that a DFA reads from one of its states.
struct Lifted {
    /// One bit for each of those that end where it certainly goes on; `None` if there are none.
    sure: Option<Box<[u32]>>,
    /// The others, in ascending order.
    others: Box<[u32]>,
    /// What it is sure of: that it goes on with a byte out of each of these sets, or accepts.
    needs: Vec<ByteSet>,
}

impl Lifted {
    fn reads(&self, token: u32) -> bool {
        self.sure.as_ref().is_some_and(|words| is_in(words, token))
            || self.others.binary_search(&token).is_ok()
    }

    fn bytes(&self) -> usize {
        self.sure.as_ref().map_or(0, |words| size_of_val(&words[..])) + size_of_val(&self.others[..])
    }
}

fn is_in(words: &[u32], token: u32) -> bool {
    words[token as usize / 32] >> (token % 32) & 1 != 0
}

/// The DFA, read by tokens: they are allowed where it is certain that it goes on, and the others are noted.
struct Ending<'a, 'q, 'c> {
    table: DenseTable<'a>,
    needs: &'a [ByteSet],
    /// Whether something is allowed.
    is_sure: bool,
    others: Vec<u32>,
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

    fn admits(&mut self, _: u32, token: TokenId) -> bool {
        self.others.push(token.0);
        false
    }
}
