//! NFA to DFA: the subset construction, with anchors and under limits.
//!
//! A state of the DFA is the set of NFA states that read a byte next, and whether the text may end here. The other
//! states that a closure passes (splits, anchors, the end) have no effect afterwards and are not kept, so that sets
//! stay small and equal ones are recognised.
//!
//! **Speed.** Inside UTF-8 classes most sets have one member, and most bytes have one target. Both cases have a path
//! of their own: one array maps an NFA state to the DFA state of its closure. Without them `\w{400}` takes 140 ms
//! instead of 90, and a loop over many words computes the closure of all words again after each word.
//!
//! Tried instead: sets before closure as keys, which makes lookups cheap. Sets that differ only in members that the
//! closure adds to both then count as different states, exponentially many for `(a?b?c?…)*`.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{
    closure::{ACCEPTING, Closure},
    nfa::{Nfa, NfaId, NfaState, Transition},
    table::{DEAD, Table},
};
use crate::{Limits, RegexError, StateId, dfa::Cuts};

/// The memory of a set beside its members, in bytes: its header, its entry in the map and its slot in the list.
const SET_OVERHEAD: usize = 96;

/// The steps of one entry of the table beside those of its set: to fill it, to minimise the table, and to read it again
/// for a vocabulary. They take fuel, and [`Limits::dfa_steps`] does not count them.
const ENTRY_STEPS: u64 = 2;

/// The DFA of `nfa`. It is not minimal and may have states that cannot reach acceptance. Exponential in the size of
/// the NFA at worst; the limits bound time and memory.
pub(crate) fn determinize(nfa: &Nfa, limits: &Limits) -> Result<Table, RegexError> {
    determinize_counted(nfa, limits, &mut 0)
}

/// As [`determinize`]; adds the work to `steps`, also if it fails.
pub(crate) fn determinize_counted(nfa: &Nfa, limits: &Limits, steps: &mut u64) -> Result<Table, RegexError> {
    let mut cuts = Cuts::default();
    cut(nfa.transitions(), &mut cuts);
    let mut determinizer = Determinizer {
        nfa,
        limits,
        table: Table::new(cuts.to_classes()),
        ids: FxHashMap::default(),
        sets: vec![],
        of_target: vec![DEAD; nfa.len()],
        closure: Closure::new(nfa.len()),
        cursors: vec![],
        targets: vec![],
        before: vec![],
        bytes: nfa.len() * 8,
        steps: 0,
        spent: 0,
    };
    determinizer.closure.run(nfa, &[nfa.start()], true);
    let start = determinizer.state()?;
    determinizer.table.start = start;

    let expanded = determinizer.expand_all();
    *steps += determinizer.steps + determinizer.closure.steps;
    expanded.map(|()| determinizer.table)
}

/// Tells the bytes of different transitions apart.
pub(crate) fn cut(transitions: &[Transition], cuts: &mut Cuts) {
    transitions.iter().for_each(|transition| cuts.around(transition.first, transition.last));
}

struct Determinizer<'n> {
    nfa: &'n Nfa,
    limits: &'n Limits,
    table: Table,
    ids: FxHashMap<Rc<[u32]>, StateId>,
    /// By DFA state.
    sets: Vec<Rc<[u32]>>,
    /// By NFA state: the DFA state of its closure after a byte was read, or [`DEAD`] if it is not known yet.
    of_target: Vec<u32>,
    closure: Closure,
    /// For each member of the set that is expanded: its remaining transitions.
    cursors: Vec<(u32, u32)>,
    /// The targets of the present byte, and those of the byte before it.
    targets: Vec<NfaId>,
    before: Vec<NfaId>,
    /// The growing part of the memory of all fields.
    bytes: usize,
    steps: u64,
    /// The steps for which fuel was taken.
    spent: u64,
}

