//! Builds a set from token sequences, or from lines of text through a tokenizer.
//!
//! **An item is one token sequence**: the sequence that the caller gives, or the sequence that the tokenizer writes
//! for a line. Another spelling of the same text is not in the set, as in the paper. Samplers keep the distribution
//! over sequences: the probability of an item is the probability that the model gives to the item's own tokens. (All
//! spellings of a few texts are a `RegexConstraint::from_choices`.)
//!
//! Lines go to the encoder in batches, on all cores. Items beyond [`SetLimits::memory`] go to temporary files and are
//! merged. The [`BuildReport`] counts and names the dropped lines (duplicates, blank lines). A line that cannot be an
//! item is an error that names the line.

mod sort;
pub(crate) mod write;

use std::{
    io::{BufRead, Cursor, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use unskew_core::{TokenId, TokenMask, Vocabulary};
use unskew_files::NewFile;

use crate::{
    ItemSet,
    error::{Line, SetError, SetFileError},
    lines::{Form, Found, encode_lines},
    subset::subsets_to_bytes,
};
use sort::{Items, Run, merge};
use write::{SetWriter, Shape};

/// The number of dropped lines that a report names.
const NAMED: usize = 10;

/// Limits for the building of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetLimits {
    /// The most tokens of an item. Default: 4,096.
    pub item_tokens: usize,
    /// The most bytes of a line. Default: 1 MiB.
    pub line_bytes: usize,
    /// Memory that items may take before they go to a temporary file, in bytes: 4 a token and 32 an item. Default: 2
    /// GiB. The set that [`SetBuilder::build`] makes comes on top; [`SetBuilder::build_to`] writes the set to its
    /// file.
    pub memory: usize,
}

impl Default for SetLimits {
    fn default() -> Self {
        Self { item_tokens: 4096, line_bytes: 1 << 20, memory: 1 << 31 }
    }
}

/// Counts of the items and of the dropped lines of a build.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct BuildReport {
    /// Items in the set.
    pub items: u64,
    /// Dropped items: the set had an equal item already.
    pub duplicates: u64,
    /// The first duplicates: the line of the dropped item, and the line of the equal item that stays.
    pub duplicate_lines: Vec<(Line, Line)>,
    /// Dropped lines: lines without text.
    pub blank: u64,
    /// The first blank lines.
    pub blank_lines: Vec<Line>,
    /// The number of temporary files that were written because the items did not fit in memory.
    pub spilled: usize,
}

impl BuildReport {
    fn twin(&mut self, line: Line, first: Line) {
        self.duplicates += 1;
        if self.duplicate_lines.len() < NAMED {
            self.duplicate_lines.push((line, first));
        }
    }
}

/// Gathers items, in any order, and builds an [`ItemSet`].
///
/// Cost: O(n log n) for n items.
#[derive(Debug)]
pub struct SetBuilder {
    vocab_len: usize,
    /// The vocabulary, and the bits of its tokens that have text: the builder looks up every token of every item.
    vocabulary: Option<(Arc<Vocabulary>, TokenMask)>,
    limits: SetLimits,
    folder: PathBuf,
    prefix: String,
    items: Items,
    runs: Vec<Run>,
    /// The number of sequences and lines so far.
    lines: Line,
    report: BuildReport,
}

impl SetBuilder {
    /// A set over token ids below `vocab_len`, without regard to their texts.
    pub fn new(vocab_len: usize) -> Self {
        Self {
            vocab_len,
            vocabulary: None,
            limits: SetLimits::default(),
            folder: std::env::temp_dir(),
            prefix: String::new(),
            items: Items::default(),
            runs: Vec::new(),
            lines: 0,
            report: BuildReport::default(),
        }
    }

