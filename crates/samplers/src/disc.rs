//! DISC: masked proposals, accepted with the probability that makes the law exact; after a bounded number of
//! refusals, one of several proposals chosen by weight (Algorithm 1 of the DISC paper).
//!
//! A masked proposal `a` is drawn with `P(a) / x(a)`, where `x(a)` is the product of the masses that the masks left.
//! Accepting it with probability `x(a)` therefore gives exactly `P` given the constraint. When nothing was accepted,
//! importance resampling with the weights `x` gives a law that is close to it and not equal; the output says which of
//! the two it was ([`Origin`]).
//!
//! Four things here are ours:
//! - The mass of the **empty prefix** is the same for all outputs. Leaving it out of every test changes no law and
//!   divides the number of tries by it: for a prompt after which the model would rarely begin as the constraint
//!   demands, that is most of the cost.
//! - The test is made **prefix by prefix**, so that a refused proposal stops early (see the `walk` module), and known
//!   prefixes cost no evaluation.
//! - [`Form::Learned`]: the proposal avoids what earlier tries have found to fail, and the test is left to the prefixes
//!   that are new. The law is the same and the tries are fewer; where all prefixes are known, the first is accepted.
//! - [`Form::Reuse`]: refused proposals are kept and resampled with weights `x / (1 - x)`, since they follow the
//!   proposal's law times `1 - x`. No further proposal is needed, and at equal cost the law is closer; but every
//!   proposal must then be completed.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task,
    prefixes::Prefixes,
    random::{uniform, weighted},
    walk::{Coins, End, Output, Proposal, Walk, walk},
};

/// What is proposed, and what is resampled when no proposal was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Proposals learn from the tries before them; fresh ones are resampled, with the weights of their own proposal.
    #[default]
    Learned,
    /// As published: masked proposals; fresh ones are resampled, with weights `x`.
    Fresh,
    /// Masked proposals; the refused ones themselves are resampled, with weights `x / (1 - x)`.
    Reuse,
}

/// How much DISC may try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiscConfig {
    /// The most tries for one output; `K` of the paper, for the tests.
    pub max_tries: u64,
    /// The most positions that may be evaluated in the tries of one output: no try is begun beyond it.
    pub max_positions: u64,
    /// The number of fresh proposals that are resampled when no try was accepted; `K` of the paper, for the
    /// resampling. Without meaning in [`Form::Reuse`].
    pub particles: u64,
    /// What is resampled.
    pub form: Form,
}

impl Default for DiscConfig {
    /// Proposals that learn: 10,000 tries within 512 positions (tries over known prefixes are free), then 16 proposals.
    fn default() -> Self {
        Self { max_tries: 10_000, max_positions: 512, particles: 16, form: Form::Learned }
    }
}

impl DiscConfig {
    /// The paper's Algorithm 1 with its one parameter: `k` tries, then `k` proposals.
    pub fn published(k: u64) -> Self {
        Self { max_tries: k, max_positions: u64::MAX, particles: k, form: Form::Fresh }
    }
}

/// DISC, over any constraint and any model.
///
/// - **Law** (forms `Fresh` and `Reuse`): with `p` the probability that one try is refused and `K` tries, `(1 - p^K)` of the target law plus `p^K`
///   of the resampling's (the paper's theorem 3.1). Outputs that say [`Origin::Accepted`] follow the target law
///   exactly.
/// - **Cost**: `1 / (1 - p)` tries on average without the bound, where `1 - p` is the probability that the model
///   satisfies the constraint, given that its first token does; fewer and fewer with [`Form::Learned`].
#[derive(Debug)]
pub struct Disc<M: LanguageModel, C: Constraint> {
    prefixes: Prefixes<M, C>,
    config: DiscConfig,
}

impl<M: LanguageModel, C: Constraint> Disc<M, C> {
    /// A DISC sampler for `task`.
    pub fn new(task: Task<M, C>, config: DiscConfig) -> Self {
        Self { prefixes: Prefixes::new(task), config }
    }

