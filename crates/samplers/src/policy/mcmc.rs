//! MCMC: a chain of valid outputs.
//!
//! **[`Mcmc`]**: a step writes a part of the last output anew (Gonzalez et al. 2025, "Constrained Sampling for
//! Language Models Should Be Easy: An MCMC Perspective"). It cuts the output somewhere and goes on from the cut by
//! masked sampling. The new output w' is taken with probability
//!
//! ```text
//! min(1, P(w') q(w | w') / (P(w) q(w' | w)))
//! ```
//!
//! where `q(w' | w)` is a sum over all cuts that both outputs share: the probability of that cut in w, times that of
//! masked sampling from the cut to w'. So the chain's stationary distribution is the target distribution, and each
//! state is a valid output. After `k` steps the distribution lies between that of masked sampling and the target,
//! closer for larger `k`. No figure tells how close: [CARS](crate::Exact::cars) has no such question where its tries
//! do not run out.
//!
//! **[`Imh`]**, independent Metropolis-Hastings (Hastings 1970; Tierney 1994): a step proposes a whole output w' by
//! [values](crate::values), and takes it with probability `min(1, W(w') / W(w))`, for the weights `W = P / q`. With
//! one q for the whole chain, `P(w) q(w') min(1, W(w') / W(w)) = min(P(w) q(w'), P(w') q(w))` is symmetric in w and
//! w'. So P is stationary for every q that is positive where P is, whatever the values are: no value is zero where
//! the model's probability is positive.
//!
//! A q that changes within the chain breaks the symmetry, since w keeps the weight of an older q. So all rollouts of
//! a draw propose by the values that were known when the draw began ([`Policy::freezes`]), by state alone: the values
//! of prefixes are forgotten with the tree. Rollouts teach the draws after it. Instead, all but the present state may
//! be learned from at each step (Holden, Hauge and Holden 2009, "Adaptive independent Metropolis-Hastings"). That
//! needs the probability of the present state under each new q, and so all its rows.

use rand_core::Rng;
use unskew_core::{Finish, Origin, TokenId, logprob::log_sum_exp};

use crate::{
    policy::{Outcome, Policy, Tries},
    random::{uniform, weighted},
    rollout::{AcceptTest, End, Output, Proposal, RolloutConfig, Step},
    values::StateValues,
};

/// The place at which an output is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cut {
    /// At any place, with equal probability.
    #[default]
    Prefix,
    /// In proportion to the entropy of the masked distribution at the place; at the beginning, if all entropies are
    /// zero.
    Priority,
    /// At the beginning: proposals are independent of the state.
    Restart,
}

/// Markov chain Monte Carlo over valid outputs.
///
/// - **Distribution**: that of masked sampling, moved `steps` steps towards the target distribution, which is the
///   chain's stationary one. Each draw is a chain of its own. `origin` is [`Origin::Chained`].
/// - **Cost**: one rollout and `steps` parts of a rollout; known prefixes cost nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mcmc {
    steps: u64,
    cut: Cut,
    max_tries: u64,
}

/// Independent Metropolis-Hastings, whose proposals are masked sampling twisted by learned values, as those of
/// [`Twisted`](crate::Twisted).
///
/// - **Distribution**: that of the proposals, moved `steps` steps towards the target distribution, which is the
///   chain's stationary one, for any values. Each draw is a chain of its own. `origin` is [`Origin::Chained`].
/// - **Cost**: `steps + 1` rollouts; known prefixes cost nothing. Draws that are under way together begin together.
///
/// Values are learned for the draws to come, and proposals near the target leave few steps to take. A constraint
/// without [keys](unskew_core::Constraint::state_key) teaches none: proposals are those of masked sampling then.
#[derive(Clone, Debug)]
pub struct Imh {
    steps: u64,
    max_tries: u64,
    values: StateValues,
}

/// The state of the chain of one draw.
#[derive(Debug, Default)]
pub struct Memory {
    state: Option<Output>,
    taken: u64,
    /// The number of tokens of the state that the present proposal keeps.
    kept: usize,
}

impl Mcmc {
    /// Chains of `steps` steps. `max_tries` bounds the rollouts until one reaches a first state.
    pub const fn new(steps: u64, cut: Cut, max_tries: u64) -> Self {
        Self { steps, cut, max_tries }
    }

