//! One pass over a long row of logits: the sum of the exponentials, and the same of what a mask leaves, block by block.
//!
//! A row of a large vocabulary is half a megabyte, and reading it is most of what a sampler does for a token. So it is read
//! once. Each block comes into the nearest cache with the search for its greatest logit; the exponentials are taken from
//! there, relative to a reference that rises with the logits, which now and then scales the sums so far (Milakov &
//! Gimelshein 2018, "Online normalizer calculation for softmax", by blocks). What is kept of a block is its sum under the mask and its
//! greatest allowed logit: enough to draw a token by reading one block again, and to find the most probable one.
//!
//! Exponentials are those of `f32`, with an error of about 1e-7 of each, as logits themselves have one; sums are `f64`
//! beyond a block. The loops are plain ones over arrays, compiled for what the processor has. Short rows are not read here:
//! they take no time, and keep the digits of `f64`.
//!
//! Tried instead: a greatest logit of the whole row first, which reads it twice from memory; exponentials in `f64`, which
//! take twice as long for digits that logits do not have.

use unskew_core::MaskRef;

/// Logits that are treated together.
pub(crate) const BLOCK: usize = 256;
/// Words of a mask for them.
const WORDS: usize = BLOCK / 32;
const NO_WORDS: [u32; WORDS] = [0; WORDS];
/// Sums that do not wait for each other: two registers of eight.
pub(super) const LANES: usize = 16;
/// So far a logit may lie above the reference.
const RISE: f32 = 10.0;
/// Below this an exponential is zero.
const LEAST: f32 = -87.0;

/// What a pass finds.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Sums {
    /// What weights are relative to: a logit, the greatest or up to [`RISE`] less. Minus infinity where all logits are.
    pub(crate) reference: f32,
    /// The weights of all logits; NaN if one is NaN or infinite.
    pub(crate) total: f64,
    /// The weights of those that the mask leaves.
    pub(crate) kept: f64,
    /// The same of each block, in order; none without a mask.
    pub(crate) parts: Vec<f32>,
    /// The sums of the parts, [`LANES`] of them at a time: who looks for one need not add them all up again.
    pub(crate) groups: Vec<f64>,
    /// The greatest logit of each block that the mask leaves, minus infinity where there is none.
    pub(crate) greatest: Vec<f32>,
}

impl Sums {
    /// What turns a logit into a log-probability by subtraction.
    pub(crate) fn normalizer(&self) -> f64 {
        f64::from(self.reference) + self.total.ln()
    }
}

/// The logarithm of the sum of the exponentials of a row of logits, as
/// [`logprob::log_normalizer`](unskew_core::logprob::log_normalizer), in one pass for a long row: to about 1e-7.
///
/// Minus infinity when every logit is; NaN when one is NaN or infinite.
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

/// The logarithm of what a mask leaves of the distribution that a row of logits stands for, in one pass for a long row: to about
/// 1e-7. It is what a sampler that draws under the mask computes for each token, besides the token.
///
/// Minus infinity when nothing is left; NaN when a logit is NaN or infinite.
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
    let Sums { total, kept, .. } = sums(logits, Some(mask.words()));
    kept.ln() - total.ln()
}

/// Reads a row; `mask` may be shorter or longer than it: what is beyond its end is not left.
pub(crate) fn sums(logits: &[f32], mask: Option<&[u32]>) -> Sums {
    let mut sums = Sums::default();
    sums_in(&mut sums, logits, mask);
    sums
}

/// The same in the place of others, which nobody wants any more: what they have allocated is used again.
pub(crate) fn sums_in(sums: &mut Sums, logits: &[f32], mask: Option<&[u32]>) {
    pulp::Arch::new().dispatch(Pass { logits, mask, sums });
}

/// Writes the weights of a block of at most [`BLOCK`] logits under a mask, zero where there is none.
pub(crate) fn weigh_under(block: &[f32], reference: f32, words: &[u32], weights: &mut [f32; BLOCK]) {
    let words = taken(words, 0);
    let arch = pulp::Arch::new();
    match block.try_into() {
        Ok(block) => arch.dispatch(Weigh { block, reference, words: &words, weights }),
        Err(_) => arch.dispatch(Weigh { block: &padded(block), reference, words: &words, weights }),
    }
}

/// The sum of a block as a pass makes it.
pub(crate) fn add_lanes(weights: &[f32; BLOCK]) -> f32 {
    lanes_of(weights)
}

fn add_up_few(parts: &[f32]) -> f64 {
    parts.iter().map(|part| f64::from(*part)).sum()
}

/// The sums of the parts, [`LANES`] of them at a time.
pub(crate) fn groups_of(parts: &[f32]) -> impl Iterator<Item = f64> {
    parts.chunks(LANES).map(add_up_few)
}

