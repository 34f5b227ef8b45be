//! One pass over a row of logits: the sum of all exponentials, and the sum of each block under a mask.
//!
//! A row of a large vocabulary is half a megabyte, and reading it is most of a sampler's work for a token. So the row
//! is read once. The search for a block's greatest logit brings the block into the nearest cache, and the
//! exponentials are taken from there. They are relative to a reference that rises with the logits; when it rises, the
//! sums so far are scaled (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", by blocks). The
//! pass keeps, for each block, the sum under the mask and the greatest allowed logit: enough to draw a token by
//! reading one block again, and to find the most probable token.
//!
//! Exponentials of long rows are those of `f32`, with a relative error of about 1e-7, which the logits have too.
//! Exponentials of short rows have the digits of `f64` ([`exp64`]), since short rows take no time. Sums over blocks
//! are `f64`. The loops are plain loops over arrays, compiled for the processor at hand.
//!
//! Tried instead: the greatest logit of the whole row first, which reads the row twice from memory; exponentials in
//! `f64` for all rows, which take twice as long for digits that logits do not have.

use unskew_core::MaskRef;

use super::exp64;

/// The number of logits in a block.
pub(crate) const BLOCK: usize = 256;
/// The number of mask words for a block.
const WORDS: usize = BLOCK / 32;
const NO_WORDS: [u32; WORDS] = [0; WORDS];
/// The number of independent running sums: two registers of eight.
pub(super) const LANES: usize = 16;
/// The most by which a logit may lie above the reference.
const RISE: f32 = 10.0;
/// Below this an exponential is zero.
const LEAST: f32 = -87.0;
/// A row of at least this many logits is a long row.
pub(crate) const LONG: usize = 1 << 13;

/// The sums of a pass. Weights are exponentials of logits minus the reference.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Sums {
    /// The reference: the greatest logit, or up to [`RISE`] less. Minus infinity where all logits are.
    pub(crate) reference: f32,
    /// The sum of the weights of all logits; NaN if a logit is NaN or infinite.
    pub(crate) total: f64,
    /// The sum of the weights of the logits that the mask leaves, for each block.
    pub(crate) parts: Vec<f64>,
    /// The greatest logit that the mask leaves, for each block. Minus infinity where it leaves none.
    pub(crate) greatest: Vec<f32>,
}

impl Sums {
    /// A logit minus this is a log-probability.
    pub(crate) fn normalizer(&self) -> f64 {
        f64::from(self.reference) + self.total.ln()
    }

    /// The sum of the weights of all logits that the mask leaves.
    pub(crate) fn kept(&self) -> f64 {
        add_up(&self.parts)
    }
}

