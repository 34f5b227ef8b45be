//! Imports of files in Lark.

use std::collections::BTreeMap;

use unskew_grammar::{Grammar, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, Resolve, Resolver, explain, from_lark, imported_files};

use crate::common::enumeration::short;

/// Files by their paths.
#[derive(Debug)]
struct Files(&'static [(&'static str, &'static str)]);

impl Resolve for Files {
    fn file(&self, path: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(known, _)| *known == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
    }
}

const FILES: &[(&str, &str)] = &[
    (
        "lists.lark",
        "list: item (SEP item)?\nitem: \"a\" | nested\nnested: \"[\" item \"]\"\nSEP: \",\"\nunused: /(?<=x)b\\1/\n%ignore \" \"",
    ),
    (
        "deep/more.lark",
        "%import ..lists.list\n%import .other (WORD, pair)\nmore: list | pair{WORD}\nitem: \"z\"",
    ),
    ("deep/other.lark", "WORD: /[bc]/\npair{x}: x x"),
    ("again.lark", "%import .again2.b\na: \"a\" b?"),
    ("again2.lark", "%import .again.a\nb: \"b\" a?"),
    ("broken.lark", "\n\nx: \"a\" y\nz: /[/\n"),
    ("bad.lark", "x: \"a\n"),
];

fn options() -> GrammarOptions {
    GrammarOptions::default().with_resolver(Resolver::new(Files(FILES)))
}

fn read(text: &str) -> Result<Grammar, String> {
    from_lark(text, &options(), &GrammarLimits::default()).map_err(|error| error.to_string())
}

fn texts(text: &str, longest: usize) -> Vec<String> {
    let grammar = read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let words = short(&grammar, longest).words;
    words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

#[test]
fn a_rule_comes_with_all_that_it_uses_and_nothing_else() {
    // The names of the file are its own: `item` here is another rule.
    assert_eq!(
        texts("start: list item\nitem: \"!\"\n%import .lists.list", 4),
        ["a!", "a,a!", "[a]!"]
            .into_iter()
            .map(ToOwned::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(texts("start: l (S)\n%import .lists.list -> l\n%import lists.SEP -> S", 2), ["a,"]);
    // The file ignores nothing here, and what is ignored here is ignored in it.
    assert_eq!(texts("start: list\n%import lists (list, SEP)\n%ignore \"_\"", 2), ["_a", "a", "a_"]);
}

#[test]
fn files_import_files_and_templates() {
    assert_eq!(
        texts("start: more\n%import .deep.more.more", 2),
        ["a", "bb", "bc", "cb", "cc"]
            .into_iter()
            .filter(|text| text.len() == 1 || text.len() == 2)
            .collect::<Vec<_>>()
    );
    assert_eq!(texts("start: a\n%import again.a", 3), ["a", "ab", "aba"]);
    assert_eq!(texts("start: p{\"x\"} p{\"y\"}\n%import deep.other.pair -> p", 4), ["xxyy"]);
}

#[test]
fn an_imported_rule_can_be_changed() {
    assert_eq!(texts("start: item\n%import lists.item\n%extend item: \"b\"", 3), ["[a]", "[b]", "a", "b"]);
    assert_eq!(texts("start: list\n%import lists (list, item)\n%override item: \"b\"", 3), ["b", "b,b"]);
    // The same rule under two names.
    assert_eq!(texts("start: item thing\n%import lists.item\n%import lists.item -> thing", 2), ["aa"]);
}

#[test]
fn errors_name_the_file_and_the_place_in_it() {
    for (text, message) in [
        ("start: x\n%import broken.x", "in `broken.lark`: line 3, column 8: rule `y` is not defined"),
        ("start: x\n%import bad.x", "in `bad.lark`: line 1, column 4: the text in quotes is not closed"),
        ("start: x\n%import .none.x", "line 2, column 1: `%import` of `none.lark`: no such file"),
        ("start: x\n%import ..lists.x", "line 2, column 9: an import from there is not supported"),
        ("start: x\n%import lists.x", "line 1, column 8: rule `x` is not defined"),
        (
            "start: x\n%import lists.list -> LIST",
            "line 2, column 15: the imported rule `list` needs a name in lower case",
        ),
        (
            "start: %lark { start: list\n%import lists.list\n}",
            "line 2, column 9: an import in a grammar inside another is not supported",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(message), "{text}\n{error}\n{message}");
    }
    // Without a resolver no file is read.
    let alone = from_lark("start: a\n%import .x.a", &GrammarOptions::default(), &GrammarLimits::default());
    assert!(alone.unwrap_err().to_string().contains("no files are read here"));
    let mut limits = GrammarLimits::default();
    limits.grammar_bytes = 60;
    let error = from_lark("start: list\n%import .lists.list", &options(), &limits).unwrap_err().to_string();
    assert!(error.contains("more than 60 bytes (GrammarLimits::grammar_bytes)"), "{error}");
}

#[test]
fn the_files_of_a_grammar_are_found_without_reading_it() {
    let resolver = Resolver::new(Files(FILES));
    let limits = GrammarLimits::default();
    let text = "start: more\n%import .deep.more.more\n%import common.INT";
    let files: BTreeMap<_, _> = imported_files(text, &resolver, &limits).unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["deep/more.lark", "deep/other.lark", "lists.lark"]);
    let fates = explain(text, GrammarFormat::Lark, &options(), &limits);
    assert!(fates.iter().all(|fate| fate.location.is_none_or(|location| location.line <= 3)), "{fates:?}");
}