/// The same of the weights of a block.
pub(crate) fn groups_of_block(weights: &[f32; BLOCK]) -> [f64; BLOCK / LANES] {
    let mut groups = [0.0; BLOCK / LANES];
    for (group, weights) in groups.iter_mut().zip(weights.as_chunks::<LANES>().0) {
        *group = add_up_few(weights);
    }
    groups
}

/// Makes the sum of the group of one of the parts anew.
pub(crate) fn regroup(parts: &[f32], groups: &mut [f64], index: usize) {
    let group = index / LANES;
    groups[group] = add_up_few(&parts[group * LANES..parts.len().min((group + 1) * LANES)]);
}

/// The sum of all parts but one.
pub(crate) fn add_others(parts: &[f32], groups: &[f64], index: usize) -> f64 {
    let (group, first) = (index / LANES, index / LANES * LANES);
    groups[..group].iter().sum::<f64>()
        + groups[group + 1..].iter().sum::<f64>()
        + add_up_few(&parts[first..index])
        + add_up_few(&parts[index + 1..parts.len().min(first + LANES)])
}

/// The first of the parts at which their sum passes `target`, with what is left of it there.
pub(crate) fn find(parts: &[f32], groups: &[f64], target: f64) -> Option<(usize, f64)> {
    let mut left = target;
    for (group, (parts, sum)) in parts.chunks(LANES).zip(groups).enumerate() {
        if left < *sum {
            for (index, part) in parts.iter().enumerate() {
                let part = f64::from(*part);
                if left < part {
                    return Some((group * LANES + index, left));
                }
                left -= part;
            }
            // Rounding: the next group begins.
            left = left.max(0.0);
        } else {
            left -= sum;
        }
    }
    None
}

struct Pass<'a> {
    logits: &'a [f32],
    mask: Option<&'a [u32]>,
    sums: &'a mut Sums,
}

impl pulp::WithSimd for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { logits, mask, sums } = self;
        let count = if mask.is_some() { logits.len().div_ceil(BLOCK) } else { 0 };
        let (mut reference, mut total) = (f32::NEG_INFINITY, 0.0);
        sums.parts.clear();
        sums.parts.resize(count, 0.0);
        sums.greatest.clear();
        sums.greatest.resize(count, f32::NEG_INFINITY);
        sums.groups.clear();
        let (parts, best) = (&mut sums.parts[..], &mut sums.greatest[..]);
        let (blocks, rest) = logits.as_chunks::<BLOCK>();
        let last = padded(rest);
        let mut weights = [0.0; BLOCK];
        let (whole, some) = mask.unwrap_or_default().as_chunks::<WORDS>();
        let some = taken(some, 0);
        for (index, block) in blocks.iter().chain((!rest.is_empty()).then_some(&last)).enumerate() {
            let greatest = greatest(block);
            if greatest > reference + RISE {
                let scale = (reference - greatest).exp();
                reference = greatest;
                total *= f64::from(scale);
                parts.iter_mut().take(index).for_each(|part| *part *= scale);
            }
            if greatest.is_nan() || greatest == f32::INFINITY {
                (sums.reference, sums.total, sums.kept) = (reference, f64::NAN, 0.0);
                return;
            }
            weigh(block, reference, &mut weights);
            let all = lanes_of(&weights);
            total += f64::from(all);
            if mask.is_none() {
                continue;
            }
            let words = match whole.get(index) {
                Some(words) => words,
                None if index == whole.len() => &some,
                None => &NO_WORDS,
            };
            // Compared as a whole, so that nothing branches for each word.
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
        sums.groups.extend(groups_of(&sums.parts));
        sums.kept = sums.groups.iter().sum();
        (sums.reference, sums.total) = (reference, total);
    }
}

struct Weigh<'a> {
    block: &'a [f32; BLOCK],
    reference: f32,
    words: &'a [u32; WORDS],
    weights: &'a mut [f32; BLOCK],
}

impl pulp::WithSimd for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        weigh(self.block, self.reference, self.weights);
        keep(self.weights, self.words, 0.0);
    }
}

