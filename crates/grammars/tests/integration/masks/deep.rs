//! Deep nesting: each opening is closed exactly once.

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, Vocabulary};
use unskew_grammar::GrammarLimits;
use unskew_grammars::GrammarConstraint;
use unskew_notation::from_gbnf;
use unskew_trie::TokenTrie;

/// Reads `text` byte by byte in `scratches` fresh scratches, and returns the lengths after which the text may end.
fn ends(grammar: &str, text: &str, scratches: usize) -> Vec<Vec<usize>> {
    let mut vocabulary = Vocabulary::builder();
    for byte in 0..=255u8 {
        vocabulary.text(&[byte]);
    }
    let trie = Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap());
    let limits = GrammarLimits::default();
    let grammar = from_gbnf(grammar, &limits).unwrap();
    let constraint = GrammarConstraint::new(&grammar, trie, &limits).unwrap();
    let mut all = Vec::new();
    for _ in 0..scratches {
        let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
        let mut found = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).unwrap();
            found.extend(constraint.is_accepting(&state).then_some(at + 1));
        }
        all.push(found);
    }
    all
}

/// Every level returns to itself and to the enclosing level. Two adjacent levels therefore differ only in
/// their identity. A former bug confused them if their hashes began alike, about once in a hundred levels of
/// a small table. The hashes differ in each scratch.
#[test]
fn levels_of_hidden_left_recursion_are_told_apart() {
    let grammar = "root ::= maybe root \"b\" | \"c\"\nmaybe ::= \"a\" | \"\"";
    for (depth, scratches) in [(10, 400), (1_000, 1)] {
        let text = "a".repeat(depth) + "c" + &"b".repeat(depth + 2);
        let expected: Vec<usize> = (depth..=depth + 2).map(|b| depth + 1 + b).collect();
        for found in ends(grammar, &text, scratches) {
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn brackets_are_counted() {
    let text = "(".repeat(1_000) + &")".repeat(1_000);
    assert_eq!(ends("root ::= (\"(\" root \")\")?", &text, 1), [[2_000]]);
    let pairs: Vec<usize> = (1..=30).map(|pairs| 2 * pairs).collect();
    assert_eq!(ends("root ::= \"(\" root \")\" | root root | \"\"", &"()".repeat(30), 1), [pairs]);
}
