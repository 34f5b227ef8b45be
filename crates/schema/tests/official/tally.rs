//! Files of the suite against an engine: the outcome of each test, other texts of the same data, and tables.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_grammar::{Fate, GrammarError};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_schema::{Registry, SchemaError, SchemaLimits, SchemaOptions, explain};
use unskew_trie::TokenTrie;

/// The largest number of orders and spellings of an instance that are tried.
pub(crate) const TRIES: usize = 2_000;

/// The supported drafts, by the names of their folders.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

/// Folders of the suite that are left out: unsupported drafts, and folders without tests.
const LEFT_OUT: [&str; 6] = ["draft3", "draft-next", "v1", "latest", "remotes", "node_modules"];

/// The URI of the suite's folder `remotes`.
const REMOTES: &str = "http://localhost:1234/";

/// Keywords that a draft allows to be assertions or annotations, with the folder of the draft: draft 7, section
/// 8.2.
const LEFT_OPEN: (&str, [&str; 2]) = ("draft7", ["contentEncoding", "contentMediaType"]);

/// The separator before the reason, in a line about a refused schema.
pub(crate) const REFUSED: &str = ": refused: ";

/// The text above a table.
pub(crate) const LEGEND: &str = "\
`refused`: schemas that do not compile; their tests are not counted. `refused as written`: valid data of which another
order of members or spelling of numbers is accepted, or that is valid only where `format` is a comment. `of an annotation`:
invalid data that is accepted in an optional test of a keyword that the draft lets an implementation assert or not, and that
`explain` lists as an annotation.
";

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

/// Whether a compiled schema accepts a whole text.
pub(crate) type Accepts = Box<dyn Fn(&str) -> bool>;

/// An engine under test.
pub(crate) trait Engine {
    fn compile(&self, schema: &str) -> Result<Accepts, String>;

    /// The keywords of the schema that the engine treats as annotations.
    fn annotations(&self, schema: &str) -> Vec<String>;
}

/// The outcomes of the tests of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) schemas: usize,
    /// Schemas that do not compile.
    pub(crate) refused: usize,
    /// Tests of the other schemas with the right outcome.
    pub(crate) right: usize,
    /// Valid data with another text that is accepted, or data that is valid only if `format` is an annotation.
    pub(crate) by_choice: usize,
    /// Valid data without an accepted text among those tried.
    pub(crate) refused_wrongly: usize,
    /// Invalid data that is accepted and is invalid only by a keyword that may be an annotation.
    pub(crate) left_open: usize,
    /// Invalid data that is accepted.
    pub(crate) accepted_wrongly: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.schemas += other.schemas;
        self.refused += other.refused;
        self.right += other.right;
        self.by_choice += other.by_choice;
        self.refused_wrongly += other.refused_wrongly;
        self.left_open += other.left_open;
        self.accepted_wrongly += other.accepted_wrongly;
    }

    fn cells(&self) -> String {
        format!(
            "{} | {} | {} | {} | {} | {} | {}",
            self.schemas,
            self.refused,
            self.right,
            self.by_choice,
            self.refused_wrongly,
            self.left_open,
            self.accepted_wrongly
        )
    }
}

