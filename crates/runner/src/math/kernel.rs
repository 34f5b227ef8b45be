//! The inner loop of every product: some rows of inputs times one panel of 32 columns.
//!
//! A panel is a list of lines. Line `k` has the 32 (for keys: 8) weights that input `k` is multiplied by, one for each
//! output. The loop broadcasts one input, and multiplies it with a line as vectors. Several rows of inputs share each
//! line that is loaded. Matrices of weights have this layout ([`crate::math::matrix`]), and so have the keys and the
//! values of a page of the cache ([`crate::cache`]): one loop serves linear maps, scores and mixtures of values.
//!
//! An output is the sum over `k` in order, in one lane, by fused multiply-adds. Its bits depend neither on the width
//! of the vectors, nor on the number of rows that share a pass, nor on the number of threads. So a batch equals its
//! items bit by bit. Only a processor without fused multiply-adds (x86 before 2013) rounds differently.
//!
//! Not taken: dot products along the rows of a matrix as it lies in a file. Each output would end with a sum across
//! lanes, whose order follows the width of the vectors, and the values of a sequence would need a second kernel.

use std::{array, borrow::Borrow};

use half::{bf16, f16};
use pulp::{Simd, WithSimd};

use crate::math::pack::{BLOCK, Block, Scales};

/// Outputs of a panel.
pub(crate) const LANES: usize = 32;

/// The weights of one input in a panel.
pub(crate) type Line<const L: usize = LANES> = [f32; L];

/// A weight as it is stored; finite.
pub(crate) trait Weight: Copy + Default {
    /// Its value.
    fn wide(self) -> f32;

    /// The values of a line.
    fn line<const L: usize>(line: &[Self; L]) -> impl Borrow<Line<L>>;
}

impl Weight for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    #[inline(always)]
    fn line<const L: usize>(line: &Line<L>) -> impl Borrow<Line<L>> {
        line
    }
}

/// The values of a line that is not stored in f32.
#[inline(always)]
fn widened<W: Weight, const L: usize>(line: &[W; L]) -> Line<L> {
    let mut wide = [0.0; L];
    for (to, from) in wide.iter_mut().zip(line) {
        *to = from.wide();
    }
    wide
}

impl Weight for f16 {
    /// Four operations that are those of vectors, too. The conversion of `half` takes eight numbers at a time, behind
    /// a call that is not inlined.
    #[inline(always)]
    fn wide(self) -> f32 {
        // The biases of the exponents are 15 and 127.
        const SCALE: f32 = f32::from_bits((127 + 127 - 15) << 23);
        // The sign goes to the top, and the other bits to where f32 has them. Numbers without a leading one stay
        // exact, too.
        let moved = (i32::from(self.to_bits() as i16) << 13) as u32 & 0x8fff_e000;
        f32::from_bits(moved) * SCALE
    }

    #[inline(always)]
    fn line<const L: usize>(line: &[Self; L]) -> impl Borrow<Line<L>> {
        widened(line)
    }
}

impl Weight for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn line<const L: usize>(line: &[Self; L]) -> impl Borrow<Line<L>> {
        widened(line)
    }
}

/// Rows of a row-major matrix, some columns of it: row `r` begins at `values[r * stride]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) stride: usize,
}

/// Rows of sums, row-major, each as wide as the panels that are multiplied: row `r` begins at `values[r * stride]`.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) stride: usize,
}

/// Adds `rows` of `inputs` times each of the panels to the sums, `L` columns for each panel. Panels are equally long.
///
/// # Panics
///
/// If a slice is too short.
pub(crate) fn multiply<W: Weight, const L: usize, const P: usize>(
    panels: [&[[W; L]]; P],
    inputs: Inputs<'_>,
    sums: Sums<'_>,
    rows: usize,
) {
    let product = Multiply { panels, inputs, sums, rows };
    if L < LANES {
        return dispatch_narrow(product);
    }
    pulp::Arch::new().dispatch(product);
}

/// Runs a loop with vectors of at most eight lanes.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn dispatch_narrow<F: WithSimd>(function: F) -> F::Output {
    match pulp::x86::V3::try_new() {
        Some(simd) => Simd::vectorize(simd, function),
        None => Simd::vectorize(pulp::Scalar::new(), function),
    }
}

/// Runs a loop with the processor's vectors; no other processor here has more than eight lanes.
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn dispatch_narrow<F: WithSimd>(function: F) -> F::Output {
    pulp::Arch::new().dispatch(function)
}

/// A product that is computed tile by tile.
trait Tiles {
    /// How many rows of inputs there are.
    fn rows(&self) -> usize;

