//! The official JSON-Schema-Test-Suite: files of `[{description, schema, tests: [{description, data, valid}]}]`, by
//! keyword and draft.
//!
//! A schema may be refused, because a refusal is visible; a compiled schema must accept no invalid instance. Our
//! engine writes members in one order and numbers in few spellings, and always enforces `format`, so it refuses
//! some texts of valid data. Other orders and spellings of the same data show whether it refuses the data or only
//! the text; both are counted separately. Invalid data may be accepted if a draft leaves open whether a keyword is
//! an assertion and `explain` lists the keyword as an annotation; this is counted separately too.
//!
//! The folder `remotes` of the suite is the registry, as the suite requires. It does not contain the metaschemas of
//! the drafts.
//!
//! This folder has a few files in the suite's format. `cargo xtask conformance --data DIR` runs the whole suite
//! through [`the_suite_accepts_nothing_invalid`], with its location in environment variables.

mod tally;

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use tally::{
    Accepts, Bytes, Engine, LEGEND, REFUSED, TRIES, Tally, files, is_left_open, orders, remotes, tables,
    tally, texts, with_draft,
};
use unskew_schema::{MemberOrder, Registry, SchemaOptions};

/// Files in the suite's format.
const FILES: [(&str, &str); 6] = [
    ("draft2020-12/refRemote", include_str!("suite/draft2020-12/refRemote.json")),
    ("draft7/optional/content", include_str!("suite/draft7/optional/content.json")),
    ("draft2020-12/prefixItems", include_str!("suite/draft2020-12/prefixItems.json")),
    ("draft2020-12/properties", include_str!("suite/draft2020-12/properties.json")),
    ("draft2020-12/optional/format/date", include_str!("suite/draft2020-12/optional/format/date.json")),
    ("draft4/maximum", include_str!("suite/draft4/maximum.json")),
];

/// An engine without annotations.
struct Strict<F>(F);

impl<F: Fn(&str) -> Result<Accepts, String>> Engine for Strict<F> {
    fn compile(&self, schema: &str) -> Result<Accepts, String> {
        self.0(schema)
    }

    fn annotations(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

fn all(engine: &dyn Engine) -> Tally {
    let mut all = Tally::default();
    for (name, text) in FILES {
        all.add(&tally(name, text, engine).unwrap().0);
    }
    all
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/official/suite")
}

fn ours(order: MemberOrder) -> Bytes {
    let mut options = SchemaOptions::default();
    (options.registry, options.order) = (remotes(&folder()).unwrap(), order);
    Bytes::new(options).unwrap()
}

#[test]
fn our_engine_accepts_nothing_invalid() {
    let found = all(&ours(MemberOrder::Declared));
    assert_eq!((found.accepted_wrongly, found.refused_wrongly), (0, 0), "{found:?}");
    assert_eq!((found.refused, found.by_choice, found.left_open), (1, 2, 1), "{found:?}");
    assert_eq!(found.right, 32, "{found:?}");
    let any = all(&ours(MemberOrder::Any));
    assert_eq!((any.accepted_wrongly, any.by_choice, any.right), (0, 1, 33), "{any:?}");
}

/// A keyword counts as left open only in optional tests of its draft, and only if the engine lists it as an
/// annotation.
#[test]
fn only_what_is_left_open_is_counted_as_such() {
    let named = ["contentMediaType".to_owned()];
    assert!(is_left_open("tests/draft7/optional/content", &named));
    assert!(!is_left_open("tests/draft7/content", &named));
    assert!(!is_left_open("tests/draft6/optional/content", &named));
    assert!(!is_left_open("tests/draft7/optional/content", &["title".to_owned()]));
    assert!(!is_left_open("tests/draft7/optional/content", &[]));
}

/// Without the folder, schemas that refer to it are refused.
#[test]
fn the_folder_of_remotes_is_a_registry() {
    let (name, text) = FILES[0];
    assert_eq!(tally(name, text, &ours(MemberOrder::Declared)).unwrap().0.right, 4);
    let without = Bytes::new(SchemaOptions::default()).unwrap();
    assert_eq!(tally(name, text, &without).unwrap().0.refused, 2);
    assert_eq!(remotes(&folder().join("draft4")).unwrap(), remotes(&folder()).unwrap());
    assert_eq!(remotes(&folder().join("draft7/optional")).unwrap(), Registry::new());
}

#[test]
fn wrong_engines_are_found_out() {
    let takes_all = all(&Strict(|_: &str| -> Result<Accepts, String> { Ok(Box::new(|_| true)) }));
    assert!(takes_all.accepted_wrongly > 5 && takes_all.refused_wrongly == 0);
    let takes_nothing = all(&Strict(|_: &str| -> Result<Accepts, String> { Ok(Box::new(|_| false)) }));
    assert!(takes_nothing.refused_wrongly > 5 && takes_nothing.accepted_wrongly == 0);
    let refuses = all(&Strict(|_: &str| -> Result<Accepts, String> { Err("no".to_owned()) }));
    assert_eq!((refuses.refused, refuses.right), (refuses.schemas, 0));
    // An engine that drops a keyword, as some do; schemas then accept more.
    let bytes = ours(MemberOrder::Declared);
    let drops = all(&Strict(|schema: &str| {
        bytes.compile(&schema.replace("exclusiveMaximum", "x").replace("additionalProperties", "y"))
    }));
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
    let folder = folder();
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

/// `UNSKEW_SUITE` is the suite's folder, its `tests`, or any folder with files of its format (default: the files
/// here); `UNSKEW_SUITE_FILTER` lists words, one of which a path must contain; `UNSKEW_SUITE_ORDER=any` allows
/// members in any order; `UNSKEW_SUITE_REPORT` is a file for the tables.
#[test]
#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "says which tests are not right, and how many there are"
)]
fn the_suite_accepts_nothing_invalid() {
    let data = env::var_os("UNSKEW_SUITE").map_or_else(folder, PathBuf::from);
    let filter = env::var("UNSKEW_SUITE_FILTER").unwrap_or_default();
    let order = env::var("UNSKEW_SUITE_ORDER").unwrap_or_default();
    let mut options = SchemaOptions::default();
    options.registry = remotes(&data).unwrap();
    options.order = if order == "any" { MemberOrder::Any } else { MemberOrder::Declared };
    let bytes = Bytes::new(options).unwrap();
    let mut files = files(&data).unwrap();
    files.retain(|(name, _)| filter.is_empty() || filter.split(' ').any(|word| name.contains(word)));
    assert!(!files.is_empty(), "{}: no such files", data.display());
    let (mut tallies, mut refused, mut all) = (BTreeMap::new(), String::new(), Tally::default());
    for (name, path) in files {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (tally, notes) = tally(&name, &text, &bytes).unwrap();
        for note in notes {
            eprintln!("{name}: {note}");
            // The report contains reasons only, because descriptions and data belong to the suite.
            if let Some((_, reason)) = note.rsplit_once(REFUSED) {
                let _ = writeln!(refused, "- {name}: {reason}");
            }
        }
        all.add(&tally);
        tallies.insert(name, tally);
    }
    let report = format!("{LEGEND}\n{}\n## Why schemas are refused\n\n{refused}", tables(&tallies));
    println!("{report}");
    if let Some(path) = env::var_os("UNSKEW_SUITE_REPORT") {
        fs::write(path, report).unwrap();
    }
    assert_eq!(all.accepted_wrongly, 0, "invalid instances are accepted: {all:?}");
}
