//! Tokens, specs and random choices that the tests of this crate share.

#![allow(dead_code, reason = "each test uses its own part")]

use std::sync::Arc;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rand_core::Rng;
use unskew_core::{TokenId, Vocabulary};
use unskew_engine::{Compiler, Matcher, Spec, TokenSpace};
use unskew_notation::GrammarFormat;
use unskew_vocab::Tokenizer;

/// The tokens of the embedded model, which has a tokenizer.
pub(crate) fn tiny() -> Arc<TokenSpace> {
    let tokenizer = Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes()).unwrap();
    Arc::new(TokenSpace::from_tokenizer(tokenizer, &[], 0).unwrap())
}

/// All bytes, some longer tokens, two control tokens that end nothing, and two ends. Byte tokens have the numbers of
/// their bytes.
pub(crate) fn bytes() -> Arc<TokenSpace> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255 {
        builder.text(&[byte]);
    }
    for text in [
        "ab", "abc", "<f", "<f1>", "</", ">x", "\":", "{\"", "\", \"", "true", "12", "aa", "é", "b<",
        "f1>x</f>",
    ] {
        builder.text(text.as_bytes());
    }
    builder.control("<|call|>");
    builder.control("<|other|>");
    let ends = [builder.control("<end>"), builder.control("<stop>")];
    builder.unused();
    ends.into_iter().for_each(|id| {
        builder.end_of_sequence(id);
    });
    Arc::new(TokenSpace::from_vocabulary(Arc::new(builder.build().unwrap())))
}

/// One of each kind that needs no file.
pub(crate) fn specs() -> Vec<Spec> {
    let mut specs = vec![
        Spec::regex("(ab|a)*c?"),
        Spec::regex("[a-z]{2,5}(12)+"),
        Spec::choices(["abc", "abcabc", "ab", "true"]),
        Spec::json_schema(
            r#"{"type": "object", "properties": {"ab": {"type": "boolean"}, "a": {"enum": ["aa", "ab"]}}, "required": ["a"]}"#,
        ),
        Spec::json_schema(
            r#"{"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "maxItems": 4}"#,
        ),
        Spec::json_schema("{}"),
        Spec::grammar("root ::= \"(\" root* \")\" | [a-c]+", GrammarFormat::Gbnf),
        Spec::grammar("start: \"ab\" start? \"a\"", GrammarFormat::Lark),
        Spec::default(),
    ];
    let more: Vec<Spec> = specs.iter().cloned().map(Spec::canonical).collect();
    specs.extend(more);
    specs
}

/// A random choice.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    pub(crate) fn text(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The ids of a mask.
pub(crate) fn ids(words: &[u32]) -> Vec<TokenId> {
    let bits = words
        .iter()
        .enumerate()
        .flat_map(|(at, word)| (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 32 + bit));
    bits.map(TokenId::from_index).collect()
}

/// Whether the matcher takes `text`, in a random spelling.
pub(crate) fn accepts(random: &mut Random, space: &TokenSpace, matcher: &mut Matcher, text: &str) -> bool {
    matcher.reset();
    let mut at = 0;
    while at < text.len() {
        let trie = space.trie().unwrap();
        let spellings: Vec<TokenId> = (at + 1..=text.len())
            .flat_map(|end| {
                let of = &text.as_bytes()[at..end];
                let ids = trie.beginning_with(of).iter().copied();
                ids.filter(|id| space.vocabulary().text(*id) == Some(of)).collect::<Vec<_>>()
            })
            .collect();
        let token = *random.pick(&spellings);
        if !matcher.accept(token).unwrap() {
            return false;
        }
        at += space.vocabulary().text(token).unwrap().len();
    }
    matcher.is_accepting()
}

pub(crate) fn spec(format: &str) -> Spec {
    Spec::structural_tag(format!(r#"{{"type":"structural_tag","format":{format}}}"#))
}

/// Checks that a tag takes some texts and no others.
pub(crate) fn check_tag(tag: &str, taken: &[&str], refused: &[&str]) {
    let space = bytes();
    let compiled = Compiler::new(Arc::clone(&space))
        .compile(&spec(tag))
        .unwrap_or_else(|error| panic!("{tag}: {error}"));
    let (mut matcher, mut random) = (compiled.matcher(), Random::new(1));
    for (texts, expected) in [(taken, true), (refused, false)] {
        for text in texts {
            assert_eq!(accepts(&mut random, &space, &mut matcher, text), expected, "{tag}: {text:?}");
        }
    }
}
