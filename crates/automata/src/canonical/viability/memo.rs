//! The answers that a scratch keeps: a cache of the lazy engine's queries.
//!
//! The tables have one limit together, so no part of the memory is reserved for a table that a constraint does not
//! need. When they reach the limit, each table drops its older half ([`Generations`]).

use std::{fmt, sync::Arc};

use rustc_hash::FxBuildHasher;
use unskew_core::Generations;

use super::{lookahead::TokensByLookahead, position::Position, sequence::Configuration};
use crate::{
    StateId,
    canonical::{
        index::{CanonicalIndex, successors::PairTests},
        token_set::TokenSet,
    },
    ids::TokenClass,
};

/// The number of pair tests of a viable token after which its results are cached for all constraints.
const TESTS_BEFORE_SHARING: u32 = 8;

/// A cache of recently used answers.
type Answers<K, V> = Generations<K, V, FxBuildHasher>;

/// The cached answers of a scratch.
#[derive(Clone)]
pub struct Memo {
    pub(super) live: Answers<Position, bool>,
    /// By position: whether the piece may end there.
    pub(super) boundary: Answers<Position, bool>,
    /// By state of the DFA and UTF-8 state: the answer of
    /// [`Query::accepts_completions`](super::lazy_product::Query::accepts_completions).
    pub(super) completions: Answers<(StateId, u8), bool>,
    /// By position: some viable tokens.
    pub(super) viable: Answers<Position, Vec<ViableToken>>,
    /// By position: all readable tokens, if they are few.
    pub(super) readable: Answers<Position, Arc<[(u32, Position)]>>,
    /// By the class of a token and the position after it: whether they can be completed.
    pub(super) complete: Answers<(TokenClass, Position), bool>,
    /// By state of the DFA: the tokens that it reads.
    pub(super) tokens_by_lookahead: Answers<StateId, Arc<TokensByLookahead>>,
    pub(super) token_sets: Answers<Position, TokenSet>,
    /// By configuration: the answer of [`Query::ends`](super::lazy_product::Query::ends).
    pub(super) ends: Answers<Configuration, bool>,
    /// The bytes of the pair tests that viable tokens hold: of the young entries, and of the old ones.
    pub(super) pair_tests: [usize; 2],
    /// Whether a search was given up, so that some answer may be wrong.
    pub(super) is_beyond: bool,
}

/// A token that leads from a position to a live position.
#[derive(Clone)]
pub(super) struct ViableToken {
    pub(super) token: u32,
    /// The number of pair tests made for it so far.
    asked: u32,
    /// Its pair tests shared by all constraints, after it was tested often.
    pair_tests: Option<Arc<PairTests>>,
}

impl ViableToken {
    pub(super) fn new(token: u32) -> Self {
        Self { token, asked: 0, pair_tests: None }
    }

    /// Whether it may follow `before`. Adds the memory that it holds from now on to `bytes`.
    pub(super) fn may_follow(&mut self, index: &CanonicalIndex, before: u32, bytes: &mut usize) -> bool {
        let bigrams = &index.automaton.bigrams;
        if self.pair_tests.is_none() {
            self.asked += 1;
            if self.asked < TESTS_BEFORE_SHARING {
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

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Default for Memo {
    fn default() -> Self {
        // The limit is on all tables together.
        let all = usize::MAX;
        Self {
            live: Generations::new(all),
            boundary: Generations::new(all),
            completions: Generations::new(all),
            viable: Generations::new(all),
            readable: Generations::new(all),
            complete: Generations::new(all),
            tokens_by_lookahead: Generations::new(all),
            token_sets: Generations::new(all),
            ends: Generations::new(all),
            pair_tests: [0, 0],
            is_beyond: false,
        }
    }
}

impl Memo {
    /// Whether a search was given up since the last call. All answers are forgotten then.
    pub(crate) fn take_beyond(&mut self) -> bool {
        let is_beyond = self.is_beyond;
        if is_beyond {
            *self = Self::default();
        }
        is_beyond
    }

    /// Drops the older half of each table.
    pub(super) fn turn(&mut self) {
        let Self {
            live,
            boundary,
            completions,
            viable,
            readable,
            complete,
            tokens_by_lookahead,
            token_sets,
            ends,
            pair_tests,
            is_beyond: _,
        } = self;
        live.turn();
        boundary.turn();
        completions.turn();
        viable.turn();
        readable.turn();
        complete.turn();
        tokens_by_lookahead.turn();
        token_sets.turn();
        ends.turn();
        *pair_tests = [0, pair_tests[0]];
    }

    pub(super) fn young_bytes(&self) -> usize {
        let Self {
            live,
            boundary,
            completions,
            viable,
            readable,
            complete,
            tokens_by_lookahead,
            token_sets,
            ends,
            pair_tests,
            is_beyond: _,
        } = self;
        live.young_bytes()
            + boundary.young_bytes()
            + completions.young_bytes()
            + viable.young_bytes()
            + readable.young_bytes()
            + complete.young_bytes()
            + tokens_by_lookahead.young_bytes()
            + token_sets.young_bytes()
            + ends.young_bytes()
            + pair_tests[0]
    }

    /// The memory of all answers, in bytes.
    pub fn bytes(&self) -> usize {
        let Self {
            live,
            boundary,
            completions,
            viable,
            readable,
            complete,
            tokens_by_lookahead,
            token_sets,
            ends,
            pair_tests,
            is_beyond: _,
        } = self;
        live.bytes()
            + boundary.bytes()
            + completions.bytes()
            + viable.bytes()
            + readable.bytes()
            + complete.bytes()
            + tokens_by_lookahead.bytes()
            + token_sets.bytes()
            + ends.bytes()
            + pair_tests.iter().sum::<usize>()
    }
}
