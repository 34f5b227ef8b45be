//! Mentored decoding as it was published, in three readings: what our solver is compared with, in speed and in what it returns.
//!
//! All sort the outcomes by `q / p` and take sums along that order; then they search for `alpha` by halving an interval until the
//! divergence is near the budget. As printed (Algorithm 1), the loop moves `alpha` first and stores the moved value as the bound, so that
//! the interval closes on it and the loop does not end. The author's notebook has the order right, and takes the sums for `beta` one
//! outcome too early. [`Reading::Corrected`] has neither fault, and still does not end where the target has zeros, where the divergence
//! jumps in `alpha`; nor does it know a budget of zero.

/// How the loop is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// As printed.
    Printed,
    /// The interval keeps the old `alpha` as its bound.
    Corrected,
    /// The same with the sums for `beta` as in the author's notebook.
    Notebook,
}

/// Outcomes in the order of `q / p`, with sums along it. Those that neither distribution has are left out.
#[derive(Clone, Debug)]
pub struct Sorted {
    draft: Vec<f64>,
    target: Vec<f64>,
    ratio: Vec<f64>,
    /// Sums over the first outcomes: none, one, ... all.
    draft_before: Vec<f64>,
    target_before: Vec<f64>,
    divergence_before: Vec<f64>,
    /// `p_j / q_j * (sum of q from j on) - (sum of p from j on)`, which falls with `j`.
    threshold: Vec<f64>,
}

/// What a search returns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// The cap of `q / pi` from below.
    pub alpha: f64,
    /// And from above.
    pub beta: f64,
    /// The probability of a rejection.
    pub rejection: f64,
    /// The divergence as the loop computes it.
    pub divergence: f64,
    /// How often the interval was halved.
    pub halvings: u32,
}

