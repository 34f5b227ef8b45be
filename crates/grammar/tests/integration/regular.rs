//! Grammars without recursion as one automaton.

use unskew_automata::{Dfa, Limits};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_notation::{GrammarOptions, from_lark};

fn regular(text: &str) -> Result<Dfa, GrammarError> {
    from_lark(text, &GrammarOptions::default(), &GrammarLimits::default())?.regular(&Limits::default())
}

#[test]
fn a_grammar_without_recursion_is_its_regex() {
    for (grammar, pattern) in [
        ("start: \"a\" b* \"c\"?\nb: \"x\" | \"y\" \"z\"", "a(x|yz)*c?"),
        ("start: n (\",\" n)~1..3\nn: /[0-9]+/", "[0-9]+(,[0-9]+){1,3}"),
        ("start: a a\na: b b\nb: c c\nc: \"x\"", "x{8}"),
        ("start: | \"a\"", "a?"),
    ] {
        let expected = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
        assert_eq!(regular(grammar).unwrap(), expected, "{grammar}");
    }
}

#[test]
fn what_is_not_regular_is_an_error() {
    let not_regular = |grammar| match regular(grammar) {
        Err(GrammarError::NotRegular { rule, reason }) => (rule, reason),
        other => panic!("{grammar}: {other:?}"),
    };
    assert_eq!(
        not_regular("start: \"(\" start \")\" | \"x\""),
        ("start".to_owned(), "calls itself".to_owned())
    );
    let (rule, reason) = not_regular("start: a a a a\na: b~0..200\nb: c~0..200\nc: /.{0,200}x/");
    assert!(rule != "start" && reason.starts_with("is too large"), "{rule} {reason}");
}

#[test]
fn texts_that_are_left_out() {
    for texts in [&["b", "bb"][..], &["", "b"], &[""]] {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let all = std::sync::Arc::new(Dfa::from_pattern("b*", &Limits::default()).unwrap());
        let others = builder.difference("others", &all, texts).unwrap();
        let start = builder.rule("start");
        builder.define(start, others);
        let dfa = builder.build(start).unwrap().regular(&Limits::default()).unwrap();
        for text in ["", "b", "bb", "bbb"] {
            assert_eq!(dfa.accepts(text.as_bytes()), !texts.contains(&text), "{texts:?} {text}");
        }
    }
}

#[test]
fn ten_thousand_rules_deep() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let mut inner = builder.literal("x");
    for _ in 0..10_000 {
        let rule = builder.rule("r");
        builder.define(rule, inner);
        inner = builder.call(rule);
    }
    let start = builder.rule("start");
    builder.define(start, inner);
    let grammar = builder.build(start).unwrap();
    assert!(grammar.regular(&Limits::default()).unwrap().accepts(b"x"));
}
