//! The weights of a matrix in panels ([`crate::math::kernel`]), packed from the rows of a tensor as they come out of a
//! file.
//!
//! Numbers of a file come as they are, or in the blocks of ggml ([`crate::math::blocks`]).
//!
//! Rows come in groups of whole panels, so that a file is read a few megabytes at a time and nothing else is held
//! than the result. Threads share the panels of a group.

use std::borrow::Borrow;

use half::{bf16, f16};

use crate::math::blocks::{BlockType, Kept, MOST};
use crate::math::kernel::{LANES, Line, Weight};
use crate::threads::*;

/// Inputs of a block, whose weights for one output share a scale.
pub(crate) const BLOCK: usize = 32;

/// The weights of [`BLOCK`] inputs in a panel, as whole numbers of eight bits, and what makes weights of them.
#[derive(Clone, Debug)]
pub(crate) struct Block<S> {
    pub(crate) weights: [[i8; LANES]; BLOCK],
    pub(crate) scales: S,
}

impl<S: Scales> Default for Block<S> {
    fn default() -> Self {
        Self { weights: [[0; LANES]; BLOCK], scales: S::ZERO }
    }
}

/// The scales of a block, one for each output, and maybe the offsets: `weight = number * scale + offset`.
pub(crate) trait Scales: Send + Sync {
    /// What an output has.
    type One: Copy;

    const ZERO: Self;

    fn set(&mut self, lane: usize, one: Self::One);

    /// A part that is infinite or not a number.
    fn not_finite(one: Self::One) -> Option<f32>;

    /// The weight of an output.
    fn weight(&self, lane: usize, number: i8) -> f32;

    fn scales(&self) -> impl Borrow<Line>;

    fn offsets(&self) -> Option<&Line>;
}

/// Scales alone.
impl Scales for [f16; LANES] {
    type One = f16;

    const ZERO: Self = [f16::ZERO; LANES];

    fn set(&mut self, lane: usize, one: f16) {
        self[lane] = one;
    }

    fn not_finite(one: f16) -> Option<f32> {
        (!one.is_finite()).then(|| one.to_f32())
    }

    fn weight(&self, lane: usize, number: i8) -> f32 {
        f32::from(number) * self[lane].to_f32()
    }

    #[inline(always)]
    fn scales(&self) -> impl Borrow<Line> {
        f16::line(self)
    }

    #[inline(always)]
    fn offsets(&self) -> Option<&Line> {
        None
    }
}

/// Scales and offsets.
#[derive(Clone, Debug)]
pub(crate) struct Affine {
    scales: Line,
    offsets: Line,
}

impl Scales for Affine {
    type One = [f32; 2];

    const ZERO: Self = Self { scales: [0.0; LANES], offsets: [0.0; LANES] };

    fn set(&mut self, lane: usize, [scale, offset]: [f32; 2]) {
        self.scales[lane] = scale;
        self.offsets[lane] = offset;
    }

    fn not_finite(one: [f32; 2]) -> Option<f32> {
        one.into_iter().find(|part| !part.is_finite())
    }

    fn weight(&self, lane: usize, number: i8) -> f32 {
        f32::from(number) * self.scales[lane] + self.offsets[lane]
    }

    #[inline(always)]
    fn scales(&self) -> impl Borrow<Line> {
        &self.scales
    }

    #[inline(always)]
    fn offsets(&self) -> Option<&Line> {
        Some(&self.offsets)
    }
}

/// The lines of all panels, one panel after the other.
#[derive(Clone, Debug)]
pub(crate) enum Lines {
    F32(Vec<Line>),
    F16(Vec<[f16; LANES]>),
    Bf16(Vec<[bf16; LANES]>),
    /// Blocks of the inputs, the last of a panel filled up with zeros.
    Q8(Vec<Block<[f16; LANES]>>),
    /// The same, with offsets.
    Affine(Vec<Block<Affine>>),
}

/// The place of a weight that is infinite or not a number, and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotFinite {
    /// Position in row-major order.
    pub(crate) index: usize,
    pub(crate) value: f32,
}

