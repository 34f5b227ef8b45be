//! References between documents follow RFC 3986, and each document has its own draft.

use crate::common::Bytes;
use unskew_grammar::Fate;
use unskew_schema::{Registry, SchemaError, SchemaLimits, SchemaOptions, Whitespace, explain, grammar};

fn registry() -> Registry {
    let mut registry = Registry::new();
    for (name, text) in [
        ("size.json", r#"{"type": "integer"}"#),
        ("list.json", r##"{"items": {"$ref": "deep/tree.json"}, "$defs": {"x/y": {"const": 5}}}"##),
        ("deep/tree.json", r##"{"type": ["null", "array"], "items": {"$ref": "#"}}"##),
        ("person.json", r#"{"$id": "https://example.org/a/person", "properties": {"n": {"$ref": "name"}}}"#),
        (
            "name.json",
            r#"{"$id": "https://example.org/a/name", "type": "string", "maxLength": 1, "$anchor": "top"}"#,
        ),
        // In this draft a `$ref` hides all other keywords, and `items` may be a list.
        (
            "old.json",
            r##"{"$schema": "http://json-schema.org/draft-04/schema#", "id": "https://example.org/old",
                "definitions": {"i": {"type": "integer"}}, "items": [{"$ref": "#/definitions/i", "minimum": 5}]}"##,
        ),
        ("loop-a.json", r#"{"$ref": "loop-b.json"}"#),
        ("loop-b.json", r#"{"$ref": "loop-a.json"}"#),
        ("wrong.json", r#"{"items": {"type": 1}}"#),
        ("lost.json", r#"{"properties": {"a": {"$ref": "https://example.org/nowhere#/x"}}}"#),
    ] {
        registry.insert(name, text).unwrap();
    }
    registry
}

fn options() -> SchemaOptions {
    let mut options = SchemaOptions::default();
    (options.registry, options.whitespace) = (registry(), Whitespace::Compact);
    options
}

#[test]
fn supplied_documents_are_followed() {
    let bytes = Bytes::new();
    for (schema, valid, invalid) in [
        (r#"{"$ref": "size.json"}"#, &["1"][..], &[r#""a""#, "1.5"][..]),
        (r#"{"$ref": "list.json"}"#, &["[null,[[]]]", "1"], &["[1]", "[[1]]"]),
        (r##"{"$ref": "list.json#/$defs/x~1y"}"##, &["5"], &["6"]),
        (r#"{"$ref": "https://example.org/a/person"}"#, &[r#"{"n":"a"}"#], &[r#"{"n":"ab"}"#, r#"{"n":1}"#]),
        (r#"{"$ref": "person.json"}"#, &[r#"{"n":"a"}"#], &[r#"{"n":"ab"}"#]),
        // Both names of one document.
        (
            r#"{"items": {"anyOf": [{"$ref": "https://example.org/a/name"}, {"allOf": [{"$ref": "name.json"}]}]}}"#,
            &[r#"["a"]"#],
            &[r#"["ab"]"#],
        ),
        (r#"{"$id": "https://example.org/a/b", "$ref": "name#top"}"#, &[r#""a""#], &[r#""ab""#]),
        (r#"{"$id": "https://example.org/a/b/c", "$ref": "../name#"}"#, &[r#""a""#], &[r#""ab""#]),
        (
            r#"{"$ref": "https://example.org/old", "minItems": 1}"#,
            &["[4]", r#"[4,"a"]"#],
            &[r#"["a"]"#, "[]"],
        ),
        // A schema inside the document takes precedence.
        (r#"{"$defs": {"s": {"$id": "size.json", "const": 7}}, "$ref": "size.json"}"#, &["7"], &["8"]),
    ] {
        let compiled =
            bytes.compile_with(schema, &options()).unwrap_or_else(|error| panic!("{schema}: {error}"));
        for text in valid {
            assert!(compiled.accepts(text), "{schema} {text}");
        }
        for text in invalid {
            assert!(!compiled.accepts(text), "{schema} {text}");
        }
    }
}

#[test]
fn what_is_not_supplied_is_an_error_that_names_it() {
    for (schema, options, pointer, keyword, message) in [
        (r#"{"$ref": "other.json"}"#, options(), "#", "$ref", "unskew:///other.json"),
        (r#"{"$ref": "size.json"}"#, SchemaOptions::default(), "#", "$ref", "not supplied"),
        (
            r#"{"$ref": "lost.json"}"#,
            options(),
            "unskew:///lost.json#/properties/a",
            "$ref",
            "https://example.org/nowhere#/x",
        ),
        (r#"{"$ref": "wrong.json"}"#, options(), "unskew:///wrong.json#/items", "type", "type"),
        (r##"{"$ref": "size.json#/nothing"}"##, options(), "#", "$ref", "does not exist"),
        (
            r#"{"$ref": "http://json-schema.org/draft-07/schema#"}"#,
            options(),
            "#",
            "$ref",
            "http://json-schema.org/draft-07/schema",
        ),
    ] {
        let error = grammar(schema, &options, &SchemaLimits::default()).unwrap_err();
        assert_eq!((error.pointer(), error.keyword()), (Some(pointer), Some(keyword)), "{schema}: {error}");
        assert!(error.to_string().contains(message), "{schema}: {error}");
        let fates = explain(schema, &options, &SchemaLimits::default());
        assert!(
            fates.iter().any(|one| one.pointer == pointer && one.fate == Fate::Rejected),
            "{schema}: {fates:?}"
        );
    }
    let cycle = grammar(r#"{"$ref": "loop-a.json"}"#, &options(), &SchemaLimits::default());
    assert!(!matches!(cycle, Err(SchemaError::Json { .. })), "{cycle:?}");
}

#[test]
fn all_documents_together_have_one_limit() {
    let mut options = SchemaOptions::default();
    options.registry.insert("big.json", &format!(r#"{{"description": "{}"}}"#, "x".repeat(1_000))).unwrap();
    let mut limits = SchemaLimits::default();
    limits.schema_bytes = 1_000;
    let error = grammar(r#"{"$ref": "big.json"}"#, &options, &limits).unwrap_err();
    assert!(matches!(error, SchemaError::Limit { limit: 1_000, .. }), "{error}");
    assert!(grammar(r#"{"$comment": "big.json"}"#, &options, &limits).is_ok());
    assert!(matches!(options.registry.insert("broken.json", "{"), Err(SchemaError::Json { .. })));
}
