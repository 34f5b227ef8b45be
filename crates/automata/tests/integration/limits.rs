//! Every pattern gets an answer in bounded work: a constraint, or an error with the value and the limit.

use std::sync::Arc;

use unskew_automata::{Dfa, Limits, RegexConstraint, RegexError, dfa::DfaAlgebra};
use unskew_core::Vocabulary;
use unskew_trie::TokenTrie;

/// The answer for `pattern`. Asserts that the counted steps exceed their limit by one operation at most: the closure
/// of a state, or the minimisation of a table.
fn bounded(pattern: &str, limits: &Limits) -> Result<Dfa, RegexError> {
    let mut algebra = DfaAlgebra::new(limits);
    let answer = algebra.pattern(pattern);
    let operation = limits.nfa_size.max(limits.dfa_bytes as u64 / 4);
    let shown = || pattern.chars().take(40).collect::<String>();
    assert!(algebra.steps() <= limits.dfa_steps + operation, "{}: {} steps", shown(), algebra.steps());
    answer
}

fn message(pattern: &str, limits: &Limits) -> String {
    let message = Dfa::from_pattern(pattern, limits).unwrap_err().to_string();
    assert!(!message.contains('\n'));
    message
}

#[test]
fn every_limit_has_an_error_that_names_both_numbers() {
    let default = Limits::default();
    assert_eq!(
        message(&"a".repeat(10 << 20), &default),
        "the regex is 10485760 bytes long; the limit is 1048576 (Limits::pattern_bytes): shorten it, or raise the limit"
    );
    assert_eq!(
        message(&format!("{}a{}", "(".repeat(300), ")".repeat(300)), &default),
        "the regex nests deeper than 250 levels (Limits::nest), at line 1, column 251: flatten it, or raise the limit"
    );
    assert_eq!(
        message(r"\w\w\w", &default.clone().syntax_steps(10_000)),
        "the character classes and group names of the regex need about 12000 steps to read; the limit is 10000 \
         (Limits::syntax_steps), passed at line 1, column 5: use fewer of them, or raise the limit"
    );
    assert_eq!(
        message("a{1000}{1000}{1000}", &default),
        "the regex needs an NFA of 2000000001 states and transitions; the limit is 4000000 (Limits::nfa_size): lower \
         its repetition counts, or raise the limit"
    );
    assert_eq!(
        message("(a|b)*a(a|b){10}", &default.clone().dfa_states(1_000)),
        "the DFA has more than 1000 states (Limits::dfa_states): lower the repetition counts after ambiguous parts of \
         the pattern, or raise the limit"
    );
    let error = Dfa::from_pattern(r"\w{100}", &default.clone().dfa_bytes(100_000)).unwrap_err();
    assert!(matches!(error, RegexError::DfaTooLarge { bytes: 100_001.., limit: 100_000, .. }), "{error}");
    let error = Dfa::from_pattern("(a{0,30}){0,30}", &default.clone().dfa_steps(10_000)).unwrap_err();
    assert!(matches!(error, RegexError::DfaTooCostly { states: 1.., limit: 10_000, .. }), "{error}");

    for limits in [default.clone().dfa_states(3), default.dfa_bytes(30)] {
        let error = Dfa::from_literals(["abcdef", "ghi"], &limits).unwrap_err();
        assert!(
            matches!(error, RegexError::TooManyDfaStates { .. } | RegexError::DfaTooLarge { .. }),
            "{error}"
        );
    }
}

#[test]
fn what_is_long_and_harmless_compiles() {
    let limits = Limits::default();
    // An alternation of 20,000 words.
    let words: Vec<String> = (0..20_000).map(|word| format!("w{word}")).collect();
    let dfa = bounded(&words.join("|"), &limits).unwrap();
    assert_eq!(dfa, Dfa::from_literals(&words, &limits).unwrap());
    // A literal of 100,000 bytes.
    let text = "long ".repeat(20_000);
    assert!(bounded(&text, &limits).unwrap().accepts(text.as_bytes()));
    for fine in [r"\w{1,100}", r"(?i)[^\x00]{500}", r"\p{L}{100}", "[a-z ]{1,2000}", "(?:.{0,30}\n){0,30}"] {
        bounded(fine, &limits).unwrap();
    }
}

