//! A constraint of any kind with a pool of scratches, which all its matchers share.
//!
//! A scratch knows the states that it has seen, and reads others again. So a matcher remembers the slot that it used
//! last, and takes another one only if a thread has that slot. One slot for each thread of the machine is enough:
//! then nobody waits for long.
//!
//! Samplers, each of which has a thread and a scratch, take the constraint out of the pool ([`Machine::any`]).
//!
//! Tried instead: [`AnyConstraint`] for matchers. It says nothing of the memory that constraints and
//! scratches take, and panics where it gets the scratch of another one. Here nobody outside of this file has a
//! scratch.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use unskew_automata::{CanonicalConstraint, LazyRegexConstraint, RegexConstraint};
use unskew_core::{
    AnyConstraint, Constraint, EndCache, MaskMut, Reach, Rejected, TokenId, Unconstrained, words_for,
};
use unskew_grammars::{Captures, GrammarConstraint, LeftOut};
use unskew_sets::{ExclusionConstraint, SetConstraint};
use unskew_trie::ByteSet;

/// The most slots of a pool.
const MAX_SLOTS: usize = 64;

/// A constraint that tells its memory, and the dependence of its states.
pub(crate) trait Measured: Constraint + 'static {
    /// Whether a state depends on the text alone, and not on the tokens that spell it.
    fn is_of_text(&self) -> bool;

    /// Whether its memory is counted at once, so that it can be after each mask.
    const COUNTS_FAST: bool = false;

    /// The memory of the constraint, in bytes.
    fn bytes(&self) -> usize;

    /// The characters of the constraint that no tokens write, where the engine knows them.
    fn left_out(&self) -> Option<LeftOut>;

    /// The memory that an allocator gives a scratch beside its own size, in bytes. Engines count the entries of their
    /// tables.
    fn scratch_bytes(&self, scratch: &Self::Scratch) -> usize {
        let _ = scratch;
        0
    }
}

impl Measured for GrammarConstraint {
    fn is_of_text(&self) -> bool {
        GrammarConstraint::is_of_text(self)
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }

    fn left_out(&self) -> Option<LeftOut> {
        GrammarConstraint::left_out(self)
    }

    /// Tables that double as they grow are three quarters full on average. Beside them there are those of the start
    /// and a mask.
    fn scratch_bytes(&self, scratch: &Self::Scratch) -> usize {
        const START: usize = 3_300;
        let counted = scratch.memory_usage();
        START + counted + counted / 3 + words_for(self.vocab_len()) * size_of::<u32>()
    }
}

impl Measured for RegexConstraint {
    const COUNTS_FAST: bool = true;

    fn is_of_text(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }

    fn left_out(&self) -> Option<LeftOut> {
        let tokens = self.tokens();
        let bytes: ByteSet = tokens.dfa().bytes().collect();
        LeftOut::new(Vec::new(), &bytes, tokens.trie())
    }
}

impl Measured for LazyRegexConstraint {
    fn is_of_text(&self) -> bool {
        true
    }

    fn left_out(&self) -> Option<LeftOut> {
        None
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }

    fn scratch_bytes(&self, scratch: &Self::Scratch) -> usize {
        scratch.memory_usage()
    }
}

impl Measured for CanonicalConstraint {
    fn is_of_text(&self) -> bool {
        false
    }

    fn left_out(&self) -> Option<LeftOut> {
        None
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.memory_usage()
    }

    /// It has a score of small tables, of which the allocator's share is a third.
    fn scratch_bytes(&self, scratch: &Self::Scratch) -> usize {
        scratch.memory_usage() / 2 * 3
    }
}

impl Measured for SetConstraint {
    fn is_of_text(&self) -> bool {
        false
    }

