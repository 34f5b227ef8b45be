//! The file of a library: results are computed once per tokenizer, not once per process.
//!
//! All numbers are little-endian:
//!
//! ```text
//! magic       8  "UNSKEWVL"
//! version     4  1
//! fingerprint 8  of the tokenizer automaton
//! tokens      8  ids of the tokenizer
//! vocab_len   8  ids of the vocabulary
//! key        16  of the hash that names blocks
//! blocks      8  their number, then for each, in ascending order of names:
//!   name     16
//!   states    8
//!   before       for each state: 0 any, 1 none, 2 followed by, 3 all except; for 2 and 3 a list
//!   rows      8  their number, then for each: state (8), 0 short or 1 long, a list
//! checksum   16  SipHash-2-4-128 with the key 0 of everything before it
//! ```
//!
//! A list is its length (8) and 32-bit numbers. The checksum detects damage, not intent: the author of a file
//! decides which tokens it allows. Names depend on the serialisation of blocks, so a change of it is a new version.

use std::{fs, io, path::Path, sync::OnceLock};

use unskew_core::{TokenId, words_for};

use super::{
    completion::Before,
    hash::Sip,
    library::{BlockParts, VegasLibrary},
};
use crate::canonical::{
    index::CanonicalIndex,
    token_set::{TokenSet, bits},
    tokenizer::automaton::Role,
};

const MAGIC: &[u8; 8] = b"UNSKEWVL";
const VERSION: u32 = 1;

/// The reason why a file does not become a library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryFileError {
    /// The file cannot be read.
    #[error("the library's file cannot be used: {0}")]
    Io(#[from] io::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] unskew_files::FileError),
    /// The file has another format.
    #[error("the file is not a library of sub-automata: it does not begin with UNSKEWVL")]
    Magic,
    /// The file is of another version.
    #[error(
        "the library's file has version {found}, and this program reads version {expected}: build it again"
    )]
    #[non_exhaustive]
    Version {
        /// The version of the file.
        found: u32,
        /// The version that is read.
        expected: u32,
    },
    /// The file is damaged.
    #[error("the library's file is damaged ({0}): build it again")]
    Damaged(&'static str),
    /// The file was built for another tokenizer.
    #[error("the library's file is of another tokenizer or vocabulary: build one for this tokenizer")]
    Tokenizer,
}

impl VegasLibrary {
    /// The library as the bytes of a file, with the token sets that are computed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        let blocks = self.blocks();
        let header = [
            self.fingerprint,
            self.tokens as u64,
            self.vocab_len as u64,
            self.key[0],
            self.key[1],
            blocks.len() as u64,
        ];
        header.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let list = |bytes: &mut Vec<u8>, list: &[u32]| {
            bytes.extend((list.len() as u64).to_le_bytes());
            list.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        };
        for (name, block) in blocks {
            bytes.extend(name.to_le_bytes());
            bytes.extend((block.parts.before.len() as u64).to_le_bytes());
            for before in &block.parts.before {
                match before {
                    Before::Any => bytes.push(0),
                    Before::None => bytes.push(1),
                    Before::FollowedBy(tokens) => {
                        bytes.push(2);
                        list(&mut bytes, tokens);
                    }
                    Before::Except(tokens) => {
                        bytes.push(3);
                        list(&mut bytes, tokens);
                    }
                }
            }
            let token_sets: Vec<(u64, &TokenSet)> = (0u64..)
                .zip(&block.parts.token_sets)
                .filter_map(|(state, token_set)| Some((state, token_set.get()?)))
                .collect();
            bytes.extend((token_sets.len() as u64).to_le_bytes());
            for (state, token_set) in token_sets {
                bytes.extend(state.to_le_bytes());
                bytes.push(u8::from(matches!(token_set, TokenSet::Long(_))));
                let (TokenSet::Short(words) | TokenSet::Long(words)) = token_set;
                list(&mut bytes, words);
            }
        }
        let checksum = checksum(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Writes [`to_bytes`](Self::to_bytes) to a file, which appears under its name only when it is complete.
    ///
    /// # Errors
    ///
    /// [`LibraryFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), LibraryFileError> {
        Ok(unskew_files::write(path, &self.to_bytes())?)
    }

