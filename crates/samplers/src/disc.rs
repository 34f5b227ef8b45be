//! DISC: masked proposals, accepted with the probability that makes the law exact; after a bounded number of
//! refusals, one of several proposals chosen by weight (Algorithm 1 of the DISC paper).
//!
//! A masked proposal `a` is drawn with `P(a) / x(a)`, where `x(a)` is the product of the masses that the masks left.
//! Accepting it with probability `x(a)` therefore gives exactly `P` given the constraint. When nothing was accepted,
//! importance resampling with the weights `x` gives a law that is close to it and not equal; the output says which of
//! the two it was ([`Origin`]).
//!
//! The paper also looks at the `M` most probable tokens of each step alone ([`Disc::among`]), which is another law.
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
    SampleError, Task, TrieFileError, Usage,
    draws::{Draws, Method, Verdict},
    limits,
    prefixes::Scope,
    random::{uniform, weighted},
    walk::{Coins, End, Output, Proposal, Walk},
};

/// What is proposed, and what is resampled when no proposal was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Proposals learn from the tries before them; fresh ones are resampled, with the weights of their own proposal.
    #[default]
    Learned,
    /// As published: masked proposals; fresh ones are resampled, with weights `x`.
    Fresh,
    /// Masked proposals; the refused ones themselves are resampled, with weights `x / (1 - x)`. No try is begun once
    /// [`MAX_CANDIDATES`](crate::MAX_CANDIDATES) of them are kept.
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
    draws: Draws<M, C, DiscConfig>,
}

impl<M: LanguageModel, C: Constraint> Disc<M, C> {
    /// A DISC sampler for `task`.
    pub fn new(task: Task<M, C>, config: DiscConfig) -> Self {
        Self { draws: Draws::new(task, Scope::Allowed, config) }
    }

    /// The same sampler, whose draws come in groups of `group` that step through the model together and learn from each
    /// other when all of a round's walks have ended. The law is the same, where an output was accepted; the outputs for a seed are others.
    #[must_use]
    pub fn grouped(mut self, group: usize) -> Self {
        self.draws = self.draws.grouped(group);
        self
    }

    /// The same sampler with the `top` most probable tokens of each step as its only candidates: these are verified one by
    /// one (PPV for sets), and no mask is made. What was learned is forgotten.
    ///
    /// **The law is another one**: that of the model, given an accepted output of which each token was among the `top` of
    /// its step. Where none of them is allowed, all allowed tokens are candidates: such a step neither ends the output nor
    /// leaves the constraint. The end of the sequence is always a candidate.
    #[must_use]
    pub fn among(mut self, top: usize) -> Self {
        self.draws.prefixes.limit_candidates(top);
        self
    }

    /// The logarithm of an upper bound on `P(L)`, the probability that the model satisfies the constraint by itself: 0 at
    /// first, and lower with what is learned.
    pub fn log_bound(&self) -> f64 {
        self.draws.log_bound()
    }

    /// The number of prefixes that it knows, and the bytes that these and the rows of the model take.
    pub fn usage(&self) -> Usage {
        self.draws.usage()
    }

    /// What was learned, as bytes. `name` names the model and the constraint, which have no name here: bounds of one task
    /// are wrong for another, and with them the law.
    pub fn save(&mut self, name: &str) -> Vec<u8> {
        self.draws.prefixes.save(name)
    }

    /// Goes on from what was [saved](Self::save) for the same task under the same name: the draws that follow are those
    /// that would have followed there.
    ///
    /// # Errors
    ///
    /// [`TrieFileError`] where the bytes are damaged or belong to another task; nothing has changed then.
    pub fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.draws.load(name, bytes)
    }
}

/// What one draw has proposed.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// The refused proposals, and then those that are to be resampled.
    outputs: Vec<Output>,
    /// How many proposals were made for the resampling; none during the tries.
    particles: Option<u64>,
}

impl DiscConfig {
    /// Without an accepted output: what comes next.
    fn give_up(&self, memory: &mut Candidates, rng: &mut dyn Rng) -> Verdict {
        let particles = if self.form == Form::Reuse { 0 } else { self.particles };
        if *memory.particles.get_or_insert(0) < particles {
            return Verdict::Again;
        }
        let log_weight: fn(&Output) -> f64 = match self.form {
            // Each by its own proposal: what is learnt between two of them changes it.
            Form::Learned | Form::Fresh => Output::log_ratio,
            // ln(x / (1 - x)); a refused output has x < 1.
            Form::Reuse => {
                |output| log_mass_below_root(output) - (-log_mass_below_root(output).exp()).ln_1p()
            }
        };
        let log_weights: Vec<f64> = memory.outputs.iter().map(log_weight).collect();
        // Products of many masses underflow: divide all by the greatest.
        let greatest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_weights.iter().map(|weight| (weight - greatest).exp()).collect();
        weighted(&weights, rng).map_or(Verdict::NoOutput, |index| {
            Verdict::Done(memory.outputs.swap_remove(index), Origin::Resampled, 0.0)
        })
    }
}

impl Method for DiscConfig {
    type Memory = Candidates;

    fn learns(&self) -> bool {
        self.form == Form::Learned
    }

    fn counts_cost(&self) -> bool {
        self.max_positions < u64::MAX
    }

    fn check<E>(&self) -> Result<(), SampleError<E>> {
        // Refused proposals are kept by need, and fresh ones are as many as are asked for.
        let candidates = if self.form == Form::Reuse { 0 } else { self.particles };
        let candidates = usize::try_from(candidates).unwrap_or(usize::MAX);
        limits::check("candidates of DISC", candidates, limits::MAX_CANDIDATES)
    }

    fn begin(&self, memory: &mut Candidates, _rng: &mut dyn Rng) -> Walk {
        let (coins, proposal) = match self.form {
            Form::Learned => (Coins::BelowRoot, Proposal::Learned),
            Form::Fresh => (Coins::BelowRoot, Proposal::Masked),
            Form::Reuse => (Coins::None, Proposal::Masked),
        };
        Walk::new(proposal, if memory.particles.is_some() { Coins::None } else { coins })
    }

    fn judge(
        &self,
        memory: &mut Candidates,
        tries: u64,
        positions: u64,
        end: End,
        rng: &mut dyn Rng,
    ) -> Verdict {
        if let Some(particles) = &mut memory.particles {
            *particles += 1;
            if let End::Output(output) = end {
                memory.outputs.push(output);
            }
            return self.give_up(memory, rng);
        }
        match end {
            End::Output(output) => {
                if self.form != Form::Reuse || uniform(rng).ln() < log_mass_below_root(&output) {
                    return Verdict::Done(output, Origin::Accepted, 0.0);
                }
                memory.outputs.push(output);
            }
            // Nothing is left of the empty prefix: no number of tries will help.
            End::Stuck(tokens) if tokens.is_empty() => return Verdict::Impossible,
            End::Stuck(_) | End::Refused => {}
        }
        let has_room = memory.outputs.len() < limits::MAX_CANDIDATES;
        if tries < self.max_tries && positions < self.max_positions && has_room {
            return Verdict::Again;
        }
        self.give_up(memory, rng)
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
        self.draws.draw(rng)
    }

    fn draw_many(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        draws: &mut Vec<Draw>,
    ) -> Result<(), Self::Error> {
        self.draws.draw_many(count, rng, draws)
    }
}
