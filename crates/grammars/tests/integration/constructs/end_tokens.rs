//! Control tokens that end the sequence, in grammars: each is the end of the output, and nothing may follow it.

use std::sync::Arc;

use proptest::prelude::*;
use unskew_core::{Constraint, TokenId, TokenKind, TokenMask, Vocabulary, conformance::check_constraint};
use unskew_grammar::{ExprId, Fate, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarFormat, GrammarOptions, explain};
use unskew_trie::TokenTrie;

use crate::common::oracle::{Alphabet, Input, Oracle};

/// Letters, pairs of letters, a space, a control token, and two tokens that end the sequence.
fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for text in ["a", "b", " ", "ab", "a ", "ba", "aa"] {
        builder.text(text.as_bytes());
    }
    builder.control("<mark>");
    for name in ["<end>", "<eot>"] {
        let end = builder.control(name);
        builder.end_of_sequence(end);
    }
    Arc::new(builder.build().unwrap())
}

fn compiled(grammar: &Grammar) -> Result<GrammarConstraint, GrammarError> {
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    GrammarConstraint::new(grammar, trie, &GrammarLimits::default())
}

fn lark(text: &str) -> Grammar {
    unskew_notation::parse(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default())
        .unwrap()
}

/// Every sequence of up to `len` tokens that `constraint` allows, each with a flag: whether it is accepted.
/// Checks that no mask has a token that ends the sequence.
fn outputs(constraint: &GrammarConstraint, len: usize) -> Vec<(Vec<TokenId>, bool)> {
    let vocabulary = vocabulary();
    let mut scratch = constraint.scratch();
    let mut found = vec![];
    let mut open = vec![(vec![], constraint.start())];
    while let Some((output, state)) = open.pop() {
        let mut mask = TokenMask::new(vocabulary.len());
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        for id in vocabulary.end_of_sequence() {
            assert!(!mask.contains(*id) && !constraint.allows(&mut scratch, &state, *id));
            assert!(constraint.advance(&mut scratch, &mut state.clone(), *id).is_err());
        }
        assert!(mask.count() > 0 || constraint.is_accepting(&state), "a dead end behind {output:?}");
        if output.len() < len {
            for id in mask.ids() {
                let (mut longer, mut after) = (output.clone(), state.clone());
                longer.push(id);
                constraint.advance(&mut scratch, &mut after, id).unwrap();
                open.push((longer, after));
            }
        }
        let accepted = constraint.is_accepting(&state);
        found.push((output, accepted));
    }
    found.sort();
    found
}

