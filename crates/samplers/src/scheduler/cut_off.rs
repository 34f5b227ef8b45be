//! When a run without outputs gives up: constraints whose shortest output is longer than the limit on tokens.
//!
//! `[a-z ]{900}` has no output of 20 tokens, and a sampler that rejects would try a hundred thousand times. No number
//! of tries is a proof. So a run gives up once many rollouts have ended at the limit and none was an output. More
//! tries of a run that has outputs are the caller's to limit.
//!
//! Tried instead: to find the least number of tokens of an output before the first draw. It takes the masks of all
//! states of the constraint, which some constraints have without end.

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

    /// Counts a rollout of `len` tokens, of which `tokens` count, that is no output. Answers whether the run gives up.
    pub(crate) fn rejected(&mut self, (len, tokens): (usize, u64), max_tokens: usize) -> bool {
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
