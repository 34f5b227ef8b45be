//! Files of items: text with one item a line, or a built set with its changes.
//!
//! The first bytes of a file say which of the two it is. The text is read once, since it may be a pipe. A built set
//! is mapped: its header and the index of its first column are checked when it is opened, and the rest only on
//! request. A set of millions of items opens in a fraction of a millisecond so. A part that nobody has checked gives
//! wrong tokens at worst, and neither a panic nor a loop. Small sets are checked whole, which takes less time than to
//! start a program.

use std::{
    fs::File,
    io::{BufRead, BufReader, Cursor, Read},
    path::Path,
    sync::Arc,
};

use unskew_core::Cancel;
use unskew_sets::{
    BuildReport, Delta, ExclusionConstraint, ItemSet, SetBuilder, SetConstraint, SetError, SetFileError,
    SetStore,
};

use crate::{
    BoxError, Error, Mismatch, Progress, Result, TokenSpace, chain,
    read::{self, Limited, MAX_LINES_BYTES},
    spec::SetSpec,
};

/// The first bytes of a built set.
const BUILT: &[u8] = b"unskew items";

/// Sets of at most this many bytes are checked whole when they are opened: about 0.1 ms.
const SMALL: usize = 1 << 20;

/// A file of items whose beginning has been read.
#[derive(Debug)]
pub struct ItemFile<'a> {
    path: &'a Path,
    begin: Vec<u8>,
    rest: Limited<File>,
    bytes: u64,
}

impl<'a> ItemFile<'a> {
    /// Opens a file and reads its first bytes.
    ///
    /// # Errors
    ///
    /// [`Error::File`], also for a text in UTF-16.
    pub fn open(path: &'a Path) -> Result<Self> {
        let no_file = |error| Error::file(path, error);
        let file = File::open(path).map_err(no_file)?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let (mut rest, mut begin) = (Limited::new(file, MAX_LINES_BYTES), Vec::new());
        rest.by_ref().take(BUILT.len() as u64).read_to_end(&mut begin).map_err(no_file)?;
        begin.drain(..read::mark(&begin).map_err(|error| Error::file(path, error))?);
        Ok(Self { path, begin, rest, bytes })
    }

    /// Whether it is a built set.
    pub fn is_built(&self) -> bool {
        self.begin == BUILT
    }

    /// Its text, from the first byte on.
    pub fn text(self) -> impl BufRead {
        BufReader::with_capacity(1 << 18, Cursor::new(self.begin).chain(self.rest))
    }

    /// Gives the lines to `builder`, and makes the set of them with `build`. Lines that are left out are told.
    ///
    /// # Errors
    ///
    /// [`Error::File`] with the number of a line that is no item, or where the set cannot be built.
    pub fn build(
        self,
        mut builder: SetBuilder,
        tokens: &TokenSpace,
        progress: &dyn Progress,
        build: impl FnOnce(SetBuilder) -> Result<(ItemSet, BuildReport), SetError>,
    ) -> Result<(ItemSet, BuildReport)> {
        let (path, of) = (self.path, self.bytes);
        let encode = |line: &str| tokens.encode_output(line);
        let pushed = builder.push_lines(self.text(), encode, |_, bytes| progress.reading(path, bytes, of));
        let built = pushed.and_then(|()| build(builder));
        progress.read(path);
        let (set, report) = built.map_err(|error| Error::file(path, error))?;
        tell(path, &report, progress);
        Ok((set, report))
    }
}

/// Tells the lines that were left out of a set.
fn tell(path: &Path, report: &BuildReport, progress: &dyn Progress) {
    let more = |named: usize, all: u64| if (named as u64) < all { ", ..." } else { "" };
    if report.duplicates > 0 {
        let BuildReport { duplicates, duplicate_lines: lines, .. } = report;
        let named: Vec<String> =
            lines.iter().map(|(line, first)| format!("line {line} is line {first}")).collect();
        let more = more(lines.len(), *duplicates);
        progress.note(&format!(
            "{}: left out as duplicates: {duplicates} ({}{more})",
            path.display(),
            named.join(", ")
        ));
    }
    if report.blank > 0 {
        let BuildReport { blank, blank_lines: lines, .. } = report;
        let named: Vec<String> = lines.iter().map(|line| format!("line {line}")).collect();
        let more = more(lines.len(), *blank);
        progress.note(&format!(
            "{}: left out as blank: {blank} ({}{more})",
            path.display(),
            named.join(", ")
        ));
    }
}

/// The part of a set that is checked when it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The header and the index of the first column; the whole set where it is small.
    Header,
    /// All checksums: reads the whole set.
    All,
}

/// The built set in a file, with the changes beside it.
///
/// # Errors
///
/// [`Error::File`] where there is no set, or a part that was checked is damaged.
pub fn open(path: &Path, check: Check) -> Result<(ItemSet, Option<Delta>)> {
    let store = SetStore::new(path).map_err(|error| set_file(path, error))?;
    checked(path, store.read(), check)
}

/// A set that was read from `path`, once it is checked.
///
/// # Errors
///
/// As [`open`].
pub fn checked(
    path: &Path,
    read: Result<(ItemSet, Option<Delta>), SetFileError>,
    check: Check,
) -> Result<(ItemSet, Option<Delta>)> {
    let checked = read.and_then(|(set, delta)| {
        if check == Check::All || set.as_bytes().len() <= SMALL {
            set.verify()?;
        }
        Ok((set, delta))
    });
    checked.map_err(|error| set_file(path, error))
}