fn texts(constraint: &GrammarConstraint, len: usize) -> Vec<String> {
    let vocabulary = vocabulary();
    let accepted = outputs(constraint, len).into_iter().filter(|(_, accepted)| *accepted);
    let name =
        |output: Vec<TokenId>| output.iter().map(|id| vocabulary.name(*id).into_owned()).collect::<String>();
    let mut texts: Vec<String> = accepted.map(|(output, _)| name(output)).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[test]
fn the_end_of_a_grammar_and_its_token_are_one() {
    let expect = |grammar: &str, expected: &[&str]| {
        let constraint = compiled(&lark(grammar)).unwrap_or_else(|error| panic!("{grammar}: {error}"));
        assert_eq!(texts(&constraint, 3), expected, "{grammar}");
        check_constraint(&constraint, 3).unwrap_or_else(|error| panic!("{grammar}: {error:?}"));
    };
    expect("start: \"a\" <end>", &["a"]);
    // Any end-of-sequence id may end the output, because the end is no token of it.
    expect("start: \"a\" <eot>", &["a"]);
    expect("start: \"a\" (<end> | <eot>)?", &["a"]);
    expect("start: \"a\" (\"b\" | <end>)", &["a", "ab"]);
    expect("start: <end>", &[""]);
    expect("start: \"a\" start | <end>", &["", "a", "aa", "aaa", "aaaa", "aaaaa", "aaaaaa"]);
    expect("start: \"a\" <mark> \"b\" last\nlast: e <end> e\ne: \"\"", &["a<mark>b"]);
    // Ignored text may precede the end and is never written after it.
    expect("start: \"b\" <end>\n%ignore \" \"", &["  b", " b", " b ", "b", "b ", "b  "]);
}

#[test]
fn what_may_follow_the_end_is_refused() {
    let error = |grammar: &str| match compiled(&lark(grammar)) {
        Ok(_) => panic!("{grammar}"),
        Err(error) => {
            assert!(matches!(error, GrammarError::EndInside { .. }), "{error}");
            error.to_string()
        }
    };
    assert_eq!(
        error("start: \"b\" x \"a\"\n x: \"a\" <end>"),
        "line 2, column 2: rule `x`: `\"a\"` may follow `<end>`, which ends the sequence in this vocabulary, and nothing may \
         follow the end of an output: put it last, or leave it out, because an output may end where the grammar ends"
    );
    for grammar in [
        "start: (\"a\" <end>)*",
        "start: (\"a\" <end>?)*",
        "start: \"a\" <end> <eot>",
        "start: \"a\" <end> <mark>",
        "start: list\nlist: list \"b\" | <end>",
        "start: \"a\" <end> b\nb: \"b\"?",
        "start: \"a\" <end> S\nS: \" \"\n%ignore \" \"",
        "start: \"a\" start \"b\" | <eot>",
    ] {
        error(grammar);
    }
    // In other vocabularies it is an ordinary control token.
    let grammar = lark("start: \"a\" <end> \"b\"");
    let mut builder = Vocabulary::builder();
    builder.text(b"a");
    builder.text(b"b");
    builder.control("<end>");
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
    let constraint = GrammarConstraint::new(&grammar, trie, &GrammarLimits::default()).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    for id in [0, 2, 1] {
        constraint.advance(&mut scratch, &mut state, TokenId(id)).unwrap();
    }
    assert!(constraint.is_accepting(&state));
}

#[test]
fn members_in_any_order_have_no_end_among_them() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let (a, b, end) = (builder.literal("a"), builder.literal("b"), builder.token("<end>"));
    let last = builder.sequence([b, end]);
    let body = builder.unordered([(a, false), (last, true)], None, None, 0, None);
    let start = builder.rule("start");
    builder.define(start, body);
    let error = compiled(&builder.build(start).unwrap()).unwrap_err();
    assert!(matches!(error, GrammarError::EndInside { .. }), "{error}");
}

#[test]
fn libraries_agree() {
    let grammar = lark("start: A (<end> | \" \" <mark>)\nA: /a+/");
    let plain = compiled(&grammar).unwrap();
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    let limits = GrammarLimits::default();
    let library = Arc::new(TreeLibrary::new(Arc::clone(&trie), 1 << 20));
    let trees = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
    let expected = outputs(&plain, 4);
    assert_eq!(outputs(&trees, 4), expected);
    assert!(expected.iter().filter(|(_, accepted)| *accepted).count() > 4);
}

#[test]
fn it_is_explained() {
    for (text, format) in [
        ("start: \"a\" <end>", GrammarFormat::Lark),
        ("root ::= \"a\" (<end> | \"b\" <end>)", GrammarFormat::Gbnf),
    ] {
        let fates = explain(text, format, &GrammarOptions::default(), &GrammarLimits::default());
        let tokens: Vec<_> = fates.iter().filter(|fate| fate.construct == "control token `<end>`").collect();
        let [token] = tokens[..] else { panic!("{fates:?}") };
        assert!(
            token.fate == Fate::Enforced && token.why.contains("it is the end of the output"),
            "{token:?}"
        );
    }
}

/// An expression of a random grammar.
#[derive(Clone, Debug)]
enum Shape {
    Empty,
    Letter(bool),
    Mark,
    End(bool),
    Rule(usize),
    Sequence(Vec<Shape>),
    Choice(Vec<Shape>),
    Repeat(Box<Shape>, u32, Option<u32>),
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        1 => Just(Shape::Empty),
        4 => any::<bool>().prop_map(Shape::Letter),
        1 => Just(Shape::Mark),
        3 => any::<bool>().prop_map(Shape::End),
        2 => (0..3usize).prop_map(Shape::Rule),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        let some = || prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            2 => some().prop_map(Shape::Sequence),
            2 => some().prop_map(Shape::Choice),
            1 => (inner.clone(), 0..2u32, prop::option::of(1..3u32))
                .prop_map(|(item, min, more)| Shape::Repeat(Box::new(item), min, more.map(|more| min + more))),
        ]
    })
}

