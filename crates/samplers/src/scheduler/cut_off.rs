//! When a run without outputs gives up: constraints whose shortest output is longer than the limit on tokens.
//!
//! `[a-z ]{900}` has no output of 20 tokens, and a sampler that rejects would try a hundred thousand times. So a run
//! without an output looks once for an output of few tokens among the states of the constraint. Some constraints have
//! such states without end, and the search gives up. Then no number of tries is a proof, and the run gives up once many
//! rollouts have ended at the limit. More tries of a run that has outputs are the caller's to limit.

use std::convert::Infallible;

use unskew_core::Constraint;

use crate::{SampleError, session::Session};

/// The rollouts of a run without outputs before the search.
const SEARCHED_AFTER: u64 = 64;

/// The rollouts that end at the limit on tokens before a run without outputs gives up. Where one of twenty is an
/// output, one of so many is with a probability of 0.96.
const AT_LIMIT: u64 = 64;

/// The tokens of all rollouts until then, at least: where most end at the limit, and where few do. Those of a sampler
/// that learns count behind new prefixes alone: once it knows all of them, it finds outputs of next to no probability.
const TOKENS: [u64; 2] = [1 << 14, 1 << 16];

/// The rollouts of a run until its first output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CutOff {
    rollouts: u64,
    /// Those that ended at the limit on tokens.
    at_limit: u64,
    /// The tokens of all.
    tokens: u64,
    has_output: bool,
}

impl CutOff {
    /// Counts an output.
    pub(crate) fn output(&mut self) {
        self.has_output = true;
    }

    /// Counts a rollout of `len` tokens, of which `tokens` count, that is no output. Answers with an error if the run
    /// of `tries` rollouts ends. A run `is_bounded` where its policy ends it.
    pub(crate) fn after<C: Constraint>(
        &mut self,
        (len, tokens): (usize, u64),
        session: &mut Session<C>,
        (tries, is_bounded): (u64, bool),
    ) -> Option<SampleError<Infallible>> {
        let max_tokens = session.max_tokens();
        let gives_up = self.rejected((len, tokens), max_tokens) && !is_bounded;
        let searches = self.rollouts == SEARCHED_AFTER && !self.has_output;
        if searches && session.has_no_short_output() {
            return Some(SampleError::TooLong { max_tokens });
        }
        gives_up.then_some(SampleError::NoOutput { tries, max_tokens })
    }

    /// The error of a run of `tries` rollouts that ends without an output.
    pub(crate) fn in_vain<C: Constraint>(
        &self,
        session: &mut Session<C>,
        tries: u64,
    ) -> SampleError<Infallible> {
        let max_tokens = session.max_tokens();
        let searches = self.rollouts < SEARCHED_AFTER && !self.has_output;
        match searches && session.has_no_short_output() {
            true => SampleError::TooLong { max_tokens },
            false => SampleError::NoOutput { tries, max_tokens },
        }
    }

    /// Counts a rollout that is no output. Answers whether so many are enough.
    fn rejected(&mut self, (len, tokens): (usize, u64), max_tokens: usize) -> bool {
        self.rollouts += 1;
        self.at_limit += u64::from(len >= max_tokens);
        self.tokens += tokens;
        let enough = TOKENS[usize::from(2 * self.at_limit < self.rollouts)];
        !self.has_output && self.at_limit >= AT_LIMIT && self.tokens >= enough
    }
}

#[cfg(test)]
mod tests {
    use super::CutOff;

    #[test]
    fn a_run_gives_up_after_many_rollouts_at_the_limit() {
        let mut short = CutOff::default();
        assert_eq!((1..).find(|_| short.rejected((20, 20), 20)), Some(820));
        short.output();
        assert!(!short.rejected((20, 20), 20));
        let mut rare = CutOff::default();
        assert_eq!(
            (1..).find(|number| rare.rejected((if number % 64 == 0 { 20 } else { 8 }, 16), 20)),
            Some(4_096)
        );
        let mut known = CutOff::default();
        assert!((0..10_000).all(|_| !known.rejected((20, 1), 20)));
        let mut long = CutOff::default();
        assert_eq!((1..).find(|_| long.rejected((1024, 1024), 1024)), Some(64));
    }
}
