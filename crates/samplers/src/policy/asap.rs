//! ASAp: masked sampling that learns from its outputs (Park et al. 2024, "Grammar-Aligned Decoding", section 3).
//!
//! Each token is drawn in proportion to the model's probability times c~, an upper bound on the probability that the
//! model completes an accepted output from there. c~ is 1 for prefixes that no output so far begins with. For other
//! prefixes it is the sum over the allowed tokens of their probability times their own c~. After each output the
//! bounds of its prefixes fall, and the distribution of the next output is closer to the target.
//!
//! The published code updates c~ at each token instead of after each output. The distribution is the same, since an
//! update changes only the bounds of prefixes that the output has passed, and the cost grows with the square of the
//! length. The published code never lowers the bound of a prefix without continuation, nor that of a prefix at the
//! length limit. Here both bounds are 0: the length limit is part of the constraint, and an output that runs into a
//! dead end is begun anew with the bounds learned so far.
//!
//! New prefixes are drawn under the mask and always kept. That is a bias, which more outputs lessen and never remove.
//! [CARS](crate::Exact::cars) has the same tree, rejects about half of its tries, and has no bias.

use rand_core::Rng;
use unskew_core::Origin;

use crate::{
    policy::{Outcome, Policy, Tries},
    rollout::{AcceptTest, End, Proposal, RolloutConfig},
};

/// Adaptive sampling with approximate expected futures.
///
/// - **Distribution**: masked sampling for the first output; later outputs are closer and closer to the target
///   distribution, and never equal to it. The distribution depends on the outputs that ended before the rollout
///   began, so outputs are not independent.
/// - **Cost**: one rollout for each output (more only after a dead end); known prefixes cost nothing. Memory: some
///   120 bytes for each visited prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asap {
    max_tries: u64,
}

impl Asap {
    /// The sampler that gives up after `max_tries` dead ends for one output.
    pub const fn new(max_tries: u64) -> Self {
        Self { max_tries }
    }
}

impl Policy for Asap {
    type Memory = ();

    fn learns(&self) -> bool {
        true
    }

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> RolloutConfig {
        RolloutConfig::new(Proposal::Cars, AcceptTest::Never)
    }

    fn on_end(&self, (): &mut (), tries: Tries, end: End, _rng: &mut dyn Rng) -> Outcome {
        Outcome::of_try(end, Origin::Proposed, tries.rollouts, self.max_tries)
    }
}