/// The documents that the suite supplies, by their URIs.
pub(crate) fn remotes(data: &Path) -> Result<Registry, String> {
    let mut registry = Registry::new();
    let roots = [Some(data), data.parent()].into_iter().flatten().map(|folder| folder.join("remotes"));
    let Some(root) = roots.into_iter().find(|root| root.is_dir()) else { return Ok(registry) };
    for path in json_files(&root)? {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let inside: Vec<_> = path.strip_prefix(&root).unwrap_or(&path).iter().collect();
        let inside: Vec<_> = inside.into_iter().map(|part| part.to_string_lossy()).collect();
        let inserted = registry.insert(&format!("{REMOTES}{}", inside.join("/")), &text);
        inserted.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(registry)
}

/// The suite's files with their names, which begin with the folder of the draft.
pub(crate) fn files(data: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let tests = data.join("tests");
    let root = if tests.is_dir() { tests } else { data.to_owned() };
    // The name includes the last part of the given path, which may be the draft.
    let outer = root.parent().unwrap_or(&root);
    let named = |path: PathBuf| {
        (path.strip_prefix(outer).unwrap_or(&path).with_extension("").to_string_lossy().into_owned(), path)
    };
    let mut files: Vec<_> = json_files(&root)?.into_iter().map(named).collect();
    files.sort();
    Ok(files)
}

/// All JSON files in a folder and its subfolders, except [`LEFT_OUT`].
fn json_files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
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
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The tests of one file, and a line for each refused schema and each test without the right outcome.
pub(crate) fn tally(name: &str, text: &str, engine: &dyn Engine) -> Result<(Tally, Vec<String>), String> {
    let groups: Vec<Group> = serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let (mut tally, mut notes) = (Tally::default(), Vec::new());
    for group in groups {
        tally.schemas += 1;
        let schema = with_draft(name, group.schema.get());
        let accepts = match engine.compile(&schema) {
            Ok(accepts) => accepts,
            Err(reason) => {
                tally.refused += 1;
                notes.push(format!("{}{REFUSED}{reason}", group.description));
                continue;
            }
        };
        for test in group.tests {
            let what = match (accepts(test.data.get()), test.valid) {
                (true, true) | (false, false) => {
                    tally.right += 1;
                    continue;
                }
                (true, false) if is_left_open(name, &engine.annotations(&schema)) => {
                    tally.left_open += 1;
                    "invalid by what is an annotation"
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

/// Whether the file is an optional test of a draft that leaves one of these keywords open.
pub(crate) fn is_left_open(name: &str, annotations: &[String]) -> bool {
    let (draft, keywords) = LEFT_OPEN;
    let optional =
        name.split('/').any(|part| part == draft) && name.split('/').any(|part| part == "optional");
    optional && annotations.iter().any(|annotation| keywords.contains(&annotation.as_str()))
}

/// Whether the tests of this file treat `format` as an annotation; those in `optional` treat it as an assertion.
fn only_a_comment(name: &str) -> bool {
    name.rsplit('/').next() == Some("format") && !name.contains("optional")
}

/// The schema with the draft of its folder, if it names none.
pub(crate) fn with_draft(name: &str, schema: &str) -> String {
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
pub(crate) fn texts(data: &str) -> Vec<String> {
    serde_json::from_str(data).map_or_else(|_| Vec::new(), |value| texts_of(&value))
}

/// Recursion is as deep as serde_json reads.
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

/// Every choice of a text for each part, in each order, up to [`TRIES`].
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

/// The permutations of `count` things, up to [`TRIES`].
pub(crate) fn orders(count: usize) -> Vec<Vec<usize>> {
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

/// A table by draft, and one by file.
pub(crate) fn tables(tallies: &BTreeMap<String, Tally>) -> String {
    let mut drafts: BTreeMap<&str, Tally> = BTreeMap::new();
    for (name, tally) in tallies {
        let draft =
            DRAFTS.iter().map(|(draft, _)| *draft).find(|draft| name.split('/').any(|part| part == *draft));
        let draft = draft.unwrap_or("of no draft");
        drafts.entry(draft).or_default().add(tally);
    }
    let files = tallies.iter().map(|(name, tally)| (name.as_str(), tally));
    format!("{}\n{}", table("draft", drafts.iter().map(|(name, tally)| (*name, tally))), table("file", files))
}

fn table<'t>(what: &str, tallies: impl Iterator<Item = (&'t str, &'t Tally)>) -> String {
    let mut out = format!(
        "| {what} | schemas | refused | tests right | valid, refused as written | valid, refused | \
         invalid, accepted of an annotation | invalid, accepted |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    let mut all = Tally::default();
    for (name, tally) in tallies {
        all.add(tally);
        let _ = writeln!(out, "| {name} | {} |", tally.cells());
    }
    let _ = writeln!(out, "| all | {} |", all.cells());
    out
}

/// Our engine over single bytes, because the tests are about languages and not about tokens.
pub(crate) struct Bytes {
    library: Arc<TreeLibrary>,
    options: SchemaOptions,
}

impl Bytes {
    pub(crate) fn new(options: SchemaOptions) -> Result<Self, String> {
        let mut builder = Vocabulary::builder();
        for byte in 0..=255 {
            builder.text(&[byte]);
        }
        let trie = Arc::new(
            TokenTrie::new(builder.build().map_err(|error| error.to_string())?)
                .map_err(|error| error.to_string())?,
        );
        Ok(Self { library: Arc::new(TreeLibrary::new(trie, 64 << 20)), options })
    }
}

impl Engine for Bytes {
    fn annotations(&self, schema: &str) -> Vec<String> {
        let fates = explain(schema, &self.options, &SchemaLimits::default());
        let fates = fates.into_iter().filter(|one| one.fate == Fate::Annotation);
        fates.map(|one| one.keyword).collect()
    }

    /// An unsatisfiable schema accepts nothing.
    fn compile(&self, schema: &str) -> Result<Accepts, String> {
        let limits = SchemaLimits::default();
        let grammar = match unskew_schema::grammar(schema, &self.options, &limits) {
            Ok(grammar) => grammar,
            Err(SchemaError::Unsatisfiable { .. }) => return Ok(Box::new(|_| false)),
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
