//! The oracle against a simpler computation: all short words of a grammar, enumerated by the definition.

use proptest::prelude::*;
use unskew_core::Vocabulary;
use unskew_grammar::{Grammar, GrammarLimits};

use crate::common::{
    enumeration::{Short, short},
    oracle::{Alphabet, Input, Oracle, bytes},
    random,
};

/// Every text of at most this length over the alphabet of random grammars.
fn texts(longest: usize) -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
    let mut last = texts.clone();
    for _ in 0..longest {
        last = last
            .iter()
            .flat_map(|text| random::LETTERS.map(|letter| [&text[..], &[letter]].concat()))
            .collect();
        texts.extend(last.iter().cloned());
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 80 } else { 200 }))]

    /// Among the texts of at most six letters, the accepted and the viable ones are the words and prefixes by
    /// the definition.
    #[test]
    fn short_words_are_those_of_the_definition(shape in random::grammar()) {
        let grammar = shape.build();
        let oracle = Oracle::new(&grammar, &Alphabet::all());
        let Short { words, prefixes } = short(&grammar, 6);
        prop_assert_eq!(oracle.is_empty(), prefixes.is_empty());
        for text in texts(6) {
            prop_assert_eq!(oracle.accepts(&bytes(&text)), words.contains(&text), "{:?}\n{}", text, shape);
            let viable = oracle.viable_len(&bytes(&text)) == text.len() && !oracle.is_empty();
            prop_assert_eq!(viable, prefixes.contains(&text), "{:?}\n{}", text, shape);
        }
    }
}

/// `s = "a" s | "b" t | "c"; t = "c" t`: `t` never ends, so `b` is not viable.
#[test]
fn what_never_ends_is_not_viable() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let (s, t) = (builder.rule("s"), builder.rule("t"));
    let (a, b, c) = (builder.literal("a"), builder.literal("b"), builder.literal("c"));
    let (call_s, call_t) = (builder.call(s), builder.call(t));
    let more = builder.sequence([a, call_s]);
    let endless = builder.sequence([b, call_t]);
    let body = builder.choice([more, endless, c]);
    builder.define(s, body);
    let body = builder.sequence([c, call_t]);
    builder.define(t, body);
    let oracle = Oracle::new(&builder.build(s).unwrap(), &Alphabet::all());
    assert!(oracle.accepts(&bytes("aac")));
    assert_eq!(oracle.viable_len(&bytes("ab")), 1);
    assert_eq!(oracle.chart().inputs(), bytes("ac"));
}

#[test]
fn masks_are_prefixes_that_can_be_completed() {
    let mut vocabulary = Vocabulary::builder();
    for text in ["a", "b", "ab", "aab", "aabb", "abb", "aabbb", "bb", "", "c"] {
        vocabulary.text(text.as_bytes());
    }
    vocabulary.control("<call>");
    let end = vocabulary.control("<end>");
    vocabulary.end_of_sequence(end);
    let vocabulary = vocabulary.build().unwrap();

    // a^n b^n, followed by a control token.
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let (start, s) = (builder.rule("start"), builder.rule("s"));
    let (a, b, call, end) =
        (builder.literal("a"), builder.literal("b"), builder.token("<call>"), builder.token("<end>"));
    let inner = builder.call(s);
    let inner = builder.optional(inner);
    let body = builder.sequence([a, inner, b]);
    builder.define(s, body);
    let s = builder.call(s);
    let behind = builder.choice([call, end]);
    let body = builder.sequence([s, behind]);
    builder.define(start, body);
    let oracle = Oracle::new(&builder.build(start).unwrap(), &Alphabet::of(&vocabulary));

    let mut chart = oracle.chart();
    let expect = |chart: &mut crate::common::oracle::Chart<'_>, names: &[&str]| {
        let allowed = chart.mask(&vocabulary);
        let allowed: Vec<_> = allowed.iter().map(|id| vocabulary.name(*id).into_owned()).collect();
        assert_eq!(allowed, names);
    };
    expect(&mut chart, &["a", "ab", "aab", "aabb"]);
    assert!(chart.push(&Input::Byte(b'a')));
    expect(&mut chart, &["a", "b", "ab", "aab", "aabb", "abb", "aabbb"]);
    assert!(chart.push(&Input::Byte(b'b')));
    expect(&mut chart, &["<call>"]);
    assert!(!chart.is_accepting());
    assert!(chart.push(&Input::Control("<call>".to_owned())));
    expect(&mut chart, &[]);
    assert!(chart.is_accepting());
}
