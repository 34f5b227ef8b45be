//! Why a sampler has no output.

use unskew_core::TokenId;

/// Why nothing could be drawn; `E` is the model's own error.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError<E> {
    /// The model failed.
    #[error(transparent)]
    Model(E),
    /// A row of logits holds a NaN, or nothing but minus infinity.
    #[error(
        "the model's logits after {tokens} tokens of output are not a distribution: they hold NaN or no finite value"
    )]
    NotADistribution {
        /// The number of tokens of the output before that row.
        tokens: usize,
    },
    /// The drafter failed.
    #[error("no draft: {why}")]
    Draft {
        /// The drafter's own error, in words.
        why: String,
    },
    /// The task's [`Cancel`](crate::Cancel) asked for the end. What was drawn before is not lost: `draw_many` has handed it
    /// over.
    #[error("cancelled")]
    Cancelled,
    /// The model gives probability zero to everything that the constraint allows.
    #[error(
        "the model gives probability zero to all that the constraint allows after the output tokens {tokens:?}"
    )]
    DeadEnd {
        /// The tokens of the output.
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
    /// The model cannot write any output that is asked for.
    #[error(
        "the model gives probability zero to every accepted output of at most {max_tokens} tokens; \
         allow more tokens, or less strict outputs"
    )]
    Impossible {
        /// The task's limit, in tokens.
        max_tokens: usize,
    },
    /// More is asked for at once than memory is meant for. Nothing was drawn.
    #[error("{count} {what} are asked for at once; the limit is {limit}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many are asked for.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// No proposal was accepted.
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
            Self::Draft { why } => SampleError::Draft { why },
            Self::Cancelled => SampleError::Cancelled,
            Self::DeadEnd { tokens } => SampleError::DeadEnd { tokens },
            Self::Beyond { limit, tokens } => SampleError::Beyond { limit, tokens },
            Self::Impossible { max_tokens } => SampleError::Impossible { max_tokens },
            Self::TooMany { what, count, limit } => SampleError::TooMany { what, count, limit },
            Self::NoOutput { tries, max_tokens } => SampleError::NoOutput { tries, max_tokens },
        }
    }
}
