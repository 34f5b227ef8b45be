//! A vocabulary that lacks the bytes that SmolLM2's lacks: constraints of every kind are those of what is left.

use std::sync::Arc;

use unskew_core::{TokenId, Vocabulary};
use unskew_engine::{Compiler, Matcher, MatcherOptions, Spec, TokenSpace};

/// Bytes that are no tokens of SmolLM2.
fn is_missing(byte: u8) -> bool {
    matches!(byte, 4 | 6 | 0x13 | 0x14 | 0x16 | 0x1d | 0xc0 | 0xc1 | 0xf1 | 0xf2 | 0xf5..)
}

fn compiler() -> (Compiler, Vec<u8>) {
    let mut builder = Vocabulary::builder();
    let bytes: Vec<u8> = (0..=u8::MAX).filter(|byte| !is_missing(*byte)).collect();
    bytes.iter().for_each(|byte| _ = builder.text(&[*byte]));
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    (Compiler::new(TokenSpace::from_vocabulary(Arc::new(builder.build().unwrap()))), bytes)
}

#[test]
fn constraints_of_each_kind_are_those_of_what_is_left() {
    let (compiler, bytes) = compiler();
    let accepts = |spec: &Spec, text: &str| {
        let compiled = compiler.compile(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        let mut matcher = Matcher::new(&compiled, MatcherOptions::default()).unwrap();
        let id = |byte| bytes.iter().position(|other| *other == byte).map(TokenId::from_index);
        let ids: Option<Vec<TokenId>> = text.bytes().map(id).collect();
        ids.is_some_and(|ids| ids.into_iter().all(|id| matcher.accept(id).unwrap())) && matcher.is_accepting()
    };
    let record =
        r#"{"type": "object", "properties": {"name": {"type": "string"}, "tag": {"const": "a\u0004"}}}"#;
    let lark = |text: &str| {
        let spec = serde_json::json!({"grammar": text, "grammar_format": "lark"});
        Spec::from_json(&spec.to_string()).unwrap()
    };
    let tag = r#"{"type":"structural_tag","format":{"type":"json_schema","json_schema":{"type":"string"}}}"#;
    for (spec, text, left_out) in [
        (Spec::json_schema(record), "{\"name\": \"Jos\u{e9} \u{1f600}\"}", true),
        (Spec::json_schema("{}"), "[\"\\ud8c0\\udc00\"]", true),
        (Spec::structural_tag(tag), "\"x\"", true),
        (lark("start: /[^x]+/"), "y\u{e9}", true),
        (lark("start: \"a\" | \"\u{40000}\""), "a", true),
        (Spec::regex("[^x]+"), "y\u{e9}", true),
        (Spec::choices(["a", "\u{40000}"]), "a", true),
        (Spec::regex("[a-z]+"), "abc", false),
        (Spec::json_schema(r#"{"enum": ["a", 1]}"#), "\"a\"", false),
        // A value that no bytes write is written by its escapes.
        (Spec::json_schema("{\"const\": \"\u{40000}\"}"), "\"\\ud8c0\\udc00\"", true),
    ] {
        assert!(accepts(&spec, text), "{spec}: {text}");
        assert!(!accepts(&spec, "\u{40000}"), "{spec}");
        let found = compiler.compile(&spec).unwrap().left_out();
        assert_eq!(found.is_some(), left_out, "{spec}: {found:?}");
    }
    let refused = compiler.compile(&lark("start: \"a\" \"\u{40000}\"")).unwrap_err().to_string();
    assert!(refused.contains("U+40000"), "{refused}");
}
