//! The DFA of masks, which is built along the walk of a mask: its states, its memory, and the reduction of its sets.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use unskew_trie::{ByteAutomaton, DEAD};

use super::{LazyRegexConstraint, closures, reads};
use crate::dfa::{
    closure::ACCEPTING,
    nfa::{NfaId, NfaState},
};

/// A transition that is not computed yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// How many members of a set are compared with all others: the members that read the most different bytes.
const WIDEST: usize = 4;

/// The budget of a cache for simulations: one step for each compared pair of NFA states, and one for 16 members of a
/// closure.
const SIMULATION_STEPS: u32 = 1 << 18;

/// The part of the budget that a single simulation may use.
const SIMULATION: u32 = 1 << 12;

/// The memory of an entry of a map beside its contents, in bytes.
const OVERHEAD: usize = 96;

/// Buffers that hold no data between calls.
#[derive(Default)]
pub(super) struct Work {
    pub(super) walk: closures::Walk,
    /// The present set.
    pub(super) set: Vec<u32>,
    pub(super) targets: Vec<NfaId>,
}

impl Work {
    pub(super) fn memory_usage(&self) -> usize {
        self.walk.memory_usage() + self.set.capacity() * 4 + self.targets.capacity() * 4
    }
}

/// The part of the DFA of masks that was built so far.
#[derive(Default)]
pub(super) struct Cache {
    /// By state: members that together read all texts that the whole set reads.
    pub(super) sets: Vec<Arc<[u32]>>,
    pub(super) ids: HashMap<Arc<[u32]>, u32>,
    /// `next[state * classes + class]`.
    pub(super) next: Vec<u32>,
    /// By whole set: the state that reads the same texts.
    pub(super) of_whole: HashMap<Arc<[u32]>, u32>,
    /// By NFA state that is the target of a transition: its closure without [`ACCEPTING`], and the widest member.
    pub(super) closures: HashMap<u32, (Arc<[u32]>, Option<u32>)>,
    /// By NFA state that is the target of a transition: the reduced closure, which reads the same texts.
    pub(super) reduced: HashMap<u32, Arc<[u32]>>,
    /// By pair: whether the second reads all texts that the first reads.
    pub(super) covered: HashMap<(u32, u32), bool>,
    pub(super) simulation_steps: u32,
    /// By state.
    pub(super) masks: HashMap<u32, Box<[u32]>>,
    /// The memory that counts towards the limit.
    pub(super) bytes: usize,
    /// The memory of the sets and masks alone.
    pub(super) owned: usize,
}

impl Cache {
    pub(super) fn memory_usage(&self) -> usize {
        self.owned
            + self.sets.capacity() * size_of::<Arc<[u32]>>()
            + self.next.capacity() * size_of::<u32>()
            + table(&self.ids)
            + table(&self.of_whole)
            + table(&self.closures)
            + table(&self.reduced)
            + table(&self.covered)
            + table(&self.masks)
    }

    /// Counts the memory of a kept set and of its entries in the maps.
    pub(super) fn count(&mut self, set: &[u32]) {
        self.bytes += OVERHEAD + size_of_val(set);
        self.owned += 2 * size_of::<usize>() + size_of_val(set);
    }
}

/// The memory of a table: seven eighths of its slots, a power of two, are usable, and each slot has a control byte.
fn table<K, V>(map: &HashMap<K, V>) -> usize {
    match map.capacity() {
        0 => 0,
        capacity => (capacity * 8 / 7).next_power_of_two() * (size_of::<(K, V)>() + 1),
    }
}

/// A constraint with a scratch, for one mask.
pub(super) struct Walk<'a> {
    pub(super) constraint: &'a LazyRegexConstraint,
    pub(super) work: &'a mut Work,
    pub(super) cache: &'a mut Cache,
    pub(super) old: &'a mut Cache,
    /// Whether memory ran out, so that the result of the walk is useless.
    pub(super) overflow: bool,
}

impl ByteAutomaton for Walk<'_> {
    fn class(&self, byte: u8) -> u8 {
        self.constraint.classes.get(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        if self.overflow {
            return DEAD;
        }
        let classes = &self.constraint.classes;
        let at = state as usize * classes.len() + usize::from(classes.get(byte));
        match self.cache.next[at] {
            UNKNOWN => self.make(state, byte, at),
            next => next,
        }
    }
}