fn built(shape: &Shape, builder: &mut GrammarBuilder, rules: &[RuleId]) -> ExprId {
    match shape {
        Shape::Empty => builder.empty(),
        Shape::Letter(first) => builder.literal(if *first { "a" } else { "b" }),
        Shape::Mark => builder.token("<mark>"),
        Shape::End(first) => builder.token(if *first { "<end>" } else { "<eot>" }),
        Shape::Rule(rule) => builder.call(rules[*rule]),
        Shape::Sequence(parts) => {
            let parts: Vec<_> = parts.iter().map(|part| built(part, builder, rules)).collect();
            builder.sequence(parts)
        }
        Shape::Choice(parts) => {
            let parts: Vec<_> = parts.iter().map(|part| built(part, builder, rules)).collect();
            builder.choice(parts)
        }
        Shape::Repeat(item, min, max) => {
            let item = built(item, builder, rules);
            builder.repeat(item, *min, *max)
        }
    }
}

/// The symbols of inputs: letters, and control tokens.
fn symbols() -> Vec<Input> {
    let mut symbols = crate::common::oracle::bytes("ab");
    symbols.extend(["<mark>", "<end>", "<eot>"].map(|name| Input::Control(name.to_owned())));
    symbols
}

fn is_end(symbol: &Input) -> bool {
    matches!(symbol, Input::Control(name) if name != "<mark>")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// A grammar is rejected exactly if some word has a symbol after an end. Otherwise an output is accepted
    /// exactly if it is a word, or is one with an end appended.
    #[test]
    fn random_grammars_agree_with_the_oracle(shapes in prop::collection::vec(shape(), 3)) {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let rules: Vec<RuleId> = (0..3).map(|rule| builder.rule(&format!("r{rule}"))).collect();
        for (rule, shape) in rules.iter().zip(&shapes) {
            let body = built(shape, &mut builder, &rules);
            builder.define(*rule, body);
        }
        let grammar = builder.build(rules[0]).unwrap();
        let oracle = Oracle::new(&grammar, &Alphabet::all());
        // All viable inputs of up to this number of symbols.
        const LONGEST: usize = 5;
        let mut viable: Vec<Vec<Input>> = vec![vec![]];
        let mut at = 0;
        while at < viable.len() && viable.len() < 4_000 {
            if viable[at].len() < LONGEST {
                for symbol in symbols() {
                    let mut longer = viable[at].clone();
                    longer.push(symbol);
                    if oracle.viable_len(&longer) == longer.len() {
                        viable.push(longer);
                    }
                }
            }
            at += 1;
        }
        let has_inside = viable.iter().any(|input| input.iter().rev().skip(1).any(is_end));
        match compiled(&grammar) {
            Err(GrammarError::Empty { .. }) => {}
            Err(GrammarError::EndInside { .. }) => {
                // A word with a symbol after an end may be longer than the inputs that were enumerated.
                prop_assert!(has_inside || viable.iter().any(|input| input.len() == LONGEST) || viable.len() >= 4_000);
            }
            Err(error) => panic!("{error}"),
            Ok(constraint) => {
                prop_assert!(!has_inside);
                let vocabulary = vocabulary();
                let kind = |id: TokenId| match vocabulary.kind(id) {
                    TokenKind::Text => crate::common::oracle::bytes(vocabulary.text(id).unwrap()),
                    _ => vec![Input::Control(vocabulary.name(id).into_owned())],
                };
                for (output, accepted) in outputs(&constraint, 2) {
                    let input: Vec<Input> = output.iter().flat_map(|id| kind(*id)).collect();
                    let ended = |name: &str| {
                        let end = [Input::Control(name.to_owned())];
                        oracle.accepts(&input.iter().cloned().chain(end).collect::<Vec<_>>())
                    };
                    let word = oracle.accepts(&input) || ended("<end>") || ended("<eot>");
                    prop_assert_eq!(accepted, word, "{:?}", output);
                }
            }
        }
    }
}
