//! One type for every constraint, for a command line or a server that learns the kind of constraint at run time.
//!
//! [`AnyConstraint`] is itself a [`Constraint`]. So samplers are written once, against the trait, and pay one virtual
//! call per mask or per batch. The erased methods live in a private trait of a private module and carry names of
//! their own: with the names of `Constraint`, a caller that sees both traits gets "multiple applicable items".

use std::{any::Any, fmt, sync::Arc};

use crate::{Constraint, MaskBatch, MaskMut, MaskRef, OutputEnd, Reach, Rejected, TokenId};

/// A constraint of any kind, shared by reference count.
///
/// # Panics
///
/// The methods panic when they are given a state or a scratch that another kind of constraint made.
#[derive(Clone)]
pub struct AnyConstraint(Arc<dyn Erased>);

impl AnyConstraint {
    /// Erases the type of `constraint`.
    pub fn new<C: Constraint + 'static>(constraint: C) -> Self {
        Self(Arc::new(constraint))
    }
}

impl fmt::Debug for AnyConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyConstraint").field("vocab_len", &self.0.erased_vocab_len()).finish_non_exhaustive()
    }
}

/// The state of an [`AnyConstraint`].
pub struct AnyState(Box<dyn ErasedState>);

impl Clone for AnyState {
    fn clone(&self) -> Self {
        Self(self.0.boxed_clone())
    }
}

impl fmt::Debug for AnyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyState")
    }
}

/// The scratch of an [`AnyConstraint`].
pub struct AnyScratch(Box<dyn Any + Send>);

impl fmt::Debug for AnyScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyScratch")
    }
}

impl Constraint for AnyConstraint {
    type State = AnyState;
    type Scratch = AnyScratch;

    fn vocab_len(&self) -> usize {
        self.0.erased_vocab_len()
    }

    fn start(&self) -> AnyState {
        self.0.erased_start()
    }

    fn scratch(&self) -> AnyScratch {
        self.0.erased_scratch()
    }

    fn advance(
        &self,
        scratch: &mut AnyScratch,
        state: &mut AnyState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        self.0.erased_advance(scratch, state, token)
    }

    fn is_accepting(&self, state: &AnyState) -> bool {
        self.0.erased_is_accepting(state)
    }

    fn fill_mask(&self, scratch: &mut AnyScratch, state: &AnyState, mask: MaskMut<'_>) {
        self.0.erased_fill_mask(scratch, state, mask);
    }

    fn beyond(&self, scratch: &mut AnyScratch, state: &AnyState) -> Option<&'static str> {
        self.0.erased_beyond(scratch, state)
    }

    fn ready_mask<'a>(&'a self, scratch: &'a AnyScratch, state: &AnyState) -> Option<MaskRef<'a>> {
        self.0.erased_ready_mask(scratch, state)
    }

    fn allows(&self, scratch: &mut AnyScratch, state: &AnyState, token: TokenId) -> bool {
        self.0.erased_allows(scratch, state, token)
    }

    fn forced(&self, scratch: &mut AnyScratch, state: &AnyState) -> Option<TokenId> {
        self.0.erased_forced(scratch, state)
    }

    fn state_key(&self, scratch: &mut AnyScratch, state: &AnyState) -> Option<u64> {
        self.0.erased_state_key(scratch, state)
    }

    fn verify(
        &self,
        scratch: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        self.0.erased_verify(scratch, states, each, candidates, valid);
    }

    fn fill_masks(
        &self,
        scratch: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        masks: &mut MaskBatch,
    ) {
        self.0.erased_fill_masks(scratch, states, masks);
    }

    fn reach(&self, scratch: &mut AnyScratch, state: &AnyState, text: &[u8]) -> Option<Reach> {
        self.0.erased_reach(scratch, state, text)
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.0.erased_may_end_with(byte)
    }

    fn end(&self) -> OutputEnd {
        self.0.erased_end()
    }

    fn is_over(&self, scratch: &mut AnyScratch, state: &AnyState) -> bool {
        self.0.erased_is_over(scratch, state)
    }

    fn fill_ends(&self, scratch: &mut AnyScratch, state: &AnyState, mask: MaskMut<'_>) -> bool {
        self.0.erased_fill_ends(scratch, state, mask)
    }

    fn tail<'a>(&self, state: &'a AnyState) -> Option<&'a [TokenId]> {
        self.0.erased_tail(state)
    }
}

trait ErasedState: Any + Send {
    fn boxed_clone(&self) -> Box<dyn ErasedState>;
}

impl<S: Clone + Send + 'static> ErasedState for S {
    fn boxed_clone(&self) -> Box<dyn ErasedState> {
        Box::new(self.clone())
    }
}

fn state<C: Constraint>(state: &AnyState) -> &C::State {
    (&*state.0 as &dyn Any).downcast_ref().expect("the state was made by this constraint")
}

fn state_mut<C: Constraint>(state: &mut AnyState) -> &mut C::State {
    (&mut *state.0 as &mut dyn Any).downcast_mut().expect("the state was made by this constraint")
}

fn scratch<C: Constraint>(scratch: &AnyScratch) -> &C::Scratch {
    scratch.0.downcast_ref().expect("the scratch was made by this constraint")
}

