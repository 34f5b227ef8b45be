//! Outputs, one after the other.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_core::{Cancel, Cost, Draw, Finish, Origin, Sampler, TokenId};
use unskew_engine::TokenSpace;

use super::{
    Drafted, Event, Method, Observer,
    engine::{AnySampleError, Engine},
    error::{Error, Result},
    method::Asap,
};

/// An output, with what it took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Output {
    /// The text, with replacement characters where it is not UTF-8, and without a healed part of the prompt.
    pub text: String,
    /// The tokens, without the end of the sequence.
    pub ids: Vec<TokenId>,
    /// The natural logarithm of the probability that the model itself gives the output, its end included.
    pub log_prob: f64,
    /// The logarithm of the weight that an average over outputs must give this one; zero for exact samplers.
    pub log_weight: f64,
    /// How the output ended.
    pub finish: Finish,
    /// How the sampler came by it.
    pub origin: Origin,
    /// Evaluated positions, passes through the model, and proposals.
    pub cost: Cost,
    /// The share of speculation, where tokens were drafted.
    pub drafted: Option<Drafted>,
}

/// The parts of a request that drawing needs.
pub(crate) struct Plan {
    pub(crate) tokens: Arc<TokenSpace>,
    pub(crate) method: Method,
    /// Why, where it was chosen.
    pub(crate) why: Option<&'static str>,
    /// Whether masked sampling is the model itself.
    pub(crate) is_model: bool,
    /// The text that outputs begin with and that is not shown.
    pub(crate) healed: String,
    pub(crate) engine: Engine,
    pub(crate) seed: Option<u64>,
    pub(crate) batch: usize,
    pub(crate) cancel: Cancel,
    pub(crate) observer: Observer,
}

/// An iterator over the outputs of a [`Request`](super::Request). It ends after the first error, and a search ends with its last output.
pub struct Draws {
    plan: Plan,
    /// Whether a search gives each of its outputs once, and not its best one each time.
    ranked: bool,
    seed: u64,
    rng: ChaCha8Rng,
    /// Outputs that are still to be learned from before the first is given out.
    warm_up: u64,
    /// Drawn, and not given out yet.
    ready: VecDeque<Draw>,
    failed: Option<Error>,
    /// The outputs that are still to be drawn; `None`: any number.
    left: Option<usize>,
    /// Whether a search is over.
    over: bool,
    outputs: u64,
    cost: Cost,
}

