//! Which sequence of ours is which sequence of llama.cpp, and the tokens of a batch as passes.
//!
//! llama.cpp numbers its sequences from 0 to a limit that is set when a context is made, and keeps the keys and
//! values of all of them in one cache of cells. A cell belongs to any number of sequences. A copy of a sequence
//! therefore takes no cell and no time, and a sequence is cut by taking its number off cells.
//!
//! The trait of models has no such limit, so a number here is a *slot*, and a sequence only borrows one:
//!
//! - A sequence knows its tokens. Its slot holds the keys and values of some of them, and is asked only how many it
//!   begins with.
//! - A fork takes a slot that nobody holds, as a copy. Where there is none it takes no slot.
//! - A sequence without a slot takes one when it is extended: one that nobody holds, or else the slot that was used
//!   least recently. Its former holder then has no slot. The new holder copies the longest beginning that any slot
//!   has, and evaluates the rest again.
//! - Where cells run out, slots outside the pass are emptied, the least recently used first, and then the pass is
//!   made of fewer sequences. An error says so only where one sequence alone does not fit.
//! - Slots of sequences that were dropped are emptied before the next pass, but for the last few: a prompt that comes
//!   again is not evaluated again.
//!
//! So more sequences than slots, and longer ones than the cache holds, cost time and change no result.
//!
//! Tried instead: an error where slots run out. Samplers fork as they like, and a limit of llama.cpp would be a limit
//! of each. All this is apart from llama.cpp itself ([`Memory`]), so that it is tested without a build in C++.

use std::ops::Range;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use unskew_core::{BatchError, BatchLimits, Extension, LanguageModel, Logits, TokenId};

use crate::LlamaCppError;

/// The slots of dropped sequences that stay filled.
const KEPT: usize = 2;

/// The cache and the evaluation of llama.cpp.
pub(crate) trait Memory {
    /// The number of slots.
    fn slots(&self) -> usize;
    /// The most entries of a pass.
    fn pass_len(&self) -> usize;
    /// Whether a slot can be cut anywhere; otherwise only emptied, and copied only as a whole (models with a
    /// recurrent state).
    fn cuts(&self) -> bool;
    /// Makes the empty slot `to` a copy of the first `len` tokens of `from`.
    fn copy(&mut self, from: usize, to: usize, len: usize);
    /// Forgets all but the first `len` tokens of a slot; whether that was possible. 0 is.
    fn cut(&mut self, slot: usize, len: usize) -> bool;
    /// Evaluates a pass.
    fn evaluate(&mut self, pass: &[Entry]) -> Result<(), Failure>;
    /// The logits after an entry of the last pass that wanted them.
    fn row(&self, entry: usize) -> &[f32];
}

/// Why a pass was not evaluated.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There are too few cells. Nothing has changed.
    NoRoom,
    /// The state of the cache is unknown.
    Failed(String),
}

/// A token of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) slot: usize,
    pub(crate) token: TokenId,
    pub(crate) position: usize,
    pub(crate) wanted: bool,
}

/// A sequence: its tokens, and the slot that it holds, if that has not been taken from it.
#[derive(Debug)]
pub struct Sequence {
    tokens: Vec<TokenId>,
    claim: Option<Claim>,
    model: u64,
}

/// A slot holds the other end, so that it knows whether its holder is alive and still the same.
#[derive(Debug)]
struct Claim {
    slot: usize,
    alive: Arc<()>,
}

impl Sequence {
    /// The tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }
}

#[derive(Debug, Default)]
struct Slot {
    /// The tokens of which the cache has keys and values.
    tokens: Vec<TokenId>,
    holder: Weak<()>,
    /// The time of the last pass or copy.
    used: u64,
}

/// The sequences of a model.
#[derive(Debug)]
pub(crate) struct Schedule<M> {
    pub(crate) memory: M,
    slots: Vec<Slot>,
    clock: u64,
    model: u64,
    vocab_len: usize,
    context: usize,
}

/// The work of an item of a batch.
#[derive(Debug)]
struct Work {
    item: usize,
    len: usize,
    /// The first position with a wanted row.
    wanted_from: usize,
    /// The number of rows of the items before it.
    row: usize,
    /// Its slot, and the next position to evaluate.
    slot: usize,
    next: usize,
}

impl<M: Memory> Schedule<M> {
    pub(crate) fn new(memory: M, vocab_len: usize, context: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let model = NEXT.fetch_add(1, Ordering::Relaxed);
        let slots = (0..memory.slots()).map(|_| Slot::default()).collect();
        Self { memory, slots, clock: 0, model, vocab_len, context }
    }

