//! Mentored decoding as it was published, in three readings. Our solver is compared with them, in its answers and in
//! speed (`cargo xtask bench speculation`).
//!
//! All readings sort the outcomes by `q / p` and take sums along that order. Then they search for `alpha` by halving
//! an interval until the divergence is near the budget. As printed (Algorithm 1), the loop moves `alpha` first and
//! stores the moved value as the bound, so that the interval closes on it and the loop does not end. The author's
//! notebook has the right order, and takes the sums for `beta` one outcome too early. [`Reading::Corrected`] has
//! neither fault. It still does not end where the target has zeros, since the divergence then jumps in `alpha`; nor
//! does it know a budget of zero.

/// A reading of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// As printed.
    Printed,
    /// The interval keeps the old `alpha` as its bound.
    Corrected,
    /// The corrected loop, with the sums for `beta` as in the author's notebook.
    Notebook,
}

/// Outcomes in the order of `q / p`, with sums along it. Outcomes of probability zero in both distributions are left
/// out.
#[derive(Clone, Debug)]
pub(crate) struct Sorted {
    pub(crate) draft: Vec<f64>,
    target: Vec<f64>,
    ratio: Vec<f64>,
    /// Sums over the first 0, 1, ... outcomes, up to all of them.
    draft_before: Vec<f64>,
    target_before: Vec<f64>,
    divergence_before: Vec<f64>,
    /// `p_j / q_j * (sum of q from j on) - (sum of p from j on)`, which falls with `j`.
    threshold: Vec<f64>,
}

/// The answer of a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Answer {
    /// The lower cap of `q / pi`.
    pub(crate) alpha: f64,
    /// The upper cap of `q / pi`.
    pub(crate) beta: f64,
    /// The probability of a rejection.
    pub(crate) rejection: f64,
    /// The divergence as the loop computes it.
    pub(crate) divergence: f64,
    /// The number of halvings of the interval.
    pub(crate) halvings: u32,
}

impl Sorted {
    /// The one sort.
    pub(crate) fn new(draft: &[f64], target: &[f64]) -> Self {
        let mut outcomes: Vec<(f64, f64, f64)> = draft
            .iter()
            .zip(target)
            .filter(|(p, q)| **p > 0.0 || **q > 0.0)
            .map(|(p, q)| (q / p, *p, *q))
            .collect();
        outcomes.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        let sums = |value: &dyn Fn(&(f64, f64, f64)) -> f64| {
            let mut sum = 0.0;
            let mut sums = vec![0.0];
            sums.extend(outcomes.iter().map(|outcome| {
                sum += value(outcome);
                sum
            }));
            sums
        };
        let draft_before = sums(&|(_, p, _)| *p);
        let target_before = sums(&|(.., q)| *q);
        let divergence_before =
            sums(&|(ratio, p, q)| if *q > 0.0 && *p > 0.0 { q * ratio.ln() } else { 0.0 });
        let last = outcomes.len();
        let threshold = outcomes.iter().enumerate().map(|(j, (ratio, ..))| {
            (target_before[last] - target_before[j]) / ratio - (draft_before[last] - draft_before[j])
        });
        Self {
            draft: outcomes.iter().map(|outcome| outcome.1).collect(),
            target: outcomes.iter().map(|outcome| outcome.2).collect(),
            ratio: outcomes.iter().map(|outcome| outcome.0).collect(),
            threshold: threshold.collect(),
            draft_before,
            target_before,
            divergence_before,
        }
    }

    /// The body of the loop: the answer that follows from `alpha`.
    pub(crate) fn at(&self, alpha: f64, reading: Reading) -> Answer {
        let last = self.ratio.len();
        let capped = self.ratio.partition_point(|ratio| *ratio <= alpha);
        let rejection = self.draft_before[capped] - self.target_before[capped] / alpha;
        let raised = self.threshold.partition_point(|threshold| *threshold > rejection);
        let from = match reading {
            // Before the first index, the index wraps around to the last, as an index of -1 does.
            Reading::Notebook => raised.checked_sub(1).unwrap_or(last - 1),
            Reading::Printed | Reading::Corrected => raised,
        };
        let target = self.target_before[last] - self.target_before[from];
        let draft = self.draft_before[last] - self.draft_before[from];
        let beta = target / (rejection + draft);
        // No outcome is capped: the term is zero times the logarithm.
        let low = if capped > 0 && self.target_before[capped] > 0.0 {
            alpha.ln() * self.target_before[capped]
        } else {
            0.0
        };
        let between = self.divergence_before[raised.max(capped)] - self.divergence_before[capped];
        let high = if from < last { beta.ln() * target } else { 0.0 };
        Answer { alpha, beta, rejection, divergence: low + between + high, halvings: 0 }
    }

    /// The search, for a divergence within `tolerance` of `budget`, as a share of it. `None` after `most` halvings.
    pub(crate) fn search(&self, budget: f64, tolerance: f64, reading: Reading, most: u32) -> Option<Answer> {
        let (mut least, mut alpha, mut greatest) = (0.0, 0.5, 1.0);
        for halvings in 0..most {
            let answer = Answer { halvings, ..self.at(alpha, reading) };
            let old = alpha;
            if answer.divergence < (1.0 - tolerance) * budget {
                alpha = f64::midpoint(least, alpha);
                greatest = if reading == Reading::Printed { alpha } else { old };
            } else if answer.divergence > (1.0 + tolerance) * budget {
                alpha = f64::midpoint(alpha, greatest);
                least = if reading == Reading::Printed { alpha } else { old };
            } else {
                return Some(answer);
            }
        }
        None
    }

    /// The notebook's search: at most ten halvings. Without an `alpha` within the tolerance, the answer is the best
    /// `alpha` below the budget, or 1 if there is none: no budget at all.
    pub(crate) fn notebook(&self, budget: f64) -> Answer {
        const TOLERANCE: f64 = 0.2;
        let (mut least, mut greatest) = (0.0, 1.0);
        let mut best = self.at(1.0, Reading::Notebook);
        for halvings in 0..10 {
            let alpha = f64::midpoint(least, greatest);
            let answer = Answer { halvings, ..self.at(alpha, Reading::Notebook) };
            if answer.divergence < (1.0 - TOLERANCE) * budget {
                (best, greatest) = (answer, alpha);
            } else if answer.divergence > (1.0 + TOLERANCE) * budget {
                least = alpha;
            } else {
                return answer;
            }
        }
        best
    }

    /// The distribution of an answer, as a sampler draws from it, with a normalised residual; and the sum of the
    /// residual before it is normalised.
    pub(crate) fn distribution(&self, answer: &Answer) -> (Vec<f64>, f64) {
        let outcomes = || self.draft.iter().zip(&self.target);
        let residual: Vec<f64> =
            outcomes().map(|(p, q)| (q / answer.beta - p).max(0.0) / answer.rejection).collect();
        let sum: f64 = residual.iter().sum();
        let accepted = |p: f64, q: f64| if p > 0.0 { p.min(q / answer.alpha) } else { 0.0 };
        let all: f64 = outcomes().map(|(p, q)| accepted(*p, *q)).sum();
        let distribution =
            outcomes().zip(&residual).map(|((p, q), s)| accepted(*p, *q) + s / sum * (1.0 - all));
        (distribution.collect(), sum)
    }

    /// `KL(q || distribution)`, by definition.
    pub(crate) fn divergence(&self, distribution: &[f64]) -> f64 {
        let terms =
            self.target.iter().zip(distribution).filter(|(q, _)| **q > 0.0).map(|(q, pi)| q * (q / pi).ln());
        terms.sum()
    }
}
