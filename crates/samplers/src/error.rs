//! The errors of samplers.

use unskew_core::{RowError, TokenId};

/// The reasons why nothing could be drawn. `E` is the model's own error.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError<E> {
    /// The model failed.
    #[error(transparent)]
    Model(E),
    /// A row of logits holds a NaN, or minus infinity alone.
    #[error(
        "the model's logits after {tokens} tokens of output are not a distribution: they hold NaN or no finite value"
    )]
    NotADistribution {
        /// The number of tokens of the output before that row.
        tokens: usize,
    },
    /// A row of logits outside host memory gave no answer.
    #[error("{why}")]
    Row {
        /// The error of the row, in words.
        why: String,
    },
    /// The constraint rejects a token that its mask allows. Its data are damaged, or it breaks its contract.
    #[error(
        "the constraint rejects token {token}, which its mask allows: the file of a set is damaged (`unskew set info` verifies it), or \
         the constraint breaks its contract (`unskew_core::conformance::check_constraint`)"
    )]
    Inconsistent {
        /// The token.
        token: TokenId,
    },
    /// The constraint does not accept an output that was drawn as a whole one. The sampler's data are damaged, or the
    /// constraint breaks its contract.
    #[error(
        "the constraint does not accept the end after {tokens} tokens of output, where it was drawn: the file of saved prefixes is \
         damaged (draw anew without it), or the constraint breaks its contract (`unskew_core::conformance::check_constraint`)"
    )]
    Unfinished {
        /// The number of tokens of the output.
        tokens: usize,
    },
    /// A walk was asked for a position whose tokens before it were not all its own.
    #[error("position {position} of an output is asked for, and its walk has told the first {told} tokens")]
    Gap {
        /// The position.
        position: usize,
        /// The tokens that the walk has told.
        told: usize,
    },
    /// What is known about the model was forgotten while an output was under way: it is of no one model.
    #[error("the model was replaced while the output was under way")]
    Replaced,
    /// The drafter failed.
    #[error("no draft: {why}")]
    Draft {
        /// The drafter's own error, in words.
        why: String,
    },
    /// The caller has cancelled the drawing by the task's [`Cancel`](crate::Cancel). Outputs drawn before are not
    /// lost: `draw_many` has handed them over.
    #[error("cancelled")]
    Cancelled,
    /// The model gives probability zero to all tokens that the constraint allows at a prefix.
    #[error(
        "the model gives probability zero to all that the constraint allows after the output tokens {tokens:?}"
    )]
    DeadEnd {
        /// The tokens of that prefix.
        tokens: Vec<TokenId>,
    },
    /// The constraint is beyond a limit of its own and allows nothing, though outputs may go on here.
    #[error(
        "after {tokens} tokens of output the constraint is beyond its limit `{limit}` and allows nothing; raise that limit, \
         or allow fewer tokens"
    )]
    Beyond {
        /// The limit, by its name.
        limit: &'static str,
        /// The number of tokens of the output.
        tokens: usize,
    },
    /// The model gives probability zero to every accepted output within the length limit.
    #[error(
        "the model gives probability zero to every accepted output of at most {max_tokens} tokens; \
         allow more tokens, or less strict outputs"
    )]
    Impossible {
        /// The task's limit, in tokens.
        max_tokens: usize,
    },
    /// The constraint has no output within the length limit.
    #[error("every output of the constraint has more than {max_tokens} tokens; allow more tokens")]
    TooLong {
        /// The task's limit, in tokens.
        max_tokens: usize,
    },
    /// A count exceeds the limit on memory. Nothing was drawn.
    #[error("{count} {what} are asked for at once; the limit is {limit}")]
    TooMany {
        /// The name of the things that are counted.
        what: &'static str,
        /// The count that was asked for.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// No try was accepted.
    #[error(
        "no output in {tries} tries: the model rarely or never satisfies the constraint within {max_tokens} tokens; \
         allow more tokens or more tries, or use a sampler that does not reject"
    )]
    NoOutput {
        /// The number of tries.
        tries: u64,
        /// The task's limit, in tokens.
        max_tokens: usize,
    },
}

impl SampleError<std::convert::Infallible> {
    /// The same error of a sampler over a model.
    pub fn widen<E>(self) -> SampleError<E> {
        match self {
            Self::Model(never) => match never {},
            Self::NotADistribution { tokens } => SampleError::NotADistribution { tokens },
            Self::Row { why } => SampleError::Row { why },
            Self::Inconsistent { token } => SampleError::Inconsistent { token },
            Self::Unfinished { tokens } => SampleError::Unfinished { tokens },
            Self::Gap { position, told } => SampleError::Gap { position, told },
            Self::Replaced => SampleError::Replaced,
            Self::Draft { why } => SampleError::Draft { why },
            Self::Cancelled => SampleError::Cancelled,
            Self::DeadEnd { tokens } => SampleError::DeadEnd { tokens },
            Self::Beyond { limit, tokens } => SampleError::Beyond { limit, tokens },
            Self::Impossible { max_tokens } => SampleError::Impossible { max_tokens },
            Self::TooLong { max_tokens } => SampleError::TooLong { max_tokens },
            Self::TooMany { what, count, limit } => SampleError::TooMany { what, count, limit },
            Self::NoOutput { tries, max_tokens } => SampleError::NoOutput { tries, max_tokens },
        }
    }
}

impl<E> From<RowError> for SampleError<E> {
    fn from(error: RowError) -> Self {
        Self::Row { why: error.to_string() }
    }
}
