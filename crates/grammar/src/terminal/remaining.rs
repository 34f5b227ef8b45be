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
        // With the number of their bytes, and by target: the automaton is read once.
        let mut edges: Vec<(StateId, StateId, u32)> = Vec::with_capacity(dfa.len());
        let mut left = vec![0u32; dfa.len()];
        let mut begins = vec![0; dfa.len() + 1];
        for state in dfa.states() {
            for edge in dfa.edges(state) {
                let bytes = u32::try_from(edge.bytes.count()).expect("at most 256");
                edges.push((state, edge.target, bytes));
                left[state.index()] += 1;
                begins[edge.target.index() + 1] += 1;
            }
        }
        let goes_on: Vec<bool> = left.iter().map(|left| *left > 0).collect();
        (0..dfa.len()).for_each(|state| begins[state + 1] += begins[state]);
        let (mut entering, mut at) = (vec![(StateId::from_index(0), 0); edges.len()], begins.clone());
        for (source, target, bytes) in edges {
            entering[at[target.index()]] = (source, bytes);
            at[target.index()] += 1;
        }
        // From the ends on: a state is counted after all that follow. The automaton is trimmed, so one that comes to a
        // circle has infinitely many texts.
        let ends = |state: StateId| u32::from(dfa.is_accepting(state));
        let mut counts: Vec<u32> = dfa.states().map(ends).collect();
        let mut counted: Vec<StateId> = dfa.states().filter(|state| left[state.index()] == 0).collect();
        while let Some(state) = counted.pop() {
            let here = counts[state.index()];
            for (source, bytes) in &entering[begins[state.index()]..begins[state.index() + 1]] {
                let source = source.index();
                counts[source] = counts[source].saturating_add(bytes.saturating_mul(here));
                left[source] -= 1;
                if left[source] == 0 {
                    counted.push(StateId::from_index(source));
                }
            }
        }
        left.iter().zip(&mut counts).filter(|(left, _)| **left > 0).for_each(|(_, count)| *count = MANY);
        let is_scarce = counts.iter().zip(goes_on).any(|(count, goes_on)| *count < MANY && goes_on);
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
