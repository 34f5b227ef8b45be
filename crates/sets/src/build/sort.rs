//! Sorts items: in memory, and with runs in temporary files where memory does not suffice.
//!
//! The sort compares a key of the first two tokens first. The key lies next to the item's number, so that most
//! comparisons do not touch the items. Each run in a file is sorted and free of duplicates. The runs are merged when
//! all items are there.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::Path,
};

use rayon::slice::ParallelSliceMut;

use crate::error::Line;

/// The most runs of one merge: each run is an open file.
const FAN_IN: usize = 64;

/// Bytes of memory that an item takes besides its tokens: its end, its line, and its key with its number.
const ITEM_BYTES: usize = 32;

/// Items in memory, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Items {
    tokens: Vec<u32>,
    ends: Vec<usize>,
    lines: Vec<Line>,
}

impl Items {
    pub(crate) fn push(&mut self, line: Line, item: impl Iterator<Item = u32>) {
        self.tokens.extend(item);
        self.ends.push(self.tokens.len());
        self.lines.push(line);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The memory that these items take while they are sorted, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        4 * self.tokens.len() + ITEM_BYTES * self.ends.len()
    }

    pub(crate) fn get(&self, index: u32) -> &[u32] {
        let index = index as usize;
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.tokens[begin..self.ends[index]]
    }

    /// The numbers of the items in order, each item once. Of equal items the first stays; `twin` gets the line of each
    /// other one with the line of the first.
    pub(crate) fn sorted(&self, mut twin: impl FnMut(Line, Line)) -> Vec<u32> {
        let key = |index: u32| {
            // One more than the token, so that an item sorts in front of those that it begins.
            let token = |at: usize| self.get(index).get(at).map_or(0, |token| u64::from(*token) + 1);
            (token(0) << 32 | token(1), index)
        };
        let rest = |index: u32| self.get(index).get(2..).unwrap_or_default();
        let count = u32::try_from(self.len()).expect("a run has fewer than 2^32 items");
        let mut order: Vec<(u64, u32)> = (0..count).map(key).collect();
        order.par_sort_unstable_by(|one, other| {
            let by_key = one.0.cmp(&other.0);
            by_key.then_with(|| rest(one.1).cmp(rest(other.1))).then(one.1.cmp(&other.1))
        });
        let mut kept: Vec<u32> = Vec::with_capacity(order.len());
        for (_, index) in order {
            match kept.last().filter(|last| self.get(**last) == self.get(index)) {
                Some(first) => twin(self.lines[index as usize], self.lines[*first as usize]),
                None => kept.push(index),
            }
        }
        kept
    }

    /// Writes the items in order to a temporary file.
    pub(crate) fn spill(&self, folder: &Path, twin: impl FnMut(Line, Line)) -> io::Result<Run> {
        let mut run = RunWriter::new(folder)?;
        for index in self.sorted(twin) {
            run.push(self.lines[index as usize], self.get(index))?;
        }
        run.finish()
    }
}

/// Sorted items in a temporary file; the file is deleted with the run.
#[derive(Debug)]
pub(crate) struct Run(File);

impl Run {
    /// Reads the run from its beginning.
    pub(crate) fn read(&self) -> io::Result<RunReader> {
        let mut file = self.0.try_clone()?;
        file.rewind()?;
        Ok(RunReader { input: BufReader::with_capacity(1 << 18, file), bytes: Vec::new() })
    }
}

struct RunWriter(BufWriter<File>);

impl RunWriter {
    fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self(BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(folder)?)))
    }

    fn push(&mut self, line: Line, item: &[u32]) -> io::Result<()> {
        self.0.write_all(&line.to_le_bytes())?;
        self.0.write_all(&u32::try_from(item.len()).map_err(io::Error::other)?.to_le_bytes())?;
        item.iter().try_for_each(|token| self.0.write_all(&token.to_le_bytes()))
    }

    fn finish(self) -> io::Result<Run> {
        self.0.into_inner().map(Run).map_err(io::IntoInnerError::into_error)
    }
}

pub(crate) struct RunReader {
    input: BufReader<File>,
    bytes: Vec<u8>,
}

impl RunReader {
    /// The next item with its line, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<u32>, Line)>> {
        let mut line = [0; 8];
        match self.input.read_exact(&mut line) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let mut len = [0; 4];
        self.input.read_exact(&mut len)?;
        self.bytes.resize(4 * u32::from_le_bytes(len) as usize, 0);
        self.input.read_exact(&mut self.bytes)?;
        let item = self.bytes.as_chunks().0.iter().map(|token| u32::from_le_bytes(*token)).collect();
        Ok(Some((item, u64::from_le_bytes(line))))
    }
}

/// Merges runs into one, each item once. `twin` gets the line of each dropped item with that of its equal. There may
/// be any number of runs.
pub(crate) fn merge(mut runs: Vec<Run>, folder: &Path, twin: &mut dyn FnMut(Line, Line)) -> io::Result<Run> {
    while runs.len() > FAN_IN {
        let later = runs.split_off(FAN_IN);
        let merged = merge_some(&runs, folder, twin)?;
        runs = later;
        runs.push(merged);
    }
    merge_some(&runs, folder, twin)
}

fn merge_some(runs: &[Run], folder: &Path, twin: &mut dyn FnMut(Line, Line)) -> io::Result<Run> {
    let mut readers = runs.iter().map(Run::read).collect::<io::Result<Vec<_>>>()?;
    let mut heap = BinaryHeap::new();
    for (index, reader) in readers.iter_mut().enumerate() {
        heap.extend(reader.next()?.map(|(item, line)| Reverse((item, line, index))));
    }
    let mut out = RunWriter::new(folder)?;
    let mut last: Option<(Vec<u32>, Line)> = None;
    // The smallest line comes first among equal items.
    while let Some(Reverse((item, line, index))) = heap.pop() {
        heap.extend(readers[index].next()?.map(|(item, line)| Reverse((item, line, index))));
        match &last {
            Some((kept, first)) if *kept == item => twin(line, *first),
            _ => {
                out.push(line, &item)?;
                last = Some((item, line));
            }
        }
    }
    out.finish()
}
