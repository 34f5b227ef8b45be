//! The lazy engine: which tokens may precede a position, decided when it is asked.
//!
//! A token may precede a position if the token and the position together can be completed. If tokens spell every
//! byte that the constraint reads
//! ([`BigramFacts::is_regular_for`](crate::canonical::vegas::block::BigramFacts::is_regular_for)), the first of these rules that
//! applies decides:
//!
//! 1. No, if the position is not live: no accepted text continues from it.
//! 2. Yes, if the piece may end there: the text ends, an added token follows, or a boundary leads to a live
//!    position. The canonical tokens of the rest of the text then begin after the boundary (proof in
//!    `vegas/block.rs`).
//! 3. Yes, if the text may continue with a byte that forms a hard bigram with the token's last byte, for the same
//!    reason.
//! 4. Otherwise it is a reachability problem: yes, if some token may follow that may itself precede the position
//!    after it.
//!
//! The precomputed liveness of [`liveness`](crate::canonical::index::split_liveness) answers most queries at once. Otherwise
//! a search answers, which stops at the first success and visits only positions whose liveness is not precomputed.
//! [`LazyProduct::new`] refuses a constraint that might have too many of these positions. That constraint is [completed
//! whole](super::whole_product), within its limit. Answers are kept in a [`Memo`], which belongs to a scratch. It may be
//! dropped between two queries, and masks never wait for each other.
//!
//! The search over tokens is depth-first, longest tokens first: if the next possible piece end is far away, nearly
//! every path reaches it. A node whose failed search touched no open node is recorded as dead at once. The other
//! nodes are recorded when the whole search has failed. Tried instead:
//!
//! - A depth-first search for an accepted text. It follows a run of blanks to the end of its counter where a letter
//!   would succeed. And a breadth-first search over tokens: in `[acgt]{200}` it visits all texts.
//! - All tokens of a position listed before the first of them is followed: ten times as long in a list of words.
//! - The successors of a token computed from the constraint. The tokens that may follow it from a splitter state do
//!   not depend on the constraint and are cached for all constraints ([`crate::canonical::index::successors`]). The
//!   blank before a word took half of the time for a mask.

use std::sync::{Arc, LazyLock};

use rustc_hash::{FxBuildHasher, FxHashSet as Set};
use smallvec::SmallVec;
use unskew_core::{ByteSet, Generations, TokenId};

use super::{
    context::Context,
    first_bytes::FirstBytes,
    lookahead::TokensByLookahead,
    position::{Automata, Position},
};
use crate::{
    Limits, StateId,
    canonical::{
        index::{
            CanonicalIndex,
            split_liveness::{Safe, SplitLiveness, utf8},
            successors::PairTests,
        },
        merges::whole::WholePieces,
        token_set::{TokenSet, is_in},
        tokenizer::automaton::{Role, TokenizerAutomaton},
        vegas::block::BigramFacts,
    },
};

/// The most viable tokens that are kept for each position.
const FOLLOWERS: usize = 8;

/// The number of pair tests of a viable token after which its results are cached for all constraints.
const ASKED: u32 = 8;

/// The most readable tokens that are kept for a position.
const FEW: usize = 2_048;

/// The number of tokens that are tested while the tokens of a position are listed.
const SOME: usize = 16;

/// The number of readable symbols from which on [groups of tokens](super::lookahead) are tested instead of single tokens.
const WIDE: usize = 16;

/// By [UTF-8 state](utf8): the trailing bytes that may come next; none between characters.
static TRAILING: LazyLock<[ByteSet; 8]> = LazyLock::new(|| {
    let may_come = |place: u8, byte: &u8| place != 0 && utf8(place, *byte).is_some();
    [0, 1, 2, 3, 4, 5, 6, 7].map(|place| (0x80..0xc0u8).filter(|byte| may_come(place, byte)).collect())
});

/// The cost of an allocation without its contents, in bytes.
pub(crate) const OVERHEAD: usize = 32;

/// The most pairs of uncertain states. A constraint with more pairs is completed whole, within the limits.
const PAIRS: usize = 1 << 24;

