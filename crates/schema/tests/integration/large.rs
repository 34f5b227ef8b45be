//! Large bounds, lists and conditions that users bring: each compiles within the limits, and accepts and refuses what
//! it should.

use crate::common::{Bytes, judged};
use serde_json::{Value, json};
use unskew_grammar::Fate;
use unskew_schema::{MemberOrder, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};

fn both(schema: &Value, yes: &[Value], no: &[Value]) {
    check(schema, &[MemberOrder::Declared, MemberOrder::Any], yes, no);
}

fn check(schema: &Value, orders: &[MemberOrder], yes: &[Value], no: &[Value]) {
    let schema = schema.to_string();
    for order in orders.iter().copied() {
        let mut options = SchemaOptions::default();
        (options.whitespace, options.order) = (Whitespace::Compact, order);
        let compiled = Bytes::new().compile_with(&schema, &options).unwrap_or_else(|error| panic!("{error}"));
        for (values, accepted) in [(yes, true), (no, false)] {
            for value in values {
                let text = value.to_string();
                let short: String = text.chars().take(80).collect();
                // The judge does not read patterns with large bounds.
                if let Some(judged) = judged(&schema, &text) {
                    assert_eq!(judged, accepted, "the judge on {short}");
                }
                assert_eq!(compiled.accepts(&text), accepted, "{short} {order:?}");
            }
        }
    }
}

#[test]
fn factors_of_many_digits() {
    both(
        &json!({"type": "integer", "multipleOf": 12345}),
        &[json!(0), json!(-12345), json!(1_234_500)],
        &[json!(12346), json!(6172)],
    );
    both(
        &json!({"type": "integer", "multipleOf": 65536}),
        &[json!(65536), json!(655_360)],
        &[json!(65535), json!(32768)],
    );
    both(
        &json!({"type": "integer", "multipleOf": 100_000, "minimum": 1}),
        &[json!(100_000), json!(12_300_000)],
        &[json!(0), json!(10_000), json!(100_001)],
    );
}

#[test]
fn eight_independent_conditions() {
    let one = |number: usize| {
        let (kind, part) = (format!("k{number}"), format!("k{number}r"));
        json!({
            "if": {"properties": {&kind: {"const": "x"}}, "required": [&kind]},
            "then": {"properties": {&part: {"type": "integer"}}, "required": [&part]},
        })
    };
    let schema = |count: usize| {
        let all: Vec<Value> = (0..count).map(one).collect();
        json!({"type": "object", "allOf": all})
    };
    let yes = [json!({}), json!({"k0": "x", "k0r": 1}), json!({"k3": "y"}), json!({"k3": "y", "k3r": "z"})];
    let no = [json!({"k0": "x"}), json!({"k0": "x", "k0r": "z"}), json!({"k1": "x", "k6": "x", "k1r": 5})];
    both(&schema(8), &yes, &no);
    let all = json!({"k1": "x", "k6": "x", "k1r": 5, "k6r": 6});
    both(&schema(8), &[all], &[]);
}