/// The sum of some weights, in lanes: one after the other, each addition would wait for the one before it.
pub(crate) fn add_up(weights: &[f64]) -> f64 {
    let (chunks, rest) = weights.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for weights in chunks {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += weight;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// The logarithm of the sum of the exponentials of a row of logits, as
/// [`logprob::log_normalizer`](unskew_core::logprob::log_normalizer). A long row is read in one pass, with an error
/// of about 1e-7.
///
/// Minus infinity if every logit is minus infinity; NaN if one is NaN or infinite.
///
/// # Example
///
/// ```
/// let row: Vec<f32> = (0..10_000).map(|id| (id % 7) as f32).collect();
/// let exact = unskew_core::logprob::log_normalizer(&row);
/// assert!((unskew_samplers::log_normalizer(&row) - exact).abs() < 1e-6);
/// ```
pub fn log_normalizer(logits: &[f32]) -> f64 {
    sums(logits, None).normalizer()
}

/// The log-mass that a mask leaves of the distribution of a row of logits. A long row is read in one pass, with an
/// error of about 1e-7. A sampler that draws under the mask computes this mass for each token, in addition to the
/// token.
///
/// Minus infinity if the mask leaves no mass; NaN if a logit is NaN or infinite.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, TokenMask};
///
/// let mut mask = TokenMask::new(4);
/// mask.as_mut().insert(TokenId(1));
/// mask.as_mut().insert(TokenId(2));
/// assert!((unskew_samplers::log_mass(&[0.0; 4], mask.as_ref()).exp() - 0.5).abs() < 1e-6);
/// ```
pub fn log_mass(logits: &[f32], mask: MaskRef<'_>) -> f64 {
    let sums = sums(logits, Some(mask.words()));
    sums.kept().ln() - sums.total.ln()
}

/// Reads a row under a mask, which may be shorter or longer than the row. A shorter mask leaves no token beyond its
/// end. Without a mask there are no parts.
pub(crate) fn sums(logits: &[f32], mask: Option<&[u32]>) -> Sums {
    if logits.len() < LONG {
        return short(logits, mask);
    }
    pulp::Arch::new().dispatch(Pass { logits, mask })
}

/// The weights of a block of the row under a mask: zero for a logit that the mask does not leave. `len` is the length
/// of the row.
pub(crate) fn weigh_under(
    len: usize,
    block: &[f32],
    reference: f32,
    words: Option<&[u32]>,
    weights: &mut [f64; BLOCK],
) {
    let words = words.map_or([u32::MAX; WORDS], |words| taken(words, 0));
    if len < LONG {
        exp64::weights(block, reference, weights);
        clear(&mut weights[..block.len()], &words);
        return;
    }
    let arch = pulp::Arch::new();
    match block.try_into() {
        Ok(block) => arch.dispatch(Weigh { block, reference, words: &words, weights }),
        Err(_) => arch.dispatch(Weigh { block: &padded(block), reference, words: &words, weights }),
    }
}

/// The pass over a short row.
fn short(logits: &[f32], mask: Option<&[u32]>) -> Sums {
    let reference = greatest(logits);
    let (mut parts, mut best) = (Vec::new(), Vec::new());
    if !reference.is_finite() {
        let total = if reference == f32::NEG_INFINITY { 0.0 } else { f64::NAN };
        let count = if mask.is_some() { logits.len().div_ceil(BLOCK) } else { 0 };
        return Sums { reference, total, parts: vec![0.0; count], greatest: vec![f32::NEG_INFINITY; count] };
    }
    let mut total = 0.0;
    let mut weights = [0.0; BLOCK];
    for (index, block) in logits.chunks(BLOCK).enumerate() {
        exp64::weights(block, reference, &mut weights);
        let weights = &mut weights[..block.len()];
        total += weights.iter().sum::<f64>();
        let Some(mask) = mask else { continue };
        let words = taken(mask, index * WORDS);
        clear(weights, &words);
        parts.push(weights.iter().sum::<f64>());
        let kept = (0..block.len()).filter(|lane| words[lane / 32] >> (lane % 32) & 1 == 1);
        best.push(kept.map(|lane| block[lane]).fold(f32::NEG_INFINITY, f32::max));
    }
    Sums { reference, total, parts, greatest: best }
}

/// Sets the weights that the mask does not leave to zero.
fn clear(weights: &mut [f64], words: &[u32; WORDS]) {
    for (lane, weight) in weights.iter_mut().enumerate() {
        if words[lane / 32] >> (lane % 32) & 1 == 0 {
            *weight = 0.0;
        }
    }
}

struct Pass<'a> {
    logits: &'a [f32],
    mask: Option<&'a [u32]>,
}

impl pulp::WithSimd for Pass<'_> {
    type Output = Sums;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Sums {
        let Self { logits, mask } = self;
        let count = if mask.is_some() { logits.len().div_ceil(BLOCK) } else { 0 };
        let (mut reference, mut total) = (f32::NEG_INFINITY, 0.0);
        let mut parts = vec![0.0; count];
        let mut best = vec![f32::NEG_INFINITY; count];
        let (blocks, rest) = logits.as_chunks::<BLOCK>();
        let last = padded(rest);
        let mut weights = [0.0; BLOCK];
        let (whole, some) = mask.unwrap_or_default().as_chunks::<WORDS>();
        let some = taken(some, 0);
        for (index, block) in blocks.iter().chain((!rest.is_empty()).then_some(&last)).enumerate() {
            let greatest = greatest(block);
            if greatest > reference + RISE {
                let scale = f64::from((reference - greatest).exp());
                reference = greatest;
                total *= scale;
                parts.iter_mut().take(index).for_each(|part| *part *= scale);
            }
            if greatest.is_nan() || greatest == f32::INFINITY {
                return Sums { reference, total: f64::NAN, parts, greatest: best };
            }
            weigh(block, reference, &mut weights);
            let all = lanes_of(&weights);
            total += all;
            if mask.is_none() {
                continue;
            }
            let words = match whole.get(index) {
                Some(words) => words,
                None if index == whole.len() => &some,
                None => &NO_WORDS,
            };
            // The words are compared as a whole, so that there is no branch for each word.
            if *words == [u32::MAX; WORDS] {
                (parts[index], best[index]) = (all, greatest);
            } else if *words != NO_WORDS {
                keep(&mut weights, words, 0.0);
                parts[index] = lanes_of(&weights);
                let mut kept = *block;
                keep(&mut kept, words, f32::NEG_INFINITY);
                best[index] = self::greatest(&kept);
            }
        }
        Sums { reference, total, parts, greatest: best }
    }
}

