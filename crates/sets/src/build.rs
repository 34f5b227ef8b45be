//! From token sequences, or from lines of text through a tokenizer, to a set.
//!
//! **An item is one token sequence**: the one that was given, or the one that the tokenizer writes for the line. Another
//! spelling of the same text is not in the set. That is the constraint of the paper, and the distribution that is kept is that of the
//! sequences: the probability of an item is the model's for its own tokens. (All spellings of a few texts are a
//! `RegexConstraint::from_choices`.)
//!
//! Lines go to the encoder in batches, on all cores; items beyond [`SetLimits::memory`] go to temporary files and are
//! merged. What is dropped (duplicates, blank lines) is counted and named in the [`BuildReport`]; what cannot be taken is
//! an error that names its line.

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
    sort::{Items, Run, merge},
    subset::subsets_to_bytes,
    write::{SetWriter, Shape},
};

/// How many lines that were dropped are named in a report.
const NAMED: usize = 10;

/// What building a set may cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetLimits {
    /// Tokens of an item. Default: 4,096.
    pub item_tokens: usize,
    /// Bytes of a line. Default: 1 MiB.
    pub line_bytes: usize,
    /// Memory that items may take before they go to a temporary file, in bytes: 4 a token and 32 an item. Default: 2 GiB.
    /// What [`SetBuilder::build`] makes comes on top; [`SetBuilder::build_to`] writes it to its file.
    pub memory: usize,
}

impl Default for SetLimits {
    fn default() -> Self {
        Self { item_tokens: 4096, line_bytes: 1 << 20, memory: 1 << 31 }
    }
}

/// What became of what was given.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct BuildReport {
    /// Items in the set.
    pub items: u64,
    /// Items that were there already, and dropped.
    pub duplicates: u64,
    /// Some of them: the line, and the line of an equal item that was kept.
    pub duplicate_lines: Vec<(Line, Line)>,
    /// Lines without text, and dropped.
    pub blank: u64,
    /// The first of them.
    pub blank_lines: Vec<Line>,
    /// How many temporary files were written because the items did not fit in memory.
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
    /// With its tokens that have text, in bits: every token of every item is looked up.
    vocabulary: Option<(Arc<Vocabulary>, TokenMask)>,
    limits: SetLimits,
    folder: PathBuf,
    prefix: String,
    items: Items,
    runs: Vec<Run>,
    /// How many sequences and lines there were.
    lines: Line,
    report: BuildReport,
}

impl SetBuilder {
    /// A set over token ids below `vocab_len`, whatever they stand for.
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

    /// A set of texts over `vocabulary`, which no other vocabulary can open.
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

    /// The same builder with another folder for temporary files than the system's.
    #[must_use]
    pub fn temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The same builder, which puts `prefix` in front of every line: items then begin with it, and its last token may be one
    /// that goes on into the line.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Adds a token sequence; an empty one is the empty output.
    ///
    /// # Errors
    ///
    /// [`SetError`] where a token does not belong into an output, or the item is too long.
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

    /// Adds every line of a text, as `encode` writes it; a line break (`\n` or `\r\n`) is not part of a line, and lines
    /// without text are dropped and counted. `progress` gets the number of lines and of bytes so far, now and then.
    ///
    /// # Errors
    ///
    /// [`SetError`] with the line: where it is not UTF-8, too long, `encode` fails, or the tokens that it answers with spell
    /// another text. The builder may have taken lines in front of it.
    ///
    /// # Panics
    ///
    /// If the builder was made by [`new`](Self::new), so that it is not known what tokens spell.
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

    /// The set, written to a file and opened from there. The file has its name only when it is complete.
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