impl Walk<'_> {
    /// Computes the transition of `state` over `byte`, at index `at` of the table.
    #[cold]
    fn make(&mut self, state: u32, byte: u8, at: usize) -> u32 {
        let limit = self.constraint.cache_bytes;
        if self.cache.bytes.saturating_add(self.old.bytes) > limit {
            *self.old = Cache::default();
        }
        if self.cache.bytes > limit || self.cache.sets.len() >= UNKNOWN as usize {
            self.overflow = true;
            return DEAD;
        }
        let set = Arc::clone(&self.cache.sets[state as usize]);
        if let Some(next) = self.made_before(&set, byte) {
            self.cache.next[at] = next;
            return next;
        }
        let mut targets = std::mem::take(&mut self.work.targets);
        self.constraint.targets(&set, byte, &mut targets);
        let next = match &targets[..] {
            [] => DEAD,
            [only] => {
                let reduced = self.reduced(only.0);
                self.state(reduced)
            }
            many => {
                let mut union: Vec<u32> = vec![];
                for target in many {
                    union.extend_from_slice(&self.reduced(target.0));
                }
                union.sort_unstable();
                union.dedup();
                self.reduce(&mut union);
                self.state(Arc::from(union))
            }
        };
        self.work.targets = targets;
        self.cache.next[at] = next;
        next
    }

    /// The target of `byte` from the state of `set`, if the older half of the cache has it.
    fn made_before(&mut self, set: &Arc<[u32]>, byte: u8) -> Option<u32> {
        let classes = &self.constraint.classes;
        let state = *self.old.ids.get(set)? as usize;
        match self.old.next[state * classes.len() + usize::from(classes.get(byte))] {
            UNKNOWN => None,
            DEAD => Some(DEAD),
            next => {
                let set = Arc::clone(&self.old.sets[next as usize]);
                Some(self.state(set))
            }
        }
    }

    /// The state of a reduced set.
    fn state(&mut self, set: Arc<[u32]>) -> u32 {
        let cache = &mut *self.cache;
        if let Some(id) = cache.ids.get(&set) {
            return *id;
        }
        let id = cache.sets.len() as u32;
        let width = self.constraint.classes.len();
        cache.next.resize(cache.next.len() + width, UNKNOWN);
        cache.count(&set);
        cache.bytes += width * size_of::<u32>();
        cache.sets.push(Arc::clone(&set));
        cache.ids.insert(set, id);
        id
    }

    /// The state with the same masks as a whole set.
    pub(super) fn state_of_whole(&mut self, whole: &Arc<[u32]>) -> u32 {
        if let Some(id) = self.cache.of_whole.get(whole) {
            return *id;
        }
        let set = match self.old.of_whole.get(whole) {
            Some(id) => Arc::clone(&self.old.sets[*id as usize]),
            None => {
                let mut set = whole.strip_suffix(&[ACCEPTING]).unwrap_or(whole).to_vec();
                self.reduce(&mut set);
                Arc::from(set)
            }
        };
        let id = self.state(set);
        self.cache.count(whole);
        self.cache.of_whole.insert(Arc::clone(whole), id);
        id
    }

    /// The closure of `target` without [`ACCEPTING`], and its widest member.
    fn closure(&mut self, target: u32) -> (Arc<[u32]>, Option<u32>) {
        if let Some(known) = self.cache.closures.get(&target) {
            return known.clone();
        }
        let Work { walk, set, .. } = &mut *self.work;
        self.constraint.closures.of(&self.constraint.nfa, &[NfaId(target)], walk, set);
        let whole: Arc<[u32]> = Arc::from(set.strip_suffix(&[ACCEPTING]).unwrap_or(set));
        let widths = self.constraint.closures.widths();
        let widest = whole.iter().copied().max_by_key(|member| (widths[*member as usize], *member));
        self.cache.count(&whole);
        self.cache.closures.insert(target, (Arc::clone(&whole), widest));
        (whole, widest)
    }

    /// Members of the closure of `target` that together read the same texts as all of them.
    fn reduced(&mut self, target: u32) -> Arc<[u32]> {
        if let Some(known) = self.cache.reduced.get(&target) {
            return Arc::clone(known);
        }
        let set = match self.old.reduced.get(&target) {
            Some(known) => Arc::clone(known),
            None => {
                let mut set = self.closure(target).0.to_vec();
                self.reduce(&mut set);
                Arc::from(set)
            }
        };
        self.cache.count(&set);
        self.cache.reduced.insert(target, Arc::clone(&set));
        set
    }

    /// Removes members that others cover.
    fn reduce(&mut self, set: &mut Vec<u32>) {
        if set.len() < 2 {
            return;
        }
        // Earlier parts of a pattern have greater numbers.
        let widths = self.constraint.closures.widths();
        let mut widest: Vec<u32> = Vec::with_capacity(WIDEST + 1);
        for member in set.iter().rev() {
            let width = |member: u32| widths[member as usize];
            let at = widest.partition_point(|other| width(*other) >= width(*member));
            if at < WIDEST {
                widest.insert(at, *member);
                widest.truncate(WIDEST);
            }
        }
        let mut kept: Vec<u32> = Vec::with_capacity(WIDEST);
        for member in widest {
            if !kept.iter().any(|other| self.covers(*other, member)) {
                kept.push(member);
            }
        }
        set.retain(|member| kept.contains(member) || !kept.iter().any(|other| self.covers(*other, *member)));
    }

    /// Whether `wide` is known to read all texts that `narrow` reads.
    fn covers(&mut self, wide: u32, narrow: u32) -> bool {
        let widths = self.constraint.closures.widths();
        if widths[wide as usize] < widths[narrow as usize] {
            return false;
        }
        if let Some(known) = self.cache.covered.get(&(narrow, wide)) {
            return *known;
        }
        let before = self.old.covered.get(&(narrow, wide)).copied();
        let covered = before.unwrap_or_else(|| self.simulate(narrow, wide));
        self.cache.bytes += OVERHEAD / 2;
        self.cache.covered.insert((narrow, wide), covered);
        covered
    }

    /// Whether `wide` simulates `narrow`: each step of `narrow` is also a step of `wide`, and the pairs after it are
    /// in the relation too. The pairs that are assumed on the way are in the relation if no step contradicts any of
    /// them.
    fn simulate(&mut self, narrow: u32, wide: u32) -> bool {
        let constraint = self.constraint;
        let mut assumed = vec![(narrow, wide)];
        let mut seen = HashSet::from([(narrow, wide)]);
        let mut at = 0;
        let limit = self.cache.simulation_steps.saturating_add(SIMULATION).min(SIMULATION_STEPS);
        while let Some((narrow, wide)) = assumed.get(at).copied() {
            at += 1;
            if self.cache.simulation_steps >= limit || self.cache.bytes > constraint.cache_bytes {
                return false;
            }
            self.cache.simulation_steps += 1;
            let wide_reads = reads(&constraint.nfa, wide);
            for step in reads(&constraint.nfa, narrow) {
                // The transitions of `wide` over these bytes must cover all of them.
                let begin = wide_reads.partition_point(|other| other.last < step.first);
                let mut byte = step.first;
                for other in &wide_reads[begin..] {
                    if other.first > byte || !self.assume(step.next.0, other.next.0, &mut assumed, &mut seen)
                    {
                        return false;
                    }
                    if other.last >= step.last {
                        byte = step.last;
                        break;
                    }
                    byte = other.last + 1;
                }
                if wide_reads.last().is_none_or(|last| last.last < step.last) || byte != step.last {
                    return false;
                }
            }
        }
        self.cache.bytes += assumed.len() * OVERHEAD / 2;
        self.cache.covered.extend(assumed.into_iter().map(|pair| (pair, true)));
        true
    }

    /// Adds the pairs of states after `narrow` and `wide` of which the second must cover the first. Returns false if
    /// a pair is known to fail.
    fn assume(
        &mut self,
        narrow: u32,
        wide: u32,
        assumed: &mut Vec<(u32, u32)>,
        seen: &mut HashSet<(u32, u32)>,
    ) -> bool {
        if self.constraint.closures.includes(wide, narrow) {
            return true;
        }
        let is_byte = |id: u32| matches!(self.constraint.nfa.state(NfaId(id)), NfaState::Bytes { .. });
        if is_byte(narrow) && is_byte(wide) {
            return self.assume_one(narrow, wide, assumed, seen);
        }
        let ((narrow, _), (wide, widest)) = (self.closure(narrow), self.closure(wide));
        self.cache.simulation_steps = self.cache.simulation_steps.saturating_add(narrow.len() as u32 / 16);
        let mut missing = narrow.iter().filter(|member| wide.binary_search(member).is_err());
        missing.all(|member| widest.is_some_and(|widest| self.assume_one(*member, widest, assumed, seen)))
    }

    /// As [`assume`](Self::assume), for two states that read a byte.
    fn assume_one(
        &self,
        narrow: u32,
        wide: u32,
        assumed: &mut Vec<(u32, u32)>,
        seen: &mut HashSet<(u32, u32)>,
    ) -> bool {
        let widths = self.constraint.closures.widths();
        if widths[wide as usize] < widths[narrow as usize] {
            return false;
        }
        match self.cache.covered.get(&(narrow, wide)) {
            Some(known) => return *known,
            None if seen.insert((narrow, wide)) => assumed.push((narrow, wide)),
            None => {}
        }
        true
    }
}
