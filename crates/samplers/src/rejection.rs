//! Rejection sampling: let the model write, keep what satisfies the constraint.
//!
//! The plainest sampler with the exact law, and the yardstick of the others: it takes `1 / P(L)` tries on average,
//! where `P(L)` is the probability that the model satisfies the constraint by itself. A try is given up at the first
//! token that is not allowed.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task,
    prefixes::Prefixes,
    walk::{Coins, End, Proposal, Walk, walk},
};

/// Rejection sampling, with a bounded number of tries.
///
/// - **Law**: exactly the target law, for the outputs that it returns.
/// - **Cost**: `1 / P(L)` tries on average, each given up at its first forbidden token.
#[derive(Debug)]
pub struct Rejection<M: LanguageModel, C: Constraint> {
    prefixes: Prefixes<M, C>,
    max_tries: u64,
}

impl<M: LanguageModel, C: Constraint> Rejection<M, C> {
    /// A rejection sampler for `task` that gives up after `max_tries` tries for one output.
    pub fn new(task: Task<M, C>, max_tries: u64) -> Self {
        Self { prefixes: Prefixes::new(task), max_tries }
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Rejection<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or no try is accepted.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        let how = Walk { coins: Coins::All, proposal: Proposal::Masked, cut: false };
        for tries in 1..=self.max_tries {
            self.prefixes.keep_within_limit();
            if let End::Output(output) = walk(&mut self.prefixes, how, rng)? {
                let mut cost = self.prefixes.take_cost();
                cost.proposals = tries;
                return Ok(Draw {
                    tokens: output.tokens,
                    log_prob: output.log_prob,
                    log_weight: 0.0,
                    finish: output.finish,
                    origin: Origin::Accepted,
                    cost,
                });
            }
        }
        self.prefixes.take_cost();
        Err(SampleError::NoOutput { tries: self.max_tries, max_tokens: self.prefixes.max_tokens() })
    }
}
