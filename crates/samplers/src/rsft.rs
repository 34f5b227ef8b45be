//! RSFT: rejection sampling with a constrained first token (Parys et al. 2025, "Constrained Adaptive Rejection Sampling",
//! as a baseline).
//!
//! The first token is drawn under the mask, all others from the model, and a try is given up at the first one that is not
//! allowed. The mass of the empty prefix is the same for every output, so the law is that of rejection, for fewer tries by
//! that factor: most of them, where the model would rarely begin as the constraint demands.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Sampler};

use crate::{SampleError, Task, draws::Draws, prefixes::Scope, rejection::Guarded, walk::Coins};

/// Rejection sampling with a constrained first token.
///
/// - **Law**: exactly the target law, for the outputs that it returns.
/// - **Cost**: `P(the first token is allowed) / P(L)` tries on average, each given up at its first forbidden token.
#[derive(Debug)]
pub struct Rsft<M: LanguageModel, C: Constraint> {
    draws: Draws<M, C, Guarded>,
}

impl<M: LanguageModel, C: Constraint> Rsft<M, C> {
    /// A sampler for `task` that gives up after `max_tries` tries for one output.
    pub fn new(task: Task<M, C>, max_tries: u64) -> Self {
        Self { draws: Draws::new(task, Scope::Allowed, Guarded { max_tries, coins: Coins::BelowRoot }) }
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Rsft<M, C> {
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
