//! Functions of single rows: normalisations, softmax, soft caps, the functions inside feed-forward blocks.
//!
//! Sums run in [`STRIPS`] strips, the same on every processor, and the exponential is made of additions and
//! multiplications that are rounded alike everywhere. The compiler turns the loops into vectors. Not taken:
//! `f32::exp`, which is a call for each value, and another function on every platform.

use crate::config::Activation;

/// Partial sums of a row: enough for the widest vectors.
const STRIPS: usize = 16;

/// The sum of `of(value)` over a row.
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut strips = [0.0_f32; STRIPS];
    let (chunks, rest) = row.as_chunks::<STRIPS>();
    for chunk in chunks {
        for (strip, value) in strips.iter_mut().zip(chunk) {
            *strip += of(*value);
        }
    }
    for (strip, value) in strips.iter_mut().zip(rest) {
        *strip += of(*value);
    }
    strips.into_iter().sum()
}

/// The largest value of a row; a row that holds only NaN has the value minus infinity.
fn largest(row: &[f32]) -> f32 {
    let mut strips = [f32::NEG_INFINITY; STRIPS];
    let (chunks, rest) = row.as_chunks::<STRIPS>();
    for chunk in chunks {
        for (strip, value) in strips.iter_mut().zip(chunk) {
            *strip = if *value > *strip { *value } else { *strip };
        }
    }
    strips.iter().chain(rest).fold(f32::NEG_INFINITY, |most, value| most.max(*value))
}

/// Divides `row` by its root mean square, and multiplies it by `scale`.
pub(crate) fn normalise(row: &[f32], scale: &[f32], eps: f64, out: &mut [f32]) {
    let mean = f64::from(sum(row, |value| value * value)) / row.len() as f64;
    let inverse = (1.0 / (mean + eps).sqrt()) as f32;
    for ((out, value), scale) in out.iter_mut().zip(row).zip(scale) {
        *out = value * inverse * scale;
    }
}

/// Gives `row` mean zero and variance one, multiplies it by `scale` and adds `bias`.
pub(crate) fn standardise(row: &[f32], scale: &[f32], bias: &[f32], eps: f64, out: &mut [f32]) {
    let mean = (f64::from(sum(row, |value| value)) / row.len() as f64) as f32;
    let variance = f64::from(sum(row, |value| (value - mean) * (value - mean))) / row.len() as f64;
    let inverse = (1.0 / (variance + eps).sqrt()) as f32;
    for ((out, value), (scale, bias)) in out.iter_mut().zip(row).zip(scale.iter().zip(bias)) {
        *out = (value - mean) * inverse * scale + bias;
    }
}

/// Replaces each value by that of the function.
pub(crate) fn activate(activation: Activation, row: &mut [f32]) {
    match activation {
        Activation::Silu => row.iter_mut().for_each(|x| *x = *x / (1.0 + exp(-*x))),
        Activation::QuickGelu => row.iter_mut().for_each(|x| *x = *x / (1.0 + exp(-1.702 * *x))),
        Activation::Gelu => row.iter_mut().for_each(|x| *x = *x * normal(*x)),
        Activation::GeluTanh => {
            // The root of two over pi.
            const ROOT: f32 = 0.797_884_6;
            for x in row {
                *x = 0.5 * *x * (1.0 + tanh(ROOT * (*x + 0.044_715 * *x * *x * *x)));
            }
        }
        // A NaN stays one.
        Activation::Relu => row.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
    }
}

/// Replaces `gate` by the function of it, times `up`.
pub(crate) fn gated(activation: Activation, gate: &mut [f32], up: &[f32]) {
    activate(activation, gate);
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate *= up;
    }
}

/// Replaces values `x` by `cap * tanh(x / cap)`.
pub(crate) fn soft_cap(cap: f32, row: &mut [f32]) {
    for value in row {
        *value = cap * tanh(*value / cap);
    }
}

/// The hyperbolic tangent.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    // Near zero the other formula is a small difference of large numbers.
    let square = x * x;
    let series = 1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0 + square * (-17.0 / 315.0)));
    let far = 1.0 - 2.0 / (1.0 + exp(2.0 * x));
    if square < 0.03 { x * series } else { far }
}

/// The normal distribution's function, by the complementary error function: a rational approximation (Abramowitz and
/// Stegun 7.1.26), exact to 1e-7.
#[inline(always)]
fn normal(x: f32) -> f32 {
    let root = x * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * root.abs());
    let mut series = 1.061_405_4_f32;
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        series = series * t + coefficient;
    }
    let tail = 0.5 * series * t * exp(-root * root);
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Replaces scores by shares that are proportional to their exponentials and sum to one.
pub(crate) fn softmax(row: &mut [f32]) {
    let most = largest(row);
    for score in row.iter_mut() {
        *score = exp(*score - most);
    }
    let inverse = 1.0 / sum(row, |share| share);
    for share in row.iter_mut() {
        *share *= inverse;
    }
}

