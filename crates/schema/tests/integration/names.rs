//! The names that a schema does not list, beside declared names and patterns: a slow oracle asks for each name what the
//! specification says of it, and thousands of declared names compile.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use unskew_automata::{Dfa, Limits};
use unskew_schema::{MemberOrder, SchemaOptions, Whitespace};

use crate::common::{Bytes, Compiled};

const PATTERNS: [&str; 8] =
    ["^a", "b$", "^[ab]{1,3}$", "^(a|ab|é|日)$", "^.{2}$", "é", "^a?[\"\\\\]*$", "^(aa|bb)[ab]$"];

fn options(order: MemberOrder) -> SchemaOptions {
    let mut options = SchemaOptions::default();
    (options.whitespace, options.order) = (Whitespace::Compact, order);
    options
}

/// Whether `name` matches a pattern, which searches.
fn matches(pattern: &str, name: &str) -> bool {
    let whole = format!("(?s:.)*(?:{})(?s:.)*", pattern.trim_start_matches('^').trim_end_matches('$'));
    let (begins, ends) = (pattern.starts_with('^'), pattern.ends_with('$'));
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    let whole = match (begins, ends) {
        (true, true) => inner.to_owned(),
        (true, false) => format!("(?:{inner})(?s:.)*"),
        (false, true) => format!("(?s:.)*(?:{inner})"),
        (false, false) => whole,
    };
    Dfa::from_pattern(&whole, &Limits::default()).unwrap().accepts(name.as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: unskew_testdata::random_cases(60, 400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_name_has_the_values_that_its_keywords_allow(
        declared in prop::collection::btree_set("[ab\"\\\\é日]{0,3}", 0..6),
        patterns in prop::collection::btree_set(prop::sample::select(PATTERNS.to_vec()), 0..3),
        names in prop::option::of(prop::sample::select(PATTERNS.to_vec())),
        others in prop::sample::select(vec!["open", "closed", "null"]),
        asked in prop::collection::btree_set("[ab\"\\\\é日c]{0,3}", 12..24),
        any_order in any::<bool>(),
    ) {
        let mut schema = json!({
            "type": "object",
            "properties": declared.iter().map(|name| (name.clone(), json!({"type": "integer"}))).collect::<serde_json::Map<_, _>>(),
            "patternProperties": patterns.iter().map(|one| ((*one).to_owned(), json!({"type": ["integer", "string"]}))).collect::<serde_json::Map<_, _>>(),
        });
        match others {
            "closed" => schema["additionalProperties"] = json!(false),
            "null" => schema["additionalProperties"] = json!({"type": "null"}),
            _ => {}
        }
        if let Some(pattern) = names {
            schema["propertyNames"] = json!({"pattern": pattern});
        }
        let order = if any_order { MemberOrder::Any } else { MemberOrder::Declared };
        let compiled = Bytes::new().compile_with(&schema.to_string(), &options(order)).unwrap();
        let mut accepts = compiled.reader();
        let is_allowed = |name: &str, value: &Value| {
            let is_declared = declared.contains(name);
            let matched = patterns.iter().any(|pattern| matches(pattern, name));
            names.is_none_or(|pattern| matches(pattern, name))
                && (!is_declared || value.is_i64())
                && (!matched || value.is_i64() || value.is_string())
                && (is_declared || matched || match others {
                    "closed" => false,
                    "null" => value.is_null(),
                    _ => true,
                })
        };
        let mut others: Vec<&String> = vec![];
        for name in asked.iter().chain(&declared) {
            for value in [json!(1), json!("s"), json!(null)] {
                let (text, expected) = (json!({name.clone(): value}).to_string(), is_allowed(name, &value));
                prop_assert_eq!(accepts(&text), expected, "{} {}", schema, text);
            }
            if !declared.contains(name) && is_allowed(name, &json!(1)) {
                others.push(name);
            }
        }
        // No name twice, and two others if there are two.
        for pair in others.windows(2).filter(|pair| pair[0] != pair[1]) {
            let [one, two] = [pair[0], pair[1]].map(|name| json!(name).to_string());
            // Names of patterns with few of them are members with a place of their own.
            prop_assert!(!any_order || accepts(&format!("{{{one}:1,{two}:1}}")), "{} {} {}", schema, one, two);
            prop_assert!(!accepts(&format!("{{{one}:1,{one}:1}}")), "{} {}", schema, one);
        }
    }
}

/// Words with shared beginnings; `beyond` puts a letter beyond ASCII into each.
fn words(count: u32, beyond: bool) -> Vec<String> {
    let word = |index: u32| {
        let hash = index.wrapping_mul(0x9E37_79B1);
        let letter = if beyond { ["é", "ñ", "日", "ж"][hash as usize % 4] } else { "" };
        format!("{:03x}{letter}{:08x}-name", hash % 97, hash)
    };
    (0..count).map(word).collect::<BTreeSet<_>>().into_iter().collect()
}

fn declared(words: &[String]) -> Value {
    Value::Object(words.iter().map(|word| (word.clone(), json!({"type": "integer"}))).collect())
}

/// The automaton of all names but the declared ones had a state for each of their letters, and more beyond ASCII.
#[test]
fn thousands_of_declared_names_compile() {
    for (count, beyond) in [(2_000, true), (20_000, false), (20_000, true)] {
        let words = words(count, beyond);
        for more in [
            json!({}),
            json!({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": {"type": "null"}}),
        ] {
            let mut schema = json!({"type": "object", "properties": declared(&words)});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let is_open = schema.get("additionalProperties").is_none();
            for order in [MemberOrder::Declared, MemberOrder::Any] {
                let compiled = Bytes::new().compile_with(&schema.to_string(), &options(order)).unwrap();
                assert!(matches!(compiled, Compiled::Constraint(_)));
                let mut accepts = compiled.reader();
                let mut one = |name: &str, value: &str| accepts(&format!("{{{}:{value}}}", json!(name)));
                for word in [&words[0], &words[words.len() / 2]] {
                    assert!(one(word, "1") && !one(word, "null") && !one(word, "\"s\""));
                    let (longer, shorter) = (format!("{word}x"), word.trim_end_matches('e'));
                    assert!(one(&longer, "null") && one(shorter, "null"));
                    assert_eq!(one(&longer, "\"s\""), is_open);
                }
                assert_eq!(one("x-a", "null"), is_open);
                assert!(one("x-a", "\"s\"") && one("", "null"));
            }
        }
    }
}

/// Within the default limits.
#[test]
fn fifty_thousand_properties_compile() {
    let words = words(50_000, false);
    for closed in [false, true] {
        let mut schema = json!({"type": "object", "properties": declared(&words)});
        if closed {
            schema["additionalProperties"] = json!(false);
        }
        for order in [MemberOrder::Declared, MemberOrder::Any] {
            let compiled = Bytes::new().compile_with(&schema.to_string(), &options(order)).unwrap();
            let text = |word: &str| format!("{{{}:1}}", json!(word));
            assert!(compiled.accepts(&text(&words[40_000])));
            assert_eq!(compiled.accepts(&text("other")), !closed);
        }
    }
}
