//! The places of all parts of a set. Memory and file hold the same bytes.
//!
//! ```text
//! "unskew items"  version: u32  checksum: u64  length: u64  fingerprint: u64  items: u64
//! vocab_len: u32  width: u32  columns: u32  flags: u32  lineage: u64  generation: u64  absorbed: u64
//! (length: u64  checksum: u64) for each of five sections
//! (tokens: u32  0: u32  checksum of tokens: u64  checksum of ends: u64) for each column
//! columns, each its tokens and its ends ..  sections ..
//! ```
//!
//! All numbers are little-endian, and every part begins at a multiple of 64 bytes. The place of a part follows from
//! the lengths of the parts in front of it, so a file cannot make parts overlap. The header's checksum, XXH3, covers
//! all bytes after it up to the end of the table, and its seed is the version. Each part has its own checksum.
//! Opening a file therefore reads its header and the index of the first column, also for large files, and
//! [`verify`](crate::ItemSet::verify) reads the rest on request.
//!
//! A part whose checksum is not compared may hold any bytes: its readers give wrong tokens at worst, and neither
//! panic nor loop.
//!
//! A set of version 2 has no [`Origin`] in its header, and its checksum has no seed. The reader takes it as the first
//! set of its lineage. A copy of it with other subsets is of version 2 again, so that the changes to the set stay
//! valid. A set that is compacted from it is of the present version.

use twox_hash::XxHash3_64;

use super::column::end_bytes;
use crate::error::SetFileError;

const MAGIC: &[u8; 12] = b"unskew items";

/// Rises whenever the layout changes.
const VERSION: u32 = 3;
/// As [`VERSION`], but without an [`Origin`] in the header.
const WITHOUT_ORIGIN: u32 = 2;

/// The place of the checksum; the bytes that it covers begin at `SUMMED`.
const CHECKSUM: usize = MAGIC.len() + 4;
const SUMMED: usize = CHECKSUM + 8;
/// The place of the numbers of 32 bits.
const NUMBERS: usize = SUMMED + 3 * 8;
/// The place of the origin.
const ORIGIN: usize = NUMBERS + 4 * 4;
/// The fixed part of the header.
const FIXED: usize = ORIGIN + 3 * 8;
const SECTION: usize = 16;
const COLUMN: usize = 24;

/// The most ids of a vocabulary: a mask of them takes 8 MiB.
pub(crate) const MAX_VOCAB: usize = 1 << 26;

/// Flag: the item without tokens is in the set.
const HAS_EMPTY: u32 = 1;

/// Parts begin at multiples of this, a line of the cache.
const ALIGN: usize = 64;

/// The number of sections after the columns.
pub(crate) const SECTIONS: usize = 5;
/// The distinct tokens of the first column, sorted.
pub(crate) const FIRST_TOKENS: usize = 0;
/// The begin of each of these tokens in the first column: 32 bits.
pub(crate) const FIRST_STARTS: usize = 1;
/// The prefixes whose followers are stored; see `wide.rs`.
pub(crate) const WIDE: usize = 2;
/// The stored followers of these prefixes.
pub(crate) const FOLLOWERS: usize = 3;
/// Named subsets.
pub(crate) const SUBSETS: usize = 4;

/// A part of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    pub(crate) begin: usize,
    pub(crate) len: usize,
    pub(crate) checksum: u64,
}

impl Part {
    /// The bytes of this part.
    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.begin..self.begin + self.len]
    }
}

/// A column: its tokens, and for each token the bit whether an item ends with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Column {
    /// The number of tokens.
    pub(crate) len: u32,
    pub(crate) tokens: Part,
    pub(crate) ends: Part,
}

/// The checksum of all header bytes after it; the version in front of it is the seed.
fn checksum(version: u32, bytes: &[u8]) -> u64 {
    let seed = if version == WITHOUT_ORIGIN { 0 } else { u64::from(version) };
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// The origin of a set, so that changes that are part of the set already are recognised: see
/// [`SetStore`](crate::SetStore).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Origin {
    /// The identity of the set that was built from items. All sets that are compacted from it, one after the other,
    /// share it.
    pub(crate) lineage: u64,
    /// The number of compactions since then.
    pub(crate) generation: u64,
    /// The checksum of the changes that became part of the set with the last compaction.
    pub(crate) absorbed: u64,
}

