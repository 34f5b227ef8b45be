//! Matrices of weights, kept as a checkpoint stores them (f32, f16 or bf16) or in eight bits, and their products with
//! rows of inputs.
//!
//! A matrix of `outputs` rows and `inputs` columns lies in panels of [`LANES`] outputs, for the loop of
//! [`crate::math::kernel`]. The last panel is filled up with zeros. A product goes through the weights once for all
//! rows, panel by panel. Weights of 16 bits are widened a few kilobytes at a time, which then serve all rows out of the
//! first-level cache.
//!
//! Weights of eight bits come in blocks of 32 inputs ([`crate::math::pack`]). A block's products are summed on their
//! own and then multiplied by its scales, for one row as for many, so that a batch equals its items bit by bit.
//!
//! Threads share a product by ranges of panels: each thread reads its own weights. A small product is one thread's
//! work, because waking another one takes longer.

use std::{array, ops::Range};

use half::{bf16, f16};

use crate::math::kernel::{Inputs, LANES, Line, Sums, Weight, multiply, multiply_blocks, widen};
use crate::math::pack::{BLOCK, Block, Format, Lines, Packer, Scales};
use crate::threads::*;

/// Lines of a panel that are widened at a time, with those of another panel: 16 KiB of f32.
const DEPTH: usize = 64;

/// The multiplications that are worth a second thread: some fifteen microseconds.
pub(crate) const WORTH_A_THREAD: usize = 1 << 18;

/// A linear map with its weights.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    outputs: usize,
    inputs: usize,
    /// How the file stores it.
    format: Format,
    lines: Lines,
}

impl Matrix {
    /// The matrix that was packed.
    pub(crate) fn packed([outputs, inputs]: [usize; 2], packer: Packer) -> Self {
        let (lines, format) = packer.finish();
        Self { outputs, inputs, format, lines }
    }

    /// The f32 matrix with the weights `at(output * inputs + input)`.
    pub(crate) fn from_fn(outputs: usize, inputs: usize, at: impl Fn(usize) -> f32) -> Self {
        let mut lines = Vec::with_capacity(outputs.div_ceil(LANES) * inputs);
        for first in (0..outputs).step_by(LANES) {
            for input in 0..inputs {
                let mut line = [0.0; LANES];
                for (lane, output) in line.iter_mut().zip(first..outputs) {
                    *lane = at(output * inputs + input);
                }
                lines.push(line);
            }
        }
        Self { outputs, inputs, format: Format::F32, lines: Lines::F32(lines) }
    }

    /// The weights of one output, in f32.
    pub(crate) fn row(&self, output: usize, row: &mut [f32]) {
        debug_assert!(output < self.outputs && row.len() == self.inputs);
        let (panel, lane) = (output / LANES, output % LANES);
        let from = panel * self.inputs;
        let wide = self.inputs.div_ceil(BLOCK);
        match &self.lines {
            Lines::F32(lines) => values(&lines[from..], lane, row, |value| value),
            Lines::F16(lines) => values(&lines[from..], lane, row, f16::to_f32),
            Lines::Bf16(lines) => values(&lines[from..], lane, row, bf16::to_f32),
            Lines::Q8(blocks) => values_of_blocks(&blocks[panel * wide..], lane, row),
            Lines::Affine(blocks) => values_of_blocks(&blocks[panel * wide..], lane, row),
        }
    }

    /// A number, rounded to the type in which the weights are stored in the file.
    pub(crate) fn rounded(&self, value: f32) -> f32 {
        match self.format {
            Format::F16 => f16::from_f32(value).to_f32(),
            Format::Bf16 => bf16::from_f32(value).to_f32(),
            _ => value,
        }
    }

    /// The bytes that its weights take.
    pub(crate) fn bytes(&self) -> usize {
        match &self.lines {
            Lines::F32(lines) => size_of_val(&lines[..]),
            Lines::F16(lines) => size_of_val(&lines[..]),
            Lines::Bf16(lines) => size_of_val(&lines[..]),
            Lines::Q8(blocks) => size_of_val(&blocks[..]),
            Lines::Affine(blocks) => size_of_val(&blocks[..]),
        }
    }