/// A weight in a file.
trait Raw: Weight + Send + Sync {
    type Bytes: Copy + Sync;
    fn chunks(bytes: &[u8]) -> &[Self::Bytes];
    fn read(bytes: Self::Bytes) -> Self;
    /// Right for weights that are not finite, too.
    fn value(self) -> f32;
}

macro_rules! raw {
    ($type:ty, $bytes:literal, $value:expr) => {
        impl Raw for $type {
            type Bytes = [u8; $bytes];
            fn chunks(bytes: &[u8]) -> &[[u8; $bytes]] {
                bytes.as_chunks().0
            }
            fn read(bytes: [u8; $bytes]) -> Self {
                Self::from_le_bytes(bytes)
            }
            fn value(self) -> f32 {
                $value(self)
            }
        }
    };
}

raw!(f32, 4, std::convert::identity);
raw!(f16, 2, f16::to_f32);
raw!(bf16, 2, bf16::to_f32);

/// How a file stores weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F16,
    Bf16,
    Blocks(BlockType),
}

impl Format {
    /// The bytes of a row of `inputs` weights; `None` where blocks do not fill it.
    pub(crate) fn row_bytes(self, inputs: usize) -> Option<usize> {
        match self {
            Self::F32 => Some(4 * inputs),
            Self::F16 | Self::Bf16 => Some(2 * inputs),
            Self::Blocks(kind) => {
                inputs.is_multiple_of(kind.weights()).then(|| inputs / kind.weights() * kind.bytes())
            }
        }
    }
}

/// Packs the rows of one matrix, group by group.
pub(crate) struct Packer {
    outputs: usize,
    inputs: usize,
    format: Format,
    /// The rows so far; all but the last group are whole panels.
    rows: usize,
    lines: Lines,
}

impl Packer {
    /// For the weights `[outputs, inputs]` of a file. Blocks fill its rows.
    pub(crate) fn new([outputs, inputs]: [usize; 2], format: Format, quantizes: bool) -> Self {
        let panels = outputs.div_ceil(LANES);
        let count = panels * inputs;
        let blocks = panels * inputs.div_ceil(BLOCK);
        let kept = match format {
            Format::Blocks(kind) if !quantizes || kind.kept() == Kept::Scaled => kind.kept(),
            _ if quantizes => Kept::Scaled,
            _ => Kept::Wide,
        };
        let lines = match (kept, format) {
            (Kept::Scaled, _) => Lines::Q8(vec![Block::default(); blocks]),
            (Kept::Affine, _) => Lines::Affine(vec![Block::default(); blocks]),
            (_, Format::F32 | Format::Blocks(_)) => Lines::F32(vec![[0.0; LANES]; count]),
            (_, Format::F16) => Lines::F16(vec![[f16::ZERO; LANES]; count]),
            (_, Format::Bf16) => Lines::Bf16(vec![[bf16::ZERO; LANES]; count]),
        };
        Self { outputs, inputs, format, rows: 0, lines }
    }

