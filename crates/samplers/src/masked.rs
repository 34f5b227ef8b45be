//! Masked sampling: at each step, the model's distribution over the allowed tokens, renormalised.
//!
//! What most engines do. Every output satisfies the constraint at the cost of one evaluation per token, and the law is
//! **not** the model's: the mask forces continuations that the model finds improbable as readily as others, so that
//! outputs which start well and end badly are drawn far too often (GAD, section 2; DISC, theorem 2.1). Each output
//! comes with the weight that corrects averages over outputs.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task, Truncation,
    draws::{Draws, Method, Verdict},
    prefixes::Scope,
    walk::{Coins, End, Proposal, Walk},
};

/// Masked sampling, for speed, for comparison, and as a proposal.
///
/// - **Law**: the product of the renormalised masked distributions. An output that reaches the length limit is cut off
///   there ([`Finish::Length`](unskew_core::Finish::Length)), unlike with the samplers whose law is the target's.
/// - **Weight**: `log_weight` is the log of the model's probability over the sampler's. Averages over outputs with
///   these weights, normalised, tend to those under the target law.
/// - **Cost**: one evaluated position per token, and one pass per token that is not forced.
#[derive(Debug)]
pub struct Masked<M: LanguageModel, C: Constraint> {
    draws: Draws<M, C, Proposing>,
}

#[derive(Debug)]
struct Proposing {
    proposal: Proposal,
}

impl<M: LanguageModel, C: Constraint> Masked<M, C> {
    /// A masked sampler for `task`.
    pub fn new(task: Task<M, C>) -> Self {
        Self { draws: Draws::new(task, Scope::Allowed, Proposing { proposal: Proposal::Masked }) }
    }

    /// The same sampler, which cuts off the improbable part of what the mask leaves.
    #[must_use]
    pub fn truncated(mut self, truncation: Truncation) -> Self {
        self.draws.method_mut().proposal = Proposal::Truncated(truncation);
        self
    }
}

impl Method for Proposing {
    type Memory = ();

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> Walk {
        Walk { cut: true, ..Walk::new(self.proposal, Coins::None) }
    }

    fn judge(&self, (): &mut (), _tries: u64, _positions: u64, end: End, _rng: &mut dyn Rng) -> Verdict {
        match end {
            End::Output(output) => {
                let log_weight = output.log_ratio();
                Verdict::Done(output, Origin::Proposed, log_weight)
            }
            End::Stuck(tokens) => Verdict::DeadEnd(tokens),
            End::Refused => unreachable!("a walk without coins"),
        }
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Masked<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or gives probability zero to everything that is allowed.
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