fn padded(rest: &[f32]) -> [f32; BLOCK] {
    let mut block = [f32::NEG_INFINITY; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// The words of a block of a mask, zero beyond its end.
#[inline(always)]
fn taken(mask: &[u32], first: usize) -> [u32; WORDS] {
    match mask.get(first..first + WORDS) {
        Some(words) => words.try_into().expect("so many were taken"),
        None => std::array::from_fn(|index| mask.get(first + index).copied().unwrap_or(0)),
    }
}

/// The greatest of some logits; NaN if one is, minus infinity of none.
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
fn lanes_of(weights: &[f32; BLOCK]) -> f32 {
    let mut sums = [0.0; LANES];
    for weights in weights.as_chunks::<LANES>().0 {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += weight;
        }
    }
    sums.into_iter().sum()
}

/// Puts `other` in the place of what the mask does not leave.
#[inline(always)]
fn keep(values: &mut [f32; BLOCK], words: &[u32; WORDS], other: f32) {
    for (values, word) in values.as_chunks_mut::<32>().0.iter_mut().zip(words) {
        for bit in 0..32u32 {
            // All ones or all zeros, so that nothing branches.
            let kept = 0u32.wrapping_sub(word >> bit & 1);
            let value = &mut values[bit as usize];
            *value = f32::from_bits(value.to_bits() & kept | other.to_bits() & !kept);
        }
    }
}

/// The exponentials of logits minus the reference: `exp(x) = 2^n exp(r)` with `r` at most `ln(2) / 2`, by a polynomial of
/// degree six (Taylor's: the next term is 1.2e-7 at most).
#[inline(always)]
fn weigh(block: &[f32; BLOCK], reference: f32, weights: &mut [f32; BLOCK]) {
    /// Added to a number, it leaves the number rounded in the low bits.
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
        // The exponent of 2^n; of the rounded number only the low bits matter.
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
    fn exponentials_are_right_to_the_last_digits_of_f32() {
        let mut worst = 0.0f64;
        for step in 0..97_000u32 {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let x = (10.0 - f64::from(step) / 1000.0) as f32;
            let exact = f64::from(x).exp();
            let mut weights = [0.0; BLOCK];
            weigh_under(&[x], 0.0, &[1], &mut weights);
            let weight = f64::from(weights[0]);
            if x >= LEAST {
                worst = worst.max((weight / exact - 1.0).abs());
            } else {
                assert_eq!(weight, 0.0);
            }
        }
        assert!(worst < 3e-7, "{worst}");
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (round, len) in
            [1, 31, 255, 256, 257, 1000, 5000, 20_000].into_iter().cycle().take(64).enumerate()
        {
            let spread = [1.0, 30.0, 500.0, 90_000.0][round % 4];
            let mut logits: Vec<f32> = (0..len).map(|_| random(&mut rng, spread)).collect();
            if round % 3 == 0 {
                // Rising, so that the reference rises too.
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
            let log_kept = f64::from(found.reference) + found.kept.ln();
            // What is next to nothing beside the rest has no digits, and is summed in another way.
            if kept > all - 40.0 {
                assert!((log_kept - kept).abs() < 1e-6, "{log_kept} {kept}");
            }
            for (index, block) in logits.chunks(BLOCK).enumerate() {
                let words = taken(&mask, index * WORDS);
                let some = |lane: usize| words[lane / 32] >> (lane % 32) & 1 == 1;
                let exact = block.iter().enumerate().filter(|(lane, _)| some(*lane)).map(|(_, logit)| *logit);
                assert_eq!(found.greatest[index], exact.fold(f32::NEG_INFINITY, f32::max));
                let mut weights = [0.0; BLOCK];
                weigh_under(block, found.reference, &words, &mut weights);
                let (sum, part) = (groups_of(&weights).sum::<f64>(), f64::from(found.parts[index]));
                // Where the reference rose later, what is next to nothing is zero.
                assert!((sum - part).abs() <= 1e-5 * part + 1e-30, "{sum} {part}");
            }
        }
    }

    #[test]
    fn what_is_no_distribution_is_seen() {
        for (bad, at) in [(f32::NAN, 0), (f32::NAN, 300), (f32::INFINITY, 700), (f32::NAN, 999)] {
            let mut logits = vec![f32::NEG_INFINITY; 1000];
            assert_eq!(log_normalizer(&logits), f64::NEG_INFINITY);
            logits[500] = 1.0;
            assert!((log_normalizer(&logits) - 1.0).abs() < 1e-7);
            logits[at] = bad;
            assert!(log_normalizer(&logits).is_nan());
        }
        assert_eq!(log_normalizer(&[]), f64::NEG_INFINITY);
    }

    #[test]
    fn a_part_is_found_by_adding_up() {
        let mut parts: Vec<f32> = [0.0, 1.0, 0.0, 2.0].into_iter().cycle().take(50).collect();
        let mut groups: Vec<f64> = groups_of(&parts).collect();
        for (target, at) in [(0.0, 1), (0.9, 1), (1.0, 3), (3.5, 5), (36.2, 49)] {
            let (index, left) = find(&parts, &groups, target).unwrap();
            assert_eq!(index, at, "{target}");
            assert!(left < f64::from(parts[index]));
        }
        assert_eq!(find(&parts, &groups, 37.0), None);
        assert_eq!(groups_of(&parts).sum::<f64>(), 37.0);
        for index in 0..parts.len() {
            let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
            assert_eq!(
                add_others(&parts, &groups, index),
                others.map(|(_, part)| f64::from(*part)).sum::<f64>(),
                "{index}"
            );
        }
        for index in [0, 15, 16, 49] {
            parts[index] += 3.0;
            regroup(&parts, &mut groups, index);
            assert!(groups.iter().copied().eq(groups_of(&parts)), "{index}");
        }
    }
}
