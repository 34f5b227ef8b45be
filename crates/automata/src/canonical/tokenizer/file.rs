//! The file of a tokenizer's automaton: written once, read in milliseconds.
//!
//! The file holds the tables in their memory layout, except for the tables that follow from others in one pass. The
//! parts of a token are the parts of the merge that its key names, so a file cannot name a merge that the tokenizer
//! does not have. The file also omits the tables for the opposite direction of the bigram relation, which are built
//! at the first use ([`BigramRelation::forbidden_prev`]). For Llama 3 the file has 7 MB.
//!
//! ```text
//! "unskew canon"  version: u32  checksum: u64  length of the file: u64  fingerprint: u64  sections ..
//! ```
//!
//! All numbers are little-endian. A section is a number of items and the items, padded to a multiple of four bytes.
//! The checksum is XXH3 of all bytes after it and detects accidents. The fingerprint detects other tokenizers. The
//! reader checks all further properties of the contents ([`Forest::from_tables`] and similar constructors). Any
//! bytes give an error, or an automaton that never panics and never loops, although its masks may not be the
//! tokenizer's.
//!
//! | share of the time for Llama 3 | work |
//! |---|---|
//! | a third | reading, copying and computing the checksum |
//! | a third | the merge trees and the forest, with the check that every walk through them ends |
//! | a tenth | the fingerprint |
//!
//! For a large vocabulary a second thread computes the fingerprint and the trees. The first use of new memory costs
//! as much time again, so tables that are not stored at all save the most. Tried instead:
//!
//! - Keys alone, of trees, partners and the order of forests, from which the rest is reconstructed. The file has
//!   half the size and takes three times as long, since each key is a random access into the merges.
//! - `serde` with a binary format. It neither checks the meaning of the tables nor reads them in one pass, and the
//!   layout of private structs would be the format.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

use twox_hash::XxHash3_64;
use unskew_core::{TokenId, Tokenization, UnicodeForm, Vocabulary};

use super::{
    automaton::{Role, TokenizerAutomaton, order_of, sets_of_roles},
    fingerprint::{fingerprint, form_number},
    reader::{Reader, no_file},
};
use crate::{
    canonical::{
        MergeOrder,
        merges::{
            derivation::{Derivations, NONE},
            forest::{BigramRelation, Forest, Partners},
            whole::WholePieces,
        },
        texts::{added::TextDfa, facts::AddedText},
    },
    split::SplitDfa,
};

pub(super) const MAGIC: &[u8; 12] = b"unskew canon";

/// Raise it whenever the layout changes, or the tables that are built from one tokenizer.
pub(super) const VERSION: u32 = 4;

/// The offset of the checksum, and the offset of the bytes that it covers.
const CHECKSUM: usize = MAGIC.len() + 4;
const SUMMED: usize = CHECKSUM + 8;
pub(super) const HEADER: usize = SUMMED + 16;

/// The roles by their number in the file.
const ROLES: [Role; 4] = [Role::Never, Role::Merged, Role::Fallback, Role::Whole];

/// The number of ids above which a second thread pays.
const SECOND_THREAD_IDS: usize = 1 << 15;

/// The number of bytes that are read from a file at a time. They fit the second-level cache.
const BUFFER: usize = 1 << 17;

