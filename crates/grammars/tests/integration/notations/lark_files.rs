//! Verdicts on files beside those of lark, for its own grammar of Python.
//!
//! `python3 crates/grammars/tests/lark_verdicts.py FOLDER` writes `FOLDER/python.lark`, `FOLDER/files.jsonl` (the
//! standard library) and `FOLDER/changed.jsonl` (files with one change each); it needs the packages `lark` and
//! `regex`. Then:
//!
//! ```text
//! UNSKEW_LARK_FILES=FOLDER cargo test --release -p unskew-grammars --test integration -- --nocapture verdicts_are
//! ```

#![allow(clippy::print_stdout, reason = "a skipped test says so, and the figures are for people")]

use std::{fs, path::PathBuf};

use serde::Deserialize;
use unskew_grammar::GrammarLimits;
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarOptions, from_lark};

use crate::common::texts::{bytes, judge};

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    accepted: bool,
}

#[test]
fn verdicts_are_those_of_lark() {
    let Some(folder) = std::env::var_os("UNSKEW_LARK_FILES").map(PathBuf::from) else {
        println!("skipped: set UNSKEW_LARK_FILES to a folder that lark_verdicts.py made");
        return;
    };
    let limits = GrammarLimits::default();
    let grammar = fs::read_to_string(folder.join("python.lark")).unwrap();
    let options = GrammarOptions::default().with_start("file_input");
    let grammar = from_lark(&grammar, &options, &limits).unwrap();
    let constraint = GrammarConstraint::new(&grammar, bytes(), &limits).unwrap();
    let mut judge = judge(&constraint);
    let mut wrong = vec![];
    for (file, may_join_words) in [("files.jsonl", false), ("changed.jsonl", true)] {
        let (mut accepted, mut rejected, mut joined) = (0, 0, 0);
        for line in fs::read_to_string(folder.join(file)).unwrap().lines() {
            let Case { name, text, accepted: expected } = serde_json::from_str(line).unwrap();
            match (judge(&text).1, expected) {
                (true, true) => accepted += 1,
                (false, false) => rejected += 1,
                // Without a scanner, a keyword needs no blank after it.
                (true, false) if may_join_words => {
                    println!("accepted here alone: {name}");
                    joined += 1;
                }
                _ => wrong.push(name),
            }
        }
        println!("{file}: {accepted} accepted, {rejected} rejected, {joined} accepted here alone");
        assert!(joined * 20 <= rejected, "{joined} of {rejected} rejected texts are accepted");
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
