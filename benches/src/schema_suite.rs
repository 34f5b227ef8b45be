//! The official JSON-Schema-Test-Suite: files of `[{description, schema, tests: [{description, data, valid}]}]`, by keyword and draft.
//!
//! A schema may be refused, since a refusal says so; but of what compiles, nothing invalid may be accepted. Our engine writes
//! members in one order and numbers in few spellings, and always enforces `format`, so that it refuses texts of valid
//! data. Whether it refuses the data or only the text is found out by trying other orders and spellings of the same data;
//! both are counted, apart.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the body of a program that talks to its user")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use unskew_core::{Constraint, TokenId, TokenTrie, Vocabulary};
use unskew_grammars::{GrammarConstraint, GrammarError, TreeLibrary};
use unskew_schema::{SchemaError, SchemaLimits, SchemaOptions};

const USAGE: &str = "\
--data DIR [--verbose] [FILTER ...]   files whose path contains one of the filters; all without

  --data DIR    the suite's folder, its `tests`, or any folder with files of its format
  --verbose     name every schema that is refused and every test that is not right
";

/// How many orders and spellings of an instance are tried.
const TRIES: usize = 2_000;

/// The drafts that are read, by the names of their folders.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

/// Folders of the suite that are left out: drafts that are not known, and what is no test.
const LEFT_OUT: [&str; 6] = ["draft3", "draft-next", "v1", "latest", "remotes", "node_modules"];

#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Box<RawValue>,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    description: String,
    data: Box<RawValue>,
    valid: bool,
}

/// Whether a compiled schema takes a text, whole.
type Accepts = Box<dyn Fn(&str) -> bool>;

/// What became of the tests of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    schemas: usize,
    /// Schemas that do not compile.
    refused: usize,
    /// Tests of the others that came out as they should.
    right: usize,
    /// Valid data, another text of which is accepted; or valid only where `format` is a comment.
    by_choice: usize,
    /// Valid data of which no text that was tried is accepted.
    refused_wrongly: usize,
    /// Invalid data that is accepted.
    accepted_wrongly: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.schemas += other.schemas;
        self.refused += other.refused;
        self.right += other.right;
        self.by_choice += other.by_choice;
        self.refused_wrongly += other.refused_wrongly;
        self.accepted_wrongly += other.accepted_wrongly;
    }

    fn cells(&self) -> String {
        format!(
            "{} | {} | {} | {} | {} | {}",
            self.schemas,
            self.refused,
            self.right,
            self.by_choice,
            self.refused_wrongly,
            self.accepted_wrongly
        )
    }
}

/// The program. It fails if anything invalid is accepted.
pub fn run() -> ExitCode {
    match program() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("{wrong} invalid instances are accepted");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn program() -> Result<usize, String> {
    let (mut data, mut verbose, mut filters) = (None, false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--data" => data = args.next(),
            "--verbose" => verbose = true,
            _ if arg.starts_with('-') => return Err(format!("no option {arg}\n\n{USAGE}")),
            _ => filters.push(arg),
        }
    }
    let data = PathBuf::from(data.ok_or_else(|| format!("--data DIR is missing\n\n{USAGE}"))?);
    let mut files = files(&data)?;
    files.retain(|(name, _)| {
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    });
    if files.is_empty() {
        return Err(format!("{}: no such files", data.display()));
    }
    let bytes = Bytes::new()?;
    let mut tallies = BTreeMap::new();
    for (name, path) in files {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (tally, notes) = tally(&name, &text, &|schema| bytes.compile(schema))?;
        for note in notes.iter().filter(|note| verbose || note.contains("accepted")) {
            eprintln!("{name}: {note}");
        }
        tallies.insert(name, tally);
    }
    print!("{}", table(&tallies));
    Ok(tallies.values().map(|tally| tally.accepted_wrongly).sum())
}

