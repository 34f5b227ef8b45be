//! Functions of single rows: normalisation, softmax, the gate of the feed-forward block.
//!
//! Sums run in [`STRIPS`] strips, the same on every processor, and the exponential is made of additions and multiplications
//! that are rounded alike everywhere. The compiler turns the loops into vectors. Not taken: `f32::exp`, which is a call for each
//! value, and another function on every platform.

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

/// Replaces `gate` by `silu(gate) * up`, where `silu(x)` is `x / (1 + exp(-x))`.
pub(crate) fn gated(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
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

/// The exponential, exact to about two units of the last place between -87 and 88; outside of these bounds, its value at the bound.
/// The polynomial is that of Cephes (Moshier).
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
    use super::{exp, gated, normalise, softmax};

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

            let mut gate = row.clone();
            gated(&mut gate, &scale);
            for ((gate, x), up) in gate.iter().zip(&row).zip(&scale) {
                let exact = f64::from(*x) / (1.0 + (-f64::from(*x)).exp()) * f64::from(*up);
                assert!((f64::from(*gate) - exact).abs() < 1e-5);
            }
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
        let mut gate = [f32::NAN];
        gated(&mut gate, &[1.0]);
        assert!(gate[0].is_nan());
    }
}