/// The numbers of the header and the places of all parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layout {
    /// The fingerprint of the vocabulary; 0 where the set was built from numbers alone.
    pub(crate) fingerprint: u64,
    pub(crate) items: u32,
    pub(crate) vocab_len: u32,
    /// Bytes of a token.
    pub(crate) width: usize,
    pub(crate) has_empty: bool,
    pub(crate) origin: Origin,
    /// Whether the set is of the version without an origin in the header.
    pub(crate) without_origin: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) sections: [Part; SECTIONS],
    /// The number of bytes.
    pub(crate) len: usize,
}

impl Layout {
    /// The number of bytes of the header and its table.
    pub(crate) fn header_len(&self) -> usize {
        Self::fixed_len(self.without_origin) + SECTIONS * SECTION + self.columns.len() * COLUMN
    }

    fn fixed_len(without_origin: bool) -> usize {
        if without_origin { ORIGIN } else { FIXED }
    }

    /// The identity of the set: a checksum of its header, which holds the checksums of all parts. Subsets leave no
    /// trace in the identity, so that changes to a set stay valid when the set gets a subset.
    pub(crate) fn identity(&self) -> u64 {
        let mut layout = self.clone();
        (layout.sections[SUBSETS], layout.len) = (Part::default(), 0);
        XxHash3_64::oneshot(&layout.to_bytes())
    }

    /// Places all parts one after the other, from their lengths. `None` where a place exceeds the platform's addresses.
    pub(crate) fn place(&mut self) -> Option<()> {
        let mut end = self.header_len();
        let mut put = |part: &mut Part, len: usize| {
            part.begin = end.checked_next_multiple_of(ALIGN)?;
            part.len = len;
            end = part.begin.checked_add(len)?;
            Some(())
        };
        for column in &mut self.columns {
            put(&mut column.tokens, (column.len as usize).checked_mul(self.width)?)?;
            put(&mut column.ends, end_bytes(column.len))?;
        }
        for section in &mut self.sections {
            put(section, section.len)?;
        }
        self.len = end;
        Some(())
    }