/// The suite's files with their names, which begin with the folder of the draft.
fn files(data: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let tests = data.join("tests");
    let root = if tests.is_dir() { tests } else { data.to_owned() };
    let (mut files, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() || LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Some(stem) = name.strip_suffix(".json") {
                // With the last part of the given path, which may itself name a draft.
                let inside = folder.strip_prefix(root.parent().unwrap_or(&root)).unwrap_or(&folder);
                files.push((inside.join(stem).to_string_lossy().into_owned(), path));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The tests of one file, and a line for each schema that is refused and each test that is not right.
fn tally(
    name: &str,
    text: &str,
    compile: &dyn Fn(&str) -> Result<Accepts, String>,
) -> Result<(Tally, Vec<String>), String> {
    let groups: Vec<Group> = serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let (mut tally, mut notes) = (Tally::default(), Vec::new());
    for group in groups {
        tally.schemas += 1;
        let accepts = match compile(&with_draft(name, group.schema.get())) {
            Ok(accepts) => accepts,
            Err(reason) => {
                tally.refused += 1;
                notes.push(format!("{}: refused: {reason}", group.description));
                continue;
            }
        };
        for test in group.tests {
            let what = match (accepts(test.data.get()), test.valid) {
                (true, true) | (false, false) => {
                    tally.right += 1;
                    continue;
                }
                (true, false) => {
                    tally.accepted_wrongly += 1;
                    "invalid, and accepted"
                }
                (false, true)
                    if only_a_comment(name) || texts(test.data.get()).iter().any(|text| accepts(text)) =>
                {
                    tally.by_choice += 1;
                    "valid, and refused as it is written"
                }
                (false, true) => {
                    tally.refused_wrongly += 1;
                    "valid, and refused"
                }
            };
            notes.push(format!("{}: {}: {what}: {}", group.description, test.description, test.data.get()));
        }
    }
    Ok((tally, notes))
}

/// Whether the tests of this file take `format` as a comment: those in `optional` take it as a condition.
fn only_a_comment(name: &str) -> bool {
    name.rsplit('/').next() == Some("format") && !name.contains("optional")
}

/// The schema with the draft of its folder, if it names none.
fn with_draft(name: &str, schema: &str) -> String {
    let draft = DRAFTS.iter().find(|(folder, _)| name.split('/').any(|part| part == *folder));
    let value: Option<Value> = serde_json::from_str(schema).ok();
    let members = value.as_ref().and_then(Value::as_object);
    let (Some((_, draft)), Some(members)) = (draft, members) else { return schema.to_owned() };
    if members.contains_key("$schema") {
        return schema.to_owned();
    }
    let comma = if members.is_empty() { "" } else { "," };
    schema.replacen('{', &format!("{{\"$schema\": \"{draft}\"{comma}"), 1)
}

/// Other texts of the same data: members in other orders, and numbers without an exponent.
fn texts(data: &str) -> Vec<String> {
    serde_json::from_str(data).map_or_else(|_| Vec::new(), |value| texts_of(&value))
}

/// As deep as serde_json reads.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::Number(number) => {
            let plain = number.as_f64().map(|number| number.to_string());
            [Some(number.to_string()), plain].into_iter().flatten().collect()
        }
        Value::Array(items) => {
            joined("[", "]", &[(0..items.len()).collect()], &items.iter().map(texts_of).collect::<Vec<_>>())
        }
        Value::Object(members) => {
            let parts: Vec<Vec<String>> = members
                .iter()
                .map(|(name, value)| {
                    let name = Value::String(name.clone());
                    texts_of(value).into_iter().map(|value| format!("{name}: {value}")).collect()
                })
                .collect();
            joined("{", "}", &orders(parts.len()), &parts)
        }
        other => vec![other.to_string()],
    }
}

/// Every choice of a text for each part, in each order, up to the limit.
fn joined(open: &str, close: &str, orders: &[Vec<usize>], parts: &[Vec<String>]) -> Vec<String> {
    let mut all = Vec::new();
    for order in orders {
        let mut begun = vec![open.to_owned()];
        for (place, part) in order.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            begun = begun
                .iter()
                .flat_map(|begun| parts[*part].iter().map(move |text| format!("{begun}{comma}{text}")))
                .take(TRIES)
                .collect();
        }
        all.extend(begun.into_iter().map(|text| text + close));
        if all.len() >= TRIES {
            break;
        }
    }
    all.truncate(TRIES);
    all
}

/// The orders of so many things, up to the limit.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for thing in 0..count {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            (0..=order.len()).rev().map(move |place| {
                let mut order = order.clone();
                order.insert(place, thing);
                order
            })
        });
        orders = longer.take(TRIES).collect();
    }
    orders
}

fn table(tallies: &BTreeMap<String, Tally>) -> String {
    let mut out = "| file | schemas | refused | tests right | valid, refused as written | valid, refused | invalid, accepted |\n\
                   |---|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    let mut all = Tally::default();
    for (name, tally) in tallies {
        all.add(tally);
        let _ = writeln!(out, "| {name} | {} |", tally.cells());
    }
    let _ = writeln!(out, "| all | {} |", all.cells());
    out
}

/// Our engine over single bytes: the tests ask for languages, not for tokens.
struct Bytes {
    library: Arc<TreeLibrary>,
}

