//! ASAp: masked sampling that learns what its outputs were worth (Park et al. 2024, "Grammar-Aligned Decoding", section 3).
//!
//! Each token is drawn in proportion to the model's probability times c~, an upper bound on the probability that the model
//! completes an accepted output from there: 1 for prefixes that no output so far begins with, and for others the sum over
//! the allowed tokens of their probability times their own c~. After each output the bounds on its way fall, and the distribution of
//! the next one is closer to the target.
//!
//! The published code updates c~ at each token instead of after each output. The distribution is the same, since an update
//! changes only the bounds of prefixes that the output has passed, and it takes the square of the length. It never
//! lowers the bound of a prefix without continuation, nor of one at the length limit; here both are 0, so the length limit is
//! part of the constraint, and an output that runs into a dead end is begun anew with what was learned.
//!
//! New prefixes are drawn under the mask and always kept. That is a bias which any number of outputs only lessens:
//! [CARS](crate::Exact::cars) has the same tree, gives up about half of its tries, and none.

use rand_core::Rng;
use unskew_core::Origin;

use crate::{
    rollout::{AcceptTest, End, Proposal, RolloutConfig},
    scheduler::{Outcome, Policy, Tries},
};

/// Adaptive sampling with approximate expected futures.
///
/// - **Distribution**: masked sampling for the first output; for later ones closer and closer to the target distribution, and
///   not equal to it. It depends on the outputs that ended before one began, so outputs are not independent.
/// - **Cost**: one rollout for each output (more only after a dead end); known prefixes cost nothing. Memory: some 120 bytes
///   for each visited prefix.
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
