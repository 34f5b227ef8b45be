//! A constraint of any kind with a pool of scratches, which all its matchers and samplers share.
//!
//! A scratch knows the states that it has seen, and reads others again. So a matcher remembers the slot that it used
//! last, and takes another one only if a thread has that slot. One slot for each thread of the machine is enough:
//! then nobody waits for long.
//!
//! Tried instead: [`AnyConstraint`] alone. It says nothing of the memory that constraints and scratches take.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use unskew_automata::{
    CanonicalConstraint, LazyRegexConstraint, RegexConstraint, canonical::CanonicalScratch,
    tokens::LazyScratch,
};
use unskew_core::{
    AnyConstraint, AnyScratch, AnyState, Constraint, EndCache, MaskMut, Unconstrained, words_for,
};
use unskew_grammars::{
    CanonicalGrammar, CanonicalGrammarScratch, Captures, GrammarConstraint, GrammarScratch, LeftOut,
};
#[cfg(feature = "sets")]
use unskew_sets::{ExclusionConstraint, SetConstraint};
use unskew_trie::ByteSet;

/// The most slots of a pool.
const MAX_SLOTS: usize = 64;

/// A constraint that tells its memory, and the dependence of its states.
pub(crate) trait Measured: Any + Send + Sync {
    /// Whether a state depends on the text alone, and not on the tokens that spell it.
    fn is_of_text(&self) -> bool {
        false
    }

    /// Whether its memory is counted at once, so that it can be after each mask.
    fn counts_fast(&self) -> bool {
        false
    }

    /// The memory of the constraint, in bytes.
    fn bytes(&self) -> usize;

    /// The characters of the constraint that no tokens write, where the engine knows them.
    fn left_out(&self) -> Option<LeftOut> {
        None
    }

    /// The memory of a scratch, in bytes: its own size, and what an allocator gives it beside that. Engines count the
    /// entries of their tables.
    fn scratch_bytes(&self, scratch: &AnyScratch) -> usize {
        let _ = scratch;
        0
    }
}

/// The size of a scratch of type `S` with the memory that `count` tells.
fn bytes_of<S: 'static>(scratch: &AnyScratch, count: impl FnOnce(&S) -> usize) -> usize {
    size_of::<S>() + scratch.downcast_ref().map_or(0, count)
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
    fn scratch_bytes(&self, scratch: &AnyScratch) -> usize {
        const START: usize = 3_300;
        let tables = |scratch: &GrammarScratch| {
            let counted = scratch.memory_usage();
            counted + counted / 3
        };
        START + bytes_of(scratch, tables) + words_for(self.vocab_len()) * size_of::<u32>()
    }
}

impl Measured for CanonicalGrammar {
    fn bytes(&self) -> usize {
        self.memory_usage()
    }

    fn left_out(&self) -> Option<LeftOut> {
        self.grammar().left_out()
    }

    fn scratch_bytes(&self, scratch: &AnyScratch) -> usize {
        bytes_of(scratch, |scratch: &CanonicalGrammarScratch| scratch.memory_usage() / 2 * 3)
    }
}

impl Measured for RegexConstraint {
    fn counts_fast(&self) -> bool {
        true
    }

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

    fn bytes(&self) -> usize {
        self.memory_usage()
    }

    fn scratch_bytes(&self, scratch: &AnyScratch) -> usize {
        bytes_of(scratch, LazyScratch::memory_usage)
    }
}

impl Measured for CanonicalConstraint {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.memory_usage()
    }

    /// It has a score of small tables, of which the allocator's share is a third.
    fn scratch_bytes(&self, scratch: &AnyScratch) -> usize {
        bytes_of(scratch, |scratch: &CanonicalScratch| scratch.memory_usage() / 2 * 3)
    }
}