/// Without `$schema` a list in `items` is that of the drafts up to 2019-09.
#[test]
fn lists_in_items_without_a_draft() {
    let lists =
        json!({"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": {"type": "null"}});
    both(
        &json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "allOf": [lists]}),
        &[json!([1, "a", null])],
        &[json!([1, 1])],
    );
    let compiled = |schema: &Value| Bytes::new().compile(&schema.to_string(), Whitespace::Compact);
    let lists = json!({"type": "object", "properties": {"a": lists}, "additionalProperties": false});
    let read = compiled(&lists).unwrap();
    for (text, accepted) in [
        (r#"{"a":[1,"a",null]}"#, true),
        (r#"{"a":[]}"#, true),
        (r#"{"a":[1,1]}"#, false),
        (r#"{"a":[1,"a",1]}"#, false),
    ] {
        assert_eq!(read.accepts(text), accepted, "{text}");
    }
    // A keyword of the newest draft, or its name, says that the list is an error.
    let newest = "https://json-schema.org/draft/2020-12/schema";
    for schema in [
        json!({"$schema": newest, "items": [true]}),
        json!({"items": [true], "not": {"prefixItems": [true]}}),
    ] {
        let error = compiled(&schema).err().unwrap().to_string();
        assert!(error.contains("`items` must be a schema in draft 2020-12"), "{error}");
    }
    // A list in data is no list of schemas.
    assert!(compiled(&json!({"const": {"items": [1]}})).unwrap().accepts(r#"{"items":[1]}"#));
}

#[test]
fn bounds_of_a_hundred_thousand_items() {
    let items = |count: usize| Value::from(vec![json!(1); count]);
    both(
        &json!({"type": "array", "items": {"type": "integer"}, "maxItems": 100_000}),
        &[items(0), items(1), items(5_000)],
        &[json!(["a"])],
    );
    both(
        &json!({"type": "array", "items": {"type": "integer"}, "minItems": 4_998, "maxItems": 5_000}),
        &[items(4_998), items(5_000)],
        &[items(4_997), items(5_001), items(0)],
    );
}

/// The bound of a length is exact on both sides, with characters of several bytes and spellings.
#[test]
fn patterns_of_long_texts() {
    let text = |unit: &str, count: usize| json!(unit.repeat(count));
    both(
        &json!({"type": "string", "pattern": r"^\p{L}{1,2000}$"}),
        &[text("é", 2_000), text("a", 1)],
        &[text("é", 2_001), text("1", 1), json!("")],
    );
    both(
        &json!({"type": "string", "pattern": r"\p{L}{1,2000}"}),
        &[json!("12é3"), text("é", 3_000)],
        &[json!("123")],
    );
    let words = r"^(?:\S+\s+){0,9}\S+$";
    both(
        &json!({"type": "string", "pattern": words, "maxLength": 300}),
        &[
            text("é", 300),
            json!(format!("{}{}", "é ".repeat(9), "😀".repeat(282))),
            json!("a b"),
            json!("\"\n\\"),
        ],
        &[
            text("é", 301),
            text("a ", 9),
            text("a a", 10),
            json!(format!("{}{}", "é ".repeat(9), "😀".repeat(283))),
        ],
    );
    both(
        &json!({"type": "string", "pattern": "^data:[a-z]*;[0-9a-zA-Z+/=]*$", "minLength": 9, "maxLength": 32_767}),
        &[json!(format!("data:a;{}", "A".repeat(32_760))), json!("data:;abc")],
        &[json!(format!("data:a;{}", "A".repeat(32_761))), json!("data:;ab")],
    );
    // A length that the pattern cannot reach has no text, and another type is left.
    both(
        &json!({"type": ["string", "null"], "pattern": "^(abcdefgh){9,}$", "maxLength": 71}),
        &[json!(null)],
        &[text("abcdefgh", 9)],
    );
}

#[test]
fn lists_of_long_texts() {
    let long = |number: u64| {
        let word =
            |place: u64| format!("word{:x}", (number * 31 + place).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        json!((0..20).map(word).collect::<Vec<_>>().join(" "))
    };
    let all: Vec<Value> = (0..300).map(long).collect();
    both(&json!({"enum": all}), &[long(0), long(299)], &[long(300), json!("word")]);
    both(
        &json!({"type": "array", "items": {"enum": all}, "uniqueItems": true}),
        &[json!([long(1), long(0)])],
        &[json!([long(1), long(0), long(1)])],
    );
}

/// The grammar of a length does not grow with it.
#[test]
fn memory_does_not_grow_with_a_length() {
    let size = |length: u32| {
        let schema =
            json!({"type": "string", "pattern": "^[a-z]+( [a-z]+)*$", "maxLength": length}).to_string();
        grammar(&schema, &SchemaOptions::default(), &SchemaLimits::default()).unwrap().size()
    };
    assert_eq!(size(3_000), size(3_000_000));
    assert!(size(3_000).states < 100);
}

/// A trial compiles the whole schema without a keyword. Where the trials would reach a few keywords only, all have one
/// answer, and it takes no longer than that of a compilation and a trial.
#[test]
fn explaining_does_not_try_the_first_keywords_of_a_large_schema() {
    let schema = |records: usize| {
        let record = |number: usize| {
            let names = [format!("a{number}"), format!("b{number}")];
            let name = json!({"type": "string", "enum": names, "minLength": 1});
            json!({"type": "object", "properties": {"name": name}, "additionalProperties": false})
        };
        json!({"type": "array", "prefixItems": (0..records).map(record).collect::<Vec<_>>()}).to_string()
    };
    let of_lengths = |records: usize| {
        let fates = explain(&schema(records), &SchemaOptions::default(), &SchemaLimits::default());
        let fates = fates.into_iter().filter(|fate| fate.keyword == "minLength");
        fates.map(|fate| (fate.fate, fate.why)).collect::<Vec<_>>()
    };
    let small = of_lengths(10);
    assert!(small.len() == 10 && small.iter().all(|(fate, _)| *fate == Fate::Annotation), "{small:?}");
    let large = of_lengths(2000);
    assert!(
        large.len() == 2000
            && large.iter().all(|(fate, why)| *fate == Fate::Enforced && why.contains("not known"))
    );
}
