//! The token set of a position: the tokens that can be read from it and lead to live positions, for any left
//! context.
//!
//! A token set is not computed by a walk through the product of the automata. One walk of the DFA alone finds the
//! tokens that the DFA reads. Its result is kept for all positions with that DFA state. The walk partitions tokens
//! by the look-ahead set of the state in which they end, into a few kinds, each a mask or a list. The tokens that
//! the splitter reads, and their end states, are cached for all constraints
//! ([`crate::canonical::index::split_transitions`]). The tokens of both sets are decided by their ends:
//!
//! - All tokens of a kind are accepted at once if they end in a splitter state in which the look-ahead set of the
//!   kind is enough.
//! - The others are tested token by token. The pair of states after the token decides mostly, together with the
//!   token's last byte. Pairs are few, and each is tested once.
//! - A few tokens are left for the search ([`Query::may_precede`]). In a narrow position, for example in a list of
//!   words, these are nearly all tokens.
//!
//! Tried instead:
//!
//! - The whole product built in advance. Its masks take about as long, and a bounded string takes 3 seconds to
//!   build.
//! - The product built during the walk. In a wide position it has two thousand states for each value of a counter,
//!   which differ in the splitter's state and in the UTF-8 state.
//! - Runs of blanks decided one by one, since no splitter state after them implies that a letter may follow. There
//!   are 300 of these tokens in a wide set, and they took a third of its time. Now the look-ahead of a kind covers
//!   them
//!   ([`SplitLiveness::lookahead2_lists`](crate::canonical::index::split_liveness::SplitLiveness::lookahead2_lists)).
//! - A walk with one look-ahead set, then another for each large group of tokens that needs a different set, and all
//!   of the groups tested: two to four walks and thirty passes over masks.

use std::{borrow::Cow, fmt, sync::Arc};

use rustc_hash::FxHashMap as Map;
use smallvec::SmallVec;
use unskew_core::{MaskMut, TokenId, TokenMask, WORD_BITS, words_for};
use unskew_trie::{ByteAutomaton, ByteSet, DEAD, KindTokens, Verdict};

use super::{
    language::LazyDfa,
    lazy_product::{OVERHEAD, Query},
    position::Position,
};
use crate::{
    StateId,
    canonical::{
        index::{
            split_liveness::only_place,
            split_transitions::{TokenTarget, TokenTargets},
        },
        merges::derivation::NONE,
        token_set::{SHORT_LIST, TokenSet, bits, is_in, set},
    },
    ids::SplitState,
};

/// The number of token ends with one look-ahead set after which the set becomes a kind.
const OFTEN: u32 = 8;

/// The most look-ahead sets that a walk distinguishes.
const SEEN: usize = 64;

/// The number of mask words that are processed together.
const CHUNK: usize = 16;

/// The most kinds of a walk.
const LOOKAHEADS: usize = 16;

/// The most bytes of a narrow look-ahead set.
const NARROW: usize = 4;

/// The tokens that an automaton reads from one of its states.
pub struct TokensByLookahead {
    /// The tokens that end in a state with a known look-ahead set.
    parts: SmallVec<[Arc<PartTokens>; 2]>,
    /// The other tokens, with the states after them. A token may occur several times.
    others: Box<[(u32, StateId)]>,
}

/// Tokens by what may follow them: those that a [part of texts](super::super::TextPart) reads from one of its states,
/// without those after which nothing is certain.
pub struct PartTokens {
    known: Vec<(Lookahead, KindTokens)>,
}

impl fmt::Debug for TokensByLookahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, others) = (self.parts.len(), self.others.len());
        f.debug_struct("TokensByLookahead").field("parts", &parts).field("others", &others).finish()
    }
}

impl fmt::Debug for PartTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartTokens").field("kinds", &self.known.len()).finish_non_exhaustive()
    }
}

