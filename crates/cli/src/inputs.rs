//! All files that a run reads, so that none of them is written over by what it writes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use unskew_files::{probe, refuse_inputs};

use crate::{
    args::{ConstraintArgs, ModelArgs, ModelChoice},
    error::{Failure, Result},
    sets,
    speculate::DraftChoice,
};

/// What the files of a checkpoint end in.
pub(crate) const OF_MODELS: &[&str] = &["json", "safetensors"];
/// What the files of a registry of schemas end in.
pub(crate) const OF_SCHEMAS: &[&str] = &["json"];

/// Refuses to write over a file that is read.
pub(crate) fn refuse<P: AsRef<Path>>(output: &Path, inputs: &[P]) -> Result<()> {
    refuse_inputs(output, inputs).map_err(|error| Failure::bad(&error))
}

/// Sees whether a file can be written and is none that is read: what comes into it may be the work of hours.
pub(crate) fn check_output<P: AsRef<Path>>(output: &Path, inputs: &[P]) -> Result<()> {
    refuse(output, inputs)?;
    probe(output).map_err(|error| Failure::bad(&error))
}

/// The files of a model and its tokenizer.
pub(crate) fn of_model(args: &ModelArgs) -> Vec<PathBuf> {
    [of_choice(&args.model), args.tokenizer.iter().cloned().collect()].concat()
}

/// The files of a model that drafts.
pub(crate) fn of_draft(draft: Option<&DraftChoice>) -> Vec<PathBuf> {
    match draft {
        Some(DraftChoice::Model(choice)) => of_choice(choice),
        Some(DraftChoice::Ngram | DraftChoice::Counts) | None => Vec::new(),
    }
}

fn of_choice(choice: &ModelChoice) -> Vec<PathBuf> {
    match choice {
        ModelChoice::Tiny | ModelChoice::TinyDraft => Vec::new(),
        // What cannot be listed cannot be read either, and whoever reads it says so.
        ModelChoice::Folder(folder) => of_folder(folder, OF_MODELS).unwrap_or_default(),
        ModelChoice::Table(path) => vec![path.clone()],
    }
}

/// The files of a constraint.
pub(crate) fn of_constraint(args: &ConstraintArgs) -> Vec<PathBuf> {
    let ConstraintArgs { regex_file, grammar, json_schema, schema_registry, set, exclude_set, .. } = args;
    let files = [regex_file, grammar, json_schema, set, exclude_set];
    let mut files: Vec<PathBuf> = files.into_iter().flatten().cloned().collect();
    let sets = set.iter().chain(exclude_set);
    files.extend(sets.filter_map(|path| Some(sets::store(path).ok()?.changes().to_owned())));
    files.extend(schema_registry.iter().flat_map(|folder| of_folder(folder, OF_SCHEMAS)).flatten());
    files
}

/// The files of a folder, and of those in it, whose names end in one of these ways: in an order of their own.
pub(crate) fn of_folder(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let (mut open, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(at) = open.pop() {
        let entries = fs::read_dir(&at).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| Failure::file(&at, error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let ends = |ending: &&str| path.extension().is_some_and(|extension| extension == *ending);
            // A link to a folder is none, so this ends.
            if entry.file_type().map_err(|error| Failure::file(&path, error))?.is_dir() {
                open.push(path);
            } else if endings.iter().any(ends) {
                files.push(path);
            }
        }
    }
    Ok(files)
}
