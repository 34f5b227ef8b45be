//! Verdicts on texts beside those of other programs, for published grammars.
//!
//! `published_verdicts.py` beside this folder says how a suite is made, and where its two verdicts are from. A text
//! must be accepted if and only if it is in the language of the grammar. The program for which the grammar was
//! written may decide otherwise, since its scanner has rules of its own; such texts are listed. Suites that were
//! compared: README.md.
//!
//! ```text
//! UNSKEW_PUBLISHED=FOLDER cargo test --release -p unskew-grammars --test integration -- --nocapture published
//! ```

#![allow(clippy::print_stdout, reason = "a skipped test says so, and the figures are for people")]

use std::{fs, path::PathBuf, time::Instant};

use unskew_grammar::GrammarLimits;
use unskew_grammars::GrammarConstraint;

use crate::common::{
    published::{Case, FOLDER, Suite, suites},
    texts::{self, bytes},
};

#[test]
fn published_grammars_have_their_languages() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        println!("skipped: set UNSKEW_PUBLISHED to a folder that published_verdicts.py wrote");
        return;
    };
    let mut wrong = vec![];
    let suites = suites(&folder).unwrap();
    assert!(!suites.is_empty(), "{} has no suite", folder.display());
    for path in suites {
        let suite: Suite = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let limits = GrammarLimits::default();
        let begin = Instant::now();
        let grammar = suite.read(&limits).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let constraint = GrammarConstraint::new(&grammar, bytes(), &limits).unwrap();
        let mut judge = texts::judge(&constraint);
        println!("{}: read in {:?}", path.display(), begin.elapsed());
        let (mut accepted, mut rejected, mut otherwise) = (0, 0, 0);
        for line in fs::read_to_string(path.with_extension("jsonl")).unwrap().lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            let (_, verdict) = judge(&case.text);
            *if verdict { &mut accepted } else { &mut rejected } += 1;
            let (name, text) = (&case.name, &case.text);
            if case.language.or(case.program.filter(|program| *program)).is_some_and(|right| right != verdict)
            {
                println!("  WRONG, {verdict} here, program {:?}: {name}: {text:?}", case.program);
                wrong.push(format!("{}: {name}", path.display()));
            } else if case.program.is_some_and(|program| program != verdict) {
                println!("  {verdict} here alone, language {:?}: {name}: {text:?}", case.language);
                otherwise += 1;
            }
        }
        println!(
            "  {accepted} accepted, {rejected} rejected, {otherwise} otherwise by the program, {:?}",
            begin.elapsed()
        );
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}