/// The reason why a file is not the automaton of a tokenizer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AutomatonFileError {
    /// Another kind of file, or an empty one.
    #[error("this is not the file of a tokenizer automaton: it does not begin with \"unskew canon\"")]
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
    /// The file is cut off, or has bytes after its end.
    #[error(
        "the tokenizer automaton has {len} bytes where its header says {expected}: copy or build it again"
    )]
    Length {
        /// The number of bytes.
        len: u64,
        /// The number of bytes that the header declares.
        expected: u64,
    },
    /// The file was damaged.
    #[error(
        "the tokenizer automaton's checksum is {found:016x} and should be {expected:016x}: copy or build it again"
    )]
    Checksum {
        /// The checksum of the contents.
        found: u64,
        /// The checksum in the header.
        expected: u64,
    },
    /// The file belongs to another tokenizer, or to an earlier version of this tokenizer.
    #[error(
        "the tokenizer automaton is of another tokenizer ({file:016x}, not {tokenizer:016x}): build it for this one"
    )]
    OtherTokenizer {
        /// The fingerprint of the tokenizer that it was built for.
        file: u64,
        /// The fingerprint of the given tokenizer.
        tokenizer: u64,
    },
    /// The file was not written by this library.
    #[error("the tokenizer automaton's {section} fit no tokenizer: build it again")]
    Invalid {
        /// The section that is wrong.
        section: &'static str,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] unskew_files::FileError),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl TokenizerAutomaton {
    /// The automaton as bytes. They are the same on every platform and for every padding of the vocabulary.
    pub fn to_bytes(&self) -> Vec<u8> {
        let trees = &self.bigrams.trees;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.resize(HEADER, 0);
        put_words(
            &mut bytes,
            &[u32::from(trees.order == MergeOrder::Passes), self.form.map_or(0, form_number)],
        );
        // Padding is never written and has no trees.
        let is_used = |token: usize| self.roles[token] != Role::Never || trees.key[token] != NONE;
        let used = (0..self.vocab_len).rev().find(|token| is_used(*token)).map_or(0, |last| last + 1);
        put_bytes(&mut bytes, &self.roles[..used].iter().map(|role| *role as u8).collect::<Vec<u8>>());
        put_words(&mut bytes, &trees.key[..used]);
        put_words(&mut bytes, &trees.time[..used]);
        let BigramRelation { lefts, by_left, class, class_token, .. } = &self.bigrams;
        put_words(&mut bytes, &class[..used]);
        put_words(&mut bytes, class_token);
        for table in lefts.tables(used).into_iter().chain(by_left.tables(used)) {
            put_words(&mut bytes, table);
        }
        put_words(&mut bytes, &self.symbols);
        put_words(&mut bytes, &self.fallback);

        let sequences = self.whole.sequences();
        put_words(&mut bytes, &ends(sequences.iter().map(Vec::len)));
        put_words(&mut bytes, &sequences.concat());
        let kinds = self.added.iter().flat_map(|added| {
            let section = u32::try_from(added.section).expect("few sections");
            [added.token, section << 2 | u32::from(added.normalized) << 1 | u32::from(added.strips)]
        });
        put_words(&mut bytes, &kinds.collect::<Vec<u32>>());
        put_words(&mut bytes, &ends(self.added.iter().map(|added| added.content.len())));
        let contents = self.added.iter().flat_map(|added| &added.content);
        put_bytes(&mut bytes, &contents.copied().collect::<Vec<u8>>());

        let SplitDfa { classes, next, fallback, mark, accepting, before_strip, start, sections } =
            &self.split;
        let flags = |flags: &[bool]| flags.iter().map(|flag| u8::from(*flag)).collect::<Vec<u8>>();
        put_bytes(&mut bytes, classes.as_array());
        put_words(&mut bytes, next);
        put_words(&mut bytes, fallback);
        put_words(&mut bytes, mark);
        put_bytes(&mut bytes, &flags(accepting));
        put_bytes(&mut bytes, &flags(before_strip));
        put_words(&mut bytes, sections);
        put_bytes(&mut bytes, self.text.classes.as_array());
        put_words(&mut bytes, &self.text.next);
        put_words(&mut bytes, &self.text.after);
        put_words(&mut bytes, self.text.otherwise.as_flattened());
        put_words(&mut bytes, &[*start, self.text.start]);

        let len = bytes.len() as u64;
        bytes[SUMMED..SUMMED + 8].copy_from_slice(&len.to_le_bytes());
        bytes[SUMMED + 8..HEADER].copy_from_slice(&self.fingerprint.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[SUMMED..]);
        bytes[CHECKSUM..SUMMED].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Writes the automaton to a file, for [`load`](Self::load). The file appears under its name only when it is
    /// complete.
    ///
    /// # Errors
    ///
    /// [`AutomatonFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), AutomatonFileError> {
        Ok(unskew_files::write(path, &self.to_bytes())?)
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes) for the same tokenizer. `vocabulary` may be padded
    /// differently from the vocabulary that the automaton was built for.
    ///
    /// Cost: O(n) for n ids and merges; about 1 ms for 32,000 ids and 3 ms for 128,000, a thirtieth of building.
    ///
    /// # Errors
    ///
    /// [`AutomatonFileError`] names the defect of the bytes. Bytes that this library did not write, with the right
    /// checksum, may give an automaton of another language. The only harm is that it allows wrong tokens.
    pub fn from_bytes(
        bytes: &[u8],
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
    ) -> Result<Self, AutomatonFileError> {
        Self::read(bytes, bytes.len() as u64, vocabulary, tokenization)
    }

    /// Reads the automaton from the `len` bytes of `input`.
    pub(crate) fn read(
        input: impl BufRead,
        len: u64,
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
    ) -> Result<Self, AutomatonFileError> {
        let mut reader = Reader::new(input, len, vocabulary.len())?;
        let file = reader.fingerprint;
        let flags = reader.flags();
        let (order, _) = flags.as_ref().copied().unwrap_or_default();
        let is_large = vocabulary.len() > SECOND_THREAD_IDS;
        let ((tokenizer, vocabulary_fingerprint), automaton) = beside(
            is_large,
            || (fingerprint(vocabulary, tokenization, order), vocabulary.fingerprint()),
            || {
                let automaton =
                    flags.and_then(|flags| Self::read_sections(&mut reader, flags, vocabulary, tokenization));
                // A wrong checksum takes precedence over an error in a section.
                reader.finish().and(automaton)
            },
        );
        match automaton {
            Ok(_) | Err(AutomatonFileError::Invalid { .. }) if tokenizer != file => {
                Err(AutomatonFileError::OtherTokenizer { file, tokenizer })
            }
            automaton => automaton.map(|automaton| Self { vocabulary_fingerprint, ..automaton }),
        }
    }

    fn read_sections(
        reader: &mut Reader<impl BufRead>,
        (order, form): (MergeOrder, Option<UnicodeForm>),
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
    ) -> Result<Self, AutomatonFileError> {
        let invalid = |section| AutomatonFileError::Invalid { section };
        let len = vocabulary.len();
        let numbers = reader.bytes("roles")?;
        if numbers.len() > len || numbers.iter().fold(0, |most, role| most.max(*role)) > ROLES[3] as u8 {
            return Err(invalid("roles"));
        }
        let mut roles = Vec::with_capacity(len);
        roles.extend(numbers.iter().map(|number| ROLES[usize::from(number & 3)]));
        roles.resize(len, Role::Never);
        let (key, time) = (reader.by_token("merge trees")?, reader.by_token("merge trees")?);
        let classes = [reader.by_token("classes")?, reader.words("classes")?];
        let (forest, partners) = (reader.forest()?, reader.partners()?);
        let (_, offsets) = vocabulary.flat();
        let length = |token: u32| offsets[token as usize + 1] - offsets[token as usize];
        let (merges, reachable) = (&tokenization.merges, Derivations::reachable_bits(&key));
        let (trees, (lefts, by_left)) = beside(
            len > SECOND_THREAD_IDS,
            || Derivations::from_keys(len, key, time, merges, order).filter(|trees| trees.are_trees(length)),
            || {
                (
                    Forest::from_tables(forest, len, &reachable),
                    Partners::from_tables(partners, len, merges.len()),
                )
            },
        );
        let (trees, lefts) = (trees.ok_or(invalid("merge trees"))?, lefts.ok_or(invalid("forests"))?);
        let by_left = by_left.ok_or(invalid("partners"))?;
        let bigrams = BigramRelation::from_parts(trees, lefts, by_left, classes).ok_or(invalid("classes"))?;
        let is_reachable = |token: u32| bigrams.trees.key.get(token as usize).is_some_and(|key| *key != NONE);
        // A token with bytes is text or a control token, and control tokens have other roles.
        let mut controls = vocabulary.control_tokens().map(|(token, _)| roles[token.index()]);
        let mut fits = controls.all(|role| !matches!(role, Role::Merged | Role::Whole));
        for ((role, key), (begin, end)) in
            roles.iter().zip(&bigrams.trees.key).zip(offsets.iter().zip(&offsets[1..]))
        {
            let (needs_key, needs_text) =
                (matches!(role, Role::Merged | Role::Fallback), matches!(role, Role::Merged | Role::Whole));
            fits &= (!needs_key | (*key != NONE)) & (!needs_text | (begin < end));
        }
        if !fits {
            return Err(invalid("roles"));
        }
        let mut by_byte = |section| {
            let tokens = reader.words(section)?;
            let fits =
                tokens.len() == 256 && tokens.iter().all(|token| *token == NONE || is_reachable(*token));
            if fits { Ok(tokens) } else { Err(invalid(section)) }
        };
        let (symbols, fallback) = (by_byte("symbols")?, by_byte("tokens of bytes")?);

        let (ends, tokens) = (reader.words("whole pieces")?, reader.words("whole pieces")?);
        // No piece has more tokens than bytes.
        let whole_texts = (0u32..).zip(&roles).filter(|(_, role)| **role == Role::Whole);
        let longest =
            whole_texts.filter_map(|(token, _)| vocabulary.text(token.into())).map(<[u8]>::len).max();
        let sequences = parts(&ends, &tokens).filter(|_| tokens.iter().all(|token| is_reachable(*token)));
        let whole =
            sequences.and_then(|sequences| WholePieces::from_sequences(&sequences, longest.unwrap_or(0)));
        let whole = whole.ok_or(invalid("whole pieces"))?;

        let (kinds, ends) = (reader.words("added tokens")?, reader.words("added tokens")?);
        let contents = reader.bytes("added tokens")?;
        let (kinds, odd) = kinds.as_chunks::<2>();
        let contents =
            parts(&ends, &contents).filter(|contents| contents.len() == kinds.len() && odd.is_empty());
        let contents = contents.ok_or(invalid("added tokens"))?;
        let added = kinds.iter().zip(contents).map(|([token, kind], content)| AddedText {
            token: *token,
            content: content.to_vec(),
            normalized: kind >> 1 & 1 != 0,
            section: (kind >> 2) as usize,
            strips: kind & 1 != 0,
        });
        let added: Vec<AddedText> = added.collect();

        let classes = reader.classes("splits")?;
        let (next, fallback_next) = (reader.words("splits")?, reader.words("splits")?);
        let (mark, accepting) = (reader.words("splits")?, reader.bytes("splits")?);
        let (before_strip, sections) = (reader.bytes("splits")?, reader.words("splits")?);
        let (text_classes, text_next) = (reader.classes("texts")?, reader.words("texts")?);
        let (after, otherwise) = (reader.words("texts")?, reader.words("texts")?);
        let [split_start, text_start] = reader.words("starts")?[..] else { return Err(invalid("starts")) };
        let flags = |flags: Vec<u8>| flags.iter().map(|flag| *flag == 1).collect::<Vec<bool>>();
        let split = SplitDfa {
            classes,
            next,
            fallback: fallback_next,
            mark,
            accepting: flags(accepting),
            before_strip: flags(before_strip),
            start: split_start,
            sections,
        };
        let has_token = |added: &AddedText| {
            (added.token as usize) < len
                && added.section < split.sections.len()
                && vocabulary.text(TokenId(added.token)) == Some(&added.content[..])
        };
        let ascend = added.windows(2).all(|pair| pair[0].token < pair[1].token);
        if !ascend || !added.iter().all(has_token) {
            return Err(invalid("added tokens"));
        }
        let split = split.checked();
        let (otherwise, odd) = otherwise.as_chunks::<3>();
        let text = TextDfa {
            classes: text_classes,
            next: text_next,
            start: text_start,
            after,
            otherwise: otherwise.to_vec(),
        };
        let text = text.checked(added.len()).filter(|_| odd.is_empty());
        if reader.rest > 0 {
            return Err(invalid("last bytes"));
        }
        let (merged, only_whole) = sets_of_roles(&roles);
        let split = split.ok_or(invalid("splits"))?;
        Ok(Self {
            fingerprint: reader.fingerprint,
            // The caller computes it in parallel.
            vocabulary_fingerprint: 0,
            vocab_len: len,
            roles,
            merged,
            only_whole,
            symbols,
            bigrams,
            whole,
            fallback,
            split,
            text: text.ok_or(invalid("texts"))?,
            form,
            added_order: order_of(&added),
            added,
        })
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
        let read = || {
            let file = File::open(path).map_err(no_file)?;
            let facts = file.metadata().map_err(no_file)?;
            if facts.is_file() {
                let input = BufReader::with_capacity(BUFFER, file);
                return Self::read(input, facts.len(), vocabulary, tokenization);
            }
            Self::from_bytes(&std::fs::read(path).map_err(no_file)?, vocabulary, tokenization)
        };
        read().map_err(|error| match error {
            AutomatonFileError::Io { source, .. } => AutomatonFileError::Io { path: path.to_owned(), source },
            other => other,
        })
    }
}

/// Both results. The first is computed on a thread of its own if that `pays` and a thread can be started.
fn beside<A: Send, B>(pays: bool, first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    if !pays {
        return (first(), second());
    }
    // A failed spawn does not return its closure, so the closure is shared.
    let first = Mutex::new(Some(first));
    let run = || first.lock().unwrap_or_else(PoisonError::into_inner).take().map(|first| first());
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, run);
        let second = second();
        let first = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => run(),
        };
        (first.expect("it is run once"), second)
    })
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

/// The end offsets of lists of these lengths in their concatenation.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let ends = lengths.scan(0, |end, len| {
        *end += len;
        Some(count(*end))
    });
    ends.collect()
}

/// The parts of `items` with these ends. `None` if a part is empty or the last end is not the end of `items`.
fn parts<'a, T>(ends: &[u32], items: &'a [T]) -> Option<Vec<&'a [T]>> {
    let mut begin = 0;
    let mut parts = Vec::with_capacity(ends.len());
    for end in ends.iter().map(|end| *end as usize) {
        parts.push(items.get(begin..end).filter(|part| !part.is_empty())?);
        begin = end;
    }
    (begin == items.len()).then_some(parts)
}

pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).expect("states, tokens and merges are numbered with 32 bits")
}
