//! `--set` and `unskew set`: from a text file or a built set to items.

use std::{
    fs::File,
    io::{BufRead, BufReader, Cursor, IsTerminal, Read},
    path::Path,
    sync::Arc,
};

use indicatif::{ProgressBar, ProgressStyle};
use unskew::{
    core::AnyConstraint,
    sets::{
        BuildReport, Delta, DeltaReport, ExclusionConstraint, ItemSet, SetBuilder, SetChanger, SetConstraint,
        SetError, SetFileError, SetLimits, SetStore, Subset,
    },
};

use crate::{
    args::ConstraintArgs,
    error::{Failure, Result, chain},
    inputs,
    load::Tokens,
    plain::say,
    read::{self, Limited, MAX_LINES_BYTES},
};

/// What a built set begins with.
const BUILT: &[u8] = b"unskew items";

/// The constraint of `--set`, with masks from where `--gpu` says.
pub(crate) fn constraint(
    path: &Path,
    args: &ConstraintArgs,
    tokens: &Tokens,
    healed: &str,
) -> Result<AnyConstraint> {
    let constraint = set_constraint(path, args, tokens, healed)?;
    Ok(if args.gpu { on_gpu(constraint) } else { AnyConstraint::new(constraint) })
}

/// The constraint of `--set`: a built set with its changes, or a text file, by what the file begins with.
pub(crate) fn set_constraint(
    path: &Path,
    args: &ConstraintArgs,
    tokens: &Tokens,
    healed: &str,
) -> Result<SetConstraint> {
    let (file, len) = (SetFile::open(path)?, tokens.vocabulary.len());
    let made = if file.is_built() {
        if args.canonical {
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
        let (set, delta) = open(path, tokens)?;
        let set = Arc::new(set);
        let subset = args.subset.as_ref().map(|name| set.subset(name)).transpose();
        let subset = subset.map_err(|error| Failure::file(path, chain(&error)))?;
        match (delta, subset) {
            (None, None) => SetConstraint::new(set, len),
            (None, Some(subset)) => SetConstraint::with_subset(set, Arc::new(subset), len),
            (Some(delta), None) => SetConstraint::with_delta(set, &delta, len),
            (Some(delta), Some(subset)) => SetConstraint::with_delta_and_subset(set, &delta, &subset, len),
        }
    } else {
        if args.canonical && !tokens.has_tokenizer() {
            return Err(Failure::input(
                "--canonical asks for the tokenizer's own sequences, and a table model has no tokenizer; \
                 name one with --tokenizer FILE",
            ));
        }
        if args.subset.is_some() {
            return Err(Failure::file(
                path,
                "--subset names a subset of a built set, and this is a text file; make one with `unskew set build` and \
                 `unskew set subset`, or give a file with the items of the subset alone",
            ));
        }
        let (set, report) = from_lines(file, builder(tokens).prefix(healed), tokens, SetBuilder::build)?;
        tell(path, &report);
        SetConstraint::new(Arc::new(set), len)
    };
    made.map_err(|error| Failure::file(path, chain(&error)))
}

/// The constraint with masks from a GPU, or the one that there is, and a warning.
fn on_gpu(constraint: SetConstraint) -> AnyConstraint {
    fn warn(reason: &dyn std::fmt::Display) {
        say(format_args!("warning: --gpu: {reason}; the CPU makes the masks"));
    }
    #[cfg(feature = "gpu")]
    {
        use unskew::sets::{Gpu, GpuSetConstraint};
        let on_gpu = Gpu::new()
            .and_then(|gpu| GpuSetConstraint::new(constraint.clone(), gpu, |error| warn(&chain(error))));
        match on_gpu {
            Ok(constraint) => AnyConstraint::new(constraint),
            Err(error) => {
                warn(&chain(&error));
                AnyConstraint::new(constraint)
            }
        }
    }
    #[cfg(not(feature = "gpu"))]
    {
        warn(&"this program was built without the feature `gpu`");
        AnyConstraint::new(constraint)
    }
}

/// The constraint of `--exclude-set`: a built set with its changes, or a text file.
pub(crate) fn exclusion(
    path: &Path,
    args: &ConstraintArgs,
    tokens: &Tokens,
    healed: &str,
) -> Result<AnyConstraint> {
    if args.canonical {
        return Err(Failure::input(
            "--canonical cannot be combined with --exclude-set, which excludes texts in every spelling; leave out one of the two",
        ));
    }
    if !healed.is_empty() {
        return Err(Failure::input(
            "--heal makes outputs begin with a part of the prompt, and --exclude-set says nothing about beginnings; leave \
             out one of the two",
        ));
    }
    let file = SetFile::open(path)?;
    let vocabulary = Arc::clone(&tokens.vocabulary);
    let made = if file.is_built() {
        let (set, delta) = open(path, tokens)?;
        let changes = delta.unwrap_or_else(|| Delta::new(&set));
        let items = changes.items(&set).map_err(|error| Failure::file(path, chain(&error)))?;
        ExclusionConstraint::new(items.map(|(_, item)| tokens.vocabulary.decode(&item)), vocabulary)
    } else {
        ExclusionConstraint::from_lines(file.text(), vocabulary)
    };
    made.map(AnyConstraint::new).map_err(|error| Failure::file(path, chain(&error)))
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
    inputs::check_output(output, &[path])?;
    let file = SetFile::open(path)?;
    if file.is_built() {
        return Err(Failure::file(
            path,
            "this is a built set already; give a text file with one item a line",
        ));
    }
    let store = store(output)?;
    let _changer = replacing(
        &store,
        &format!("make them part of it with `unskew set compact {}`, or delete them", output.display()),
    )?;
    let limits = SetLimits { memory, ..SetLimits::default() };
    let (set, report) = from_lines(file, builder(tokens).limits(limits), tokens, |builder| {
        builder.build_to(output).map_err(|error| match error {
            // While it is written.
            SetError::Io(error) => {
                SetError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", output.display())))
            }
            other => other,
        })
    })?;
    tell(path, &report);
    Ok((set, report))
}

/// The file of a built set, with its changes beside it.
pub(crate) fn store(path: &Path) -> Result<SetStore> {
    SetStore::new(path).map_err(|error| Failure::bad(&error))
}

/// Waits until nobody else changes a built set.
pub(crate) fn changing<'a>(path: &Path, store: &'a SetStore) -> Result<SetChanger<'a>> {
    let waiting =
        || say(format_args!("note: {} is being changed; waiting for the end of that", path.display()));
    store.change(waiting).map_err(|error| Failure::bad(&error))
}

