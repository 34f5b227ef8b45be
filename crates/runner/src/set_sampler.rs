//! Outputs of a set, drawn with every step on the device: masked sampling, greedy decoding, and DISC.
//!
//! Draws step together; what each needs of the host is a random number up, and a token with two logarithms down. They have the
//! distributions of the samplers of the same name in `unskew-samplers`, which take any model and any constraint and need the logits;
//! those learn from what they have seen, which takes whole rows, and these do not. Sums are of 32-bit floats here: logarithms are
//! exact up to about 1e-4 a step.
//!
//! A draw has a stream of random numbers of its own, seeded in the order of the draws, so that no output depends on how many
//! draws share a pass, but for the rounding of the model's products.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Cost, Draw, Extension, Finish, LanguageModel, Origin, Rows, Sampler, TokenId};
use unskew_sets::{Choice, Chooser, GpuSet, Interval, Next, Rule, SetConstraint};

use crate::{
    device::DeviceError,
    llama::{Llama, Sequence},
};

/// What is to be drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct SetTask {
    /// The tokens before the output, at least one.
    pub prompt: Vec<TokenId>,
    /// The ids that end a sequence. Drawing any of them is one event: the output stops.
    pub end: Vec<TokenId>,
    /// The most tokens of an output, its end not counted.
    pub max_tokens: usize,
    /// The most draws that step through the model together.
    pub batch: usize,
    /// The temperature, above zero. The distribution that is kept is the model's at this temperature.
    pub temperature: f32,
}

/// How outputs are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetMethod {
    /// The most probable allowed token at each step. An output at the length limit is cut off there.
    Greedy,
    /// Masked sampling: the model's distribution over the allowed tokens, renormalised at each step. Draws carry weights that make averages
    /// tend to those under the model's distribution given the set. An output at the length limit is cut off there.
    Masked,
    /// DISC as published: masked proposals, of which one is accepted with the product of the masses below the first token. What
    /// is accepted follows the model's distribution given the set and the length limit; where nothing is, proposals are resampled.
    Disc {
        /// The most tries for one output.
        max_tries: u64,
        /// The most positions that may be evaluated in the tries of one output: no try is begun beyond it.
        max_positions: u64,
        /// The number of proposals that are resampled when no try was accepted.
        particles: u64,
    },
}

/// Why nothing could be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetSampleError {
    /// The model or the device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A temperature that is not a positive number.
    #[error("the temperature must be above 0 and finite, not {value}")]
    Temperature {
        /// The temperature.
        value: f32,
    },
    /// The model gives probability zero to everything that the set allows.
    #[error("the model gives probability zero to all that the set allows after the output tokens {tokens:?}")]
    DeadEnd {
        /// The tokens of the output.
        tokens: Vec<TokenId>,
    },
    /// The model cannot write any output that is asked for.
    #[error(
        "the model gives probability zero to every item of at most {max_tokens} tokens, or there is none; allow more tokens"
    )]
    Impossible {
        /// The limit, in tokens.
        max_tokens: usize,
    },
    /// No proposal ended within the limit.
    #[error("no item of at most {max_tokens} tokens in {tries} tries; allow more tokens or more tries")]
    NoOutput {
        /// The number of tries.
        tries: u64,
        /// The limit, in tokens.
        max_tokens: usize,
    },
}

/// Draws items of a set from a model on the GPU.
#[derive(Debug)]
pub struct SetSampler {
    model: Llama,
    set: GpuSet,
    chooser: Chooser,
    task: SetTask,
    method: SetMethod,
    /// The prompt, once it has been evaluated.
    base: Option<Sequence>,
}

/// A draw under way.
struct Lane {
    index: usize,
    rng: ChaCha8Rng,
    cost: Cost,
    /// Whole proposals that wait to be resampled.
    kept: Vec<Walk>,
    /// How many were made for that; none during the tries.
    particles: Option<u64>,
    sequence: Sequence,
    walk: Walk,
}

/// One proposal.
#[derive(Clone, Debug)]
struct Walk {
    interval: Interval,
    tokens: Vec<TokenId>,
    log_prob: f64,
    log_mass: f64,
}

/// How a walk ended.
enum End {
    Output(Finish),
    /// The model goes nowhere.
    Stuck,
    /// A coin refused it.
    Refused,
}

