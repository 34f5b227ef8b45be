//! Masked sampling: at each step, the model's distribution over the allowed tokens, renormalised.
//!
//! Most engines do this. Every output satisfies the constraint at the cost of one evaluation per token, and the
//! distribution is **not** the model's. The mask forces continuations that the model finds improbable as readily as
//! others, so that outputs which start well and end badly are drawn far too often (GAD, section 2; DISC, theorem
//! 2.1). Each output comes with the weight that corrects averages over outputs.

use rand_core::Rng;
use unskew_core::Origin;

use crate::{
    Truncation,
    policy::{Outcome, Policy, Tries},
    rollout::{AcceptTest, End, Proposal, RolloutConfig},
};

/// Masked sampling, for speed, for comparison, and as a proposal.
///
/// - **Distribution**: the product of the renormalised masked distributions. An output that reaches the length limit
///   is cut off there ([`Finish::Length`](unskew_core::Finish::Length)), unlike with the samplers of the target
///   distribution.
/// - **Weight**: `log_weight` is the log of the model's probability over the sampler's. Averages over outputs with
///   these weights, normalised, tend to those under the target distribution.
/// - **Cost**: one evaluated position per token, and one pass per token that is not forced.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Masked {
    proposal: Proposal,
}

impl Masked {
    /// Masked sampling.
    pub const fn new() -> Self {
        Self { proposal: Proposal::Masked }
    }

    /// Masked sampling that cuts off the improbable part of the masked distribution.
    pub const fn truncated(truncation: Truncation) -> Self {
        Self { proposal: Proposal::Truncated(truncation) }
    }
}

impl Default for Masked {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Masked {
    type Memory = ();

    fn weighs(&self) -> bool {
        true
    }

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> RolloutConfig {
        RolloutConfig { cut: true, ..RolloutConfig::new(self.proposal, AcceptTest::Never) }
    }

    fn on_end(&self, (): &mut (), _tries: Tries, end: End, _rng: &mut dyn Rng) -> Outcome {
        match end {
            End::Output(output) => {
                let log_weight = output.log_ratio();
                Outcome::Done(output, Origin::Proposed, log_weight)
            }
            End::Stuck(tokens) => Outcome::DeadEnd(tokens),
            End::Rejected => unreachable!("a rollout without accept tests"),
        }
    }
}