/// As [`changing`], for a file that is to be replaced by another set; changes that would be lost are refused, with a way out.
pub(crate) fn replacing<'a>(store: &'a SetStore, way_out: &str) -> Result<SetChanger<'a>> {
    let changer = changing(store.path(), store)?;
    if changer.may_replace().map_err(|error| Failure::bad(&error))? {
        return Ok(changer);
    }
    let lost = format!("here lie changes to the set that is to be replaced; {way_out}");
    Err(Failure::file(store.changes(), lost))
}

/// Changes a built set by the lines of a file. Answers with the set, all changes to it, and what was changed now.
pub(crate) fn edit(
    path: &Path,
    lines: &Path,
    add: bool,
    tokens: &Tokens,
) -> Result<(ItemSet, Delta, DeltaReport)> {
    let store = store(path)?;
    inputs::refuse(store.changes(), &[lines])?;
    let changer = changing(path, &store)?;
    let (set, before) = verified(path, changer.read())?;
    set.check_vocabulary(&tokens.vocabulary).map_err(|error| Failure::file(path, chain(&error)))?;
    let file = items_of(lines)?;
    let before = before.unwrap_or_else(|| Delta::new(&set));
    let mut delta = before
        .for_vocabulary(&set, Arc::clone(&tokens.vocabulary))
        .map_err(|error| Failure::file(path, chain(&error)))?;
    let encode = |line: &str| tokens.encode_output(line);
    let report = if add {
        delta.add_lines(&set, file.text(), encode)
    } else {
        delta.remove_lines(&set, file.text(), encode)
    };
    let report = report.map_err(|error| Failure::file(lines, chain(&error)))?;
    if report.changed > 0 {
        changer.save(&delta).map_err(|error| Failure::bad(&error))?;
    }
    Ok((set, delta, report))
}