/// The look-ahead set of the DFA after tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lookahead {
    /// The text may end; or, within a character, every completion of the character is read.
    Any,
    /// The DFA can certainly continue with any of these bytes, and with these of
    /// [`SplitLiveness::lookahead2_lists`](crate::canonical::index::split_liveness::SplitLiveness::lookahead2_lists),
    /// one bit each.
    Bytes(ByteSet, u8),
}

impl TokensByLookahead {
    /// The tokens of `parts`, and `others` with the states after them.
    pub fn new(
        parts: impl IntoIterator<Item = Arc<PartTokens>>,
        others: impl IntoIterator<Item = (TokenId, StateId)>,
    ) -> Self {
        let others = others.into_iter().map(|(token, state)| (token.0, state)).collect();
        Self { parts: parts.into_iter().collect(), others }
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.memory_usage()).sum::<usize>() + size_of_val(&self.others[..])
    }
}

impl PartTokens {
    /// Adds the tokens to `mask`.
    pub fn add_to(&self, mask: &mut MaskMut<'_>) {
        for (_, tokens) in &self.known {
            match tokens {
                KindTokens::Few(few) => few.iter().for_each(|token| mask.insert(*token)),
                KindTokens::Many(many) => mask.union(TokenMask::as_ref(many)),
            }
        }
    }

    /// The tokens for which `is_kept` holds.
    pub fn filtered(&self, is_kept: impl Fn(TokenId) -> bool) -> Self {
        let filtered = |tokens: &KindTokens| match tokens {
            KindTokens::Few(few) => {
                KindTokens::Few(few.iter().copied().filter(|token| is_kept(*token)).collect())
            }
            KindTokens::Many(many) => {
                let mut kept = many.clone();
                many.ids().filter(|token| !is_kept(*token)).for_each(|token| kept.as_mut().remove(token));
                KindTokens::Many(kept)
            }
        };
        Self { known: self.known.iter().map(|(lookahead, tokens)| (*lookahead, filtered(tokens))).collect() }
    }

    /// The memory in bytes.
    pub fn memory_usage(&self) -> usize {
        let known = self.known.iter().map(|(_, tokens)| match tokens {
            KindTokens::Few(few) => size_of_val(&few[..]),
            KindTokens::Many(mask) => size_of_val(mask.words()),
        });
        known.sum::<usize>()
    }
}

/// Facts about a position between characters, for any left context.
#[derive(Clone, Copy)]
struct PairFacts {
    is_boundary: bool,
    is_live: bool,
    /// The bytes with which it can certainly continue in its piece.
    live_next: ByteSet,
}

/// The tokens of a set that are certainly viable, and the other tokens that merges create.
#[derive(Default)]
struct Accepted {
    /// One bit each, or empty.
    words: Vec<u32>,
    /// More of them, as a list.
    few: Vec<u32>,
    /// The tokens that are left to be tested.
    left: Vec<u32>,
}

impl Accepted {
    /// Adds the tokens of `tokens` that are in `viable`. The other ones that are in `merged` go to `left`. One bit
    /// each.
    #[inline(never)] // In its caller it is not vectorised.
    fn add_words(&mut self, tokens: &[u32], merged: &[u32], viable: &[u32]) {
        self.words.resize(tokens.len(), 0);
        // In chunks of constant length, since mostly nothing is left.
        let (chunks, last) = self.words.as_chunks_mut::<CHUNK>();
        let (tokens, last_tokens) = tokens.as_chunks::<CHUNK>();
        let (merged, last_merged) = merged.as_chunks::<CHUNK>();
        let (viable, last_viable) = viable.as_chunks::<CHUNK>();
        let mut first = 0;
        for (((words, tokens), merged), viable) in chunks.iter_mut().zip(tokens).zip(merged).zip(viable) {
            add_chunk(words, tokens, merged, viable, first, &mut self.left);
            first += (CHUNK * WORD_BITS) as u32;
        }
        add_chunk(last, last_tokens, last_merged, last_viable, first, &mut self.left);
    }
}

