//! The states that a walk has met, with the facts that were found out about each.

use super::uniform::UniformStep;
use crate::automaton::{DEAD, UNKNOWN};

/// The facts that are known of a state.
pub(super) struct Known {
    /// The index of the state's row of targets.
    pub(super) row: Option<u32>,
    /// The state to which all characters beyond ASCII lead, or [`UNKNOWN`].
    pub(super) non_ascii: u32,
    pub(super) step: Option<UniformStep>,
}

/// All states that a walk has met, and a hash table of them: one multiplication, open addressing. The map of the
/// standard library takes longer than the facts.
#[derive(Default)]
pub(super) struct States {
    known: Vec<Known>,
    /// Pairs of a state and its index in `known`, with [`DEAD`] in empty slots.
    slots: Vec<(u32, u32)>,
}

impl States {
    /// The index of `state`, which is added if it is new.
    pub(super) fn place(&mut self, state: u32) -> usize {
        if self.known.len() * 2 >= self.slots.len() {
            let len = (self.slots.len() * 2).max(32);
            let old = std::mem::replace(&mut self.slots, vec![(DEAD, 0); len]);
            for pair in old.into_iter().filter(|pair| pair.0 != DEAD) {
                let slot = self.slot(pair.0);
                self.slots[slot] = pair;
            }
        }
        let slot = self.slot(state);
        if self.slots[slot].0 == DEAD {
            self.slots[slot] = (state, self.known.len() as u32);
            self.known.push(Known { row: None, non_ascii: UNKNOWN, step: None });
        }
        self.slots[slot].1 as usize
    }

    /// The slot of `state` in the hash table, or the empty slot for it.
    fn slot(&self, state: u32) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = (state.wrapping_mul(0x9e37_79b9) >> 7) as usize & last;
        while self.slots[slot].0 != state && self.slots[slot].0 != DEAD {
            slot = (slot + 1) & last;
        }
        slot
    }
}

impl std::ops::Index<usize> for States {
    type Output = Known;

    #[inline]
    fn index(&self, place: usize) -> &Known {
        &self.known[place]
    }
}

impl std::ops::IndexMut<usize> for States {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Known {
        &mut self.known[place]
    }
}
