//! Published grammars with texts of theirs, from a folder that `crates/grammars/tests/published_verdicts.py` wrote.
//!
//! They are not in this repository, since they are other people's. The pattern of a case is its suite as JSON: the
//! text of the grammar and how it is read, for engines take one text.

use std::{fs, path::PathBuf};

use serde::Deserialize;
use unskew_grammars::{Grammar, GrammarFormat, GrammarLimits, GrammarOptions};

use crate::suite::Case;

/// The environment variable with the folder.
pub(crate) const FOLDER: &str = "UNSKEW_PUBLISHED";

/// The most texts of a grammar.
const TEXTS: usize = 24;

/// The most bytes of a text.
const LONGEST: usize = 8_000;

/// A grammar, and how it is read.
#[derive(Deserialize)]
pub(crate) struct Suite {
    grammar: String,
    /// The extension of its file.
    extension: String,
    start: Option<String>,
    /// Text for the end of the grammar: rules that its specification states in words.
    #[serde(default)]
    added: String,
}

/// A text with verdicts.
#[derive(Deserialize)]
struct Text {
    text: String,
    program: Option<bool>,
    language: Option<bool>,
}

impl Suite {
    /// The suite that is the pattern of a case.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        serde_json::from_str(pattern).map_err(|error| error.to_string())
    }

    /// The grammar, as we read it.
    pub(crate) fn read(self, limits: &GrammarLimits) -> Result<Grammar, String> {
        let format = GrammarFormat::from_extension(&self.extension).ok_or("no format of a grammar")?;
        let mut options = GrammarOptions::default();
        options.start = self.start;
        let text = format!("{}\n{}", self.grammar, self.added);
        Grammar::parse(&text, format, &options, limits).map_err(|error| error.to_string())
    }

    /// The grammar in Lark with the start rule `start`, for llguidance.
    #[cfg_attr(not(feature = "peers"), allow(dead_code, reason = "for a peer"))]
    pub(crate) fn in_lark(self) -> Result<String, String> {
        if self.extension != "lark" {
            return Err(format!("llguidance reads Lark and not .{}", self.extension));
        }
        let start = self.start.filter(|start| start != "start");
        let start = start.map_or(String::new(), |start| format!("\nstart: {start}\n"));
        Ok(self.grammar + &start + &self.added)
    }
}

/// The grammars with the first texts that both verdicts accept; none without the folder.
pub(crate) fn cases() -> Vec<Case> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return Vec::new() };
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    paths.sort();
    let case = |path: PathBuf| {
        let texts = fs::read_to_string(path.with_extension("jsonl")).ok()?;
        let texts = texts.lines().filter_map(|line| serde_json::from_str::<Text>(line).ok());
        let is_accepted = |text: &Text| text.program == Some(true) && text.language != Some(false);
        let short = texts.filter(|text| is_accepted(text) && text.text.len() <= LONGEST);
        Some(Case {
            // One for each grammar of a run.
            name: path.file_stem()?.to_str()?.to_owned().leak(),
            pattern: fs::read_to_string(&path).ok()?.into(),
            samples: short.take(TEXTS).map(|text| text.text.into()).collect(),
            json: false,
        })
    };
    paths.into_iter().filter_map(case).collect()
}