    /// Adds rows, as a file has them: whole panels, or the last rows.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), NotFinite> {
        match self.format {
            Format::F32 => self.group::<f32>(f32::chunks(bytes)),
            Format::F16 => self.group::<f16>(f16::chunks(bytes)),
            Format::Bf16 => self.group::<bf16>(bf16::chunks(bytes)),
            Format::Blocks(kind) => match &mut self.lines {
                Lines::Q8(lines) if kind.kept() == Kept::Scaled => {
                    let read = |block: &[u8], each: &mut dyn FnMut(usize, f16, [i8; BLOCK])| {
                        let (scale, numbers) = kind.scaled(block);
                        each(0, scale, numbers);
                    };
                    self.rows += blocks(lines, [self.rows, self.inputs], kind, bytes, read)?;
                    Ok(())
                }
                Lines::Affine(lines) => {
                    let read = |block: &[u8], each: &mut dyn FnMut(usize, [f32; 2], [i8; BLOCK])| {
                        kind.affine(block, each);
                    };
                    self.rows += blocks(lines, [self.rows, self.inputs], kind, bytes, read)?;
                    Ok(())
                }
                Lines::F32(_) => self.values(kind, bytes),
                _ => self.group::<f32>(&raw_values(kind, bytes)),
            },
        }
    }

    /// Adds rows of blocks that become f32: the blocks of all rows of a panel at one place, and then their lines.
    fn values(&mut self, kind: BlockType, bytes: &[u8]) -> Result<(), NotFinite> {
        debug_assert_eq!(self.rows % LANES, 0);
        let (inputs, wide) = (self.inputs, kind.weights());
        let row_bytes = inputs / wide * kind.bytes();
        let Lines::F32(lines) = &mut self.lines else { unreachable!("such blocks become f32") };
        let panels = lines[self.rows / LANES * inputs..].par_chunks_mut(inputs);
        let panels = panels.zip(bytes.par_chunks(LANES * row_bytes));
        let is_finite = panels.map_init(
            || vec![[0.0; MOST]; LANES],
            |values, (lines, rows)| {
                let mut is_finite = true;
                for (at, lines) in lines.chunks_exact_mut(wide).enumerate() {
                    for (row, values) in rows.chunks_exact(row_bytes).zip(&mut *values) {
                        kind.values(&row[at * kind.bytes()..][..kind.bytes()], &mut values[..wide]);
                        is_finite &= values[..wide].iter().fold(true, |all, value| all & value.is_finite());
                    }
                    for (lane, values) in values[..rows.len() / row_bytes].iter().enumerate() {
                        lines.iter_mut().zip(values).for_each(|(line, value)| line[lane] = *value);
                    }
                }
                is_finite
            },
        );
        if !is_finite.reduce_with(|all, one| all & one).unwrap_or(true) {
            let lines = &lines[self.rows / LANES * inputs..];
            let all = (0..bytes.len() / row_bytes).flat_map(|row| (0..inputs).map(move |input| (row, input)));
            let value = |(row, input): (usize, usize)| lines[row / LANES * inputs + input][row % LANES];
            let first = all.map(value).zip(self.rows * inputs..).find(|(value, _)| !value.is_finite());
            let (value, index) = first.expect("one of them is not finite");
            return Err(NotFinite { index, value });
        }
        self.rows += bytes.len() / row_bytes;
        Ok(())
    }

    fn group<R: Raw>(&mut self, weights: &[R::Bytes]) -> Result<(), NotFinite> {
        debug_assert_eq!(self.rows % LANES, 0);
        let inputs = self.inputs;
        let is_finite = |raw: &R::Bytes| R::read(*raw).value().is_finite();
        // Some thousands at once: a search for the first looks at what others have found after each.
        let all_finite = |raw: &[R::Bytes]| raw.iter().fold(true, |all, raw| all & is_finite(raw));
        if !weights.par_chunks(1 << 12).all(all_finite)
            && let Some(at) = weights.iter().position(|raw| !is_finite(raw))
        {
            let index = self.rows * inputs + at;
            return Err(NotFinite { index, value: R::read(weights[at]).value() });
        }
        let from = self.rows / LANES;
        let panels = weights.par_chunks(LANES * inputs);
        match &mut self.lines {
            Lines::F32(lines) => {
                fill(&mut lines[from * inputs..], inputs, panels, |raw| R::read(raw).value());
            }
            Lines::F16(lines) => {
                fill(&mut lines[from * inputs..], inputs, panels, |raw| f16::from_f32(R::read(raw).value()));
            }
            Lines::Bf16(lines) => {
                fill(&mut lines[from * inputs..], inputs, panels, |raw| bf16::from_f32(R::read(raw).value()));
            }
            Lines::Q8(blocks) => {
                let wide = inputs.div_ceil(BLOCK);
                blocks[from * wide..].par_chunks_mut(wide).zip(panels).for_each(|(blocks, rows)| {
                    for (lane, row) in rows.chunks(inputs).enumerate() {
                        quantize::<R>(row, lane, blocks);
                    }
                });
            }
            Lines::Affine(_) => unreachable!("blocks with offsets come as they are"),
        }
        self.rows += weights.len() / inputs;
        Ok(())
    }

    /// The lines, and how the file stores them.
    pub(crate) fn finish(self) -> (Lines, Format) {
        debug_assert_eq!(self.rows, self.outputs);
        (self.lines, self.format)
    }
}

