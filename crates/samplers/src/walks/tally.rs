//! The estimate of `P(constraint)` from tries of walks.
//!
//! A try that leaves the empty prefix with the bound `b` is accepted with probability `P(L) / b`, whatever was
//! learned before. So `accepted / sum(1 / b)` over the tries tends to `P(L)`: its error falls with the bounds, and is
//! zero where they are exact. With weights, their mean does.
//!
//! Tries are counted in the order in which they began, each when all before it have ended. Counted as they end, tries
//! that are given up early would come first, and the estimate would be too small while others are under way. A try
//! that its engine drops is not counted.

use std::collections::VecDeque;

use unskew_core::logprob::log_sum_exp;

use super::WalkStats;
use crate::Usage;

/// The most tries that wait for an earlier one. Beyond, that one is not counted.
const MAX_OPEN: usize = 1 << 16;

/// The end of a try.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Ended {
    /// Accepted or not, with the logarithm of the bound.
    Tested {
        accepted: bool,
        log_bound: f64,
    },
    /// Drawn with this log-weight.
    Weighed {
        log_weight: f64,
    },
    Dropped,
}

/// The logarithms of the sums over tries of `1 / b`, and of `1 / b^2`; or of the weights and of their squares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WalkSums {
    /// Of the first powers.
    pub first: f64,
    /// Of the squares.
    pub second: f64,
    /// Whether they are of weights.
    pub weighed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The number of the first try in `open`.
    first: u64,
    open: VecDeque<Option<Ended>>,
    counted: u64,
    accepted: u64,
    sums: Option<WalkSums>,
}

impl Tally {
    /// Counts a new try; answers with its number.
    pub(super) fn begin(&mut self) -> u64 {
        if self.open.len() == MAX_OPEN {
            self.open[0].get_or_insert(Ended::Dropped);
            self.settle();
        }
        self.open.push_back(None);
        self.first + self.open.len() as u64 - 1
    }

    pub(super) fn end(&mut self, number: u64, ended: Ended) {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(open) = at.and_then(|at| self.open.get_mut(at)) {
            open.get_or_insert(ended);
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(Some(ended)) = self.open.front().copied() {
            self.open.pop_front();
            self.first += 1;
            let (log, accepted, weighed) = match ended {
                Ended::Dropped => continue,
                Ended::Tested { accepted, log_bound } => (-log_bound, accepted, false),
                Ended::Weighed { log_weight } => (log_weight, log_weight > f64::NEG_INFINITY, true),
            };
            self.add((1, u64::from(accepted)), Some(WalkSums { first: log, second: 2.0 * log, weighed }));
        }
    }

    /// Counts tries with their sums.
    pub(super) fn add(&mut self, (tries, accepted): (u64, u64), sums: Option<WalkSums>) {
        self.counted += tries;
        self.accepted += accepted;
        let Some(new) = sums else { return };
        self.sums = Some(match self.sums {
            None => new,
            Some(old) => WalkSums {
                first: log_sum_exp([old.first, new.first]),
                second: log_sum_exp([old.second, new.second]),
                weighed: new.weighed,
            },
        });
    }

    #[cfg(test)]
    fn counts(&self) -> (u64, u64) {
        (self.counted, self.accepted)
    }

    /// The findings, where `log_bound` is an upper bound on `P(L)`.
    pub(super) fn stats(&self, log_bound: f64, usage: Usage) -> WalkStats {
        let estimate = self.estimate(log_bound);
        WalkStats {
            tries: self.counted,
            accepted: self.accepted,
            log_estimate: estimate.map(|(log_p, _)| log_p),
            relative_error: estimate.map(|(_, error)| error),
            log_bound,
            sums: self.sums,
            usage,
        }
    }

    /// The logarithm of the estimate, and its standard error relative to it. Minus infinity where no try was
    /// accepted. `log_bound` is an upper bound on `P(L)`: chance may lift the share of accepted tries above it.
    #[allow(clippy::cast_precision_loss, reason = "a count of 2^53 tries is not reached")]
    fn estimate(&self, log_bound: f64) -> Option<(f64, f64)> {
        let WalkSums { first, second, weighed } = self.sums?;
        let n = self.counted as f64;
        if weighed {
            let log_mean = first - n.ln();
            // E[w^2] / E[w]^2 - 1, over n.
            let variance = ((second - n.ln()) - 2.0 * log_mean).exp() - 1.0;
            return Some((log_mean, (variance.max(0.0) / n).sqrt()));
        }
        let log_p = ((self.accepted as f64).ln() - first).min(log_bound);
        // The variance of the number of accepted tries is the sum of q (1 - q) for q = P / b.
        let variance = (log_p + first).exp() - (2.0 * log_p + second).exp();
        Some((log_p, variance.max(0.0).sqrt() / (log_p + first).exp()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_count_in_the_order_in_which_they_began() {
        let mut tally = Tally::default();
        let [slow, dropped, fast] = [tally.begin(), tally.begin(), tally.begin()];
        tally.end(fast, Ended::Tested { accepted: false, log_bound: 0.0 });
        tally.end(dropped, Ended::Dropped);
        assert_eq!((tally.counts(), tally.estimate(0.0)), ((0, 0), None));
        tally.end(slow, Ended::Tested { accepted: true, log_bound: -1.0 });
        assert_eq!(tally.counts(), (2, 1));
        let (log_p, _) = tally.estimate(0.0).unwrap();
        assert!((log_p - -(1.0 + 1f64.exp()).ln()).abs() < 1e-12);
        // The end of a try counts once.
        tally.end(slow, Ended::Tested { accepted: true, log_bound: 0.0 });
        assert_eq!(tally.counts(), (2, 1));
    }

    #[test]
    fn a_bound_that_is_exact_leaves_no_error() {
        let mut tally = Tally::default();
        for _ in 0..9 {
            let number = tally.begin();
            tally.end(number, Ended::Tested { accepted: true, log_bound: -700.0 });
        }
        let (log_p, error) = tally.estimate(-700.0).unwrap();
        assert!((log_p - -700.0).abs() < 1e-9 && error < 1e-6, "{log_p} {error}");
        // A try that was accepted against the odds lifts the share above the bound, and not the estimate; the error
        // stays one.
        let number = tally.begin();
        tally.end(number, Ended::Tested { accepted: true, log_bound: -600.0 });
        let (log_p, error) = tally.estimate(-700.0).unwrap();
        assert!((log_p - -700.0).abs() < 1e-9 && error.is_finite(), "{log_p} {error}");
    }
}
