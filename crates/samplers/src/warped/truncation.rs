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

/// Keeps the most probable outcomes. Ties go to the lower id.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truncation {
    top_k: Option<usize>,
    top_p: Option<f64>,
}

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
            _ => Ok(Self { top_k, top_p }),
        }
    }

    /// The indices of the kept outcomes, the most probable first. Weights need not sum to one; outcomes of weight
    /// zero are never kept.
    pub(crate) fn keep(&self, weights: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..weights.len()).filter(|index| weights[*index] > 0.0).collect();
        let by_weight =
            |left: &usize, right: &usize| weights[*right].total_cmp(&weights[*left]).then(left.cmp(right));
        if let Some(k) = self.top_k.filter(|k| *k < order.len()) {
            order.select_nth_unstable_by(k - 1, by_weight);
            order.truncate(k);
        }
        order.sort_unstable_by(by_weight);
        if let Some(p) = self.top_p {
            let total: f64 = order.iter().map(|index| weights[*index]).sum();
            let mut sum = 0.0;
            let needed = order.iter().position(|index| {
                sum += weights[*index];
                sum >= p * total
            });
            order.truncate(needed.map_or(order.len(), |last| last + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(top_k: Option<usize>, top_p: Option<f64>) -> Vec<usize> {
        Truncation::new(top_k, top_p).unwrap().keep(&[0.2, 0.0, 0.3, 0.3, 0.1, 0.1])
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
    fn bounds_out_of_range_are_errors() {
        assert_eq!(Truncation::new(Some(0), None), Err(TruncationError::TopK));
        for p in [0.0, -0.5, 1.5, f64::NAN] {
            assert!(Truncation::new(None, Some(p)).is_err());
        }
    }
}
