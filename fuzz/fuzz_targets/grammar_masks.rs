//! Any bytes as a grammar in Lark and a document. Every mask along the document is that of the oracle of the
//! crate's tests, with a library of subterminal trees and without.
//!
//! The input is a list of choices: first of rules and terminals over three letters, then of the tokens of the
//! document. The resulting grammars are often ambiguous, recursive in every way, nullable in places or
//! without an end.

#![no_main]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/grammars/tests/integration/common/oracle.rs"]
mod oracle;

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use libfuzzer_sys::fuzz_target;
use oracle::{Alphabet, Oracle};
use unskew_core::{Constraint, TokenMask, Vocabulary};
use unskew_fuzz::Choices;
use unskew_grammar::{GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary, Tuning};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

/// The greatest length of a document, in tokens.
const LONGEST: usize = 24;

/// One library as it ships, and one that builds every fragment of a mask.
static LIBRARIES: LazyLock<[Arc<TreeLibrary>; 2]> = LazyLock::new(|| {
    let mut builder = Vocabulary::builder();
    for left in b"abc" {
        builder.text(&[*left]);
        for right in b"abc" {
            builder.text(&[*left, *right]);
        }
    }
    for text in ["aaa", "aba", "abc", "cab", "bbcc", "aabb", "abab", "ccccc", "babab", "bcabcabb"] {
        builder.text(text.as_bytes());
    }
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
    [Tuning::default(), Tuning::with_all_fragments()]
        .map(|tuning| Arc::new(TreeLibrary::with_tuning(Arc::clone(&trie), 64 << 20, tuning)))
});

const LITERALS: [&str; 8] = ["a", "b", "c", "ab", "ba", "aa", "abc", "bcc"];
const PATTERNS: [&str; 10] =
    ["a+", "[ab]", "a+b?", "(ab)+", "b|bc", "[ab]*c", "(a|b|c){2}", "c+", "[a-c]+", "b[ab]*c?"];
const RULES: [&str; 4] = ["start", "x", "y", "z"];

fn expression(code: &mut Choices<'_>, depth: usize) -> String {
    match code.next(if depth == 0 { 8 } else { 14 }) {
        0..=2 => format!("\"{}\"", LITERALS[code.next(LITERALS.len())]),
        3..=5 => format!("/{}/", PATTERNS[code.next(PATTERNS.len())]),
        6 | 7 => RULES[code.next(RULES.len())].to_owned(),
        8 | 9 => format!("({} {})", expression(code, depth - 1), expression(code, depth - 1)),
        10 | 11 => format!("({} | {})", expression(code, depth - 1), expression(code, depth - 1)),
        12 => format!("({}){}", expression(code, depth - 1), ["?", "*", "+"][code.next(3)]),
        _ => {
            let (min, more) = (code.next(3), code.next(3));
            format!("({}){{{min},{}}}", expression(code, depth - 1), min + more)
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut code = Choices::new(bytes);
    let mut text = String::new();
    for rule in RULES {
        let _ = writeln!(text, "{rule}: {}", expression(&mut code, 3));
    }
    // The ignored terminal.
    match code.next(4) {
        0 => text += "%ignore /c+/\n",
        1 => text += "%ignore /c|ca+b/\n",
        _ => {}
    }
    let limits = GrammarLimits::default();
    let grammar = match from_lark(&text, &GrammarOptions::default(), &limits) {
        Ok(grammar) => grammar,
        Err(error) => panic!("{error}\n{text}"),
    };
    let [library, other] = &*LIBRARIES;
    let (vocabulary, trie) = (library.vocabulary(), library.trie());
    let oracle = Oracle::new(&grammar, &Alphabet::of(vocabulary));
    let constraints = match GrammarConstraint::with_library(&grammar, library, &limits) {
        Ok(with) => [
            with,
            GrammarConstraint::with_library(&grammar, other, &limits).unwrap(),
            GrammarConstraint::new(&grammar, Arc::clone(trie), &limits).unwrap(),
        ],
        Err(GrammarError::Empty { .. }) => return assert!(oracle.is_empty(), "{text}"),
        Err(error) => panic!("{error}\n{text}"),
    };
    assert!(!oracle.is_empty(), "{text}");
    let mut chart = oracle.chart();
    let mut places = constraints.each_ref().map(|constraint| (constraint.scratch(), constraint.start()));
    let mut mask = TokenMask::new(vocabulary.len());
    for _ in 0..LONGEST {
        let allowed = chart.mask(vocabulary);
        for (constraint, (scratch, state)) in constraints.iter().zip(&mut places) {
            assert_eq!(constraint.is_accepting(state), chart.is_accepting(), "{text}");
            constraint.fill_mask(scratch, state, mask.as_mut());
            assert_eq!(mask.ids().collect::<Vec<_>>(), allowed, "{text}");
        }
        if allowed.is_empty() {
            break;
        }
        let token = allowed[code.next(allowed.len())];
        assert!(chart.push_token(vocabulary, token));
        for (constraint, (scratch, state)) in constraints.iter().zip(&mut places) {
            constraint.advance(scratch, state, token).unwrap();
        }
    }
});
