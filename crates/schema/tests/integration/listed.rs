//! The texts that `enum` lists: each is written as if it were the only one, and long lists compile.

use crate::common::Bytes;
use proptest::prelude::*;
use serde_json::json;
use unskew_schema::{SchemaLimits, SchemaOptions, Whitespace};

/// Spellings of a text as JSON: as it is, and with one character, all of them or those beyond ASCII as escapes.
fn spellings(text: &str) -> Vec<String> {
    let escaped = |char: char, upper: bool| {
        let units = char.encode_utf16(&mut [0; 2]).to_vec();
        let unit = |unit: &u16| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
        units.iter().map(unit).collect::<String>()
    };
    let raw = |char: char| {
        let text = json!(char.to_string()).to_string();
        text[1..text.len() - 1].to_owned()
    };
    let count = text.chars().count();
    let mut all = vec![];
    for upper in [false, true] {
        for at in 0..=count + 1 {
            for beyond in [false, true] {
                let is_escaped = |index, char: char| index == at || at == count || beyond && !char.is_ascii();
                let spelled = text.chars().enumerate().map(|(index, char)| match is_escaped(index, char) {
                    true => escaped(char, upper),
                    false => raw(char),
                });
                all.push(format!("\"{}\"", spelled.collect::<String>()));
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(100, 400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_text_is_written_as_if_it_were_alone(
        texts in prop::collection::vec("[ab/\"\\\\\u{7f}\n\u{e9}日😀]{0,4}", 1..6),
        ascii in any::<bool>(),
    ) {
        let mut options = SchemaOptions::default();
        (options.whitespace, options.ascii) = (Whitespace::Compact, ascii);
        let bytes = Bytes::new();
        let compile = |schema: serde_json::Value| bytes.compile_with(&schema.to_string(), &options).unwrap();
        let all = compile(json!({"enum": texts}));
        for text in &texts {
            let alone = compile(json!({"const": text}));
            let mut accepted = 0;
            for spelling in spellings(text) {
                accepted += usize::from(alone.accepts(&spelling));
                prop_assert_eq!(all.accepts(&spelling), alone.accepts(&spelling), "{:?}: {}", texts, spelling);
            }
            prop_assert!(accepted > 0, "{:?}", text);
            // Printable characters of ASCII have only the escapes that they need.
            if text.bytes().any(|byte| byte == b'a') {
                prop_assert!(!alone.accepts(&json!(text).to_string().replace('a', "\\u0061")), "{:?}", text);
            }
        }
    }
}

#[test]
fn one_text_beyond_ascii_costs_no_other_text_anything() {
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Compact;
    let word = |index: u32| format!("{:08x}-entry", index.wrapping_mul(0x9E37_79B1));
    let accented: Vec<String> = (0..2_000).map(|index| format!("né{}", word(index))).collect();
    let one: Vec<String> = (0..2_000).map(word).chain(["é".to_owned()]).collect();
    let cyrillic: Vec<String> =
        (0..1_000u32).map(|index| format!("слово{}", word(index).replace(['a', 'e'], "ы"))).collect();
    for list in [accented, one, cyrillic] {
        let compiled = Bytes::new().compile_with(&json!({"enum": list}).to_string(), &options).unwrap();
        let mut accepts = compiled.reader();
        assert!(list.iter().all(|text| accepts(&json!(text).to_string())));
        assert!(!accepts("\"e\""));
    }
}

/// Lists of texts among the alternatives of a choice are one alternative, so that a hundred members with a pattern do
/// not have a hundred branches each.
#[test]
fn lists_of_texts_are_one_alternative() {
    let names: Vec<String> = (0..100).map(|number| format!("task{number}")).collect();
    let lists: Vec<_> = names.iter().map(|name| json!({"enum": [name], "description": name})).collect();
    let way = |name: &String| {
        let members = json!({"task": {"pattern": format!("^{name}$")}, "size": {"const": name}});
        json!({"properties": members, "required": ["task"]})
    };
    let ways: Vec<_> = names.iter().map(way).collect();
    let (mut options, mut limits) = (SchemaOptions::default(), SchemaLimits::default());
    options.whitespace = Whitespace::Compact;
    limits.alternatives = 2_000;
    for key in ["anyOf", "oneOf"] {
        let schema = json!({"type": "object", "properties": {"task": {key: lists}}, "anyOf": ways});
        let compiled = Bytes::new().compile_within(&schema.to_string(), &options, &limits).unwrap();
        for (text, accepted) in [
            (r#"{"task":"task7","size":"task7"}"#, true),
            (r#"{"task":"task99"}"#, true),
            (r#"{"task":"task7","size":"task8"}"#, false),
            (r#"{"task":"task100"}"#, false),
            (r#"{"task":7}"#, false),
        ] {
            assert_eq!(compiled.accepts(text), accepted, "{key}: {text}");
        }
    }
    for (schema, accepted, rejected) in [
        (
            json!({"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c", "c"]}]}),
            &["\"a\"", "\"c\""][..],
            &["\"b\""][..],
        ),
        (json!({"oneOf": [{"const": "a"}, {"const": "a"}]}), &[], &["\"a\"", "1"]),
        (
            json!({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}),
            &["\"a\"", "null"],
            &["\"c\"", "1"],
        ),
        (
            json!({"anyOf": [{"const": "a"}, {"enum": ["b", ""]}, {"minimum": 3}]}),
            &["\"\"", "3", "\"x\""],
            &["2"],
        ),
        (
            json!({"anyOf": [{"const": "a", "enum": ["b"]}, {"const": "c"}, {"enum": ["d", 1]}]}),
            &["\"c\"", "1"],
            &["\"a\""],
        ),
        (
            json!({"anyOf": [{"const": "a"}, {"const": "b"}], "not": {"const": "a"}}),
            &["\"b\""],
            &["\"a\"", "null"],
        ),
        (json!({"not": {"anyOf": [{"const": "a"}, {"const": "b"}]}}), &["\"c\"", "1"], &["\"a\"", "\"b\""]),
    ] {
        match Bytes::new().compile_with(&schema.to_string(), &options) {
            Ok(compiled) => {
                accepted.iter().for_each(|text| assert!(compiled.accepts(text), "{schema}: {text}"));
                rejected.iter().for_each(|text| assert!(!compiled.accepts(text), "{schema}: {text}"));
            }
            Err(error) => assert!(accepted.is_empty(), "{schema}: {error}"),
        }
    }
}
