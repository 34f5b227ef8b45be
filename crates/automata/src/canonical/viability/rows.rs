//! The tokens of a position: which can be read from there and lead on, whatever stands in front.
//!
//! A row is no walk through the product of the automata. The tokens that the DFA reads are one walk of the DFA alone, kept for
//! all positions of that state, which tells apart what the DFA certainly goes on with behind them: a few kinds of tokens, a mask or a
//! list each. The tokens that the tokenizer's splitting reads, and where they end, are known once for all constraints
//! ([`crate::canonical::index::ends`]). Tokens of both are looked at where they end:
//!
//! - all tokens of a kind at once, where they end in a state of the splitting from which what the kind is sure of leads on;
//! - else token by token. What decides is mostly the pair of states behind the token, beside its last byte; pairs are few,
//!   and each is asked about once;
//! - a few tokens are left for the search ([`Query::may_precede`]). In a narrow position, as in a list of words, they are nearly
//!   all: then only those are searched for that may follow the token in front, as long as one stands there only.
//!
//! Tried instead:
//!
//! - The product built whole beforehand. Its masks take about as long, and a bounded string takes 3 seconds to build.
//! - The product made as it is walked. In a wide position it makes two thousand states for each value of a counter, which
//!   differ in the splitting and in the place inside a character.
//! - Runs of blanks, of which no state says that a letter may follow, looked at one by one: 300 tokens of a wide row, and
//!   a third of its time. Now what a kind is sure of says it ([`Certain::soons`](crate::canonical::index::certain::Certain::soons)).
//! - A walk that is sure of one thing, another for each large group of tokens that needs something else, and all of the
//!   groups met with it: two to four walks and thirty passes over masks.

use std::{borrow::Cow, sync::Arc};

use rustc_hash::FxHashMap as Map;
use unskew_core::{TokenId, WORD_BITS, words_for};
use unskew_trie::{ByteAutomaton, ByteSet, DEAD, DenseTable, KindTokens, Verdict};

use super::{
    by_need::{OVERHEAD, Query},
    position::Position,
};
use crate::StateId;
use crate::canonical::{
    index::{
        certain::only_place,
        ends::{End, EndsOf},
    },
    merges::derivation::NONE,
    token_set::{SHORT, TokenSet, bits, is_in, set},
};

/// What a walk was so often sure of where tokens end makes a kind of its own.
const OFTEN: u32 = 8;

/// So many different things that a walk is sure of are told apart.
const SEEN: usize = 64;

/// So many words of masks are looked at together.
const CHUNK: usize = 16;

/// The most kinds of a walk.
const KINDS: usize = 16;

/// Up to so many bytes are few.
const NARROW: usize = 4;

/// Tokens that a DFA reads from one of its states.
pub(crate) struct Lifted {
    /// Those that end where it certainly goes on, by kind.
    sure: Vec<(Kind, KindTokens)>,
    /// The others, with the states behind them, some perhaps several times.
    others: Box<[(u32, StateId)]>,
}

/// What the DFA is sure of behind tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// That the text may end, or, inside a character, that it takes whatever ends it.
    Any,
    /// To go on with any of these bytes, and with these of [`Certain::soons`](crate::canonical::index::certain::Certain::soons), one bit each.
    Bytes(ByteSet, u8),
}

