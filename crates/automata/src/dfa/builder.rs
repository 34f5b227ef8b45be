//! An automaton given edge by edge, for languages that have a rule and no pattern: numbers that are multiples of
//! seven, or the spellings of a text with escapes.
//!
//! The caller numbers the states; the result is minimal and in canonical form, as every [`Dfa`] is.

use std::ops::RangeInclusive;

use super::{
    numbering::{self, GivenEdge},
    table::DEAD,
};
use crate::{Dfa, Limits, RegexError};

/// The memory of a state or an edge while it is collected, in bytes.
const EDGE_BYTES: usize = 12;

/// The states and edges of a future [`Dfa`]. The first state is the start.
///
/// # Example
///
/// Binary numbers that are multiples of three: the state is the remainder.
///
/// ```
/// use unskew_automata::{dfa::DfaBuilder, Limits};
///
/// let mut edges = DfaBuilder::new(&Limits::default());
/// for remainder in 0..3 {
///     edges.state(remainder == 0)?;
/// }
/// for remainder in 0..3u32 {
///     edges.edge(remainder, b'0'..=b'0', remainder * 2 % 3);
///     edges.edge(remainder, b'1'..=b'1', (remainder * 2 + 1) % 3);
/// }
/// let dfa = edges.build()?;
/// assert!(dfa.accepts(b"110") && !dfa.accepts(b"111"));
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DfaBuilder {
    limits: Limits,
    pub(super) accepting: Vec<bool>,
    pub(super) edges: Vec<GivenEdge>,
}

impl DfaBuilder {
    /// A builder without states. It applies the limits [`dfa_states`](Limits::dfa_states),
    /// [`dfa_bytes`](Limits::dfa_bytes) and [`cancel`](Limits::cancel).
    pub fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), accepting: vec![], edges: vec![] }
    }

    /// Adds a state and returns its number. The numbers ascend from zero.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: a limit.
    pub fn state(&mut self, accepting: bool) -> Result<u32, RegexError> {
        /// The cost of a state with its edges.
        const STATE_STEPS: u64 = 50;
        self.limits.spend(STATE_STEPS)?;
        let limit = self.limits.dfa_states.min(DEAD as usize - 1);
        let bytes = (self.accepting.len() + self.edges.len()) * EDGE_BYTES;
        if bytes > self.limits.dfa_bytes {
            return Err(RegexError::DfaTooLarge { bytes, limit: self.limits.dfa_bytes });
        }
        let id = u32::try_from(self.accepting.len()).unwrap_or(DEAD);
        if id as usize >= limit {
            return Err(RegexError::TooManyDfaStates { limit });
        }
        self.accepting.push(accepting);
        Ok(id)
    }

    /// The number of states so far.
    pub fn states(&self) -> usize {
        self.accepting.len()
    }

    /// Adds an edge over each of `bytes`. A later edge over the same byte replaces an earlier one.
    pub fn edge(&mut self, from: u32, bytes: RangeInclusive<u8>, to: u32) {
        self.edges.push((from, bytes, to));
    }

    /// The automaton.
    ///
    /// Cost: O(n k log n) for n states and k classes of bytes.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: [`MatchesNothing`](RegexError::MatchesNothing) if no accepting state is reachable, or a limit.
    ///
    /// # Panics
    ///
    /// If an edge names a state that was not added.
    pub fn build(self) -> Result<Dfa, RegexError> {
        let made = numbering::canonical(&self.accepting, &self.edges, &self.limits)?;
        made.and_then(|(table, _)| Dfa::from_table(table)).ok_or(RegexError::MatchesNothing)
    }

    /// As [`build`](Self::build), for reachable states with pairwise different languages: it skips the minimisation,
    /// which is half of the work. If two states have the same language, the automaton accepts the right texts, but it
    /// may differ (`!=`) from other automata of the same language.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// As [`build`](Self::build); and in debug builds if two states have the same language.
    pub fn build_distinct(self) -> Result<Dfa, RegexError> {
        let made = numbering::canonical(&self.accepting, &self.edges, &self.limits)?;
        // States that differ by a state without a text alone are equal.
        let made = made.and_then(|(table, is_whole)| match is_whole {
            true => Some(Dfa::from_canonical(table)),
            false => Dfa::from_table(table),
        });
        made.ok_or(RegexError::MatchesNothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automaton_is_that_of_a_pattern() {
        let mut edges = DfaBuilder::new(&Limits::default());
        for accepting in [false, true, false, true] {
            edges.state(accepting).unwrap();
        }
        edges.edge(0, b'a'..=b'z', 1);
        edges.edge(0, b'q'..=b'q', 2);
        edges.edge(1, 0x80..=0xff, 1);
        edges.edge(3, b'x'..=b'x', 3);
        let dfa = edges.build().unwrap();
        assert_eq!(dfa.len(), 2);
        assert!(dfa.accepts(b"a\xff\x80"));
        assert!(!dfa.accepts(b"q"));
        assert!(!dfa.accepts(b"ax"));
    }

    #[test]
    fn nothing_and_limits_are_errors() {
        assert_eq!(DfaBuilder::new(&Limits::default()).build(), Err(RegexError::MatchesNothing));
        let mut edges = DfaBuilder::new(&Limits { dfa_states: 1, ..Limits::default() });
        edges.state(false).unwrap();
        assert_eq!(edges.state(true), Err(RegexError::TooManyDfaStates { limit: 1 }));
        assert_eq!(edges.build(), Err(RegexError::MatchesNothing));
    }
}
