//! Uniform steps: the state to which most symbols lead from a state, and over how many steps that goes on in the same
//! way.
//!
//! In the text of a string nearly every symbol leads to one state. Small letters are asked for first, since nearly
//! all tokens hold some: without one state for all of them there is no uniform step.

use super::{Sink, Walk};
use crate::{
    automaton::{ByteAutomaton, MIXED, UNKNOWN},
    symbols::{DIGIT, LOWER, UPPER},
};

/// The state to which most symbols lead from a state.
#[derive(Clone, Copy)]
pub(super) struct UniformStep {
    /// The state to which small letters lead.
    pub(super) next: u32,
    /// The symbols of ASCII that lead there too, one bit each.
    pub(super) ascii: u128,
    /// Whether all symbols beyond ASCII lead there; known only where `run` is known.
    pub(super) non_ascii: bool,
    /// The least number of steps from state to state in which these symbols lead on; tokens that end in these states
    /// are all allowed and of one kind. 0 if the number is not known, [`ENDLESS`] if the steps never end.
    pub(super) run: u8,
    /// The kind of the tokens that end in the states of the run.
    pub(super) kind: u8,
}

/// The length of a run of steps that never ends.
pub(super) const ENDLESS: u8 = u8::MAX;

impl<A: ByteAutomaton, S: Sink> Walk<'_, A, S> {
    /// The state to which small letters lead from `state`, with the other symbols that lead there. `None` if small
    /// letters do not all lead to one state.
    pub(super) fn uniform_step(&mut self, state: u32) -> Option<UniformStep> {
        let next = LOWER.ascii_target(self.automaton, &self.runs, state);
        if next >= MIXED {
            return None;
        }
        let place = self.states.place(state);
        if let Some(step) = self.states[place].step {
            return Some(step);
        }
        if self.classes.is_empty() {
            for byte in (0..0x80u8).filter(|byte| !byte.is_ascii_alphanumeric()) {
                let class = self.automaton.class(byte);
                let known = self.classes.iter_mut().find(|(other, _)| self.automaton.class(*other) == class);
                match known {
                    Some((_, bytes)) => *bytes |= 1 << byte,
                    None => self.classes.push((byte, 1 << byte)),
                }
            }
        }
        let mut ascii = 1 << LOWER.0;
        for symbol in [UPPER, DIGIT] {
            if symbol.ascii_target(self.automaton, &self.runs, state) == next {
                ascii |= 1 << symbol.0;
            }
        }
        for (byte, bytes) in &self.classes {
            if self.automaton.step(state, *byte) == next {
                ascii |= bytes;
            }
        }
        let step = UniformStep { next, ascii, non_ascii: false, run: 0, kind: 0 };
        self.states[place].step = Some(step);
        Some(step)
    }

    /// The uniform step of `state`, which has one, with the length of its run.
    pub(super) fn uniform_run(&mut self, state: u32) -> UniformStep {
        let most = self.quotients.tuning.run_states;
        let mut path: Vec<(usize, UniformStep)> = Vec::new();
        let mut at = state;
        let mut after = loop {
            let Some(mut step) = self.uniform_step(at) else { break None };
            if step.run > 0 || path.len() == most {
                break (step.run > 0).then_some(step);
            }
            let Some(kind) = self.automaton.verdict(step.next).kind() else { break None };
            (step.kind, step.non_ascii) = (kind, self.non_ascii_target(at) == step.next);
            let place = self.states.place(at);
            if step.next == at {
                step.run = ENDLESS;
                self.states[place].step = Some(step);
                break Some(step);
            }
            path.push((place, step));
            at = step.next;
        };
        for (place, mut step) in path.into_iter().rev() {
            let goes_on = |after: &UniformStep| {
                after.kind == step.kind
                    && step.ascii & !after.ascii == 0
                    && (after.non_ascii || !step.non_ascii)
            };
            step.run = match after.filter(goes_on).map(|after| after.run) {
                Some(ENDLESS) => ENDLESS,
                Some(run) => (run + 1).min(ENDLESS - 1),
                None => 1,
            };
            self.states[place].step = Some(step);
            after = Some(step);
        }
        after.unwrap_or(UniformStep { next: UNKNOWN, ascii: 0, non_ascii: false, run: 0, kind: 0 })
    }
}
