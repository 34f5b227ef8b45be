//! SMC: a population of outputs that grow together, the improbable ones replaced by copies of the others (Lew et al. 2023;
//! Loula et al. 2025).
//!
//! N outputs ("particles") are extended token by token by masked sampling. The mass that the mask left is a factor of an
//! output's weight, and once the weights are uneven (their effective number is below a share of N) the population is drawn
//! anew in proportion to them, systematically: one random number, N equidistant marks. At the end the mean weight is an
//! unbiased estimate of `P(L)`, whatever was drawn anew and when, and one of the outputs, drawn by weight, with that mean
//! as its own weight stands for the target law without bias; without it, the bias is of order 1/N.
//!
//! With **twists** the proposal and the weights use the bounds of the trie, as far as it is known: a prefix that has turned
//! out to lead nowhere loses its weight at once, not when it ends. In the end the weights are the same ratio of the model's
//! probability to the proposal's. What a population found is learned when it is finished.

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use unskew_core::{Constraint, Cost, Draw, LanguageModel, Origin, Sampler, logprob::log_sum_exp};

use crate::{
    SampleError, Task,
    draws::stream,
    limits,
    prefixes::{Prefixes, Scope},
    random::{uniform, weighted},
    walk::{Coins, End, Output, Progress, Proposal, Walk, Walker, together},
};

/// How a population is run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SmcConfig {
    /// The number of particles, N; at most [`MAX_PARTICLES`](crate::MAX_PARTICLES).
    pub particles: usize,
    /// Draw the population anew when the effective number of particles is below this share of N: 0 never, 1 always.
    pub threshold: f64,
    /// Use what earlier populations have learned.
    pub twisted: bool,
    /// The most populations for one output: one in which no particle ends with an output is run again.
    pub max_tries: u64,
}

impl Default for SmcConfig {
    /// 10 particles, drawn anew below a half; no twists; 1,000 tries.
    fn default() -> Self {
        Self { particles: 10, threshold: 0.5, twisted: false, max_tries: 1_000 }
    }
}

/// Sequential Monte Carlo.
///
/// - **Law**: of one output without its weight, the target law up to a bias of order 1/N.
/// - **Weight**: `log_weight` is the logarithm of the population's mean weight, whose expectation over populations is `P(L)`:
///   averages with these weights, normalised, tend to those under the target law. A population without survivors has weight
///   zero and is run again; `cost.proposals` counts the particles of all.
/// - **Cost**: N walks in step: a pass for each token of the longest, with up to N positions.
#[derive(Debug)]
pub struct Smc<M: LanguageModel, C: Constraint> {
    prefixes: Prefixes<M, C>,
    config: SmcConfig,
}

impl<M: LanguageModel, C: Constraint> Smc<M, C> {
    /// An SMC sampler for `task`.
    pub fn new(task: Task<M, C>, config: SmcConfig) -> Self {
        Self { prefixes: Prefixes::new(task, Scope::Allowed), config }
    }

    /// All outputs of one population, each with its weight (whose mean over the particles is the estimate of `P(L)`; those
    /// that did not survive have none), and what they cost together in the first.
    ///
    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or the task is cancelled.
    pub fn population(&mut self, rng: &mut dyn Rng) -> Result<Vec<Draw>, SampleError<M::Error>> {
        let mut cost = Cost::default();
        let (outputs, _) = self.run(rng, &mut cost)?;
        let draws = outputs.into_iter().map(|(output, log_weight)| {
            let cost = std::mem::take(&mut cost);
            draw(output, log_weight, Origin::Proposed, cost)
        });
        Ok(draws.collect())
    }

