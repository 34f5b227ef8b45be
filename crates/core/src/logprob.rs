//! Sums of probabilities in log space, in `f64`: products of hundreds of probabilities underflow otherwise.

/// `ln(sum(exp(value)))`, without overflow; minus infinity if there are no values.
pub fn log_sum_exp(values: impl IntoIterator<Item = f64, IntoIter: Clone>) -> f64 {
    let values = values.into_iter();
    let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return max;
    }
    max + values.map(|value| (value - max).exp()).sum::<f64>().ln()
}

/// The logarithm of the sum of the exponentials of a row of logits: a logit minus this is a log-probability. Minus
/// infinity when every logit is; NaN when one is.
pub fn log_normalizer(logits: &[f32]) -> f64 {
    if logits.iter().any(|logit| logit.is_nan()) {
        return f64::NAN;
    }
    log_sum_exp(logits.iter().map(|logit| f64::from(*logit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_survive_the_extremes() {
        assert_eq!(log_sum_exp([]), f64::NEG_INFINITY);
        assert_eq!(log_sum_exp([f64::NEG_INFINITY; 3]), f64::NEG_INFINITY);
        assert!((log_sum_exp([-5000.0, -5000.0]) - (-5000.0 + 2f64.ln())).abs() < 1e-9);
        assert!((log_normalizer(&[5000.0, f32::NEG_INFINITY]) - 5000.0).abs() < 1e-9);
        assert!(log_normalizer(&[0.0, f32::NAN]).is_nan());
    }
}
