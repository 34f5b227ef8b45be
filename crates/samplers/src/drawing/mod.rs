//! Draws over a model: one loop for policies, populations and searches.
//!
//! [`Drawing`] is a [`Machine`] whose work are draws: a policy's rollouts, the populations of SMC, the levels of a
//! beam. [`Sampling`] has the model, and hands their draws over.
//!
//! Tried instead: a sampler with a loop of its own for SMC and for beam search. Each who wanted outputs one by one had
//! to keep those of a population, and those of a search, in a buffer of another kind.

mod beam;
mod smc;

use std::convert::Infallible;

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Sampler};

#[cfg(test)]
use crate::tree::PrefixTree;
use crate::{
    Machine, Poll, Request, SampleError, Scheduler, SequencePool, Task, TrieFileError, machine,
    policy::Policy,
    scheduler::Usage,
    speculative::{Drafter, SpeculationConfig, SpeculationError, SpeculationStats},
    task::ModelShape,
};

pub use beam::{Beam, Search};
pub use smc::{Populations, Smc};

/// A machine whose work are draws.
///
/// [`begin`](Self::begin) asks for draws, [`poll`](Machine::poll) and [`feed`](Machine::feed) make them, and
/// [`take`](Self::take) hands them over.
pub trait Drawing: Machine {
    /// Asks for `count` more draws, whose streams of random numbers are seeded from `rng`.
    fn begin(&mut self, count: usize, rng: &mut dyn Rng);

    /// The number of draws that may still begin.
    fn room(&self) -> usize;

    /// Whether all draws that were asked for are handed over.
    fn is_idle(&self) -> bool;

    /// The next draw, in the order of [`begin`](Self::begin), once it is made.
    ///
    /// # Errors
    ///
    /// [`SampleError`] where the draw cannot be made. The draws after it are given up.
    fn take(&mut self) -> Option<Result<Draw, SampleError<Infallible>>>;

    /// Drops all draws that are under way or asked for.
    fn give_up(&mut self);

    /// The logarithm of an estimate of `P(L)`, the probability that the model satisfies the constraint by itself;
    /// `None` where there is none, or none yet.
    fn log_mass(&self) -> Option<f64>;

    /// The statistics of the next draw, in the order in which draws were handed over, where tokens are drafted.
    fn take_speculation(&mut self) -> Option<SpeculationStats> {
        None
    }

    /// The bounds as bytes; see [`Sampling::save`].
    fn save(&mut self, name: &str) -> Vec<u8>;

    /// Loads bounds; see [`Sampling::load`].
    ///
    /// # Errors
    ///
    /// [`TrieFileError`] where the bytes are damaged or belong to another task. Draws under way are given up.
    fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError>;
}

/// The rules of a sampler: a policy such as [`Exact`](crate::Exact), [`Smc`] or [`Beam`].
pub trait Rules<C: Constraint> {
    /// The machine that follows them.
    type Drawing: Drawing;

    /// The machine for `task`.
    fn drawing(self, task: Task<ModelShape, C>) -> Self::Drawing;
}

impl<C: Constraint, P: Policy> Rules<C> for P {
    type Drawing = Scheduler<C, P>;

    fn drawing(self, task: Task<ModelShape, C>) -> Scheduler<C, P> {
        Scheduler::new(task, self)
    }
}

/// The next event of a sampler.
#[derive(Debug)]
pub enum Polled<E> {
    /// A draw.
    Draw(Result<Draw, SampleError<E>>),
    /// A pass of the model.
    Rows,
}

/// Rules over a model: the closed loop of the samplers.
///
/// [`draw`](Sampler::draw) makes one output at a time; [`draw_next`](Self::draw_next) and
/// [`draw_each`](Sampler::draw_each) keep [`Task::batch`] rollouts under way, which share the passes of the model.
/// [`poll_next`](Self::poll_next) and [`evaluate`](Self::evaluate) are the same pass by pass.
#[derive(Debug)]
pub struct Sampling<M: LanguageModel, D> {
    pool: SequencePool<M>,
    machine: D,
    /// The rows that the machine waits for.
    wanted: Vec<Request>,
    /// The error of the model, while draws that were made before it are still to be handed over.
    failure: Option<M::Error>,
}

impl<M: LanguageModel, D: Drawing> Sampling<M, D> {
    /// The sampler of `rules` for `task`.
    pub fn new<C: Constraint, R: Rules<C, Drawing = D>>(task: Task<M, C>, rules: R) -> Self {
        let batch = task.batch;
        let (model, task) = task.split();
        Self::from_parts(SequencePool::new(model, batch), rules.drawing(task))
    }

    /// The sampler of a machine over the sequences of a model.
    pub fn from_parts(pool: SequencePool<M>, machine: D) -> Self {
        Self { pool, machine, wanted: Vec::new(), failure: None }
    }

    /// The next draw, in the order in which draws were begun. Draws begin while there is room for them, and each draw
    /// that begins is taken off `left`. `None`: `left` is zero, or a search is over, and all draws are handed over.
    ///
    /// Draws may be under way when this returns. They go on with the next call, and are given up by
    /// [`draw`](Sampler::draw), [`draw_each`](Sampler::draw_each) and [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// As for [`draw`](Sampler::draw). The draws before the first unfinished one are handed over before the error.
    /// The draws after it are given up.
    pub fn draw_next(
        &mut self,
        left: &mut usize,
        rng: &mut dyn Rng,
    ) -> Option<Result<Draw, SampleError<M::Error>>> {
        loop {
            match self.poll_next(left, rng)? {
                Polled::Draw(draw) => return Some(draw),
                Polled::Rows => self.evaluate(),
            }
        }
    }

