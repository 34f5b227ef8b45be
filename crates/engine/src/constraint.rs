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

/// Methods that need a scratch of the pool.
macro_rules! with_scratch {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&self, last: &mut LastScratch, $($argument: $type),*) $(-> $answer)? {
            self.pool.with(&last.slot, |constraint, scratch| constraint.$name(scratch, $($argument),*))
        })*
    };
}

/// # Panics
///
/// The methods panic when they are given a state of another constraint.
impl Constraint for Compiled {
    type State = AnyState;
    type Scratch = LastScratch;

    with_scratch! {
        advance(state: &mut AnyState, token: TokenId) -> Result<(), Rejected>;
        beyond(state: &AnyState) -> Option<&'static str>;
        allows(state: &AnyState, token: TokenId) -> bool;
        forced(state: &AnyState) -> Option<TokenId>;
        state_key(state: &AnyState) -> Option<u64>;
        verify(states: &mut dyn Iterator<Item = &AnyState>, each: usize, candidates: &[TokenId], valid: &mut [bool]);
        reach(state: &AnyState, text: &[u8]) -> Option<Reach>;
        is_over(state: &AnyState) -> bool;
        fill_ends(state: &AnyState, mask: MaskMut<'_>) -> bool;
    }

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

    fn is_accepting(&self, state: &AnyState) -> bool {
        self.pool.constraint.is_accepting(state)
    }

    fn fill_mask(&self, last: &mut LastScratch, state: &AnyState, mask: MaskMut<'_>) {
        self.pool.fill_mask(&last.slot, state, mask.into_words());
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

    /// Masks lie ready where scratches hold nothing. Others are in a scratch, which the next thread takes.
    fn ready_mask<'a>(&'a self, last: &'a LastScratch, state: &AnyState) -> Option<MaskRef<'a>> {
        let ready = self.pool.constraint.ready_mask(last.none.as_ref()?, state);
        self.pool.note_mask(true);
        ready
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.pool.constraint.may_end_with(byte)
    }

    fn end(&self) -> OutputEnd {
        self.pool.constraint.end()
    }

    fn tail<'a>(&self, state: &'a AnyState) -> Option<&'a [TokenId]> {
        self.pool.constraint.tail(state)
    }
}
