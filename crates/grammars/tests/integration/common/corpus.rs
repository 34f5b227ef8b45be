//! Reads the grammars of `tests/grammars`, and generates some that would be long to write.

use std::{fmt::Write as _, fs, path::Path};

use serde::Deserialize;
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_notation::{GrammarOptions, from_gbnf, from_lark};

use super::oracle::Input;

/// A grammar with texts.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The file and the name.
    pub(crate) name: String,
    pub(crate) grammar: Grammar,
    pub(crate) accepted: Vec<Vec<Input>>,
    pub(crate) rejected: Vec<Vec<Input>>,
    /// The control tokens in its texts.
    pub(crate) controls: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    grammar: Vec<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    gbnf: Option<String>,
    lark: Option<String>,
    accepted: Vec<String>,
    rejected: Vec<String>,
    #[serde(default)]
    controls: Vec<String>,
}

/// All cases, in the order of the files and then of the names in them.
pub(crate) fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grammars");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let raw: File = toml::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        cases.extend(raw.grammar.into_iter().map(|raw| raw.read(&file)));
    }
    cases.extend(made());
    for (index, case) in cases.iter().enumerate() {
        assert!(case.accepted.len() + case.rejected.len() >= 2, "{}: too few texts", case.name);
        assert!(cases[..index].iter().all(|other| other.name != case.name), "{}: twice", case.name);
    }
    cases
}

impl Raw {
    fn read(self, file: &str) -> Case {
        let name = format!("{file}: {}", self.name);
        let limits = GrammarLimits::default();
        let grammar = match (&self.gbnf, &self.lark) {
            (Some(text), None) => from_gbnf(text, &limits),
            (None, Some(text)) => from_lark(text, &GrammarOptions::default(), &limits),
            _ => panic!("{name}: either gbnf or lark"),
        };
        let read = |texts: &[String]| texts.iter().map(|text| inputs(text, &self.controls)).collect();
        Case {
            grammar: grammar.unwrap_or_else(|error| panic!("{name}: {error}")),
            accepted: read(&self.accepted),
            rejected: read(&self.rejected),
            controls: self.controls,
            name,
        }
    }
}

/// The bytes of `text`, with the names of control tokens as control tokens.
fn inputs(text: &str, controls: &[String]) -> Vec<Input> {
    let mut inputs = Vec::new();
    let mut rest = text;
    while let Some(byte) = rest.bytes().next() {
        if let Some(name) = controls.iter().find(|name| rest.starts_with(name.as_str())) {
            inputs.push(Input::Control(name.clone()));
            rest = &rest[name.len()..];
        } else {
            inputs.push(Input::Byte(byte));
            // Names of control tokens begin with ASCII, so they begin where a character begins.
            let width = rest.chars().next().map_or(1, char::len_utf8);
            inputs.extend(rest.bytes().take(width).skip(1).map(Input::Byte));
            rest = &rest[width..];
        }
    }
    inputs
}

/// Generated grammars.
fn made() -> Vec<Case> {
    let gbnf = |name: &str, text: &str, accepted: &[&str], rejected: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let raw = Raw {
            name: name.to_owned(),
            gbnf: Some(text.to_owned()),
            lark: None,
            accepted: texts(accepted),
            rejected: texts(rejected),
            controls: Vec::new(),
        };
        raw.read("made")
    };

    let words: Vec<String> = (0..200u32)
        .map(|n| {
            let letters = [b"bdfgklmnprstvw"[(n % 14) as usize], b"aeiou"[(n / 14 % 5) as usize]];
            format!("{}{}", String::from_utf8_lossy(&letters), ["", "n", "nd"][(n / 70) as usize])
        })
        .collect();
    let literals = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ");
    let literals = format!("root ::= word (\",\" word)*\nword ::= {literals}\n");

    let mut chain = "root ::= r0\n".to_owned();
    for n in 0..300 {
        writeln!(chain, "r{n} ::= r{} | \"<{n}>\" r{}", n + 1, n + 1).unwrap();
    }
    chain += "r300 ::= \".\"\n";

    let mut precedences = "root ::= e0\n".to_owned();
    for n in 0..20 {
        let operator = char::from(b'A' + n);
        writeln!(precedences, "e{n} ::= e{n} \"{operator}\" e{} | e{}", n + 1, n + 1).unwrap();
    }
    precedences += "e20 ::= [0-9] | \"(\" e0 \")\"\n";

    let deep = "[".repeat(200) + &"]".repeat(200);
    let groups = "(".repeat(500) + "\"x\"?" + &")?".repeat(500);
    vec![
        gbnf(
            "two-hundred-literals",
            &literals,
            &["ba", "band,we,wun", "be,wen,dan"],
            &["", "b", "ba,", "wander1"],
        ),
        gbnf("a-chain-of-rules", &chain, &[".", "<0><1><299>.", "<7>."], &["", "<1><0>.", "<300>.", "<1>"]),
        gbnf("twenty-precedences", &precedences, &["1", "1A2B3T4", "(1A2)C((3))"], &["", "1U2", "1A", "(1"]),
        gbnf(
            "deep-nesting",
            "root ::= \"[\" root \"]\" | \"\"",
            &["", "[]", &deep],
            &["[[]", &deep[1..], "]"],
        ),
        gbnf("five-hundred-groups", &format!("root ::= {groups} \"y\""), &["y", "xy"], &["", "x", "xxy"]),
    ]
}