    /// `R` rows times `V` vectors, from vector `first` on, of each of `N` panels. Answers `R`.
    fn tile<S: Simd, const R: usize, const V: usize, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        panel: usize,
        first: usize,
    ) -> usize;

    /// All rows times `V` vectors of each of `N` panels.
    #[inline(always)]
    fn all<S: Simd, const V: usize, const N: usize>(&mut self, simd: S, panel: usize, first: usize) {
        let mut row = 0;
        while row < self.rows() {
            row += match self.rows() - row {
                1 => self.tile::<S, 1, V, N>(simd, row, panel, first),
                2 | 4 => self.tile::<S, 2, V, N>(simd, row, panel, first),
                _ => self.tile::<S, 3, V, N>(simd, row, panel, first),
            };
        }
    }
}

struct Multiply<'a, W, const L: usize, const P: usize> {
    panels: [&'a [[W; L]]; P],
    inputs: Inputs<'a>,
    sums: Sums<'a>,
    rows: usize,
}

impl<W: Weight, const L: usize, const P: usize> WithSimd for Multiply<'_, W, L, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // As many vectors of a panel as leave registers for three rows of sums.
        match (S::F32_LANES, L) {
            (8, 8) => self.tiles::<S, 1>(simd),
            (16, _) | (_, 8) => self.tiles::<S, 2>(simd),
            _ => self.tiles::<S, 4>(simd),
        }
    }
}

impl<W: Weight, const L: usize, const P: usize> Multiply<'_, W, L, P> {
    #[inline(always)]
    fn tiles<S: Simd, const V: usize>(mut self, simd: S) {
        for first in (0..L / S::F32_LANES).step_by(V) {
            if self.rows == 1 {
                // The sums of one row wait for each other; those of all panels together do so less.
                self.tile::<S, 1, V, P>(simd, 0, 0, first);
            } else if L < LANES {
                // One vector of each of many panels is what many vectors of one are.
                self.all::<S, V, P>(simd, 0, first);
            } else {
                for panel in 0..P {
                    self.all::<S, V, 1>(simd, panel, first);
                }
            }
        }
    }
}

impl<W: Weight, const L: usize, const P: usize> Tiles for Multiply<'_, W, L, P> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        panel: usize,
        first: usize,
    ) -> usize {
        let depth = self.panels[panel].len();
        let panels: [&[[W; L]]; N] = array::from_fn(|index| &self.panels[panel + index][..depth]);
        let inputs: [&[f32]; R] =
            array::from_fn(|index| &self.inputs.values[(row + index) * self.inputs.stride..][..depth]);
        let place = |index: usize, at: usize| (row + index) * self.sums.stride + (panel + at) * L;
        let mut sums: [[[S::f32s; V]; N]; R] = array::from_fn(|index| {
            array::from_fn(|at| {
                let (line, _) = S::as_simd_f32s(&self.sums.values[place(index, at)..][..L]);
                array::from_fn(|vector| line[first + vector])
            })
        });
        for k in 0..depth {
            let inputs: [S::f32s; R] = array::from_fn(|index| simd.splat_f32s(inputs[index][k]));
            for (at, panel) in panels.iter().enumerate() {
                let line = W::line(&panel[k]);
                let (line, _) = S::as_simd_f32s(line.borrow());
                for vector in 0..V {
                    // One register for the weights, so that three rows of sums and their inputs have the others.
                    let weights = line[first + vector];
                    for (sums, input) in sums.iter_mut().zip(inputs) {
                        sums[at][vector] = simd.mul_add_e_f32s(input, weights, sums[at][vector]);
                    }
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            for (at, sums) in sums.iter().enumerate() {
                let to = place(index, at);
                let (line, _) = S::as_mut_simd_f32s(&mut self.sums.values[to..][..L]);
                line[first..first + V].copy_from_slice(sums);
            }
        }
        R
    }
}

/// Adds `rows` of `inputs` times panels of blocks of `depth` inputs to the sums, [`LANES`] for each panel. Panels are
/// equally long.
///
/// A block's weights are `number * scale + offset`, so its products are `scale * sum(input * number) + offset *
/// sum(input)`.
///
/// Weights are widened in registers, once for each three rows. Tried instead: once for all rows, in memory. That took
/// 1.5 times as long for eight rows, since a block is short.
pub(crate) fn multiply_blocks<B: Scales, const P: usize>(
    panels: [&[Block<B>]; P],
    depth: usize,
    inputs: Inputs<'_>,
    sums: Sums<'_>,
    rows: usize,
) {
    pulp::Arch::new().dispatch(MultiplyBlocks { panels, depth, inputs, sums, rows });
}

struct MultiplyBlocks<'a, B, const P: usize> {
    panels: [&'a [Block<B>]; P],
    depth: usize,
    inputs: Inputs<'a>,
    sums: Sums<'a>,
    rows: usize,
}

impl<B: Scales, const P: usize> WithSimd for MultiplyBlocks<'_, B, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES == 16 { self.tiles::<S, 2>(simd) } else { self.tiles::<S, 4>(simd) }
    }
}