    fn left_out(&self) -> Option<LeftOut> {
        None
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

impl Measured for ExclusionConstraint {
    fn is_of_text(&self) -> bool {
        true
    }

    fn left_out(&self) -> Option<LeftOut> {
        None
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

impl<C: Measured> Measured for Arc<C> {
    const COUNTS_FAST: bool = C::COUNTS_FAST;

    fn is_of_text(&self) -> bool {
        (**self).is_of_text()
    }

    fn left_out(&self) -> Option<LeftOut> {
        (**self).left_out()
    }

    fn bytes(&self) -> usize {
        (**self).bytes()
    }

    fn scratch_bytes(&self, scratch: &Self::Scratch) -> usize {
        (**self).scratch_bytes(scratch)
    }
}

impl Measured for Unconstrained {
    fn is_of_text(&self) -> bool {
        true
    }

    fn left_out(&self) -> Option<LeftOut> {
        None
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + words_for(self.vocab_len()) * size_of::<u32>()
    }
}

/// The position of one sequence, of any kind of constraint.
pub(crate) struct State(Box<dyn AnyState>);

trait AnyState: Any + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn AnyState>;
}

impl<S: Clone + Send + Sync + 'static> AnyState for S {
    fn boxed_clone(&self) -> Box<dyn AnyState> {
        Box::new(self.clone())
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self(self.0.boxed_clone())
    }
}

/// The slot that a matcher used last.
#[derive(Debug, Default)]
pub(crate) struct Slot(AtomicU32);

impl Slot {
    pub(crate) fn new(slot: u32) -> Self {
        Self(AtomicU32::new(slot))
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, slot: u32) {
        self.0.store(slot, Ordering::Relaxed);
    }
}

impl Clone for Slot {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

/// A compiled constraint with its scratches. States are those that it made itself: only matchers and samplers of it
/// have any.
pub(crate) trait Machine: Any + Send + Sync {
    /// The constraint alone. Those who have it bring their own scratches, which nobody counts.
    fn any(&self) -> AnyConstraint;
    fn vocab_len(&self) -> usize;
    fn is_of_text(&self) -> bool;
    /// The memory of the constraint and its scratches, in bytes, as it was counted last. O(1).
    fn bytes(&self) -> usize;
    /// Counts the memory of the constraint anew, and answers as [`bytes`](Self::bytes).
    fn measure(&self) -> usize;
    fn start(&self) -> State;
    fn advance(&self, slot: &Slot, state: &mut State, token: TokenId) -> Result<(), Rejected>;
    fn is_accepting(&self, state: &State) -> bool;
    /// `words` are as many as a mask has.
    fn fill(&self, slot: &Slot, state: &State, words: &mut [u32]);
    fn fill_mask(&self, slot: &Slot, state: &State, mask: MaskMut<'_>);
    fn beyond(&self, slot: &Slot, state: &State) -> Option<&'static str>;
    fn forced(&self, slot: &Slot, state: &State) -> Option<TokenId>;
    fn state_key(&self, slot: &Slot, state: &State) -> Option<u64>;
    fn reach(&self, slot: &Slot, state: &State, text: &[u8]) -> Option<Reach>;
    fn may_end_with(&self, byte: u8) -> bool;
    fn left_out(&self) -> Option<LeftOut>;
    /// What a user should know of the constraint.
    fn notes(&self) -> &[String];
    /// The sets of tokens by which outputs end freely.
    fn ends(&self) -> Arc<EndCache>;
    /// The reader of the parts of outputs, where the constraint has one.
    fn captures(&self) -> Option<&Arc<Captures>>;
}

/// A scratch, once there is one, and its memory after its last use.
struct Pooled<S> {
    scratch: Mutex<Option<Box<S>>>,
    bytes: AtomicUsize,
}

/// A constraint with its scratches and the memory of both.
///
/// Constraints grow as they are used. Scratches are counted after each use. To count a constraint may take longer than
/// to make a mask, so that it is done after the first mask that did not lie ready, the second, the fourth and so on,
/// and whenever somebody asks for it.
pub(crate) struct Pool<C: Measured> {
    constraint: C,
    slots: Box<[Pooled<C::Scratch>]>,
    captures: Option<Arc<Captures>>,
    notes: Vec<String>,
    /// The memory of the constraint when it was counted last.
    bytes: AtomicUsize,
    /// How many masks were made that did not lie ready.
    made: AtomicU32,
    growth: Growth,
    ends: Arc<EndCache>,
}

/// The bytes by which constraints of a compiler have grown since its cache looked at them.
pub(crate) type Growth = Arc<AtomicUsize>;

impl<C: Measured<State: Sync>> Pool<C> {
    /// `captures` is counted with the constraint where that has it too.
    pub(crate) fn new(
        constraint: C,
        captures: Option<Arc<Captures>>,
        notes: Vec<String>,
        growth: Growth,
    ) -> Self {
        let slots = match size_of::<C::Scratch>() {
            // There is nothing that two threads could disagree about.
            0 => 1,
            _ => available_parallelism().map_or(1, usize::from).min(MAX_SLOTS),
        };
        let slots = (0..slots).map(|_| Pooled { scratch: Mutex::new(None), bytes: AtomicUsize::new(0) });
        let bytes = AtomicUsize::new(constraint.bytes());
        let (made, ends) = (AtomicU32::new(0), Arc::default());
        Self { constraint, slots: slots.collect(), captures, notes, bytes, made, growth, ends }
    }

    pub(crate) fn constraint(&self) -> &C {
        &self.constraint
    }

    /// Notes that `known` is `bytes` now.
    fn note(&self, known: &AtomicUsize, bytes: usize) {
        // It is mostly the same, and then nothing is written that other threads read.
        if known.load(Ordering::Relaxed) != bytes {
            let before = known.swap(bytes, Ordering::Relaxed);
            self.growth.fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Notes the memory of the constraint after a mask.
    fn note_mask(&self, was_ready: bool) {
        if C::COUNTS_FAST
            || (!was_ready && self.made.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_power_of_two())
        {
            self.note(&self.bytes, self.constraint.bytes());
        }
    }

    /// A scratch that nobody else has: that of `slot`, or of another slot if a thread has that one.
    fn lock(&self, slot: &Slot) -> (usize, MutexGuard<'_, Option<Box<C::Scratch>>>) {
        let first = slot.get() as usize % self.slots.len();
        for at in (first..self.slots.len()).chain(0..first) {
            match self.slots[at].scratch.try_lock() {
                Ok(guard) => return (at, guard),
                Err(TryLockError::Poisoned(poisoned)) => {
                    let mut guard = poisoned.into_inner();
                    // Its last user has panicked, so that nothing is known of it.
                    *guard = None;
                    self.slots[at].scratch.clear_poison();
                    return (at, guard);
                }
                Err(TryLockError::WouldBlock) => {}
            }
        }
        let guard = self.slots[first].scratch.lock().unwrap_or_else(|poisoned| {
            let mut guard = poisoned.into_inner();
            *guard = None;
            guard
        });
        (first, guard)
    }

    fn with<T>(&self, slot: &Slot, work: impl FnOnce(&C, &mut C::Scratch) -> T) -> T {
        if size_of::<C::Scratch>() == 0 {
            return work(&self.constraint, &mut self.constraint.scratch());
        }
        let (at, mut guard) = self.lock(slot);
        slot.set(u32::try_from(at).unwrap_or(0));
        let scratch = guard.get_or_insert_with(|| Box::new(self.constraint.scratch()));
        let answer = work(&self.constraint, scratch);
        let bytes = size_of::<C::Scratch>() + self.constraint.scratch_bytes(scratch);
        self.note(&self.slots[at].bytes, bytes);
        answer
    }

    fn state<'a>(&self, state: &'a State) -> &'a C::State {
        (&*state.0 as &dyn Any).downcast_ref().expect("the states of a matcher are of its constraint")
    }
}

impl<C: Measured<State: Sync> + Clone> Machine for Pool<C> {
    fn vocab_len(&self) -> usize {
        self.constraint.vocab_len()
    }

    fn is_of_text(&self) -> bool {
        self.constraint.is_of_text()
    }

    fn any(&self) -> AnyConstraint {
        AnyConstraint::new(self.constraint.clone())
    }

    fn captures(&self) -> Option<&Arc<Captures>> {
        self.captures.as_ref()
    }

    fn bytes(&self) -> usize {
        let scratches = self.slots.iter().map(|slot| slot.bytes.load(Ordering::Relaxed));
        let own = size_of_val(&self.slots[..]) + self.bytes.load(Ordering::Relaxed);
        own + scratches.sum::<usize>() + self.ends.memory_usage()
    }

    fn ends(&self) -> Arc<EndCache> {
        Arc::clone(&self.ends)
    }

    fn measure(&self) -> usize {
        self.bytes.store(self.constraint.bytes(), Ordering::Relaxed);
        self.bytes()
    }

    fn start(&self) -> State {
        State(Box::new(self.constraint.start()))
    }

    fn advance(&self, slot: &Slot, state: &mut State, token: TokenId) -> Result<(), Rejected> {
        let state = (&mut *state.0 as &mut dyn Any)
            .downcast_mut()
            .expect("the states of a matcher are of its constraint");
        self.with(slot, |constraint, scratch| constraint.advance(scratch, state, token))
    }

    fn is_accepting(&self, state: &State) -> bool {
        self.constraint.is_accepting(self.state(state))
    }

    fn fill(&self, slot: &Slot, state: &State, words: &mut [u32]) {
        let state = self.state(state);
        let was_ready = self.with(slot, |constraint, scratch| {
            // One copy where the mask lies ready, without clearing first.
            if let Some(ready) = constraint.ready_mask(scratch, state) {
                words.copy_from_slice(ready.words());
                return true;
            }
            let mask = MaskMut::new_cleared(words, constraint.vocab_len());
            constraint.fill_mask(scratch, state, mask);
            false
        });
        self.note_mask(was_ready);
    }

    fn fill_mask(&self, slot: &Slot, state: &State, mut mask: MaskMut<'_>) {
        let state = self.state(state);
        let was_ready = self.with(slot, |constraint, scratch| match constraint.ready_mask(scratch, state) {
            Some(ready) => {
                mask.copy_from(ready);
                true
            }
            None => {
                constraint.fill_mask(scratch, state, mask);
                false
            }
        });
        self.note_mask(was_ready);
    }

    fn beyond(&self, slot: &Slot, state: &State) -> Option<&'static str> {
        let state = self.state(state);
        self.with(slot, |constraint, scratch| constraint.beyond(scratch, state))
    }

    fn forced(&self, slot: &Slot, state: &State) -> Option<TokenId> {
        let state = self.state(state);
        self.with(slot, |constraint, scratch| constraint.forced(scratch, state))
    }

    fn state_key(&self, slot: &Slot, state: &State) -> Option<u64> {
        let state = self.state(state);
        self.with(slot, |constraint, scratch| constraint.state_key(scratch, state))
    }

    fn reach(&self, slot: &Slot, state: &State, text: &[u8]) -> Option<Reach> {
        let state = self.state(state);
        self.with(slot, |constraint, scratch| constraint.reach(scratch, state, text))
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.constraint.may_end_with(byte)
    }

    fn left_out(&self) -> Option<LeftOut> {
        self.constraint.left_out()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}
