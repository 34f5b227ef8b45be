//! The reader of an automaton's file ([`super::file`]): header, sections and checksum.
//!
//! It reads a stream section by section, in chunks of any size.

use std::{
    hash::Hasher,
    io::{self, BufRead},
    path::PathBuf,
};

use twox_hash::XxHash3_64;
use unskew_core::UnicodeForm;

use super::{
    file::{AutomatonFileError, HEADER, MAGIC, VERSION},
    fingerprint::{FORMS, form_number},
};
use crate::{ByteClasses, canonical::MergeOrder};

/// A file error without a path. The caller fills it in.
pub(super) fn no_file(source: io::Error) -> AutomatonFileError {
    AutomatonFileError::Io { path: PathBuf::new(), source }
}

/// Reads sections one by one and updates the checksum on the way: the bytes are hashed while they are in the cache,
/// and no bytes are stored twice.
pub(super) struct Reader<R> {
    input: R,
    /// The number of ids of the vocabulary.
    ids: usize,
    /// The number of bytes that are not read yet.
    pub(super) rest: u64,
    hasher: XxHash3_64,
    checksum: u64,
    pub(super) fingerprint: u64,
}

impl<R: BufRead> Reader<R> {
    /// Checks the header of a file of `len` bytes, for a vocabulary of `ids`.
    pub(super) fn new(mut input: R, len: u64, ids: usize) -> Result<Self, AutomatonFileError> {
        let mut header = [0; HEADER];
        let found = header.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        input.read_exact(&mut header[..found]).map_err(no_file)?;
        let rest = header[..found].strip_prefix(MAGIC).ok_or(AutomatonFileError::Magic)?;
        let cut_off = || AutomatonFileError::Length { len, expected: HEADER as u64 };
        let (version, rest) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(AutomatonFileError::Version { version, supported: VERSION });
        }
        let (checksum, summed) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let (expected_len, rest) = summed.split_first_chunk().ok_or_else(cut_off)?;
        let (fingerprint, _) = rest.split_first_chunk().ok_or_else(cut_off)?;
        if u64::from_le_bytes(*expected_len) != len {
            return Err(AutomatonFileError::Length { len, expected: u64::from_le_bytes(*expected_len) });
        }
        let mut hasher = XxHash3_64::new();
        hasher.write(summed);
        let [checksum, fingerprint] = [checksum, fingerprint].map(|number| u64::from_le_bytes(*number));
        Ok(Self { input, ids, rest: len - HEADER as u64, hasher, checksum, fingerprint })
    }

    /// Reads to the end and compares the checksum.
    pub(super) fn finish(mut self) -> Result<(), AutomatonFileError> {
        while self.rest > 0 {
            let rest = usize::try_from(self.rest).unwrap_or(usize::MAX);
            self.take(rest, |_| ())?;
        }
        let (found, expected) = (self.hasher.finish(), self.checksum);
        if found == expected { Ok(()) } else { Err(AutomatonFileError::Checksum { found, expected }) }
    }

    /// Passes at least one and at most `limit` of the remaining bytes to `each`, as many as are buffered. Returns
    /// their number.
    fn take(&mut self, limit: usize, each: impl FnOnce(&[u8])) -> Result<usize, AutomatonFileError> {
        let bytes = self.input.fill_buf().map_err(no_file)?;
        let bytes = &bytes[..bytes.len().min(limit)];
        if bytes.is_empty() {
            return Err(no_file(io::ErrorKind::UnexpectedEof.into()));
        }
        self.hasher.write(bytes);
        each(bytes);
        let len = bytes.len();
        self.input.consume(len);
        self.rest -= len as u64;
        Ok(len)
    }

    fn word(&mut self) -> Result<u32, AutomatonFileError> {
        let (mut word, mut len) = ([0; 4], 0);
        while len < 4 {
            len += self.take(4 - len, |bytes| word[len..len + bytes.len()].copy_from_slice(bytes))?;
        }
        Ok(u32::from_le_bytes(word))
    }

    /// The number of items in the next section, of `size` bytes each. An error if the file is shorter than these
    /// items.
    fn count(&mut self, size: u64, section: &'static str) -> Result<usize, AutomatonFileError> {
        let invalid = AutomatonFileError::Invalid { section };
        if self.rest < 4 {
            return Err(invalid);
        }
        let count = self.word()?;
        let len = (u64::from(count) * size).next_multiple_of(4);
        if len > self.rest { Err(invalid) } else { Ok(count as usize) }
    }

    pub(super) fn bytes(&mut self, section: &'static str) -> Result<Vec<u8>, AutomatonFileError> {
        let count = self.count(1, section)?;
        let mut bytes = Vec::with_capacity(count.next_multiple_of(4));
        while bytes.len() < bytes.capacity().min(count.next_multiple_of(4)) {
            self.take(count.next_multiple_of(4) - bytes.len(), |more| bytes.extend_from_slice(more))?;
        }
        let padding = bytes.split_off(count);
        let is_padded = padding.iter().all(|byte| *byte == 0);
        is_padded.then_some(bytes).ok_or(AutomatonFileError::Invalid { section })
    }

    pub(super) fn words(&mut self, section: &'static str) -> Result<Vec<u32>, AutomatonFileError> {
        self.words_with_room(0, section)
    }

    /// Reads a list by token, with spare capacity for ids that the tokenizer does not know.
    pub(super) fn by_token(&mut self, section: &'static str) -> Result<Vec<u32>, AutomatonFileError> {
        self.words_with_room(self.ids + 1, section)
    }

    fn words_with_room(
        &mut self,
        room: usize,
        section: &'static str,
    ) -> Result<Vec<u32>, AutomatonFileError> {
        let count = self.count(4, section)?;
        let mut words = Vec::with_capacity(count.max(room));
        while words.len() < count {
            let at_hand = self.input.fill_buf().map_err(no_file)?.len() / 4;
            match at_hand.min(count - words.len()) {
                // A word that the buffer cuts in two.
                0 => words.push(self.word()?),
                at_hand => {
                    let add = |bytes: &[u8]| {
                        words.extend(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)));
                    };
                    self.take(4 * at_hand, add)?;
                }
            }
        }
        Ok(words)
    }

    /// The merge order and the Unicode form of texts.
    pub(super) fn flags(&mut self) -> Result<(MergeOrder, Option<UnicodeForm>), AutomatonFileError> {
        match self.words("flags")?[..] {
            [order @ 0..=1, form @ 0..=4] => {
                let order = if order == 1 { MergeOrder::Passes } else { MergeOrder::LowestRank };
                Ok((order, FORMS.into_iter().find(|known| form_number(*known) == form)))
            }
            _ => Err(AutomatonFileError::Invalid { section: "flags" }),
        }
    }

    pub(super) fn forest(&mut self) -> Result<[Vec<u32>; 3], AutomatonFileError> {
        Ok([self.words("forests")?, self.by_token("forests")?, self.words("forests")?])
    }

    pub(super) fn partners(&mut self) -> Result<[Vec<u32>; 3], AutomatonFileError> {
        Ok([self.by_token("partners")?, self.words("partners")?, self.words("partners")?])
    }

    pub(super) fn classes(&mut self, section: &'static str) -> Result<ByteClasses, AutomatonFileError> {
        let classes = <[u8; 256]>::try_from(&self.bytes(section)?[..]).ok().and_then(ByteClasses::from_array);
        classes.ok_or(AutomatonFileError::Invalid { section })
    }
}
