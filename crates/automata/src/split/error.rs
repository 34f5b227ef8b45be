//! Reasons for which the pre-tokenizer of a tokenizer does not become an automaton.
//!
//! A construct without an exact automaton is refused with its step, its place and its name. An approximation would
//! only show as wrong token sequences for rare texts, and nobody could find their cause.

use crate::Place;

/// The reason for which there is no automaton of the split patterns. Steps count from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The text of a pattern is too long. It was not read.
    #[error(
        "the pattern of split step {step} is {bytes} bytes long; the limit is {limit} (SplitLimits::pattern_bytes)"
    )]
    #[non_exhaustive]
    PatternTooLong {
        /// The step.
        step: usize,
        /// The length of the pattern, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Not a regex in the syntax of the library that splits with it.
    #[error("split step {step}: {message}, at {place}")]
    #[non_exhaustive]
    Syntax {
        /// The step.
        step: usize,
        /// The fault.
        message: String,
        /// Its place.
        place: Place,
    },
    /// A construct of a pattern that has no exact automaton here, or that regex engines read differently.
    #[error("split step {step}: {construct} is not supported, at {place}")]
    #[non_exhaustive]
    Unsupported {
        /// The step.
        step: usize,
        /// The construct.
        construct: &'static str,
        /// Its place.
        place: Place,
    },
    /// A step as a whole that has no exact automaton here.
    #[error("split step {step} is not supported: {reason}")]
    #[non_exhaustive]
    UnsupportedStep {
        /// The step.
        step: usize,
        /// The reason.
        reason: String,
    },
    /// A pattern matches the empty text somewhere. Libraries differ in the treatment of the text between two such
    /// matches.
    #[error("the pattern of split step {step} can match the empty text")]
    #[non_exhaustive]
    MatchesEmpty {
        /// The step.
        step: usize,
    },
    /// Groups are nested too deep.
    #[error("split step {step} nests groups deeper than {limit} levels (SplitLimits::nest), at {place}")]
    #[non_exhaustive]
    NestTooDeep {
        /// The step.
        step: usize,
        /// The limit.
        limit: usize,
        /// The place where the limit is exceeded.
        place: Place,
    },
    /// Too many different sets of characters.
    #[error("split step {step} brings the sets of characters beyond {limit} (SplitLimits::sets), at {place}")]
    #[non_exhaustive]
    TooManySets {
        /// The step.
        step: usize,
        /// The limit.
        limit: usize,
        /// The place where the limit is exceeded.
        place: Place,
    },
    /// The NFA of a pattern is too large.
    #[error("the NFA of split step {step} has more than {limit} states (SplitLimits::nfa_states)")]
    #[non_exhaustive]
    NfaTooLarge {
        /// The step.
        step: usize,
        /// The limit.
        limit: usize,
    },
    /// An automaton has too many states.
    #[error("the automaton of the split steps has more than {limit} states (SplitLimits::states)")]
    #[non_exhaustive]
    TooManyStates {
        /// The limit.
        limit: usize,
    },
    /// The construction takes too long.
    #[error("the automaton of the split steps takes more than {limit} steps to make (SplitLimits::steps)")]
    #[non_exhaustive]
    TooCostly {
        /// The limit.
        limit: u64,
    },
}

impl SplitError {
    /// The place in the pattern, for the variants that have one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. }
            | Self::Unsupported { place, .. }
            | Self::NestTooDeep { place, .. }
            | Self::TooManySets { place, .. } => Some(place),
            _ => None,
        }
    }
}
