//! All files that a run reads, so that none of them is written over by its results.

use std::path::{Path, PathBuf};

use crate::{ModelSource, Spec, read, sets::SetStore, spec::FileRole};
use unskew_files::{probe, refuse_inputs};

use crate::command_line::{
    args::ModelArgs,
    error::{Failure, Result},
};

/// The endings of the files of a checkpoint.
pub(crate) const OF_MODELS: &[&str] = &["json", "safetensors"];
/// The endings of the files of a registry of schemas.
pub(crate) const OF_SCHEMAS: &[&str] = &["json"];

/// Refuses to write over a file that is read.
pub(crate) fn refuse<P: AsRef<Path>>(output: &Path, inputs: &[P]) -> Result<()> {
    refuse_inputs(output, inputs).map_err(|error| Failure::bad(&error))
}

/// Sees whether a file can be written and is no input: its content may be the work of hours.
pub(crate) fn check_output<P: AsRef<Path>>(output: &Path, inputs: &[P]) -> Result<()> {
    refuse(output, inputs)?;
    probe(output).map_err(|error| Failure::bad(&error))
}

/// The files of a model and its tokenizer.
pub(crate) fn of_model(args: &ModelArgs) -> Vec<PathBuf> {
    [of_source(&args.model), args.tokenizer.iter().cloned().collect()].concat()
}

/// The files of a draft.
pub(crate) fn of_draft(name: Option<&str>) -> Vec<PathBuf> {
    match name {
        Some("ngram" | "counts") | None => Vec::new(),
        Some(name) => of_source(&ModelSource::from(name)),
    }
}

fn of_source(source: &ModelSource) -> Vec<PathBuf> {
    match source {
        ModelSource::Tiny | ModelSource::TinyDraft | ModelSource::Endpoint(_) => Vec::new(),
        // A folder that cannot be listed cannot be read either, and its reader says so.
        ModelSource::Folder(folder) => read::files(folder, OF_MODELS).unwrap_or_default(),
        ModelSource::Table(path) | ModelSource::Gguf(path) | ModelSource::LlamaCpp(path) => {
            vec![path.clone()]
        }
    }
}

/// The files of a constraint, and those that describe it.
pub(crate) fn of_constraint<'a>(spec: &Spec, described: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = described.map(Path::to_path_buf).collect();
    let _ = spec.clone().map_files(|role, path| {
        match role {
            FileRole::Text => files.push(path.clone()),
            FileRole::Items => {
                files.push(path.clone());
                files.extend(SetStore::new(&path).ok().map(|store| store.changes().to_owned()));
            }
            FileRole::Registry => files.extend(read::files(&path, OF_SCHEMAS).unwrap_or_default()),
        }
        path
    });
    files
}
