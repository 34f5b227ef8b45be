//! SMC: a population of outputs that grow together, the improbable ones replaced by copies of the others (Lew et al.
//! 2023; Loula et al. 2025).
//!
//! N outputs ("particles") are extended token by token by masked sampling. The mass that the mask leaves is a factor
//! of an output's weight. Once the weights are uneven (their effective number is below a share of N), the population
//! is resampled in proportion to them, systematically: one random number, N equidistant marks. At the end the mean
//! weight is an unbiased estimate of `P(L)`, with any resampling steps. One of the outputs, drawn by weight, stands
//! for the target distribution without bias if it takes that mean as its own weight; without the weight, the bias is
//! of order 1/N.
//!
//! With **twists** the proposal and the weights use the bounds of the tree, as far as they are known: a prefix that
//! is known to lead nowhere loses its weight at once, not at its end. The final weights are the same ratio of the
//! model's probability to the proposal's. A population is taken into the bounds when it is finished.
//!
//! With **values** ([`Smc::values`]) the twists are estimates of the future probability itself
//! ([`values`](crate::values)).

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use unskew_core::{Constraint, Cost, Draw, Logits, Origin, logprob::log_sum_exp};

use super::{Drawing, Rules};
use crate::{
    FedRow, Machine, Poll, SampleError, Task, TrieFileError, limits,
    random::{uniform, weighted},
    rollout::{AcceptTest, End, Output, Progress, Proposal, Rollout, RolloutConfig, RowResult, Waiting},
    scheduler::{CutOff, stream},
    session::{Scope, Session},
    task::ModelShape,
    values::StateValues,
};

/// Sequential Monte Carlo.
///
/// - **Distribution**: of one output without its weight, the target distribution up to a bias of order 1/N.
/// - **Weight**: `log_weight` is the logarithm of the population's mean weight, whose expectation over populations is
///   `P(L)`: averages with these weights, normalised, tend to those under the target distribution. A population
///   without survivors has weight zero and is run again; `cost.proposals` counts the particles of all.
/// - **Cost**: N rollouts in step: a pass for each token of the longest, with up to N positions.
#[derive(Clone, Debug)]
pub struct Smc {
    /// The number of particles, N; at most [`MAX_PARTICLES`](crate::MAX_PARTICLES).
    pub particles: usize,
    /// Resample the population when the effective number of particles is below this share of N: 0 never, 1 always.
    pub threshold: f64,
    /// Use the bounds of earlier populations.
    pub twisted: bool,
    /// The most populations for one output. A population is run again if no particle ends with an output.
    pub max_tries: u64,
    /// The draws are all outputs of one population after the other, each with its weight. Averages with these weights
    /// over all populations, normalised, tend to those under the target distribution. Particles that did not survive
    /// have weight zero. The first output of a population carries the cost of all: the sum of the weights over the
    /// number of particles, which is `cost.proposals`, is an estimate of `P(L)`.
    pub all: bool,
    /// Learned values by which particles propose, and are weighed on the way; `twisted` means nothing then.
    /// Populations teach them.
    pub values: Option<StateValues>,
}

impl Default for Smc {
    /// 10 particles, resampled below a half, of which one output is drawn; no twists; 1,000 tries.
    fn default() -> Self {
        Self { particles: 10, threshold: 0.5, twisted: false, max_tries: 1_000, all: false, values: None }
    }
}

impl<C: Constraint> Rules<C> for Smc {
    type Drawing = Populations<C>;

    fn drawing(self, task: Task<ModelShape, C>) -> Populations<C> {
        let mut session = Session::new(task, Scope::Allowed);
        let proposal = match (&self.values, self.twisted) {
            (Some(_), _) => Proposal::Twisted,
            (None, true) => Proposal::Cars,
            (None, false) => Proposal::Masked,
        };
        if let Some(values) = &self.values {
            session.set_values(values.clone());
        }
        Populations {
            session,
            config: self,
            proposal,
            wanted: VecDeque::new(),
            run: None,
            waiting: Waiting::default(),
            cut_off: CutOff::default(),
            done: VecDeque::new(),
            weights: 0.0,
            particles: 0,
        }
    }
}

/// The populations of [`Smc`], one after the other.
#[derive(Debug)]
pub struct Populations<C: Constraint> {
    session: Session<C>,
    config: Smc,
    proposal: Proposal,
    /// The draws that were asked for.
    wanted: VecDeque<ChaCha8Rng>,
    run: Option<Run<C>>,
    waiting: Waiting,
    cut_off: CutOff,
    done: VecDeque<Result<Draw, SampleError<Infallible>>>,
    /// Where all outputs of populations are drawn: the sum of their weights, and the particles of the populations.
    weights: f64,
    particles: u64,
}