impl Lifted {
    fn bytes(&self) -> usize {
        let sure = self.sure.iter().map(|(_, tokens)| match tokens {
            KindTokens::Few(few) => size_of_val(&few[..]),
            KindTokens::Many(mask) => size_of_val(mask.words()),
        });
        sure.sum::<usize>() + size_of_val(&self.others[..])
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

/// The tokens of a row that certainly lead on, and others that merges make.
#[derive(Default)]
struct Sure {
    /// One bit each, or empty.
    words: Vec<u32>,
    /// More of them.
    few: Vec<u32>,
    left: Vec<u32>,
}

impl Sure {
    /// Adds those of `tokens` that merges `made`: they lead on if they are in `leading`, and else are left. One bit each.
    #[inline(never)] // In its caller it is not vectorised.
    fn add_words(&mut self, tokens: &[u32], made: &[u32], leading: &[u32]) {
        self.words.resize(tokens.len(), 0);
        // Chunk by chunk, as mostly nothing is left; of a length that the compiler knows.
        let (chunks, last) = self.words.as_chunks_mut::<CHUNK>();
        let (tokens, last_tokens) = tokens.as_chunks::<CHUNK>();
        let (made, last_made) = made.as_chunks::<CHUNK>();
        let (leading, last_leading) = leading.as_chunks::<CHUNK>();
        let mut first = 0;
        for (((words, tokens), made), leading) in chunks.iter_mut().zip(tokens).zip(made).zip(leading) {
            add_chunk(words, tokens, made, leading, first, &mut self.left);
            first += (CHUNK * WORD_BITS) as u32;
        }
        add_chunk(last, last_tokens, last_made, last_leading, first, &mut self.left);
    }
}

/// As [`Sure::add_words`], for up to [`CHUNK`] words, the tokens of which begin at `first`.
#[inline(always)]
fn add_chunk(
    words: &mut [u32],
    tokens: &[u32],
    made: &[u32],
    leading: &[u32],
    first: u32,
    left: &mut Vec<u32>,
) {
    // To compare with zeros is a call of a function, and takes longer than all the rest.
    if tokens.iter().fold(0, |any, word| any | word) == 0 {
        return;
    }
    let mut any = 0;
    for (((word, tokens), made), leading) in words.iter_mut().zip(tokens).zip(made).zip(leading) {
        *word |= tokens & leading;
        any |= tokens & made & !leading;
    }
    if any != 0 {
        let mut rest = [0u32; CHUNK];
        for (((rest, tokens), made), leading) in rest.iter_mut().zip(tokens).zip(made).zip(leading) {
            *rest = tokens & made & !leading;
        }
        left.extend(bits(&rest).map(|token| first + token));
    }
}

impl<'a> Query<'a> {
    /// Calls `read` with the tokens that can be read from `at` and lead on, whatever stands in front; added tokens are not
    /// among them. With the token in front, if there is one in the piece, some that may not follow it may be missing.
    pub(crate) fn with_row<T>(
        &mut self,
        at: Position,
        front: Option<u32>,
        read: impl FnOnce(&TokenSet) -> T,
    ) -> T {
        if let Some(row) = self.memo.rows.get(&at) {
            return read(row);
        }
        // Where one comes again with something else in front, it is worth to know all.
        let front = front.filter(|_| self.memo.begun.get(&at).is_none());
        self.memo.begun.insert(at, (), 0);
        let (row, is_whole) = self.new_row(at, front);
        let answer = read(&row);
        if is_whole {
            let (TokenSet::Short(list) | TokenSet::Long(list)) = &row;
            let bytes = OVERHEAD + size_of_val(&list[..]);
            self.memo.rows.insert(at, row, bytes);
        }
        answer
    }

    /// The row of `at`, and whether it is whole: only as far as it follows `front`, where much is uncertain.
    fn new_row(&mut self, at: Position, front: Option<u32>) -> (TokenSet, bool) {
        let (automata, index) = (self.automata, self.index);
        let (vocabulary, plain) = (&*index.vocabulary, index.plain());
        let ends = index.ends(at.split, at.fresh);
        let lifted = self.lifted(at.regex);
        let is_begun = |token: u32| at.fresh && plain.is_begun(token);

        let Sure { mut words, few: mut found, left } = self.surely_leading(at, &ends, &lifted);
        let is_narrow = lifted.sure.iter().all(|(_, tokens)| matches!(tokens, KindTokens::Few(_)));
        let front = front.filter(|_| is_narrow);
        let mut pairs = Pairs { at, front, is_whole: true, last: None, known: Map::default() };
        let text_of = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut look = |query: &mut Self, token: u32, regex: StateId, end: End| {
            let leads_on = match is_begun(token) {
                true => automata.run(at, text_of(token)).is_some_and(|behind| query.may_begin(token, behind)),
                false => pairs.leads_on(query, token, regex, end),
            };
            if leads_on {
                found.push(token);
            }
        };
        for token in left {
            if let Some(regex) = automata.dfa.run(at.regex, text_of(token)) {
                look(self, token, regex, ends.end[token as usize]);
            }
        }
        let others = lifted.others.iter().copied().filter(|(token, _)| is_in(&ends.made, *token));
        let mut others = others.map(|(token, regex)| (token, regex, ends.end[token as usize]));
        // Where they end is looked up for some at once: mostly that is out of the caches, and these misses wait together.
        let mut some = [(0, at.regex, End::NONE); CHUNK];
        loop {
            let count = some.iter_mut().zip(&mut others).map(|(place, other)| *place = other).count();
            for (token, regex, end) in some.iter().copied().take(count) {
                look(self, token, regex, end);
            }
            if count < CHUNK {
                break;
            }
        }
        let is_whole = pairs.is_whole;
        let fallback: Vec<(u32, Position)> = self.fallback(at).collect();
        for (token, behind) in fallback {
            if self.may_precede(token, behind) {
                found.push(token);
            }
        }
        if words.is_empty() && found.len() <= 2 * SHORT {
            found.sort_unstable();
            found.dedup();
            if found.len() <= SHORT {
                return (TokenSet::Short(found.into()), is_whole);
            }
        }
        words.resize(words_for(vocabulary.len()), 0);
        found.iter().for_each(|token| set(&mut words, *token));
        (TokenSet::new(words), is_whole)
    }

    /// The tokens that the DFA reads from `state`.
    fn lifted(&mut self, state: StateId) -> Arc<Lifted> {
        if let Some(known) = self.memo.lifted.get(&state) {
            return Arc::clone(known);
        }
        let states = self.automata.dfa.len();
        let mut reader = Ending {
            table: self.automata.dfa.dense(),
            known: vec![NOTHING; states],
            seen: Vec::new(),
            kinds: vec![Kind::Any],
            others: Vec::with_capacity(256),
            query: self,
        };
        let sets = reader.query.index.trie.fill_kinds(&mut reader, state.0);
        let Ending { kinds, others, .. } = reader;
        let sure = kinds.into_iter().zip(sets).collect();
        let lifted = Arc::new(Lifted { sure, others: others.into() });
        self.memo.lifted.insert(state, Arc::clone(&lifted), OVERHEAD + lifted.bytes());
        lifted
    }

    /// The tokens out of `lifted` that certainly lead on from `at`.
    fn surely_leading(&mut self, at: Position, ends: &EndsOf, lifted: &Lifted) -> Sure {
        let mut sure = Sure::default();
        let plain = self.index.plain();
        // Where an added token might end with the next byte, a token may begin with such a byte.
        let without_ends = (!self.certain.is_calm(at.text)).then_some(&plain.without_ends[..]);
        let steady = self.composes().then_some(&plain.steady[..]);
        for (kind, tokens) in &lifted.sure {
            let met;
            let leading: &[u32] = match kind {
                Kind::Any => &ends.leading,
                Kind::Bytes(bytes, soons) => {
                    met = ends.leading_with(bytes, *soons);
                    &met
                }
            };
            match tokens {
                KindTokens::Few(few) => {
                    for TokenId(token) in few.iter().copied().filter(|token| is_in(&ends.made, token.0)) {
                        let mut all = [Some(leading), without_ends, steady].into_iter().flatten();
                        let is_sure = all.all(|words| is_in(words, token));
                        if is_sure { &mut sure.few } else { &mut sure.left }.push(token);
                    }
                }
                KindTokens::Many(tokens) => {
                    let mut leading = Cow::Borrowed(leading);
                    for only in [without_ends, steady].into_iter().flatten() {
                        leading.to_mut().iter_mut().zip(only).for_each(|(word, only)| *word &= only);
                    }
                    sure.add_words(tokens.words(), &ends.made, &leading);
                }
            }
        }
        sure
    }

    /// A token that may follow `front` and is settled to lead on from `at`; or else all that may follow and can be read, and
    /// the positions behind them. For wide positions: it takes a walk of the DFA, and the forbidden neighbours of `front`.
    pub(crate) fn follower(&mut self, front: u32, at: Position) -> Result<u32, Vec<(u32, Position)>> {
        let (automata, index) = (self.automata, self.index);
        let vocabulary = &*index.vocabulary;
        let text_of = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut reads: Vec<(u32, Position)> = Vec::new();
        let fallback: Vec<(u32, Position)> = self.fallback(at).collect();
        for (token, behind) in fallback {
            if !self.may_follow(front, token) {
                continue;
            }
            match self.settled(token, behind) {
                Some(true) => return Ok(token),
                Some(false) => {}
                None => reads.push((token, behind)),
            }
        }
        let followers = index.followers(front, at.split);
        // Inside a character most of them begin with a byte that does not lead on.
        let read = self.read_from(at.regex);
        for token in followers.beginning_with(read) {
            let Some(behind) = automata.run(at, text_of(token)) else { continue };
            match self.settled(token, behind) {
                Some(true) => return Ok(token),
                None if followers.is_all => reads.push((token, behind)),
                _ => {}
            }
        }
        if followers.is_all {
            return Err(reads);
        }
        let ends = index.ends(at.split, at.fresh);
        let lifted = self.lifted(at.regex);
        let Sure { words: mut sure, few, left } = self.surely_leading(at, &ends, &lifted);
        sure.resize(ends.made.len(), 0);
        few.iter().for_each(|token| set(&mut sure, *token));
        let mut read = sure.clone();
        left.iter().for_each(|token| set(&mut read, *token));
        let others = lifted.others.iter().map(|(token, _)| *token).filter(|token| is_in(&ends.made, *token));
        others.for_each(|token| set(&mut read, token));
        index.remove_forbidden(front, &mut sure);
        index.remove_forbidden(front, &mut read);
        if let Some(follower) = bits(&sure).next() {
            return Ok(follower);
        }
        for token in bits(&read) {
            let Some(behind) = automata.run(at, text_of(token)) else { continue };
            match self.settled(token, behind) {
                Some(true) => return Ok(token),
                Some(false) => {}
                None => reads.push((token, behind)),
            }
        }
        Err(reads)
    }

    /// Which of [`Certain::soons`](crate::canonical::index::certain::Certain::soons) a state of the DFA certainly goes on with, one bit each.
    fn soons(&self, state: StateId) -> u8 {
        let (need, row) = (self.need, self.automata.dfa.table().row(state));
        need.soons.iter().enumerate().fold(0, |soons, (at, list)| {
            let goes_on = list.iter().any(|(class, goes)| {
                let next = row[usize::from(*class)];
                next != DEAD && goes.meets(self.sure(StateId(next)))
            });
            soons | u8::from(goes_on) << at
        })
    }

    /// The tokens of fallback that can be read from `at`, and the positions behind them.
    pub(crate) fn fallback(&self, at: Position) -> impl Iterator<Item = (u32, Position)> + use<'a> {
        let automata = self.automata;
        // Most tokenizers have none, and this is asked of every position.
        let all: &[u32] = match automata.tokenizer.split.fallback.is_empty() {
            true => &[],
            false => &automata.tokenizer.fallback,
        };
        let tokens = (0..=255u8).zip(all).filter(|(_, token)| **token != NONE);
        tokens.filter_map(move |(byte, token)| Some((*token, automata.step_fallback(at, byte)?)))
    }

    /// What is known of the position that `at` is.
    fn pair(&mut self, at: Position) -> Pair {
        let is_boundary = self.is_boundary(at);
        let goes = self.certain.goes[at.split as usize].and(self.sure(at.regex));
        Pair { is_boundary, is_alive: is_boundary || self.is_alive(at), goes }
    }

    /// Whether texts are brought into normalisation form C that the constraint accepts.
    pub(crate) fn composes(&self) -> bool {
        self.automata.form.next.len() > 1
    }
}

/// Behind which tokens of a row one is where, and what is known of that.
struct Pairs {
    at: Position,
    /// What stands in front, if tokens that may not follow it may be left out.
    front: Option<u32>,
    /// Whether none was left out.
    is_whole: bool,
    /// By states of the DFA and of the splitting.
    known: Map<(StateId, u32), Pair>,
    /// What was asked for last: tokens of one subtree of the trie mostly end alike.
    last: Option<(StateId, u32, Pair)>,
}

impl Pairs {
    /// Whether `token`, which the splitting reads to `end` and which leads the DFA to `regex`, leads on.
    fn leads_on(&mut self, query: &mut Query<'_>, token: u32, regex: StateId, end: End) -> bool {
        // The other two automata are mostly where they were.
        let returns = end.returns() && self.at.text == query.automata.tokenizer.text.start;
        let split = end.state().filter(|_| returns && !query.composes());
        let Some(split) = split else {
            let text = query.index.vocabulary.text(TokenId(token)).unwrap_or_default();
            return query.automata.run(self.at, text).is_some_and(|behind| query.may_precede(token, behind));
        };
        let behind = Position { regex, split, fresh: false, ..self.at };
        if query.certain.places[split as usize] != 0 {
            return query.may_precede(token, behind);
        }
        let pair = match self.last {
            Some((last_regex, last_split, pair)) if (last_regex, last_split) == (regex, split) => pair,
            _ => *self.known.entry((regex, split)).or_insert_with(|| query.pair(behind)),
        };
        self.last = Some((regex, split, pair));
        let hard = || query.facts.hard.behind(end.last());
        if pair.is_boundary || pair.is_alive && !pair.goes.and(&hard()).is_empty() {
            return true;
        }
        if !pair.is_alive {
            return false;
        }
        // It takes a search.
        if self.front.is_some_and(|front| !query.may_follow(front, token)) {
            self.is_whole = false;
            return false;
        }
        query.may_precede_by_search(token, behind)
    }
}

/// The DFA, read by tokens: they are allowed where it is certain that it goes on, and the others are noted.
struct Ending<'a, 'q, 'c> {
    table: DenseTable<'a>,
    /// By state.
    known: Vec<u8>,
    /// What states were sure of, and how often tokens were seen to end in one.
    seen: Vec<((ByteSet, u8), u32)>,
    kinds: Vec<Kind>,
    others: Vec<(u32, StateId)>,
    query: &'q mut Query<'c>,
}