fn scratch_mut<C: Constraint>(scratch: &mut AnyScratch) -> &mut C::Scratch {
    scratch.0.downcast_mut().expect("the scratch was made by this constraint")
}

trait Erased: Send + Sync {
    fn erased_vocab_len(&self) -> usize;
    fn erased_start(&self) -> AnyState;
    fn erased_scratch(&self) -> AnyScratch;
    fn erased_advance(
        &self,
        s: &mut AnyScratch,
        state: &mut AnyState,
        token: TokenId,
    ) -> Result<(), Rejected>;
    fn erased_is_accepting(&self, state: &AnyState) -> bool;
    fn erased_fill_mask(&self, s: &mut AnyScratch, state: &AnyState, mask: MaskMut<'_>);
    fn erased_beyond(&self, s: &mut AnyScratch, state: &AnyState) -> Option<&'static str>;
    fn erased_ready_mask<'a>(&'a self, s: &'a AnyScratch, state: &AnyState) -> Option<MaskRef<'a>>;
    fn erased_allows(&self, s: &mut AnyScratch, state: &AnyState, token: TokenId) -> bool;
    fn erased_forced(&self, s: &mut AnyScratch, state: &AnyState) -> Option<TokenId>;
    fn erased_state_key(&self, s: &mut AnyScratch, state: &AnyState) -> Option<u64>;
    fn erased_verify(
        &self,
        s: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    );
    fn erased_fill_masks(
        &self,
        s: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        masks: &mut MaskBatch,
    );
    fn erased_reach(&self, s: &mut AnyScratch, state: &AnyState, text: &[u8]) -> Option<Reach>;
    fn erased_may_end_with(&self, byte: u8) -> bool;
    fn erased_end(&self) -> OutputEnd;
    fn erased_is_over(&self, s: &mut AnyScratch, state: &AnyState) -> bool;
    fn erased_fill_ends(&self, s: &mut AnyScratch, state: &AnyState, mask: MaskMut<'_>) -> bool;
    fn erased_tail<'a>(&self, state: &'a AnyState) -> Option<&'a [TokenId]>;
}

impl<C: Constraint> Erased for C {
    fn erased_vocab_len(&self) -> usize {
        self.vocab_len()
    }

    fn erased_start(&self) -> AnyState {
        AnyState(Box::new(self.start()))
    }

    fn erased_scratch(&self) -> AnyScratch {
        AnyScratch(Box::new(self.scratch()))
    }

    fn erased_advance(
        &self,
        s: &mut AnyScratch,
        state: &mut AnyState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        self.advance(scratch_mut::<C>(s), state_mut::<C>(state), token)
    }

    fn erased_is_accepting(&self, any: &AnyState) -> bool {
        self.is_accepting(state::<C>(any))
    }

    fn erased_fill_mask(&self, s: &mut AnyScratch, any: &AnyState, mask: MaskMut<'_>) {
        self.fill_mask(scratch_mut::<C>(s), state::<C>(any), mask);
    }

    fn erased_beyond(&self, s: &mut AnyScratch, any: &AnyState) -> Option<&'static str> {
        self.beyond(scratch_mut::<C>(s), state::<C>(any))
    }

    fn erased_ready_mask<'a>(&'a self, s: &'a AnyScratch, any: &AnyState) -> Option<MaskRef<'a>> {
        self.ready_mask(scratch::<C>(s), state::<C>(any))
    }

    fn erased_allows(&self, s: &mut AnyScratch, any: &AnyState, token: TokenId) -> bool {
        self.allows(scratch_mut::<C>(s), state::<C>(any), token)
    }

    fn erased_forced(&self, s: &mut AnyScratch, any: &AnyState) -> Option<TokenId> {
        self.forced(scratch_mut::<C>(s), state::<C>(any))
    }

    fn erased_state_key(&self, s: &mut AnyScratch, any: &AnyState) -> Option<u64> {
        self.state_key(scratch_mut::<C>(s), state::<C>(any))
    }

    fn erased_verify(
        &self,
        s: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        let states = &mut states.map(|any| state::<C>(any));
        self.verify(scratch_mut::<C>(s), states, each, candidates, valid);
    }

    fn erased_fill_masks(
        &self,
        s: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        masks: &mut MaskBatch,
    ) {
        self.fill_masks(scratch_mut::<C>(s), &mut states.map(|any| state::<C>(any)), masks);
    }

    fn erased_reach(&self, s: &mut AnyScratch, any: &AnyState, text: &[u8]) -> Option<Reach> {
        self.reach(scratch_mut::<C>(s), state::<C>(any), text)
    }

    fn erased_may_end_with(&self, byte: u8) -> bool {
        self.may_end_with(byte)
    }

    fn erased_end(&self) -> OutputEnd {
        self.end()
    }

    fn erased_is_over(&self, s: &mut AnyScratch, any: &AnyState) -> bool {
        self.is_over(scratch_mut::<C>(s), state::<C>(any))
    }

    fn erased_fill_ends(&self, s: &mut AnyScratch, any: &AnyState, mask: MaskMut<'_>) -> bool {
        self.fill_ends(scratch_mut::<C>(s), state::<C>(any), mask)
    }

    fn erased_tail<'a>(&self, any: &'a AnyState) -> Option<&'a [TokenId]> {
        self.tail(state::<C>(any))
    }
}
