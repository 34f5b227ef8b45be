//! Counts the texts that a terminal has left, by state.
//!
//! A scope may use each text of a distinct terminal once, so it must not run out of texts. Counting them once
//! per automaton answers that for every state.

use unskew_automata::{Dfa, StateId};

use super::difference::Difference;
use crate::terminal::COUNTS;

/// The number of texts of a terminal, by state.
#[derive(Debug)]
pub struct Remaining {
    /// By state of the automaton: the number of texts that lead from it to acceptance, including the empty
    /// one; [`MANY`] stands for at least as many.
    counts: Box<[u32]>,
    /// Whether a state that has a successor has fewer than [`MANY`] texts.
    pub is_scarce: bool,
}

/// A number of texts that a scope never uses up.
pub const MANY: u32 = u32::MAX;

impl Remaining {
    /// In bytes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + COUNTS + size_of_val(&self.counts[..])
    }

    /// Counts the texts of `dfa`. O(n) for n states and edges.
    pub fn new(dfa: &Dfa) -> Self {
        // The automaton is trimmed, so a state that comes to a circle has infinitely many texts.
        let (mut counts, mut is_scarce) = (vec![MANY; dfa.len()], false);
        for state in dfa.finite_states() {
            let (mut count, mut goes_on) = (u32::from(dfa.is_accepting(state)), false);
            for edge in dfa.edges(state) {
                let bytes = u32::try_from(edge.bytes.count()).expect("at most 256");
                count = count.saturating_add(bytes.saturating_mul(counts[edge.target.index()]));
                goes_on = true;
            }
            counts[state.index()] = count;
            is_scarce |= count < MANY && goes_on;
        }
        Self { counts: counts.into(), is_scarce }
    }

    /// The number of texts that lead from a state of the automaton to acceptance.
    #[inline]
    pub fn of(&self, state: StateId) -> u32 {
        self.counts[state.index()]
    }
}

/// Whether a language is suitable for a distinct terminal: a scope that uses at most `most` texts does not
/// run out of them, and the empty text is not one. `all` is the number of texts of the base language.
pub(crate) fn has_enough(difference: &Difference, all: u32, most: Option<u32>) -> bool {
    let texts = match all {
        MANY => MANY,
        // The excluded texts are texts of the base language.
        all => all.saturating_sub(u32::try_from(difference.texts().len()).unwrap_or(MANY)),
    };
    texts >= most.unwrap_or(MANY) && !difference.accepts(b"")
}

#[cfg(test)]
mod tests {
    use unskew_automata::Limits;

    use super::*;

    #[test]
    fn texts_are_counted_as_they_are_enumerated() {
        for (pattern, start, is_scarce) in [
            ("a|bc|bd", 3, true),
            ("[ab]{3}", 8, true),
            ("a*", MANY, false),
            ("a|b[ab]*c", MANY, false),
            ("ab|ac|b[ab]*", MANY, true),
            ("[a-z]{7}", MANY, true),
            ("a", 1, true),
        ] {
            let dfa = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            let remaining = Remaining::new(&dfa);
            assert_eq!(remaining.of(dfa.start()), start, "{pattern}");
            assert_eq!(remaining.is_scarce, is_scarce, "{pattern}");
        }
    }
}