/// The exponential, exact to about two units of the last place between -87 and 88; outside of these bounds, its value
/// at the bound. The polynomial is that of Cephes (Moshier).
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding it moves the binary point of a number behind its last digit.
    const SHIFT: f32 = 12_582_912.0;
    // A NaN stays one.
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let twos = shifted - SHIFT;
    // The logarithm of two, in two parts: the first has few digits, so that its product is exact.
    let rest = x - twos * 0.693_359_4 - twos * -2.121_944_4e-4;
    let mut series = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        series = series * rest + coefficient;
    }
    let fraction = series * rest * rest + rest + 1.0;
    // The whole number in the last digits of `shifted` becomes an exponent.
    let exponent = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).wrapping_add(127);
    fraction * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::{activate, exp, gated, normal, normalise, soft_cap, softmax, standardise, tanh};
    use crate::config::Activation;

    #[test]
    fn the_exponential_is_that_of_64_bits_but_for_rounding() {
        for step in -870_000..=880_000 {
            let x = step as f32 / 10_000.0;
            let exact = f64::from(x).exp();
            let apart = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(apart < 2.5e-7, "{x}: {apart}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), exp(-87.0));
        assert_eq!(exp(f32::INFINITY), exp(88.0));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn rows_of_every_length_are_normalised() {
        for len in 1..70_usize {
            let row: Vec<f32> = (0..len).map(|at| ((at * 37 + 11) % 23) as f32 / 7.0 - 1.5).collect();
            let mut shares = row.clone();
            softmax(&mut shares);
            let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            let exact = row.iter().map(|x| f64::from(*x).exp() / total);
            assert!(shares.iter().zip(exact).all(|(share, exact)| (f64::from(*share) - exact).abs() < 1e-6));

            let scale: Vec<f32> = (0..len).map(|at| 0.5 + at as f32 / 64.0).collect();
            let mut out = vec![0.0; len];
            normalise(&row, &scale, 1e-5, &mut out);
            let mean: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / len as f64;
            for ((out, x), scale) in out.iter().zip(&row).zip(&scale) {
                let exact = f64::from(*x) / (mean + 1e-5).sqrt() * f64::from(*scale);
                assert!((f64::from(*out) - exact).abs() < 1e-5);
            }

            let bias: Vec<f32> = scale.iter().map(|scale| scale - 0.7).collect();
            standardise(&row, &scale, &bias, 1e-5, &mut out);
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / len as f64;
            let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / len as f64;
            for ((out, x), (scale, bias)) in out.iter().zip(&row).zip(scale.iter().zip(&bias)) {
                let exact = (f64::from(*x) - mean) / (variance + 1e-5).sqrt() * f64::from(*scale);
                assert!((f64::from(*out) - exact - f64::from(*bias)).abs() < 1e-4);
            }

            let mut gate = row.clone();
            gated(Activation::Silu, &mut gate, &scale);
            for ((gate, x), up) in gate.iter().zip(&row).zip(&scale) {
                let exact = f64::from(*x) / (1.0 + (-f64::from(*x)).exp()) * f64::from(*up);
                assert!((f64::from(*gate) - exact).abs() < 1e-5);
            }
        }
    }

    /// The error function by its series, in f64.
    fn erf(x: f64) -> f64 {
        let (mut sum, mut term) = (0.0, x);
        for n in 0..200_u32 {
            sum += term / f64::from(2 * n + 1);
            term *= -x * x / f64::from(n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn functions_are_those_of_64_bits_but_for_rounding() {
        for step in -4000..=4000 {
            let x = step as f32 / 1000.0;
            let wide = f64::from(x);
            assert!((f64::from(tanh(x)) - wide.tanh()).abs() < 2e-7, "{x}");
            assert!((f64::from(tanh(x * 5.0)) - (5.0 * x as f64).tanh()).abs() < 1e-6, "{x}");
            assert!((f64::from(normal(x)) - 0.5 * (1.0 + erf(wide / 2_f64.sqrt()))).abs() < 3e-7, "{x}");
            let of = |activation| {
                let mut row = [x];
                activate(activation, &mut row);
                f64::from(row[0])
            };
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044_715 * wide.powi(3));
            for (activation, exact) in [
                (Activation::Silu, wide / (1.0 + (-wide).exp())),
                (Activation::QuickGelu, wide / (1.0 + (-1.702 * wide).exp())),
                (Activation::Gelu, wide * 0.5 * (1.0 + erf(wide / 2_f64.sqrt()))),
                (Activation::GeluTanh, wide * 0.5 * (1.0 + inner.tanh())),
                (Activation::Relu, wide.max(0.0)),
            ] {
                assert!((of(activation) - exact).abs() < 2e-6, "{activation:?} of {x}: {}", of(activation));
            }
            let mut capped = [x * 20.0];
            soft_cap(30.0, &mut capped);
            assert!((f64::from(capped[0]) - 30.0 * (wide * 20.0 / 30.0).tanh()).abs() < 1e-5, "{x}");
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let mut shares = [1.0, f32::NAN, 2.0];
        softmax(&mut shares);
        assert!(shares.iter().all(|share| share.is_nan()));
        let mut overflown = [1.0, f32::INFINITY];
        softmax(&mut overflown);
        assert!(overflown.iter().any(|share| share.is_nan()));
        for activation in [
            Activation::Silu,
            Activation::Gelu,
            Activation::GeluTanh,
            Activation::QuickGelu,
            Activation::Relu,
        ] {
            let mut gate = [f32::NAN];
            gated(activation, &mut gate, &[1.0]);
            assert!(gate[0].is_nan(), "{activation:?}");
        }
        let mut capped = [f32::NAN];
        soft_cap(3.0, &mut capped);
        assert!(capped[0].is_nan());
    }
}
