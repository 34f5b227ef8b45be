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
    prefixes::Prefixes,
    walk::{Coins, End, Proposal, Walk, walk},
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
    prefixes: Prefixes<M, C>,
    truncation: Option<Truncation>,
}

impl<M: LanguageModel, C: Constraint> Masked<M, C> {
    /// A masked sampler for `task`.
    pub fn new(task: Task<M, C>) -> Self {
        Self { prefixes: Prefixes::new(task), truncation: None }
    }

    /// The same sampler, which cuts off the improbable part of what the mask leaves.
    #[must_use]
    pub fn truncated(mut self, truncation: Truncation) -> Self {
        self.truncation = Some(truncation);
        self
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Masked<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or gives probability zero to everything that is allowed.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        self.prefixes.keep_within_limit();
        let proposal = self.truncation.map_or(Proposal::Masked, Proposal::Truncated);
        let how = Walk { coins: Coins::None, proposal, cut: true };
        let output = match walk(&mut self.prefixes, how, rng)? {
            End::Output(output) => output,
            End::Stuck(tokens) => return Err(SampleError::DeadEnd { tokens }),
            End::Refused => unreachable!("a walk without coins"),
        };
        let mut cost = self.prefixes.take_cost();
        cost.proposals = 1;
        let log_weight = output.log_ratio();
        Ok(Draw {
            tokens: output.tokens,
            log_prob: output.log_prob,
            log_weight,
            finish: output.finish,
            origin: Origin::Proposed,
            cost,
        })
    }
}
