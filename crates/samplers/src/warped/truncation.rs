//! Top-k and top-p: a choice of the outcomes that a distribution keeps.
//!
//! Truncating before the mask and after it give different distributions, and neither is the model's own. Take
//! probabilities (0.4, 0.3, 0.2, 0.1), the second and the fourth outcome allowed, and k = 2. The model given the
//! constraint draws the two allowed outcomes with (0.75, 0.25). Truncating first leaves (1, 0). Truncating after the
//! mask keeps (0.75, 0.25), and with three outcomes allowed it would cut one of them. So there is no default order:
//!
//! - **before the mask**, the truncated model is the model: [`Warped`](crate::Warped) makes it one, and every sampler
//!   keeps its distribution with respect to it;
//! - **after the mask**, the truncation belongs to the proposal, and only [`Masked`](crate::Masked) has it; its
//!   weights then refer to the outputs that can be drawn at all.

/// Keeps the most probable outcomes: those of min-p first, of these those of top-k, and of these those of top-p. Ties
/// go to the lower id.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truncation {
    top_k: Option<usize>,
    top_p: Option<f64>,
    /// The logarithm.
    min_p: Option<f64>,
}

/// Outcomes are listed by falling probability: those within this factor of the most probable one, then within the
/// next. A row of 128,000 logits is then compared a few times, and sorted never. Logarithms.
const REACHES: [f64; 3] = [4.0, 10.0, 25.0];

/// Bounds that would keep no outcome, or have no meaning.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TruncationError {
    /// `top_k` is zero.
    #[error("top-k must be at least 1")]
    TopK,
    /// `top_p` is not in (0, 1].
    #[error("top-p must be above 0 and at most 1, not {0}")]
    TopP(f64),
    /// `min_p` is not in [0, 1].
    #[error("min-p must be from 0 to 1, not {0}")]
    MinP(f64),
}

impl Truncation {
    /// Keeps the `top_k` most probable outcomes. Of these it keeps the fewest, most probable first, that hold at
    /// least `top_p` of their mass.
    ///
    /// # Errors
    ///
    /// [`TruncationError`] when a bound is out of range.
    pub fn new(top_k: Option<usize>, top_p: Option<f64>) -> Result<Self, TruncationError> {
        if top_k == Some(0) {
            return Err(TruncationError::TopK);
        }
        match top_p {
            Some(p) if p.is_nan() || p <= 0.0 || p > 1.0 => Err(TruncationError::TopP(p)),
            _ => Ok(Self { top_k, top_p, min_p: None }),
        }
    }

    /// The same, of the outcomes that are at least `min_p` times as probable as the most probable one.
    ///
    /// # Errors
    ///
    /// [`TruncationError::MinP`] when it is out of range.
    pub fn with_min_p(self, min_p: f64) -> Result<Self, TruncationError> {
        if !(0.0..=1.0).contains(&min_p) {
            return Err(TruncationError::MinP(min_p));
        }
        Ok(Self { min_p: (min_p > 0.0).then(|| min_p.ln()), ..self })
    }

