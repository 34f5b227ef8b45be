//! The engine against the oracle, on random small grammars over three letters: every mask along every short text.

use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use unskew_automata::{Dfa, Limits};
use unskew_core::{Constraint, TextOrder, TokenId, TokenMask, Vocabulary, WithEnd, conformance};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, GrammarScratch, GrammarState, TreeLibrary, Tuning};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

use crate::common::{
    oracle::{Alphabet, Chart, Oracle},
    random::{self, vocabulary},
};

struct Comparison<'a> {
    constraint: &'a GrammarConstraint,
    vocabulary: &'a Vocabulary,
    /// Used alternately, so that half of the states come from the other scratch.
    scratches: [GrammarScratch; 2],
    turn: usize,
    left: usize,
}

impl Comparison<'_> {
    fn scratch(&mut self) -> &mut GrammarScratch {
        self.turn += 1;
        &mut self.scratches[self.turn / 3 % 2]
    }

    fn compare(&mut self, chart: &mut Chart<'_>, state: &GrammarState, depth: usize) -> Result<(), String> {
        if self.constraint.is_accepting(state) != chart.is_accepting() {
            return Err(format!("accepting: {}", chart.is_accepting()));
        }
        let constraint = self.constraint;
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(self.scratch(), state, mask.as_mut());
        let (found, expected) = (mask.ids().collect::<Vec<_>>(), chart.mask(self.vocabulary));
        if found != expected {
            return Err(format!("mask {found:?} and not {expected:?}"));
        }
        if depth == 0 || self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        for token in expected {
            let mut next = state.clone();
            constraint.advance(self.scratch(), &mut next, token).map_err(|error| error.to_string())?;
            let before = chart.len();
            assert!(chart.push_token(self.vocabulary, token));
            let result = self.compare(chart, &next, depth - 1);
            chart.truncate(before);
            result.map_err(|error| {
                format!("{}, {error}", self.vocabulary.text(token).unwrap().escape_ascii())
            })?;
        }
        Ok(())
    }
}

/// Compares the masks along one long text. Each of `choices` selects the next token from the mask. Masks are compared
/// whatever they cost: a mask beyond the limit on its work is empty, which is not what the oracle says.
pub(crate) fn check_along(grammar: &Grammar, choices: &[u8]) -> Result<(), String> {
    let vocabulary = vocabulary();
    let oracle = Oracle::new(grammar, &Alphabet::of(&vocabulary));
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let mut limits = GrammarLimits::default();
    (limits.state_items, limits.mask_steps) = (usize::MAX, u64::MAX);
    let constraint = match GrammarConstraint::new(grammar, trie, &limits) {
        Ok(constraint) => constraint,
        Err(GrammarError::Empty { .. }) if oracle.is_empty() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let scratches = [constraint.scratch(), constraint.scratch()];
    let vocabulary = &vocabulary;
    let mut comparison = Comparison { constraint: &constraint, vocabulary, scratches, turn: 0, left: 0 };
    let (mut chart, mut state) = (oracle.chart(), constraint.start());
    let mut text = Vec::new();
    for choice in choices {
        let at = |error| format!("{}: {error}", text.escape_ascii());
        comparison.compare(&mut chart, &state, 0).map_err(at)?;
        let mask = chart.mask(vocabulary);
        let Some(index) = usize::from(*choice).checked_rem(mask.len()) else { break };
        let token = mask[index];
        constraint.advance(comparison.scratch(), &mut state, token).map_err(|error| error.to_string())?;
        assert!(chart.push_token(vocabulary, token));
        text.extend_from_slice(vocabulary.text(token).unwrap());
    }
    Ok(())
}

/// A library that all cases share: it keeps all nodes, only some, drops them again and again, or keeps none;
/// or all bounds are tight.
fn library(kind: usize) -> &'static Arc<TreeLibrary> {
    static LIBRARIES: OnceLock<[Arc<TreeLibrary>; 5]> = OnceLock::new();
    &LIBRARIES.get_or_init(|| {
        let (all, some) = (Tuning::with_all_fragments(), Tuning::default());
        let kinds = [(all, 1 << 28), (some, 1 << 28), (all, 1 << 15), (all, 0), (Tuning::tight(), 1 << 28)];
        kinds.map(|(tuning, bytes)| {
            let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
            Arc::new(TreeLibrary::with_tuning(trie, bytes, tuning))
        })
    })[kind]
}