impl Determinizer<'_> {
    fn expand_all(&mut self) -> Result<(), RegexError> {
        let mut at = 0;
        while let Some(set) = self.sets.get(at).cloned() {
            self.expand(StateId::from_index(at), &set)?;
            at += 1;
        }
        Ok(())
    }

    /// Fills the row of `state`, whose set is `set`.
    ///
    /// Visits the bytes in ascending order and keeps one cursor into the transitions of each member. A list of
    /// targets for each class would be simpler, and 256 times the size of the set at worst.
    fn expand(&mut self, state: StateId, set: &[u32]) -> Result<(), RegexError> {
        let members = set.strip_suffix(&[ACCEPTING]).unwrap_or(set);
        if let [only] = members {
            return self.expand_one(state, NfaId(*only));
        }
        let mut cuts = Cuts::default();
        self.cursors.clear();
        for member in members {
            let (first, last) = self.reads(NfaId(*member));
            cut(self.nfa.bytes(first, last), &mut cuts);
            self.cursors.push((first, last));
        }
        let (mut targets, mut before) = (std::mem::take(&mut self.targets), std::mem::take(&mut self.before));
        let mut next = DEAD;
        before.clear();
        for begin in cuts.marks() {
            self.targets_of(begin, &mut targets);
            self.check_steps()?;
            if targets != before {
                next = match &targets[..] {
                    [] => DEAD,
                    [only] => self.after(*only)?,
                    targets => {
                        self.closure.run(self.nfa, targets, false);
                        self.state()?.0
                    }
                };
                std::mem::swap(&mut targets, &mut before);
            }
            // The target of `begin` holds up to the next beginning of a class, which overwrites the rest of the row.
            let from = usize::from(self.table.classes.get(begin));
            self.table.row_mut(state)[from..].fill(next);
        }
        (self.targets, self.before) = (targets, before);
        Ok(())
    }

    /// Computes into `targets` the targets of `byte` from the members at the cursors: sorted, without duplicates.
    fn targets_of(&mut self, byte: u8, targets: &mut Vec<NfaId>) {
        targets.clear();
        self.steps += self.cursors.len() as u64;
        let all = self.nfa.transitions();
        for (at, last) in &mut self.cursors {
            while at < last && all[*at as usize].last < byte {
                *at += 1;
            }
            if at < last && all[*at as usize].first <= byte {
                targets.push(all[*at as usize].next);
            }
        }
        targets.sort_unstable();
        targets.dedup();
    }

    /// The range of the transitions of a member of a set.
    fn reads(&self, member: NfaId) -> (u32, u32) {
        match self.nfa.state(member) {
            NfaState::Bytes { first, last } => (first, last),
            _ => unreachable!("the members of a set read a byte"),
        }
    }

    /// As `expand`, for a set with one member: its transitions are disjoint.
    fn expand_one(&mut self, state: StateId, member: NfaId) -> Result<(), RegexError> {
        let (first, last) = self.reads(member);
        for transition in self.nfa.bytes(first, last) {
            let of = |byte: u8| usize::from(self.table.classes.get(byte));
            let classes = of(transition.first)..=of(transition.last);
            self.steps += 1;
            let next = self.after(transition.next)?;
            self.table.row_mut(state)[classes].fill(next);
        }
        self.check_steps()
    }

    /// The DFA state after a byte whose only target is `target`.
    fn after(&mut self, target: NfaId) -> Result<u32, RegexError> {
        let known = self.of_target[target.index()];
        if known != DEAD {
            return Ok(known);
        }
        self.closure.run(self.nfa, &[target], false);
        let state = self.state()?.0;
        self.of_target[target.index()] = state;
        Ok(state)
    }

    /// The DFA state of `set`, which is added if it is new.
    fn state(&mut self) -> Result<StateId, RegexError> {
        // Work for sorting and hashing the set.
        self.steps += 2 * self.closure.set.len() as u64;
        self.check_steps()?;
        if let Some(id) = self.ids.get(&self.closure.set[..]) {
            return Ok(*id);
        }
        // Ids are 32 bits wide, and the largest means "no transition".
        let limit = self.limits.dfa_states.min(DEAD as usize);
        if self.sets.len() >= limit {
            return Err(RegexError::TooManyDfaStates { limit });
        }
        self.bytes +=
            SET_OVERHEAD + size_of_val(&self.closure.set[..]) + self.table.classes.len() * size_of::<u32>();
        if self.bytes > self.limits.dfa_bytes {
            return Err(RegexError::DfaTooLarge { bytes: self.bytes, limit: self.limits.dfa_bytes });
        }
        self.limits.spend(ENTRY_STEPS * self.table.classes.len() as u64)?;
        let id = self.table.push(self.closure.set.last() == Some(&ACCEPTING));
        let set: Rc<[u32]> = Rc::from(&self.closure.set[..]);
        self.sets.push(Rc::clone(&set));
        self.ids.insert(set, id);
        Ok(id)
    }

    fn check_steps(&mut self) -> Result<(), RegexError> {
        let steps = self.steps + self.closure.steps;
        self.limits.spend(steps - self.spent)?;
        self.spent = steps;
        if steps > self.limits.dfa_steps {
            let (limit, states) = (self.limits.dfa_steps, self.sets.len());
            return Err(RegexError::DfaTooCostly { limit, states });
        }
        Ok(())
    }
}
