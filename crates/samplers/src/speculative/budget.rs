//! How much divergence from the target's distribution may be spent, at each token or over a whole output.
//!
//! # Why a budget for each position bounds a sequence
//!
//! Let `Q` be the target's distribution of outputs, and `Pi` that of mentored decoding. By the chain rule
//!
//! ```text
//! KL(Q || Pi) = E_Q [ sum over t of KL(q(. | x_<t) || pi(. | x_<t)) ],
//! ```
//!
//! so that at most `D` at each position is at most `n D` over outputs of `n` tokens, and if on every path the spent
//! divergences add up to at most `D`, so does the divergence of the whole.
//!
//! The divergence at a position also depends on more than its prefix: on the reach of the draft, and on the tokens
//! accepted before. The rule holds all the same. Let `h` stand for these data. Compare with the process that draws
//! tokens from `q` and then `h` as mentored decoding does, given the token. The distributions of `h` cancel in the
//! chain rule over pairs of token and `h`, so that the divergence of the pairs is the expected sum of the spent
//! divergences. Leaving `h` out again cannot increase it.

use super::{BudgetError, optimum};

/// The divergence that may be spent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// Nothing: speculative sampling, whose distribution is the target's.
    Lossless,
    /// At most this divergence at each position that is drafted. An output of `n` tokens diverges by at most `n`
    /// times as much.
    Token(f64),
    /// A limit for a whole output, of any length.
    Sequence {
        /// The whole budget.
        total: f64,
        /// The share of the remaining budget that one position may spend, above 0 and at most 1. The first units of
        /// divergence buy the most acceptance (it grows like their square root), so that a small share goes further.
        /// With a smaller share less of the budget is spent in the end.
        share: f64,
    },
}

/// A share that is not above 0 and at most 1.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("a position may spend a share above 0 and at most 1 of what is left, not {value}")]
#[non_exhaustive]
pub struct ShareError {
    /// The share.
    pub value: f64,
}

impl Budget {
    /// A budget of `total` over an output. Each position may spend an eighth of the remaining budget.
    pub fn sequence(total: f64) -> Self {
        Self::Sequence { total, share: 0.125 }
    }

    /// Whether the distribution is the target's.
    pub fn is_lossless(self) -> bool {
        match self {
            Self::Lossless => true,
            Self::Token(budget) | Self::Sequence { total: budget, .. } => budget == 0.0,
        }
    }

    pub(crate) fn check(self) -> Result<(), super::SpeculationError> {
        match self {
            Self::Lossless => Ok(()),
            Self::Token(budget) => Ok(optimum::check(budget)?),
            // Half of infinity is all of it: the remaining budget would be no number.
            Self::Sequence { total, .. } if total.is_infinite() => Err(BudgetError { value: total }.into()),
            Self::Sequence { share, .. } if share.is_nan() || share <= 0.0 || share > 1.0 => {
                Err(ShareError { value: share }.into())
            }
            Self::Sequence { total, .. } => Ok(optimum::check(total)?),
        }
    }

    /// The divergence that a position may spend, after `spent` on the positions before it.
    pub(crate) fn allowance(self, spent: f64) -> f64 {
        match self {
            Self::Lossless => 0.0,
            Self::Token(budget) => budget,
            Self::Sequence { total, share } => ((total - spent) * share).max(0.0),
        }
    }
}
