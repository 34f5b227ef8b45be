//! The oracle against something simpler: all short words of a grammar, counted out by the definition.

mod common;

use std::collections::BTreeSet;

use common::{
    enumeration::words,
    oracle::{Alphabet, Input, Oracle, bytes},
    random,
};
use proptest::prelude::*;
use unskew_core::Vocabulary;
use unskew_grammars::{Grammar, GrammarLimits};

/// Every text over the alphabet of random grammars of at most this length.
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

/// Some text that completes `prefix`, searched breadth first.
fn completion(oracle: &Oracle, prefix: &[u8], most: usize) -> Option<Vec<Input>> {
    let mut open = vec![bytes(prefix)];
    for _ in 0..=most {
        let mut next = Vec::new();
        for text in open {
            let mut chart = oracle.chart();
            if !text.iter().all(|input| chart.push(input)) {
                continue;
            }
            if chart.is_accepting() {
                return Some(text);
            }
            next.extend(chart.inputs().into_iter().map(|input| [&text[..], &[input]].concat()));
        }
        next.truncate(64);
        open = next;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The words of at most six letters are those that the definition yields, what they begin with is viable, and what
    /// is viable can be completed.
    #[test]
    fn short_words_are_those_of_the_definition(shape in random::grammar()) {
        let grammar = shape.build();
        let oracle = Oracle::new(&grammar, &Alphabet::all());
        let words: BTreeSet<Vec<u8>> = words(&grammar, 6);
        for text in texts(6) {
            prop_assert_eq!(oracle.accepts(&bytes(&text)), words.contains(&text), "{:?}\n{}", text, shape);
        }
        for word in &words {
            prop_assert_eq!(oracle.viable_len(&bytes(word)), word.len());
        }
        for prefix in texts(3) {
            let viable = oracle.viable_len(&bytes(&prefix)) == prefix.len();
            let seen = words.iter().any(|word| word.starts_with(&prefix));
            prop_assert!(viable || !seen);
            if viable && !seen && !oracle.is_empty() {
                prop_assert!(completion(&oracle, &prefix, 40).is_some(), "{:?}\n{}", prefix, shape);
            }
        }
    }
}

/// `s = "a" s | "b" t; t = "c" t`: `t` never ends, so `b` is no way on.
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

    // a^n b^n, and a control token behind it.
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
    let mut expect = |chart: &mut common::oracle::Chart<'_>, names: &[&str]| {
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
