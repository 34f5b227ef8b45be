//! Greedy decoding: the most probable allowed token at each step.
//!
//! Nothing is random. The output is not the most probable one ([`Beam`](crate::Beam) looks for that), and it is not a
//! sample.

use rand_core::Rng;
use unskew_core::Origin;

use crate::{
    policy::{Outcome, Policy, Tries},
    rollout::{AcceptTest, End, Proposal, RolloutConfig},
};

/// Greedy decoding.
///
/// - **Distribution**: none; one output. Ties go to the end of the sequence, and then to the lower id.
/// - **Weight**: none; `log_prob` is the exact log-probability under the model. An output that reaches the length
///   limit is cut off there.
/// - **Cost**: one evaluated position per token, and one pass per token that is not forced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Greedy;

impl Policy for Greedy {
    type Memory = ();

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> RolloutConfig {
        RolloutConfig { cut: true, ..RolloutConfig::new(Proposal::Greedy, AcceptTest::Never) }
    }

    fn on_end(&self, (): &mut (), _tries: Tries, end: End, _rng: &mut dyn Rng) -> Outcome {
        match end {
            End::Output(output) => Outcome::Done(output, Origin::Searched, 0.0),
            End::Stuck(tokens) => Outcome::DeadEnd(tokens),
            End::Rejected => unreachable!("a rollout without accept tests"),
        }
    }
}