/// What is known of a state in a walk: nothing, or that each token is to be looked at, or the kind.
const NOTHING: u8 = 0;
const EACH: u8 = 1;
const FIRST_KIND: u8 = 2;

impl Ending<'_, '_, '_> {
    /// What is known now of a state of which nothing was.
    #[cold]
    fn look(&mut self, state: StateId) -> u8 {
        match self.query.need.places.get(state.index()).copied().unwrap_or(1) {
            places if places & 1 != 0 => {
                if self.query.automata.dfa.is_accepting(state) {
                    return FIRST_KIND;
                }
                let sure = *self.query.sure(state);
                if sure.is_empty() {
                    return EACH;
                }
                let soons = self.query.soons(state);
                let at = self.seen.iter().position(|(seen, _)| *seen == (sure, soons)).unwrap_or_else(|| {
                    // Where much may follow, much was read.
                    let count = if sure.iter().nth(NARROW).is_some() { OFTEN } else { 0 };
                    self.seen.push(((sure, soons), count));
                    self.seen.len() - 1
                });
                let (_, count) = &mut self.seen[at];
                *count += 1;
                let kind = self.kinds.iter().position(|kind| *kind == Kind::Bytes(sure, soons));
                match kind {
                    Some(kind) => FIRST_KIND + u8::try_from(kind).unwrap_or(0),
                    None if self.kinds.len() >= KINDS || at >= SEEN => EACH,
                    None if *count <= OFTEN => NOTHING,
                    None => {
                        self.kinds.push(Kind::Bytes(sure, soons));
                        FIRST_KIND + u8::try_from(self.kinds.len() - 1).unwrap_or(0)
                    }
                }
            }
            // In a place that is not known, nothing is certain.
            places => match only_place(places) {
                0 => EACH,
                place if self.query.is_free(state, place) => FIRST_KIND,
                _ => EACH,
            },
        }
    }
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
        let mut known = self.known[state as usize];
        if known == NOTHING {
            known = self.look(StateId(state));
            self.known[state as usize] = known;
        }
        if known >= FIRST_KIND { Verdict::Kind(known - FIRST_KIND) } else { Verdict::Each }
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        self.others.push((token.0, StateId(state)));
        false
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{Constraint, Merge, MergeTable, TokenMask, Tokenization, Vocabulary};
    use unskew_trie::TokenTrie;

    use super::*;
    use crate::Limits;
    use crate::canonical::{CanonicalConstraint, CanonicalIndex, TokenizerAutomaton};

    /// Many symbols can be read behind a token, none may follow it, and nothing is certain behind any.
    #[test]
    fn a_wide_position_may_be_sure_of_nothing() {
        let mut builder = Vocabulary::builder();
        (0..=255u8).for_each(|byte| _ = builder.text(&[byte]));
        let id = |byte: u8| TokenId(u32::from(byte));
        let merge = |byte| Merge { left: id(b'x'), right: id(byte), result: builder.text(&[b'x', byte]) };
        let merges: Vec<Merge> = (b'a'..=b't').map(merge).collect();
        let expected: Vec<TokenId> = merges.iter().map(|merge| merge.result).collect();
        let mut tokenization = Tokenization::default();
        tokenization.merges = MergeTable::new(merges).unwrap();
        let vocabulary = Arc::new(builder.build().unwrap());
        let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
        let tokenizer = Arc::new(TokenizerAutomaton::new(&vocabulary, &tokenization).unwrap());
        let ways: Vec<String> = (b'a'..=b't')
            .map(|byte| [byte, byte.to_ascii_uppercase()].map(char::from).iter().collect())
            .collect();
        let pattern = format!("x({})", ways.join("|"));
        let index = Arc::new(CanonicalIndex::new(tokenizer, trie).unwrap());
        let constraint = CanonicalConstraint::new(&pattern, &index, &Limits::default()).unwrap();
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(&mut constraint.scratch(), &constraint.start(), mask.as_mut());
        assert_eq!(mask.ids().collect::<Vec<TokenId>>(), expected);
    }
}