/// The items of a built set that are the lines of a file.
pub(crate) fn subset(path: &Path, set: &ItemSet, lines: &Path, tokens: &Tokens) -> Result<Subset> {
    set.check_vocabulary(&tokens.vocabulary).map_err(|error| Failure::file(path, chain(&error)))?;
    let encode = |line: &str| tokens.encode_output(line);
    let subset = Subset::from_lines(set, &tokens.vocabulary, items_of(lines)?.text(), encode);
    subset.map_err(|error| Failure::file(lines, chain(&error)))
}

/// A text file of items.
fn items_of(path: &Path) -> Result<SetFile<'_>> {
    let file = SetFile::open(path)?;
    if file.is_built() {
        return Err(Failure::file(path, "this is a built set; give a text file with one item a line"));
    }
    Ok(file)
}

/// Opens a built set with its changes, compares all checksums, and its tokens with those of a model.
fn open(path: &Path, tokens: &Tokens) -> Result<(ItemSet, Option<Delta>)> {
    let (set, delta) = opened(path)?;
    set.check_vocabulary(&tokens.vocabulary).map_err(|error| Failure::file(path, chain(&error)))?;
    Ok((set, delta))
}

/// Opens a built set with its changes, and compares all checksums.
pub(crate) fn opened(path: &Path) -> Result<(ItemSet, Option<Delta>)> {
    verified(path, store(path)?.read())
}

/// What was read of a set, with all checksums compared.
pub(crate) fn verified(
    path: &Path,
    read: std::result::Result<(ItemSet, Option<Delta>), SetFileError>,
) -> Result<(ItemSet, Option<Delta>)> {
    let verified = read.and_then(|(set, delta)| set.verify().map(|()| (set, delta)));
    verified.map_err(|error| match error {
        SetFileError::Beside { path, error } => {
            Failure::file(&path, format!("{}; or delete this file", chain(&error)))
        }
        SetFileError::Io { path, source } => Failure::file(&path, source),
        other => Failure::file(path, chain(&other)),
    })
}

/// What is in a file of items, for checksums: as it lies there, or a built set and the changes beside it.
pub(crate) fn content(path: &Path) -> Result<Option<(ItemSet, Vec<u8>)>> {
    if !SetFile::open(path)?.is_built() {
        return Ok(None);
    }
    let (set, delta) = opened(path)?;
    Ok(Some((set, delta.map_or_else(Vec::new, |delta| delta.to_bytes()))))
}

/// A file of items, of which the beginning has been read: it may be a pipe, which cannot be opened twice.
struct SetFile<'a> {
    path: &'a Path,
    begin: Vec<u8>,
    rest: Limited<File>,
    bytes: u64,
}

impl<'a> SetFile<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let no_file = |error| Failure::file(path, error);
        let file = File::open(path).map_err(no_file)?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let (mut rest, mut begin) = (Limited::new(file, MAX_LINES_BYTES), Vec::new());
        rest.by_ref().take(BUILT.len() as u64).read_to_end(&mut begin).map_err(no_file)?;
        begin.drain(..read::mark(&begin).map_err(|error| Failure::file(path, error))?);
        Ok(Self { path, begin, rest, bytes })
    }

    fn is_built(&self) -> bool {
        self.begin == BUILT
    }

    /// All of it.
    fn text(self) -> impl BufRead {
        BufReader::with_capacity(1 << 18, Cursor::new(self.begin).chain(self.rest))
    }
}

fn from_lines(
    file: SetFile<'_>,
    mut builder: SetBuilder,
    tokens: &Tokens,
    build: impl FnOnce(SetBuilder) -> std::result::Result<(ItemSet, BuildReport), SetError>,
) -> Result<(ItemSet, BuildReport)> {
    let SetFile { path, bytes, .. } = file;
    let bar = if std::io::stderr().is_terminal() && bytes > 1 << 20 {
        let style =
            ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}").expect("a valid template");
        ProgressBar::new(bytes).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let encode = |line: &str| tokens.encode_output(line);
    let pushed = builder.push_lines(file.text(), encode, |_, bytes| bar.set_position(bytes));
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
        say(format_args!(
            "{}: left out as duplicates: {duplicates} ({}{more})",
            path.display(),
            named.join(", ")
        ));
    }
    if report.blank > 0 {
        let BuildReport { blank, blank_lines: lines, .. } = report;
        let named: Vec<String> = lines.iter().map(|line| format!("line {line}")).collect();
        let more = more(lines.len(), *blank);
        say(format_args!("{}: left out as blank: {blank} ({}{more})", path.display(), named.join(", ")));
    }
}
