//! Lazy terminals, on random grammars, against a slow oracle that keeps every reading separately.

use std::sync::Arc;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use unskew_core::{Constraint, TokenMask};
use unskew_grammar::{Fate, Grammar, GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarFormat, GrammarOptions, explain, from_lark};
use unskew_trie::TokenTrie;

use crate::common::{
    lazy::{self, LazyGrammar, LazyOracle},
    oracle::{Alphabet, Oracle, bytes},
    random::vocabulary,
};

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
    from_lark(text, &GrammarOptions::default(), &GrammarLimits::default())
}

/// Compares the engine with the oracle. Returns whether the grammar was accepted.
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

/// Compares masks, with and without trees, along a text with those of the oracle of the resolved grammar.
fn masks(grammar: &Grammar, oracle: &Oracle) -> Result<(), String> {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let library = Arc::new(TreeLibrary::new(Arc::clone(&trie), 1 << 24));
    let limits = GrammarLimits::default();
    let constraints = [
        GrammarConstraint::new(grammar, trie, &limits),
        GrammarConstraint::with_library(grammar, &library, &limits),
    ];
    for constraint in constraints {
        let constraint = match constraint {
            Ok(constraint) => constraint,
            Err(GrammarError::Empty { .. }) if oracle.is_empty() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
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

/// The number of random cases; higher in release builds.
const CASES: u32 = if cfg!(debug_assertions) { 150 } else { 20_000 };

/// The comparison is meaningful: most random grammars are accepted, and lazy terminals change the language of many.
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
                // A rule with the name of another one is one of its states.
                let names: Vec<&str> = grammar.rules().map(|rule| grammar.rule_name(rule)).collect();
                let again = (1..names.len()).any(|at| names[..at].contains(&names[at]));
                let lazy = names.iter().any(|name| name.starts_with("lazy"));
                changed += usize::from(again || !lazy);
            }
            Err(GrammarError::Empty { .. }) => empty += 1,
            Err(_) => {}
        }
    }
    assert!(read_count + empty > ALL * 3 / 4, "{read_count} of {ALL} are read");
    assert!(changed > ALL / 4, "{changed} of {ALL} are changed");
}

/// A rule that calls itself begins like a terminal beside it, and both lead to the same place: a lazy terminal in the
/// rule competes with the text after the terminal. Such grammars were accepted, with too many texts.
#[test]
fn a_rule_that_begins_like_its_neighbour_is_refused() {
    let text = "start: (start \"cc\") | (r1 | /a+b?/)\nr1: (\"c\" r1 \"a\") | (\"a\" | /[ab]/) lazy1\nlazy1[lazy]: /[abc]*c/";
    let error = read(text).unwrap_err().to_string();
    assert!(error.contains("a lazy terminal that competes with the recursive rule `r1`"), "{error}");
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

/// Constructs that cannot be enforced exactly are rejected with a location, and never reported as enforced.
#[test]
fn refusals_name_their_place() {
    let nested =
        "start: tool* value\nhead[lazy]: /(?s:.*)<c>/\ntool: head \"1;\"\nvalue: \"[\" [value] \"]\"";
    let alike = "start: A TEXT | B head \"1\"\nA: \"x\"|\"y\"\nB: \"x\"|\"z\"\nhead[lazy]: TEXT \"<c>\"\nTEXT: /(?s:.*)/";
    for (text, place, names) in
        [(nested, "line 2, column 1: ", "rule `value`"), (alike, "line 4, column 1: ", "`TEXT`")]
    {
        let error = read(text).unwrap_err().to_string();
        assert!(
            error.starts_with(place) && error.contains(names) && error.contains("not supported"),
            "{error}"
        );
        let fates = explain(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default());
        assert!(fates.iter().all(|fate| fate.fate == Fate::Rejected), "{fates:?}");
    }
    let mut limits = GrammarLimits::default();
    limits.positions = 20;
    let error = from_lark(&tool("/[0-9]+/"), &GrammarOptions::default(), &limits).unwrap_err();
    assert!(matches!(error, GrammarError::LazyTooCostly { limit: 20, .. }), "{error}");
    let extended = "start: HEAD \"x\"\nHEAD[lazy]: /a+/\n%extend HEAD: \"b\"";
    assert!(read(extended).unwrap_err().to_string().contains("`%extend` of a lazy terminal"));
}

/// Free text with calls of a tool that has these arguments.
fn tool(arguments: &str) -> String {
    format!(
        "start: tool* TEXT\nhead[lazy]: TEXT \"<call>\"\ntool: head {arguments} \"</call>\"\nTEXT: /(\\n|.)*/\n"
    )
}

/// A lazy terminal without a rival leaves the grammar unchanged. With a rival, the rules are still reported
/// as written.
#[test]
fn rules_are_explained_as_written() {
    let alone = read("start: call \"=\" /[a-z]+/\ncall[lazy]: /(?s:.*)<f/").unwrap();
    assert_eq!(alone.rules().map(|rule| alone.rule_name(rule)).collect::<Vec<_>>(), ["start", "call"]);
    let fates = explain(
        &tool("/[0-9]+/"),
        GrammarFormat::Lark,
        &GrammarOptions::default(),
        &GrammarLimits::default(),
    );
    let fates: Vec<(&str, Fate)> = fates.iter().map(|fate| (fate.construct.as_str(), fate.fate)).collect();
    let expected = ["rule `start`", "rule `head`", "`lazy`", "rule `tool`", "terminal `TEXT`"];
    assert_eq!(fates, expected.map(|construct| (construct, Fate::Enforced)));
    // A rule that is called in the middle of a tool remains a rule.
    let nested = read(&format!("{}value: \"[\" [value] \"]\"", tool("value"))).unwrap();
    assert!(nested.rules().any(|rule| nested.rule_name(rule) == "value"));
    assert!(nested.analysis().findings().is_empty());
}