    /// Reads a file of [`save`](Self::save), for the same tokenizer. If its blocks take more than `limit` bytes,
    /// only a part of them is kept.
    ///
    /// # Errors
    ///
    /// [`LibraryFileError`].
    pub fn load(
        path: impl AsRef<Path>,
        index: &CanonicalIndex,
        limit: usize,
    ) -> Result<Self, LibraryFileError> {
        Self::from_bytes(&fs::read(path)?, index, limit)
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes), for the same tokenizer. If the blocks take more than `limit`
    /// bytes, only a part of them is kept.
    ///
    /// # Errors
    ///
    /// [`LibraryFileError`].
    pub fn from_bytes(bytes: &[u8], index: &CanonicalIndex, limit: usize) -> Result<Self, LibraryFileError> {
        if !bytes.starts_with(MAGIC) {
            return Err(LibraryFileError::Magic);
        }
        let too_short = LibraryFileError::Damaged("it is too short");
        let Some((content, expected)) = bytes.split_last_chunk::<16>() else { return Err(too_short) };
        let mut reader = Reader(content.get(MAGIC.len()..).ok_or(too_short)?);
        let found = u32::from_le_bytes(reader.take()?);
        if found != VERSION {
            return Err(LibraryFileError::Version { found, expected: VERSION });
        }
        if checksum(content) != u128::from_le_bytes(*expected) {
            return Err(LibraryFileError::Damaged("its checksum differs"));
        }
        let of = [reader.word()?, reader.word()?, reader.word()?];
        let automaton = &index.automaton;
        if of != [automaton.fingerprint, automaton.vocab_len() as u64, index.vocabulary.len() as u64] {
            return Err(LibraryFileError::Tokenizer);
        }
        let key = [reader.word()?, reader.word()?];
        let library = Self::with_key(index, limit, key);
        for _ in 0..reader.word()? {
            let name = u128::from_le_bytes(reader.take()?);
            let parts = reader.block(index)?;
            library.insert(name, parts);
        }
        if !reader.0.is_empty() {
            return Err(LibraryFileError::Damaged("it has bytes after its end"));
        }
        Ok(library)
    }
}

fn checksum(bytes: &[u8]) -> u128 {
    let mut hash = Sip::new([0, 0]);
    hash.bytes(bytes);
    hash.finish()
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], LibraryFileError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(LibraryFileError::Damaged("it ends early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn word(&mut self) -> Result<u64, LibraryFileError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// Reads the number of items that take at least `bytes` bytes each. An error if the file is shorter than these
    /// items.
    fn count(&mut self, bytes: usize) -> Result<usize, LibraryFileError> {
        let count = usize::try_from(self.word()?).ok().filter(|count| *count <= self.0.len() / bytes);
        count.ok_or(LibraryFileError::Damaged("it ends early"))
    }

    fn list(&mut self) -> Result<Box<[u32]>, LibraryFileError> {
        let count = self.count(size_of::<u32>())?;
        (0..count).map(|_| Ok(u32::from_le_bytes(self.take()?))).collect()
    }

    fn block(&mut self, index: &CanonicalIndex) -> Result<BlockParts, LibraryFileError> {
        let CanonicalIndex { automaton: tokenizer, vocabulary, .. } = index;
        let is_written = |token: &u32, whole: bool| match tokenizer.roles.get(*token as usize) {
            Some(Role::Merged | Role::Fallback) => true,
            Some(Role::Whole) => whole,
            _ => false,
        };
        let ascends = |tokens: &[u32]| tokens.windows(2).all(|pair| pair[0] < pair[1]);
        let states = self.count(1)?;
        let mut before = Vec::with_capacity(states);
        for _ in 0..states {
            let [kind] = self.take()?;
            before.push(match kind {
                0 => Before::Any,
                1 => Before::None,
                2 | 3 => {
                    let tokens = self.list()?;
                    let valid = tokens.iter().all(|token| is_written(token, false));
                    match kind {
                        2 if valid => Before::FollowedBy(tokens),
                        3 if valid && ascends(&tokens) => Before::Except(tokens),
                        _ => return Err(LibraryFileError::Damaged("a list of tokens is invalid")),
                    }
                }
                _ => return Err(LibraryFileError::Damaged("a state has no valid kind")),
            });
        }
        let token_sets: Box<[OnceLock<TokenSet>]> = (0..states).map(|_| OnceLock::new()).collect();
        for _ in 0..self.count(17)? {
            let state = usize::try_from(self.word()?).ok().and_then(|state| token_sets.get(state));
            let [long] = self.take()?;
            let words = self.list()?;
            let valid = match long {
                0 => ascends(&words) && words.iter().all(|token| is_written(token, true)),
                1 => {
                    words.len() == words_for(vocabulary.len())
                        && bits(&words).all(|token| {
                            TokenId(token).index() < vocabulary.len() && is_written(&token, true)
                        })
                }
                _ => false,
            };
            let token_set = if long == 0 { TokenSet::Short(words) } else { TokenSet::Long(words) };
            if !valid || state.is_none_or(|cell| cell.set(token_set).is_err()) {
                return Err(LibraryFileError::Damaged("a set of tokens is invalid"));
            }
        }
        Ok(BlockParts { before: before.into(), token_sets })
    }
}
