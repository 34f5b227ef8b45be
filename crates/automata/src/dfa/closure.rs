//! The states that an NFA can reach without reading a byte: the step that all ways of running it share.
//!
//! **Anchors.** `^` holds if no byte was read: only the closure of the start passes it. `$` holds if no byte follows:
//! no closure passes it to read on, but a second pass through `$` decides whether the text may end here. So the
//! language is exactly that of the pattern between `\A` and `\z`, for anchors at any place.
//!
//! The NFA is an argument and not a field: the buffers belong to a determiniser, or to scratches that outlive any
//! borrow.

use super::nfa::{Nfa, NfaId, NfaState};

/// The last element of the set of a state in which the text may end. No NFA has that many states.
pub(crate) const ACCEPTING: u32 = u32::MAX;

/// The buffers of a closure, and its result.
#[derive(Debug)]
pub(crate) struct Closure {
    /// By NFA state: the number of the latest closure that visited it.
    visited: Vec<u32>,
    visit: u32,
    stack: Vec<NfaId>,
    /// The states after each `$` that the present closure reached.
    ends: Vec<NfaId>,
    /// The result of the present closure: sorted, with [`ACCEPTING`] at the end if the text may end.
    pub(crate) set: Vec<u32>,
    /// How many states were visited, over all closures.
    pub(crate) steps: u64,
}

impl Closure {
    /// Buffers for an NFA of `len` states: four bytes for each.
    pub(crate) fn new(len: usize) -> Self {
        Self { visited: vec![0; len], visit: 0, stack: vec![], ends: vec![], set: vec![], steps: 0 }
    }

    /// Computes into `set` the states that are reachable from `targets` without reading; `at_start` if no byte was
    /// read yet.
    pub(crate) fn run(&mut self, nfa: &Nfa, targets: &[NfaId], at_start: bool) {
        self.visit = self.visit.wrapping_add(1);
        if self.visit == 0 {
            self.visited.fill(0);
            self.visit = 1;
        }
        self.set.clear();
        self.ends.clear();
        self.stack.extend_from_slice(targets);
        let mut accepting = self.follow(nfa, at_start, false);
        if !accepting && !self.ends.is_empty() {
            self.stack.append(&mut self.ends);
            // A state that the first pass visited reaches acceptance only through a `$`, and all `$` targets are on
            // the stack.
            accepting = self.follow(nfa, at_start, true);
        }
        self.set.sort_unstable();
        if accepting {
            self.set.push(ACCEPTING);
        }
    }

    /// Empties the stack and visits the states on it and after them; answers whether the end of the pattern is among
    /// them. Collects states that read bytes, and targets of `$`. With `at_end` it passes `$` and collects no states
    /// that read.
    fn follow(&mut self, nfa: &Nfa, at_start: bool, at_end: bool) -> bool {
        let mut accepting = false;
        while let Some(id) = self.stack.pop() {
            self.steps += 1;
            if std::mem::replace(&mut self.visited[id.index()], self.visit) == self.visit {
                continue;
            }
            match nfa.state(id) {
                NfaState::Bytes { .. } if at_end => {}
                NfaState::Bytes { .. } => self.set.push(id.0),
                NfaState::Split { first, last } => self.stack.extend(nfa.split(first, last)),
                NfaState::AtStart(next) if at_start => self.stack.push(next),
                NfaState::AtStart(_) => {}
                NfaState::AtEnd(next) if at_end => self.stack.push(next),
                NfaState::AtEnd(next) => self.ends.push(next),
                NfaState::Accept => accepting = true,
            }
        }
        accepting
    }
}