struct Weigh<'a> {
    block: &'a [f32; BLOCK],
    reference: f32,
    words: &'a [u32; WORDS],
    weights: &'a mut [f64; BLOCK],
}

impl pulp::WithSimd for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let mut weights = [0.0; BLOCK];
        weigh(self.block, self.reference, &mut weights);
        keep(&mut weights, self.words, 0.0);
        for (weight, narrow) in self.weights.iter_mut().zip(weights) {
            *weight = f64::from(narrow);
        }
    }
}

fn padded(rest: &[f32]) -> [f32; BLOCK] {
    let mut block = [f32::NEG_INFINITY; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// The words of a block of a mask, zero beyond the end of the mask.
#[inline(always)]
fn taken(mask: &[u32], first: usize) -> [u32; WORDS] {
    match mask.get(first..first + WORDS) {
        Some(words) => words.try_into().expect("so many were taken"),
        None => std::array::from_fn(|index| mask.get(first + index).copied().unwrap_or(0)),
    }
}

/// The greatest of some logits: NaN if one is NaN, minus infinity of no logits.
#[inline(always)]
pub(super) fn greatest(logits: &[f32]) -> f32 {
    let (mut best, mut broken) = ([f32::NEG_INFINITY; LANES], [0u32; LANES]);
    let (blocks, rest) = logits.as_chunks::<LANES>();
    for logits in blocks {
        for ((best, broken), logit) in best.iter_mut().zip(&mut broken).zip(logits) {
            *best = if *logit > *best { *logit } else { *best };
            *broken |= u32::from(logit.is_nan());
        }
    }
    if broken.iter().any(|broken| *broken != 0) || rest.iter().any(|logit| logit.is_nan()) {
        return f32::NAN;
    }
    best.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, f32::max)
}

#[inline(always)]
fn lanes_of(weights: &[f32; BLOCK]) -> f64 {
    let mut sums = [0.0; LANES];
    for weights in weights.as_chunks::<LANES>().0 {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += weight;
        }
    }
    f64::from(sums.into_iter().sum::<f32>())
}

/// Puts `other` in the place of the values that the mask does not leave.
#[inline(always)]
fn keep(values: &mut [f32; BLOCK], words: &[u32; WORDS], other: f32) {
    for (values, word) in values.as_chunks_mut::<32>().0.iter_mut().zip(words) {
        for bit in 0..32u32 {
            // All ones or all zeros, so that there is no branch.
            let kept = 0u32.wrapping_sub(word >> bit & 1);
            let value = &mut values[bit as usize];
            *value = f32::from_bits(value.to_bits() & kept | other.to_bits() & !kept);
        }
    }
}

