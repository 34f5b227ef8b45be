//! A tokenizer's automaton as a file: written once, read in milliseconds.
//!
//! The file holds what takes time to find out and nothing that follows from it in one pass: of the merge trees the last
//! merge of each token, of the forests their depth-first order, of the tables of partners the order of the merges. The
//! rest is put together while it is checked, with the merges of the tokenizer that the caller has anyway; so a file cannot
//! name a merge that the tokenizer does not have. For Llama 3 that is a third of what the automaton takes in memory, and
//! faster than reading all of it.
//!
//! ```text
//! "unskew canon"  version: u32  checksum: u64  length of the file: u64  fingerprint: u64  sections ..
//! ```
//!
//! All numbers are little-endian, and a section is a number of items and the items, filled up to a multiple of four
//! bytes. The checksum, XXH3 of all that follows it, finds accidents. Everything else that a file may say is checked
//! where it is read ([`Neighbours::from_parts`] and others beside what they make): any bytes give an error, or an
//! automaton that never panics and never loops, even if its masks are not the tokenizer's.
//!
//! Tried instead: `serde` with a binary format. It neither checks what the tables mean nor reads them at once, and the
//! layout of private structs would be the format.

use std::{
    hash::Hasher,
    path::{Path, PathBuf},
};

use twox_hash::XxHash3_64;
use unskew_core::{
    Merge, Normalizer, PrependScheme, SplitBehavior, SplitPattern, Symbols, Tokenization, UnicodeForm,
    Vocabulary,
};

use super::{
    MergeOrder,
    automaton::{Parts, Role, TokenizerAutomaton},
    derivation::{Derivations, NONE},
    forest::Neighbours,
    text::TextDfa,
    whole::WholePieces,
};
use crate::{ByteClasses, split::SplitDfa};

const MAGIC: &[u8; 12] = b"unskew canon";

/// To be raised whenever the layout changes, or what is built from one tokenizer.
const VERSION: u32 = 1;

/// Where the checksum lies, and behind it what it is of.
const CHECKSUM: usize = MAGIC.len() + 4;
const SUMMED: usize = CHECKSUM + 8;
const HEADER: usize = SUMMED + 16;