/// The precomputed part of a constraint for the lazy engine.
#[derive(Debug)]
pub(crate) struct LazyProduct {
    safe: Vec<Safe>,
    /// By state of the DFA: the UTF-8 states in which it is reached ([`utf8`]), one bit each. Empty if all bytes are
    /// ASCII.
    pub(crate) places: Vec<u8>,
    /// One byte of each class of bytes that no automaton distinguishes, as far as the constraint reads them.
    bytes: Vec<u8>,
    first_bytes: FirstBytes,
    /// The symbols of single bytes that the constraint reads.
    symbols: Vec<(u8, u32)>,
    /// See [`SplitLiveness::soons_by_class`].
    pub(crate) soons: Vec<Vec<(u8, ByteSet)>>,
    /// The most bytes that a memo may have.
    limit: usize,
}

/// A cache of recently used answers.
type Answers<K, V> = Generations<K, V, FxBuildHasher>;

/// The cached answers of a scratch. All tables drop their older halves together, so no part of the memory is
/// reserved for one table.
#[derive(Clone)]
pub(crate) struct Memo {
    alive: Answers<Position, bool>,
    /// By position: whether the piece may end there.
    boundary: Answers<Position, bool>,
    /// By state of the DFA and UTF-8 state: the answer of [`Query::is_free`].
    free: Answers<(StateId, u8), bool>,
    /// By position: some viable tokens.
    followers: Answers<Position, Vec<ViableToken>>,
    /// By position: all readable tokens, if they are few.
    readable: Answers<Position, Arc<[(u32, Position)]>>,
    /// By the class of a token and the position after it: whether they can be completed.
    complete: Answers<(u32, Position), bool>,
    /// By state of the DFA: the tokens that it reads.
    pub(crate) tokens_by_lookahead: Answers<StateId, Arc<TokensByLookahead>>,
    pub(crate) rows: Answers<Position, TokenSet>,
    /// Positions whose token set was asked for.
    pub(crate) begun: Answers<Position, ()>,
    /// The bytes of the pair tests that viable tokens hold: of the young entries, and of the old ones.
    pair_tests: [usize; 2],
}

/// A token that leads from a position to a live position.
#[derive(Clone)]
struct ViableToken {
    token: u32,
    /// The number of pair tests made for it so far.
    asked: u32,
    /// Its pair tests shared by all constraints, after it was tested often.
    pair_tests: Option<Arc<PairTests>>,
}

impl ViableToken {
    /// Whether it may follow `before`. Adds the memory that it holds from now on to `bytes`.
    fn may_follow(&mut self, index: &CanonicalIndex, before: u32, bytes: &mut usize) -> bool {
        let bigrams = &index.automaton.bigrams;
        if self.pair_tests.is_none() {
            self.asked += 1;
            if self.asked < ASKED {
                return bigrams.may_follow(before, self.token);
            }
        }
        let pair_tests = self.pair_tests.get_or_insert_with(|| {
            let pair_tests = index.pair_tests(self.token);
            // Otherwise the index holds and counts it too.
            if Arc::strong_count(&pair_tests) == 1 {
                *bytes += pair_tests.bytes();
            }
            pair_tests
        });
        pair_tests.may_follow(bigrams, before)
    }
}

/// A constraint with a memo: the object that answers queries.
pub(crate) struct Query<'a> {
    pub(crate) need: &'a LazyProduct,
    pub(crate) automata: Automata<'a>,
    pub(crate) index: &'a CanonicalIndex,
    pub(crate) liveness: &'a SplitLiveness,
    pub(crate) facts: &'a BigramFacts,
    pub(crate) memo: &'a mut Memo,
}

impl LazyProduct {
    /// `None` if the constraint has to be completed whole.
    pub(crate) fn new(context: &Context, limits: &Limits) -> Option<Self> {
        let Context { dfa, index, .. } = context;
        let tokenizer = &index.automaton;
        if !index.bigram_facts().is_regular_for(dfa, tokenizer) {
            return None;
        }
        let (safe, places) = index.liveness().safe(dfa, PAIRS)?;
        let mut used = [false; 256];
        dfa.bytes().for_each(|byte| used[usize::from(byte)] = true);
        let (_, mut bytes) = context.automata().columns();
        bytes.retain(|byte| used[usize::from(*byte)]);
        let symbols = (0..=255u8).zip(tokenizer.symbols.iter().copied());
        let is_read = |(byte, symbol): &(u8, u32)| used[usize::from(*byte)] && tokenizer.is_made(*symbol);
        let symbols = symbols.filter(is_read).collect();
        let first_bytes = FirstBytes::new(index.liveness(), dfa, &safe);
        let soons = index.liveness().soons_by_class(dfa);
        Some(Self { safe, places, bytes, first_bytes, symbols, soons, limit: limits.lazy_bytes })
    }