/// As [`Accepted::add_words`], for up to [`CHUNK`] words. Their first token is `first`.
#[inline(always)]
fn add_chunk(
    words: &mut [u32],
    tokens: &[u32],
    merged: &[u32],
    viable: &[u32],
    first: u32,
    left: &mut Vec<u32>,
) {
    // A comparison of slices with zeros calls a function and takes longer than all other work.
    if tokens.iter().fold(0, |any, word| any | word) == 0 {
        return;
    }
    let mut any = 0;
    for (((word, tokens), merged), viable) in words.iter_mut().zip(tokens).zip(merged).zip(viable) {
        *word |= tokens & viable;
        any |= tokens & merged & !viable;
    }
    if any != 0 {
        let mut rest = [0u32; CHUNK];
        for (((rest, tokens), merged), viable) in rest.iter_mut().zip(tokens).zip(merged).zip(viable) {
            *rest = tokens & merged & !viable;
        }
        left.extend(bits(&rest).map(|token| first + token));
    }
}

impl<'a, L: LazyDfa> Query<'a, L> {
    /// The tokens that can be read from `at` and are viable for any left context, without added tokens.
    pub(super) fn token_set(&mut self, at: Position) -> TokenSet {
        let (automata, index) = (self.automata, self.index);
        let (vocabulary, properties) = (&*index.vocabulary, index.properties());
        let targets = index.targets(at.split, at.at_piece_start);
        let by_lookahead = self.tokens_by_lookahead(at.regex);
        let starts_whole = |token: u32| at.at_piece_start && properties.starts_whole(token);

        let Accepted { mut words, few: mut found, left } = self.accepted_at_once(at, &targets, &by_lookahead);
        let mut pairs = PairCache { at, last: None, known: Map::default() };
        let text_of = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut look = |query: &mut Self, token: u32, regex: StateId, end: TokenTarget| {
            let is_viable = match starts_whole(token) {
                true => automata.run(at, text_of(token)).is_some_and(|after| query.may_begin(token, after)),
                false => pairs.is_viable(query, token, regex, end),
            };
            if is_viable {
                found.push(token);
            }
        };
        for token in left {
            if let Some(regex) = automata.language.run(at.regex, text_of(token)) {
                look(self, token, regex, targets.target[token as usize]);
            }
        }
        let others = by_lookahead.others.iter().copied().filter(|(token, _)| is_in(&targets.merged, *token));
        for (token, regex) in others {
            look(self, token, regex, targets.target[token as usize]);
        }
        let fallback: Vec<(u32, Position)> = self.fallback(at).collect();
        for (token, after) in fallback {
            if self.may_precede(token, after) {
                found.push(token);
            }
        }
        if words.is_empty() && found.len() <= 2 * SHORT_LIST {
            found.sort_unstable();
            found.dedup();
            if found.len() <= SHORT_LIST {
                return TokenSet::Short(found.into());
            }
        }
        words.resize(words_for(vocabulary.len()), 0);
        found.iter().for_each(|token| set(&mut words, *token));
        TokenSet::new(words)
    }

    /// The tokens that the DFA reads from `state`, cached.
    fn tokens_by_lookahead(&mut self, state: StateId) -> Arc<TokensByLookahead> {
        if let Some(known) = self.memo.tokens_by_lookahead.get(&state) {
            return Arc::clone(known);
        }
        let by_lookahead = Arc::new(match self.automata.language.tokens(state) {
            Some(tokens) => tokens,
            None => {
                let (part, others) = self.walk_by_lookahead(state);
                TokensByLookahead { parts: SmallVec::from_iter([Arc::new(part)]), others: others.into() }
            }
        });
        self.memo.tokens_by_lookahead.insert(
            state,
            Arc::clone(&by_lookahead),
            OVERHEAD + by_lookahead.bytes(),
        );
        by_lookahead
    }

