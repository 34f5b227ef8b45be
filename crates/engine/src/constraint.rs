//! A compiled constraint as the [`Constraint`] of a sampler: samplers of a serving engine share the compiler's cache,
//! its limits and its scratches with the matchers of the same engine.
//!
//! Tried instead: [`AnyConstraint`](unskew_core::AnyConstraint). It is compiled anew for each sampler, without a
//! deadline, and tells nobody how much memory it takes.

use std::fmt;

use unskew_core::{Constraint, MaskMut, Reach, Rejected, TokenId};

use crate::{
    Compiled,
    machine::{Slot, State},
};

/// The position of one sequence in a [`Compiled`] constraint.
#[derive(Clone)]
pub struct Position(State);

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Position")
    }
}

/// Which of the scratches of a [`Compiled`] constraint was used last.
#[derive(Clone, Debug, Default)]
pub struct LastScratch(Slot);

/// # Panics
///
/// The methods panic when they are given a position of another constraint.
impl Constraint for Compiled {
    type State = Position;
    type Scratch = LastScratch;

    fn vocab_len(&self) -> usize {
        self.machine.vocab_len()
    }

    fn start(&self) -> Position {
        Position(self.machine.start())
    }

    fn scratch(&self) -> LastScratch {
        LastScratch::default()
    }

    fn advance(
        &self,
        scratch: &mut LastScratch,
        state: &mut Position,
        token: TokenId,
    ) -> Result<(), Rejected> {
        self.machine.advance(&scratch.0, &mut state.0, token)
    }

    fn is_accepting(&self, state: &Position) -> bool {
        self.machine.is_accepting(&state.0)
    }

    fn fill_mask(&self, scratch: &mut LastScratch, state: &Position, mask: MaskMut<'_>) {
        self.machine.fill_mask(&scratch.0, &state.0, mask);
    }

    fn beyond(&self, scratch: &mut LastScratch, state: &Position) -> Option<&'static str> {
        self.machine.beyond(&scratch.0, &state.0)
    }

    fn state_key(&self, scratch: &mut LastScratch, state: &Position) -> Option<u64> {
        self.machine.state_key(&scratch.0, &state.0)
    }

    fn forced(&self, scratch: &mut LastScratch, state: &Position) -> Option<TokenId> {
        self.machine.forced(&scratch.0, &state.0)
    }

    fn reach(&self, scratch: &mut LastScratch, state: &Position, text: &[u8]) -> Option<Reach> {
        self.machine.reach(&scratch.0, &state.0, text)
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.machine.may_end_with(byte)
    }
}
