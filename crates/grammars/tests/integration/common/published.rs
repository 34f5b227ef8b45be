//! The files of published grammars that `published_verdicts.py` writes: a grammar in `SUITE.json`, and texts with
//! verdicts in `SUITE.jsonl`. The benchmarks read them too.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions};

/// The environment variable with the folder.
pub(crate) const FOLDER: &str = "UNSKEW_PUBLISHED";

/// A grammar, and how it is read.
#[derive(Deserialize)]
pub(crate) struct Suite {
    pub(crate) grammar: String,
    /// The extension of its file.
    pub(crate) extension: String,
    pub(crate) start: Option<String>,
    /// Text for the end of the grammar: rules that its specification states in words.
    #[serde(default)]
    pub(crate) added: String,
}

/// A text with the verdict of the program for which the grammar was written, and whether it is in the language.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) program: Option<bool>,
    pub(crate) language: Option<bool>,
}

impl Suite {
    /// The grammar, or why it is not read.
    pub(crate) fn read(self, limits: &GrammarLimits) -> Result<Grammar, String> {
        let format = GrammarFormat::from_extension(&self.extension).ok_or("no format of a grammar")?;
        let mut options = GrammarOptions::default();
        options.start = self.start;
        let text = format!("{}\n{}", self.grammar, self.added);
        unskew_notation::parse(&text, format, &options, limits).map_err(|error| error.to_string())
    }
}

/// The paths of the grammars in `folder`, in ascending order.
pub(crate) fn suites(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