    /// A set of texts over `vocabulary`; [`ItemSet::open`] refuses the set for any other vocabulary.
    pub fn for_vocabulary(vocabulary: Arc<Vocabulary>) -> Self {
        let mut texts = TokenMask::new(vocabulary.len());
        for (token, _) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            texts.as_mut().insert(token);
        }
        let vocab_len = vocabulary.used_len();
        Self { vocabulary: Some((vocabulary, texts)), ..Self::new(vocab_len) }
    }

    /// The same builder with other limits.
    #[must_use]
    pub fn limits(mut self, limits: SetLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same builder with `folder` for temporary files in place of the system's.
    #[must_use]
    pub fn temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The same builder, which puts `prefix` in front of every line. Every item then begins with `prefix`; the last
    /// token of `prefix` may extend into the line.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Adds a token sequence; an empty sequence is the empty output.
    ///
    /// # Errors
    ///
    /// [`SetError`] where a token cannot be part of an output, or the item is too long.
    pub fn push(&mut self, item: &[TokenId]) -> Result<(), SetError> {
        self.lines += 1;
        self.push_from(self.lines, item)
    }

    fn push_from(&mut self, line: Line, item: &[TokenId]) -> Result<(), SetError> {
        let (vocab_len, limit) = (self.vocab_len, self.limits.item_tokens);
        if item.len() > limit {
            return Err(SetError::TooLong { line, tokens: item.len(), limit });
        }
        if let Some(token) = item.iter().copied().find(|token| token.index() >= vocab_len) {
            return Err(SetError::NoSuchToken { line, token, vocab_len });
        }
        if let Some((_, texts)) = &self.vocabulary
            && let Some(token) = item.iter().copied().find(|token| !texts.contains(*token))
        {
            return Err(SetError::NotText { line, token });
        }
        self.items.push(line, item.iter().map(|token| token.0));
        if self.items.bytes() >= self.limits.memory {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<(), SetError> {
        let items = std::mem::take(&mut self.items);
        let report = &mut self.report;
        self.runs.push(items.spill(&self.folder, |line, first| report.twin(line, first))?);
        report.spilled += 1;
        Ok(())
    }

    /// Adds every line of a text, as `encode` writes it. A line break (`\n` or `\r\n`) is not part of a line. Lines
    /// without text are dropped and counted. From time to time `progress` gets the number of lines and of bytes so
    /// far.
    ///
    /// # Errors
    ///
    /// [`SetError`] with the line: the line is not UTF-8 or is too long, `encode` fails, or the tokens that `encode`
    /// returns spell another text. The builder may have taken the lines in front of that line.
    ///
    /// # Panics
    ///
    /// If the builder comes from [`new`](Self::new): it then does not know the texts of the tokens.
    pub fn push_lines<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        text: impl BufRead,
        encode: impl Fn(&str) -> Result<Vec<TokenId>, E> + Sync,
        mut progress: impl FnMut(Line, u64),
    ) -> Result<(), SetError> {
        let (vocabulary, _) = self.vocabulary.as_ref().expect("a builder for a vocabulary");
        let (vocabulary, prefix) = (Arc::clone(vocabulary), self.prefix.clone());
        let form = Form { vocabulary: &vocabulary, prefix: &prefix, line_bytes: self.limits.line_bytes };
        let mut lines = self.lines;
        let read = encode_lines(text, form, &mut lines, encode, |found| {
            match found {
                Found::Item(line, _, item) => self.push_from(line, &item)?,
                Found::Blank(line) => {
                    self.report.blank += 1;
                    if self.report.blank_lines.len() < NAMED {
                        self.report.blank_lines.push(line);
                    }
                }
                Found::Progress(lines, bytes) => progress(lines, bytes),
            }
            Ok(())
        });
        self.lines = lines;
        read
    }

    /// The set, in memory.
    ///
    /// # Errors
    ///
    /// [`SetError`].
    pub fn build(self) -> Result<(ItemSet, BuildReport), SetError> {
        let (bytes, report) = self.write(Cursor::new(Vec::new()))?;
        let set = ItemSet::from_bytes(bytes.into_inner()).expect("what was written can be read");
        Ok((set, report))
    }

    /// The set, written to a file and opened from there. The file gets its name only when the set is complete.
    ///
    /// # Errors
    ///
    /// [`SetError`].
    pub fn build_to(self, path: impl AsRef<Path>) -> Result<(ItemSet, BuildReport), SetError> {
        let path = path.as_ref();
        let (file, report) = self.write(NewFile::create(path)?)?;
        file.commit()?;
        let set = ItemSet::open_any(path).map_err(|error| match error {
            SetFileError::Io { source, .. } => SetError::Io(source),
            other => SetError::Io(std::io::Error::other(other)),
        })?;
        Ok((set, report))
    }

    fn write<W: Write + Seek>(mut self, out: W) -> Result<(W, BuildReport), SetError> {
        let identity = self.vocabulary.as_ref().map_or(0, |(vocabulary, _)| vocabulary.fingerprint());
        let mut report = std::mem::take(&mut self.report);
        let mut shape = Shape::default();
        let (vocab_len, folder) = (self.vocab_len, self.folder.clone());
        let out = if self.runs.is_empty() {
            let items = self.items;
            let order = items.sorted(|line, first| report.twin(line, first));
            order.iter().try_for_each(|index| shape.count(items.get(*index).len()))?;
            let mut writer = SetWriter::new(out, &shape, vocab_len, identity)?;
            order.iter().try_for_each(|index| writer.push(items.get(*index)))?;
            writer.finish(subsets_to_bytes(&[]))?
        } else {
            if self.items.len() > 0 {
                self.report = report;
                self.spill()?;
                report = std::mem::take(&mut self.report);
            }
            let run = merge(self.runs, &folder, &mut |line, first| report.twin(line, first))?;
            let mut items = run.read()?;
            while let Some((item, _)) = items.next()? {
                shape.count(item.len())?;
            }
            let mut writer = SetWriter::new(out, &shape, vocab_len, identity)?;
            let mut items = run.read()?;
            while let Some((item, _)) = items.next()? {
                writer.push(&item)?;
            }
            writer.finish(subsets_to_bytes(&[]))?
        };
        report.items = shape.items.into();
        Ok((out, report))
    }
}
