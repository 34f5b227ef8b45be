//! The samplers whose accepted outputs follow the target distribution exactly: one policy in the forms of five
//! publications.
//!
//! A masked proposal `a` is drawn with `P(a) / x(a)`, where `x(a)` is the product of the masses that the masks left.
//! Accepting it with probability `x(a)` gives exactly `P` given the constraint (DISC, Algorithm 1). The accept test
//! is made prefix by prefix, so that a rejected proposal stops early. All methods of the family follow this scheme,
//! and differ in three choices:
//!
//! | constructor | tokens are drawn from | learned from a rollout | when the tries are used up |
//! |---|---|---|---|
//! | [`Exact::rejection`] | the model, up to the first forbidden token | nothing | an error |
//! | [`Exact::rsft`] | the same, but the first token from the mask | nothing | an error |
//! | [`Exact::ars`] | the model times the bounds | the path that failed | an error |
//! | [`Exact::cars`] | the model times the bounds | all tokens that the masks on its way forbid | an error |
//! | [`Exact::disc`] | the same | the same | one of several proposals, by weight |
//! | [`Exact::disc_published`] | the mask | nothing | one of `K` fresh proposals, by the weights `x` |
//! | [`Exact::disc_reusing`] | the mask | nothing | one of the `K` rejected proposals, by the weights `x / (1 - x)` |
//!
//! RSFT, ARS and CARS are from Parys et al. 2025 ("Constrained Adaptive Rejection Sampling"); RSFT and ARS are its
//! baselines. The mass of the **empty prefix** is the same for all outputs. All methods but `rejection` leave it out
//! of their tests. That changes no distribution and multiplies the number of tries by the mass, which is at most 1.
//! Where the model would rarely begin as the constraint demands, it saves most of the cost.
//!
//! Learning keeps the distribution exact and outputs independent: an output is accepted with probability `P / b`,
//! where `b` is the bound of the empty prefix, for any bounds learned before. The probability that a try is accepted,
//! `P(L) / b`, only grows. Where all prefixes are known, the first try is accepted.
//!
//! Resampling is not exact, and an output says whether it was accepted or resampled ([`Origin`]). With `p` the
//! probability that one try is rejected and `K` tries, the published forms draw from `(1 - p^K)` of the target plus
//! `p^K` of the resampling's distribution (the paper's theorem 3.1).

use rand_core::Rng;
use unskew_core::Origin;

use crate::{
    SampleError, limits,
    policy::{Outcome, Policy, Tries},
    random::{uniform, weighted},
    rollout::{AcceptTest, End, Output, Proposal, RolloutConfig},
    session::Scope,
};

/// An exact sampler; with resampling, outputs that were accepted are exact, and say so. It is a policy for
/// [`Sampling`](crate::Sampling) and [`Scheduler`](crate::Scheduler).
///
/// - **Distribution**: outputs that say [`Origin::Accepted`] follow the target distribution exactly, and are
///   independent.
/// - **Cost**: `b / P(L)` rollouts on average, where `P(L)` is the probability that the model satisfies the
///   constraint by itself, and `b` is 1 for `rejection`, the probability that the first token is allowed for `rsft`
///   and the published forms of DISC, and a bound that falls with each rollout for the others. Each rollout is given
///   up at its first failed test; known prefixes cost nothing. Memory: some 120 bytes for each visited prefix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exact {
    proposal: Proposal,
    accept: AcceptTest,
    max_tries: u64,
    /// The budget of tries, in rollouts of full length for an output.
    budget: Option<f64>,
    /// The outputs that the budget of a run is made of at least.
    outputs: u64,
    on_exhausted: OnExhausted,
}

/// The outcome of a draw whose tries were all rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OnExhausted {
    Error,
    /// Choose among this number of fresh proposals.
    Resample(u64),
    /// Choose among the rejected proposals.
    Reuse,
}

impl Exact {
    /// The budget of tries of [`disc`](Self::disc), in rollouts of full length for an output.
    pub const DISC_BUDGET: f64 = 4.0;

    /// The number of proposals that [`disc`](Self::disc) resamples from.
    pub const DISC_PARTICLES: u64 = 8;

    const fn new(proposal: Proposal, accept: AcceptTest, max_tries: u64) -> Self {
        Self { proposal, accept, max_tries, budget: None, outputs: 1, on_exhausted: OnExhausted::Error }
    }

