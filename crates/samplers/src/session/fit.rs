//! Whether some output has so few tokens as the task allows.

use std::collections::HashSet;

use unskew_core::{Constraint, TokenMask};

use super::Session;

/// The most tokens that one search reads: a second or so.
const STEPS: usize = 1 << 20;

impl<C: Constraint> Session<C> {
    /// Whether it is certain that every output has more tokens than the task allows: `[a-z ]{900}` within 20. The
    /// states of the constraint are searched by their keys, breadth first, so that each is met with the fewest tokens.
    pub(crate) fn has_no_short_output(&mut self) -> bool {
        self.searched_in_vain().unwrap_or(false)
    }

    /// `None`: the states have no keys, one is beyond a limit, or the search takes too long or is cancelled.
    fn searched_in_vain(&mut self) -> Option<bool> {
        let (constraint, scratch) = (&self.task.constraint, &mut self.scratch);
        let mut mask = TokenMask::new(constraint.vocab_len());
        let mut level = vec![constraint.start()];
        let mut seen: HashSet<u64> = HashSet::new();
        let mut left = STEPS;
        for len in 0..=self.task.max_tokens {
            if level.iter().any(|state| constraint.is_accepting(state)) {
                return Some(false);
            }
            if len == self.task.max_tokens {
                break;
            }
            let mut next = Vec::new();
            for state in level {
                if self.task.cancel.is_cancelled() {
                    return None;
                }
                constraint.fill_mask(scratch, &state, mask.as_mut());
                if constraint.beyond(scratch, &state).is_some() {
                    return None;
                }
                for token in mask.ids() {
                    left = left.checked_sub(1)?;
                    let mut after = state.clone();
                    constraint.advance(scratch, &mut after, token).ok()?;
                    if seen.insert(constraint.state_key(scratch, &after)?) {
                        next.push(after);
                    }
                }
            }
            level = next;
        }
        Some(true)
    }
}
