//! The tokens that may follow a prefix, with the model's probabilities: a sampler needs no more to choose one.
//!
//! A row in host memory is read once, and tokens are then drawn from it by blocks ([`DenseRow`]). A row outside host
//! memory, on a device or at an endpoint, answers questions ([`Elsewhere`]). An operation that has no question (a
//! list of all tokens, say) copies the row to host memory.

mod cache;
mod dense;
mod elsewhere;
pub(crate) mod exp64;
mod pass;

use std::ops::Deref;

pub(crate) use cache::RowCache;
pub(crate) use dense::DenseRow;
pub(crate) use elsewhere::Elsewhere;
pub(crate) use pass::LONG;
pub use pass::{log_mass, log_normalizer};
use unskew_core::{RowError, TokenId, logprob::log_sum_exp};

/// A token that was drawn from a row. Natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Drawn {
    pub(crate) token: TokenId,
    pub(crate) log_p: f64,
    /// The mass of the other tokens that might have been drawn, where the row knows it.
    pub(crate) rest: Option<f64>,
}

/// The tokens that may follow a prefix, with their probabilities, and the end.
#[derive(Debug)]
pub(crate) struct Row {
    tokens: Tokens,
    /// The log-probability of the end of the sequence, allowed or not.
    end: f64,
}

#[derive(Debug)]
enum Tokens {
    Dense(DenseRow),
    Elsewhere(Elsewhere),
}

/// A row in host memory: borrowed where it lies, or read from elsewhere.
pub(crate) enum Host<'a> {
    Here(&'a DenseRow),
    Read(DenseRow),
}

impl Deref for Host<'_> {
    type Target = DenseRow;

    fn deref(&self) -> &DenseRow {
        match self {
            Self::Here(row) => row,
            Self::Read(row) => row,
        }
    }
}

impl Row {
    pub(crate) fn dense(row: DenseRow, end: f64) -> Self {
        Self { tokens: Tokens::Dense(row), end }
    }

    pub(crate) fn elsewhere(row: Elsewhere, end: f64) -> Self {
        Self { tokens: Tokens::Elsewhere(row), end }
    }

    /// The row of a prefix at which the output ends for certain.
    pub(crate) fn over() -> Self {
        Self::dense(DenseRow::of(Box::new([]), Box::new([]), 0.0), 0.0)
    }

    /// The row of these tokens, ascending, with these log-probabilities.
    #[cfg(test)]
    pub(crate) fn of(tokens: &[TokenId], log_probs: &[f32], end: f64) -> Self {
        Self::dense(DenseRow::of(tokens.into(), log_probs.into(), 0.0), end)
    }

    /// The row in host memory. A row elsewhere is copied there.
    pub(crate) fn host(&self) -> Result<Host<'_>, RowError> {
        Ok(match &self.tokens {
            Tokens::Dense(row) => Host::Here(row),
            Tokens::Elsewhere(row) => Host::Read(row.read()?),
        })
    }

    pub(crate) fn end(&self) -> f64 {
        self.end
    }

    /// The log-probability of a token; minus infinity for a token that is not in the row.
    pub(crate) fn of_token(&self, token: TokenId) -> Result<f64, RowError> {
        match &self.tokens {
            Tokens::Dense(row) => Ok(row.of_token(token)),
            Tokens::Elsewhere(row) => row.of_token(token),
        }
    }

    /// The tokens of positive probability, ascending, with their log-probabilities.
    pub(crate) fn list(&self) -> Result<Vec<(TokenId, f64)>, RowError> {
        Ok(self.host()?.list())
    }

    /// The most probable token and its log-probability. Of equally probable tokens, the first.
    pub(crate) fn best(&self) -> Result<Option<(TokenId, f64)>, RowError> {
        match &self.tokens {
            Tokens::Dense(row) => Ok(row.best()),
            Tokens::Elsewhere(row) => row.best(),
        }
    }

    /// The logarithm of the mass of all tokens.
    pub(crate) fn sum(&self) -> f64 {
        match &self.tokens {
            Tokens::Dense(row) => row.sum(),
            Tokens::Elsewhere(row) => row.sum(),
        }
    }

    /// The logarithm of the mass of all tokens except `without`, which are ascending.
    pub(crate) fn log_mass(&self, without: &[TokenId]) -> Result<f64, RowError> {
        match &self.tokens {
            Tokens::Dense(row) => Ok(row.log_mass(without)),
            Tokens::Elsewhere(row) => row.log_mass(without),
        }
    }

    /// Draws one of the tokens except `without`, which are ascending, by a number in `[0, 1)`. `None` if there is
    /// none to draw.
    pub(crate) fn draw(&self, without: &[TokenId], uniform: f64) -> Result<Option<Drawn>, RowError> {
        match &self.tokens {
            Tokens::Dense(row) => Ok(row.draw(without, uniform)),
            Tokens::Elsewhere(row) => row.draw(without, uniform),
        }
    }

    /// The entropy in nats of the outcomes under the mask: the tokens of the row, and the end with log-probability
    /// `eos`.
    pub(crate) fn entropy(&self, eos: f64) -> Result<f64, RowError> {
        let tokens = self.list()?;
        let all = || std::iter::once(eos).chain(tokens.iter().map(|(_, log_p)| *log_p));
        let mass = log_sum_exp(all().collect::<Vec<_>>());
        let term = |log_p: f64| -(log_p - mass) * (log_p - mass).exp();
        Ok(all().filter(|log_p| *log_p > f64::NEG_INFINITY).map(term).sum())
    }

    /// The memory of the row in bytes, with its entry in a cache.
    pub(crate) fn bytes(&self) -> usize {
        let tokens = match &self.tokens {
            Tokens::Dense(row) => row.bytes(),
            Tokens::Elsewhere(row) => row.bytes(),
        };
        tokens + size_of::<Self>() + 48
    }
}

#[cfg(test)]
mod tests;