    /// Rejection sampling: the model writes, and the outputs that satisfy the constraint are kept. The yardstick of
    /// the others.
    pub const fn rejection(max_tries: u64) -> Self {
        Self::new(Proposal::Masked, AcceptTest::Every, max_tries)
    }

    /// Rejection sampling with a constrained first token.
    pub const fn rsft(max_tries: u64) -> Self {
        Self::new(Proposal::Masked, AcceptTest::ExceptFirst, max_tries)
    }

    /// Adaptive rejection sampling: forbidden tokens are drawn too, and each of them rules out the one path that it
    /// ends.
    pub const fn ars(max_tries: u64) -> Self {
        Self::new(Proposal::Ars, AcceptTest::ExceptFirst, max_tries)
    }

    /// Constrained adaptive rejection sampling: a rollout rules out all tokens that the masks on its way forbid.
    pub const fn cars(max_tries: u64) -> Self {
        Self::new(Proposal::Cars, AcceptTest::ExceptFirst, max_tries)
    }

    /// CARS with a budget, and a choice among weighted proposals where no try is accepted within it.
    pub const fn disc() -> Self {
        let tries = Self::cars(u64::MAX).with_budget(Self::DISC_BUDGET);
        Self { on_exhausted: OnExhausted::Resample(Self::DISC_PARTICLES), ..tries }
    }

    /// Algorithm 1 of the DISC paper with its one parameter: `k` tries, then one of `k` fresh proposals.
    pub const fn disc_published(k: u64) -> Self {
        let tries = Self::rsft(k);
        Self { on_exhausted: OnExhausted::Resample(k), ..tries }
    }

    /// DISC that resamples its rejected proposals. They follow the proposal's distribution times `1 - x`, so that no
    /// fresh proposal is needed. Every proposal must be completed. No try begins once
    /// [`MAX_CANDIDATES`](crate::MAX_CANDIDATES) are kept.
    pub const fn disc_reusing(k: u64) -> Self {
        let tries = Self::new(Proposal::Masked, AcceptTest::Never, k);
        Self { on_exhausted: OnExhausted::Reuse, ..tries }
    }

    /// Limits the tries for one output.
    #[must_use]
    pub const fn with_max_tries(self, max_tries: u64) -> Self {
        Self { max_tries, ..self }
    }

    /// Limits the new tokens of a run's tries to `rollouts` times [`Task::max_tokens`](crate::Task::max_tokens) for
    /// each of its outputs: no try begins beyond it. New tokens are those drawn at prefixes that were not known. A
    /// rejected try costs the tokens that it drew, and a try over known prefixes costs nothing.
    ///
    /// The budget of a run is that of the [outputs](Self::for_outputs) that are expected of it, or of those that were
    /// begun where they are more. Tried instead: a budget for each output. The first outputs are the dearest, since
    /// those after them know what these have learned; they were resampled while the others left most of theirs.
    #[must_use]
    pub const fn with_budget(self, rollouts: f64) -> Self {
        Self { budget: Some(rollouts), ..self }
    }

    /// Sets the number of outputs that are expected of a run, which share the [budget](Self::with_budget). Default: 1.
    #[must_use]
    pub const fn for_outputs(self, outputs: u64) -> Self {
        Self { outputs, ..self }
    }

    /// Sets the number of proposals that are resampled when the tries are used up. It has no meaning for
    /// [`disc_reusing`](Self::disc_reusing).
    #[must_use]
    pub const fn with_particles(self, particles: u64) -> Self {
        match self.on_exhausted {
            OnExhausted::Reuse => self,
            _ => Self { on_exhausted: OnExhausted::Resample(particles), ..self },
        }
    }

    /// The number of proposals that are kept for resampling.
    const fn particles(&self) -> u64 {
        match self.on_exhausted {
            OnExhausted::Resample(particles) => particles,
            OnExhausted::Error | OnExhausted::Reuse => 0,
        }
    }

    fn config(&self, memory: &Candidates) -> RolloutConfig {
        let accept = if memory.particles.is_some() { AcceptTest::Never } else { self.accept };
        RolloutConfig::new(self.proposal, accept)
    }

