//! States of an NFA that match all texts of another state: known from the shape of the pattern, without a search.
//!
//! A set of NFA states does not need a member whose language another member's includes. With all members, the n sets
//! of n optional parts `a?a?a?…` would have n members each, and the sets of `\w{0,1000}x\w{0,1000}` would distinguish
//! for each `x` whether it was the `x` of the pattern. Two facts are kept, both in O(1) memory for each state:
//!
//! - A state includes every state that it reaches without reading. A spanning forest of these edges is kept, in which
//!   the descendants of a state are an interval.
//! - The copies of an optional part `x{0,n}` that come earlier in the text include the later ones ([`Chain`]).
//!
//! Both facts are sufficient and not necessary. [`Inclusion::covers`] is sufficient too: it follows the transitions
//! of two states until one of the facts holds. A pair that it does not decide costs a member and changes no language.
//!
//! Tried instead: simulation along all pairs of states, for each set. It is quadratic for a chain of optional parts,
//! and takes a million pairs to show that `\w{0,1000}` includes `\w{0,999}`.

use smallvec::SmallVec;

use crate::dfa::nfa::{Chain, Nfa, NfaId, NfaState, Transition};

/// No chain.
const NONE: u32 = u32::MAX;

/// The bound on compared transitions for a pair of states.
const STEPS: u32 = 4_096;

/// The depth to which branching transitions are followed: a character has up to four bytes.
const DEPTH: u32 = 4;

/// For each first byte, this many members of a set are compared with the other members.
const COMPARED: usize = 4;

/// The facts about an NFA.
pub(crate) struct Inclusion {
    /// By state: its number in the forest, and the largest number among its descendants.
    forest: Vec<(u32, u32)>,
    /// By their first state, outer chains before inner ones.
    chains: Vec<Chain>,
    /// By chain: the enclosing chain, or [`NONE`].
    around: Vec<u32>,
}

