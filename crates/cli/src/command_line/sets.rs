//! `unskew set`: built sets in files, and the changes beside them.

use std::{path::Path, sync::Arc};

use crate::{
    TokenSpace,
    items::{self, Check, ItemFile},
    sets::{
        BuildReport, Delta, DeltaReport, ItemSet, SetBuilder, SetChanger, SetError, SetLimits, SetStore,
        Subset,
    },
};

use crate::command_line::{
    error::{Failure, Result, chain},
    inputs,
    plain::say,
    progress,
};

/// Builds a set from the lines of `path` into the file `output`.
pub(crate) fn build(
    path: &Path,
    output: &Path,
    memory: usize,
    tokens: &TokenSpace,
) -> Result<(ItemSet, BuildReport)> {
    inputs::check_output(output, &[path])?;
    let file = ItemFile::open(path)?;
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
    let builder = SetBuilder::for_vocabulary(Arc::clone(tokens.vocabulary())).limits(limits);
    let built = file.build(builder, tokens, &progress::observer(), |builder| {
        builder.build_to(output).map_err(|error| match error {
            // While it is written.
            SetError::Io(error) => {
                SetError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", output.display())))
            }
            other => other,
        })
    })?;
    Ok(built)
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

/// As [`changing`], for a file that another set replaces; changes that would be lost are refused, with a way out.
pub(crate) fn replacing<'a>(store: &'a SetStore, way_out: &str) -> Result<SetChanger<'a>> {
    let changer = changing(store.path(), store)?;
    if changer.may_replace().map_err(|error| Failure::bad(&error))? {
        return Ok(changer);
    }
    let lost = format!("here lie changes to the set that is to be replaced; {way_out}");
    Err(Failure::file(store.changes(), lost))
}

/// A set that is about to be changed, with all checksums compared.
pub(crate) fn read(path: &Path, changer: &SetChanger<'_>) -> Result<(ItemSet, Option<Delta>)> {
    Ok(items::checked(path, changer.read(), Check::All)?)
}

/// Changes a built set by the lines of a file. Answers with the set, all changes to it, and the changes that were
/// made now.
pub(crate) fn edit(
    path: &Path,
    lines: &Path,
    add: bool,
    tokens: &TokenSpace,
) -> Result<(ItemSet, Delta, DeltaReport)> {
    let store = store(path)?;
    inputs::refuse(store.changes(), &[lines])?;
    let changer = changing(path, &store)?;
    let (set, before) = read(path, &changer)?;
    let vocabulary = tokens.vocabulary();
    set.check_vocabulary(vocabulary).map_err(|error| Failure::file(path, chain(&error)))?;
    let file = items_of(lines)?;
    let before = before.unwrap_or_else(|| Delta::new(&set));
    let mut delta = before
        .for_vocabulary(&set, Arc::clone(vocabulary))
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
pub(crate) fn subset(path: &Path, set: &ItemSet, lines: &Path, tokens: &TokenSpace) -> Result<Subset> {
    set.check_vocabulary(tokens.vocabulary()).map_err(|error| Failure::file(path, chain(&error)))?;
    let encode = |line: &str| tokens.encode_output(line);
    let subset = Subset::from_lines(set, tokens.vocabulary(), items_of(lines)?.text(), encode);
    subset.map_err(|error| Failure::file(lines, chain(&error)))
}

/// A text file of items.
fn items_of(path: &Path) -> Result<ItemFile<'_>> {
    let file = ItemFile::open(path)?;
    if file.is_built() {
        return Err(Failure::file(path, "this is a built set; give a text file with one item a line"));
    }
    Ok(file)
}
