//! The rules of a sampler: which rollout comes next, and what the end of a rollout means for the draw.
//!
//! A scheduler does the same for all of them: it begins rollouts, lets them wait for shared passes, and hands over
//! draws.

mod asap;
pub(crate) mod awrs;
mod exact;
mod greedy;
mod masked;
mod mcmc;
mod twisted;

use std::convert::Infallible;

use rand_core::Rng;
use unskew_core::{Origin, TokenId};

use crate::{
    SampleError,
    rollout::{End, Output, RolloutConfig, Step},
    session::Scope,
    values::StateValues,
};

pub use asap::Asap;
pub use awrs::Awrs;
pub use exact::Exact;
pub use greedy::Greedy;
pub use masked::Masked;
pub use mcmc::{Cut, Imh, Mcmc};
pub use twisted::Twisted;

/// The rules of a sampler that is made of rollouts.
pub trait Policy {
    /// The state of one draw between its rollouts.
    type Memory: Default;

    /// The tokens that rollouts draw from.
    fn scope(&self) -> Scope {
        Scope::Allowed
    }

    /// Whether rollouts are taken into the bounds.
    fn learns(&self) -> bool {
        false
    }

    /// The values that its rollouts propose by, if they do. Rollouts teach them.
    fn values(&self) -> Option<StateValues> {
        None
    }

    /// Whether all rollouts of a draw propose by the values that were known when the draw began. Draws under way
    /// together then begin together.
    fn freezes(&self) -> bool {
        false
    }

    /// Whether its outputs are proposals with weights, which may follow another distribution than the model's.
    fn weighs(&self) -> bool {
        false
    }

    /// Whether a draw ends within a budget of its own, with an output or without one.
    fn is_bounded(&self) -> bool {
        false
    }

    /// Refuses counts above the limits on memory.
    fn check(&self) -> Result<(), SampleError<Infallible>> {
        Ok(())
    }

    /// The next rollout of a draw.
    fn begin(&self, memory: &mut Self::Memory, rng: &mut dyn Rng) -> RolloutConfig;

    /// The rules of the rollout after the next, if it does not depend on what the next one gives: a draw may then try
    /// several at a time.
    fn ahead(&self, memory: &Self::Memory) -> Option<RolloutConfig> {
        let _ = memory;
        None
    }

    /// The part of an earlier output that the rollout begins with.
    fn prefix<'a>(&self, memory: &'a Self::Memory) -> (&'a [TokenId], &'a [Step]) {
        let _ = memory;
        (&[], &[])
    }

    /// Whether the rollout at hand is a try, whose tokens count against a budget.
    fn is_try(&self, memory: &Self::Memory) -> bool {
        let _ = memory;
        true
    }

    /// The outcome of a draw after the end of its rollout number `tries`.
    fn on_end(&self, memory: &mut Self::Memory, tries: Tries, end: End, rng: &mut dyn Rng) -> Outcome;
}

/// The tries of a draw so far, and those of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tries {
    /// The number of rollouts of the draw.
    pub(crate) rollouts: u64,
    /// The draws that were begun, this one and those before it at least.
    pub(crate) draws: u64,
    /// The number of tokens that the [tries](Policy::is_try) of all draws drew at prefixes that were not known.
    pub(crate) new_tokens: u64,
    /// The most tokens of an output.
    pub(crate) max_tokens: usize,
}

/// The state of a draw after a rollout.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// The draw needs another rollout.
    Again,
    /// The draw is this output, with the logarithm of its weight.
    Done(Output, Origin, f64),
    /// The draw is one of several proposals, chosen by their weights, with their effective number.
    Resampled(Output, f64),
    /// The tries are used up.
    NoOutput,
    /// The model gives probability zero to every accepted output.
    Impossible,
    /// No allowed continuation of these tokens has a positive probability.
    DeadEnd(Vec<TokenId>),
}

impl Outcome {
    /// The outcome for a policy that takes the first output, within at most `max_tries` tries.
    pub(crate) fn of_try(end: End, origin: Origin, tries: u64, max_tries: u64) -> Self {
        match end {
            End::Output(output) => Self::Done(output, origin, 0.0),
            // The empty prefix has no mass left: no number of tries helps.
            End::Stuck(tokens) if tokens.is_empty() => Self::Impossible,
            End::Stuck(_) | End::Rejected if tries < max_tries => Self::Again,
            End::Stuck(_) | End::Rejected => Self::NoOutput,
        }
    }
}