/// Why a file is not the automaton of a tokenizer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AutomatonFileError {
    /// Another kind of file, or an empty one.
    #[error("this is no file of a tokenizer automaton: it does not begin with \"unskew canon\"")]
    Magic,
    /// The file was written by another version of this library.
    #[error(
        "the tokenizer automaton is of version {version} and this library reads version {supported}: build it again"
    )]
    Version {
        /// The file's version.
        version: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// The file is cut off, or something follows it.
    #[error(
        "the tokenizer automaton has {len} bytes where its header says {expected}: copy or build it again"
    )]
    Length {
        /// The number of bytes.
        len: u64,
        /// The number of bytes that the header names.
        expected: u64,
    },
    /// The file was damaged.
    #[error(
        "the tokenizer automaton's checksum is {found:016x} and should be {expected:016x}: copy or build it again"
    )]
    Checksum {
        /// The checksum of what the file holds.
        found: u64,
        /// The checksum that it names.
        expected: u64,
    },
    /// The file belongs to another tokenizer, or to one that was changed since.
    #[error(
        "the tokenizer automaton is of another tokenizer ({file:016x}, not {tokenizer:016x}): build it for this one"
    )]
    OtherTokenizer {
        /// The fingerprint of the tokenizer that it was built for.
        file: u64,
        /// The fingerprint of the tokenizer at hand.
        tokenizer: u64,
    },
    /// The file was not written by this library.
    #[error("the tokenizer automaton's {section} are not those of any tokenizer: build it again")]
    Invalid {
        /// What is wrong in it.
        section: &'static str,
    },
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl TokenizerAutomaton {
    /// The automaton as bytes, the same on every platform and however much the vocabulary is padded.
    pub fn to_bytes(&self) -> Vec<u8> {
        let trees = &self.neighbours.trees;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.resize(HEADER, 0);
        put_words(&mut bytes, &[u32::from(trees.order == MergeOrder::Passes), u32::from(self.nfc)]);
        // Padding is never written, and has no trees.
        let is_used = |token: usize| self.roles[token] != Role::Never || trees.key[token] != NONE;
        let used = (0..self.vocab_len).rev().find(|token| is_used(*token)).map_or(0, |last| last + 1);
        put_bytes(&mut bytes, &self.roles[..used].iter().map(|role| *role as u8).collect::<Vec<u8>>());
        put_words(&mut bytes, &trees.key[..used]);
        put_words(&mut bytes, &trees.time[..used]);
        put_words(&mut bytes, &self.neighbours.class[..used]);
        put_words(&mut bytes, &self.neighbours.lefts.order);
        put_words(&mut bytes, &self.neighbours.rights.order);
        put_words(&mut bytes, &self.neighbours.by_left.key);
        put_words(&mut bytes, &self.neighbours.by_right.key);
        put_words(&mut bytes, &self.symbols);
        put_words(&mut bytes, &self.fallback);

        let sequences = self.whole.sequences();
        put_words(&mut bytes, &ends(sequences.iter().map(Vec::len)));
        put_words(&mut bytes, &sequences.concat());
        put_words(&mut bytes, &self.added.iter().map(|(token, _)| *token).collect::<Vec<u32>>());
        put_words(&mut bytes, &ends(self.added.iter().map(|(_, content)| content.len())));
        put_bytes(
            &mut bytes,
            &self.added.iter().flat_map(|(_, content)| content).copied().collect::<Vec<u8>>(),
        );

        let SplitDfa { classes, next, fallback, mark, accepting, start } = &self.split;
        put_bytes(&mut bytes, classes.as_array());
        put_words(&mut bytes, next);
        put_words(&mut bytes, fallback);
        put_words(&mut bytes, mark);
        put_bytes(&mut bytes, &accepting.iter().map(|accepts| u8::from(*accepts)).collect::<Vec<u8>>());
        put_bytes(&mut bytes, self.text.classes.as_array());
        put_words(&mut bytes, &self.text.next);
        put_words(&mut bytes, &[*start, self.text.start]);

        let len = bytes.len() as u64;
        bytes[SUMMED..SUMMED + 8].copy_from_slice(&len.to_le_bytes());
        bytes[SUMMED + 8..HEADER].copy_from_slice(&self.fingerprint.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[SUMMED..]);
        bytes[CHECKSUM..SUMMED].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Writes the automaton to a file, for [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// [`AutomatonFileError::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), AutomatonFileError> {
        let path = path.as_ref();
        std::fs::write(path, self.to_bytes())
            .map_err(|source| AutomatonFileError::Io { path: path.to_owned(), source })
    }

    /// The automaton that [`to_bytes`](Self::to_bytes) wrote, for the same tokenizer. `vocabulary` may be padded otherwise
    /// than the one that it was built for.
    ///
    /// Cost: O(n) for n ids and merges; about 5 ms for 128,000 ids and 280,000 merges.
    ///
    /// # Errors
    ///
    /// [`AutomatonFileError`] says what the bytes are instead. Bytes that this library did not write, with the right
    /// checksum, may give an automaton of something else, which does no other harm than to allow wrong tokens.
    pub fn from_bytes(
        bytes: &[u8],
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
    ) -> Result<Self, AutomatonFileError> {
        let mut reader = Reader::new(bytes)?;
        let invalid = |section| AutomatonFileError::Invalid { section };
        let (order, nfc) = match reader.words("flags")?[..] {
            [order @ 0..=1, nfc @ 0..=1] => {
                (if order == 1 { MergeOrder::Passes } else { MergeOrder::LowestRank }, nfc == 1)
            }
            _ => return Err(invalid("flags")),
        };
        let tokenizer = fingerprint(vocabulary, tokenization, order);
        if tokenizer != reader.fingerprint {
            return Err(AutomatonFileError::OtherTokenizer { file: reader.fingerprint, tokenizer });
        }

        let len = vocabulary.len();
        let mut roles =
            reader.bytes("roles")?.iter().map(|role| role_of(*role)).collect::<Option<Vec<Role>>>();
        let roles = roles.take_if(|roles| roles.len() <= len).ok_or(invalid("roles"));
        let mut roles = roles?;
        roles.resize(len, Role::Never);
        let (key, time) = (reader.words("merge trees")?, reader.words("merge trees")?);
        let trees = Derivations::from_keys(len, key, time, &tokenization.merges, order);
        let trees = trees.ok_or(invalid("merge trees"))?;
        let class = reader.words("classes")?;
        let orders = [reader.words("forests")?, reader.words("forests")?];
        let keys = [reader.words("partners")?, reader.words("partners")?];
        let neighbours = Neighbours::from_parts(trees, &tokenization.merges, orders, keys, class);
        let neighbours = neighbours.ok_or(invalid("neighbours"))?;
        let is_made = |token: u32| neighbours.trees.key.get(token as usize).is_some_and(|key| *key != NONE);
        let is_piece = |role: Role| matches!(role, Role::Made | Role::Whole);
        let spelled = vocabulary
            .text_tokens()
            .filter(|(token, text)| is_piece(roles[token.index()]) && !text.is_empty());
        if spelled.count() != roles.iter().filter(|role| is_piece(**role)).count()
            || (0u32..)
                .zip(&roles)
                .any(|(id, role)| matches!(role, Role::Made | Role::Fallback) && !is_made(id))
        {
            return Err(invalid("roles"));
        }
        let mut by_byte = |section| {
            let tokens = reader.words(section)?;
            let fits = tokens.len() == 256 && tokens.iter().all(|token| *token == NONE || is_made(*token));
            if fits { Ok(tokens) } else { Err(invalid(section)) }
        };
        let (symbols, fallback) = (by_byte("symbols")?, by_byte("tokens of bytes")?);

        let (ends, tokens) = (reader.words("whole pieces")?, reader.words("whole pieces")?);
        // No piece has more tokens than bytes.
        let whole_texts = (0u32..).zip(&roles).filter(|(_, role)| **role == Role::Whole);
        let longest =
            whole_texts.filter_map(|(token, _)| vocabulary.text(token.into())).map(<[u8]>::len).max();
        let sequences = parts(&ends, &tokens).filter(|_| tokens.iter().all(|token| is_made(*token)));
        let whole =
            sequences.and_then(|sequences| WholePieces::from_sequences(&sequences, longest.unwrap_or(0)));
        let whole = whole.ok_or(invalid("whole pieces"))?;

        let (ids, ends) = (reader.words("added tokens")?, reader.words("added tokens")?);
        let is_added = |token: u32| roles.get(token as usize) == Some(&Role::Added);
        let contents = parts(&ends, reader.bytes("added tokens")?)
            .filter(|contents| contents.len() == ids.len() && ids.iter().all(|token| is_added(*token)));
        let contents = contents.ok_or(invalid("added tokens"))?;
        let added = ids.into_iter().zip(contents.into_iter().map(<[u8]>::to_vec)).collect();

        let classes = reader.classes("splits")?;
        let (next, fallback_next) = (reader.words("splits")?, reader.words("splits")?);
        let (mark, accepting) = (reader.words("splits")?, reader.bytes("splits")?);
        let (text_classes, text_next) = (reader.classes("texts")?, reader.words("texts")?);
        let [split_start, text_start] = reader.words("starts")?[..] else { return Err(invalid("starts")) };
        let accepting = accepting.iter().map(|accepts| *accepts == 1).collect();
        let split = SplitDfa::from_parts(classes, next, fallback_next, mark, accepting, split_start);
        let text = TextDfa::from_parts(text_classes, text_next, text_start);
        if !reader.rest.is_empty() {
            return Err(invalid("last bytes"));
        }
        Ok(Self::from_parts(Parts {
            fingerprint: tokenizer,
            roles,
            symbols,
            neighbours,
            whole,
            fallback,
            split: split.ok_or(invalid("splits"))?,
            text: text.ok_or(invalid("texts"))?,
            nfc,
            added,
        }))
    }

    /// Reads the automaton from a file: [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    ///
    /// [`AutomatonFileError`].
    pub fn load(
        path: impl AsRef<Path>,
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
    ) -> Result<Self, AutomatonFileError> {
        let path = path.as_ref();
        let bytes =
            std::fs::read(path).map_err(|source| AutomatonFileError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes, vocabulary, tokenization)
    }
}

/// What is left to read.
struct Reader<'a> {
    fingerprint: u64,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the header.
    fn new(bytes: &'a [u8]) -> Result<Self, AutomatonFileError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(AutomatonFileError::Magic)?;
        let len = bytes.len() as u64;
        let cut_off = || AutomatonFileError::Length { len, expected: HEADER as u64 };
        let (version, rest) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(AutomatonFileError::Version { version, supported: VERSION });
        }
        let (checksum, summed) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let (expected_len, rest) = summed.split_first_chunk().ok_or_else(cut_off)?;
        let (fingerprint, rest) = rest.split_first_chunk().ok_or_else(cut_off)?;
        if u64::from_le_bytes(*expected_len) != len {
            return Err(AutomatonFileError::Length { len, expected: u64::from_le_bytes(*expected_len) });
        }
        let (found, expected) = (XxHash3_64::oneshot(summed), u64::from_le_bytes(*checksum));
        if found != expected {
            return Err(AutomatonFileError::Checksum { found, expected });
        }
        Ok(Self { fingerprint: u64::from_le_bytes(*fingerprint), rest })
    }

    /// The next section, of items of `size` bytes.
    fn section(&mut self, size: usize, section: &'static str) -> Result<&'a [u8], AutomatonFileError> {
        let found = self.rest.split_first_chunk().and_then(|(count, rest)| {
            let len = (u32::from_le_bytes(*count) as usize).checked_mul(size)?;
            let (padded, after) = rest.split_at_checked(len.checked_next_multiple_of(4)?)?;
            self.rest = after;
            let (items, padding) = padded.split_at(len);
            padding.iter().all(|byte| *byte == 0).then_some(items)
        });
        found.ok_or(AutomatonFileError::Invalid { section })
    }

    fn bytes(&mut self, section: &'static str) -> Result<&'a [u8], AutomatonFileError> {
        self.section(1, section)
    }

    fn words(&mut self, section: &'static str) -> Result<Vec<u32>, AutomatonFileError> {
        let (words, _) = self.section(4, section)?.as_chunks();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    fn classes(&mut self, section: &'static str) -> Result<ByteClasses, AutomatonFileError> {
        let classes = <[u8; 256]>::try_from(self.bytes(section)?).ok().and_then(ByteClasses::from_array);
        classes.ok_or(AutomatonFileError::Invalid { section })
    }
}

fn role_of(number: u8) -> Option<Role> {
    [Role::Never, Role::Made, Role::Fallback, Role::Whole, Role::Added].get(usize::from(number)).copied()
}

fn put_words(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(count(words.len()).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn put_bytes(bytes: &mut Vec<u8>, items: &[u8]) {
    bytes.extend(count(items.len()).to_le_bytes());
    bytes.extend(items);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Where lists of these lengths end if they are put one behind the other.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let ends = lengths.scan(0, |end, len| {
        *end += len;
        Some(count(*end))
    });
    ends.collect()
}

/// The parts of `items` with these ends, of which none is empty and the last is the end of all.
fn parts<'a, T>(ends: &[u32], items: &'a [T]) -> Option<Vec<&'a [T]>> {
    let mut begin = 0;
    let mut parts = Vec::with_capacity(ends.len());
    for end in ends.iter().map(|end| *end as usize) {
        parts.push(items.get(begin..end).filter(|part| !part.is_empty())?);
        begin = end;
    }
    (begin == items.len()).then_some(parts)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("states, tokens and merges are numbered with 32 bits")
}

/// A number that tells tokenizers apart: XXH3 of all that decides which sequences one writes.
///
/// Unused ids leave no trace, so that a vocabulary may be padded, nor does which ids end a sequence.
pub(crate) fn fingerprint(vocabulary: &Vocabulary, tokenization: &Tokenization, order: MergeOrder) -> u64 {
    let Tokenization { normalizers, splits, merges, whole_pieces, symbols, added, .. } = tokenization;
    let mut facts = Facts { bytes: Vec::with_capacity(1 << 16), hasher: XxHash3_64::new() };
    facts.number(match order {
        MergeOrder::LowestRank => 0,
        MergeOrder::Passes => 1,
    });
    for (token, text) in vocabulary.text_tokens() {
        facts.number(token.0);
        facts.text(text);
    }
    facts.number(NONE);
    for (token, name) in vocabulary.control_tokens() {
        facts.number(token.0);
        facts.text(name.as_bytes());
    }
    facts.number(NONE);
    facts.number(count(merges.len()));
    for Merge { left, right, result } in merges.merges() {
        facts.numbers([left.0, right.0, result.0]);
    }
    facts.number(u32::from(*whole_pieces));
    facts.number(count(normalizers.len()));
    normalizers.iter().for_each(|normalizer| facts.normalizer(normalizer));
    facts.number(count(splits.len()));
    splits.iter().for_each(|split| facts.split(split));
    match symbols {
        Symbols::Bytes => facts.number(0),
        Symbols::Characters { fallback } => {
            facts.numbers([1, count(fallback.len())]);
            fallback.iter().for_each(|(byte, token)| facts.numbers([u32::from(*byte), token.0]));
        }
    }
    facts.number(count(added.len()));
    for token in added {
        facts.number(token.id.0);
        facts.text(token.content.as_bytes());
        let flags = [token.special, token.single_word, token.lstrip, token.rstrip, token.normalized];
        facts.numbers(flags.map(u32::from));
    }
    facts.finish()
}

/// Numbers and texts, each of which can be told from the next.
struct Facts {
    /// What is not hashed yet: hashing it in large blocks is faster.
    bytes: Vec<u8>,
    hasher: XxHash3_64,
}

impl Facts {
    fn number(&mut self, number: u32) {
        self.numbers([number]);
    }

    fn numbers<const N: usize>(&mut self, numbers: [u32; N]) {
        self.make_room(4 * N);
        numbers.iter().for_each(|number| self.bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn text(&mut self, text: &[u8]) {
        self.number(count(text.len()));
        self.make_room(text.len());
        self.bytes.extend_from_slice(text);
    }

    fn normalizer(&mut self, normalizer: &Normalizer) {
        match normalizer {
            Normalizer::Unicode(form) => self.numbers([
                0,
                match form {
                    UnicodeForm::Nfc => 0,
                    UnicodeForm::Nfd => 1,
                    UnicodeForm::Nfkc => 2,
                    UnicodeForm::Nfkd => 3,
                },
            ]),
            Normalizer::Prepend(text) => {
                self.number(1);
                self.text(text.as_bytes());
            }
            Normalizer::Replace { from, to } => {
                self.number(2);
                self.text(from.as_bytes());
                self.text(to.as_bytes());
            }
            // No automaton is built for these.
            other => {
                self.number(NONE);
                self.text(format!("{other:?}").as_bytes());
            }
        }
    }

    fn split(&mut self, split: &SplitPattern) {
        match split {
            SplitPattern::Regex { pattern, behavior, invert } => {
                self.numbers([0, behavior_number(*behavior), u32::from(*invert)]);
                self.text(pattern.as_bytes());
            }
            SplitPattern::Literal { text, behavior, invert } => {
                self.numbers([1, behavior_number(*behavior), u32::from(*invert)]);
                self.text(text.as_bytes());
            }
            SplitPattern::PrefixSpace => self.number(2),
            SplitPattern::Metaspace { replacement, prepend, split } => {
                let prepend = match prepend {
                    PrependScheme::Never => 0,
                    PrependScheme::First => 1,
                    PrependScheme::Always => 2,
                };
                self.numbers([3, u32::from(*replacement), prepend, u32::from(*split)]);
            }
            // No automaton is built for these.
            other => {
                self.number(NONE);
                self.text(format!("{other:?}").as_bytes());
            }
        }
    }

    fn make_room(&mut self, len: usize) {
        if self.bytes.len() + len > self.bytes.capacity() {
            self.hasher.write(&self.bytes);
            self.bytes.clear();
        }
    }

    fn finish(mut self) -> u64 {
        self.hasher.write(&self.bytes);
        self.hasher.finish()
    }
}

fn behavior_number(behavior: SplitBehavior) -> u32 {
    match behavior {
        SplitBehavior::Isolated => 0,
        SplitBehavior::Removed => 1,
        SplitBehavior::MergedWithPrevious => 2,
        SplitBehavior::MergedWithNext => 3,
        SplitBehavior::Contiguous => 4,
    }
}
