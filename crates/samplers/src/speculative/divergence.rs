//! Divergences between a distribution and the target's: f-divergences, of which the Kullback-Leibler divergence is one.
//!
//! With `q` the target and `pi` the distribution in question, `D(q, pi) = sum q_i f(pi_i / q_i)` for a convex `f`
//! with `f(1) = 0`. The optimum of mentored decoding is the same clamp for all of them, since among the outcomes that
//! lose probability, as among those that gain, a convex `f` is least with one common ratio `pi_i / q_i`. A divergence
//! decides only how far the clamp goes, so that `f` and its slope are all that the solvers ask for.

use std::fmt;

/// An f-divergence between the target `q` and another distribution `pi`.
pub trait Divergence: fmt::Debug + Send {
    /// `f(ratio)`, for a ratio `pi / q` in `[0, inf)`; infinite where the divergence is.
    fn value(&self, ratio: f64) -> f64;

    /// `f'(ratio)`, for a ratio in `[0, inf]`: never falling.
    fn slope(&self, ratio: f64) -> f64;

    /// `q f(p / q)`: the term of one outcome where the distribution is the draft's `p`. `q` is positive, and
    /// `log_ratio` is `ln(q / p)`, infinite for `p = 0`.
    fn term(&self, draft: f64, target: f64, log_ratio: f64) -> f64;
}

/// `KL(q || pi) = sum q ln(q / pi)`, in nats: the divergence of the paper. It adds up along a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KullbackLeibler;

impl Divergence for KullbackLeibler {
    fn value(&self, ratio: f64) -> f64 {
        -ratio.ln()
    }

    fn slope(&self, ratio: f64) -> f64 {
        -ratio.recip()
    }

    #[inline]
    fn term(&self, _: f64, target: f64, log_ratio: f64) -> f64 {
        target * log_ratio
    }
}

/// `KL(pi || q) = sum pi ln(pi / q)`, in nats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReverseKullbackLeibler;

impl Divergence for ReverseKullbackLeibler {
    fn value(&self, ratio: f64) -> f64 {
        if ratio > 0.0 { ratio * ratio.ln() } else { 0.0 }
    }

    fn slope(&self, ratio: f64) -> f64 {
        ratio.ln() + 1.0
    }

    #[inline]
    fn term(&self, draft: f64, _: f64, log_ratio: f64) -> f64 {
        if draft > 0.0 { -draft * log_ratio } else { 0.0 }
    }
}

/// Half the sum of `|q - pi|`: each unit of divergence buys one unit of acceptance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TotalVariation;

impl Divergence for TotalVariation {
    fn value(&self, ratio: f64) -> f64 {
        0.5 * (ratio - 1.0).abs()
    }

    fn slope(&self, ratio: f64) -> f64 {
        // Any slope at 1 is right, since the clamp has left that point already.
        if ratio < 1.0 { -0.5 } else { 0.5 }
    }

    #[inline]
    fn term(&self, draft: f64, target: f64, _: f64) -> f64 {
        0.5 * (draft - target).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_values_and_slopes_belong_together() {
        fn check(f: &dyn Divergence) {
            assert_eq!(f.value(1.0), 0.0);
            for ratio in [0.01, 0.5, 0.9, 1.1, 2.0, 30.0] {
                let target = 0.2;
                let term = f.term(ratio * target, target, -f64::ln(ratio));
                assert!((term - target * f.value(ratio)).abs() < 1e-12, "{f:?} {ratio}");
                let slope = (f.value(ratio + 1e-6) - f.value(ratio - 1e-6)) / 2e-6;
                assert!((slope - f.slope(ratio)).abs() < 1e-4, "{f:?} {ratio}");
            }
        }
        check(&KullbackLeibler);
        check(&ReverseKullbackLeibler);
        check(&TotalVariation);
    }
}
