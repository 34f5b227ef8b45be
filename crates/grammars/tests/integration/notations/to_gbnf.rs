//! Grammars written in GBNF and read again: the words are the same, and the text is one that llama.cpp reads.
//!
//! What llama.cpp itself says of such texts was asked by hand; the rules that it has are checked here: no left
//! recursion, names of letters, digits and `-`, bounds of at most 2,000, and no escape that it does not know.

use std::sync::Arc;

use proptest::prelude::*;
use unskew_automata::{Dfa, Limits};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_notation::{Gbnf, GbnfOptions, GrammarOptions, LooseningKind, from_gbnf, from_lark, to_gbnf};

use crate::common::{enumeration::short, random};

fn of_lark(text: &str) -> Grammar {
    from_lark(text, &GrammarOptions::default(), &GrammarLimits::default()).unwrap()
}

fn of_gbnf(text: &str) -> Grammar {
    from_gbnf(text, &GrammarLimits::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn written(grammar: &Grammar) -> Gbnf {
    to_gbnf(grammar, &GbnfOptions::default()).unwrap()
}

/// Asks for what llama.cpp demands of a text.
fn check_form(text: &str) -> Grammar {
    let grammar = of_gbnf(text);
    let analysis = grammar.analysis();
    for rule in grammar.rules() {
        let (name, facts) = (grammar.rule_name(rule), analysis.rule(rule));
        assert!(facts.left_recursion.is_none() && !facts.cyclic && facts.productive, "{name}\n{text}");
    }
    for line in text.lines() {
        let (name, _) = line.split_once(" ::= ").unwrap();
        assert!(name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-'), "{line}");
    }
    for bounds in text.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
        for bound in bounds.0.split(',').filter_map(|bound| bound.parse::<u32>().ok()) {
            assert!(bound <= 2000, "{text}");
        }
    }
    grammar
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 2000 }))]

    /// Words and prefixes of at most six letters stay the same.
    #[test]
    fn random_grammars_keep_their_words(shape in random::grammar()) {
        let grammar = shape.build();
        let expected = short(&grammar, 6);
        match to_gbnf(&grammar, &GbnfOptions::default()) {
            Ok(gbnf) => {
                prop_assert!(gbnf.loosened.is_empty());
                let read = check_form(&gbnf.text);
                prop_assert_eq!(short(&read, 6), expected, "{}\n{}", shape, gbnf.text);
            }
            Err(GrammarError::Empty { .. }) => prop_assert!(expected.prefixes.is_empty(), "{}", shape),
            Err(error) => panic!("{error}\n{shape}"),
        }
    }
}

#[test]
fn the_text_is_short_and_plain() {
    for (lark, expected) in [
        ("start: \"a\" | \"b\"", "root ::= [ab]\n"),
        ("start: /[^\"\\\\\\x00-\\x1f]*/", "root ::= [^\\x00-\\x1F\"\\\\]*\n"),
        ("start: /(?s:.)+/", "root ::= .+\n"),
        // A class without a character beyond ASCII is written as what it has.
        ("start: /[^é]/", "root ::= [\\x00-\\xE8\\xEA-\\U0010FFFF]\n"),
        ("start: /[\\^\\-\\]]x/", "root ::= [\\-\\]\\x5E] \"x\"\n"),
        ("start: \"alpha\" | \"alphabet\" | \"beta\"", "root ::= \"alpha\" \"bet\"? | \"beta\"\n"),
        ("start: start \"+\" /[0-9]/ | /[0-9]/", "root ::= [0-9] (\"+\" [0-9])*\n"),
        ("start: (\"a\"?)*", "root ::= \"a\"*\n"),
        ("start: /[ab]{0,33}c/", "root ::= [ab]{0,33} \"c\"\n"),
        ("start: /\\\\u[0-9a-f]{4}/", "root ::= \"\\\\u\" [0-9a-f]{4}\n"),
        ("start: /(a|bc)*d/", "root ::= (\"a\" | \"bc\")* \"d\"\n"),
    ] {
        assert_eq!(written(&of_lark(lark)).text, expected, "{lark}");
    }
}

/// `x{m,n}` with more than 2,000 repetitions has them in blocks, each number of them.
#[test]
fn great_bounds_are_products() {
    for (min, max) in [
        (0, Some(2000)),
        (0, Some(2001)),
        (3, Some(5000)),
        (4500, None),
        (2500, Some(2500)),
        (0, Some(3_000_000)),
    ] {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let unit = Arc::new(Dfa::from_pattern("x", &Limits::default()).unwrap());
        let body = builder.bounded_repetition("counted", "", &unit, "y", min, max).unwrap();
        let start = builder.rule("start");
        builder.define(start, body);
        let text = written(&builder.build(start).unwrap()).text;
        let read = check_form(&text);
        let mut limits = Limits::default();
        limits = limits.dfa_states(1 << 14);
        let Ok(dfa) = read.regular(&limits) else { continue };
        for count in
            (0..6100).step_by(7).chain([1999, 2000, 2001, 2499, 2500, 2501, 4499, 4500, 4999, 5000, 5001])
        {
            let text = ["x".repeat(count), "y".to_owned()].concat();
            let expected = count >= min as usize && max.is_none_or(|max| count <= max as usize);
            assert_eq!(dfa.accepts(text.as_bytes()), expected, "{count} of {min}..{max:?}");
        }
    }
}

