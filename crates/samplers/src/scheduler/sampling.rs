//! A policy over a model: the closed loop of the samplers.

use std::fmt;

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Sampler};

#[cfg(test)]
use crate::tree::PrefixTree;
use crate::{
    SampleError, Scheduler, SequencePool, Task, TrieFileError, machine,
    policy::Policy,
    scheduler::Usage,
    speculative::{Drafter, SpeculationConfig, SpeculationError},
};

/// A policy over a model: the closed loop of the samplers.
///
/// [`draw`](Sampler::draw) makes one output at a time; [`draw_next`](Self::draw_next) and
/// [`draw_each`](Sampler::draw_each) keep [`Task::batch`] rollouts under way, which share the passes of the model.
#[derive(Debug)]
pub struct Sampling<M: LanguageModel, C: Constraint, P: Policy + fmt::Debug> {
    pool: SequencePool<M>,
    scheduler: Scheduler<C, P>,
    /// The error of the model, while draws that were made before it are still to be handed over.
    failure: Option<M::Error>,
}

impl<M: LanguageModel, C: Constraint, P: Policy + fmt::Debug> Sampling<M, C, P> {
    /// The sampler of a policy for `task`.
    pub fn new(task: Task<M, C>, policy: P) -> Self {
        let batch = task.batch;
        let (model, task) = task.split();
        Self::from_parts(SequencePool::new(model, batch), Scheduler::new(task, policy))
    }

    /// The sampler of a machine over the sequences of a model.
    pub fn from_parts(pool: SequencePool<M>, scheduler: Scheduler<C, P>) -> Self {
        Self { pool, scheduler, failure: None }
    }

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
        let Self { pool, scheduler, .. } = Self::new(task, policy);
        Ok(Self::from_parts(pool, scheduler.with_drafter(Box::new(drafter), config)?))
    }

    /// The next draw, in the order in which draws were begun. Draws begin while there is room for them, and each draw
    /// that begins is taken off `left`. `None`: `left` is zero, and all draws are handed over.
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
            if let Some(draw) = self.scheduler.take() {
                return Some(draw.map_err(SampleError::widen));
            }
            if let Some(error) = self.failure.take() {
                self.scheduler.give_up();
                return Some(Err(SampleError::Model(error)));
            }
            // Streams are seeded when there is room for their draws: a large count costs no memory.
            let more = self.scheduler.room().min(*left);
            self.scheduler.begin(more, rng);
            *left -= more;
            if self.scheduler.is_idle() {
                return None;
            }
            self.failure = machine::step(&mut self.pool, &mut [&mut self.scheduler]).err();
        }
    }

    /// The machine without the model.
    pub fn scheduler(&mut self) -> &mut Scheduler<C, P> {
        &mut self.scheduler
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

    /// The logarithm of an upper bound on `P(L)`, the probability that the model satisfies the constraint by itself.
    /// It is 0 at first, and falls with each rollout of a policy that learns.
    pub fn log_bound(&self) -> f64 {
        self.scheduler.log_bound()
    }

    /// The memory of the sampler.
    pub fn usage(&self) -> Usage {
        self.scheduler.usage()
    }

    /// The bounds as bytes. `name` names the model and the constraint, since the sampler has no names for them.
    /// Bounds of one task are wrong for another, and with them the distribution.
    pub fn save(&mut self, name: &str) -> Vec<u8> {
        self.scheduler.save(name)
    }

    /// Goes on from bounds that were [saved](Self::save) for the same task under the same name. The next draws are
    /// those that would have followed in the saving sampler.
    ///
    /// # Errors
    ///
    /// [`TrieFileError`] where the bytes are damaged or belong to another task. Draws under way are given up.
    pub fn load(&mut self, name: &str, bytes: &[u8]) -> Result<(), TrieFileError> {
        self.scheduler.load(name, bytes)
    }

    #[cfg(test)]
    pub(crate) fn tree_mut(&mut self) -> &mut PrefixTree {
        self.scheduler.tree_mut()
    }
}

impl<M: LanguageModel, C: Constraint, P: Policy + fmt::Debug> Sampler for Sampling<M, C, P> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or the policy has used up its tries.
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
        self.scheduler.give_up();
        self.failure = None;
        let mut left = count;
        while let Some(draw) = self.draw_next(&mut left, rng) {
            each(draw?);
        }
        Ok(())
    }
}