fn check(
    grammar: &Grammar,
    library: Option<&Arc<TreeLibrary>>,
    limits: &GrammarLimits,
    depth: usize,
) -> Result<(), String> {
    let vocabulary = library.map_or_else(vocabulary, |library| Arc::clone(library.vocabulary()));
    let oracle = Oracle::new(grammar, &Alphabet::of(&vocabulary));
    let constraint = match library {
        Some(library) => GrammarConstraint::with_library(grammar, library, limits),
        None => {
            let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
            GrammarConstraint::new(grammar, trie, limits)
        }
    };
    let constraint = match constraint {
        Ok(constraint) => constraint,
        Err(GrammarError::Empty { .. }) if oracle.is_empty() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if oracle.is_empty() {
        return Err("there are no words".to_owned());
    }
    let scratches = [constraint.scratch(), constraint.scratch()];
    let vocabulary = &vocabulary;
    let mut comparison = Comparison { constraint: &constraint, vocabulary, scratches, turn: 0, left: 40 };
    comparison.compare(&mut oracle.chart(), &constraint.start(), depth)
}

const AMBIGUOUS: [&str; 12] = [
    "start: start start | \"a\"",
    "start: start start start | start start | \"a\" | \"\"",
    "start: start \"b\" start | start \"c\" start | \"a\"",
    "start: start \"b\" start | \"a\" start \"c\" | \"a\"",
    "start: \"a\" start \"b\" start | \"a\" start | \"c\"",
    "start: \"a\" start \"a\" | \"b\" start \"b\" | start start | \"\"",
    "start: x y? | y x?\nx: y x | \"a\"\ny: x y | \"b\" start \"c\" | \"a\"",
    "start: x start y | \"c\"\nx: \"a\" x? | \"\"\ny: y y | \"a\" | \"b\"",
    "start: start x | x\nx: x start \"c\" | \"a\" x | \"a\" | \"b\" start \"b\"",
    "start: x x x\nx: start \"b\" | x x | \"a\" | \"\"",
    "start: x | y\nx: \"a\" x \"b\" | \"a\" x | \"\"\ny: \"a\" y \"b\" | y \"b\" | \"\"",
    "start: \"a\"* x \"a\"* \"c\"\nx: \"a\" x \"a\" | \"b\" | x \"b\" x",
];

/// The number of random cases; higher in release builds.
const CASES: u32 = if cfg!(debug_assertions) { 60 } else { 20_000 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn masks_are_those_of_the_oracle(shape in random::grammar()) {
        let result = check(&shape.build(), None, &GrammarLimits::default(), 4);
        prop_assert_eq!(result, Ok(()), "\n{}", shape);
    }

    #[test]
    fn masks_of_trees_are_those_of_the_oracle(shape in random::grammar(), kind in 0..5usize) {
        let result = check(&shape.build(), Some(library(kind)), &GrammarLimits::default(), 4);
        prop_assert_eq!(result, Ok(()), "library {}\n{}", kind, shape);
    }

    /// Item sets from which many items were left out occur after long texts.
    #[test]
    fn masks_along_long_texts_are_those_of_the_oracle(
        shape in random::grammar(),
        choices in prop::collection::vec(any::<u8>(), 25),
    ) {
        prop_assert_eq!(check_along(&shape.build(), &choices), Ok(()), "\n{}", shape);
    }

    /// The same for grammars in which each text has many readings.
    #[test]
    fn masks_of_ambiguous_grammars_are_those_of_the_oracle(
        grammar in prop::sample::select(&AMBIGUOUS[..]),
        choices in prop::collection::vec(any::<u8>(), 25),
    ) {
        let limits = GrammarLimits::default();
        let parsed = from_lark(grammar, &GrammarOptions::default(), &limits).unwrap();
        prop_assert_eq!(check_along(&parsed, &choices), Ok(()), "\n{}", grammar);
    }

    /// A scratch that is emptied before every step gives the same answers.
    #[test]
    fn masks_do_not_depend_on_the_scratch(shape in random::grammar()) {
        let mut limits = GrammarLimits::default();
        limits.scratch_bytes = 0;
        prop_assert_eq!(check(&shape.build(), None, &limits, 4), Ok(()), "\n{}", shape);
    }

    #[test]
    fn the_contract_holds(shape in random::grammar()) {
        let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
        if let Ok(constraint) =
            GrammarConstraint::new(&shape.build(), trie, &GrammarLimits::default())
        {
            conformance::check_constraint(&constraint, 2).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let order = Arc::new(TextOrder::new(vocabulary()));
            prop_assert_eq!(conformance::check_reach(&constraint, &order, 2), Ok(()), "\n{}", shape);
            let free = WithEnd::free(&constraint, order);
            prop_assert_eq!(conformance::check_constraint(&free, 1), Ok(()), "\n{}", shape);
        }
    }
}

/// No token id makes the engine panic.
#[test]
fn foreign_tokens_are_refused() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let start = builder.rule("start");
    let body = builder.literal("ab");
    builder.define(start, body);
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    let grammar = builder.build(start).unwrap();
    let constraint = GrammarConstraint::new(&grammar, trie, &GrammarLimits::default()).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    assert!(constraint.advance(&mut scratch, &mut state, TokenId(u32::MAX)).is_err());
}