    pub(crate) fn query<'a>(&'a self, context: &'a Context, memo: &'a mut Memo) -> Query<'a> {
        if memo.young_bytes() > self.limit / 2 {
            memo.turn();
        }
        let index = &context.index;
        Query {
            need: self,
            automata: context.automata(),
            index,
            liveness: index.liveness(),
            facts: index.bigram_facts(),
            memo,
        }
    }

    /// The positions after one byte, a boundary or an added token. Consecutive bytes with one target give one entry.
    fn targets(&self, automata: Automata<'_>, at: Position, targets: &mut Vec<Position>) {
        targets.clear();
        targets.extend(automata.mark(at));
        let bytes = self.possible(&self.bytes, at.regex);
        automata.steps(at, bytes, |target| {
            if targets.last() != Some(&target) {
                targets.push(target);
            }
        });
        if !automata.tokenizer.split.fallback.is_empty() {
            targets.extend(bytes.iter().filter_map(|byte| automata.step_fallback(at, *byte)));
        }
        targets.extend(automata.added(at).map(|(_, behind)| behind));
    }

    /// The subset of `bytes` (ascending) that may be read from `state`. Accepted texts are UTF-8, so within a
    /// character only trailing bytes can be read.
    fn possible<'b>(&self, bytes: &'b [u8], state: StateId) -> &'b [u8] {
        if self.places.get(state.index()).is_none_or(|places| places & 1 != 0) {
            return bytes;
        }
        let of = |end: u8| bytes.partition_point(|byte| *byte < end);
        &bytes[of(0x80)..of(0xc0)]
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.safe[..]) + self.bytes.len() + self.first_bytes.memory_usage()
    }
}

impl Default for Memo {
    fn default() -> Self {
        // The limit is on all tables together.
        let all = usize::MAX;
        Self {
            alive: Generations::new(all),
            boundary: Generations::new(all),
            free: Generations::new(all),
            followers: Generations::new(all),
            readable: Generations::new(all),
            complete: Generations::new(all),
            tokens_by_lookahead: Generations::new(all),
            rows: Generations::new(all),
            begun: Generations::new(all),
            pair_tests: [0, 0],
        }
    }
}

impl Memo {
    /// Drops the older half of each table.
    fn turn(&mut self) {
        let Self {
            alive,
            boundary,
            free,
            followers,
            readable,
            complete,
            tokens_by_lookahead,
            rows,
            begun,
            pair_tests,
        } = self;
        alive.turn();
        boundary.turn();
        free.turn();
        followers.turn();
        readable.turn();
        complete.turn();
        tokens_by_lookahead.turn();
        rows.turn();
        begun.turn();
        *pair_tests = [0, pair_tests[0]];
    }

    fn young_bytes(&self) -> usize {
        let Self {
            alive,
            boundary,
            free,
            followers,
            readable,
            complete,
            tokens_by_lookahead,
            rows,
            begun,
            pair_tests,
        } = self;
        alive.young_bytes()
            + boundary.young_bytes()
            + free.young_bytes()
            + followers.young_bytes()
            + readable.young_bytes()
            + complete.young_bytes()
            + tokens_by_lookahead.young_bytes()
            + rows.young_bytes()
            + begun.young_bytes()
            + pair_tests[0]
    }

    /// The memory of all answers, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let Self {
            alive,
            boundary,
            free,
            followers,
            readable,
            complete,
            tokens_by_lookahead,
            rows,
            begun,
            pair_tests,
        } = self;
        alive.bytes()
            + boundary.bytes()
            + free.bytes()
            + followers.bytes()
            + readable.bytes()
            + complete.bytes()
            + tokens_by_lookahead.bytes()
            + rows.bytes()
            + begun.bytes()
            + pair_tests.iter().sum::<usize>()
    }
}