impl<B: Scales, const P: usize> MultiplyBlocks<'_, B, P> {
    #[inline(always)]
    fn tiles<S: Simd, const V: usize>(mut self, simd: S) {
        for first in (0..LANES / S::F32_LANES).step_by(V) {
            if self.rows == 1 {
                self.tile::<S, 1, V, P>(simd, 0, 0, first);
                continue;
            }
            for panel in 0..P {
                self.all::<S, V, 1>(simd, panel, first);
            }
        }
    }
}

impl<B: Scales, const P: usize> Tiles for MultiplyBlocks<'_, B, P> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        panel: usize,
        first: usize,
    ) -> usize {
        let Inputs { values, stride } = self.inputs;
        let inputs: [&[f32]; R] = array::from_fn(|index| &values[(row + index) * stride..][..self.depth]);
        let place = |index: usize, at: usize| (row + index) * self.sums.stride + (panel + at) * LANES;
        for (number, from) in (0..self.depth).step_by(BLOCK).enumerate() {
            let count = BLOCK.min(self.depth - from);
            let blocks: [&Block<B>; N] = array::from_fn(|at| &self.panels[panel + at][number]);
            let inputs: [&[f32]; R] = array::from_fn(|index| &inputs[index][from..from + count]);
            let mut own = [[[simd.splat_f32s(0.0); V]; N]; R];
            let mut totals = [simd.splat_f32s(0.0); R];
            for k in 0..count {
                let inputs: [S::f32s; R] = array::from_fn(|index| simd.splat_f32s(inputs[index][k]));
                if blocks[0].scales.offsets().is_some() {
                    for (total, input) in totals.iter_mut().zip(inputs) {
                        *total = simd.add_f32s(*total, input);
                    }
                }
                for (at, block) in blocks.iter().enumerate() {
                    let mut wide = [0.0; LANES];
                    for (to, from) in wide.iter_mut().zip(&block.weights[k]) {
                        *to = f32::from(*from);
                    }
                    let (line, _) = S::as_simd_f32s(&wide);
                    for vector in 0..V {
                        let weights = line[first + vector];
                        for (own, input) in own.iter_mut().zip(inputs) {
                            own[at][vector] = simd.mul_add_e_f32s(input, weights, own[at][vector]);
                        }
                    }
                }
            }
            for (at, block) in blocks.iter().enumerate() {
                let scales = block.scales.scales();
                let (scales, _) = S::as_simd_f32s(scales.borrow());
                let offsets = block.scales.offsets().map(|offsets| S::as_simd_f32s(offsets).0);
                for (index, (own, total)) in own.iter().zip(totals).enumerate() {
                    let to = place(index, at);
                    let (sums, _) = S::as_mut_simd_f32s(&mut self.sums.values[to..][..LANES]);
                    for (vector, own) in own[at].iter().enumerate() {
                        let sum = &mut sums[first + vector];
                        *sum = simd.mul_add_e_f32s(*own, scales[first + vector], *sum);
                        if let Some(offsets) = offsets {
                            *sum = simd.mul_add_e_f32s(total, offsets[first + vector], *sum);
                        }
                    }
                }
            }
        }
        R
    }
}

/// Widens weights, with the vectors that the processor has. The slices are equally long.
pub(crate) fn widen<W: Weight>(from: &[W], to: &mut [f32]) {
    pulp::Arch::new().dispatch(Widen { from, to });
}

struct Widen<'a, W> {
    from: &'a [W],
    to: &'a mut [f32],
}