    /// The indices of the kept outcomes, the most probable first, of outcomes with these logits. `normalizer` is the
    /// logarithm of the sum of their exponentials. Outcomes of probability zero are never kept.
    pub(crate) fn keep<L: Copy + PartialOrd + Into<f64>>(&self, logits: &[L], normalizer: f64) -> Vec<usize> {
        let of = |index: &usize| -> f64 { logits[*index].into() };
        let greatest = logits.iter().fold(f64::NEG_INFINITY, |greatest, logit| greatest.max((*logit).into()));
        let least = self.min_p.map_or(f64::NEG_INFINITY, |min_p| greatest + min_p);
        let by_weight = |left: &usize, right: &usize| of(right).total_cmp(&of(left)).then(left.cmp(right));
        for reach in REACHES.into_iter().chain([f64::INFINITY]) {
            let floor = least.max(greatest - reach);
            let is_all = floor <= least;
            let mut order: Vec<usize> = (0..logits.len())
                .filter(|index| of(index) >= floor && of(index) > f64::NEG_INFINITY)
                .collect();
            let has_k = self.top_k.is_some_and(|k| k <= order.len());
            // Without a bound, all are asked for.
            if !is_all && !has_k && self.top_p.is_none() {
                continue;
            }
            if let Some(k) = self.top_k.filter(|k| *k < order.len()) {
                order.select_nth_unstable_by(k - 1, by_weight);
                order.truncate(k);
            }
            let weight = |index: &usize| (of(index) - greatest).exp();
            let Some(p) = self.top_p else {
                order.sort_unstable_by(by_weight);
                return order;
            };
            let total = match is_all || has_k {
                true => order.iter().map(weight).sum(),
                // Those that are not listed count, unless top-k cuts them off: which it does is not known here.
                false if self.top_k.is_some() || self.min_p.is_some() => continue,
                false => (normalizer - greatest).exp(),
            };
            order.sort_unstable_by(by_weight);
            let mut sum = 0.0;
            let needed = order.iter().position(|index| {
                sum += weight(index);
                sum >= p * total
            });
            match needed {
                Some(last) => order.truncate(last + 1),
                None if !is_all && !has_k => continue,
                None => {}
            }
            return order;
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::*;

    const WEIGHTS: [f64; 6] = [0.2, 0.0, 0.3, 0.3, 0.1, 0.1];

    fn keep(top_k: Option<usize>, top_p: Option<f64>) -> Vec<usize> {
        Truncation::new(top_k, top_p).unwrap().keep(&WEIGHTS.map(f64::ln), 0.0)
    }

    #[test]
    fn the_most_probable_are_kept_and_ties_go_to_the_lower_id() {
        assert_eq!(keep(None, None), [2, 3, 0, 4, 5]);
        assert_eq!(keep(Some(1), None), [2]);
        assert_eq!(keep(Some(4), None), [2, 3, 0, 4]);
        assert_eq!(keep(Some(9), None), [2, 3, 0, 4, 5]);
        assert_eq!(keep(None, Some(0.5)), [2, 3]);
        assert_eq!(keep(None, Some(0.61)), [2, 3, 0]);
        assert_eq!(keep(None, Some(1.0)), [2, 3, 0, 4, 5]);
        // Half of the mass of the three outcomes that k leaves (0.8 together) is in two of them.
        assert_eq!(keep(Some(3), Some(0.7)), [2, 3]);
    }

    #[test]
    fn outcomes_far_below_the_most_probable_one_go_first_with_min_p() {
        let keep = |top_k, top_p, min_p| {
            let truncation = Truncation::new(top_k, top_p).unwrap().with_min_p(min_p).unwrap();
            truncation.keep(&WEIGHTS.map(f64::ln), 0.0)
        };
        assert_eq!(keep(None, None, 0.0), [2, 3, 0, 4, 5]);
        assert_eq!(keep(None, None, 0.5), [2, 3, 0]);
        assert_eq!(keep(None, None, 1.0), [2, 3]);
        assert_eq!(keep(Some(1), None, 0.5), [2]);
        // 0.76 of the three that min-p leaves is in three of them, and 0.74 in two.
        assert_eq!(keep(None, Some(0.76), 0.5), [2, 3, 0]);
        assert_eq!(keep(None, Some(0.74), 0.5), [2, 3]);
    }

    /// The rule as it is written, by sorting everything.
    fn sorted(logits: &[f32], top_k: Option<usize>, top_p: Option<f64>, min_p: f64) -> Vec<usize> {
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |index: &usize| f64::from(logits[*index] - greatest).exp();
        let mut order: Vec<usize> =
            (0..logits.len()).filter(|index| weight(index) >= min_p && weight(index) > 0.0).collect();
        order.sort_by(|left, right| weight(right).total_cmp(&weight(left)).then(left.cmp(right)));
        order.truncate(top_k.unwrap_or(usize::MAX));
        let total: f64 = order.iter().map(weight).sum();
        let mut sum = 0.0;
        let needed = top_p.and_then(|p| {
            order.iter().position(|index| {
                sum += weight(index);
                sum >= p * total
            })
        });
        order.truncate(needed.map_or(order.len(), |last| last + 1));
        order
    }

    #[test]
    fn long_rows_are_cut_as_sorting_cuts_them() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for case in 0..300 {
            let spread = [1.0, 6.0, 30.0, 200.0][case % 4];
            let logits: Vec<f32> = (0..500).map(|_| (rng.next_u32() as f32 / 4e9) * spread).collect();
            let top_k = [None, Some(1), Some(7), Some(400), Some(900)][rng.next_u32() as usize % 5];
            let top_p = [None, Some(1e-3), Some(0.31), Some(0.9), Some(0.9999)][rng.next_u32() as usize % 5];
            let min_p = [0.0, 1e-9, 0.01, 0.2][rng.next_u32() as usize % 4];
            let truncation = Truncation::new(top_k, top_p).unwrap().with_min_p(min_p).unwrap();
            let normalizer = crate::log_normalizer(&logits);
            let expected = sorted(&logits, top_k, top_p, min_p);
            assert_eq!(
                truncation.keep(&logits, normalizer),
                expected,
                "{top_k:?} {top_p:?} {min_p} {spread}"
            );
        }
    }

    #[test]
    fn bounds_out_of_range_are_errors() {
        assert_eq!(Truncation::new(Some(0), None), Err(TruncationError::TopK));
        for p in [0.0, -0.5, 1.5, f64::NAN] {
            assert!(Truncation::new(None, Some(p)).is_err());
        }
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(Truncation::new(None, None).unwrap().with_min_p(p).is_err());
        }
    }
}
