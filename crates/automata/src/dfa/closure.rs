//! What an NFA can reach without reading: the step that all ways of running it share.
//!
//! **Anchors.** `^` holds where nothing was read: only the closure of the start passes it. `$` holds where nothing
//! follows: no closure passes it to read on, but a second look through it says whether the text may end here. So the
//! language is exactly that of the pattern between `\A` and `\z`, wherever its anchors stand.
//!
//! The NFA is an argument and not a field: the buffers live in a determiniser, and in scratches that outlive any borrow.

use super::nfa::{Nfa, NfaId, NfaState};

/// Stands at the end of a set whose text may end. No NFA has that many states.
pub(crate) const ACCEPTING: u32 = u32::MAX;

/// The buffers of a closure, and its result.
#[derive(Debug)]
pub(crate) struct Closure {
    /// By NFA state: the number of the closure that came there last.
    visited: Vec<u32>,
    visit: u32,
    stack: Vec<NfaId>,
    /// The `$` that the present closure met.
    ends: Vec<NfaId>,
    /// The result of the present closure: sorted, with [`ACCEPTING`] at the end if the text may end.
    pub(crate) set: Vec<u32>,
    /// How many states were looked at.
    pub(crate) steps: u64,
}

impl Closure {
    /// Buffers for an NFA of `len` states: four bytes for each.
    pub(crate) fn new(len: usize) -> Self {
        Self { visited: vec![0; len], visit: 0, stack: vec![], ends: vec![], set: vec![], steps: 0 }
    }

    /// Puts into `set` what can be reached from `targets` without reading; `at_start` if nothing was read before.
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
            // What the first look visited leads to no end without passing a `$`, and all of those are on the stack.
            accepting = self.follow(nfa, at_start, true);
        }
        self.set.sort_unstable();
        if accepting {
            self.set.push(ACCEPTING);
        }
    }

    /// Empties the stack into what was visited; answers whether the end of the pattern was among it. Collects bytes
    /// and `$`; `at_end` passes `$` and collects no bytes.
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
