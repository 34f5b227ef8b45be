//! Safe bytes of a terminal: those with which its automaton comes to no dead end, from one of its states on.
//!
//! A walk over the vocabulary allows all tokens of safe bytes without a step. Names beside keywords are the case that
//! matters: after each letter other keywords are possible, and all tokens of letters are allowed.

use smallvec::SmallVec;
use unskew_automata::{Dfa, StateId};
use unskew_trie::SafeBytes;

use crate::tuning::Tuning;

/// Bytes with which `dfa` comes to no dead end, from `start` on. `None` if they are few or lead to many states.
///
/// Cost: 128 steps for each state that they lead to, of which there are at most `tuning.safe_states`.
pub(crate) fn safe_bytes(dfa: &Dfa, start: StateId, tuning: &Tuning) -> Option<SafeBytes> {
    // A byte that leads to a state which reads few bytes would take away most others.
    let mut known: SmallVec<[(StateId, bool); 16]> = SmallVec::new();
    let mut is_wide = |state: StateId| match known.iter().find(|(other, _)| *other == state) {
        Some((_, is_wide)) => *is_wide,
        None => {
            let is_wide = reads_many(dfa, state, tuning);
            known.push((state, is_wide));
            is_wide
        }
    };
    let mut safe = [true; 128];
    let mut reached: SmallVec<[StateId; 16]> = SmallVec::from_slice(&[start]);
    let mut at = 0;
    while let Some(state) = reached.get(at).copied() {
        at += 1;
        if at > tuning.safe_states {
            return None;
        }
        for (byte, is_safe) in (0..).zip(&mut safe).filter(|(_, is_safe)| **is_safe) {
            let next = dfa.step(state, byte).filter(|next| is_wide(*next));
            if let Some(next) = next.filter(|next| !reached.contains(next)) {
                reached.push(next);
            }
            *is_safe = next.is_some();
        }
        if safe.iter().filter(|is_safe| **is_safe).count() < tuning.permissive_bytes {
            return None;
        }
    }
    SafeBytes::new(|byte| safe[usize::from(byte)])
}

/// Whether a state reads at least [`permissive_bytes`](Tuning::permissive_bytes) bytes of ASCII.
fn reads_many(dfa: &Dfa, state: StateId, tuning: &Tuning) -> bool {
    let goes_on = (0..128u8).filter(|byte| dfa.step(state, *byte).is_some());
    goes_on.count() >= tuning.permissive_bytes
}
