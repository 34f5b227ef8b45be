//! The two ways in which samplers use random numbers.

use rand_core::Rng;

/// A number in `[0, 1)`, uniform over the multiples of 2^-53.
pub(crate) fn uniform(rng: &mut dyn Rng) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit in an f64 exactly")]
    let bits = (rng.next_u64() >> 11) as f64;
    bits * (-53.0_f64).exp2()
}

/// An index drawn in proportion to `weights`, which need not sum to one. `None` when their sum is not positive.
///
/// An index of weight zero is never drawn: rounding does not change that.
pub(crate) fn weighted(weights: &[f64], rng: &mut dyn Rng) -> Option<usize> {
    weighted_by(weights, uniform(rng))
}

/// The same by a number in `[0, 1)`.
pub(crate) fn weighted_by(weights: &[f64], uniform: f64) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    if total.is_nan() || total <= 0.0 {
        return None;
    }
    let mut left = uniform * total;
    let mut last_positive = None;
    for (index, weight) in weights.iter().enumerate() {
        if *weight > 0.0 {
            if left < *weight {
                return Some(index);
            }
            left -= weight;
            last_positive = Some(index);
        }
    }
    // Rounding may leave a rest beyond the last weight.
    last_positive
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;
    use unskew_core::conformance::chi_square;

    use super::*;

    #[test]
    fn indices_follow_their_weights() {
        let weights = [0.0, 3.0, 1.0, 0.0, 4.0, 0.0];
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0; 6];
        for _ in 0..40_000 {
            counts[weighted(&weights, &mut rng).unwrap()] += 1;
        }
        let fit = chi_square(counts.iter().zip(weights).map(|(count, weight)| (*count, weight / 8.0)));
        assert!(fit.deviation < 4.0, "{counts:?}");
        assert_eq!(weighted(&[0.0, 0.0], &mut rng), None);
        assert_eq!(weighted(&[f64::NAN], &mut rng), None);
    }
}
