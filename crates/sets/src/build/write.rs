//! Writes sorted items, one after the other, as the bytes of a set.
//!
//! The writer needs the lengths of the columns beforehand, so there are two passes over the items: [`Shape`] counts,
//! [`SetWriter`] writes. Each column is written from its beginning to its end through a buffer of its own. A set that
//! does not fit in memory is therefore written to a file in one pass, and the same code writes sets in memory.

use std::{
    hash::Hasher,
    io::{self, Seek, SeekFrom, Write},
};

use twox_hash::XxHash3_64;

use crate::{
    error::SetError,
    item_set::{
        column::{EndsWriter, width_for},
        layout::{FIRST_STARTS, FIRST_TOKENS, FOLLOWERS, Layout, MAX_VOCAB, Origin, Part, SUBSETS, WIDE},
        wide::{SHARE, WideWriter},
    },
};

/// The memory of the buffers of all columns together, about, in bytes.
const BUFFERS: usize = 1 << 23;

/// The lengths of a set that is to be written.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) items: u32,
    pub(crate) has_empty: bool,
    column_lens: Vec<u32>,
}

impl Shape {
    /// Counts an item that differs from all others.
    pub(crate) fn count(&mut self, tokens: usize) -> Result<(), SetError> {
        // The last place stays free, so that 32 bits can also number the end.
        let limit = u32::MAX - 1;
        if self.items == limit {
            return Err(SetError::TooManyItems { limit });
        }
        self.items += 1;
        self.has_empty |= tokens == 0;
        if self.column_lens.len() < tokens {
            self.column_lens.resize(tokens, 0);
        }
        self.column_lens[..tokens].iter_mut().for_each(|len| *len += 1);
        Ok(())
    }
}

/// The writer of one part.
struct PartWriter {
    /// The place of the next bytes.
    at: u64,
    buffer: Vec<u8>,
    hasher: XxHash3_64,
}

impl PartWriter {
    fn new(begin: usize) -> Self {
        Self { at: begin as u64, buffer: Vec::new(), hasher: XxHash3_64::new() }
    }

    fn flush(&mut self, out: &mut (impl Write + Seek)) -> io::Result<()> {
        if !self.buffer.is_empty() {
            out.seek(SeekFrom::Start(self.at))?;
            out.write_all(&self.buffer)?;
            self.hasher.write(&self.buffer);
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

struct ColumnWriter {
    tokens: PartWriter,
    ends: PartWriter,
    bits: EndsWriter,
}

/// The index over the first column while the items come.
#[derive(Default)]
struct Index {
    /// The latest first token, and the number of items with a first token so far.
    first: Option<u32>,
    rows: u32,
    first_tokens: Vec<u8>,
    first_starts: Vec<u8>,
    width: usize,
}

impl Index {
    fn push(&mut self, item: &[u32]) {
        let Some(first) = item.first() else { return };
        if self.first != Some(*first) {
            self.first = Some(*first);
            self.first_tokens.extend(&first.to_le_bytes()[..self.width]);
            self.first_starts.extend(self.rows.to_le_bytes());
        }
        self.rows += 1;
    }
}

/// Writes items that come sorted, without duplicates, and in the given shape.
pub(crate) struct SetWriter<W> {
    out: W,
    layout: Layout,
    columns: Vec<ColumnWriter>,
    index: Index,
    wide: WideWriter,
    flush_at: usize,
}

impl<W: Write + Seek> SetWriter<W> {
    pub(crate) fn new(out: W, shape: &Shape, vocab_len: usize, fingerprint: u64) -> Result<Self, SetError> {
        if vocab_len > MAX_VOCAB {
            return Err(SetError::TooManyIds { vocab_len, limit: MAX_VOCAB });
        }
        let mut layout = Layout {
            fingerprint,
            items: shape.items,
            vocab_len: vocab_len as u32,
            width: width_for(vocab_len),
            has_empty: shape.has_empty,
            ..Layout::default()
        };
        layout.columns.resize_with(shape.column_lens.len(), Default::default);
        layout.columns.iter_mut().zip(&shape.column_lens).for_each(|(column, len)| column.len = *len);
        layout.place().ok_or(SetError::TooLarge)?;
        let column = |column: &crate::item_set::layout::Column| ColumnWriter {
            tokens: PartWriter::new(column.tokens.begin),
            ends: PartWriter::new(column.ends.begin),
            bits: EndsWriter::default(),
        };
        let columns: Vec<_> = layout.columns.iter().map(column).collect();
        let flush_at = (BUFFERS / columns.len().max(1)).clamp(1 << 10, 1 << 18);
        let index = Index { width: layout.width, ..Index::default() };
        let wide = WideWriter::new(layout.vocab_len, layout.width);
        Ok(Self { out, layout, columns, index, wide, flush_at })
    }

    /// The same writer, for a set that is made from another one.
    pub(crate) fn from(mut self, origin: Origin) -> Self {
        self.layout.origin = origin;
        self
    }

    pub(crate) fn push(&mut self, item: &[u32]) -> io::Result<()> {
        self.index.push(item);
        self.wide.push(item);
        let width = self.layout.width;
        for (at, (token, column)) in item.iter().zip(&mut self.columns).enumerate() {
            column.tokens.buffer.extend(&token.to_le_bytes()[..width]);
            column.bits.push(at + 1 == item.len(), &mut column.ends.buffer);
            if column.tokens.buffer.len() >= self.flush_at {
                column.tokens.flush(&mut self.out)?;
                column.ends.flush(&mut self.out)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining bytes, the subsets, and the header. Returns the output.
    pub(crate) fn finish(mut self, subsets: Vec<u8>) -> Result<W, SetError> {
        let end = |mut part: PartWriter, out: &mut W, place: &mut Part| {
            part.flush(out)?;
            place.checksum = part.hasher.finish();
            io::Result::Ok(())
        };
        for (column, place) in self.columns.into_iter().zip(&mut self.layout.columns) {
            let ColumnWriter { tokens, mut ends, mut bits } = column;
            bits.flush(&mut ends.buffer);
            end(tokens, &mut self.out, &mut place.tokens)?;
            end(ends, &mut self.out, &mut place.ends)?;
        }
        let Index { first_tokens, first_starts, .. } = self.index;
        let tokens: u64 = self.layout.columns.iter().map(|column| u64::from(column.len)).sum();
        let (entries, followers) = self.wide.finish(tokens * self.layout.width as u64 / SHARE);
        let sections = [
            (FIRST_TOKENS, first_tokens),
            (FIRST_STARTS, first_starts),
            (WIDE, entries),
            (FOLLOWERS, followers),
            (SUBSETS, subsets),
        ];
        for (section, bytes) in &sections {
            self.layout.sections[*section].len = bytes.len();
        }
        self.layout.place().ok_or(SetError::TooLarge)?;
        for (section, bytes) in sections {
            let place = &mut self.layout.sections[section];
            let mut part = PartWriter::new(place.begin);
            part.buffer = bytes;
            end(part, &mut self.out, place)?;
        }
        if self.layout.origin == Origin::default() {
            self.layout.origin.lineage = self.layout.identity();
        }
        // An empty last part may lie after the written bytes, and an empty set is its header and the padding after it.
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&self.layout.to_bytes())?;
        let written = self.out.seek(SeekFrom::End(0))?;
        if let Some(missing) = (self.layout.len as u64).checked_sub(written).filter(|missing| *missing > 0) {
            let missing = usize::try_from(missing).expect("less than the padding of a few parts");
            self.out.write_all(&vec![0; missing])?;
        }
        Ok(self.out)
    }
}