impl SetSampler {
    /// A sampler of the items of `set`, which is uploaded, on the device of `model`.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]: where the model is on the CPU, and where the set does not fit or is a subset or changed. And
    /// [`SetSampleError::Temperature`].
    pub fn new(
        model: Llama,
        set: &SetConstraint,
        task: SetTask,
        method: SetMethod,
    ) -> Result<Self, SetSampleError> {
        if !(task.temperature > 0.0 && task.temperature.is_finite()) {
            return Err(SetSampleError::Temperature { value: task.temperature });
        }
        let gpu = model.gpu()?;
        let chooser = Chooser::new(gpu.clone(), &task.end).map_err(DeviceError::from)?;
        let set = GpuSet::of(gpu, set).map_err(DeviceError::from)?;
        Ok(Self { model, set, chooser, task, method, base: None })
    }

    /// Evaluates the prompt, once.
    fn prompted(&mut self, cost: &mut Cost) -> Result<(), SetSampleError> {
        if self.base.is_none() {
            let mut base = self.model.start();
            let extension = Extension { sequence: &mut base, tokens: &self.task.prompt, rows: Rows::Last };
            self.model.prefill(&mut [extension]).map_err(DeviceError::from)?;
            cost.positions += self.task.prompt.len() as u64;
            cost.passes += 1;
            self.base = Some(base);
        }
        Ok(())
    }

    fn sequence(&mut self) -> Sequence {
        let base = self.base.as_ref().expect("the prompt was evaluated before the first draw");
        self.model.fork(base)
    }

    fn walk(&self) -> Walk {
        Walk { interval: self.set.start(), tokens: Vec::new(), log_prob: 0.0, log_mass: 0.0 }
    }

    /// One more token for all lanes: what comes next in each, or, without the model, that it is cut off.
    fn step(&mut self, lanes: &mut [Lane]) -> Result<Vec<Choice>, DeviceError> {
        let max_tokens = self.task.max_tokens;
        let mut intervals: Vec<Interval> = Vec::with_capacity(lanes.len());
        let mut random = Vec::with_capacity(lanes.len());
        let mut batch = Vec::with_capacity(lanes.len());
        for lane in lanes.iter_mut() {
            let mut interval = lane.walk.interval;
            if lane.walk.tokens.len() == max_tokens {
                // At the limit only the end is possible.
                interval.hi = interval.lo;
            }
            intervals.push(interval);
            random.push(lane.rng.next_u32());
            let len = lane.walk.tokens.len();
            let tokens = &lane.walk.tokens[len.saturating_sub(1)..];
            batch.push(Extension { sequence: &mut lane.sequence, tokens, rows: Rows::Last });
        }
        let rule = match self.method {
            SetMethod::Greedy => Rule::Greedy,
            _ => Rule::Sample { temperature: self.task.temperature, random: &random },
        };
        let choices =
            self.model.choose_in_set(&mut batch, &mut self.chooser, &self.set, &mut intervals, rule)?;
        drop(batch);
        for (lane, interval) in lanes.iter_mut().zip(intervals) {
            lane.walk.interval = interval;
            lane.cost.positions += 1;
        }
        if let Some(first) = lanes.first_mut() {
            first.cost.passes += 1;
        }
        Ok(choices)
    }

    /// Takes a choice; how the walk ends by it, if it does.
    fn take(&self, lane: &mut Lane, choice: Choice) -> Option<End> {
        if choice.next == Next::Nothing {
            return Some(End::Stuck);
        }
        let log_mass = f64::from(choice.log_mass);
        let tosses = matches!(self.method, SetMethod::Disc { .. })
            && lane.particles.is_none()
            && !lane.walk.tokens.is_empty();
        if tosses && uniform(&mut lane.rng).ln() >= log_mass {
            return Some(End::Refused);
        }
        lane.walk.log_mass += log_mass;
        lane.walk.log_prob += f64::from(choice.log_prob);
        match choice.next {
            Next::Token(token) => {
                lane.walk.tokens.push(token);
                None
            }
            _ => Some(End::Output(Finish::Stop)),
        }
    }