impl Sorted {
    /// The one sort.
    pub fn new(draft: &[f64], target: &[f64]) -> Self {
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

    /// The body of the loop: what follows from `alpha`.
    pub fn at(&self, alpha: f64, reading: Reading) -> Answer {
        let last = self.ratio.len();
        let capped = self.ratio.partition_point(|ratio| *ratio <= alpha);
        let rejection = self.draft_before[capped] - self.target_before[capped] / alpha;
        let raised = self.threshold.partition_point(|threshold| *threshold > rejection);
        let from = match reading {
            // Before the first it wraps around to the last, as an index of -1 does.
            Reading::Notebook => raised.checked_sub(1).unwrap_or(last - 1),
            Reading::Printed | Reading::Corrected => raised,
        };
        let target = self.target_before[last] - self.target_before[from];
        let draft = self.draft_before[last] - self.draft_before[from];
        let beta = target / (rejection + draft);
        // Nothing is capped: zero times the logarithm.
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
    pub fn search(&self, budget: f64, tolerance: f64, reading: Reading, most: u32) -> Option<Answer> {
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

    /// The notebook's search: at most ten halvings, and the best `alpha` below the budget if none is within the tolerance, or one: no
    /// budget at all.
    pub fn notebook(&self, budget: f64) -> Answer {
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

    /// The distribution that an answer stands for, as a sampler draws from it: the residual is normalised by whoever draws from it.
    /// Also what the residual summed to.
    pub fn distribution(&self, answer: &Answer) -> (Vec<f64>, f64) {
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
    pub fn divergence(&self, distribution: &[f64]) -> f64 {
        let terms =
            self.target.iter().zip(distribution).filter(|(q, _)| **q > 0.0).map(|(q, pi)| q * (q / pi).ln());
        terms.sum()
    }
}

#[cfg(test)]
mod tests {
    use unskew_samplers::speculative::{KullbackLeibler, Pair, optimum};

    use super::{super::pairs::dirichlet_pair, *};

    const BUDGET: f64 = 0.1;

    /// The pairs on which the loops are compared: `q` mixed half and half with `p`, parts drawn from Dirichlet(0.3).
    fn pairs(len: usize, count: u64) -> impl Iterator<Item = (Vec<f64>, Vec<f64>)> {
        (0..count).map(move |seed| dirichlet_pair(len, 0.3, seed))
    }

    /// Of pairs whose divergence is beyond the budget, which the printed loop never accepts at once.
    fn ends(len: usize, count: u64, reading: Reading) -> (u32, u32, u32) {
        let (mut all, mut ended, mut most) = (0, 0, 0);
        for (draft, target) in pairs(len, count) {
            let sorted = Sorted::new(&draft, &target);
            if sorted.divergence(&sorted.draft) <= BUDGET {
                continue;
            }
            all += 1;
            if let Some(answer) = sorted.search(BUDGET, 0.05, reading, 10_000) {
                ended += 1;
                most = most.max(answer.halvings);
            }
        }
        (all, ended, most)
    }

    #[test]
    fn the_printed_loop_does_not_end() {
        for len in [20, 50] {
            let (all, ended, _) = ends(len, 300, Reading::Printed);
            assert!(all > 100 && ended * 20 < all, "{len}: {ended} of {all}");
        }
    }

    #[test]
    fn with_the_old_alpha_as_bound_it_ends_and_states_the_true_divergence() {
        for len in [5, 20, 50] {
            let (all, ended, most) = ends(len, 300, Reading::Corrected);
            assert_eq!(all, ended);
            assert!(most < 30, "{len}: {most}");
            for (draft, target) in pairs(len, 300) {
                let sorted = Sorted::new(&draft, &target);
                // Within the tolerance there is nothing to reject.
                if sorted.divergence(&sorted.draft) <= 1.05 * BUDGET {
                    continue;
                }
                let answer = sorted.search(BUDGET, 0.05, Reading::Corrected, 10_000).unwrap();
                let (distribution, sum) = sorted.distribution(&answer);
                // A small rejection is a small difference of large sums.
                assert!((sum - 1.0).abs() < 1e-6, "{sum} {answer:?}");
                assert!((sorted.divergence(&distribution) - answer.divergence).abs() < 1e-9);
            }
        }
    }

    /// The bracket of the printed loop closes on `alpha` at the first change of direction.
    #[test]
    fn the_printed_loop_stands_still() {
        let (draft, target) = dirichlet_pair(50, 0.3, 1);
        let sorted = Sorted::new(&draft, &target);
        let (mut least, mut alpha, mut greatest) = (0.0, 0.5, 1.0);
        let mut seen = Vec::new();
        for _ in 0..60 {
            if sorted.at(alpha, Reading::Printed).divergence < BUDGET {
                alpha = f64::midpoint(least, alpha);
                greatest = alpha;
            } else {
                alpha = f64::midpoint(alpha, greatest);
                least = alpha;
            }
            seen.push(alpha);
        }
        // Far from where the budget is.
        assert_eq!(seen[58], seen[59]);
        let stuck = sorted.at(alpha, Reading::Printed).divergence;
        assert!((stuck - BUDGET).abs() > 0.05 * BUDGET, "{stuck}");
    }

    /// A target with a zero, as under any mask: between zero and what accepting the draft costs, no `alpha` has the divergence.
    #[test]
    fn a_zero_of_the_target_keeps_the_corrected_loop_from_ending() {
        let (draft, target) = ([0.4, 0.3, 0.3], [0.0, 0.6, 0.4]);
        let sorted = Sorted::new(&draft, &target);
        // After 1,074 halvings no number is left, and the loop ends with none.
        assert_eq!(sorted.search(0.1, 0.05, Reading::Corrected, 1_000), None);
        assert_eq!(sorted.search(0.1, 0.05, Reading::Printed, 1_000), None);
        assert!(sorted.search(0.1, 0.05, Reading::Corrected, 2_000).unwrap().beta.is_nan());
        let found = optimum(&Pair::new(&draft, &target).unwrap(), &KullbackLeibler, 0.1).unwrap();
        assert!(found.divergence() <= 0.1 && found.distribution(0.4, 0.0) == 0.0);
    }

    #[test]
    fn a_budget_of_zero_does_not_end_either() {
        let (draft, target) = dirichlet_pair(20, 0.3, 2);
        assert_eq!(Sorted::new(&draft, &target).search(0.0, 0.05, Reading::Corrected, 10_000), None);
    }

    #[test]
    fn the_notebook_passes_its_budget_in_small_vocabularies() {
        let mut worst: Vec<f64> = Vec::new();
        for len in [5, 20, 200] {
            let mut greatest = 0.0_f64;
            let mut sums = 0.0_f64;
            for (draft, target) in pairs(len, 400) {
                let sorted = Sorted::new(&draft, &target);
                if sorted.divergence(&sorted.draft) <= 1.2 * BUDGET {
                    continue;
                }
                let (distribution, sum) = sorted.distribution(&sorted.notebook(BUDGET));
                sums = sums.max((sum - 1.0).abs());
                greatest = greatest.max(sorted.divergence(&distribution) / BUDGET);
            }
            assert!(sums > 1e-3, "the residual sums to one at {len}");
            worst.push(greatest);
        }
        // Beyond the 1.2 that its tolerance allows; nearly harmless where no outcome weighs much.
        assert!(worst[0] > 5.0 && worst[1] > 1.5 && worst[2] < 1.3, "{worst:?}");
    }

    #[test]
    fn where_it_ends_the_corrected_loop_agrees_with_the_optimum() {
        for len in [5, 50, 500] {
            for (draft, target) in pairs(len, 100) {
                let sorted = Sorted::new(&draft, &target);
                if sorted.divergence(&sorted.draft) <= BUDGET {
                    continue;
                }
                let answer = sorted.search(BUDGET, 1e-10, Reading::Corrected, 10_000).unwrap();
                let found = optimum(&Pair::new(&draft, &target).unwrap(), &KullbackLeibler, BUDGET).unwrap();
                assert!((answer.rejection - found.rejection()).abs() < 1e-8, "{answer:?} {found:?}");
                assert!((answer.alpha - found.alpha()).abs() < 1e-6 * answer.alpha);
                assert!((answer.beta - found.beta()).abs() < 1e-6 * answer.beta);
            }
        }
    }
}
