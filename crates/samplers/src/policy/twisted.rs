//! Proposals that know where the constraint leads: masked sampling, twisted by learned values.
//!
//! Each token is drawn in proportion to the model's probability times the [value](crate::values) of the prefix after
//! it. The values are learned from every rollout, by state of the constraint, so that the second rollout knows from
//! the first which states lead nowhere. An output has the weight `w = P / q`, the model's probability over the
//! proposal's. Three uses of the weights are built in:
//!
//! | constructor | one output | its distribution |
//! |---|---|---|
//! | [`Twisted::new`] | the first rollout, with its weight | the proposal's; averages with weights are the model's |
//! | [`Twisted::with_budget`] | rollouts until one passes a test with probability `min(1, w / M)`, with the weight `max(w, M) / budget` | in proportion to `min(P, M q)`: the model's where no weight exceeds `M` |
//! | [`Smc::values`](crate::Smc::values) | one of a population that is resampled by these weights on the way | that of SMC |
//!
//! `M` is chosen such that the recent rollouts would have passed once in `budget`, so a budget is the mean number of
//! rollouts for an output, and its inverse the probability that a rollout passes, by which weights are divided so
//! that outputs with different `M` can be averaged. `M` depends on earlier rollouts alone. A larger budget is a
//! larger `M`: fewer outputs beyond it, and less weight on them.
//!
//! Tried instead: the best of `k` rollouts by weight (sampling-importance-resampling), which needs no `M` and forgets
//! the weights of all outputs before.

use std::sync::{Arc, Mutex, PoisonError};

use rand_core::Rng;
use unskew_core::Origin;

use crate::{
    policy::{Outcome, Policy, Tries},
    random::uniform,
    rollout::{AcceptTest, End, Proposal, RolloutConfig},
    values::StateValues,
};

/// The bytes of the table of values that a sampler makes for itself.
const TABLE_BYTES: usize = 16 << 20;

/// The number of recent weights that the bound is chosen by.
const RECENT: usize = 64;

/// Masked sampling, twisted by learned values.
///
/// - **Distribution**: without a budget that of the proposal, which is close to the model's once values are learned;
///   with a budget, in proportion to `min(P, M q)`. `origin` is [`Origin::Accepted`] with a budget where the weight
///   of the output is at most `M`, else [`Origin::Proposed`].
/// - **Weight**: without a budget `P / q`, as [`Masked`](crate::Masked). With one `max(w, M) / budget`: accepted
///   outputs have nearly the same weight, which is about the probability that the model satisfies the constraint.
/// - **Cost**: one rollout, or `budget` rollouts on average. For each new prefix the states after its 32 most
///   probable tokens, of which the keys are kept.
#[derive(Clone, Debug)]
pub struct Twisted {
    values: StateValues,
    budget: Option<f64>,
    max_tries: u64,
    /// The logarithms of the weights of recent rollouts. A clone of a policy shares them with its values.
    recent: Arc<Mutex<Recent>>,
}

#[derive(Debug, Default)]
struct Recent {
    log_weights: Vec<f64>,
    /// The place of the next weight, once there are [`RECENT`].
    next: usize,
}

impl Recent {
    fn push(&mut self, log_weight: f64) {
        if self.log_weights.len() < RECENT {
            self.log_weights.push(log_weight);
        } else {
            self.log_weights[self.next] = log_weight;
            self.next = (self.next + 1) % RECENT;
        }
    }

    /// The logarithm of the bound `M` with which the recent rollouts are accepted once in `budget` on average. `None`
    /// if all weights are zero.
    fn log_bound(&self, budget: f64) -> Option<f64> {
        let mut weights: Vec<f64> =
            self.log_weights.iter().copied().filter(|weight| weight.is_finite()).collect();
        weights.sort_unstable_by(f64::total_cmp);
        let greatest = *weights.last()?;
        #[allow(clippy::cast_precision_loss, reason = "at most 64")]
        let wanted = self.log_weights.len() as f64 / budget;
        // With M between two weights, the mean of min(1, w / M) is (the sum of those below) / M + the number of those
        // above.
        let mut below = 0.0;
        for (index, weight) in weights.iter().enumerate() {
            #[allow(clippy::cast_precision_loss, reason = "at most 64")]
            let above = (weights.len() - index) as f64;
            let relative = (weight - greatest).exp();
            let accepted = |bound: f64| below / bound + above;
            if index == 0 && above <= wanted {
                return Some(*weight);
            }
            if index > 0 && accepted(relative) <= wanted {
                // The bound lies between this weight and the one before.
                return Some((below / (wanted - above)).ln() + greatest);
            }
            below += relative;
        }
        Some((below / wanted).ln() + greatest)
    }
}

impl Twisted {
    /// One rollout for each output, with its weight.
    pub fn new() -> Self {
        Self { values: StateValues::new(TABLE_BYTES), budget: None, max_tries: 1_000, recent: Arc::default() }
    }

    /// `budget` rollouts for each output on average; at least one. At most `max_tries` for one output.
    #[must_use]
    pub fn with_budget(mut self, budget: f64, max_tries: u64) -> Self {
        (self.budget, self.max_tries) = (Some(budget.max(1.0)), max_tries);
        self
    }

    /// Values that other samplers share, or that were saved.
    #[must_use]
    pub fn with_values(mut self, values: StateValues) -> Self {
        self.values = values;
        self
    }
}

impl Default for Twisted {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Twisted {
    type Memory = ();

    fn values(&self) -> Option<StateValues> {
        Some(self.values.clone())
    }

    fn weighs(&self) -> bool {
        true
    }

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> RolloutConfig {
        RolloutConfig::new(Proposal::Twisted, AcceptTest::Never)
    }

    fn on_end(&self, (): &mut (), tries: Tries, end: End, rng: &mut dyn Rng) -> Outcome {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let output = match end {
            End::Output(output) => output,
            // The empty prefix has no mass left: no number of tries helps.
            End::Stuck(tokens) if tokens.is_empty() => return Outcome::Impossible,
            End::Stuck(_) | End::Rejected => {
                recent.push(f64::NEG_INFINITY);
                let done = tries.rollouts >= self.max_tries;
                return if done { Outcome::NoOutput } else { Outcome::Again };
            }
        };
        let log_weight = output.log_ratio();
        let Some(budget) = self.budget else { return Outcome::Done(output, Origin::Proposed, log_weight) };
        // The bound is that of the rollouts before this one.
        #[allow(clippy::cast_precision_loss, reason = "at most 64")]
        let is_known = recent.log_weights.len() as f64 >= budget;
        let bound = is_known.then(|| recent.log_bound(budget)).flatten();
        recent.push(log_weight);
        let is_last = tries.rollouts >= self.max_tries;
        let Some(bound) = bound else {
            return if is_last { Outcome::NoOutput } else { Outcome::Again };
        };
        let excess = log_weight - bound;
        if excess >= 0.0 || uniform(rng).ln() < excess {
            let origin = if excess > 0.0 { Origin::Proposed } else { Origin::Accepted };
            return Outcome::Done(output, origin, log_weight.max(bound) - budget.ln());
        }
        if is_last { Outcome::NoOutput } else { Outcome::Again }
    }
}