    /// What becomes of a draw whose walk has ended: the draw, or nothing where another walk follows.
    fn judge(&mut self, lane: &mut Lane, end: End) -> Result<Option<Draw>, SetSampleError> {
        let walk = std::mem::replace(&mut lane.walk, self.walk());
        let cost = lane.cost;
        let draw = |walk: Walk, origin, log_weight, finish| {
            let Walk { tokens, log_prob, .. } = walk;
            Some(Draw { tokens, log_prob, log_weight, finish, origin, cost })
        };
        let SetMethod::Disc { max_tries, max_positions, particles } = self.method else {
            let (origin, log_weight) = match self.method {
                SetMethod::Greedy => (Origin::Searched, 0.0),
                _ => (Origin::Proposed, walk.log_mass),
            };
            return match end {
                End::Output(finish) => Ok(draw(walk, origin, log_weight, finish)),
                End::Stuck | End::Refused => Err(SetSampleError::DeadEnd { tokens: walk.tokens }),
            };
        };
        match (end, &mut lane.particles) {
            (End::Output(finish), None) => return Ok(draw(walk, Origin::Accepted, 0.0, finish)),
            // Nothing is left of the empty prefix: no number of tries will help.
            (End::Stuck, None) if walk.tokens.is_empty() => {
                return Err(SetSampleError::Impossible { max_tokens: self.task.max_tokens });
            }
            (End::Output(_), Some(made)) => {
                *made += 1;
                lane.kept.push(walk);
            }
            (End::Stuck | End::Refused, Some(made)) => *made += 1,
            (End::Stuck | End::Refused, None)
                if lane.cost.proposals >= max_tries || lane.cost.positions >= max_positions =>
            {
                lane.particles = Some(0);
            }
            (End::Stuck | End::Refused, None) => {}
        }
        if lane.particles.is_none_or(|made| made < particles) {
            lane.cost.proposals += 1;
            lane.sequence = self.sequence();
            return Ok(None);
        }
        let chosen = resampled(&lane.kept, &mut lane.rng).map(|index| lane.kept.swap_remove(index));
        match chosen {
            Some(walk) => Ok(draw(walk, Origin::Resampled, 0.0, Finish::Stop)),
            None => {
                Err(SetSampleError::NoOutput { tries: lane.cost.proposals, max_tokens: self.task.max_tokens })
            }
        }
    }

    /// Draws `count` outputs into their places.
    fn draw_into(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        drawn: &mut [Option<Draw>],
    ) -> Result<(), SetSampleError> {
        let mut prompt = Cost::default();
        self.prompted(&mut prompt)?;
        let mut lanes: Vec<Lane> = Vec::new();
        let mut begun = 0;
        loop {
            while begun < count && lanes.len() < self.task.batch.max(1) {
                let mut seed = [0; 32];
                rng.fill_bytes(&mut seed);
                let mut cost = std::mem::take(&mut prompt);
                cost.proposals = 1;
                lanes.push(Lane {
                    index: begun,
                    rng: ChaCha8Rng::from_seed(seed),
                    cost,
                    kept: Vec::new(),
                    particles: None,
                    sequence: self.sequence(),
                    walk: self.walk(),
                });
                begun += 1;
            }
            // What is cut off needs no model.
            let cuts = !matches!(self.method, SetMethod::Disc { .. });
            let at_limit = |lane: &Lane| cuts && lane.walk.tokens.len() == self.task.max_tokens;
            let (cut, mut rest): (Vec<Lane>, Vec<Lane>) = lanes.drain(..).partition(at_limit);
            for mut lane in cut {
                let draw = self.judge(&mut lane, End::Output(Finish::Length))?;
                drawn[lane.index] = draw;
            }
            if rest.is_empty() && begun == count {
                return Ok(());
            }
            if !rest.is_empty() {
                let choices = self.step(&mut rest)?;
                for (mut lane, choice) in rest.into_iter().zip(choices) {
                    let draw = match self.take(&mut lane, choice) {
                        Some(end) => self.judge(&mut lane, end)?,
                        None => None,
                    };
                    match draw {
                        Some(draw) => drawn[lane.index] = Some(draw),
                        None => lanes.push(lane),
                    }
                }
            }
        }
    }
}

impl Sampler for SetSampler {
    type Error = SetSampleError;

    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, SetSampleError> {
        let mut drawn = None;
        self.draw_each(1, rng, &mut |draw| drawn = Some(draw))?;
        Ok(drawn.expect("an output or an error"))
    }

    fn draw_each(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        each: &mut dyn FnMut(Draw),
    ) -> Result<(), SetSampleError> {
        let mut drawn = vec![None; count];
        let result = self.draw_into(count, rng, &mut drawn);
        drawn.into_iter().map_while(std::convert::identity).for_each(each);
        result
    }
}

/// A number in `[0, 1)`.
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (-53.0_f64).exp2()
}

/// The index of a walk, drawn in proportion to the masses; none where there is none.
fn resampled(walks: &[Walk], rng: &mut ChaCha8Rng) -> Option<usize> {
    // Products of many masses underflow: divide all by the greatest.
    let greatest = walks.iter().map(|walk| walk.log_mass).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = walks.iter().map(|walk| (walk.log_mass - greatest).exp()).collect();
    let mut left = uniform(rng) * weights.iter().sum::<f64>();
    let index = weights.iter().position(|weight| {
        let here = left < *weight;
        left -= weight;
        here
    });
    index.or(walks.len().checked_sub(1))
}