impl Inclusion {
    /// O(n log n) for an NFA of n states.
    pub(crate) fn new(nfa: &Nfa) -> Self {
        let mut chains = nfa.chains().to_vec();
        chains.sort_by_key(|chain| (chain.begin, std::cmp::Reverse(chain.end)));
        let mut around = Vec::with_capacity(chains.len());
        let mut open: Vec<u32> = vec![];
        for (id, chain) in (0..).zip(&chains) {
            while open.last().is_some_and(|last| chains[*last as usize].end < chain.end) {
                open.pop();
            }
            around.push(open.last().copied().unwrap_or(NONE));
            open.push(id);
        }
        Self { forest: forest(nfa), chains, around }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.forest[..]) + size_of_val(&self.chains[..]) + size_of_val(&self.around[..])
    }

    /// Whether the two facts show that `wide` matches all texts of `narrow` after some byte was read. O(d log n) for
    /// a nesting of d repetitions.
    pub(crate) fn includes(&self, wide: u32, narrow: u32) -> bool {
        if self.reaches(wide, narrow) {
            return true;
        }
        let mut narrow = narrow;
        for chain in self.chains_of(wide).into_iter().rev() {
            let Chain { begin, end, stride } = self.chains[chain as usize];
            if !(begin..end).contains(&narrow) {
                return false;
            }
            let copy = |state: u32| (state - begin) / stride;
            let (Some(later), true) = (copy(wide).checked_sub(copy(narrow)), stride > 0) else {
                return false;
            };
            narrow += later * stride;
            if self.reaches(wide, narrow) {
                return true;
            }
        }
        false
    }

    /// Whether `to` is `from` or a descendant of it in the forest.
    fn reaches(&self, from: u32, to: u32) -> bool {
        let ((number, last), (below, _)) = (self.forest[from as usize], self.forest[to as usize]);
        (number..=last).contains(&below)
    }

    /// The chains that contain `state`, innermost first.
    fn chains_of(&self, state: u32) -> SmallVec<[u32; 4]> {
        let mut found = SmallVec::new();
        let mut at = (self.chains.partition_point(|chain| chain.begin <= state) as u32).wrapping_sub(1);
        while at != NONE {
            if state < self.chains[at as usize].end {
                found.push(at);
            }
            at = self.around[at as usize];
        }
        found
    }

    /// Whether a bounded search shows that `wide` matches all texts of `narrow`. Both states read a byte. Adds the
    /// number of compared transitions to `steps`.
    pub(crate) fn covers(&self, nfa: &Nfa, widths: &[u16], wide: u32, narrow: u32, steps: &mut u64) -> bool {
        let mut left = STEPS;
        let covers = self.follow(nfa, widths, wide, narrow, DEPTH, &mut left);
        *steps += u64::from(STEPS - left);
        covers
    }

    fn follow(&self, nfa: &Nfa, widths: &[u16], wide: u32, narrow: u32, depth: u32, left: &mut u32) -> bool {
        let (mut wide, mut narrow) = (wide, narrow);
        loop {
            if self.includes(wide, narrow) {
                return true;
            }
            let (Some(wide_reads), Some(narrow_reads)) = (reads(nfa, wide), reads(nfa, narrow)) else {
                return false;
            };
            if widths[wide as usize] < widths[narrow as usize] || narrow_reads.is_empty() {
                return false;
            }
            // The loop follows the last pair itself, so that long words need no depth.
            let mut last = None;
            for step in narrow_reads {
                let begin = wide_reads.partition_point(|other| other.last < step.first);
                let mut byte = u16::from(step.first);
                for other in &wide_reads[begin..] {
                    let Some(rest) = left.checked_sub(1) else { return false };
                    *left = rest;
                    if u16::from(other.first) > byte {
                        return false;
                    }
                    let pair = (other.next.0, step.next.0);
                    if let Some((wide, narrow)) = last.replace(pair).filter(|before| *before != pair)
                        && (depth == 0 || !self.follow(nfa, widths, wide, narrow, depth - 1, left))
                    {
                        return false;
                    }
                    byte = u16::from(other.last) + 1;
                    if byte > u16::from(step.last) {
                        break;
                    }
                }
                if byte <= u16::from(step.last) {
                    return false;
                }
            }
            let Some(pair) = last else { return false };
            (wide, narrow) = pair;
        }
    }

    /// Removes members that others cover from `set`, which must ascend. O(n) comparisons for n members.
    pub(crate) fn reduce(&self, set: &mut Vec<u32>, mut covers: impl FnMut(u32, u32) -> bool, nfa: &Nfa) {
        if set.len() < 2 {
            return;
        }
        // Earlier parts of a pattern have greater numbers, and mostly cover the later ones.
        let mut compared: SmallVec<[(u8, u32); 16]> = SmallVec::new();
        let mut counts = [0u8; 256];
        let first_of =
            |member: u32| reads(nfa, member).and_then(<[Transition]>::first).map_or(0, |step| step.first);
        let mut kept = set.len();
        for at in (0..set.len()).rev() {
            let member = set[at];
            let first = first_of(member);
            let is_covered = compared.iter().any(|(byte, other)| *byte <= first && covers(*other, member));
            if !is_covered {
                kept -= 1;
                set[kept] = member;
                let count = &mut counts[usize::from(first)];
                if usize::from(*count) < COMPARED {
                    *count += 1;
                    compared.push((first, member));
                }
            }
        }
        set.drain(..kept);
    }
}

/// The transitions of a state that reads a byte.
fn reads(nfa: &Nfa, state: u32) -> Option<&[Transition]> {
    match nfa.state(NfaId(state)) {
        NfaState::Bytes { first, last } => Some(nfa.bytes(first, last)),
        _ => None,
    }
}

/// By state: its number in a spanning forest of the edges that read nothing, and the largest number among its
/// descendants.
fn forest(nfa: &Nfa) -> Vec<(u32, u32)> {
    /// A state that was not visited.
    const NEW: u32 = u32::MAX;
    let mut forest = vec![(NEW, NEW); nfa.len()];
    let mut number = 0;
    // A state, and the number of its alternatives that were followed.
    let mut open: Vec<(u32, u32)> = vec![];
    // The beginning of a pattern has the greatest numbers.
    for root in (0..nfa.len() as u32).rev() {
        if forest[root as usize].0 != NEW {
            continue;
        }
        forest[root as usize].0 = number;
        number += 1;
        open.push((root, 0));
        while let Some((state, followed)) = open.last_mut() {
            let next = match nfa.state(NfaId(*state)) {
                NfaState::Split { first, last } => nfa.split(first, last).get(*followed as usize),
                _ => None,
            };
            *followed += 1;
            match next {
                Some(next) if forest[next.index()].0 == NEW => {
                    forest[next.index()].0 = number;
                    number += 1;
                    open.push((next.0, 0));
                }
                Some(_) => {}
                None => {
                    forest[*state as usize].1 = number - 1;
                    open.pop();
                }
            }
        }
    }
    forest
}
