//! A set on a device.

use std::sync::Arc;

use unskew_core::{Constraint, MaskBatch, MaskRef, TokenId, words_for};
use unskew_shaders::{INTERVAL_MASK, INTERVAL_STEP, Interval, PARTS, PPV, SetArrays};

use super::device::{Given, Gpu, GpuError};
use crate::{Cursor, ItemSet, SetConstraint};

/// An [`ItemSet`] uploaded to a device. Positions are [`Interval`]s, which have the meaning of a [`Cursor`].
#[derive(Debug)]
pub struct GpuSet {
    gpu: Arc<Gpu>,
    cells: Vec<wgpu::Buffer>,
    index: wgpu::Buffer,
    shape: wgpu::Buffer,
    root: Interval,
    vocab_len: usize,
}

impl From<&Cursor> for Interval {
    fn from(cursor: &Cursor) -> Self {
        let Cursor { depth, lo, hi, first_item, ends, wide: _ } = *cursor;
        Self { depth, lo, hi, first_item, ends: u32::from(ends), valid: 1 }
    }
}

/// The columns of a set in the arrays of the kernels. `None` where 32 bits cannot number the tokens.
fn arrays(set: &ItemSet) -> Option<SetArrays> {
    let words = |bytes: &[u8], into: &mut Vec<u32>| {
        let (whole, rest) = bytes.as_chunks::<4>();
        into.extend(whole.iter().map(|word| u32::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            into.push(u32::from_le_bytes(word));
        }
    };
    let width_log = set.token_bytes().trailing_zeros();
    let mut arrays =
        SetArrays { columns: set.longest() as u32, width_log, cells: Vec::new(), index: Vec::new() };
    arrays.index.resize(3 * set.longest(), 0);
    for (depth, (len, tokens, ends)) in set.columns().enumerate() {
        let first = u32::try_from(arrays.cells.len() * (4 >> width_log)).ok()?;
        // The end of the column needs a number too.
        first.checked_add(len)?;
        let block = u32::try_from(arrays.index.len()).ok()?;
        arrays.index[3 * depth..3 * depth + 3].copy_from_slice(&[len, first, block]);
        words(tokens, &mut arrays.cells);
        words(ends, &mut arrays.index);
    }
    Some(arrays)
}

impl GpuSet {
    /// Uploads `set`, with masks over `vocab_len` ids. All checksums are compared first.
    ///
    /// # Errors
    ///
    /// [`GpuError`], [`TooLarge`](GpuError::TooLarge) where the tokens do not fit into four bindings.
    pub fn new(gpu: Arc<Gpu>, set: &ItemSet, vocab_len: usize) -> Result<Self, GpuError> {
        let part = gpu.max_binding() / 4;
        Self::with_parts(gpu, set, vocab_len, part)
    }

    /// Uploads the set of a constraint, with its masks.
    ///
    /// # Errors
    ///
    /// [`GpuError::Filtered`] for a subset or a set with changes, and as [`new`](Self::new).
    pub fn of(gpu: Arc<Gpu>, constraint: &SetConstraint) -> Result<Self, GpuError> {
        if !constraint.is_plain() {
            return Err(GpuError::Filtered);
        }
        Self::new(gpu, constraint.set(), constraint.vocab_len())
    }

    /// As [`new`](Self::new), with at most `part` words in each of the four parts of the tokens.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_parts(gpu: Arc<Gpu>, set: &ItemSet, vocab_len: usize, part: u64) -> Result<Self, GpuError> {
        set.verify()?;
        gpu.fits("the ids of the set", set.vocab_len(), vocab_len as u64)?;
        let bytes = set.as_bytes().len();
        let arrays = arrays(set).ok_or_else(|| GpuError::TooLarge {
            what: "the tokens of the set",
            bytes: bytes as u64,
            limit: u32::MAX.into(),
            adapter: gpu.name().to_owned(),
        })?;
        let part = part.clamp(1, u32::MAX.into()) as usize;
        gpu.fits("the tokens of the set", 4 * arrays.cells.len(), 4 * (PARTS * part) as u64)?;
        gpu.fits("the ends of the set", 4 * arrays.index.len(), gpu.max_binding())?;
        let shape = [arrays.columns, arrays.width_log, part as u32, words_for(vocab_len) as u32];
        let (cells, index, shape) = gpu.with_memory(|gpu| {
            let mut parts = arrays.cells.chunks(part);
            let mut upload = || gpu.upload(parts.next().unwrap_or_default(), wgpu::BufferUsages::STORAGE);
            let cells = (0..PARTS).map(|_| upload()).collect();
            let index = gpu.upload(&arrays.index, wgpu::BufferUsages::STORAGE);
            (cells, index, gpu.upload(&shape, wgpu::BufferUsages::UNIFORM))
        })?;
        Ok(Self { gpu, cells, index, shape, root: Interval::from(&set.start()), vocab_len })
    }

    /// The empty prefix.
    pub fn start(&self) -> Interval {
        self.root
    }

    /// The buffers of the set, in the order of the bindings.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        self.cells.iter().chain([&self.index, &self.shape])
    }

    /// The number of ids of its masks.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// The arguments that every kernel over the set has.
    fn bindings(&self) -> Vec<Given<'_>> {
        self.buffers().map(Given::There).collect()
    }

    /// Advances each sequence by its token. Where no item has the longer prefix, the interval becomes invalid and
    /// stays so.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If `intervals` and `tokens` have different lengths.
    pub fn step(&self, intervals: &mut [Interval], tokens: &[TokenId]) -> Result<(), GpuError> {
        assert_eq!(intervals.len(), tokens.len(), "a token for each sequence");
        if tokens.is_empty() {
            return Ok(());
        }
        let tokens: Vec<u32> = tokens.iter().map(|token| token.0).collect();
        let mut words = to_words(intervals);
        let mut given = self.bindings();
        given.extend([Given::Words(&tokens), Given::Out(&mut words)]);
        self.gpu.run(&INTERVAL_STEP, tokens.len().div_ceil(INTERVAL_STEP.workgroup as usize), given)?;
        let after = words.as_chunks().0.iter().map(|words| Interval::from_words(*words));
        intervals.iter_mut().zip(after).for_each(|(interval, after)| *interval = after);
        Ok(())
    }

    /// Whether candidates may follow, with equally many candidates for each sequence: Parallel Prefix-Verification.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If the number of candidates is not a multiple of the number of sequences.
    pub fn candidates(&self, intervals: &[Interval], candidates: &[TokenId]) -> Result<Vec<bool>, GpuError> {
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let whole = !intervals.is_empty() && candidates.len().is_multiple_of(intervals.len());
        assert!(whole, "as many candidates for each sequence");
        let candidates: Vec<u32> = candidates.iter().map(|token| token.0).collect();
        let (intervals, mut valid) = (to_words(intervals), vec![0; candidates.len()]);
        let mut given = self.bindings();
        given.extend([Given::Words(&candidates), Given::Words(&intervals), Given::Out(&mut valid)]);
        self.gpu.run(&PPV, candidates.len().div_ceil(PPV.workgroup as usize), given)?;
        Ok(valid.into_iter().map(|valid| valid == 1).collect())
    }

    /// The exact mask of each sequence; the mask of an invalid interval is empty.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn masks(&self, intervals: &[Interval]) -> Result<MaskBatch, GpuError> {
        let mut batch = MaskBatch::new(intervals.len(), self.vocab_len);
        let each = words_for(self.vocab_len);
        if intervals.is_empty() || each == 0 {
            return Ok(batch);
        }
        let (words, mut masks) = (to_words(intervals), vec![0; intervals.len() * each]);
        let mut given = self.bindings();
        given.extend([Given::Words(&words), Given::Out(&mut masks)]);
        self.gpu.run(&INTERVAL_MASK, intervals.len(), given)?;
        for (row, words) in masks.chunks(each).enumerate() {
            batch.row_mut(row).copy_from(MaskRef::new(words, self.vocab_len));
        }
        Ok(batch)
    }
}

pub(crate) fn to_words(intervals: &[Interval]) -> Vec<u32> {
    intervals.iter().flat_map(|interval| interval.to_words()).collect()
}