    fn has_budget(&self, tries: Tries) -> bool {
        #[allow(clippy::cast_precision_loss, reason = "a budget has no 53 digits")]
        let within = |rollouts: f64| {
            let outputs = tries.draws.max(self.outputs) as f64;
            (tries.new_tokens as f64) < rollouts * outputs * (tries.max_tokens.max(1) as f64)
        };
        tries.rollouts < self.max_tries && self.budget.is_none_or(within)
    }

    /// The outcome of a draw without an accepted try.
    fn resample(&self, memory: &mut Candidates, rng: &mut dyn Rng) -> Outcome {
        if *memory.particles.get_or_insert(0) < self.particles() {
            return Outcome::Again;
        }
        let log_weight: fn(&Output) -> f64 = match self.on_exhausted {
            // The weight is ln(x / (1 - x)). A rejected output has x < 1.
            OnExhausted::Reuse => {
                |output| log_mass_below_root(output) - (-log_mass_below_root(output).exp()).ln_1p()
            }
            // Each output is weighed by its own proposal: the bounds change between two proposals.
            OnExhausted::Error | OnExhausted::Resample(_) => Output::log_ratio,
        };
        let log_weights: Vec<f64> = memory.outputs.iter().map(log_weight).collect();
        // Products of many masses underflow: all weights are divided by the greatest.
        let greatest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_weights.iter().map(|weight| (weight - greatest).exp()).collect();
        let (sum, squares) = weights
            .iter()
            .fold((0.0, 0.0), |(sum, squares), weight| (sum + weight, squares + weight * weight));
        weighted(&weights, rng).map_or(Outcome::NoOutput, |index| {
            Outcome::Resampled(memory.outputs.swap_remove(index), sum * sum / squares)
        })
    }
}

/// The proposals of one draw.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The rejected proposals, and then the proposals to be resampled.
    outputs: Vec<Output>,
    /// The number of proposals made for the resampling; `None` during the tries.
    particles: Option<u64>,
}

impl Policy for Exact {
    type Memory = Candidates;

    fn scope(&self) -> Scope {
        self.proposal.scope()
    }

    fn is_bounded(&self) -> bool {
        self.budget.is_some()
    }

    fn learns(&self) -> bool {
        self.proposal.uses_bounds()
    }

    fn check(&self) -> Result<(), SampleError<std::convert::Infallible>> {
        let candidates = usize::try_from(self.particles()).unwrap_or(usize::MAX);
        limits::check("candidates of DISC", candidates, limits::MAX_CANDIDATES)
    }

    fn begin(&self, memory: &mut Candidates, _rng: &mut dyn Rng) -> RolloutConfig {
        self.config(memory)
    }

    fn ahead(&self, memory: &Candidates) -> Option<RolloutConfig> {
        // Outputs of a seed depend on what is under way only where rollouts learn.
        self.learns().then(|| self.config(memory))
    }

    fn is_try(&self, memory: &Candidates) -> bool {
        memory.particles.is_none()
    }

    fn on_end(&self, memory: &mut Candidates, tries: Tries, end: End, rng: &mut dyn Rng) -> Outcome {
        if let Some(particles) = &mut memory.particles {
            *particles += 1;
            if let End::Output(output) = end {
                memory.outputs.push(output);
            }
            return self.resample(memory, rng);
        }
        match end {
            End::Output(output) if self.on_exhausted == OnExhausted::Reuse => {
                if uniform(rng).ln() < log_mass_below_root(&output) {
                    return Outcome::Done(output, Origin::Accepted, 0.0);
                }
                memory.outputs.push(output);
            }
            End::Output(output) => return Outcome::Done(output, Origin::Accepted, 0.0),
            // The empty prefix has no mass left: no number of tries helps.
            End::Stuck(tokens) if tokens.is_empty() => return Outcome::Impossible,
            End::Stuck(_) | End::Rejected => {}
        }
        if self.has_budget(tries) && memory.outputs.len() < limits::MAX_CANDIDATES {
            return Outcome::Again;
        }
        match self.on_exhausted {
            OnExhausted::Error => Outcome::NoOutput,
            OnExhausted::Resample(_) | OnExhausted::Reuse => self.resample(memory, rng),
        }
    }
}

/// `ln x` without the empty prefix. Rounding must not make it positive.
fn log_mass_below_root(output: &Output) -> f64 {
    (output.log_ratio() - output.log_root_mass).min(0.0)
}