    /// The name of the type in which its weights are kept.
    pub(crate) fn kept_as(&self) -> &'static str {
        match &self.lines {
            Lines::F32(_) => "f32",
            Lines::F16(_) => "f16",
            Lines::Bf16(_) => "bf16",
            Lines::Q8(_) => "q8_0",
            Lines::Affine(_) => "q8_affine",
        }
    }

    /// All weights, in f32 and row-major.
    pub(crate) fn to_vec(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.outputs * self.inputs];
        values.chunks_mut(self.inputs).enumerate().for_each(|(output, row)| self.row(output, row));
        values
    }

    /// The width of a row of a product.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The width of a row that it multiplies.
    #[cfg(feature = "burn")]
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    fn panels(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    /// Adds the inputs times their weights in `P` panels to `sums`, `P * LANES` for each row.
    fn panels_times<const P: usize>(
        &self,
        panel: usize,
        inputs: Inputs<'_>,
        sums: &mut [f32],
        wide: &mut Wide,
    ) {
        let of = |index: usize| (panel + index) * self.inputs..(panel + index + 1) * self.inputs;
        match &self.lines {
            Lines::F32(lines) => {
                // They need no widening.
                let panels: [&[Line]; P] = array::from_fn(|index| &lines[of(index)]);
                let stride = P * LANES;
                let rows = sums.len() / stride;
                multiply(panels, inputs, Sums { values: sums, stride }, rows);
            }
            Lines::F16(lines) => {
                wide.multiply::<f16, P>(array::from_fn(|index| &lines[of(index)]), inputs, sums);
            }
            Lines::Bf16(lines) => {
                wide.multiply::<bf16, P>(array::from_fn(|index| &lines[of(index)]), inputs, sums);
            }
            Lines::Q8(blocks) => self.blocks_times::<_, P>(blocks, panel, inputs, sums),
            Lines::Affine(blocks) => self.blocks_times::<_, P>(blocks, panel, inputs, sums),
        }
    }

    fn blocks_times<S: Scales, const P: usize>(
        &self,
        blocks: &[Block<S>],
        panel: usize,
        inputs: Inputs<'_>,
        sums: &mut [f32],
    ) {
        let count = self.inputs.div_ceil(BLOCK);
        let panels: [&[Block<S>]; P] = array::from_fn(|index| &blocks[(panel + index) * count..][..count]);
        let stride = P * LANES;
        let rows = sums.len() / stride;
        multiply_blocks(panels, self.inputs, inputs, Sums { values: sums, stride }, rows);
    }
}

/// The weights of one lane.
fn values<W: Copy>(lines: &[[W; LANES]], lane: usize, row: &mut [f32], wide: impl Fn(W) -> f32) {
    for (value, line) in row.iter_mut().zip(lines) {
        *value = wide(line[lane]);
    }
}

/// The same of blocks.
fn values_of_blocks<S: Scales>(blocks: &[Block<S>], lane: usize, row: &mut [f32]) {
    for (values, block) in row.chunks_mut(BLOCK).zip(blocks) {
        for (value, line) in values.iter_mut().zip(&block.weights) {
            *value = block.scales.weight(lane, line[lane]);
        }
    }
}

/// Weights of two panels that were widened, on a cache line's boundary.
#[repr(align(64))]
struct Wide([[Line; DEPTH]; 2]);

impl Wide {
    fn multiply<W: Weight, const P: usize>(
        &mut self,
        panels: [&[[W; LANES]]; P],
        inputs: Inputs<'_>,
        sums: &mut [f32],
    ) {
        let stride = P * LANES;
        let rows = sums.len() / stride;
        if rows == 1 {
            // Widened in registers, so that the weights are one stream out of memory.
            return multiply(panels, inputs, Sums { values: sums, stride }, rows);
        }
        for from in (0..panels[0].len()).step_by(DEPTH) {
            let depth = DEPTH.min(panels[0].len() - from);
            for (panel, wide) in panels.iter().zip(&mut self.0) {
                widen(panel[from..from + depth].as_flattened(), wide[..depth].as_flattened_mut());
            }
            let inputs = Inputs { values: &inputs.values[from..], ..inputs };
            let panels: [&[Line]; P] = array::from_fn(|index| &self.0[index][..depth]);
            multiply(panels, inputs, Sums { values: &mut *sums, stride }, rows);
        }
    }
}

/// A product to compute: where its rows go, row-major.
#[derive(Debug)]
pub(crate) struct Product<'a> {
    pub(crate) matrix: &'a Matrix,
    pub(crate) outputs: &'a mut [f32],
    /// Whether the product is added to the outputs, instead of replacing them.
    pub(crate) adds: bool,
}

impl<'a> Product<'a> {
    pub(crate) fn new(matrix: &'a Matrix, outputs: &'a mut [f32]) -> Self {
        Self { matrix, outputs, adds: false }
    }

