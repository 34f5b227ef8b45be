//! A language model as a sampler sees it: a batch of sequences goes in, rows of next-token logits come out.
//!
//! The trait is batch first (one sequence is a batch of one). A model pays for a pass and not for a row, and samplers
//! that reject, fork and verify drafts need several positions of several sequences in one pass. A sequence can be
//! forked and truncated, so that a sampler never computes a shared prefix twice.
//!
//! Tried instead: a method `next(&mut self, &[TokenId]) -> logits`. It is simpler, and it either recomputes the
//! prefix or hides a cache whose hits depend on the order of the calls. A separate prefill method was tried too. It
//! is the same operation as appending several tokens, so [`LanguageModel::extend`] does both.

mod batch;
mod fn_model;
mod table_model;

use std::ops::RangeInclusive;

use crate::{Logits, TokenId};

pub use batch::{BatchError, BatchLimits};
pub use fn_model::{FnModel, FnModelError};
pub use table_model::{TableModel, TableModelError};

/// The rows of logits that one [`Extension`] asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// One row: the distribution after the last token of the sequence, also when no token is appended.
    Last,
    /// One row after each appended token, in order; no row when no token is appended.
    All,
    /// The rows of [`All`](Self::All) without the first ones, as many as this number.
    From(usize),
}

impl Rows {
    /// The lengths of the prefixes that have a row: `len` is that of the sequence after an extension by `appended`
    /// tokens.
    pub const fn prefixes(self, appended: usize, len: usize) -> RangeInclusive<usize> {
        len + 1 - self.count(appended)..=len
    }

    /// The number of rows of an extension by `appended` tokens.
    pub const fn count(self, appended: usize) -> usize {
        match self {
            Self::Last => 1,
            Self::All => appended,
            Self::From(first) => appended.saturating_sub(first),
        }
    }
}

/// One item of a batch: the tokens to append to a sequence, and the requested rows of logits.
#[derive(Debug)]
pub struct Extension<'a, S> {
    /// The sequence that grows.
    pub sequence: &'a mut S,
    /// The tokens to append; may be empty.
    pub tokens: &'a [TokenId],
    /// The requested rows.
    pub rows: Rows,
}

/// A model of the next token, over many sequences at once.
///
/// # Contract
///
/// [`conformance::check_model`](crate::conformance::check_model) tests these rules over any implementation, up to a
/// tolerance: appending tokens one by one, all at once, or in a batch with others yields the same rows; a fork and
/// its original do not influence each other; truncating and appending again yields the rows of a fresh sequence; an
/// error from [`extend`](Self::extend) changes no sequence.
///
/// # Example
///
/// ```
/// use unskew_core::{Extension, LanguageModel, Logits, Rows, TableModel, TokenId};
///
/// let mut model = TableModel::uniform(["a", "b"]);
/// let mut sequence = model.start();
/// let mut logits = Logits::new();
/// model.extend(
///     &mut [Extension { sequence: &mut sequence, tokens: &[TokenId(1)], rows: Rows::Last }],
///     &mut logits,
/// )?;
/// assert!((logits.row(0)[0].exp() - 1.0 / 3.0).abs() < 1e-6);
/// # Ok::<(), unskew_core::TableModelError>(())
/// ```
pub trait LanguageModel {
    /// One sequence: its tokens so far, with the data that the model keeps for them (a key-value cache).
    type Sequence;
    /// The reason why the model could not be evaluated.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The length of a row of logits: every id below it is a token of the model.
    fn vocab_len(&self) -> usize;

    /// The most tokens that a sequence may hold, where there is a limit.
    fn context_len(&self) -> Option<usize>;

    /// The empty sequence. The model is not evaluated.
    fn start(&mut self) -> Self::Sequence;

    /// The number of tokens in `sequence`.
    fn len(&self, sequence: &Self::Sequence) -> usize;

    /// Whether `sequence` holds no token.
    fn is_empty(&self, sequence: &Self::Sequence) -> bool {
        self.len(sequence) == 0
    }

    /// An independent copy of `sequence`. Cheap: a model shares the data of the two sequences, and copies when one of
    /// them grows.
    fn fork(&mut self, sequence: &Self::Sequence) -> Self::Sequence;

    /// Forgets all but the first `len` tokens of `sequence`.
    ///
    /// # Panics
    ///
    /// If `sequence` holds fewer than `len` tokens.
    fn truncate(&mut self, sequence: &mut Self::Sequence, len: usize);

    /// Appends tokens to each sequence of the batch, in one pass, and replaces the content of `logits` by the
    /// requested rows: item by item, and within an item by position.
    ///
    /// # Errors
    ///
    /// When a token is not one of the model's, a sequence would exceed [`context_len`](Self::context_len), a row is
    /// asked of an empty sequence by a model that needs a token to start from, or the evaluation itself fails. Every
    /// sequence of the batch is then unchanged.
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Self::Sequence>],
        logits: &mut Logits,
    ) -> Result<(), Self::Error>;
}

impl<M: LanguageModel + ?Sized> LanguageModel for &mut M {
    type Sequence = M::Sequence;
    type Error = M::Error;

    fn vocab_len(&self) -> usize {
        (**self).vocab_len()
    }

    fn context_len(&self) -> Option<usize> {
        (**self).context_len()
    }

    fn start(&mut self) -> Self::Sequence {
        (**self).start()
    }

    fn len(&self, sequence: &Self::Sequence) -> usize {
        (**self).len(sequence)
    }

    fn fork(&mut self, sequence: &Self::Sequence) -> Self::Sequence {
        (**self).fork(sequence)
    }

    fn truncate(&mut self, sequence: &mut Self::Sequence, len: usize) {
        (**self).truncate(sequence, len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Self::Sequence>],
        logits: &mut Logits,
    ) -> Result<(), Self::Error> {
        (**self).extend(batch, logits)
    }
}