/// The values of blocks, as a file of f32 has them.
fn raw_values(kind: BlockType, bytes: &[u8]) -> Vec<[u8; 4]> {
    let blocks = bytes.par_chunks_exact(kind.bytes());
    let mut raw = vec![[0; 4]; blocks.len() * kind.weights()];
    blocks.zip(raw.par_chunks_exact_mut(kind.weights())).for_each_init(
        || vec![0.0; kind.weights()],
        |values, (block, raw)| {
            kind.values(block, values);
            raw.iter_mut().zip(values).for_each(|(raw, value)| *raw = value.to_le_bytes());
        },
    );
    raw
}

/// Adds rows of blocks that are kept as they are, after the first `rows` rows of `inputs` weights, and answers how
/// many.
/// `read` takes a block apart into parts of [`BLOCK`] weights.
fn blocks<S: Scales>(
    lines: &mut [Block<S>],
    [rows, inputs]: [usize; 2],
    kind: BlockType,
    bytes: &[u8],
    read: impl Fn(&[u8], &mut dyn FnMut(usize, S::One, [i8; BLOCK])) + Sync,
) -> Result<usize, NotFinite> {
    debug_assert_eq!(rows % LANES, 0);
    let (wide, parts) = (inputs / BLOCK, kind.weights() / BLOCK);
    let row_bytes = wide / parts * kind.bytes();
    let panels = lines[rows / LANES * wide..].par_chunks_mut(wide).zip(bytes.par_chunks(LANES * row_bytes));
    let not_finite = panels.enumerate().map(|(panel, (lines, of_panel))| {
        let mut first = None;
        for (lane, row) in of_panel.chunks_exact(row_bytes).enumerate() {
            for (number, block) in row.chunks_exact(kind.bytes()).enumerate() {
                read(block, &mut |part, one, numbers| {
                    let line = &mut lines[number * parts + part];
                    let index = (rows + panel * LANES + lane) * inputs + (number * parts + part) * BLOCK;
                    first = first.or_else(|| Some(NotFinite { index, value: S::not_finite(one)? }));
                    line.scales.set(lane, one);
                    line.weights.iter_mut().zip(numbers).for_each(|(line, number)| line[lane] = number);
                });
            }
        }
        first
    });
    match not_finite.find_map_first(|first| first) {
        Some(first) => Err(first),
        None => Ok(bytes.len() / row_bytes),
    }
}

/// Writes the panels' rows into their lanes.
fn fill<B: Copy + Sync, W: Copy + Send>(
    lines: &mut [[W; LANES]],
    inputs: usize,
    panels: Chunks<'_, B>,
    of: impl Fn(B) -> W + Sync,
) {
    lines.par_chunks_mut(inputs).zip(panels).for_each(|(lines, rows)| {
        // Some lines at a time, which stay in cache while each row passes.
        const DEPTH: usize = 64;
        for (number, lines) in lines.chunks_mut(DEPTH).enumerate() {
            for (lane, row) in rows.chunks(inputs).enumerate() {
                let weights = &row[number * DEPTH..][..lines.len()];
                for (line, weight) in lines.iter_mut().zip(weights) {
                    line[lane] = of(*weight);
                }
            }
        }
    });
}

/// Writes a row into one lane of blocks: whole numbers from -127 to 127, and a scale for each block, as q8_0 of
/// llama.cpp.
fn quantize<R: Raw>(row: &[R::Bytes], lane: usize, blocks: &mut [Block<[f16; LANES]>]) {
    for (weights, block) in row.chunks(BLOCK).zip(blocks) {
        let values = || weights.iter().map(|raw| R::read(*raw).value());
        let most = values().fold(0.0_f32, |most, value| most.max(value.abs()));
        let scale = f16::from_f32(most / 127.0);
        // The scale is rounded to f16; a weight beyond its range stays at the range's end.
        let inverse = if scale.to_f32() > 0.0 { 1.0 / scale.to_f32() } else { 0.0 };
        block.scales[lane] = scale;
        for (line, value) in block.weights.iter_mut().zip(values()) {
            line[lane] = (value * inverse).round().clamp(-127.0, 127.0) as i8;
        }
    }
}
