//! Exponentials with all the digits of `f64`, several at a time: for short rows, whose numbers are exact, and where a sum must
//! be right to more digits than a logit has.
//!
//! The library's function takes one number, in about 4 ns; here a number of a row takes a fifth of that. The loops are plain ones
//! over arrays, compiled for what the processor has, without fused operations: the numbers are the same on all of them.

use super::pass::{LANES, greatest};

/// Below this an exponential is zero: it would have fewer digits than others.
const LEAST: f64 = -708.0;

/// As [`logprob::log_normalizer`](unskew_core::logprob::log_normalizer), to a few units of the last digit.
pub(crate) fn log_normalizer(logits: &[f32]) -> f64 {
    pulp::Arch::new().dispatch(Total { logits })
}

/// The exponentials of what each logit is less than `greatest`, which none exceeds.
pub(crate) fn weights(logits: &[f32], greatest: f32) -> Box<[f64]> {
    let mut weights = vec![0.0; logits.len()].into_boxed_slice();
    pulp::Arch::new().dispatch(Weigh { logits, greatest, weights: &mut weights });
    weights
}

/// The exponentials of logarithms of probabilities, less `by`.
pub(crate) fn probabilities(logs: &[f64], by: f64) -> Vec<f64> {
    let mut out = vec![0.0; logs.len()];
    pulp::Arch::new().dispatch(Raise { logs, by, out: &mut out });
    out
}

struct Total<'a> {
    logits: &'a [f32],
}

impl pulp::WithSimd for Total<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        let greatest = greatest(self.logits);
        if !greatest.is_finite() {
            return if greatest == f32::NEG_INFINITY { f64::NEG_INFINITY } else { f64::NAN };
        }
        let mut sums = [0.0; LANES];
        let (blocks, rest) = self.logits.as_chunks::<LANES>();
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for block in blocks.iter().chain((!rest.is_empty()).then_some(&last)) {
            for (sum, logit) in sums.iter_mut().zip(block) {
                *sum += exp(f64::from(*logit) - f64::from(greatest));
            }
        }
        f64::from(greatest) + sums.iter().sum::<f64>().ln()
    }
}

struct Weigh<'a> {
    logits: &'a [f32],
    greatest: f32,
    weights: &'a mut [f64],
}

impl pulp::WithSimd for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (weight, logit) in self.weights.iter_mut().zip(self.logits) {
            *weight = exp(f64::from(*logit) - f64::from(self.greatest));
        }
    }
}

struct Raise<'a> {
    logs: &'a [f64],
    by: f64,
    out: &'a mut [f64],
}

impl pulp::WithSimd for Raise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (out, log) in self.out.iter_mut().zip(self.logs) {
            *out = exp(log - self.by);
        }
    }
}

/// `exp(x) = 2^n exp(r)` with `r` at most `ln(2) / 2`, by Taylor's polynomial: the first term that is left out is 2e-16 at most.
#[inline(always)]
fn exp(x: f64) -> f64 {
    /// Added to a number, it leaves the number rounded in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// `ln(2)` in two parts, the first with so few digits that `n` times it is exact.
    const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    const ONE: u64 = 1023;
    /// From `1 / 12!` on.
    const FACTORS: [f64; 13] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let mut sum = 0.0;
    for factor in FACTORS {
        sum = sum * r + factor;
    }
    // The exponent of 2^n; of the rounded number only the low bits matter.
    let power = f64::from_bits(rounded.to_bits().wrapping_add(ONE) << 52);
    if x < LEAST { 0.0 } else { sum * power }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};
    use unskew_core::logprob;

    use super::*;

    #[test]
    fn exponentials_are_those_of_the_library() {
        for step in 0..71_000u32 {
            let x = -f64::from(step) / 100.0 - 1e-3 * f64::from(step % 7);
            let exact = x.exp();
            if x < LEAST {
                assert_eq!(exp(x), 0.0);
            } else {
                assert!((exp(x) / exact - 1.0).abs() < 1e-15, "{x}");
            }
        }
        assert_eq!((exp(0.0), exp(f64::NEG_INFINITY)), (1.0, 0.0));
    }

    #[test]
    fn rows_of_all_lengths_are_summed_as_by_definition() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for len in (0..70).chain([1000, 5003]) {
            for spread in [1.0, 30.0, 2000.0] {
                let mut logit = || {
                    #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
                    let logit = (f64::from(rng.next_u32()) / 4_294_967_296.0 * spread) as f32;
                    if rng.next_u32().is_multiple_of(9) { f32::NEG_INFINITY } else { logit }
                };
                let row: Vec<f32> = (0..len).map(|_| logit()).collect();
                let exact = logprob::log_normalizer(&row);
                let found = log_normalizer(&row);
                assert!((found - exact).abs() < 1e-12 || found == exact, "{len} {spread}: {found} {exact}");
                let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                if best > f32::NEG_INFINITY {
                    for (weight, logit) in weights(&row, best).iter().zip(&row) {
                        let exact = (f64::from(*logit) - f64::from(best)).exp();
                        assert!((weight - exact).abs() <= 1e-15 * exact + 2.0 * f64::MIN_POSITIVE);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_distribution_is_seen() {
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 15, 16, 20] {
                let mut row = [0.0; 21];
                row[at] = bad;
                assert!(log_normalizer(&row).is_nan());
            }
        }
    }
}
