//! The closures of the states of an NFA, without members that others include. Each is computed once, from the
//! closures of its successors.
//!
//! A set of a [`LazyRegexConstraint`](crate::LazyRegexConstraint) is a union of such closures. A chain of n optional
//! parts has n states, each of which reaches all later ones. This file computes the closure of each from that of the
//! next one, so that the chain takes O(n) and not O(n^2), as long as each closure [needs](super::inclusion) few
//! members.
//!
//! Closures that need many members (thousands of optional parts, each of which reads another text) are kept up to a
//! bound. A closure beyond the bound is computed by a walk on each request.

use super::inclusion::Inclusion;
use crate::{
    Limits, RegexError,
    dfa::{
        closure::ACCEPTING,
        nfa::{Nfa, NfaId, NfaState},
    },
};

/// The place of a closure that is not kept.
const UNKNOWN: u32 = u32::MAX;

/// The bound on kept members, to which the number of NFA states is added.
const KEPT: usize = 1 << 20;

/// The cost of a comparison of two members, in steps: it takes as long as 16 transitions of a DFA.
const COMPARISON: u64 = 16;

/// By NFA state: the states that read and are reachable from it without reading, after some byte was read.
pub(crate) struct Closures {
    inclusion: Inclusion,
    /// By state: the index of its first member, and the number of its members. [`UNKNOWN`] for a state that reads a
    /// byte, and for a closure that is not kept.
    places: Vec<(u32, u32)>,
    members: Vec<u32>,
    /// By state: whether the text may end there.
    accepts: Vec<bool>,
    /// By state: the number of bytes that it reads.
    widths: Vec<u16>,
}

/// Buffers that hold no data between calls, and the numbers of the walks that visited each state.
#[derive(Default)]
pub(crate) struct Walk {
    seen: Vec<u32>,
    walk: u32,
    open: Vec<NfaId>,
    /// How many states and members were visited.
    pub(crate) steps: u64,
}

impl Walk {
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<u32>() * (self.seen.capacity() + self.open.capacity())
    }
}

impl Closures {
    /// O(n) steps for an NFA of n states in which few members are needed.
    ///
    /// # Errors
    ///
    /// [`RegexError::ClosuresTooCostly`] past [`Limits::dfa_steps`], and [`RegexError::Cancelled`].
    pub(crate) fn new(nfa: &Nfa, accepts: Vec<bool>, limits: &Limits) -> Result<Self, RegexError> {
        let widths = (0..nfa.len()).map(|id| width(nfa, NfaId(id as u32))).collect();
        let mut closures = Self {
            inclusion: Inclusion::new(nfa),
            places: vec![(UNKNOWN, 0); nfa.len()],
            members: vec![],
            accepts,
            widths,
        };
        let mut is_target = vec![false; nfa.len()];
        nfa.transitions().iter().for_each(|transition| is_target[transition.next.index()] = true);
        let mut walk = Walk::default();
        let mut set = vec![];
        // Later parts of a pattern have smaller numbers, so their closures are ready when they are needed.
        for id in (0..nfa.len() as u32).filter(|id| is_target[*id as usize]) {
            if matches!(nfa.state(NfaId(id)), NfaState::Bytes { .. }) {
                continue;
            }
            let before = walk.steps;
            set.clear();
            closures.extend(nfa, NfaId(id), &mut walk, &mut set);
            walk.steps += COMPARISON * closures.reduce(nfa, &mut set) + set.len() as u64;
            limits.spend(walk.steps - before)?;
            if walk.steps > limits.dfa_steps {
                return Err(RegexError::ClosuresTooCostly { limit: limits.dfa_steps, states: id as usize });
            }
            if closures.members.len() + set.len() <= KEPT + nfa.len() {
                closures.places[id as usize] = (closures.members.len() as u32, set.len() as u32);
                closures.members.extend_from_slice(&set);
            }
        }
        Ok(closures)
    }

    /// Computes into `set` the states that are reachable from `targets` without reading, after some byte was read:
    /// sorted, with [`ACCEPTING`] at the end if the text may end there.
    pub(crate) fn of(&self, nfa: &Nfa, targets: &[NfaId], walk: &mut Walk, set: &mut Vec<u32>) {
        set.clear();
        let mut is_reduced = targets.len() < 2;
        for target in targets {
            is_reduced &= self.extend(nfa, *target, walk, set);
        }
        if !is_reduced {
            self.reduce(nfa, set);
        }
        if targets.iter().any(|target| self.accepts[target.index()]) {
            set.push(ACCEPTING);
        }
    }

    /// Adds to `set` the members of the closure of `target`. Returns whether they are sorted and reduced.
    fn extend(&self, nfa: &Nfa, target: NfaId, walk: &mut Walk, set: &mut Vec<u32>) -> bool {
        walk.steps += 1;
        if let NfaState::Bytes { .. } = nfa.state(target) {
            set.push(target.0);
            return true;
        }
        if let Some(known) = self.known(target) {
            set.extend_from_slice(known);
            return true;
        }
        walk.seen.resize(nfa.len(), 0);
        walk.walk = walk.walk.wrapping_add(1);
        if walk.walk == 0 {
            walk.seen.fill(0);
            walk.walk = 1;
        }
        walk.open.push(target);
        while let Some(id) = walk.open.pop() {
            walk.steps += 1;
            if std::mem::replace(&mut walk.seen[id.index()], walk.walk) == walk.walk {
                continue;
            }
            match nfa.state(id) {
                NfaState::Bytes { .. } => set.push(id.0),
                NfaState::Split { first, last } => match self.known(id) {
                    Some(known) => {
                        walk.steps += known.len() as u64;
                        set.extend_from_slice(known);
                    }
                    None => walk.open.extend(nfa.split(first, last)),
                },
                NfaState::AtStart(_) | NfaState::AtEnd(_) | NfaState::Accept => {}
            }
        }
        false
    }

    fn known(&self, id: NfaId) -> Option<&[u32]> {
        let (begin, len) = self.places[id.index()];
        (begin != UNKNOWN).then(|| &self.members[begin as usize..begin as usize + len as usize])
    }

    /// Sorts `set` and removes members that others include. Returns the number of transitions that were compared.
    pub(crate) fn reduce(&self, nfa: &Nfa, set: &mut Vec<u32>) -> u64 {
        set.sort_unstable();
        set.dedup();
        let mut steps = 0;
        let covers = |wide, narrow| self.inclusion.covers(nfa, &self.widths, wide, narrow, &mut steps);
        self.inclusion.reduce(set, covers, nfa);
        steps
    }

    /// Whether the facts of `inclusion` show, without a search, that `wide` matches all texts of `narrow` after some
    /// byte was read.
    pub(crate) fn includes(&self, wide: u32, narrow: u32) -> bool {
        self.inclusion.includes(wide, narrow)
    }

    /// By state: the number of bytes that it reads.
    pub(crate) fn widths(&self) -> &[u16] {
        &self.widths
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.inclusion.memory_usage()
            + size_of_val(&self.places[..])
            + size_of_val(&self.members[..])
            + size_of_val(&self.accepts[..])
            + size_of_val(&self.widths[..])
    }
}

fn width(nfa: &Nfa, id: NfaId) -> u16 {
    match nfa.state(id) {
        NfaState::Bytes { first, last } => {
            let widths = nfa.bytes(first, last).iter();
            widths.map(|transition| u16::from(transition.last - transition.first) + 1).sum()
        }
        _ => 0,
    }
}
