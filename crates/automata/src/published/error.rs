//! The errors of the automata of published papers, and the bounds on their cost.
//!
//! They are apart from [`RegexError`](crate::RegexError) and [`Limits`](crate::Limits): who compiles patterns never
//! meets them.

use unskew_core::{Cancel, TokenId};

use crate::CanonicalError;

/// The reason for which an automaton or a constraint of a published method is not built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishedError {
    /// The automaton of all spellings is too large.
    #[error(
        "the automaton of all spellings has more than {limit} transitions (PublishedLimits::lift_transitions), {states} \
         states into it: use a RegexConstraint, which computes them as they are needed, or raise the limit"
    )]
    #[non_exhaustive]
    LiftTooLarge {
        /// The limit, in transitions of token classes.
        limit: usize,
        /// How many states had their transitions by then.
        states: usize,
    },
    /// Building the automaton of all spellings takes too long.
    #[error(
        "making the automaton of all spellings takes more than {limit} steps (PublishedLimits::lift_steps), {states} \
         states into it: use a RegexConstraint, which computes transitions as they are needed, or raise the limit"
    )]
    #[non_exhaustive]
    LiftTooCostly {
        /// The limit.
        limit: u64,
        /// How many states had their transitions by then.
        states: usize,
    },
    /// The automaton of DirectMerge has too many states.
    #[error(
        "merging makes more than {limit} states (PublishedLimits::merge_states) at the merge of rank {rank}: make the \
         pattern smaller, or raise the limit"
    )]
    #[non_exhaustive]
    TooManyMergedStates {
        /// The limit, which the next state would have exceeded.
        limit: usize,
        /// The rank of the merge; the number of merges if the limit was exceeded after the last.
        rank: usize,
    },
    /// The automaton of DirectMerge has too many edges.
    #[error(
        "merging makes more than {limit} edges (PublishedLimits::merge_edges) at the merge of rank {rank}: use smaller \
         character classes, or raise the limit"
    )]
    #[non_exhaustive]
    TooManyMergedEdges {
        /// The limit, which the next edge would have exceeded.
        limit: usize,
        /// The rank of the merge; the number of merges if the limit was exceeded after the last.
        rank: usize,
    },
    /// DirectMerge takes too long.
    #[error(
        "merging takes more than {limit} steps (PublishedLimits::merge_steps), passed at the merge of rank {rank}: make \
         the pattern smaller, or raise the limit"
    )]
    #[non_exhaustive]
    MergeTooCostly {
        /// The limit.
        limit: u64,
        /// The rank of the merge; the number of merges if the limit was exceeded after the last.
        rank: usize,
    },
    /// A merge or a symbol names a token that the vocabulary does not have.
    #[error(
        "token {token} is not in the vocabulary, which has {vocab_len} ids: take symbols and merges from the same \
         tokenizer as the vocabulary"
    )]
    #[non_exhaustive]
    ForeignToken {
        /// The token.
        token: TokenId,
        /// The number of ids of the vocabulary.
        vocab_len: usize,
    },
    /// No sequence of symbols spells a match.
    #[error(
        "the vocabulary cannot spell any match: no sequence of its symbols is accepted, and {} of the bytes that \
         matches use have no token of their own", missing.len()
    )]
    #[non_exhaustive]
    Unspellable {
        /// The bytes that occur in matches and have no token of their own, in ascending order.
        missing: Vec<u8>,
    },
    /// The library of a [`VegasConstraint`](super::VegasConstraint) was built for another tokenizer or vocabulary.
    #[error("the library is of another tokenizer or vocabulary: build one for this tokenizer")]
    LibraryMismatch,
    /// The constraint is refused as a [`CanonicalConstraint`](crate::CanonicalConstraint) is.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// The [`Cancel`] flag of the limits was set.
    #[error("the work was cancelled")]
    Cancelled,
}

/// Bounds on the cost of a [`LiftedDfa`](super::LiftedDfa) and a [`MergedDfa`](super::MergedDfa).
///
/// The struct may get further fields, so another crate changes the default, field by field or with the method of the
/// field's name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PublishedLimits {
    /// Transitions that a [`LiftedDfa`](super::LiftedDfa) stores: one for each state and class of tokens. Default:
    /// 2^23, which take 64 MiB.
    pub lift_transitions: usize,
    /// Steps through token classes for a [`LiftedDfa`](super::LiftedDfa): one for each prefix of a class and state.
    /// Default: 400 million.
    pub lift_steps: u64,
    /// States of a [`MergedDfa`](super::MergedDfa) while it is built; minimising may leave fewer. Default: 2^18.
    pub merge_states: usize,
    /// Edges of a [`MergedDfa`](super::MergedDfa) while it is built; minimising may leave fewer. Default: 2^20 (about
    /// 100 MiB while it is built).
    pub merge_edges: usize,
    /// Steps of DirectMerge: one for every edge that a merge adds or removes, and for every state that it visits.
    /// Default: 10 million.
    pub merge_steps: u64,
    /// Ends the work from another thread: it then fails with [`PublishedError::Cancelled`]. Clones of the limits share
    /// it.
    pub cancel: Cancel,
}

crate::limits::setters! {
    PublishedLimits {
        lift_transitions: usize,
        lift_steps: u64,
        merge_states: usize,
        merge_edges: usize,
        merge_steps: u64,
        cancel: Cancel,
    }
}

impl PublishedLimits {
    /// [`PublishedError::Cancelled`] if the flag is set.
    pub(crate) fn check_cancelled(&self) -> Result<(), PublishedError> {
        if self.cancel.is_cancelled() { Err(PublishedError::Cancelled) } else { Ok(()) }
    }
}

impl Default for PublishedLimits {
    fn default() -> Self {
        Self {
            lift_transitions: 1 << 23,
            lift_steps: 400_000_000,
            merge_states: 1 << 18,
            merge_edges: 1 << 20,
            merge_steps: 10_000_000,
            cancel: Cancel::default(),
        }
    }
}