/// Rules that begin with each other, and with what may be empty.
#[test]
fn left_recursion_is_rewritten() {
    for lark in [
        "start: a\na: b \"x\" | \"y\"\nb: a \"z\" | c\nc: b \"w\" | \"v\" | a",
        "start: n start \"x\" | \"y\"\nn: \"z\"?",
        "start: start start | \"a\" | \"b\"?",
        "start: a*\na: start \"b\" | \"c\"?",
        "start: start\n | \"a\"",
    ] {
        let grammar = of_lark(lark);
        let text = written(&grammar).text;
        assert_eq!(short(&check_form(&text), 6), short(&grammar, 6), "{lark}\n{text}");
    }
}

#[test]
fn what_is_lost_is_listed() {
    let limits = GrammarLimits::default();
    let mut builder = Grammar::builder(&limits);
    let name = Arc::new(Dfa::from_pattern("[a-z]+;", &Limits::default()).unwrap());
    let name = builder.distinct("name", &name, ["id;"], None).unwrap();
    let names = builder.repeat(name, 0, None);
    let set = builder.rule("set");
    builder.define(set, names);
    builder.scope(set);
    let gbnf = written(&builder.build(set).unwrap());
    let kinds: Vec<_> = gbnf.loosened.iter().map(|one| (one.kind, &*one.place)).collect();
    assert_eq!(kinds, [(LooseningKind::Repeats, "set")]);
    let dfa = check_form(&gbnf.text).regular(&Limits::default()).unwrap();
    for (text, accepted) in [("a;a;", true), ("id;", false), ("idx;i;", true)] {
        assert_eq!(dfa.accepts(text.as_bytes()), accepted, "{text}");
    }

    let budget = of_lark("start: a \"!\"\na[max_tokens=3]: /[a-z]+/");
    let gbnf = written(&budget);
    assert_eq!(gbnf.text, "root ::= [a-z]+ \"!\"\n");
    assert_eq!(
        gbnf.loosened[0].to_string(),
        "a: a text may take more tokens than its budget: GBNF does not count tokens"
    );
}

#[test]
fn tokens_are_written_as_llama_cpp_does() {
    let text = "root ::= <|im_start|> <[7]> !<[9]> \"a\"\n";
    assert_eq!(written(&of_gbnf(text)).text, text);
    let error = to_gbnf(&of_gbnf("root ::= <[^1,2]>"), &GbnfOptions::default()).unwrap_err();
    assert!(error.to_string().contains("cannot be written in GBNF: it is all tokens but several"), "{error}");
}

#[test]
fn what_is_no_text_or_too_long_is_an_error() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let (start, body) = (builder.rule("start"), builder.literal(b"\xff"));
    builder.define(start, body);
    let error = to_gbnf(&builder.build(start).unwrap(), &GbnfOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is not text in UTF-8"), "{error}");
    let mut options = GbnfOptions::default();
    options.max_bytes = 20;
    let error = to_gbnf(&of_lark("start: \"a long text that takes more\""), &options).unwrap_err();
    assert!(matches!(error, GrammarError::GbnfTooLarge { limit: 20, .. }), "{error}");
}

/// Twelve members in any order have 4,096 sets of members that were read; the text remembers the required ones.
#[test]
fn many_members_in_any_order_are_loosened() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let letters: Vec<_> =
        ('a'..='l').map(|letter| (builder.literal(letter.to_string()), letter < 'c')).collect();
    let body = builder.unordered(letters, None, None, 0, None);
    let start = builder.rule("start");
    builder.define(start, body);
    let gbnf = written(&builder.build(start).unwrap());
    assert_eq!(gbnf.loosened.iter().map(|one| one.kind).collect::<Vec<_>>(), [LooseningKind::Members]);
    let words = short(&check_form(&gbnf.text), 4).words;
    for (text, accepted) in [("ab", true), ("lbka", true), ("aab", false), ("al", false), ("allb", true)] {
        assert_eq!(words.contains(text.as_bytes()), accepted, "{text}");
    }
}

/// Twenty thousand brackets, and as many rules one behind the other, cost memory alone.
#[test]
fn depth_is_no_recursion() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let mut inner = builder.literal("x");
    for depth in 0..20_000 {
        let (open, close) = (builder.literal("("), builder.literal(")"));
        inner = builder.sequence([open, inner, close]);
        if depth % 3 == 0 {
            inner = builder.optional(inner);
        }
        if depth % 5 == 0 {
            let rule = builder.rule("r");
            builder.define(rule, inner);
            inner = builder.call(rule);
        }
    }
    let start = builder.rule("start");
    builder.define(start, inner);
    let mut options = GbnfOptions::default();
    options.max_bytes = 10 << 20;
    assert!(to_gbnf(&builder.build(start).unwrap(), &options).unwrap().loosened.is_empty());
}
