//! Membership of solutions in the grammars of "Grammar-Aligned Decoding" (Park et al. 2024): the engine and
//! the oracle against a table computed by a third recogniser. The data is under `UNSKEW_DATA`, in `gad-bv4`
//! and `gad-slia`. Without it the test does nothing.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use unskew_core::{Constraint, TokenId};
use unskew_grammar::GrammarLimits;
use unskew_grammars::GrammarConstraint;
use unskew_notation::from_ebnf;

use crate::common::{
    oracle::{Alphabet, Oracle, bytes},
    vocabularies,
};

/// The rows of the tables: `(folder, id, whether its solution is in the language of its grammar)`.
fn table(data: &Path) -> Vec<(PathBuf, String, bool)> {
    let mut rows = Vec::new();
    for folder in ["gad-bv4", "gad-slia"].map(|name| data.join(name)) {
        let Ok(text) = fs::read_to_string(folder.join("MEMBERSHIP.tsv")) else { continue };
        for line in text.lines().skip(1) {
            let (id, verdict) = line.split_once('\t').expect("two columns");
            assert!(["accept", "reject"].contains(&verdict), "{line}");
            rows.push((folder.clone(), id.to_owned(), verdict == "accept"));
        }
    }
    rows
}

#[test]
fn solutions_are_members_as_the_tables_say() {
    let Some(data) = std::env::var_os("UNSKEW_DATA").map(PathBuf::from) else {
        println!("skipped: UNSKEW_DATA is not set to a folder with gad-bv4 and gad-slia");
        return;
    };
    let limits = GrammarLimits::default();
    let subject = vocabularies::tiny();
    let mut decided = [0, 0];
    for (folder, id, is_member) in table(&data) {
        let own = folder.join("grammars").join(format!("{id}.ebnf"));
        let file = if own.is_file() { own } else { folder.join("grammar.ebnf") };
        let grammar = from_ebnf(&fs::read_to_string(&file).unwrap(), &limits)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let solution = fs::read_to_string(folder.join("solutions").join(format!("{id}.txt"))).unwrap();
        let solution = solution.strip_suffix('\n').unwrap_or(&solution);

        let oracle = Oracle::new(&grammar, &Alphabet::of(subject.trie.vocabulary()));
        assert_eq!(oracle.accepts(&bytes(solution)), is_member, "{id}");

        let trie = subject.trie.clone();
        let constraint = GrammarConstraint::new(&grammar, trie, &limits).unwrap();
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let read = solution.bytes().take_while(|byte| {
            let mut tokens = subject.trie.vocabulary().text_tokens();
            let token: Option<TokenId> = tokens.find(|(_, text)| *text == [*byte]).map(|(id, _)| id);
            constraint.advance(&mut scratch, &mut state, token.expect("every byte is a token")).is_ok()
        });
        let read = read.count();
        assert_eq!(read, oracle.viable_len(&bytes(solution)), "{id}");
        assert_eq!(read == solution.len() && constraint.is_accepting(&state), is_member, "{id}");
        decided[usize::from(is_member)] += 1;
    }
    assert!(decided[0] > 10 && decided[1] > 50, "{decided:?} rows");
}