#[cfg(feature = "sets")]
impl Measured for SetConstraint {
    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

#[cfg(feature = "sets")]
impl Measured for ExclusionConstraint {
    fn is_of_text(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

impl Measured for Unconstrained {
    fn is_of_text(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + words_for(self.vocab_len()) * size_of::<u32>()
    }
}

/// A constraint of a user's own, of which nothing is known.
struct Own;

impl Measured for Own {
    fn bytes(&self) -> usize {
        0
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

/// A scratch, once there is one, and its memory after its last use.
struct Pooled {
    scratch: Mutex<Option<AnyScratch>>,
    bytes: AtomicUsize,
}

/// A constraint with its scratches and the memory of both.
///
/// Constraints grow as they are used. Scratches are counted after each use. To count a constraint may take longer
/// than to make a mask, so that it is done after the first mask that did not lie ready, the second, the fourth and
/// so on, and whenever somebody asks for it.
pub(crate) struct Pool {
    pub(crate) constraint: AnyConstraint,
    measured: Arc<dyn Measured>,
    /// None where a scratch holds nothing.
    slots: Box<[Pooled]>,
    /// The reader of the parts of outputs, where the constraint has one.
    pub(crate) captures: Option<Arc<Captures>>,
    /// Notes for the user of the constraint.
    pub(crate) notes: Vec<String>,
    /// The memory of the constraint when it was counted last.
    bytes: AtomicUsize,
    /// How many masks were made that did not lie ready.
    made: AtomicU32,
    growth: Growth,
    /// The sets of tokens by which outputs end freely.
    pub(crate) ends: Arc<EndCache>,
}

/// The bytes by which constraints of a compiler have grown since its cache looked at them.
pub(crate) type Growth = Arc<AtomicUsize>;

impl Pool {
    /// `captures` is counted with the constraint where that has it too.
    pub(crate) fn new<C: Constraint + Measured>(
        constraint: Arc<C>,
        captures: Option<Arc<Captures>>,
        notes: Vec<String>,
        growth: Growth,
    ) -> Self {
        let measured = Arc::clone(&constraint);
        Self { captures, notes, growth, ..Self::of(constraint, measured) }
    }

    /// A constraint of a user's own.
    pub(crate) fn own<C: Constraint + 'static>(constraint: C) -> Self {
        Self::of(constraint, Arc::new(Own))
    }

    fn of<C: Constraint + 'static>(constraint: C, measured: Arc<dyn Measured>) -> Self {
        let slots = match size_of::<C::Scratch>() {
            // There is nothing that two threads could disagree about.
            0 => 0,
            _ => available_parallelism().map_or(1, usize::from).min(MAX_SLOTS),
        };
        let slots = (0..slots).map(|_| Pooled { scratch: Mutex::new(None), bytes: AtomicUsize::new(0) });
        Self {
            constraint: AnyConstraint::new(constraint),
            slots: slots.collect(),
            captures: None,
            notes: Vec::new(),
            bytes: AtomicUsize::new(measured.bytes()),
            made: AtomicU32::new(0),
            growth: Growth::default(),
            ends: Arc::default(),
            measured,
        }
    }

    /// The constraint, where it is of type `C`.
    pub(crate) fn kind<C: Measured>(&self) -> Option<&C> {
        (&*self.measured as &dyn Any).downcast_ref()
    }

    /// Whether scratches hold nothing, so that nobody shares them.
    pub(crate) fn is_stateless(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn is_of_text(&self) -> bool {
        self.measured.is_of_text()
    }

    pub(crate) fn left_out(&self) -> Option<LeftOut> {
        self.measured.left_out()
    }

    /// The memory of the constraint and its scratches, in bytes, as it was counted last. O(1).
    pub(crate) fn bytes(&self) -> usize {
        let scratches = self.slots.iter().map(|slot| slot.bytes.load(Ordering::Relaxed));
        let own = size_of_val(&self.slots[..]) + self.bytes.load(Ordering::Relaxed);
        own + scratches.sum::<usize>() + self.ends.memory_usage()
    }

    /// Counts the memory of the constraint anew, and answers as [`bytes`](Self::bytes).
    pub(crate) fn measure(&self) -> usize {
        self.bytes.store(self.measured.bytes(), Ordering::Relaxed);
        self.bytes()
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
    pub(crate) fn note_mask(&self, was_ready: bool) {
        if self.measured.counts_fast()
            || (!was_ready && self.made.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_power_of_two())
        {
            self.note(&self.bytes, self.measured.bytes());
        }
    }

    /// A scratch that nobody else has: that of `slot`, or of another slot if a thread has that one.
    fn lock(&self, slot: &Slot) -> (usize, MutexGuard<'_, Option<AnyScratch>>) {
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

    pub(crate) fn with<T>(&self, slot: &Slot, work: impl FnOnce(&AnyConstraint, &mut AnyScratch) -> T) -> T {
        if self.is_stateless() {
            return work(&self.constraint, &mut self.constraint.scratch());
        }
        let (at, mut guard) = self.lock(slot);
        slot.set(u32::try_from(at).unwrap_or(0));
        let scratch = guard.get_or_insert_with(|| self.constraint.scratch());
        let answer = work(&self.constraint, scratch);
        let bytes = self.measured.scratch_bytes(scratch);
        self.note(&self.slots[at].bytes, bytes);
        answer
    }

    /// Replaces `words`, which are as many as a mask has, by the mask of `state`.
    pub(crate) fn fill_mask(&self, slot: &Slot, state: &AnyState, words: &mut [u32]) {
        let was_ready = self.with(slot, |constraint, scratch| match constraint.ready_mask(scratch, state) {
            Some(ready) => {
                words.copy_from_slice(ready.words());
                true
            }
            None => {
                constraint.fill_mask(scratch, state, MaskMut::new(words, constraint.vocab_len()));
                false
            }
        });
        self.note_mask(was_ready);
    }
}
