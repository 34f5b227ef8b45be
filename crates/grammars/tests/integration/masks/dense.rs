//! Grammars in which a text has readings without number: runs of one letter that rules cut in every way.
//!
//! On short texts the masks are those of the oracle, and on long ones the work is counted, which is the same on every
//! machine. Before literals of one length were one hypothesis, a text of n bytes had n of them, each with n items.

use std::sync::Arc;

use proptest::prelude::*;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

use super::random::check_along;

/// Alternatives of the rule `x`: runs, nested emphasis, recursion on the left, on the right, in the middle and twice.
const SHAPES: [&str; 18] = [
    "\"a\"",
    "\"aa\"",
    "\"aaa\"",
    "\"a\" x \"a\"",
    "\"aa\" x \"aa\"",
    "\"a\" x \"aa\"",
    "\"a\" x+ \"a\"",
    "\"aa\" x+ \"aa\"",
    "x x",
    "x x x",
    "x \"a\"",
    "\"aa\" x",
    "x? \"aa\" x?",
    "x \"b\" x",
    "(\"a\" x?)? (\"aa\" x?)? \"a\"",
    "/a+/",
    "/[ab]/ x",
    "/aa?/ x /a/",
];

const STARTS: [&str; 3] = ["x+", "x", "x? x? x? x? x? x? \"aa\""];

fn dense(start: &str, shapes: &[&str]) -> String {
    format!("start: {start}\nx: {} | \"b\"\n", shapes.join(" | "))
}

fn read(lark: &str) -> Grammar {
    from_lark(lark, &GrammarOptions::default(), &GrammarLimits::default()).unwrap()
}

/// The grammars that were reported: optional runs, two kinds of pairs, and emphasis as in Markdown (`a` for `*`).
fn reported() -> Vec<String> {
    let optional = |count: usize| {
        let optional = vec!["x?"; count].join(" ");
        format!("start: {optional} \"a\"~60\nx: \"a\" | \"aa\" | \"aaa\" | \"a\" x \"a\"\n")
    };
    vec![
        optional(15),
        optional(30),
        optional(60),
        "start: x+\nx: \"a\" | \"a\" x \"a\" | \"aa\" x \"aa\"\n".to_owned(),
        "start: x+\nx: \"a\" x+ \"a\" | \"aa\" x+ \"aa\" | \"b\" | /[c-z ]/\n".to_owned(),
    ]
}

/// Runs of `a` up to 16, with other letters at their end.
fn runs() -> Arc<TokenTrie> {
    let mut vocabulary = Vocabulary::builder();
    for byte in 0..=255u8 {
        vocabulary.text(&[byte]);
    }
    for len in 1..=16 {
        for end in ["a", "b", "bc", "c", " "] {
            vocabulary.text(format!("{}{end}", "a".repeat(len)).as_bytes());
        }
    }
    Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap())
}

const A: TokenId = TokenId(b'a' as u32);

/// The most hypotheses of a token of one byte, and the most parser items of such a token and the mask after it, along
/// `count` of them.
fn most_work(constraint: &GrammarConstraint, count: usize) -> (u64, u64) {
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    let (mut hypotheses, mut items) = (0, 0);
    for _ in 0..count {
        let before = scratch.stats();
        // It reads the token, and makes no mask.
        constraint.allows(&mut scratch, &state, A);
        hypotheses = hypotheses.max(scratch.stats().hypotheses - before.hypotheses);
        if constraint.advance(&mut scratch, &mut state, A).is_err() {
            break;
        }
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        items = items.max(scratch.stats().items - before.items);
    }
    (hypotheses, items)
}

#[test]
fn the_work_of_the_reported_grammars_is_bounded() {
    let library = Arc::new(TreeLibrary::new(runs(), 64 << 20));
    for lark in reported() {
        let grammar = read(&lark);
        let limits = GrammarLimits::default();
        for constraint in [
            GrammarConstraint::new(&grammar, Arc::clone(library.trie()), &limits).unwrap(),
            GrammarConstraint::with_library(&grammar, &library, &limits).unwrap(),
        ] {
            let (hypotheses, items) = most_work(&constraint, 300);
            assert!(hypotheses <= 8 && items <= 1_000_000, "{hypotheses} hypotheses, {items} items\n{lark}");
        }
    }
}

/// The hypotheses of a text do not become more with its length, whatever the rules are.
#[test]
fn a_text_has_few_hypotheses() {
    let trie = runs();
    for start in STARTS {
        for (at, left) in SHAPES.iter().enumerate() {
            for right in &SHAPES[at + 1..] {
                let lark = dense(start, &[left, right]);
                let mut limits = GrammarLimits::default();
                limits.mask_steps = 50_000;
                let constraint = GrammarConstraint::new(&read(&lark), Arc::clone(&trie), &limits).unwrap();
                let (hypotheses, _) = most_work(&constraint, 40);
                assert!(hypotheses <= 12, "{hypotheses} hypotheses\n{lark}");
            }
        }
    }
}

/// Whether a mask is beyond the limit on its work does not depend on what a scratch or a library has.
#[test]
fn a_limit_on_steps_does_not_depend_on_the_scratch() {
    let mut beyond = 0;
    for lark in reported() {
        let grammar = read(&lark);
        for mask_steps in [200, 1_000, 5_000, 20_000] {
            let mut limits = GrammarLimits::default();
            limits.mask_steps = mask_steps;
            let library = || Arc::new(TreeLibrary::new(runs(), 64 << 20));
            let warm = GrammarConstraint::with_library(&grammar, &library(), &limits).unwrap();
            let (mut scratch, mut state) = (warm.scratch(), warm.start());
            let [mut mask, mut other] = [(); 2].map(|()| TokenMask::new(warm.vocab_len()));
            for count in 0..60 {
                warm.fill_mask(&mut scratch, &state, mask.as_mut());
                let cold = GrammarConstraint::with_library(&grammar, &library(), &limits).unwrap();
                let mut fresh = cold.scratch();
                cold.fill_mask(&mut fresh, &state, other.as_mut());
                assert_eq!(mask, other, "{mask_steps} steps, after {count}\n{lark}");
                let mut after = state.clone();
                let advanced = warm.advance(&mut scratch, &mut state, A);
                assert_eq!(advanced, cold.advance(&mut fresh, &mut after, A), "after {count}\n{lark}");
                match advanced {
                    Ok(()) => assert_eq!(warm.is_accepting(&state), cold.is_accepting(&after)),
                    Err(rejected) => {
                        assert_eq!(rejected.limit, Some("GrammarLimits::mask_steps"));
                        assert!(mask.none() || mask.ids().any(|token| token == A));
                        beyond += 1;
                        break;
                    }
                }
            }
        }
    }
    assert!(beyond >= 5, "{beyond}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 1_000 }))]

    #[test]
    fn masks_of_dense_grammars_are_those_of_the_oracle(
        start in prop::sample::select(&STARTS[..]),
        shapes in prop::sample::subsequence(&SHAPES[..], 2..6),
        choices in prop::collection::vec(any::<u8>(), 20),
    ) {
        let lark = dense(start, &shapes);
        prop_assert_eq!(check_along(&read(&lark), &choices), Ok(()), "\n{}", lark);
    }
}