impl<W: Weight> WithSimd for Widen<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = from.wide();
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::{BLOCK, Block, Inputs, LANES, Line, Scales, Sums, multiply, multiply_blocks, widen};
    use crate::math::pack::Affine;

    #[test]
    fn every_finite_number_of_16_bits_widens_exactly() {
        let mut wide = vec![0.0; 1 << 16];
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        widen(&all, &mut wide);
        for (half, value) in all.iter().zip(&wide).filter(|(half, _)| half.is_finite()) {
            assert_eq!(value.to_bits(), half.to_f32().to_bits(), "{half}");
        }
        let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        widen(&all, &mut wide);
        for (half, value) in all.iter().zip(&wide).filter(|(half, _)| half.is_finite()) {
            assert_eq!(value.to_bits(), half.to_f32().to_bits(), "{half}");
        }
    }

    #[test]
    fn products_are_sums_in_order_whatever_rows_share_them() {
        products_are_sums_in_order::<LANES>();
        products_are_sums_in_order::<8>();
    }

    fn products_are_sums_in_order<const L: usize>() {
        let number = |seed: usize| ((seed * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5;
        for depth in [0, 1, 7, 40] {
            let panels: [Vec<Line<L>>; 2] = [0, 9].map(|seed| {
                let line = |k| std::array::from_fn(|lane| number(seed + k * L + lane));
                (0..depth).map(line).collect()
            });
            for rows in 0..9 {
                let (inner, outer) = (depth + 3, 2 * L + 5);
                let values: Vec<f32> = (0..rows * inner).map(|at| number(at + 5)).collect();
                let mut sums: Vec<f32> = (0..rows * outer).map(|at| number(at + 9)).collect();
                let before = sums.clone();
                let inputs = Inputs { values: &values, stride: inner };
                let of = Sums { values: &mut sums, stride: outer };
                multiply([&panels[0][..], &panels[1][..]], inputs, of, rows);
                for (row, (sums, before)) in sums.chunks(outer).zip(before.chunks(outer)).enumerate() {
                    for column in 0..2 * L {
                        let terms = panels[column / L].iter().zip(&values[row * inner..]);
                        let sum =
                            terms.fold(before[column], |sum, (line, x)| x.mul_add(line[column % L], sum));
                        // A processor without fused multiply-adds rounds each product.
                        assert!((sum - sums[column]).abs() < 1e-5);
                        if !matches!(pulp::Arch::new(), pulp::Arch::Scalar) {
                            assert_eq!(sum.to_bits(), sums[column].to_bits());
                        }
                    }
                    assert_eq!(sums[2 * L..], before[2 * L..]);
                }
            }
        }
    }

    #[test]
    fn products_of_blocks_are_the_same_whatever_rows_share_them() {
        products_of_blocks::<[f16; LANES]>(|lane| f16::from_f32(lane as f32 / 999.0));
        products_of_blocks::<Affine>(|lane| [lane as f32 / 999.0, lane as f32 / -7.0]);
    }

    fn products_of_blocks<S: Scales>(one: impl Fn(usize) -> S::One) {
        for depth in [1_usize, 31, 32, 70] {
            let panels: [Vec<Block<S>>; 2] = [3, 11].map(|seed| {
                let mut blocks: Vec<Block<S>> =
                    (0..depth.div_ceil(BLOCK)).map(|_| Block::default()).collect();
                for (number, block) in blocks.iter_mut().enumerate() {
                    for (k, line) in block.weights.iter_mut().enumerate().take(depth - number * BLOCK) {
                        *line = std::array::from_fn(|lane| ((seed + k * 37 + lane * 11) % 255) as i8);
                    }
                    (0..LANES).for_each(|lane| block.scales.set(lane, one(seed + lane)));
                }
                blocks
            });
            let product = |values: &[f32], rows: usize| {
                let mut sums = vec![0.5; rows * 2 * LANES];
                let (inputs, of) =
                    (Inputs { values, stride: depth }, Sums { values: &mut sums, stride: 2 * LANES });
                multiply_blocks([&panels[0][..], &panels[1][..]], depth, inputs, of, rows);
                sums
            };
            let values: Vec<f32> =
                (0..9 * depth).map(|at| (at * 7919 % 1009) as f32 / 1009.0 - 0.5).collect();
            let alone: Vec<f32> = values.chunks(depth).flat_map(|row| product(row, 1)).collect();
            for rows in 1..=9 {
                let together = product(&values[..rows * depth], rows);
                assert!(together.iter().zip(&alone).all(|(left, right)| left.to_bits() == right.to_bits()));
            }
            for (at, sum) in alone.iter().enumerate() {
                let (row, panel, lane) = (at / (2 * LANES), at % (2 * LANES) / LANES, at % LANES);
                let term = |(k, value): (usize, &f32)| {
                    let block = &panels[panel][k / BLOCK];
                    f64::from(*value) * f64::from(block.scales.weight(lane, block.weights[k % BLOCK][lane]))
                };
                let exact: f64 = values[row * depth..][..depth].iter().enumerate().map(term).sum();
                assert!((f64::from(*sum) - 0.5 - exact).abs() < 1e-4, "{sum} {exact}");
            }
        }
    }
}
