//! Greedy decoding: the most probable of what is allowed, token by token.
//!
//! Nothing is random. The output is not the most probable one (that is what [`Beam`](crate::Beam) looks for), and it is not a
//! sample.

use rand_core::Rng;
use unskew_core::{Constraint, Draw, LanguageModel, Origin, Sampler};

use crate::{
    SampleError, Task,
    draws::{Draws, Method, Verdict},
    prefixes::Scope,
    walk::{Coins, End, Proposal, Walk},
};

/// Greedy decoding.
///
/// - **Law**: one output. Ties go to the end of the sequence, and then to the lower id.
/// - **Weight**: none; `log_prob` is the exact log-probability under the model. An output that reaches the length limit is
///   cut off there.
/// - **Cost**: one evaluated position per token, and one pass per token that is not forced.
#[derive(Debug)]
pub struct Greedy<M: LanguageModel, C: Constraint> {
    draws: Draws<M, C, Best>,
}

#[derive(Debug)]
struct Best;

impl<M: LanguageModel, C: Constraint> Greedy<M, C> {
    /// Greedy decoding of `task`.
    pub fn new(task: Task<M, C>) -> Self {
        Self { draws: Draws::new(task, Scope::Allowed, Best) }
    }
}

impl Method for Best {
    type Memory = ();

    fn begin(&self, (): &mut (), _rng: &mut dyn Rng) -> Walk {
        Walk { cut: true, ..Walk::new(Proposal::Greedy, Coins::None) }
    }

    fn judge(&self, (): &mut (), _tries: u64, _positions: u64, end: End, _rng: &mut dyn Rng) -> Verdict {
        match end {
            End::Output(output) => Verdict::Done(output, Origin::Searched, 0.0),
            End::Stuck(tokens) => Verdict::DeadEnd(tokens),
            End::Refused => unreachable!("a walk without coins"),
        }
    }
}

impl<M: LanguageModel, C: Constraint> Sampler for Greedy<M, C> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or gives probability zero to everything that is allowed.
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
