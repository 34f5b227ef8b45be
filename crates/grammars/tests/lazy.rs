//! Lazy terminals: against the slow oracle that keeps every reading by itself, on random grammars.

mod common;

use std::sync::Arc;

use common::{
    lazy::{self, LazyGrammar, LazyOracle},
    oracle::{Alphabet, Oracle, bytes},
    random::vocabulary,
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use unskew_core::{Constraint, TokenMask, TokenTrie};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarError, GrammarLimits, LarkOptions, TreeLibrary};

/// All texts of at most five letters.
fn texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = vec![vec![]];
    let mut at = 0;
    while let Some(text) = texts.get(at).filter(|text| text.len() < 5).cloned() {
        texts.extend(b"abc".iter().map(|letter| [&text[..], &[*letter]].concat()));
        at += 1;
    }
    texts
}

fn read(text: &str) -> Result<Grammar, GrammarError> {
    Grammar::from_lark(text, &LarkOptions::default(), &GrammarLimits::default())
}

/// Whether the grammar was not refused.
fn compare(random: &LazyGrammar) -> Result<bool, String> {
    let expected = LazyOracle::new(random);
    let grammar = match read(&random.to_string()) {
        Ok(grammar) => grammar,
        Err(GrammarError::Empty { .. }) => {
            let word = texts().into_iter().find(|text| expected.accepts(text));
            return word
                .map_or(Ok(true), |word| Err(format!("called empty, accepts {}", word.escape_ascii())));
        }
        Err(GrammarError::Syntax(error)) if error.to_string().contains("a lazy terminal that competes") => {
            return Ok(false);
        }
        Err(error) => return Err(error.to_string()),
    };
    let found = Oracle::new(&grammar, &Alphabet::all());
    for text in texts() {
        let (found, expected) = (found.accepts(&bytes(&text)), expected.accepts(&text));
        if found != expected {
            return Err(format!("{}: accepted {found} and not {expected}", text.escape_ascii()));
        }
    }
    masks(&grammar, &found)?;
    Ok(true)
}

/// Masks with and without trees along a text are those of the oracle of the grammar without lazy terminals.
fn masks(grammar: &Grammar, oracle: &Oracle) -> Result<(), String> {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(&vocabulary).unwrap());
    let library = Arc::new(TreeLibrary::new(Arc::clone(&vocabulary), Arc::clone(&trie), 1 << 24));
    let limits = GrammarLimits::default();
    let constraints = [
        GrammarConstraint::new(grammar, Arc::clone(&vocabulary), trie, &limits),
        GrammarConstraint::with_library(grammar, &library, &limits),
    ];
    for constraint in constraints {
        let constraint = constraint.map_err(|error| error.to_string())?;
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let mut chart = oracle.chart();
        for step in 0..6 {
            let mut mask = TokenMask::new(constraint.vocab_len());
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            let (found, expected) = (mask.ids().collect::<Vec<_>>(), chart.mask(&vocabulary));
            if found != expected || constraint.is_accepting(&state) != chart.is_accepting() {
                return Err(format!("mask {found:?} and not {expected:?}"));
            }
            let Some(token) = expected.get(step * 5 % expected.len().max(1)).copied() else { break };
            constraint.advance(&mut scratch, &mut state, token).map_err(|error| error.to_string())?;
            assert!(chart.push_token(&vocabulary, token));
        }
    }
    Ok(())
}

/// How many random cases: more in release.
const CASES: u32 = if cfg!(debug_assertions) { 5000 } else { 20_000 };

/// The comparison says something: most grammars are read, and lazy terminals change the language of many.
#[test]
fn few_random_grammars_are_refused() {
    let mut runner = TestRunner::deterministic();
    let (mut read_count, mut changed, mut empty) = (0, 0, 0);
    const ALL: usize = 400;
    for _ in 0..ALL {
        let random = lazy::grammar().new_tree(&mut runner).unwrap().current();
        match read(&random.to_string()) {
            Ok(grammar) => {
                read_count += 1;
                // A rule that is called like another is a state of it.
                let names: Vec<&str> = grammar.rules().map(|rule| grammar.rule_name(rule)).collect();
                let again = (1..names.len()).any(|at| names[..at].contains(&names[at]));
                let lazy = names.iter().any(|name| name.starts_with("lazy"));
                changed += usize::from(again || !lazy);
            }
            Err(GrammarError::Empty { .. }) => empty += 1,
            Err(_) => {}
        }
    }
    println!("{read_count} {changed} {empty}");
    assert!(read_count + empty > ALL * 3 / 4, "{read_count} of {ALL} are read");
    assert!(changed > ALL / 4, "{changed} of {ALL} are changed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn lazy_terminals_take_their_ends_away(random in lazy::grammar()) {
        if let Err(error) = compare(&random) {
            prop_assert!(false, "{}\n{}", error, random);
        }
    }
}

fn verdict(grammar: &str, text: &str) -> String {
    let grammar = match Grammar::from_lark(grammar, &LarkOptions::default(), &GrammarLimits::default()) {
        Ok(grammar) => grammar,
        Err(error) => return error.to_string(),
    };
    let oracle = Oracle::new(&grammar, &Alphabet::all());
    let text = bytes(text);
    let viable = oracle.viable_len(&text);
    if viable < text.len() {
        return format!("rej {viable}");
    }
    if oracle.accepts(&text) { format!("acc {viable}") } else { format!("inc {viable}") }
}

#[test]
fn dump() {
    let text = std::fs::read_to_string("/tmp/lazycases.txt").unwrap();
    for case in text.split("\u{1}") {
        let Some((grammar, texts)) = case.split_once("\u{2}") else { continue };
        println!("--- {grammar}");
        for text in texts.split("\u{3}") {
            let (text, theirs) = text.split_once("\u{4}").unwrap();
            let ours = verdict(grammar, text);
            println!("{} {text:?}: {ours}   [{theirs}]", if ours == theirs { "  " } else { "!!" });
        }
    }
}
