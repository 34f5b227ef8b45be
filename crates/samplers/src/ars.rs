//! ARS: adaptive rejection sampling, which learns from each failure that it was one, and no more (Parys et al. 2025, as a
//! baseline of CARS).
//!
//! Tokens are drawn from the model times the bounds, forbidden ones too; when one is not allowed, that one path is ruled out
//! and the try given up. [`Cars`](crate::Cars) rules out all that the mask forbids at that prefix. Only at the empty prefix
//! is the mask used from the start.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task, TrieFileError, Usage,
    draws::{Draws, Method, Verdict},
    prefixes::Scope,
    walk::{Coins, End, Proposal, Walk},
};

/// Adaptive rejection sampling.
///
/// - **Law**: exactly the target law; outputs are independent.
/// - **Cost**: `b / P(L)` tries on average, where `b` is the bound at that time; known prefixes cost nothing as long as
///   their row is in the cache. Memory: some 120 bytes for each visited prefix, and for each token that failed.
#[derive(Debug)]
pub struct Ars<M: LanguageModel, C: Constraint> {
    draws: Draws<M, C, PathByPath>,
}

#[derive(Debug)]
struct PathByPath {
    max_tries: u64,
}

impl<M: LanguageModel, C: Constraint> Ars<M, C> {
    /// An ARS sampler for `task` that gives up after `max_tries` tries for one output.
    pub fn new(task: Task<M, C>, max_tries: u64) -> Self {
        Self { draws: Draws::new(task, Scope::Everything, PathByPath { max_tries }) }
    }

    /// The same sampler, whose draws come in groups of `group` that step through the model together and learn from each
    /// other when all of a round's walks have ended. The law is the same, exactly; the outputs for a seed are others.
    #[must_use]
    pub fn grouped(mut self, group: usize) -> Self {
        self.draws = self.draws.grouped(group);
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

impl Method for PathByPath {
    type Memory = ();

    fn learns(&self) -> bool {
        true
    }

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> Walk {
        Walk::new(Proposal::Unguarded, Coins::None)
    }

    fn judge(&self, (): &mut (), tries: u64, _positions: u64, end: End, _rng: &mut dyn Rng) -> Verdict {
        Verdict::of_try(end, Origin::Accepted, tries, self.max_tries)
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Ars<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, no try is accepted ([`SampleError::NoOutput`]), or nothing is left that could be
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
