//! Outputs of the embedded model under thirty schemas: the crate `jsonschema` finds all of them valid.
//!
//! A debug build draws few outputs of each (`UNSKEW_DRAWS` says how many), with masks alone; a release build draws 50
//! with the sampler that is chosen by default.

use crate::support::Files;
use serde_json::Value;

const SCHEMAS: [(&str, &str); 30] = [
    ("boolean", r#"{"type": "boolean"}"#),
    ("null or a short text", r#"{"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3}]}"#),
    ("an integer within bounds", r#"{"type": "integer", "minimum": -20, "exclusiveMaximum": 305}"#),
    ("a decimal within bounds", r#"{"type": "number", "minimum": 0.125, "maximum": 9.75}"#),
    ("multiples", r#"{"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 1000}"#),
    ("decimal multiples", r#"{"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 4}"#),
    ("texts", r#"{"enum": ["red", "green", "blue", "bluish"]}"#),
    ("values of all types", r#"{"enum": [null, true, 1.5, "x", [1, {"a": "b"}], {"k": [], "l": null}]}"#),
    ("a pattern", r#"{"type": "string", "pattern": "^[A-Z][a-z]{2,5}(-[0-9]{1,3})?$"}"#),
    (
        "a pattern anywhere, and a length",
        r#"{"type": "string", "pattern": "ab|ba", "minLength": 2, "maxLength": 6}"#,
    ),
    ("a date", r#"{"type": "string", "format": "date"}"#),
    ("a date with its time", r#"{"type": "string", "format": "date-time", "maxLength": 25}"#),
    ("an address of the network", r#"{"type": "string", "format": "ipv4"}"#),
    ("a unique id", r#"{"type": "string", "format": "uuid"}"#),
    ("an e-mail address", r#"{"type": "string", "format": "email", "maxLength": 20}"#),
    ("a time of day", r#"{"type": "string", "format": "time", "maxLength": 12}"#),
    (
        "a person",
        r#"{"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 8},
            "age": {"type": "integer", "minimum": 0, "maximum": 130}, "married": {"type": "boolean"}},
            "required": ["name", "age"], "additionalProperties": false}"#,
    ),
    (
        "optional members, counted",
        r#"{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}, "d": {"const": 4}},
            "additionalProperties": false, "minProperties": 2, "maxProperties": 3}"#,
    ),
    (
        "names by a pattern",
        r#"{"type": "object", "patternProperties": {"^n[0-9]$": {"type": "integer", "minimum": 0, "maximum": 9}},
            "additionalProperties": false, "maxProperties": 3}"#,
    ),
    (
        "a tuple",
        r#"{"type": "array", "prefixItems": [{"enum": ["x", "y"]}, {"type": "integer", "minimum": 0, "maximum": 99}],
            "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4}"#,
    ),
    (
        "nested lists",
        r#"{"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 6},
            "minItems": 1, "maxItems": 3}, "minItems": 1, "maxItems": 3}"#,
    ),
    ("a list that refers to itself", r##"{"type": "array", "items": {"$ref": "#"}, "maxItems": 2}"##),
    (
        "a tree",
        r##"{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
            "v": {"type": "integer", "minimum": 0, "maximum": 9},
            "l": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["v", "l"],
            "additionalProperties": false}}}"##,
    ),
    (
        "terms",
        r##"{"oneOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"type": "array", "prefixItems": [
            {"enum": ["+", "*"]}, {"$ref": "#"}, {"$ref": "#"}], "items": false, "minItems": 3}]}"##,
    ),
    (
        "one of two kinds",
        r#"{"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "integer", "minimum": 1,
            "maximum": 50}}, "required": ["kind", "r"], "additionalProperties": false},
            {"type": "object", "properties": {"kind": {"const": "box"}, "w": {"type": "integer", "minimum": 1, "maximum": 50}},
            "required": ["kind", "w"], "additionalProperties": false}]}"#,
    ),
    (
        "exactly one of two patterns",
        r#"{"type": "string", "oneOf": [{"pattern": "^[a-c]{2,4}$"}, {"pattern": "^b"}], "maxLength": 6}"#,
    ),
    ("not", r#"{"type": "string", "pattern": "^[a-d]{1,4}$", "not": {"pattern": "aa|bb|^d"}}"#),
    (
        "if and then",
        r#"{"type": "object", "properties": {"paid": {"type": "boolean"}, "sum": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["paid"], "additionalProperties": false,
            "if": {"properties": {"paid": {"const": true}}}, "then": {"required": ["sum"]}}"#,
    ),
    (
        "all of several",
        r#"{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"a": {"minimum": 10, "maximum": 20}, "b": {"type": "boolean"}}, "additionalProperties": false}]}"#,
    ),
    (
        "draft 4",
        r#"{"$schema": "http://json-schema.org/draft-04/schema#", "type": "array",
            "items": [{"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 5}, {"enum": ["a", "b"]}],
            "additionalItems": false, "minItems": 1}"#,
    ),
];

#[test]
fn outputs_are_valid() {
    let count = std::env::var("UNSKEW_DRAWS").ok().and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(if cfg!(debug_assertions) { 4 } else { 50 });
    let options: &[&str] = if cfg!(debug_assertions) { &["--sampler", "masked"] } else { &[] };
    let shown = count.to_string();
    let mut finished = 0;
    for (index, (name, schema)) in SCHEMAS.into_iter().enumerate() {
        let files = Files::new(&[("schema.json", schema.as_bytes())]);
        let seed = index.to_string();
        let args =
            ["generate", "--json-schema", "schema.json", "-n", &shown, "--seed", &seed, "--format", "json"];
        let lines = files.run(&[&args[..], options].concat()).json();
        assert_eq!(lines.len(), count, "{name}");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let judge = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for line in lines {
            let text = line["text"].as_str().unwrap();
            // Masks alone do not keep an output within its length; the other samplers do.
            if line["finish"] != "stop" && cfg!(debug_assertions) {
                continue;
            }
            assert_eq!(line["finish"], "stop", "{name}: {text}");
            let value: Value =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
            assert!(judge.is_valid(&value), "{name}: {text}");
            finished += 1;
        }
    }
    assert!(finished * 10 > SCHEMAS.len() * count * 9, "{finished}");
}