/// The exponentials of logits minus the reference: `exp(x) = 2^n exp(r)` with `r` at most `ln(2) / 2`, by a
/// polynomial of degree six (Taylor's: the next term is 1.2e-7 at most).
#[inline(always)]
fn weigh(block: &[f32; BLOCK], reference: f32, weights: &mut [f32; BLOCK]) {
    /// Added to a number, this leaves the rounded number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// `ln(2)` in two parts, the first with so few digits that `n` times it is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const ONE: u32 = 127;
    if reference == f32::NEG_INFINITY {
        weights.fill(0.0);
        return;
    }
    for (weight, logit) in weights.iter_mut().zip(block) {
        let x = logit - reference;
        let rounded = x * std::f32::consts::LOG2_E + ROUND;
        let n = rounded - ROUND;
        let r = x - n * LN_2[0] - n * LN_2[1];
        let mut sum = 1.0 / 720.0;
        for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            sum = sum * r + factor;
        }
        // The exponent of 2^n. Of the rounded number, only the low bits matter.
        let power = f32::from_bits(rounded.to_bits().wrapping_add(ONE) << 23);
        *weight = if x < LEAST { 0.0 } else { sum * power };
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};
    use unskew_core::logprob;

    use super::*;

    fn random(rng: &mut ChaCha8Rng, spread: f64) -> f32 {
        #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
        let logit = ((f64::from(rng.next_u32()) / 4_294_967_296.0 - 0.5) * spread) as f32;
        logit
    }

    /// Sums by definition, in `f64`.
    fn by_definition(logits: &[f32], mask: &[u32]) -> (f64, f64) {
        let kept: Vec<f32> = logits
            .iter()
            .enumerate()
            .filter(|(id, _)| mask.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1))
            .map(|(_, logit)| *logit)
            .collect();
        (logprob::log_normalizer(logits), logprob::log_normalizer(&kept))
    }

    #[test]
    fn exponentials_of_long_rows_are_right_to_the_last_digits_of_f32() {
        let mut worst = 0.0f64;
        for step in 0..97_000u32 {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let x = (10.0 - f64::from(step) / 1000.0) as f32;
            let exact = f64::from(x).exp();
            let mut weights = [0.0; BLOCK];
            weigh_under(LONG, &[x], 0.0, Some(&[1]), &mut weights);
            if x >= LEAST {
                worst = worst.max((weights[0] / exact - 1.0).abs());
            } else {
                assert_eq!(weights[0], 0.0);
            }
        }
        assert!(worst < 3e-7, "{worst}");
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let lens = [1, 31, 255, 256, 257, 1000, LONG, 20_000];
        for (round, len) in lens.into_iter().cycle().take(64).enumerate() {
            let spread = [1.0, 30.0, 500.0, 90_000.0][round % 4];
            let mut logits: Vec<f32> = (0..len).map(|_| random(&mut rng, spread)).collect();
            if round % 3 == 0 {
                // The logits rise, so that the reference rises too.
                logits.sort_by(f32::total_cmp);
            }
            for _ in 0..len / 10 {
                let at = rng.next_u32() as usize % len;
                logits[at] = f32::NEG_INFINITY;
            }
            let mut mask: Vec<u32> = (0..len.div_ceil(32)).map(|_| rng.next_u32()).collect();
            match round % 5 {
                0 => mask.fill(u32::MAX),
                1 => mask.fill(0),
                2 => mask.truncate(len / 64),
                3 => mask.extend([u32::MAX; 9]),
                _ => {}
            }
            let found = sums(&logits, Some(&mask));
            let (all, kept) = by_definition(&logits, &mask);
            assert!((found.normalizer() - all).abs() < 1e-6, "{} {all}", found.normalizer());
            let log_kept = f64::from(found.reference) + found.kept().ln();
            // A mass that is negligible next to the rest has no digits, and is summed in another way.
            if kept > all - 40.0 {
                assert!((log_kept - kept).abs() < 1e-6, "{log_kept} {kept}");
            }
            for (index, block) in logits.chunks(BLOCK).enumerate() {
                let words = taken(&mask, index * WORDS);
                let some = |lane: usize| words[lane / 32] >> (lane % 32) & 1 == 1;
                let exact = block.iter().enumerate().filter(|(lane, _)| some(*lane)).map(|(_, logit)| *logit);
                assert_eq!(found.greatest[index], exact.fold(f32::NEG_INFINITY, f32::max));
                let mut weights = [0.0; BLOCK];
                weigh_under(len, block, found.reference, Some(&words), &mut weights);
                let (sum, part) = (weights[..block.len()].iter().sum::<f64>(), found.parts[index]);
                // With the final reference, which may have risen after this block, negligible weights are zero.
                assert!((sum - part).abs() <= 1e-5 * part + 1e-30, "{sum} {part}");
            }
        }
    }

    #[test]
    fn a_row_that_is_no_distribution_is_seen() {
        for len in [1000, LONG] {
            for (bad, at) in [(f32::NAN, 0), (f32::NAN, 300), (f32::INFINITY, 700), (f32::NAN, 999)] {
                let mut logits = vec![f32::NEG_INFINITY; len];
                assert_eq!(log_normalizer(&logits), f64::NEG_INFINITY);
                logits[500] = 1.0;
                assert!((log_normalizer(&logits) - 1.0).abs() < 1e-7);
                logits[at] = bad;
                assert!(log_normalizer(&logits).is_nan());
            }
        }
        assert_eq!(log_normalizer(&[]), f64::NEG_INFINITY);
    }
}
