//! One type for every constraint, for a command line or a server that learns the kind of constraint at run time.
//!
//! [`AnyConstraint`] is itself a [`Constraint`]. So samplers are written once, against the trait, and pay one virtual
//! call per mask or per batch. Behind it is the trait itself, with states and scratches of one type.
//!
//! Tried instead: a private trait with a method for each of those of `Constraint`. It was a third list of them.

use std::{any::Any, fmt, sync::Arc};

use crate::{Constraint, MaskBatch, MaskMut, MaskRef, OutputEnd, Reach, Rejected, TokenId};

/// A constraint of any kind, shared by reference count.
///
/// # Panics
///
/// The methods panic when they are given a state or a scratch that another kind of constraint made.
#[derive(Clone)]
pub struct AnyConstraint(pub(super) Arc<Erased>);

/// A constraint whose states and scratches are of any type.
pub(super) type Erased = dyn Constraint<State = AnyState, Scratch = AnyScratch>;

impl AnyConstraint {
    /// Erases the type of `constraint`.
    pub fn new<C: Constraint + 'static>(constraint: C) -> Self {
        Self(Arc::new(Erasing(constraint)))
    }
}

impl fmt::Debug for AnyConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyConstraint").field("vocab_len", &self.0.vocab_len()).finish_non_exhaustive()
    }
}

/// The state of an [`AnyConstraint`].
pub struct AnyState(Box<dyn ErasedState>);

trait ErasedState: Any + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn ErasedState>;
}

impl<S: Clone + Send + Sync + 'static> ErasedState for S {
    fn boxed_clone(&self) -> Box<dyn ErasedState> {
        Box::new(self.clone())
    }
}

impl AnyState {
    /// The state itself, where it is of type `S`.
    pub fn downcast_ref<S: 'static>(&self) -> Option<&S> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

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

impl AnyScratch {
    /// The scratch itself, where it is of type `S`.
    pub fn downcast_ref<S: 'static>(&self) -> Option<&S> {
        self.0.downcast_ref()
    }

    /// As [`downcast_ref`](Self::downcast_ref), to be used.
    pub fn downcast_mut<S: 'static>(&mut self) -> Option<&mut S> {
        self.0.downcast_mut()
    }
}

impl fmt::Debug for AnyScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyScratch")
    }
}

/// A constraint whose states and scratches are handed out without their types.
struct Erasing<C>(C);

const STATE: &str = "the state was made by this constraint";
const SCRATCH: &str = "the scratch was made by this constraint";

fn state<C: Constraint>(state: &AnyState) -> &C::State {
    state.downcast_ref().expect(STATE)
}

fn scratch<C: Constraint>(scratch: &mut AnyScratch) -> &mut C::Scratch {
    scratch.downcast_mut().expect(SCRATCH)
}

/// Methods of a state and a scratch.
macro_rules! of_state {
    ($($name:ident($($argument:ident: $type:ty)?) $(-> $answer:ty)?;)*) => {
        $(fn $name(&self, s: &mut AnyScratch, any: &AnyState, $($argument: $type)?) $(-> $answer)? {
            self.0.$name(scratch::<C>(s), state::<C>(any), $($argument)?)
        })*
    };
}

impl<C: Constraint> Constraint for Erasing<C> {
    type State = AnyState;
    type Scratch = AnyScratch;

    of_state! {
        fill_mask(mask: MaskMut<'_>);
        beyond() -> Option<&'static str>;
        allows(token: TokenId) -> bool;
        forced() -> Option<TokenId>;
        state_key() -> Option<u64>;
        reach(text: &[u8]) -> Option<Reach>;
        is_over() -> bool;
        fill_ends(mask: MaskMut<'_>) -> bool;
    }

    fn vocab_len(&self) -> usize {
        self.0.vocab_len()
    }

    fn start(&self) -> AnyState {
        AnyState(Box::new(self.0.start()))
    }

    fn scratch(&self) -> AnyScratch {
        AnyScratch(Box::new(self.0.scratch()))
    }

    fn advance(&self, s: &mut AnyScratch, any: &mut AnyState, token: TokenId) -> Result<(), Rejected> {
        let state = (&mut *any.0 as &mut dyn Any).downcast_mut().expect(STATE);
        self.0.advance(scratch::<C>(s), state, token)
    }

    fn is_accepting(&self, any: &AnyState) -> bool {
        self.0.is_accepting(state::<C>(any))
    }

    fn ready_mask<'a>(&'a self, s: &'a AnyScratch, any: &AnyState) -> Option<MaskRef<'a>> {
        self.0.ready_mask(s.downcast_ref().expect(SCRATCH), state::<C>(any))
    }

    fn verify(
        &self,
        s: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        let states = &mut states.map(|any| state::<C>(any));
        self.0.verify(scratch::<C>(s), states, each, candidates, valid);
    }

    fn fill_masks(
        &self,
        s: &mut AnyScratch,
        states: &mut dyn Iterator<Item = &AnyState>,
        masks: &mut MaskBatch,
    ) {
        self.0.fill_masks(scratch::<C>(s), &mut states.map(|any| state::<C>(any)), masks);
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.0.may_end_with(byte)
    }

    fn end(&self) -> OutputEnd {
        self.0.end()
    }

    fn tail<'a>(&self, any: &'a AnyState) -> Option<&'a [TokenId]> {
        self.0.tail(state::<C>(any))
    }
}
