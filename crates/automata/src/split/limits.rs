//! The bounds on the cost of the split patterns of a tokenizer.
//!
//! A tokenizer file comes from outside, so every stage stops at a limit and names it. Work is counted in steps and not
//! in seconds: a file must not load on one machine and fail on another.

use std::hash::Hash;

use crate::dfa::explore::Numbered;

/// Bounds on the construction of the automaton of split patterns. The defaults keep it below about 2 seconds and 512
/// MiB. The patterns in use take 0.1 to 0.4 million steps, 2 to 7 ms.
///
/// [`TokenizerAutomaton::with_limits`](crate::TokenizerAutomaton::with_limits) takes them. The struct may get further
/// fields, so another crate sets fields of the default:
///
/// ```
/// use unskew_automata::{canonical::{MergeOrder, SplitLimits}, TokenizerAutomaton};
/// use unskew_core::{SplitBehavior, SplitPattern, Tokenization, Vocabulary};
///
/// let mut builder = Vocabulary::builder();
/// builder.text(b"a");
/// let mut tokenization = Tokenization::default();
/// let (pattern, behavior) = ("a{1,40}".to_owned(), SplitBehavior::Isolated);
/// tokenization.splits.push(SplitPattern::Regex { pattern, behavior, invert: false });
///
/// let mut limits = SplitLimits::default();
/// limits.states = 10;
/// let (vocabulary, order) = (builder.build()?, MergeOrder::LowestRank);
/// let error = TokenizerAutomaton::with_limits(&vocabulary, &tokenization, order, &limits).unwrap_err();
/// assert!(error.to_string().contains("more than 10 states (SplitLimits::states)"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SplitLimits {
    /// The length of each pattern, in bytes. Default: 64 KiB.
    pub pattern_bytes: usize,
    /// The depth to which groups may nest. Default: 100. Values above [`MAX_NEST`](Self::MAX_NEST) count as
    /// `MAX_NEST`.
    pub nest: usize,
    /// Distinct sets of characters in all patterns together: classes, escapes, letters. Default: 500.
    pub sets: usize,
    /// States of the NFA of one pattern, with its repetitions written out. Default: 50,000.
    pub nfa_states: usize,
    /// States of each intermediate automaton. Default: 2^16.
    pub states: usize,
    /// Elementary steps of all constructions together. Default: 100 million.
    pub steps: u64,
}

impl SplitLimits {
    /// The largest effective value of [`nest`](Self::nest). At this depth the recursion fits in any thread's stack.
    pub const MAX_NEST: usize = 250;
}

impl Default for SplitLimits {
    fn default() -> Self {
        Self {
            pattern_bytes: 64 << 10,
            nest: 100,
            sets: 500,
            nfa_states: 50_000,
            states: 1 << 16,
            steps: 100_000_000,
        }
    }
}

/// A counter of steps under the limits.
pub(super) struct Budget<'a> {
    pub(super) limits: &'a SplitLimits,
    spent: u64,
}

impl<'a> Budget<'a> {
    pub(super) fn new(limits: &'a SplitLimits) -> Self {
        Self { limits, spent: 0 }
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), super::SplitError> {
        self.spent += steps as u64;
        if self.spent > self.limits.steps {
            return Err(super::SplitError::TooCostly { limit: self.limits.steps });
        }
        Ok(())
    }

    /// An error if `states` exceeds the limit.
    pub(super) fn states(&self, states: usize) -> Result<(), super::SplitError> {
        if states > self.limits.states {
            return Err(super::SplitError::TooManyStates { limit: self.limits.states });
        }
        Ok(())
    }

    /// The number of `state`, which is added to those that were found if it is new.
    pub(super) fn number<T: Eq + Hash>(
        &self,
        found: &mut Numbered<T>,
        state: T,
    ) -> Result<u32, super::SplitError> {
        let (number, is_new) = found.insert_full(state);
        if is_new {
            self.states(found.len())?;
        }
        Ok(u32::try_from(number).expect("the limit is below 2^32"))
    }
}
