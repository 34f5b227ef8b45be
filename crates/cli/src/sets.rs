//! `--set` and `unskew set`: from a text file or a built set to items.

use std::{
    fs::File,
    io::{BufReader, Cursor, IsTerminal, Read},
    path::Path,
    sync::Arc,
};

use indicatif::{ProgressBar, ProgressStyle};
use unskew::{
    core::AnyConstraint,
    sets::{BuildReport, ItemSet, SetBuilder, SetConstraint, SetError, SetFileError, SetLimits},
};

use crate::{
    error::{Failure, Result, chain},
    load::Tokens,
};

/// What a built set begins with.
const BUILT: &[u8] = b"unskew items";

/// The constraint of `--set`: a built set, or a text file, by what the file begins with.
pub(crate) fn constraint(
    path: &Path,
    canonical: bool,
    tokens: &Tokens,
    healed: &str,
) -> Result<AnyConstraint> {
    let file = SetFile::open(path)?;
    let set = if file.is_built() {
        if canonical {
            return Err(Failure::file(
                path,
                "--canonical cannot be combined with a built set, whose sequences are those that its tokenizer wrote; \
                 leave it out, or give the text file",
            ));
        }
        if !healed.is_empty() {
            return Err(Failure::file(
                path,
                format!(
                    "--heal puts {healed:?} in front of every item, and the sequences of a built set are fixed; give the \
                     text file, or leave --heal out"
                ),
            ));
        }
        open(path, tokens)?
    } else {
        if canonical && !tokens.has_tokenizer() {
            return Err(Failure::input(
                "--canonical asks for the tokenizer's own sequences, and a table model has no tokenizer; \
                 name one with --tokenizer FILE",
            ));
        }
        let (set, report) = from_lines(file, builder(tokens).prefix(healed), tokens, SetBuilder::build)?;
        tell(path, &report);
        set
    };
    let constraint = SetConstraint::new(Arc::new(set), tokens.vocabulary.len());
    constraint.map(AnyConstraint::new).map_err(|error| Failure::file(path, chain(&error)))
}

/// A builder over the tokens of a model.
fn builder(tokens: &Tokens) -> SetBuilder {
    SetBuilder::for_vocabulary(Arc::clone(&tokens.vocabulary))
}

/// Builds a set from the lines of `path` into the file `output`.
pub(crate) fn build(
    path: &Path,
    output: &Path,
    memory: usize,
    tokens: &Tokens,
) -> Result<(ItemSet, BuildReport)> {
    let file = SetFile::open(path)?;
    if file.is_built() {
        return Err(Failure::file(
            path,
            "this is a built set already; give a text file with one item a line",
        ));
    }
    let limits = SetLimits { memory, ..SetLimits::default() };
    let (set, report) = from_lines(file, builder(tokens).limits(limits), tokens, |builder| {
        builder.build_to(output).map_err(|error| match error {
            SetError::Io(error) => {
                SetError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", output.display())))
            }
            other => other,
        })
    })?;
    tell(path, &report);
    Ok((set, report))
}

/// Opens a built set, compares all its checksums, and its tokens with those of a model.
fn open(path: &Path, tokens: &Tokens) -> Result<ItemSet> {
    let set = opened(path)?;
    set.check_vocabulary(&tokens.vocabulary).map_err(|error| Failure::file(path, chain(&error)))?;
    Ok(set)
}

/// Opens a built set and compares all its checksums.
pub(crate) fn opened(path: &Path) -> Result<ItemSet> {
    let set = ItemSet::open_any(path).and_then(|set| set.verify().map(|()| set));
    set.map_err(|error| match error {
        SetFileError::Io { source, .. } => Failure::file(path, source),
        other => Failure::file(path, chain(&other)),
    })
}

/// A file of items, of which the beginning has been read: it may be a pipe, which cannot be opened twice.
struct SetFile<'a> {
    path: &'a Path,
    begin: Vec<u8>,
    rest: File,
}

impl<'a> SetFile<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let no_file = |error| Failure::file(path, error);
        let (mut rest, mut begin) = (File::open(path).map_err(no_file)?, Vec::new());
        rest.by_ref().take(BUILT.len() as u64).read_to_end(&mut begin).map_err(no_file)?;
        Ok(Self { path, begin, rest })
    }

    fn is_built(&self) -> bool {
        self.begin == BUILT
    }
}

fn from_lines(
    file: SetFile<'_>,
    mut builder: SetBuilder,
    tokens: &Tokens,
    build: impl FnOnce(SetBuilder) -> std::result::Result<(ItemSet, BuildReport), SetError>,
) -> Result<(ItemSet, BuildReport)> {
    let SetFile { path, begin, rest } = file;
    let bytes = rest.metadata().map_or(0, |metadata| metadata.len());
    let bar = if std::io::stderr().is_terminal() && bytes > 1 << 20 {
        let style =
            ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}").expect("a valid template");
        ProgressBar::new(bytes).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let lines = BufReader::with_capacity(1 << 18, Cursor::new(begin).chain(rest));
    let encode = |line: &str| tokens.encode_output(line);
    let pushed = builder.push_lines(lines, encode, |_, bytes| bar.set_position(bytes));
    let built = pushed.and_then(|()| build(builder));
    bar.finish_and_clear();
    built.map_err(|error| Failure::file(path, chain(&error)))
}

/// Says what was left out of a set.
fn tell(path: &Path, report: &BuildReport) {
    let more = |named: usize, all: u64| if (named as u64) < all { ", ..." } else { "" };
    if report.duplicates > 0 {
        let BuildReport { duplicates, duplicate_lines: lines, .. } = report;
        let named: Vec<String> =
            lines.iter().map(|(line, first)| format!("line {line} is line {first}")).collect();
        let more = more(lines.len(), *duplicates);
        eprintln!("{}: left out as duplicates: {duplicates} ({}{more})", path.display(), named.join(", "));
    }
    if report.blank > 0 {
        let BuildReport { blank, blank_lines: lines, .. } = report;
        let named: Vec<String> = lines.iter().map(|line| format!("line {line}")).collect();
        let more = more(lines.len(), *blank);
        eprintln!("{}: left out as blank: {blank} ({}{more})", path.display(), named.join(", "));
    }
}
