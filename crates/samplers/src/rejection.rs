//! Rejection sampling: let the model write, keep what satisfies the constraint.
//!
//! The plainest sampler with the exact law, and the yardstick of the others: it takes `1 / P(L)` tries on average,
//! where `P(L)` is the probability that the model satisfies the constraint by itself. A try is given up at the first
//! token that is not allowed.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task,
    draws::{Draws, Method, Verdict},
    prefixes::Scope,
    walk::{Coins, End, Proposal, Walk},
};

/// Rejection sampling, with a bounded number of tries.
///
/// - **Law**: exactly the target law, for the outputs that it returns.
/// - **Cost**: `1 / P(L)` tries on average, each given up at its first forbidden token.
#[derive(Debug)]
pub struct Rejection<M: LanguageModel, C: Constraint> {
    draws: Draws<M, C, Guarded>,
}

/// Walks that toss coins, until one comes through.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) max_tries: u64,
    pub(crate) coins: Coins,
}

impl<M: LanguageModel, C: Constraint> Rejection<M, C> {
    /// A rejection sampler for `task` that gives up after `max_tries` tries for one output.
    pub fn new(task: Task<M, C>, max_tries: u64) -> Self {
        Self { draws: Draws::new(task, Scope::Allowed, Guarded { max_tries, coins: Coins::All }) }
    }
}

impl Method for Guarded {
    type Memory = ();

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> Walk {
        Walk::new(Proposal::Masked, self.coins)
    }

    fn judge(&self, (): &mut (), tries: u64, _positions: u64, end: End, _rng: &mut dyn Rng) -> Verdict {
        Verdict::of_try(end, Origin::Accepted, tries, self.max_tries)
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Rejection<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or no try is accepted.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        self.draws.draw(rng)
    }

    fn draw_many(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        draws: &mut Vec<Draw>,
    ) -> Result<(), Self::Error> {
        self.draws.draw_many(count, rng, draws)
    }
}