impl Bytes {
    fn new() -> Result<Self, String> {
        let mut builder = Vocabulary::builder();
        for byte in 0..=255 {
            builder.text(&[byte]);
        }
        let vocabulary = Arc::new(builder.build().map_err(|error| error.to_string())?);
        let trie = Arc::new(TokenTrie::new(&vocabulary).map_err(|error| error.to_string())?);
        Ok(Self { library: Arc::new(TreeLibrary::new(vocabulary, trie, 64 << 20)) })
    }

    /// A schema that nothing satisfies is one that accepts nothing.
    fn compile(&self, schema: &str) -> Result<Accepts, String> {
        let limits = SchemaLimits::default();
        let grammar = match unskew_schema::grammar(schema, &SchemaOptions::default(), &limits) {
            Ok(grammar) => grammar,
            Err(SchemaError::Unsatisfiable) => return Ok(Box::new(|_| false)),
            Err(error) => return Err(error.to_string()),
        };
        let constraint = match GrammarConstraint::with_library(&grammar, &self.library, &limits.grammar) {
            Ok(constraint) => constraint,
            Err(GrammarError::Empty { .. }) => return Ok(Box::new(|_| false)),
            Err(error) => return Err(error.to_string()),
        };
        Ok(Box::new(move |text| {
            let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
            let mut bytes = text.bytes();
            bytes.all(|byte| constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).is_ok())
                && constraint.is_accepting(&state)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in the suite's format.
    const FILES: [(&str, &str); 4] = [
        ("draft2020-12/prefixItems", include_str!("../schemas/suite/draft2020-12/prefixItems.json")),
        ("draft2020-12/properties", include_str!("../schemas/suite/draft2020-12/properties.json")),
        (
            "draft2020-12/optional/format/date",
            include_str!("../schemas/suite/draft2020-12/optional/format/date.json"),
        ),
        ("draft4/maximum", include_str!("../schemas/suite/draft4/maximum.json")),
    ];

    fn all(compile: &dyn Fn(&str) -> Result<Accepts, String>) -> Tally {
        let mut all = Tally::default();
        for (name, text) in FILES {
            all.add(&tally(name, text, compile).unwrap().0);
        }
        all
    }

    #[test]
    fn our_engine_accepts_nothing_invalid() {
        let bytes = Bytes::new().unwrap();
        let found = all(&|schema| bytes.compile(schema));
        assert_eq!((found.accepted_wrongly, found.refused_wrongly), (0, 0), "{found:?}");
        assert_eq!((found.refused, found.by_choice), (1, 2), "{found:?}");
        assert_eq!(found.right, 25, "{found:?}");
    }

    #[test]
    fn wrong_engines_are_found_out() {
        let takes_all = all(&|_| Ok(Box::new(|_| true)));
        assert!(takes_all.accepted_wrongly > 5 && takes_all.refused_wrongly == 0);
        let takes_nothing = all(&|_| Ok(Box::new(|_| false)));
        assert!(takes_nothing.refused_wrongly > 5 && takes_nothing.accepted_wrongly == 0);
        let refuses = all(&|_| Err("no".to_owned()));
        assert_eq!((refuses.refused, refuses.right), (refuses.schemas, 0));
        // One that drops a keyword, as engines do: without it schemas accept more.
        let bytes = Bytes::new().unwrap();
        let drops = all(&|schema| {
            bytes.compile(&schema.replace("exclusiveMaximum", "x").replace("additionalProperties", "y"))
        });
        assert!(drops.accepted_wrongly >= 2, "{drops:?}");
    }

    #[test]
    fn drafts_come_from_folders_and_files_from_anywhere() {
        assert_eq!(
            with_draft("draft4/x", " {\"type\": 1}"),
            " {\"$schema\": \"http://json-schema.org/draft-04/schema#\",\"type\": 1}"
        );
        assert_eq!(with_draft("draft4/x", "{\"$schema\": \"y\"}"), "{\"$schema\": \"y\"}");
        assert_eq!(with_draft("draft4/x", "true"), "true");
        assert_eq!(with_draft("x", "{}"), "{}");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/suite");
        let names: Vec<String> = files(&folder).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), FILES.len());
        assert!(names.contains(&"suite/draft2020-12/optional/format/date".to_owned()), "{names:?}");
        let one = files(&folder.join("draft4")).unwrap();
        assert_eq!(one[0].0, "draft4/maximum");
    }

    #[test]
    fn other_texts_are_orders_and_plain_numbers() {
        let mut found = texts("{\"a\": 1e2, \"b\": [true], \"c\": null}");
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 12, "{found:?}");
        assert!(found.contains(&"{\"c\": null, \"a\": 100, \"b\": [true]}".to_owned()), "{found:?}");
        assert_eq!(orders(4).len(), 24);
        assert_eq!(orders(9).len(), TRIES);
    }
}