    /// Runs a population; answers with the outputs and their weights, and the mean weight.
    fn run(&mut self, rng: &mut dyn Rng, cost: &mut Cost) -> Result<(Weighted, f64), SampleError<M::Error>> {
        let SmcConfig { particles, threshold, twisted, .. } = self.config;
        limits::check("particles", particles, limits::MAX_PARTICLES)?;
        let many = particles.max(1);
        self.prefixes.keep_within_limit();
        let proposal = if twisted { Proposal::Learned } else { Proposal::Masked };
        let how = Walk { single: true, ..Walk::new(proposal, Coins::None) };
        cost.proposals += many as u64;
        let mut streams: Vec<ChaCha8Rng> = (0..many).map(|_| stream(rng)).collect();
        let mut walkers: Vec<Walker<C>> =
            (0..many).map(|_| Walker::new(&mut self.prefixes, how, &[], &[])).collect();
        // What a particle weighs beside its walk's own weight: what resampling left it.
        let mut shared = vec![0.0; many];
        let mut progress = vec![Progress::Waits; many];
        while progress.iter().any(|progress| !matches!(progress, Progress::Done(_))) {
            for progress in progress.iter_mut().filter(|progress| **progress == Progress::Paused) {
                *progress = Progress::Waits;
            }
            together(&mut self.prefixes, &mut walkers, &mut streams, &mut progress, cost)?;
            let log_weights: Vec<f64> = (0..many)
                .map(|index| match &progress[index] {
                    Progress::Done(End::Stuck(_) | End::Refused) => f64::NEG_INFINITY,
                    _ => shared[index] + walkers[index].log_weight(),
                })
                .collect();
            let total = log_sum_exp(log_weights.iter().copied());
            // No particle is left.
            if total == f64::NEG_INFINITY {
                break;
            }
            let weights: Vec<f64> = log_weights.iter().map(|weight| (weight - total).exp()).collect();
            let effective = 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>();
            let open = progress.contains(&Progress::Paused);
            if open && effective < threshold * to_f64(many) {
                let chosen = systematic(&weights, uniform(rng));
                let mean = total - to_f64(many).ln();
                // Copies go on apart: each place has a stream of its own.
                let all: Vec<_> = chosen.iter().map(|from| walkers[*from].clone()).collect();
                progress = chosen.iter().map(|from| progress[*from].clone()).collect();
                shared = all.iter().map(|walker| mean - walker.log_weight()).collect();
                walkers = all;
            }
        }
        if twisted {
            walkers.iter().for_each(|walker| walker.learn(&mut self.prefixes));
        }
        let outputs: Vec<(Output, f64)> = progress
            .into_iter()
            .enumerate()
            .filter_map(|(index, progress)| match progress {
                Progress::Done(End::Output(output)) => {
                    let log_weight = shared[index] + output.log_weight;
                    Some((output, log_weight))
                }
                _ => None,
            })
            .collect();
        let mean = log_sum_exp(outputs.iter().map(|(_, weight)| *weight)) - to_f64(many).ln();
        Ok((outputs, mean))
    }
}

/// Outputs with the logarithms of their weights.
type Weighted = Vec<(Output, f64)>;

/// Indices drawn with `weights`, which sum to one: as many as there are, at equidistant marks of which the first is `start`
/// of a step from zero. Index `i` is drawn `n w_i` times, rounded up or down.
fn systematic(weights: &[f64], start: f64) -> Vec<usize> {
    let many = weights.len();
    let mut chosen = Vec::with_capacity(many);
    let mut sum = 0.0;
    for (index, weight) in weights.iter().enumerate() {
        sum += weight * to_f64(many);
        while chosen.len() < many && to_f64(chosen.len()) + start < sum {
            chosen.push(index);
        }
    }
    // Rounding may leave the last mark beyond the sum.
    let last = weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
    chosen.resize(many, last);
    chosen
}

#[allow(clippy::cast_precision_loss, reason = "numbers of particles are far below 2^52")]
fn to_f64(count: usize) -> f64 {
    count as f64
}

fn draw(output: Output, log_weight: f64, origin: Origin, cost: Cost) -> Draw {
    Draw { tokens: output.tokens, log_prob: output.log_prob, log_weight, finish: output.finish, origin, cost }
}

impl<M: LanguageModel, C: Constraint> Sampler for Smc<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or no population has a survivor.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        let mut rng = stream(rng);
        let mut cost = Cost::default();
        for _ in 0..self.config.max_tries {
            let (mut outputs, mean) = self.run(&mut rng, &mut cost)?;
            let total = log_sum_exp(outputs.iter().map(|(_, weight)| *weight));
            let weights: Vec<f64> = outputs.iter().map(|(_, weight)| (weight - total).exp()).collect();
            if let Some(index) = weighted(&weights, &mut rng) {
                let (output, _) = outputs.swap_remove(index);
                return Ok(draw(output, mean, Origin::Resampled, cost));
            }
        }
        Err(SampleError::NoOutput { tries: cost.proposals, max_tokens: self.prefixes.max_tokens() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systematic_resampling_rounds_expected_counts() {
        let weights = [0.0, 0.5, 0.125, 0.0, 0.375];
        for start in [0.0, 0.3, 0.7, 0.999] {
            let chosen = systematic(&weights, start);
            assert_eq!(chosen.len(), 5);
            for (index, weight) in weights.iter().enumerate() {
                let count = to_f64(chosen.iter().filter(|other| **other == index).count());
                assert!((count - 5.0 * weight).abs() < 1.0, "{start}: {chosen:?}");
            }
        }
    }
}
