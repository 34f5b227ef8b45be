//! Rows of next-token logits that answer questions, in host memory or elsewhere.
//!
//! A sampler asks a row few things: the mass of the tokens that a mask leaves, the probability that the sequence
//! ends, a token drawn by a random number. Samplers read a row in host memory. Reading back a row on a device costs
//! four bytes for each token of the vocabulary, and its answer costs a few numbers. So a model may hand over
//! any [`LogitRows`] in its [`Logits`].
//!
//! Tried instead: an associated type of [`LanguageModel`](crate::LanguageModel). Every wrapper of a model, every
//! sampler and every test then carries the type along, and a model whose type is erased cannot have one.

mod logits;
mod reference;

use std::fmt;

pub use logits::Logits;
pub use reference::answer;

use crate::{MaskRef, TokenId};

/// The tokens that a question is about.
#[derive(Clone, Copy, Debug)]
pub enum Among<'a> {
    /// All tokens of the row.
    All,
    /// The tokens of a mask, which may cover fewer or more ids than the row has.
    Mask(MaskRef<'a>),
    /// The tokens of a list, in ascending order.
    List(&'a [TokenId]),
}

impl Among<'_> {
    /// Whether the question is about `token`.
    pub fn contains(&self, token: TokenId) -> bool {
        match self {
            Self::All => true,
            Self::Mask(mask) => token.index() < mask.len() && mask.contains(token),
            Self::List(list) => list.binary_search(&token).is_ok(),
        }
    }
}

/// The outcome that a question asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pick {
    /// No outcome: masses alone.
    Nothing,
    /// The most probable outcome. Of equally probable outcomes the end of the sequence comes first, and then the
    /// lowest id.
    Best,
    /// An outcome in proportion to its probability, by a number in `[0, 1)`. The end takes the front of the interval.
    /// The tokens share the rest, in an order that the implementation chooses.
    Uniform(f64),
}

/// A question about one row: the masses of some outcomes, and one picked outcome.
#[derive(Clone, Copy, Debug)]
pub struct RowQuestion<'a> {
    /// The index of the row.
    pub row: usize,
    /// The tokens that may follow.
    pub among: Among<'a>,
    /// The excluded ones of these tokens, in ascending order.
    pub without: &'a [TokenId],
    /// The ids that end the sequence: one outcome together. Empty where the sequence may not end.
    pub ends: &'a [TokenId],
    /// The outcome that is picked.
    pub pick: Pick,
}

impl<'a> RowQuestion<'a> {
    /// The question for the mass of some tokens of a row.
    pub const fn mass(row: usize, among: Among<'a>) -> Self {
        Self { row, among, without: &[], ends: &[], pick: Pick::Nothing }
    }
}

/// An outcome that was picked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// The token; `None` for the end of the sequence.
    pub token: Option<TokenId>,
    /// The natural logarithm of its probability under the whole row.
    pub log_prob: f64,
}

/// The answer to a [`RowQuestion`]. Natural log-probabilities under the whole row: the set of allowed tokens does not
/// change them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowAnswer {
    /// The probability of the ids that end the sequence, together.
    pub log_end: f64,
    /// The probability of the tokens that may follow, together.
    pub log_mass: f64,
    /// The picked outcome; `None` where no outcome was asked for, or none has a positive probability.
    pub picked: Option<Outcome>,
}

/// The reasons why a row gives no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A logit is NaN or plus infinity, or all are minus infinity.
    #[error(
        "row {row} of logits is no distribution: it has a NaN, a plus infinity, or no finite logit at all"
    )]
    NotADistribution {
        /// The row.
        row: usize,
    },
    /// The device that the row lies on has failed.
    #[error("the device of the logits: {source}")]
    Device {
        /// The error of the device.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The rows of one pass of a model, in the place where they lie.
///
/// [`conformance::check_rows`](crate::conformance::check_rows) compares the answers of an implementation with those of
/// [`answer`] over the rows that it reads.
pub trait LogitRows: Send + Sync + fmt::Debug {
    /// The number of rows.
    fn len(&self) -> usize;

    /// Whether there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of a row.
    fn vocab_len(&self) -> usize;

    /// Copies the logits of a row to host memory. `out` has the length of a row.
    ///
    /// # Errors
    ///
    /// [`RowError`] where the device fails.
    ///
    /// # Panics
    ///
    /// If there is no such row, or `out` has another length.
    fn read(&self, row: usize, out: &mut [f32]) -> Result<(), RowError>;

    /// Appends the answers to `questions` to `answers`, in their order. A device answers all of them in one submission.
    ///
    /// # Errors
    ///
    /// [`RowError`]; no answer is appended then.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    fn answer(&self, questions: &[RowQuestion<'_>], answers: &mut Vec<RowAnswer>) -> Result<(), RowError>;

    /// Divides all logits by `temperature`. Answers false where the rows cannot do that; the caller then reads them
    /// to host memory.
    fn divide(&mut self, temperature: f64) -> bool {
        let _ = temperature;
        false
    }
}
