//! ASAp: masked sampling that learns what its outputs were worth (Park et al. 2024, "Grammar-Aligned Decoding", section 3).
//!
//! Each token is drawn in proportion to the model's probability times c~, an upper bound on the probability that the model
//! completes an accepted output from there: 1 for prefixes that no output so far begins with, and for others the sum over
//! the allowed tokens of their probability times their own c~. After each output the bounds on its way fall, and the law of
//! the next one is closer to the target.
//!
//! The published code updates c~ at each token instead of after each output. The law is the same, since an update changes
//! only the bounds of prefixes that the output has passed ([`Updates`]; a test compares the draws bit by bit). It never
//! lowers the bound of a prefix without continuation, nor of one at the length limit; here both are 0, so the length limit is
//! part of the constraint, and an output that runs into a dead end is begun anew with what was learned.
//!
//! New prefixes are drawn under the mask and always kept. That is a bias which any number of outputs only lessens:
//! [`Cars`](crate::Cars) has the same trie, gives up about half of its tries, and none.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task, TrieFileError, Usage,
    draws::{Draws, Method, Verdict},
    prefixes::Scope,
    walk::{Coins, End, Proposal, Walk},
};

/// When bounds are updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Updates {
    /// After each output, as in the paper. Cost: the length of the output.
    #[default]
    PerSample,
    /// After each token, as in the published code. Cost: the square of the length. The same outputs.
    PerToken,
}

/// Adaptive sampling with approximate expected futures.
///
/// - **Law**: masked sampling for the first output; for later ones closer and closer to the target law, and not equal to it.
///   It depends on the outputs before, so outputs are not independent.
/// - **Cost**: one walk for each output (more only after a dead end); known prefixes cost nothing. Memory: some 120 bytes for
///   each visited prefix.
#[derive(Debug)]
pub struct Asap<M: LanguageModel, C: Constraint> {
    draws: Draws<M, C, Approximate>,
}

#[derive(Debug)]
pub(crate) struct Approximate {
    max_tries: u64,
    updates: Updates,
}

impl<M: LanguageModel, C: Constraint> Asap<M, C> {
    /// An ASAp sampler for `task` that gives up after `max_tries` dead ends for one output.
    pub fn new(task: Task<M, C>, max_tries: u64) -> Self {
        let method = Approximate { max_tries, updates: Updates::default() };
        Self { draws: Draws::new(task, Scope::Allowed, method) }
    }

    /// The same sampler with another schedule of updates.
    #[must_use]
    pub fn with_updates(mut self, updates: Updates) -> Self {
        self.draws.method_mut().updates = updates;
        self
    }

    /// Draws `iterations` outputs and forgets all but what they taught.
    ///
    /// # Errors
    ///
    /// As for [`draw`](Sampler::draw).
    pub fn warm_up(&mut self, iterations: u64, rng: &mut dyn Rng) -> Result<(), SampleError<M::Error>> {
        for _ in 0..iterations {
            self.draws.draw(rng)?;
        }
        Ok(())
    }

    /// The same sampler, whose draws come in groups of `group` that step through the model together and learn from each
    /// other when all of a round's walks have ended. The law is the same, but for the outputs before, which are those of earlier groups; the outputs for a seed are others.
    #[must_use]
    pub fn grouped(mut self, group: usize) -> Self {
        self.draws = self.draws.grouped(group);
        self
    }

    #[cfg(test)]
    pub(crate) fn draws_mut(&mut self) -> &mut Draws<M, C, Approximate> {
        &mut self.draws
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

impl Method for Approximate {
    type Memory = ();

    fn learns(&self) -> bool {
        true
    }

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> Walk {
        let per_token = self.updates == Updates::PerToken;
        Walk { per_token, ..Walk::new(Proposal::Learned, Coins::None) }
    }

    fn judge(&self, (): &mut (), tries: u64, _positions: u64, end: End, _rng: &mut dyn Rng) -> Verdict {
        Verdict::of_try(end, Origin::Proposed, tries, self.max_tries)
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Asap<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, every try runs into a dead end ([`SampleError::NoOutput`]), or nothing is left
    /// ([`SampleError::Impossible`]).
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
