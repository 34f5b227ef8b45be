//! A compiled constraint as the [`Constraint`] of a sampler: samplers share the compiler's cache, its limits and its
//! scratches with the matchers of the same constraint.
//!
//! Tried instead: the constraint with a scratch of its own for each sampler. A mask took no lock then, and nobody
//! counted the memory of the scratch.

use unskew_core::{
    AnyScratch, AnyState, Constraint, MaskBatch, MaskMut, MaskRef, OutputEnd, Reach, Rejected, TokenId,
};

use crate::{Compiled, pool::Slot};

/// Which of the scratches of a [`Compiled`] constraint was used last.
#[derive(Debug)]
pub struct LastScratch {
    pub(crate) slot: Slot,
    /// A scratch of a constraint that keeps nothing in it.
    none: Option<AnyScratch>,
}

/// # Panics
///
/// The methods panic when they are given a state of another constraint.
impl Constraint for Compiled {
    type State = AnyState;
    type Scratch = LastScratch;

    fn vocab_len(&self) -> usize {
        self.pool.constraint.vocab_len()
    }

    fn start(&self) -> AnyState {
        self.pool.constraint.start()
    }

    fn scratch(&self) -> LastScratch {
        let none = self.pool.is_stateless().then(|| self.pool.constraint.scratch());
        LastScratch { slot: Slot::default(), none }
    }

    fn advance(&self, last: &mut LastScratch, state: &mut AnyState, token: TokenId) -> Result<(), Rejected> {
        self.pool.with(&last.slot, |constraint, scratch| constraint.advance(scratch, state, token))
    }

    fn is_accepting(&self, state: &AnyState) -> bool {
        self.pool.constraint.is_accepting(state)
    }

    fn fill_mask(&self, last: &mut LastScratch, state: &AnyState, mask: MaskMut<'_>) {
        self.pool.fill_mask(&last.slot, state, mask.into_words());
    }

    fn beyond(&self, last: &mut LastScratch, state: &AnyState) -> Option<&'static str> {
        self.pool.with(&last.slot, |constraint, scratch| constraint.beyond(scratch, state))
    }

    /// Masks lie ready where scratches hold nothing. Others are in a scratch, which the next thread takes.
    fn ready_mask<'a>(&'a self, last: &'a LastScratch, state: &AnyState) -> Option<MaskRef<'a>> {
        let ready = self.pool.constraint.ready_mask(last.none.as_ref()?, state);
        self.pool.note_mask(true);
        ready
    }

    fn allows(&self, last: &mut LastScratch, state: &AnyState, token: TokenId) -> bool {
        self.pool.with(&last.slot, |constraint, scratch| constraint.allows(scratch, state, token))
    }

    fn forced(&self, last: &mut LastScratch, state: &AnyState) -> Option<TokenId> {
        self.pool.with(&last.slot, |constraint, scratch| constraint.forced(scratch, state))
    }

    fn state_key(&self, last: &mut LastScratch, state: &AnyState) -> Option<u64> {
        self.pool.with(&last.slot, |constraint, scratch| constraint.state_key(scratch, state))
    }

    fn verify(
        &self,
        last: &mut LastScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        self.pool.with(&last.slot, |constraint, scratch| {
            constraint.verify(scratch, states, each, candidates, valid);
        });
    }

    fn fill_masks(
        &self,
        last: &mut LastScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        masks: &mut MaskBatch,
    ) {
        self.pool.with(&last.slot, |constraint, scratch| constraint.fill_masks(scratch, states, masks));
        self.pool.note_mask(false);
    }

    fn reach(&self, last: &mut LastScratch, state: &AnyState, text: &[u8]) -> Option<Reach> {
        self.pool.with(&last.slot, |constraint, scratch| constraint.reach(scratch, state, text))
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.pool.constraint.may_end_with(byte)
    }

    fn end(&self) -> OutputEnd {
        self.pool.constraint.end()
    }

    fn is_over(&self, last: &mut LastScratch, state: &AnyState) -> bool {
        self.pool.with(&last.slot, |constraint, scratch| constraint.is_over(scratch, state))
    }

    fn fill_ends(&self, last: &mut LastScratch, state: &AnyState, mask: MaskMut<'_>) -> bool {
        self.pool.with(&last.slot, |constraint, scratch| constraint.fill_ends(scratch, state, mask))
    }

    fn tail<'a>(&self, state: &'a AnyState) -> Option<&'a [TokenId]> {
        self.pool.constraint.tail(state)
    }
}