impl fmt::Debug for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draws")
            .field("method", &self.plan.method)
            .field("seed", &self.seed)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl Draws {
    pub(crate) fn new(plan: Plan) -> Self {
        let seed = plan.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let warm_up = match plan.method {
            Method::Asap(Asap { iterations, .. }) => iterations,
            _ => 0,
        };
        Self {
            plan,
            ranked: true,
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
            warm_up,
            ready: VecDeque::new(),
            failed: None,
            left: None,
            over: false,
            outputs: 0,
            cost: Cost::default(),
        }
    }

    /// At most `outputs` more of them. Other than with [`Iterator::take`], the sampler knows how many are wanted, and draws up to a
    /// batch of them together.
    #[must_use]
    pub fn take(mut self, outputs: usize) -> Self {
        self.left = Some(outputs);
        self
    }

    /// The same outputs one by one, as [`Sampler::draw`] gives them: a search then gives its best output each time.
    #[must_use]
    pub fn best_each_time(mut self) -> Self {
        self.ranked = false;
        self
    }

    /// The method; never [`Method::Auto`].
    pub fn method(&self) -> &Method {
        &self.plan.method
    }

    /// The method, the distribution of its outputs and, where it was chosen, the reason: one line.
    pub fn explain(&self) -> String {
        let Plan { method, why, is_model, .. } = &self.plan;
        let distribution = match method {
            Method::Masked | Method::Speculative(_) if *is_model => "the model's own distribution",
            _ => method.distribution(),
        };
        let why = why.map(|why| format!(" (chosen because {why})")).unwrap_or_default();
        format!("{method}: {distribution}{why}")
    }

    /// The seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of outputs so far, those that are not given out yet among them.
    pub fn drawn(&self) -> u64 {
        self.outputs
    }

    /// The bounds that the sampler has learned, for [`resume`](Self::resume) in another run; `None` where the method learns
    /// none.
    pub fn learned(&mut self) -> Option<Vec<u8>> {
        match &mut self.plan.engine {
            Engine::Learning(sampler, _) => Some(sampler.save()),
            Engine::Plain(..) | Engine::Search(_) => None,
        }
    }

    /// The generator of random numbers after the last output.
    pub fn generator(&self) -> &ChaCha8Rng {
        &self.rng
    }

    /// Goes on from what another run of the same request has [learned](Self::learned), with its generator where one is given.
    ///
    /// # Errors
    ///
    /// [`Error::Learned`] where the bytes are of another task, or damaged, and [`Error::Combination`] where the method learns nothing.
    pub fn resume(&mut self, learned: &[u8], generator: Option<ChaCha8Rng>) -> Result<()> {
        let Engine::Learning(sampler, _) = &mut self.plan.engine else {
            return Err(Error::combination(format!(
                "{} learns nothing that could be kept",
                self.plan.method
            )));
        };
        sampler.load(learned)?;
        // Its iterations are a part of the bounds.
        self.warm_up = 0;
        if let Some(generator) = generator {
            self.rng = generator;
        }
        Ok(())
    }

    /// Draws up to `count` outputs; those before an error stay.
    fn draw(&mut self, count: usize) -> Result<(), AnySampleError> {
        let mut draws = Vec::new();
        let result = match &mut self.plan.engine {
            Engine::Plain(sampler, _) => sampler.draw_many(count, &mut self.rng, &mut draws),
            Engine::Learning(sampler, _) => sampler.draw_many(count, &mut self.rng, &mut draws),
            Engine::Search(beam) if self.ranked => {
                self.over = true;
                beam.search().map(|found| draws = found)
            }
            Engine::Search(beam) => beam.draw_many(count, &mut self.rng, &mut draws),
        };
        for draw in &draws {
            self.outputs += 1;
            self.cost += draw.cost;
            self.plan.observer.tell(Event::Drawn { outputs: self.outputs, cost: self.cost });
        }
        self.ready.extend(draws);
        result
    }

    /// Lets ASAp learn before the first output.
    fn warm_up(&mut self) -> Result<(), AnySampleError> {
        let of = self.warm_up;
        while self.warm_up > 0 {
            if let Engine::Learning(sampler, tallies) = &mut self.plan.engine {
                sampler.draw(&mut self.rng)?;
                if let Some(tallies) = tallies {
                    tallies.borrow_mut().clear();
                }
            }
            self.warm_up -= 1;
            self.plan.observer.tell(Event::Learned { outputs: of - self.warm_up, of });
        }
        Ok(())
    }

    fn output(&mut self, draw: Draw) -> Output {
        let drafted = match &self.plan.engine {
            Engine::Plain(_, Some(tallies)) | Engine::Learning(_, Some(tallies)) => {
                tallies.borrow_mut().pop_front()
            }
            Engine::Plain(..) | Engine::Learning(..) | Engine::Search(_) => None,
        };
        let text = self.plan.tokens.decode(&draw.tokens);
        // An output that was cut off may end inside of the healed text.
        let text = text.strip_prefix(&self.plan.healed).unwrap_or_default().to_owned();
        let Draw { tokens: ids, log_prob, log_weight, finish, origin, cost } = draw;
        Output { text, ids, log_prob, log_weight, finish, origin, cost, drafted }
    }

    /// Draws where nothing is ready.
    fn fill(&mut self) {
        let cancelled = self.plan.cancel.is_cancelled();
        let count = match self.left {
            Some(left) => left.min(self.plan.batch),
            None => 1,
        };
        if count == 0 || self.over {
            return;
        }
        let drawn = match cancelled {
            // Not every sampler looks within an output.
            true => Err(Error::Cancelled),
            false => self.warm_up().and_then(|()| self.draw(count)).map_err(Error::from),
        };
        self.failed = drawn.err().map(|error| match self.plan.cancel.is_cancelled() {
            true => Error::Cancelled,
            false => error,
        });
    }
}

impl Iterator for Draws {
    type Item = Result<Output>;

    fn next(&mut self) -> Option<Result<Output>> {
        if self.left == Some(0) {
            return None;
        }
        if self.ready.is_empty() && self.failed.is_none() {
            self.fill();
        }
        if let Some(draw) = self.ready.pop_front() {
            self.left = self.left.map(|left| left - 1);
            return Some(Ok(self.output(draw)));
        }
        let error = self.failed.take()?;
        self.left = Some(0);
        Some(Err(error))
    }
}
