//! Reads the corpus: TOML files to typed cases. It rejects mistakes because of which a case would test nothing.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The constraint of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Constraint {
    /// The whole output matches a regex.
    Pattern(String),
    /// The whole output is one of these texts.
    Choices(Vec<Vec<u8>>),
}

/// One case of the corpus.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The file, relative to the corpus, and the name of the case: `regex/dates.toml: leap-day`. Unique.
    pub name: String,
    /// The constraint.
    pub constraint: Constraint,
    /// Outputs that satisfy the constraint.
    pub accepted: Vec<Vec<u8>>,
    /// Outputs that violate the constraint.
    pub rejected: Vec<Vec<u8>>,
    /// The texts of the ids 0, 1, … of a small vocabulary; empty if the case has no masks.
    pub tokens: Vec<Vec<u8>>,
    /// The expected masks over `tokens`.
    pub masks: Vec<Mask>,
    /// The expected error, if the constraint is invalid.
    pub error: Option<ExpectedError>,
}

/// The expected mask after a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Mask {
    /// The tokens of the prefix, by their texts.
    pub prefix: Vec<Vec<u8>>,
    /// The texts of the allowed tokens: all ids with these texts are allowed, and no others.
    pub allowed: Vec<Vec<u8>>,
    /// Whether the output may end after the prefix.
    pub accepting: bool,
}

/// The expected error of an invalid constraint.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExpectedError {
    /// The kind of error: `syntax`, `look-around`, `back-reference`, `word-boundary`, `line-anchor`,
    /// `too-long`, `nest`, `too-large`, `matches-nothing`, `no-choices`, `empty-choice`, `unspellable`.
    pub kind: String,
    /// The byte offsets in the pattern, if the error has a location.
    pub span: Option<(usize, usize)>,
    /// The line and the column, from 1, if the error has a location.
    pub line_column: Option<(usize, usize)>,
}

/// Every case of the corpus, in the order of the file names and then of the cases in each file.
///
/// # Panics
///
/// If a file cannot be read or has a mistake. The message names the file and the case.
pub fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut files = Vec::new();
    collect_files(&root, &mut files);
    files.sort();
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for path in files {
        let file = path.strip_prefix(&root).expect("the file lies in the corpus").display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let parsed: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for raw in parsed.case {
            let case = raw.check(&file);
            assert!(names.insert(case.name.clone()), "{}: the name occurs twice", case.name);
            cases.push(case);
        }
    }
    cases
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        if path.is_dir() {
            collect_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<RawCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    pattern: Option<String>,
    choices: Option<Vec<Text>>,
    #[serde(default)]
    accepted: Vec<Text>,
    #[serde(default)]
    rejected: Vec<Text>,
    #[serde(default)]
    tokens: Vec<Text>,
    #[serde(default)]
    masks: Vec<RawMask>,
    error: Option<ExpectedError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMask {
    prefix: Vec<Text>,
    allowed: Vec<Text>,
    #[serde(default)]
    accepting: bool,
}

/// A text, or bytes that are no valid text: `"日"` or `{ hex = "e697a5" }`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Text(String),
    Bytes { hex: String },
}

impl RawCase {
    fn check(self, file: &str) -> Case {
        let name = format!("{file}: {}", self.name);
        let texts = |texts: Vec<Text>| texts.into_iter().map(|text| text.bytes(&name)).collect::<Vec<_>>();
        let constraint = match (self.pattern, self.choices) {
            (Some(pattern), None) => Constraint::Pattern(pattern),
            (None, Some(choices)) => Constraint::Choices(texts(choices)),
            _ => panic!("{name}: a case has either a pattern or choices"),
        };
        let masks = self.masks.into_iter().map(|mask| Mask {
            prefix: texts(mask.prefix),
            allowed: texts(mask.allowed),
            accepting: mask.accepting,
        });
        let case = Case {
            constraint,
            accepted: texts(self.accepted),
            rejected: texts(self.rejected),
            tokens: texts(self.tokens),
            masks: masks.collect(),
            error: self.error,
            name: name.clone(),
        };
        let outputs = case.accepted.len() + case.rejected.len();
        match case.error {
            Some(_) => {
                assert!(outputs + case.masks.len() == 0, "{name}: an invalid constraint has no outputs");
            }
            None => assert!(outputs + case.masks.len() > 0, "{name}: the case tests nothing"),
        }
        for text in case.masks.iter().flat_map(|mask| mask.prefix.iter().chain(&mask.allowed)) {
            assert!(case.tokens.contains(text), "{name}: {text:x?} is not a token");
        }
        case
    }
}

impl Text {
    fn bytes(self, name: &str) -> Vec<u8> {
        let hex = match self {
            Self::Text(text) => return text.into_bytes(),
            Self::Bytes { hex } => hex,
        };
        let digits = (0..hex.len()).step_by(2).map(|at| hex.get(at..at + 2));
        let bytes = digits.map(|digits| u8::from_str_radix(digits?, 16).ok()).collect::<Option<Vec<_>>>();
        bytes.unwrap_or_else(|| panic!("{name}: {hex:?} is not a list of bytes in hexadecimal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_reads_and_is_not_small() {
        let cases = cases();
        let count = |wanted: fn(&Case) -> bool| cases.iter().filter(|case| wanted(case)).count();
        assert!(cases.len() >= 60, "{} cases", cases.len());
        assert!(count(|case| !case.masks.is_empty()) >= 10);
        assert!(count(|case| case.error.is_some()) >= 10);
    }

    #[test]
    #[should_panic(expected = "x.toml: a: [78] is not a token")]
    fn a_mask_over_an_unknown_token_is_a_mistake() {
        let text =
            "[[case]]\nname = 'a'\npattern = 'x'\ntokens = ['y']\nmasks = [{ prefix = [], allowed = ['x'] }]";
        for case in toml::from_str::<File>(text).unwrap().case {
            case.check("x.toml");
        }
    }
}