    /// The probability of each cut of an output: before its first token, ..., before its end.
    fn cuts(&self, steps: &[Step]) -> Vec<f64> {
        let mut weights: Vec<f64> = match self.cut {
            Cut::Prefix => vec![1.0; steps.len()],
            Cut::Priority => steps.iter().map(|step| step.entropy.max(0.0)).collect(),
            Cut::Restart => vec![0.0; steps.len()],
        };
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            weights[0] = 1.0;
            return weights;
        }
        weights.iter_mut().for_each(|weight| *weight /= total);
        weights
    }

    /// `ln q(to | from)`.
    fn log_move(&self, from: &Output, to: &Output) -> f64 {
        let shared = from.tokens.iter().zip(&to.tokens).take_while(|(left, right)| left == right).count();
        let cuts = self.cuts(&from.steps);
        // The log-probability of masked sampling from each cut to the end of `to`.
        let mut behind = 0.0;
        let mut ways = Vec::with_capacity(shared + 1);
        for index in (0..to.steps.len()).rev() {
            behind += to.steps[index].log_p - to.steps[index].valid_mass;
            if index <= shared {
                ways.push(cuts[index].ln() + behind);
            }
        }
        log_sum_exp(ways)
    }
}

impl Policy for Mcmc {
    type Memory = Memory;

    fn begin(&self, memory: &mut Memory, rng: &mut dyn Rng) -> RolloutConfig {
        if let Some(state) = &memory.state {
            memory.kept = weighted(&self.cuts(&state.steps), rng).unwrap_or(0);
        }
        RolloutConfig {
            entropy: self.cut == Cut::Priority,
            ..RolloutConfig::new(Proposal::Masked, AcceptTest::Never)
        }
    }

    fn prefix<'a>(&self, memory: &'a Memory) -> (&'a [TokenId], &'a [Step]) {
        let kept = memory.kept;
        memory.state.as_ref().map_or((&[], &[]), |state| (&state.tokens[..kept], &state.steps[..kept]))
    }

    fn on_end(&self, memory: &mut Memory, tries: Tries, end: End, rng: &mut dyn Rng) -> Outcome {
        memory.step((self.steps, self.max_tries), tries, end, rng, |new, state| {
            let there = new.log_prob + self.log_move(new, state);
            there - (state.log_prob + self.log_move(state, new))
        })
    }
}

impl Memory {
    /// A rollout of a chain of so many steps, whose first state takes so many tries at most: its output becomes the
    /// state with a probability whose logarithm is `log_ratio(output, state)`, or one.
    fn step(
        &mut self,
        (steps, max_tries): (u64, u64),
        tries: Tries,
        end: End,
        rng: &mut dyn Rng,
        log_ratio: impl FnOnce(&Output, &Output) -> f64,
    ) -> Outcome {
        match (end, &self.state) {
            (End::Output(output), None) if output.finish == Finish::Stop => self.state = Some(output),
            (End::Stuck(tokens), None) if tokens.is_empty() => return Outcome::Impossible,
            (_, None) if tries.rollouts < max_tries => return Outcome::Again,
            (_, None) => return Outcome::NoOutput,
            (end, Some(state)) => {
                self.taken += 1;
                // A rollout without an output has probability zero under the target, and is never taken.
                if let End::Output(output) = end
                    && uniform(rng).ln() < log_ratio(&output, state)
                {
                    self.state = Some(output);
                }
            }
        }
        if self.taken < steps {
            return Outcome::Again;
        }
        let output = self.state.take().expect("the chain has begun");
        Outcome::Done(output, Origin::Chained, 0.0)
    }
}

impl Imh {
    /// The bytes of the table of values that a sampler makes for itself.
    const TABLE_BYTES: usize = 16 << 20;

    /// Chains of `steps` steps. `max_tries` bounds the rollouts until one reaches a first state.
    pub fn new(steps: u64, max_tries: u64) -> Self {
        Self { steps, max_tries, values: StateValues::new(Self::TABLE_BYTES) }
    }

    /// Values that other samplers share, or that were saved.
    #[must_use]
    pub fn with_values(mut self, values: StateValues) -> Self {
        self.values = values;
        self
    }
}

impl Policy for Imh {
    type Memory = Memory;

    fn values(&self) -> Option<StateValues> {
        Some(self.values.clone())
    }

    fn freezes(&self) -> bool {
        true
    }

    fn begin(&self, _memory: &mut Memory, _rng: &mut dyn Rng) -> RolloutConfig {
        RolloutConfig::new(Proposal::Twisted, AcceptTest::Never)
    }

    fn on_end(&self, memory: &mut Memory, tries: Tries, end: End, rng: &mut dyn Rng) -> Outcome {
        memory.step((self.steps, self.max_tries), tries, end, rng, |new, state| {
            new.log_ratio() - state.log_ratio()
        })
    }
}
