//! The trait of samplers, and the draws that they return.
//!
//! A sampler is bound to its task (model, constraint, prompt, limits) when it is made, because most of them learn
//! about that task as they draw; here only the drawing remains. The generator of random numbers is always an argument:
//! with it as a field, a seed is a property of an object's history.

use rand_core::Rng;

use crate::TokenId;

/// How an output ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Finish {
    /// The model stopped, and the constraint accepts.
    Stop,
    /// The limit of tokens was reached: the output is only a prefix.
    Length,
}

impl Finish {
    /// The name, as programs write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// How a sampler came by an output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// Drawn from the sampler's proposal and kept as it is.
    Proposed,
    /// Proposed, and accepted by a test: accepted outputs follow the target distribution exactly.
    Accepted,
    /// Chosen among several proposals by weight, after no proposal was accepted: near the target distribution, not
    /// exact.
    Resampled,
    /// The last state of a chain: near the target distribution, to which chains tend, and not exact.
    Chained,
    /// Found by a search for probable outputs: not a sample of any distribution.
    Searched,
}

impl Origin {
    /// The name, as programs write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Accepted => "accepted",
            Self::Resampled => "resampled",
            Self::Chained => "chained",
            Self::Searched => "searched",
        }
    }
}

/// The work that an output took.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cost {
    /// Positions that the model evaluated.
    pub positions: u64,
    /// Passes through the model, each over any number of positions.
    pub passes: u64,
    /// Outputs proposed, those given up half-way among them.
    pub proposals: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.positions += other.positions;
        self.passes += other.passes;
        self.proposals += other.proposals;
    }
}

/// One output of a sampler.
#[derive(Clone, PartialEq, Debug)]
pub struct Draw {
    /// The tokens after the prompt, without the end of the sequence.
    pub tokens: Vec<TokenId>,
    /// The natural logarithm of the probability that the model itself gives these tokens and, with
    /// [`Finish::Stop`], the end of the sequence after them.
    pub log_prob: f64,
    /// The logarithm of the weight that an average over outputs must give this one; zero where the sampler already
    /// draws from its target distribution.
    pub log_weight: f64,
    /// How the output ended.
    pub finish: Finish,
    /// How the sampler came by it.
    pub origin: Origin,
    /// Of an output that DISC has resampled: how many equal proposals its proposals are worth, by their weights (Kish's
    /// effective sample size), from 1 to their number. Such an output is within `ln(1 + 1 / effective)` nats of the
    /// target distribution, as far as these weights tell.
    pub effective: Option<f64>,
    /// The work that it took.
    pub cost: Cost,
}

/// A way to draw outputs of one task.
///
/// The task's target distribution is that of the model, given that the constraint accepts and that the output has at
/// most the task's number of tokens. Each implementation states how its own distribution relates to that one;
/// [`conformance::check_sampler`](crate::conformance::check_sampler) compares the two.
pub trait Sampler {
    /// Why nothing could be drawn.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Draws one output.
    ///
    /// # Errors
    ///
    /// When the model fails, or the sampler's limits are reached without an output.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error>;

    /// Draws `count` outputs and hands each to `each` as soon as it and those before it are drawn. The distribution
    /// of each is that of [`draw`](Self::draw); a sampler may compute them together.
    ///
    /// # Errors
    ///
    /// As for [`draw`](Self::draw); the outputs before the error are handed over.
    fn draw_each(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        each: &mut dyn FnMut(Draw),
    ) -> Result<(), Self::Error> {
        for _ in 0..count {
            each(self.draw(rng)?);
        }
        Ok(())
    }

    /// Draws `count` outputs and appends them to `draws`; see [`draw_each`](Self::draw_each).
    ///
    /// # Errors
    ///
    /// As for [`draw`](Self::draw); the outputs drawn before the error stay.
    fn draw_many(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        draws: &mut Vec<Draw>,
    ) -> Result<(), Self::Error> {
        self.draw_each(count, rng, &mut |draw| draws.push(draw))
    }
}

impl<S: Sampler + ?Sized> Sampler for Box<S> {
    type Error = S::Error;

    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, S::Error> {
        (**self).draw(rng)
    }

    fn draw_each(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        each: &mut dyn FnMut(Draw),
    ) -> Result<(), S::Error> {
        (**self).draw_each(count, rng, each)
    }
}