    /// All parts in the order of the file, with their names.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, Part)> {
        let columns =
            self.columns.iter().flat_map(|column| [("tokens", column.tokens), ("ends", column.ends)]);
        let names = ["first tokens", "first starts", "wide prefixes", "followers", "subsets"];
        columns.chain(names.into_iter().zip(self.sections))
    }

    /// The header with its checksum.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let version = if self.without_origin { WITHOUT_ORIGIN } else { VERSION };
        bytes.extend(version.to_le_bytes());
        bytes.resize(SUMMED, 0);
        for number in [self.len as u64, self.fingerprint, u64::from(self.items)] {
            bytes.extend(number.to_le_bytes());
        }
        let flags = if self.has_empty { HAS_EMPTY } else { 0 };
        for number in [self.vocab_len, self.width as u32, self.columns.len() as u32, flags] {
            bytes.extend(number.to_le_bytes());
        }
        if !self.without_origin {
            let Origin { lineage, generation, absorbed } = self.origin;
            [lineage, generation, absorbed].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        for section in &self.sections {
            bytes.extend((section.len as u64).to_le_bytes());
            bytes.extend(section.checksum.to_le_bytes());
        }
        for column in &self.columns {
            bytes.extend(column.len.to_le_bytes());
            bytes.extend(0u32.to_le_bytes());
            bytes.extend(column.tokens.checksum.to_le_bytes());
            bytes.extend(column.ends.checksum.to_le_bytes());
        }
        let checksum = checksum(version, &bytes[SUMMED..]);
        bytes[CHECKSUM..SUMMED].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of `bytes`, the bytes of a whole set.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, SetFileError> {
        let found = bytes.len() as u64;
        let rest = bytes.strip_prefix(MAGIC).ok_or(SetFileError::Magic)?;
        let version = rest.first_chunk().map(|version| u32::from_le_bytes(*version));
        let short = |expected: usize| SetFileError::Length { len: found, expected: expected as u64 };
        let version = version.ok_or(short(FIXED))?;
        let without_origin = match version {
            VERSION => false,
            WITHOUT_ORIGIN => true,
            _ => return Err(SetFileError::Version { version, supported: VERSION }),
        };
        let fixed = Self::fixed_len(without_origin);
        if bytes.len() < fixed {
            return Err(short(fixed));
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if long(SUMMED) != found {
            return Err(SetFileError::Length { len: found, expected: long(SUMMED) });
        }
        let (columns, flags) = (word(NUMBERS + 8) as usize, word(NUMBERS + 12));
        let invalid = |part| SetFileError::Invalid { part };
        // A column takes 24 bytes in the table, so the length of the file bounds the number of columns.
        let table = fixed + SECTIONS * SECTION;
        if columns > bytes.len() / COLUMN || table + columns * COLUMN > bytes.len() {
            return Err(invalid("columns"));
        }
        let header = &bytes[..table + columns * COLUMN];
        let (sum, expected) = (checksum(version, &header[SUMMED..]), long(CHECKSUM));
        if sum != expected {
            return Err(SetFileError::Checksum { part: "header", found: sum, expected });
        }

        let section = |index: usize| {
            let at = fixed + index * SECTION;
            let len = usize::try_from(long(at)).map_err(|_| invalid("sections"))?;
            Ok::<_, SetFileError>(Part { begin: 0, len, checksum: long(at + 8) })
        };
        let mut sections = [Part::default(); SECTIONS];
        for (index, part) in sections.iter_mut().enumerate() {
            *part = section(index)?;
        }
        let column = |index: usize| {
            let at = table + index * COLUMN;
            let part = |at| Part { checksum: long(at), ..Part::default() };
            Column { len: word(at), tokens: part(at + 8), ends: part(at + 16) }
        };
        let mut layout = Self {
            fingerprint: long(SUMMED + 8),
            items: u32::try_from(long(SUMMED + 16)).map_err(|_| invalid("items"))?,
            vocab_len: word(NUMBERS),
            width: word(NUMBERS + 4) as usize,
            has_empty: flags == HAS_EMPTY,
            origin: Origin::default(),
            without_origin,
            columns: (0..columns).map(column).collect(),
            sections,
            len: 0,
        };
        layout.check()?;
        if layout.len as u64 != found {
            return Err(SetFileError::Length { len: found, expected: layout.len as u64 });
        }
        if flags > HAS_EMPTY {
            return Err(invalid("flags"));
        }
        layout.origin = if without_origin {
            Origin { lineage: layout.identity(), ..Origin::default() }
        } else {
            Origin { lineage: long(ORIGIN), generation: long(ORIGIN + 8), absorbed: long(ORIGIN + 16) }
        };
        Ok(layout)
    }

    /// Checks that the numbers of the header are those of a set, and places the parts.
    fn check(&mut self) -> Result<(), SetFileError> {
        let invalid = |part| SetFileError::Invalid { part };
        if ![1, 2, 4].contains(&self.width) || self.vocab_len as usize > MAX_VOCAB {
            return Err(invalid("width"));
        }
        if !self.columns.is_sorted_by(|one, next| one.len >= next.len) {
            return Err(invalid("columns"));
        }
        let rows = self.columns.first().map_or(0, |column| column.len);
        if self.items.checked_sub(u32::from(self.has_empty)) != Some(rows)
            || self.columns.last().is_some_and(|column| column.len == 0)
        {
            return Err(invalid("items"));
        }
        let firsts = self.sections[FIRST_TOKENS].len / self.width;
        if self.sections[FIRST_TOKENS].len != firsts * self.width
            || Some(self.sections[FIRST_STARTS].len) != firsts.checked_mul(4)
            || firsts > rows as usize
            || (rows > 0) != (firsts > 0)
        {
            return Err(invalid("sections"));
        }
        self.place().ok_or(invalid("columns"))
    }
}