    /// A walk over the vocabulary from `state`: the tokens with a known look-ahead set, and the others with the
    /// states after them.
    pub(crate) fn walk_by_lookahead(&mut self, state: StateId) -> (PartTokens, Vec<(u32, StateId)>) {
        let mut reader = LookaheadWalk {
            known: Vec::new(),
            seen: Vec::new(),
            lookaheads: vec![Lookahead::Any],
            others: Vec::with_capacity(256),
            query: self,
        };
        let sets = reader.query.index.trie.fill_kinds(&mut reader, state.0);
        let LookaheadWalk { lookaheads, others, .. } = reader;
        (PartTokens { known: lookaheads.into_iter().zip(sets).collect() }, others)
    }

    /// The tokens of `by_lookahead` that are certainly viable from `at`, and the tokens left.
    fn accepted_at_once(
        &mut self,
        at: Position,
        targets: &TokenTargets,
        by_lookahead: &TokensByLookahead,
    ) -> Accepted {
        let mut accepted = Accepted::default();
        let properties = self.index.properties();
        // If an added token might end with the next byte, only tokens without bytes that end added tokens are
        // certain.
        let without_ends = (!self.liveness.is_calm(at.text)).then_some(&properties.without_ends[..]);
        let steady = self.composes().then_some(&properties.steady[..]);
        for (lookahead, tokens) in by_lookahead.parts.iter().flat_map(|part| &part.known) {
            let cached;
            let viable: &[u32] = match lookahead {
                Lookahead::Any => &targets.viable,
                Lookahead::Bytes(bytes, lookahead2_lists) => {
                    cached = targets.viable_with(bytes, *lookahead2_lists);
                    &cached
                }
            };
            match tokens {
                KindTokens::Few(few) => {
                    for TokenId(token) in few.iter().copied().filter(|token| is_in(&targets.merged, token.0))
                    {
                        let mut all = [Some(viable), without_ends, steady].into_iter().flatten();
                        let is_accepted = all.all(|words| is_in(words, token));
                        if is_accepted { &mut accepted.few } else { &mut accepted.left }.push(token);
                    }
                }
                KindTokens::Many(tokens) => {
                    let mut viable = Cow::Borrowed(viable);
                    for only in [without_ends, steady].into_iter().flatten() {
                        viable.to_mut().iter_mut().zip(only).for_each(|(word, only)| *word &= only);
                    }
                    accepted.add_words(tokens.words(), &targets.merged, &viable);
                }
            }
        }
        accepted
    }

    /// A token that may follow `previous` and is viable from `at` without a search. Otherwise all tokens that may
    /// follow and can be read, and the positions after them. For wide positions: the cost is a walk of the DFA and
    /// the forbidden neighbours of `previous`.
    pub(crate) fn viable_successor(
        &mut self,
        previous: u32,
        at: Position,
    ) -> Result<u32, Vec<(u32, Position)>> {
        let (automata, index) = (self.automata, self.index);
        let vocabulary = &*index.vocabulary;
        let text_of = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let mut reads: Vec<(u32, Position)> = Vec::new();
        let fallback: Vec<(u32, Position)> = self.fallback(at).collect();
        for (token, after) in fallback {
            if !self.may_follow(previous, token) {
                continue;
            }
            match self.decided(token, after) {
                Some(true) => return Ok(token),
                Some(false) => {}
                None => reads.push((token, after)),
            }
        }
        let successors = index.successors(previous, at.split);
        // Inside a character most of them begin with a byte that the DFA does not read.
        let read = self.read_bytes(at.regex);
        for token in successors.beginning_with(&read) {
            let Some(after) = automata.run(at, text_of(token)) else { continue };
            match self.decided(token, after) {
                Some(true) => return Ok(token),
                None if successors.is_all => reads.push((token, after)),
                _ => {}
            }
        }
        if successors.is_all {
            return Err(reads);
        }
        let targets = index.targets(at.split, at.at_piece_start);
        let by_lookahead = self.tokens_by_lookahead(at.regex);
        let Accepted { words: mut accepted, few, left } = self.accepted_at_once(at, &targets, &by_lookahead);
        accepted.resize(targets.merged.len(), 0);
        few.iter().for_each(|token| set(&mut accepted, *token));
        let mut read = accepted.clone();
        left.iter().for_each(|token| set(&mut read, *token));
        let others = by_lookahead
            .others
            .iter()
            .map(|(token, _)| *token)
            .filter(|token| is_in(&targets.merged, *token));
        others.for_each(|token| set(&mut read, token));
        index.remove_forbidden(previous, &mut accepted);
        index.remove_forbidden(previous, &mut read);
        if let Some(successor) = bits(&accepted).next() {
            return Ok(successor);
        }
        for token in bits(&read) {
            let Some(after) = automata.run(at, text_of(token)) else { continue };
            match self.decided(token, after) {
                Some(true) => return Ok(token),
                Some(false) => {}
                None => reads.push((token, after)),
            }
        }
        Err(reads)
    }