    /// The work of those items that want rows, and the number of rows. Tokens without a wanted row are evaluated with
    /// the next one.
    fn plan(&self, batch: &[Extension<'_, Sequence>]) -> Result<(Vec<Work>, usize), LlamaCppError> {
        let limits = BatchLimits { vocab_len: self.vocab_len, context: self.context, begin: None };
        let (mut work, mut row) = (Vec::new(), 0);
        for (item, Extension { sequence, tokens, rows }) in batch.iter().enumerate() {
            if sequence.model != self.model {
                return Err(BatchError::ForeignSequence { item }.into());
            }
            let Range { start: wanted_from, end: len } =
                limits.check(item, sequence.tokens.len(), tokens, *rows)?;
            if wanted_from < len {
                work.push(Work { item, len, wanted_from, row, slot: 0, next: 0 });
                row += len - wanted_from;
            }
        }
        Ok((work, row))
    }

    /// Evaluates as many of the waiting items together as there are slots and cells for, at least one.
    fn group(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        waiting: &mut Vec<Work>,
        output: &mut [f32],
    ) -> Result<(), LlamaCppError> {
        let mut group: Vec<Work> = Vec::new();
        while group.len() < self.slots.len() {
            let Some(mut work) = waiting.pop() else { break };
            let used: Vec<usize> = group.iter().map(|work| work.slot).collect();
            self.enter(batch, &mut work, &used);
            group.push(work);
        }
        while group.iter().any(|work| work.next < work.len) {
            let pass = self.pass(batch, &group);
            match self.memory.evaluate(&pass) {
                Ok(()) => self.read(&mut group, &pass, output),
                Err(Failure::NoRoom) => {
                    let used: Vec<usize> = group.iter().map(|work| work.slot).collect();
                    let filled = |slot: &usize| !used.contains(slot) && !self.slots[*slot].tokens.is_empty();
                    if let Some(victim) =
                        self.least_used(|schedule, slot| filled(&slot).then_some(schedule.slots[slot].used))
                    {
                        self.empty(victim);
                    } else if let [_, .., _] = group.as_slice() {
                        // The last one that has not read its rows; all that have are done.
                        let last = group.iter().rposition(|work| work.next < work.len);
                        let mut work = group.remove(last.expect("a pass has work"));
                        // If it is alone, those that are done give their cells.
                        if group.iter().all(|work| work.next == work.len) {
                            for done in std::mem::replace(&mut group, vec![work]) {
                                self.empty(done.slot);
                            }
                        } else {
                            self.empty(work.slot);
                            // Rows that were read are read again.
                            work.next = 0;
                            waiting.push(work);
                        }
                    } else {
                        return Err(LlamaCppError::NoRoom { tokens: pass.len() });
                    }
                }
                Err(Failure::Failed(reason)) => {
                    for slot in 0..self.slots.len() {
                        self.empty(slot);
                    }
                    return Err(LlamaCppError::Failed { reason });
                }
            }
        }
        Ok(())
    }

    /// Gives an item a slot that holds as much of it as any does.
    fn enter(&mut self, batch: &mut [Extension<'_, Sequence>], work: &mut Work, used: &[usize]) {
        let Extension { sequence, tokens, .. } = &mut batch[work.item];
        let own = self.held(sequence);
        let slot = own.unwrap_or_else(|| self.take(used));
        // The tokens that can be kept or copied of a slot. A slot whose holder has changed is still filled.
        let usable = |schedule: &Self, at: usize| {
            let there = &schedule.slots[at].tokens;
            let all = sequence.tokens.iter().chain(tokens.iter());
            let shared = there.iter().zip(all).take_while(|(one, other)| one == other).count();
            let shared = shared.min(work.wanted_from);
            if shared == there.len() || schedule.memory.cuts() { shared } else { 0 }
        };
        let best = (0..self.slots.len()).max_by_key(|at| (usable(self, *at), *at == slot)).unwrap_or(slot);
        let len = usable(self, best);
        if own.is_none() {
            sequence.claim = Some(self.claim(slot));
        }
        work.slot = slot;
        work.next = if best == slot {
            self.cut(slot, len)
        } else {
            self.empty(slot);
            self.copy(best, slot, len)
        };
    }

    /// The next entries of the items of a group, front to back.
    fn pass(&self, batch: &[Extension<'_, Sequence>], group: &[Work]) -> Vec<Entry> {
        let mut pass = Vec::new();
        for work in group {
            let Extension { sequence, tokens, .. } = &batch[work.item];
            let old = sequence.tokens.len();
            for position in work.next..work.len {
                if pass.len() == self.memory.pass_len() {
                    return pass;
                }
                let token = if position < old { sequence.tokens[position] } else { tokens[position - old] };
                pass.push(Entry { slot: work.slot, token, position, wanted: position >= work.wanted_from });
            }
        }
        pass
    }

    /// Reads the rows of a pass, and notes that the slots hold its tokens.
    fn read(&mut self, group: &mut [Work], pass: &[Entry], output: &mut [f32]) {
        self.clock += 1;
        for (index, entry) in pass.iter().enumerate() {
            let of_entry = group.iter_mut().find(|work| work.slot == entry.slot);
            let work = of_entry.expect("a pass is made of the items of the group");
            let slot = &mut self.slots[entry.slot];
            slot.tokens.push(entry.token);
            slot.used = self.clock;
            work.next += 1;
            if entry.wanted {
                let row = (work.row + entry.position - work.wanted_from) * self.vocab_len;
                output[row..row + self.vocab_len].copy_from_slice(self.memory.row(index));
            }
        }
    }

    /// The slot that a sequence holds.
    fn held(&self, sequence: &Sequence) -> Option<usize> {
        let claim = sequence.claim.as_ref()?;
        let is_holder = self.slots[claim.slot].holder.ptr_eq(&Arc::downgrade(&claim.alive));
        is_holder.then_some(claim.slot)
    }

    fn claim(&mut self, slot: usize) -> Claim {
        let alive = Arc::new(());
        self.slots[slot].holder = Arc::downgrade(&alive);
        Claim { slot, alive }
    }

    /// The slot for a sequence without one: not one of `used`, of which there are fewer than slots.
    fn take(&self, used: &[usize]) -> usize {
        let free = self.idle_but(used);
        let taken = free.or_else(|| {
            self.least_used(|schedule, slot| (!used.contains(&slot)).then_some(schedule.slots[slot].used))
        });
        taken.expect("a group has no more items than there are slots")
    }

    /// A slot that nobody holds: an empty one, or the least recently used.
    fn idle_but(&self, used: &[usize]) -> Option<usize> {
        self.least_used(|schedule, slot| {
            let Slot { holder, tokens, used: time } = &schedule.slots[slot];
            let is_idle = holder.strong_count() == 0 && !used.contains(&slot);
            is_idle.then_some((!tokens.is_empty(), *time))
        })
    }

    fn least_used<K: Ord>(&self, key: impl Fn(&Self, usize) -> Option<K>) -> Option<usize> {
        (0..self.slots.len()).filter_map(|slot| Some((key(self, slot)?, slot))).min().map(|(_, slot)| slot)
    }

    fn forget_dropped(&mut self) {
        let dropped = |slot: &usize| {
            let Slot { holder, tokens, .. } = &self.slots[*slot];
            holder.strong_count() == 0 && !tokens.is_empty()
        };
        let mut dropped: Vec<usize> = (0..self.slots.len()).filter(dropped).collect();
        dropped.sort_unstable_by_key(|slot| std::cmp::Reverse(self.slots[*slot].used));
        for slot in dropped.into_iter().skip(KEPT) {
            self.empty(slot);
        }
    }

    fn empty(&mut self, slot: usize) {
        if !self.slots[slot].tokens.is_empty() {
            self.memory.cut(slot, 0);
            self.slots[slot].tokens.clear();
        }
    }

    /// Cuts a slot to `len` tokens, or to none where it cannot be cut there; returns how many are left.
    fn cut(&mut self, slot: usize, len: usize) -> usize {
        if len >= self.slots[slot].tokens.len() {
            return self.slots[slot].tokens.len();
        }
        if len > 0 && self.memory.cuts() && self.memory.cut(slot, len) {
            self.slots[slot].tokens.truncate(len);
            return len;
        }
        self.empty(slot);
        0
    }

    /// Copies the beginning of a slot to an empty one; returns the number of tokens.
    fn copy(&mut self, from: usize, to: usize, len: usize) -> usize {
        let whole = self.slots[from].tokens.len();
        let len = len.min(whole);
        if len == 0 || (len < whole && !self.memory.cuts()) {
            return 0;
        }
        self.memory.copy(from, to, len);
        self.clock += 1;
        self.slots[to].tokens = self.slots[from].tokens[..len].to_vec();
        self.slots[to].used = self.clock;
        len
    }
}

impl<M: Memory> LanguageModel for Schedule<M> {
    type Sequence = Sequence;
    type Error = LlamaCppError;

    fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    fn context_len(&self) -> Option<usize> {
        Some(self.context)
    }

    fn start(&mut self) -> Sequence {
        Sequence { tokens: Vec::new(), claim: None, model: self.model }
    }

    fn len(&self, sequence: &Sequence) -> usize {
        sequence.tokens.len()
    }

    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        let mut fork = Sequence { tokens: sequence.tokens.clone(), claim: None, model: sequence.model };
        if sequence.model == self.model
            && let Some(from) = self.held(sequence)
            && let Some(to) = self.idle_but(&[])
        {
            self.empty(to);
            if self.copy(from, to, fork.tokens.len()) > 0 {
                fork.claim = Some(self.claim(to));
            }
        }
        fork
    }

    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        let old = sequence.tokens.len();
        assert!(len <= old, "cannot truncate a sequence of {old} tokens to {len}");
        // The slot is cut when it is used.
        sequence.tokens.truncate(len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        logits: &mut Logits,
    ) -> Result<(), LlamaCppError> {
        let (mut waiting, rows) = self.plan(batch)?;
        let output = logits.reset(rows, self.vocab_len);
        self.forget_dropped();
        waiting.reverse();
        while !waiting.is_empty() {
            self.group(batch, &mut waiting, output)?;
        }
        for item in batch {
            item.sequence.tokens.extend_from_slice(item.tokens);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