    /// Goes on to the next draw, or to the next pass of the model: then [`evaluate`](Self::evaluate) has to come before
    /// the next call, which answers the same without it. For programs that do something else between passes. Draws are
    /// those of [`draw_next`](Self::draw_next).
    ///
    /// # Errors
    ///
    /// As for [`draw_next`](Self::draw_next), in the draw.
    pub fn poll_next(&mut self, left: &mut usize, rng: &mut dyn Rng) -> Option<Polled<M::Error>> {
        if !self.wanted.is_empty() {
            return Some(Polled::Rows);
        }
        loop {
            if let Some(draw) = self.machine.take() {
                return Some(Polled::Draw(draw.map_err(SampleError::widen)));
            }
            if let Some(error) = self.failure.take() {
                self.machine.give_up();
                return Some(Polled::Draw(Err(SampleError::Model(error))));
            }
            // Streams are seeded when there is room for their draws: a large count costs no memory.
            let more = self.machine.room().min(*left);
            self.machine.begin(more, rng);
            *left -= more;
            if self.machine.is_idle() {
                return None;
            }
            if let Poll::Rows(wanted) = self.machine.poll() {
                self.wanted = wanted;
                return Some(Polled::Rows);
            }
        }
    }

    /// The rows that [`evaluate`](Self::evaluate) will ask the model for. It may ask for the row after a prompt too.
    pub fn wanted(&self) -> &[Request] {
        &self.wanted
    }

    /// Makes the pass that [`poll_next`](Self::poll_next) told of. An error of the model is that of the next draw.
    pub fn evaluate(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        self.failure = machine::answer(&mut self.pool, &wanted, &mut self.machine).err();
    }

    /// Drops all draws that are under way.
    pub fn give_up(&mut self) {
        self.machine.give_up();
        self.wanted.clear();
        self.failure = None;
    }

    /// The machine without the model.
    pub fn machine(&mut self) -> &mut D {
        &mut self.machine
    }

    /// Draws `count` outputs and drops them; only the bounds learned from them stay.
    ///
    /// # Errors
    ///
    /// As for [`draw`](Sampler::draw).
    pub fn warm_up(&mut self, count: u64, rng: &mut dyn Rng) -> Result<(), SampleError<M::Error>> {
        for _ in 0..count {
            self.draw(rng)?;
        }
        Ok(())
    }

    /// The bounds as bytes. `name` names the model and the constraint, since the sampler has no names for them.
    /// Bounds of one task are wrong for another, and with them the distribution.
    pub fn save(&mut self, name: &str) -> Vec<u8> {
        self.machine.save(name)
    }

    /// Goes on from bounds that were [saved](Self::save) for the same task under the same name. The next draws are
    /// those that would have followed in the saving sampler.
    ///
    /// # Errors
    ///
    /// [`TrieFileError`] where the bytes are damaged or belong to another task. Draws under way are given up.
    pub fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.give_up();
        self.machine.load(name, bytes)
    }
}

impl<M: LanguageModel, C: Constraint, P: Policy> Sampling<M, Scheduler<C, P>> {
    /// The sampler of a policy for `task`, whose rollouts `drafter` drafts for.
    ///
    /// # Errors
    ///
    /// [`SpeculationError`] when the budget is no divergence, the drafter has other tokens, or the parameters do not
    /// fit together.
    pub fn speculative(
        task: Task<M, C>,
        policy: P,
        drafter: impl Drafter<C> + Send + 'static,
        config: SpeculationConfig,
    ) -> Result<Self, SpeculationError> {
        let Self { pool, machine, .. } = Self::new(task, policy);
        Ok(Self::from_parts(pool, machine.with_drafter(Box::new(drafter), config)?))
    }

    /// The logarithm of an upper bound on `P(L)`, the probability that the model satisfies the constraint by itself.
    /// It is 0 at first, and falls with each rollout of a policy that learns.
    pub fn log_bound(&self) -> f64 {
        self.machine.log_bound()
    }

    /// The memory of the sampler.
    pub fn usage(&self) -> Usage {
        self.machine.usage()
    }

    #[cfg(test)]
    pub(crate) fn tree_mut(&mut self) -> &mut PrefixTree {
        self.machine.tree_mut()
    }
}

impl<M: LanguageModel, D: Drawing> Sampler for Sampling<M, D> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or the rules have used up their tries.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        let mut drawn = None;
        self.draw_each(1, rng, &mut |draw| drawn = Some(draw))?;
        Ok(drawn.expect("an output or an error"))
    }

    /// # Errors
    ///
    /// As for [`draw`](Self::draw). The draws before the first unfinished one are handed over. Which of the later
    /// draws are finished depends on their lengths.
    fn draw_each(
        &mut self,
        count: usize,
        rng: &mut dyn Rng,
        each: &mut dyn FnMut(Draw),
    ) -> Result<(), Self::Error> {
        self.give_up();
        let mut left = count;
        for _ in 0..count {
            let Some(draw) = self.draw_next(&mut left, rng) else { break };
            each(draw?);
        }
        Ok(())
    }
}