    /// The lists of
    /// [`SplitLiveness::lookahead2_lists`](crate::canonical::index::split_liveness::SplitLiveness::lookahead2_lists)
    /// with which a state of the DFA can certainly continue, one bit each.
    fn lookahead2_lists(&self, state: StateId) -> u8 {
        self.product.lookahead2_lists.iter().enumerate().fold(0, |lookahead2_lists, (at, list)| {
            let continues = list.iter().any(|(byte, live_next)| {
                let next = self.automata.language.step(state, *byte);
                next.is_some_and(|next| live_next.meets(&self.live_bytes(next)))
            });
            lookahead2_lists | u8::from(continues) << at
        })
    }

    /// The fallback tokens that can be read from `at`, and the positions after them.
    pub(crate) fn fallback(&self, at: Position) -> impl Iterator<Item = (u32, Position)> + use<'a, L> {
        let automata = self.automata;
        // Most tokenizers have none, and every position asks for them.
        let all: &[u32] = match automata.tokenizer.split.has_fallback() {
            true => &automata.tokenizer.fallback,
            false => &[],
        };
        let tokens = (0..=255u8).zip(all).filter(|(_, token)| **token != NONE);
        tokens.filter_map(move |(byte, token)| Some((*token, automata.step_fallback(at, byte)?)))
    }

    /// The facts about the position `at`.
    fn pair(&mut self, at: Position) -> PairFacts {
        let is_boundary = self.is_boundary(at);
        let live_next = self.liveness.live_next[at.split].and(&self.live_bytes(at.regex));
        PairFacts { is_boundary, is_live: is_boundary || self.is_live(at), live_next }
    }

    /// Whether the normalisation form of texts matters for this constraint.
    pub(crate) fn composes(&self) -> bool {
        !self.automata.form.is_any()
    }
}

/// For the tokens of a set: a cache of facts by the pair of states after a token.
struct PairCache {
    at: Position,
    /// By states of the DFA and of the splitter.
    known: Map<(StateId, SplitState), PairFacts>,
    /// The last pair: tokens of one subtree of the trie mostly end alike.
    last: Option<(StateId, SplitState, PairFacts)>,
}

impl PairCache {
    /// Whether `token` is viable. The splitter reads it to `end`, and it leads the DFA to `regex`.
    fn is_viable(
        &mut self,
        query: &mut Query<'_, impl LazyDfa>,
        token: u32,
        regex: StateId,
        end: TokenTarget,
    ) -> bool {
        // The other two automata mostly return to the states before the token.
        let returns = end.returns() && self.at.text == query.automata.tokenizer.text.start();
        let split = end.state().filter(|_| returns && !query.composes());
        let Some(split) = split else {
            let text = query.index.vocabulary.text(TokenId(token)).unwrap_or_default();
            return query.automata.run(self.at, text).is_some_and(|after| query.may_precede(token, after));
        };
        let after = Position { regex, split, at_piece_start: false, ..self.at };
        if query.liveness.places[split] != 0 {
            return query.may_precede(token, after);
        }
        let pair = match self.last {
            Some((last_regex, last_split, pair)) if (last_regex, last_split) == (regex, split) => pair,
            _ => *self.known.entry((regex, split)).or_insert_with(|| query.pair(after)),
        };
        self.last = Some((regex, split, pair));
        let hard = || query.facts.hard.hard_after(end.last());
        if pair.is_boundary || pair.is_live && !pair.live_next.and(&hard()).is_empty() {
            return true;
        }
        if !pair.is_live {
            return false;
        }
        // Only a search decides.
        query.may_precede_by_search(token, after)
    }
}

