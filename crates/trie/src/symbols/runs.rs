//! Runs of neighbouring bytes that an automaton does not distinguish. One step answers for a whole run.

use crate::automaton::{ByteAutomaton, DEAD, MIXED};

/// The trailing bytes of UTF-8.
pub(super) const TRAILING: u8 = 0x80;
pub(super) const LAST_TRAILING: u8 = 0xbf;

/// Runs of bytes that the automaton does not distinguish, and the known results for the runs of trailing bytes.
pub(crate) struct Runs {
    /// For each byte: the last byte of its run of neighbours of the same class.
    pub(super) last: [u8; 256],
    /// States, each with the state to which all trailing bytes lead from it. States inside a character are few, every
    /// symbol asks for them again, and in a pattern like `\w` a run is hardly longer than two bytes.
    trailing: [(u32, u32); KNOWN],
}

/// The number of states whose trailing bytes are remembered.
const KNOWN: usize = 32;

impl Runs {
    pub(crate) fn new<A: ByteAutomaton>(automaton: &A) -> Self {
        let mut last = [255; 256];
        for byte in (0..255u8).rev() {
            let same = automaton.class(byte) == automaton.class(byte + 1);
            last[usize::from(byte)] = if same { last[usize::from(byte) + 1] } else { byte };
        }
        Self { last, trailing: [(DEAD, DEAD); KNOWN] }
    }

    /// The state to which all trailing bytes lead, or [`MIXED`].
    #[inline]
    pub(super) fn any_trailing<A: ByteAutomaton>(&mut self, automaton: &mut A, state: u32) -> u32 {
        let place = state as usize % KNOWN;
        if self.trailing[place].0 != state {
            self.trailing[place] = (state, self.target(automaton, state, TRAILING, LAST_TRAILING));
        }
        self.trailing[place].1
    }

    /// The state to which the bytes `first..=last` lead, or [`MIXED`].
    #[inline]
    pub(super) fn target<A: ByteAutomaton>(&self, automaton: &mut A, state: u32, first: u8, last: u8) -> u32 {
        let target = automaton.step(state, first);
        let mut at = self.last[usize::from(first)];
        while at < last {
            if automaton.step(state, at + 1) != target {
                return MIXED;
            }
            at = self.last[usize::from(at) + 1];
        }
        target
    }

    pub(super) fn target_of_bits<A: ByteAutomaton>(
        &self,
        automaton: &mut A,
        state: u32,
        mut bits: u64,
    ) -> u32 {
        let mut target = None;
        while bits != 0 {
            let byte = 0x80 + bits.trailing_zeros() as u8;
            let next = automaton.step(state, byte);
            if *target.get_or_insert(next) != next {
                return MIXED;
            }
            // All bytes of the run of `byte` are known now.
            let run = u32::from(self.last[usize::from(byte)].min(0xbf)) - 0x80;
            bits = if run == 63 { 0 } else { bits & (u64::MAX << (run + 1)) };
        }
        target.unwrap_or(DEAD)
    }
}