    fn try_to_accept(
        &mut self,
        rng: &mut dyn Rng,
        refused: &mut Vec<Output>,
    ) -> Result<Option<Output>, SampleError<M::Error>> {
        let (coins, proposal) = match self.config.form {
            Form::Learned => (Coins::BelowRoot, Proposal::Learned),
            Form::Fresh => (Coins::BelowRoot, Proposal::Masked),
            Form::Reuse => (Coins::None, Proposal::Masked),
        };
        let how = Walk { coins, proposal, cut: false };
        let output = match walk(&mut self.prefixes, how, rng)? {
            End::Output(output) => output,
            // Nothing is left of the empty prefix: no number of tries will help.
            End::Stuck(tokens) if tokens.is_empty() => {
                return Err(SampleError::Impossible { max_tokens: self.prefixes.max_tokens() });
            }
            End::Stuck(_) | End::Refused => return Ok(None),
        };
        if self.config.form == Form::Reuse && uniform(rng).ln() >= log_mass_below_root(&output) {
            refused.push(output);
            return Ok(None);
        }
        Ok(Some(output))
    }

    /// One of several proposals, by weight.
    fn resample(
        &mut self,
        rng: &mut dyn Rng,
        mut candidates: Vec<Output>,
    ) -> Result<Option<Output>, SampleError<M::Error>> {
        let proposal = match self.config.form {
            Form::Learned => Some(Proposal::Learned),
            Form::Fresh => Some(Proposal::Masked),
            Form::Reuse => None,
        };
        if let Some(proposal) = proposal {
            let how = Walk { coins: Coins::None, proposal, cut: false };
            for _ in 0..self.config.particles {
                if let End::Output(output) = walk(&mut self.prefixes, how, rng)? {
                    candidates.push(output);
                }
            }
        }
        let log_weight: fn(&Output) -> f64 = match self.config.form {
            // Each by its own proposal: what is learnt between two of them changes it.
            Form::Learned | Form::Fresh => Output::log_ratio,
            // ln(x / (1 - x)); a refused output has x < 1.
            Form::Reuse => {
                |output| log_mass_below_root(output) - (-log_mass_below_root(output).exp()).ln_1p()
            }
        };
        let log_weights: Vec<f64> = candidates.iter().map(log_weight).collect();
        // Products of many masses underflow: divide all by the greatest.
        let greatest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_weights.iter().map(|weight| (weight - greatest).exp()).collect();
        Ok(weighted(&weights, rng).map(|index| candidates.swap_remove(index)))
    }
}

/// `ln x` without the empty prefix; rounding must not make it positive.
fn log_mass_below_root(output: &Output) -> f64 {
    (output.log_ratio() - output.log_root_mass).min(0.0)
}

impl<M: LanguageModel, C: Constraint> Sampler for Disc<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, no proposal ends within the length limit, or the model cannot write any
    /// accepted output ([`SampleError::Impossible`]).
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        // Also what an error left behind.
        self.prefixes.take_cost();
        let mut refused = Vec::new();
        let mut tries = 0;
        let mut found = None;
        while found.is_none()
            && tries < self.config.max_tries
            && self.prefixes.positions() < self.config.max_positions
        {
            self.prefixes.keep_within_limit();
            tries += 1;
            found = self.try_to_accept(rng, &mut refused)?.map(|output| (output, Origin::Accepted));
        }
        if found.is_none() {
            self.prefixes.keep_within_limit();
            found = self.resample(rng, refused)?.map(|output| (output, Origin::Resampled));
            if self.config.form != Form::Reuse {
                tries += self.config.particles;
            }
        }
        let Some((output, origin)) = found else {
            return Err(SampleError::NoOutput { tries, max_tokens: self.prefixes.max_tokens() });
        };
        let mut cost = self.prefixes.take_cost();
        cost.proposals = tries;
        Ok(Draw {
            tokens: output.tokens,
            log_prob: output.log_prob,
            log_weight: 0.0,
            finish: output.finish,
            origin,
            cost,
        })
    }
}