/// The DFA, read by tokens. It partitions tokens by look-ahead set and lists the tokens without one.
struct LookaheadWalk<'q, 'c, L> {
    /// By state: `NOTHING`, `EACH`, or the kind. States that were not met may be missing.
    known: Vec<u8>,
    /// Look-ahead sets, and the number of token ends with each.
    seen: Vec<((ByteSet, u8), u32)>,
    lookaheads: Vec<Lookahead>,
    others: Vec<(u32, StateId)>,
    query: &'q mut Query<'c, L>,
}

/// States of [`LookaheadWalk::known`]: not decided yet; list each token; and the number of the first kind.
const NOTHING: u8 = 0;
const EACH: u8 = 1;
const FIRST_LOOKAHEAD: u8 = 2;

impl<L: LazyDfa> LookaheadWalk<'_, '_, L> {
    /// Decides a state that was not decided.
    #[cold]
    fn look(&mut self, state: StateId) -> u8 {
        match self.query.automata.language.places(state) {
            places if places & 1 != 0 => {
                if self.query.automata.language.is_accepting(state) {
                    return FIRST_LOOKAHEAD;
                }
                let live = self.query.live_bytes(state);
                if live.is_empty() {
                    return EACH;
                }
                let lookahead2_lists = self.query.lookahead2_lists(state);
                let at =
                    self.seen.iter().position(|(seen, _)| *seen == (live, lookahead2_lists)).unwrap_or_else(
                        || {
                            // A set of more than a few bytes becomes a kind at once: many tokens end there.
                            let count = if live.iter().nth(NARROW).is_some() { OFTEN } else { 0 };
                            self.seen.push(((live, lookahead2_lists), count));
                            self.seen.len() - 1
                        },
                    );
                let (_, count) = &mut self.seen[at];
                *count += 1;
                let lookahead = self
                    .lookaheads
                    .iter()
                    .position(|lookahead| *lookahead == Lookahead::Bytes(live, lookahead2_lists));
                match lookahead {
                    Some(lookahead) => FIRST_LOOKAHEAD + u8::try_from(lookahead).unwrap_or(0),
                    None if self.lookaheads.len() >= LOOKAHEADS || at >= SEEN => EACH,
                    None if *count <= OFTEN => NOTHING,
                    None => {
                        self.lookaheads.push(Lookahead::Bytes(live, lookahead2_lists));
                        FIRST_LOOKAHEAD + u8::try_from(self.lookaheads.len() - 1).unwrap_or(0)
                    }
                }
            }
            // If the UTF-8 state is not unique, nothing is certain.
            places => match only_place(places) {
                0 => EACH,
                place if self.query.accepts_completions(state, place) => FIRST_LOOKAHEAD,
                _ => EACH,
            },
        }
    }
}

impl<L: LazyDfa> ByteAutomaton for LookaheadWalk<'_, '_, L> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.query.automata.language.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.query.automata.language.step(StateId(state), byte).map_or(DEAD, |next| next.0)
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        let mut known = self.known.get(state as usize).copied().unwrap_or(NOTHING);
        if known == NOTHING {
            known = self.look(StateId(state));
            if self.known.len() <= state as usize {
                self.known.resize(state as usize + 1, NOTHING);
            }
            self.known[state as usize] = known;
        }
        if known >= FIRST_LOOKAHEAD { Verdict::Kind(known - FIRST_LOOKAHEAD) } else { Verdict::Each }
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

    /// Many symbols can be read after a token, none may follow it, and nothing is certain after any of them.
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
