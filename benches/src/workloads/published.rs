//! Published grammars with texts of theirs, from a folder that `crates/grammars/tests/published_verdicts.py` wrote.
//!
//! They are not in this repository, since they are other people's. The pattern of a case is its suite as JSON: the
//! text of the grammar and how it is read, for engines take one text.

use std::{fs, path::PathBuf};

use crate::suite;

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../../crates/grammars/tests/integration/common/published.rs"]
mod files;

pub(crate) use files::Suite;

/// The most texts of a grammar.
const TEXTS: usize = 24;

/// The most bytes of a text.
const LONGEST: usize = 8_000;

impl Suite {
    /// The suite that is the pattern of a case.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        serde_json::from_str(pattern).map_err(|error| error.to_string())
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
pub(crate) fn cases() -> Vec<suite::Case> {
    let Some(folder) = std::env::var_os(files::FOLDER).map(PathBuf::from) else { return Vec::new() };
    let case = |path: PathBuf| {
        let texts = fs::read_to_string(path.with_extension("jsonl")).ok()?;
        let texts = texts.lines().filter_map(|line| serde_json::from_str::<files::Case>(line).ok());
        let is_accepted = |text: &files::Case| text.program == Some(true) && text.language != Some(false);
        let short = texts.filter(|text| is_accepted(text) && text.text.len() <= LONGEST);
        Some(suite::Case {
            // One for each grammar of a run.
            name: path.file_stem()?.to_str()?.to_owned().leak(),
            pattern: fs::read_to_string(&path).ok()?.into(),
            samples: short.take(TEXTS).map(|text| text.text.into()).collect(),
            json: false,
        })
    };
    files::suites(&folder).unwrap_or_default().into_iter().filter_map(case).collect()
}