/// A token that crosses from a terminal into a bounded repetition without an opening mark is checked against
/// its own bounds, and not against those of the shared tree.
#[test]
fn a_token_enters_counted_units_with_their_own_bounds() {
    for max in [0, 1, 2, 7] {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let [words, unit] = ["a*", "a|bb|bc"]
            .map(|pattern| Arc::new(Dfa::from_pattern(pattern, &Limits::default()).unwrap()));
        let first = builder.difference("words", &words, [""]).unwrap();
        let second = builder.bounded_repetition("units", "", &unit, "c", 0, Some(max)).unwrap();
        let body = builder.sequence([first, second]);
        let start = builder.rule("start");
        builder.define(start, body);
        let grammar = builder.build(start).unwrap();
        for kind in 0..5 {
            let result = check(&grammar, Some(library(kind)), &GrammarLimits::default(), 5);
            assert_eq!(result, Ok(()), "at most {max}, library {kind}");
        }
    }
}

/// The texts of a pattern up to a length, alone, after and before terminals that share bytes with it, with masks near
/// and far from the bound.
#[test]
fn a_bounded_length_cuts_the_texts_of_its_pattern() {
    for (pattern, open, unit, close) in [
        ("a(b|ab)*c", "a", "b|ab", Some(b'c')),
        ("bb(ab)*(ac)*c", "bb", "ab|ac", Some(b'c')),
        ("c((aa|ab)*b)*c", "c", "aa|ab|b", Some(b'c')),
        ("b(a{4}|c)(ac)*b", "b", "a|c", Some(b'b')),
        // Up to the first `cb`, whose characters are counted too.
        ("a(a|b|c+a)*c+b", "a", "a|b|c", None),
        ("b(ab|bb|(ac)+(ab|bb))*(ac)+c", "b", "ab|ac|bb|c", None),
    ] {
        let mut made = 0;
        for max in [0, 1, 2, 3, 5, 30] {
            for before in ["", "a*", "[bc]"] {
                let mut builder = Grammar::builder(&GrammarLimits::default());
                let [dfa, unit] = [pattern, unit]
                    .map(|text| Arc::new(Dfa::from_pattern(text, &Limits::default()).unwrap()));
                let first = builder.regex("before", before).unwrap();
                let second = match builder.bounded_length("length", &dfa, open, &unit, close, max) {
                    Ok(second) => second,
                    Err(GrammarError::Uncountable { reason: "every text is longer", .. }) => continue,
                    Err(error) => panic!("{pattern}: {error}"),
                };
                made += 1;
                let third = builder.regex("after", "[ab]*").unwrap();
                let body = builder.sequence([first, second, third]);
                let start = builder.rule("start");
                builder.define(start, body);
                let grammar = builder.build(start).unwrap();
                for kind in 0..5 {
                    let result = check(&grammar, Some(library(kind)), &GrammarLimits::default(), 5);
                    assert_eq!(result, Ok(()), "{before} {pattern} up to {max}, library {kind}");
                }
            }
        }
        assert!(made > 9, "{pattern}");
    }
}

/// A bounded length without units to count, or without marks, is an error.
#[test]
fn a_bounded_length_asks_for_units_and_marks() {
    for (pattern, unit, reason) in [
        ("a[ab]*", "[ab]", "a text does not end with the closing mark, or goes on after it"),
        ("ab*ca?", "b", "a text has something else around its marks"),
        ("a(b|cb)*c", "b", "a text has something else around its marks"),
        ("bb*c", "b", "a text has something else around its marks"),
        ("ab{9}c", "b", "every text is longer"),
        ("a[ab]*c", "b", "a text has something else than units between its marks"),
        ("a(a(b|ab)*b|bab)*c", "aa|ab|b", "a state is inside of units and between them"),
    ] {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let [dfa, unit] =
            [pattern, unit].map(|text| Arc::new(Dfa::from_pattern(text, &Limits::default()).unwrap()));
        match builder.bounded_length("length", &dfa, "a", &unit, b'c', 5) {
            Err(GrammarError::Uncountable { reason: found, .. }) => assert_eq!(found, reason, "{pattern}"),
            other => panic!("{pattern}: {other:?}"),
        }
    }
}

/// Adjacent terminals with common continuation bytes are fused into one automaton, but not across the end of
/// an excluded text.
#[test]
fn a_text_that_is_left_out_flows_into_nothing() {
    for (pattern, left_out, next) in [
        ("(ab)*", "abab", "aa"),
        ("(ab)*", "", "ab"),
        ("a*", "", "ab"),
        ("a*", "aa", "ab"),
        ("a+b?", "aab", "bc"),
    ] {
        for before in ["", "a*", "c+"] {
            let mut builder = Grammar::builder(&GrammarLimits::default());
            let words = Arc::new(Dfa::from_pattern(pattern, &Limits::default()).unwrap());
            let first = builder.regex("before", before).unwrap();
            let second = builder.difference("words", &words, [left_out]).unwrap();
            let third = builder.literal(next);
            let body = builder.sequence([first, second, third]);
            let start = builder.rule("start");
            builder.define(start, body);
            let grammar = builder.build(start).unwrap();
            for kind in 0..5 {
                let result = check(&grammar, Some(library(kind)), &GrammarLimits::default(), 6);
                assert_eq!(result, Ok(()), "{before} {pattern} without {left_out:?}, {next}, library {kind}");
            }
        }
    }
}