#[test]
fn what_explodes_is_refused() {
    let limits = Limits::default();
    for pattern in [
        "(a|b)*a(a|b){20}",
        "(.{0,300}){0,300}",
        r"(?:\w{0,99}\d{0,99}){0,99}",
        r"((\w{0,999}){0,999}){0,999}",
        "(?:(?:a?){900}){900}",
        r"(?:\p{L}*\p{N}*\p{P}*){200}",
    ] {
        bounded(pattern, &limits).unwrap_err();
    }
    // Patterns of a megabyte each: deep, wide, and expensive to expand.
    for piece in ["(", "(a|", r"\w", "[^a]", "(?i)k", "a?", r"[\w]"] {
        bounded(&piece.repeat((1 << 20) / piece.len()), &limits).unwrap_err();
    }
    for pattern in [
        format!("(?i){}", r"[\x00-\u{10ffff}]".repeat(60_000)),
        format!("(?i){}", r"\p{Any}".repeat(100_000)),
        format!("[{}]", ('\u{4000}'..'\u{9000}').rev().step_by(2).collect::<String>().repeat(20)),
        format!("a{}", "*".repeat(1 << 19)),
        format!("{}a{}", "(".repeat(1 << 18), ")".repeat(1 << 18)),
    ] {
        bounded(&pattern, &limits).unwrap_err();
    }
    // Large patterns with a tiny automaton.
    for piece in ["a|", "a*", "()", "^"] {
        assert!(bounded(&piece.repeat((1 << 20) / piece.len()), &limits).unwrap().len() <= 2, "{piece}");
    }
}

#[test]
fn nesting_up_to_the_largest_limit_is_safe() {
    let limits = Limits::default().nest(u32::MAX);
    let deep = |levels: usize| format!("{}a{}", "(?:".repeat(levels), "b)*".repeat(levels));
    assert!(bounded(&deep(300), &limits).is_ok());
    let error = bounded(&deep(2_000), &limits).unwrap_err();
    assert!(matches!(error, RegexError::NestTooDeep { limit: Limits::MAX_NEST, .. }), "{error}");
}

/// A vocabulary of `texts`, and its trie.
fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Arc<TokenTrie> {
    let mut builder = Vocabulary::builder();
    for text in texts {
        builder.text(text.as_ref());
    }
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
}

#[test]
fn what_cannot_be_spelled_is_an_error() {
    let trie = texts(["aa", "b"]);
    let limits = Limits::default();
    let error = RegexConstraint::new("a(aa)*b", Arc::clone(&trie), &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the vocabulary cannot spell any match: no sequence of its text tokens is accepted, and 1 of the bytes that \
         matches use have no token of their own"
    );
    assert!(matches!(error, RegexError::Unspellable { missing, .. } if missing == b"a"));

    let few = limits.clone().spelling_steps(10);
    let error = RegexConstraint::new("a{30,99}b", trie, &few).unwrap_err();
    assert!(matches!(error, RegexError::SpellingTooCostly { limit: 10, missing: 1, .. }), "{error}");
}

#[test]
fn finding_dead_ends_is_bounded() {
    // No byte is a token, so every state needs a decision: a walk through the 22,220 nodes of the trie, unless it
    // finds a live state earlier.
    let trie = texts((0..20_000).map(|word| format!("{word:05}")));
    let answer = |pattern: &str, spelling_steps: u64| {
        let limits = Limits::default().spelling_steps(spelling_steps);
        RegexConstraint::new(pattern, Arc::clone(&trie), &limits)
    };
    answer("[0-9]{1,20000}", 1).unwrap();
    let error = answer("[0-9]*x|y", 50_000).unwrap_err();
    assert!(matches!(error, RegexError::Unspellable { .. }), "{error}");
    let error = answer("[0-9]{20000}", 1_000_000).unwrap_err();
    assert!(matches!(error, RegexError::SpellingTooCostly { limit: 1_000_000, .. }), "{error}");
}