/// An error about the file that it names, or about `path`.
fn set_file(path: &Path, error: SetFileError) -> Error {
    match error {
        SetFileError::Beside { path, error } => {
            Error::file(&path, format!("{}; or delete this file", chain(&error)))
        }
        SetFileError::Io { path, source } => Error::file(&path, source),
        other => Error::file(path, other),
    }
}

/// The items that a model with `tokens` may write: those of a built set, or the lines of a text.
pub(crate) fn set_constraint(
    spec: &SetSpec,
    canonical: bool,
    tokens: &TokenSpace,
    healed: &str,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<SetConstraint> {
    let SetSpec { file: path, subset, .. } = spec;
    let (file, len) = (ItemFile::open(path)?, tokens.vocabulary().len());
    let bad = |error: BoxError| Error::file(path, error);
    let made = if file.is_built() {
        if !healed.is_empty() {
            return Err(Error::file(
                path,
                Mismatch(format!(
                    "`heal` puts {healed:?} in front of every item, and the sequences of a built set are fixed; give the \
                     text file, or leave `heal` out"
                )),
            ));
        }
        let (set, delta) = open(path, Check::Header)?;
        set.check_vocabulary(tokens.vocabulary()).map_err(|error| bad(error.into()))?;
        if canonical {
            check_canonical(path, &set, delta.as_ref(), tokens, cancel)?;
        }
        let set = Arc::new(set);
        let subset = subset.as_ref().map(|name| set.subset(name)).transpose();
        match (delta, subset.map_err(|error| bad(error.into()))?) {
            (None, None) => SetConstraint::new(set, len),
            (None, Some(subset)) => SetConstraint::with_subset(set, Arc::new(subset), len),
            (Some(delta), None) => SetConstraint::with_delta(set, &delta, len),
            (Some(delta), Some(subset)) => SetConstraint::with_delta_and_subset(set, &delta, &subset, len),
        }
    } else {
        if canonical && !tokens.has_tokenizer() {
            return Err(TokenSpace::no_tokenizer());
        }
        if subset.is_some() {
            return Err(Error::file(
                path,
                Mismatch(
                    "`subset` names a subset of a built set, and this is a text file; make one with `unskew set build` and \
                     `unskew set subset`, or give a file with the items of the subset alone"
                        .to_owned(),
                ),
            ));
        }
        let builder = SetBuilder::for_vocabulary(Arc::clone(tokens.vocabulary())).prefix(healed);
        let (set, _) = file.build(builder, tokens, progress, SetBuilder::build)?;
        SetConstraint::new(Arc::new(set), len)
    };
    made.map_err(|error| bad(error.into()))
}

/// Compares all sequences of a built set with those that the tokenizer writes. The file names the vocabulary that it is
/// for, and two tokenizers may share one. Cost: a few microseconds for each item, once for a compiled constraint.
fn check_canonical(
    path: &Path,
    set: &ItemSet,
    delta: Option<&Delta>,
    tokens: &TokenSpace,
    cancel: &Cancel,
) -> Result<()> {
    let none = Delta::new(set);
    let items = delta.unwrap_or(&none).items(set).map_err(|error| Error::file(path, error))?;
    for (at, (_, item)) in items.enumerate() {
        if at % 256 == 0 && cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        match tokens.is_canonical(&item) {
            Some(true) => {}
            Some(false) => {
                let text = String::from_utf8_lossy(&tokens.vocabulary().decode(&item)).into_owned();
                let item: Vec<u32> = item.iter().map(|id| id.0).collect();
                return Err(Error::file(
                    path,
                    Mismatch(format!(
                        "the set has {text:?} as {item:?}, and `canonical` asks for the tokenizer's own sequence, which is \
                         another; leave `canonical` out, or build the set anew"
                    )),
                ));
            }
            None => return Err(TokenSpace::no_tokenizer()),
        }
    }
    Ok(())
}

/// Any text but the items of a file, in every spelling.
pub(crate) fn exclusion(path: &Path, tokens: &TokenSpace, healed: &str) -> Result<ExclusionConstraint> {
    if !healed.is_empty() {
        return Err(Error::combination(
            "`heal` makes outputs begin with a part of the prompt, and `exclude_set` says nothing about beginnings; leave \
             out one of the two",
        ));
    }
    let file = ItemFile::open(path)?;
    let vocabulary = Arc::clone(tokens.vocabulary());
    let made = if file.is_built() {
        // All items are read anyway.
        let (set, delta) = open(path, Check::All)?;
        set.check_vocabulary(&vocabulary).map_err(|error| Error::file(path, error))?;
        let changes = delta.unwrap_or_else(|| Delta::new(&set));
        let items = changes.items(&set).map_err(|error| Error::file(path, error))?;
        ExclusionConstraint::new(
            items.map(|(_, item)| tokens.vocabulary().decode(&item)),
            Arc::clone(&vocabulary),
        )
    } else {
        ExclusionConstraint::from_lines(file.text(), vocabulary)
    };
    made.map_err(|error| Error::file(path, error))
}