    /// The work of a range of panels for each range of `size` panels. `columns` of a part are the outputs of its
    /// panels, one slice for each row.
    fn parts(self, size: usize) -> Vec<Part<'a>> {
        let Self { matrix, outputs, adds } = self;
        let mut parts: Vec<Part<'a>> = (0..matrix.panels())
            .step_by(size)
            .map(|from| Part {
                matrix,
                panels: from..matrix.panels().min(from + size),
                columns: Vec::new(),
                adds,
            })
            .collect();
        for row in outputs.chunks_exact_mut(matrix.outputs) {
            for (part, columns) in parts.iter_mut().zip(row.chunks_mut(size * LANES)) {
                part.columns.push(columns);
            }
        }
        parts
    }
}

struct Part<'a> {
    matrix: &'a Matrix,
    panels: Range<usize>,
    columns: Vec<&'a mut [f32]>,
    adds: bool,
}

impl Part<'_> {
    fn compute(mut self, inputs: &[f32]) {
        let inputs = Inputs { values: inputs, stride: self.matrix.inputs };
        let mut wide = Wide([[[0.0; LANES]; DEPTH]; 2]);
        let mut sums = vec![0.0; self.columns.len() * 2 * LANES];
        let mut panels = self.panels.clone();
        while let Some(panel) = panels.next() {
            if panels.next().is_some() {
                self.panels::<2>(panel, inputs, &mut sums, &mut wide);
            } else {
                let half = sums.len() / 2;
                self.panels::<1>(panel, inputs, &mut sums[..half], &mut wide);
            }
        }
    }

    /// Computes the columns of `P` panels.
    fn panels<const P: usize>(
        &mut self,
        panel: usize,
        inputs: Inputs<'_>,
        sums: &mut [f32],
        wide: &mut Wide,
    ) {
        sums.fill(0.0);
        self.matrix.panels_times::<P>(panel, inputs, sums, wide);
        let first = (panel - self.panels.start) * LANES;
        for (columns, sums) in self.columns.iter_mut().zip(sums.chunks_exact(P * LANES)) {
            for (output, sum) in columns[first..].iter_mut().zip(sums) {
                *output = if self.adds { *output + sum } else { *sum };
            }
        }
    }
}

/// Computes products that have the same `inputs`: at least one row, row-major, as wide as each matrix has inputs.
/// Each weight is read once.
pub(crate) fn compute<const N: usize>(inputs: &[f32], products: [Product<'_>; N]) {
    let panels: usize = products.iter().map(|product| product.matrix.panels()).sum();
    let threads = current_num_threads();
    // Inputs are rows times the width of each matrix.
    let work = panels * LANES * inputs.len();
    if threads == 1 || work < WORTH_A_THREAD {
        for product in products {
            let all = product.matrix.panels();
            product.parts(all).into_iter().for_each(|part| part.compute(inputs));
        }
        return;
    }
    // Twice as many parts as threads, since a thread may be late.
    let size = panels.div_ceil(2 * threads);
    let parts: Vec<Part<'_>> = products.into_iter().flat_map(|product| product.parts(size)).collect();
    parts.into_par_iter().for_each(|part| part.compute(inputs));
}

/// Calls `change` with each row of a row-major matrix and its number, on several threads where there are many rows.
pub(crate) fn for_rows(rows: &mut [f32], width: usize, change: impl Fn(usize, &mut [f32]) + Sync) {
    if rows.len() > width && 16 * rows.len() >= WORTH_A_THREAD {
        rows.par_chunks_exact_mut(width).enumerate().for_each(|(row, values)| change(row, values));
    } else {
        rows.chunks_exact_mut(width).enumerate().for_each(|(row, values)| change(row, values));
    }
}

/// The transpose of a row-major `[rows, columns]` matrix. The loop goes in square blocks so that both sides stay in
/// cache.
#[cfg(feature = "burn")]
pub(crate) fn transposed<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    const BLOCK: usize = 32;
    debug_assert_eq!(values.len(), rows * columns);
    let mut result = vec![T::default(); values.len()];
    for top in (0..rows).step_by(BLOCK) {
        for left in (0..columns).step_by(BLOCK) {
            for row in top..rows.min(top + BLOCK) {
                for column in left..columns.min(left + BLOCK) {
                    result[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    result
}

#[cfg(all(test, feature = "burn"))]
mod tests {
    use super::transposed;

    #[test]
    fn transposing_moves_rows_to_columns() {
        for (rows, columns) in [(1, 1), (1, 70), (70, 1), (33, 65)] {
            let values: Vec<usize> = (0..rows * columns).collect();
            let turned = transposed(&values, rows, columns);
            for row in 0..rows {
                for column in 0..columns {
                    assert_eq!(turned[column * rows + row], values[row * columns + column]);
                }
            }
        }
    }
}