/// A node of the search: a token and the position after it, with its possible successors.
struct Open {
    token: u32,
    at: Position,
    /// The readable tokens and the positions after them. They are tried from the last to the first.
    readable: Arc<[(u32, Position)]>,
    left: usize,
    /// Whether a failure may be caused by a node that is still open.
    is_cyclic: bool,
}

impl<'a> Query<'a> {
    fn tokenizer(&self) -> &TokenizerAutomaton {
        self.automata.tokenizer
    }

    /// Whether precomputed facts show that `at` is live.
    #[inline]
    fn is_certain(&self, at: Position) -> bool {
        self.liveness.universal[at.split as usize]
            && self.liveness.holds(self.need.safe[at.regex.index()], at.text)
            || self.automata.is_accepting(at)
    }

    /// Whether an accepted text continues from `at`: a breadth-first search that ends at the first position that is
    /// certainly live.
    pub(crate) fn is_alive(&mut self, at: Position) -> bool {
        if self.is_certain(at) {
            return true;
        }
        if let Some(known) = self.memo.alive.get(&at) {
            return *known;
        }
        if self.is_alive_soon(at) {
            self.memo.alive.insert(at, true, 0);
            return true;
        }
        let mut targets: Vec<Position> = Vec::new();
        self.need.targets(self.automata, at, &mut targets);
        if targets.is_empty() {
            self.memo.alive.insert(at, false, 0);
            return false;
        }
        // The visited positions, each with the index of its predecessor.
        let mut met: Vec<(Position, usize)> = vec![(at, 0)];
        let mut seen: Set<Position> = Set::from_iter([at]);
        let mut next = 0;
        while let Some((from, _)) = met.get(next).copied() {
            if next > 0 {
                self.need.targets(self.automata, from, &mut targets);
            }
            for target in targets.iter().copied() {
                let known = self.memo.alive.get(&target).copied();
                if known == Some(true) || self.is_certain(target) {
                    // All positions on the path are live. Nothing is known of the others.
                    let mut on = next;
                    loop {
                        self.memo.alive.insert(met[on].0, true, 0);
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
        met.into_iter().for_each(|(dead, _)| self.memo.alive.insert(dead, false, 0));
        false
    }

    /// Whether one byte, directly or after a boundary, leads from `at` to a position that is certainly live. This is
    /// the case after two blanks.
    fn is_alive_soon(&mut self, at: Position) -> bool {
        let liveness = self.liveness;
        let read = self.read_from(at.regex);
        liveness.soon[at.split as usize].iter().filter(|(byte, _)| read.contains(*byte)).any(
            |(byte, behind)| {
                let next = self.automata.dfa.step(at.regex, *byte);
                next.is_some_and(|next| liveness.goes[*behind as usize].meets(self.sure(next)))
            },
        )
    }

    /// The ASCII bytes after which a state of the DFA is certainly live.
    #[inline]
    pub(crate) fn sure(&self, state: StateId) -> &'a ByteSet {
        self.need.first_bytes.sure(state)
    }

    /// The bytes that the DFA reads from a state.
    #[inline]
    pub(crate) fn read_from(&self, state: StateId) -> &'a ByteSet {
        self.need.first_bytes.read(state)
    }

    /// Whether the piece may end in `at`: the text ends, another piece begins, or an added token follows.
    pub(crate) fn is_boundary(&mut self, at: Position) -> bool {
        let begins = &self.liveness.begins[at.split as usize];
        if self.automata.is_accepting(at) || begins.meets(self.sure(at.regex)) {
            return true;
        }
        let mark = self.automata.mark(at);
        if mark.is_none() && (self.tokenizer().added.is_empty() || !self.automata.may_end(at)) {
            return false;
        }
        if mark.is_some_and(|mark| self.is_certain(mark)) {
            return true;
        }
        if let Some(known) = self.memo.boundary.get(&at) {
            return *known;
        }
        let added: Vec<Position> = self.automata.added(at).map(|(_, behind)| behind).collect();
        let is_boundary = mark.into_iter().chain(added).any(|behind| self.is_alive(behind));
        self.memo.boundary.insert(at, is_boundary, 0);
        is_boundary
    }

    /// Whether `at` can certainly continue with a byte that forms a hard bigram with `last`.
    fn is_hard_behind(&mut self, last: u8, at: Position) -> bool {
        let goes = &self.liveness.goes[at.split as usize];
        let hard = self.facts.hard.behind(last);
        !goes.is_empty() && !self.sure(at.regex).and(goes).and(&hard).is_empty()
    }

    /// Whether `token` may certainly precede `at`, which is inside a character: the constraint accepts every
    /// completion of the character, and the tokenizer has tokens that complete it after this one.
    fn is_closed(&mut self, token: u32, at: Position) -> bool {
        let place = self.liveness.places[at.split as usize];
        place != 0
            && !self.composes()
            && self.liveness.is_calm_inside
            && self.is_free(at.regex, place)
            && self.index.completes_character(token, at.split)
    }

    /// Whether the DFA reads from `state` every completion of a character in UTF-8 state `place`, and then accepts
    /// or can certainly continue in another piece.
    pub(crate) fn is_free(&mut self, state: StateId, place: u8) -> bool {
        // For most states some byte is not read at all.
        let trailing = &TRAILING[usize::from(place)];
        if self.read_from(state).and(trailing) != *trailing {
            return false;
        }
        if let Some(known) = self.memo.free.get(&(state, place)) {
            return *known;
        }
        let dfa = self.automata.dfa;
        let is_free = if place == 0 {
            let sure = self.sure(state);
            dfa.is_accepting(state) || self.liveness.typical.iter().all(|begins| begins.meets(sure))
        } else {
            // Consecutive bytes that lead to the same two states are tested once.
            let mut last = None;
            (0x80..0xc0u8).all(|byte| {
                let Some(place) = utf8(place, byte) else { return true };
                let Some(next) = dfa.step(state, byte) else { return false };
                last.replace((next, place)) == Some((next, place)) || self.is_free(next, place)
            })
        };
        self.memo.free.insert((state, place), is_free, 0);
        is_free
    }

    /// Whether `token` may precede `at`, if that can be decided without a search over tokens.
    pub(crate) fn settled(&mut self, token: u32, at: Position) -> Option<bool> {
        if self.is_boundary(at) {
            return Some(true);
        }
        if self.is_closed(token, at) {
            return Some(true);
        }
        // Inside a character so few tokens may follow that a search is faster.
        let is_inside = self.liveness.places[at.split as usize] != 0;
        if !is_inside && !self.is_alive(at) {
            return Some(false);
        }
        let last = self.index.vocabulary.text(TokenId(token)).and_then(|text| text.last().copied());
        if last.is_some_and(|last| self.is_hard_behind(last, at)) {
            return Some(true);
        }
        self.known(token, at)
    }

    /// The result of earlier searches for `token` before `at`.
    fn known(&mut self, token: u32, at: Position) -> Option<bool> {
        if self.is_followed(token, at) {
            return Some(true);
        }
        let key = (self.class(token), at);
        self.memo.complete.get(&key).copied()
    }

    /// Whether a known viable token from `at` may follow `token`. The last successful one is tried first.
    fn is_followed(&mut self, token: u32, at: Position) -> bool {
        let index = self.index;
        let Memo { followers, pair_tests: [bytes, _], .. } = &mut *self.memo;
        let Some(followers) = followers.get_mut(&at) else { return false };
        let found = followers.iter_mut().position(|follower| follower.may_follow(index, token, bytes));
        found.into_iter().for_each(|found| followers.swap(0, found));
        found.is_some()
    }

    fn class(&self, token: u32) -> u32 {
        self.tokenizer().bigrams.class[token as usize]
    }

    /// Whether `token` may precede `at`, in the same piece.
    pub(crate) fn may_precede(&mut self, token: u32, at: Position) -> bool {
        match self.settled(token, at) {
            Some(settled) => settled,
            None => self.search(token, at),
        }
    }

    /// As [`may_precede`](Self::may_precede), for a position that only a search can decide. The piece may not end in
    /// `at`. `at` is live, is not inside a character, and continues with no byte that forms a hard bigram with the
    /// token's last byte.
    pub(crate) fn may_precede_by_search(&mut self, token: u32, at: Position) -> bool {
        match self.known(token, at) {
            Some(known) => known,
            None => self.search(token, at),
        }
    }

    fn search(&mut self, token: u32, at: Position) -> bool {
        let first = match self.leads_on(token, at) {
            Ok(follower) => {
                self.keep(token, at, follower);
                return true;
            }
            Err(readable) if !readable.iter().any(|(next, _)| self.may_follow(token, *next)) => {
                self.memo.complete.insert((self.class(token), at), false, 0);
                return false;
            }
            Err(readable) => Open { token, at, left: readable.len(), readable, is_cyclic: false },
        };
        let mut open: Vec<Open> = vec![first];
        // `seen` contains the nodes that were opened after the first. Each of them is open or has failed.
        let begun = (self.class(token), at);
        let mut seen: Set<(u32, Position)> = Set::default();
        let mut opens: Option<(u32, Position)> = None;
        loop {
            if let Some((token, at)) = opens.take() {
                seen.insert((self.class(token), at));
                match self.leads_on(token, at) {
                    Ok(follower) => {
                        self.keep(token, at, follower);
                        self.keep_way(&open, token);
                        return true;
                    }
                    Err(readable) => {
                        let left = readable.len();
                        open.push(Open { token, at, readable, left, is_cyclic: false });
                    }
                }
            }
            let Some(last) = open.last_mut() else {
                // Every node that failed because of an open node has failed together with that node.
                seen.into_iter()
                    .chain([begun])
                    .for_each(|failed| self.memo.complete.insert(failed, false, 0));
                return false;
            };
            if let Some(left) = last.left.checked_sub(1) {
                last.left = left;
                let (next, behind) = last.readable[left];
                if !self.may_follow(last.token, next) {
                    continue;
                }
                match self.settled(next, behind) {
                    Some(true) => {
                        self.keep_way(&open, next);
                        return true;
                    }
                    Some(false) => {}
                    None => match (self.class(next), behind) {
                        known if known == begun || seen.contains(&known) => last.is_cyclic = true,
                        _ => opens = Some((next, behind)),
                    },
                }
            } else if let Some(Open { token, at, is_cyclic, .. }) = open.pop() {
                if !is_cyclic {
                    self.memo.complete.insert((self.class(token), at), false, 0);
                } else if let Some(before) = open.last_mut() {
                    before.is_cyclic = true;
                }
            }
        }
    }

    /// Records that `follower` is viable after `token` in `at`.
    fn keep(&mut self, token: u32, at: Position, follower: u32) {
        let class = self.class(token);
        self.memo.complete.insert((class, at), true, 0);
        let new = || ViableToken { token: follower, asked: 0, pair_tests: None };
        match self.memo.followers.get_mut(&at) {
            Some(known) if known.len() < FOLLOWERS && known.iter().all(|known| known.token != follower) => {
                known.push(new());
            }
            Some(_) => {}
            None => self.memo.followers.insert(at, vec![new()], 4 * size_of::<ViableToken>()),
        }
    }

    /// Records that every node of `open` is viable, each through the next one and the last through `follower`.
    fn keep_way(&mut self, open: &[Open], mut follower: u32) {
        for Open { token, at, .. } in open.iter().rev() {
            self.keep(*token, *at, follower);
            follower = *token;
        }
    }

    /// Whether `next` may follow `token` in a piece of several tokens.
    pub(crate) fn may_follow(&self, token: u32, next: u32) -> bool {
        let TokenizerAutomaton { roles, bigrams, .. } = self.automata.tokenizer;
        roles[next as usize] != Role::Whole && bigrams.may_follow(token, next)
    }

    /// A token that may follow `token` and is viable from `at` without a search, if it pays to test for one.
    /// Otherwise the readable tokens from `at`.
    fn leads_on(&mut self, token: u32, at: Position) -> Result<u32, Arc<[(u32, Position)]>> {
        let leads_on = |query: &mut Self, next: u32, behind: Position| {
            query.may_follow(token, next) && query.settled(next, behind) == Some(true)
        };
        if let Some(known) = self.memo.readable.get(&at).cloned() {
            return Err(known);
        }
        // Inside a character few tokens may follow, for any constraint.
        if self.liveness.places[at.split as usize] != 0 {
            return self.viable_successor(token, at).map_err(Arc::from);
        }
        // Symbols are few. In a wide position one of them, or a group of tokens, succeeds.
        let need = self.need;
        if self.read_from(at.regex).len() >= WIDE {
            let mut read = 0;
            for (byte, symbol) in &need.symbols {
                if let Some(behind) = self.automata.step(at, *byte) {
                    read += 1;
                    if leads_on(self, *symbol, behind) {
                        return Ok(*symbol);
                    }
                }
            }
            if read >= WIDE {
                return self.viable_successor(token, at).map_err(Arc::from);
            }
        }
        let mut all: Vec<(u32, Position)> = Vec::new();
        // If many tokens can be read, one of the first succeeds.
        let found = self.any_token(at, |query, next, behind| {
            all.push((next, behind));
            all.len() <= SOME && leads_on(query, next, behind)
        });
        if let (true, Some((follower, _))) = (found, all.last()) {
            return Ok(*follower);
        }
        let all: Arc<[(u32, Position)]> = all.into();
        if all.len() <= FEW {
            self.memo.readable.insert(at, Arc::clone(&all), OVERHEAD + size_of_val(&all[..]));
        }
        Err(all)
    }

    /// Calls `visit` with the tokens that can be read from `at` and the positions after them, until it returns true.
    /// Returns whether it did. Fallback tokens are included. `visit` decides whether a token is viable.
    fn any_token(&mut self, at: Position, mut visit: impl FnMut(&mut Self, u32, Position) -> bool) -> bool {
        let (trie, automata) = (&self.index.trie, self.automata);
        let tokenizer = automata.tokenizer;
        let fallback: SmallVec<[(u32, Position); 4]> = self.fallback(at).collect();
        if fallback.into_iter().any(|(token, behind)| visit(self, token, behind)) {
            return true;
        }
        trie.any_reading(
            self,
            at,
            |query, at| *query.read_from(at.regex),
            |at, byte| automata.step(at, byte),
            |query, token, behind| tokenizer.is_made(token.0) && visit(query, token.0, behind),
        )
    }

    /// Whether `at` is live after `node` of the trie of whole pieces.
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
        let byte = self.index.vocabulary.text(TokenId(last)).and_then(|text| text.last().copied());
        if byte.is_some_and(|byte| self.is_hard_behind(byte, at)) {
            return true;
        }
        let leads_on = |query: &mut Self, token: u32, behind: Position| match whole.child(node, token) {
            Some(child) => query.may_precede_node(child, behind),
            None => query.may_precede(token, behind),
        };
        let mut fallback = self.fallback(at).filter(|(token, _)| tokenizer.bigrams.may_follow(last, *token));
        let (index, automata) = (self.index, self.automata);
        let followers = index.successors(last, at.split);
        // The runs are lazy, since mostly one of the first succeeds.
        let mut made = followers.tokens.iter().filter_map(|token| {
            let text = index.vocabulary.text(TokenId(*token)).unwrap_or_default();
            Some((*token, automata.run(at, text)?))
        });
        if fallback.any(|(token, behind)| leads_on(self, token, behind))
            || made.any(|(token, behind)| leads_on(self, token, behind))
        {
            return true;
        }
        if followers.is_all {
            return false;
        }
        let mut others = tokenizer.made.clone();
        index.remove_forbidden(last, &mut others);
        self.any_token(at, |query, token, behind| is_in(&others, token) && leads_on(query, token, behind))
    }

    /// Whether `token`, as the first token of a piece, leads to `at` without a dead end.
    pub(crate) fn may_begin(&mut self, token: u32, at: Position) -> bool {
        match self.tokenizer().roles[token as usize] {
            Role::Made | Role::Fallback => match self.tokenizer().whole.child(WholePieces::ROOT, token) {
                Some(node) => self.may_precede_node(node, at),
                None => self.may_precede(token, at),
            },
            Role::Whole => self.is_boundary(at),
            Role::Never => false,
        }
    }
}