/// A population under way.
struct Run<C: Constraint> {
    rng: ChaCha8Rng,
    /// The number of populations for this output so far, this one included.
    tries: u64,
    cost: Cost,
    streams: Vec<ChaCha8Rng>,
    rollouts: Vec<Rollout<C>>,
    progress: Vec<Progress>,
    /// For each particle, the part of its weight that resampling gave it. The rest is its rollout's own weight.
    shared: Vec<f64>,
}

impl<C: Constraint> std::fmt::Debug for Run<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("particles", &self.rollouts.len()).finish_non_exhaustive()
    }
}

/// Outputs with the logarithms of their weights.
type Weighted = Vec<(Output, f64)>;

impl<C: Constraint> Populations<C> {
    fn fail(&mut self, error: SampleError<Infallible>) {
        self.give_up();
        self.done.push_back(Err(error));
    }

    fn start(
        &mut self,
        mut rng: ChaCha8Rng,
        tries: u64,
        mut cost: Cost,
    ) -> Result<(), SampleError<Infallible>> {
        let particles = self.config.particles;
        limits::check("particles", particles, limits::MAX_PARTICLES)?;
        let many = particles.max(1);
        self.session.keep_within_limit();
        let config = RolloutConfig { yields: true, ..RolloutConfig::new(self.proposal, AcceptTest::Never) };
        cost.proposals += many as u64;
        let streams = (0..many).map(|_| stream(&mut rng)).collect();
        let rollouts = (0..many).map(|_| Rollout::new(&mut self.session, config, &[], &[])).collect();
        let (progress, shared) = (vec![Progress::NeedsRows; many], vec![0.0; many]);
        self.run = Some(Run { rng, tries, cost, streams, rollouts, progress, shared });
        Ok(())
    }

    /// At the end of a population: hands over its outputs, or begins another population.
    fn finish(&mut self, run: Run<C>) -> Result<(), SampleError<Infallible>> {
        let Run { mut rng, tries, mut cost, rollouts, progress, shared, .. } = run;
        if self.proposal == Proposal::Cars {
            rollouts.iter().try_for_each(|rollout| rollout.back_up(&mut self.session))?;
        }
        rollouts.iter().for_each(|rollout| rollout.teach(&mut self.session));
        let many = rollouts.len();
        let outputs = progress.into_iter().zip(shared).filter_map(|(progress, shared)| match progress {
            Progress::Done(End::Output(output)) => {
                let log_weight = shared + output.log_weight;
                Some((output, log_weight))
            }
            _ => None,
        });
        let mut outputs: Weighted = outputs.collect();
        if self.config.all && !outputs.is_empty() {
            self.particles += cost.proposals;
            for (output, log_weight) in outputs {
                self.weights += log_weight.exp();
                let cost = std::mem::take(&mut cost);
                self.done.push_back(Ok(draw(output, log_weight, Origin::Proposed, cost)));
            }
            self.cut_off.output();
            return Ok(());
        }
        let total = log_sum_exp(outputs.iter().map(|(_, weight)| *weight));
        let weights: Vec<f64> = outputs.iter().map(|(_, weight)| (weight - total).exp()).collect();
        if let Some(index) = weighted(&weights, &mut rng) {
            let (output, _) = outputs.swap_remove(index);
            let mean = total - to_f64(many).ln();
            self.done.push_back(Ok(draw(output, mean, Origin::Resampled, cost)));
            self.cut_off.output();
            return Ok(());
        }
        let proposals = cost.proposals;
        let (cut_off, session) = (&mut self.cut_off, &mut self.session);
        let gives_up = rollouts.iter().filter_map(|rollout| {
            let len = rollout.len();
            cut_off.after((len, len as u64), session, (proposals, false))
        });
        if let Some(error) = gives_up.last() {
            return Err(error);
        }
        if tries >= self.config.max_tries {
            return Err(self.cut_off.in_vain(&mut self.session, proposals));
        }
        self.start(rng, tries + 1, cost)
    }
}

impl<C: Constraint> Run<C> {
    /// Advances the particles that do not wait. Answers whether there are any.
    fn step(&mut self, session: &mut Session<C>) -> RowResult<bool> {
        let particles = self.rollouts.iter_mut().zip(&mut self.streams).zip(&mut self.progress);
        for ((rollout, rng), progress) in particles {
            if *progress == Progress::NeedsRows && !rollout.is_pending() {
                *progress = rollout.poll(session, rng)?;
            }
        }
        Ok(self.progress.contains(&Progress::NeedsRows))
    }

    /// Weighs the particles after a token of each, and resamples them where their weights are uneven. Answers whether
    /// some of them go on.
    fn weigh(&mut self, threshold: f64) -> bool {
        let many = self.rollouts.len();
        let log_weights: Vec<f64> = (0..many)
            .map(|index| match &self.progress[index] {
                Progress::Done(End::Stuck(_) | End::Rejected) => f64::NEG_INFINITY,
                _ => self.shared[index] + self.rollouts[index].log_weight(),
            })
            .collect();
        let total = log_sum_exp(log_weights.iter().copied());
        // No particle is left.
        if total == f64::NEG_INFINITY {
            return false;
        }
        let weights: Vec<f64> = log_weights.iter().map(|weight| (weight - total).exp()).collect();
        let effective = 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>();
        let open = self.progress.contains(&Progress::Yielded);
        if open && effective < threshold * to_f64(many) {
            let chosen = systematic(&weights, uniform(&mut self.rng));
            let mean = total - to_f64(many).ln();
            // Copies differ from here on: each place has its own stream of random numbers.
            let all: Vec<_> = chosen.iter().map(|from| self.rollouts[*from].clone()).collect();
            self.progress = chosen.iter().map(|from| self.progress[*from].clone()).collect();
            self.shared = all.iter().map(|rollout| mean - rollout.log_weight()).collect();
            self.rollouts = all;
        }
        for progress in self.progress.iter_mut().filter(|progress| **progress == Progress::Yielded) {
            *progress = Progress::NeedsRows;
        }
        self.progress.contains(&Progress::NeedsRows)
    }
}

impl<C: Constraint> Drawing for Populations<C> {
    fn begin(&mut self, count: usize, rng: &mut dyn Rng) {
        self.wanted.extend((0..count).map(|_| stream(rng)));
    }

    fn room(&self) -> usize {
        usize::from(self.is_idle())
    }

    fn is_idle(&self) -> bool {
        self.run.is_none() && self.wanted.is_empty() && self.done.is_empty()
    }

    fn take(&mut self) -> Option<Result<Draw, SampleError<Infallible>>> {
        self.done.pop_front()
    }

    fn give_up(&mut self) {
        self.run = None;
        self.wanted.clear();
        self.done.clear();
    }

    /// Also of outputs that are not handed over. Where one output of a population is drawn, the mean of the draws'
    /// weights over all populations is an estimate.
    fn log_mass(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "nobody draws 2^53 particles")]
        let mean = self.weights / self.particles as f64;
        (self.particles > 0).then(|| mean.ln().min(0.0))
    }

    fn save(&mut self, name: &str) -> Vec<u8> {
        self.session.save(name)
    }

    fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.give_up();
        self.session.load(name, bytes)
    }
}

impl<C: Constraint> Machine for Populations<C> {
    fn poll(&mut self) -> Poll {
        loop {
            if self.session.is_cancelled() && (self.run.is_some() || !self.wanted.is_empty()) {
                self.fail(SampleError::Cancelled);
            }
            let Some(run) = &mut self.run else {
                let Some(next) = self.wanted.pop_front() else { return Poll::Done };
                if let Err(error) = self.start(next, 1, Cost::default()) {
                    self.fail(error);
                }
                continue;
            };
            match run.step(&mut self.session) {
                Ok(true) => return Poll::Rows(self.waiting.gather(&self.session, &run.rollouts)),
                Ok(false) => {}
                Err(error) => {
                    self.fail(error);
                    continue;
                }
            }
            if !run.weigh(self.config.threshold)
                && let Some(run) = self.run.take()
                && let Err(error) = self.finish(run)
            {
                self.fail(error);
            }
        }
    }

    fn feed(&mut self, logits: &Arc<Logits>, rows: &[FedRow]) {
        let Self { session, run, waiting, .. } = self;
        let Some(run) = run else { return };
        if let Err(error) = waiting.feed(session, &mut run.rollouts, logits, rows) {
            self.fail(error);
        }
    }

    fn charge(&mut self, _request: usize, cost: Cost) {
        if let Some(run) = &mut self.run {
            run.cost += cost;
        }
    }
}

/// Indices drawn with `weights`, which sum to one: as many indices as weights, at equidistant marks. The first mark
/// is at the part `start` of a step. Index `i` is drawn `n w_i` times, rounded up or down.
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
    let (log_prob, finish) = (output.log_prob, output.finish);
    Draw { tokens: output.into_tokens(), log_prob, log_weight, finish, origin, effective: None, cost }
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
