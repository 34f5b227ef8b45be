//! Refusals in the words of the user: the pointer, the keywords with their values, and what to write.

use unskew_grammar::Fate;
use unskew_schema::{Draft, SchemaLimits, SchemaOptions, explain, grammar, notes};

use crate::common::Bytes;

fn refusal(schema: &str) -> String {
    grammar(schema, &SchemaOptions::default(), &SchemaLimits::default()).expect_err(schema).to_string()
}

#[test]
fn a_schema_without_values_names_the_keywords_that_exclude_each_other() {
    for (schema, message) in [
        (
            r#"{"type": "object", "required": ["a"], "properties": {"a": {"minimum": 5, "maximum": 3, "type": "integer"}}}"#,
            "#/properties/a: no value satisfies `minimum` 5, `maximum` 3 and `type` \"integer\"",
        ),
        (
            r#"{"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer", "enum": ["x"]}, "b": true}}"#,
            "#/properties/a: no value satisfies `enum` [\"x\"] and `type` \"integer\"",
        ),
        (
            r#"{"type": "object", "required": ["x"], "properties": {"x": {"enum": []}}}"#,
            "#/properties/x: no value satisfies `enum` []",
        ),
        (
            r##"{"$defs": {"e": {"enum": []}}, "type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/e"}}}"##,
            "#/$defs/e: no value satisfies `enum` []",
        ),
        (
            r#"{"type": "object", "required": ["x"], "properties": {"x": false}}"#,
            "#/properties/x: no value satisfies `false`",
        ),
        (
            r#"{"type": "array", "minItems": 2, "maxItems": 1}"#,
            "#: no value satisfies `minItems` 2, `maxItems` 1 and `type` \"array\"",
        ),
    ] {
        assert_eq!(refusal(schema), message, "{schema}");
        let rows = explain(schema, &SchemaOptions::default(), &SchemaLimits::default());
        let rejected: Vec<_> = rows.iter().filter(|row| row.fate == Fate::Rejected).collect();
        assert!(rejected.len() == 1 && rejected[0].why == message, "{rows:?}");
    }
    let endless = r##"{"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}"##;
    assert!(refusal(endless).contains("`$ref` at #/properties/next leads back"), "{}", refusal(endless));
    let two =
        r#"{"type": "object", "required": ["a", "b"], "properties": {"a": {"enum": []}, "b": {"enum": []}}}"#;
    assert!(refusal(two).ends_with("no value satisfies `enum` []"), "{}", refusal(two));
}

#[test]
fn refusals_say_what_to_write() {
    for (schema, part) in [
        (
            r#"{"exclusiveMinimum": true, "minimum": 0}"#,
            "write \"exclusiveMinimum\": 0 in place of both, or name the draft",
        ),
        (r#"{"exclusiveMaximum": false}"#, "leave it out"),
        (
            r#"{"type": "str"}"#,
            "has \"str\", which is no type: the types are null, boolean, integer, number, string, array and object; write \"string\"",
        ),
        (r#"{"type": "float"}"#, "write \"number\""),
        (r#"{"type": ["OBJECT"]}"#, "write \"object\""),
        (r#"{"type": "any"}"#, "has \"any\", which is no type"),
        (r#"{"required": null}"#, "is null: leave it out"),
        (
            r#"{"properties": {"a": {"required": true}}}"#,
            "list the required members in the object around them",
        ),
        (r#"{"$defs": {"X": true}, "properties": {"a": {"$ref": "/$defs/X"}}}"#, "\"#/$defs/X\""),
        (
            r##"{"$defs": {"X": true}, "properties": {"a": {"$ref": "#$defs/X"}}}"##,
            "write `#/` in place of `#`",
        ),
        (
            r#"{"$defs": {"X": {"$id": "T0", "const": 1}, "Y": {"$id": "T0", "const": 2}}, "$ref": "T0"}"#,
            "two schemas have this name",
        ),
    ] {
        assert!(refusal(schema).contains(part), "{schema}: {}", refusal(schema));
    }
}

#[test]
fn limits_say_what_is_enough_for_the_whole_schema() {
    let schema = r#"{"properties": {"a": {"maxLength": 60000000}, "b": {"maxLength": 70000000}}}"#;
    assert!(refusal(schema).contains("raise `SchemaLimits::characters` to 70000000"), "{}", refusal(schema));
    let mut limits = SchemaLimits::default();
    limits.characters = 70_000_000;
    assert!(grammar(schema, &SchemaOptions::default(), &limits).is_ok());
    limits.schema_bytes = 10;
    let error = grammar(schema, &SchemaOptions::default(), &limits).unwrap_err().to_string();
    assert!(error.contains(&format!("`SchemaLimits::schema_bytes` to {}", schema.len())), "{error}");
}

#[test]
fn objects_around_a_schema_are_read_or_refused() {
    let (options, limits) = (SchemaOptions::default(), SchemaLimits::default());
    let inner = r##"{"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}"##;
    for (text, name) in [
        (format!(r#"{{"name": "x", "strict": true, "schema": {inner}}}"#), "response format of OpenAI"),
        (
            format!(r#"{{"type": "json_schema", "json_schema": {{"name": "x", "schema": {inner}}}}}"#),
            "response format of OpenAI",
        ),
        (
            format!(r#"{{"type": "json_schema", "name": "x", "schema": {inner}}}"#),
            "response format of OpenAI",
        ),
        (
            format!(r#"{{"type": "function", "function": {{"name": "x", "parameters": {inner}}}}}"#),
            "tool of OpenAI",
        ),
        (format!(r#"{{"name": "x", "description": "d", "parameters": {inner}}}"#), "tool of OpenAI"),
        (format!(r#"{{"name": "x", "input_schema": {inner}}}"#), "tool of Anthropic"),
        (
            format!(r#"{{"name": "x", "title": "t", "inputSchema": {inner}, "annotations": {{}}}}"#),
            "tool of MCP",
        ),
    ] {
        let compiled = Bytes::new().compile_with(&text, &options).expect(&text);
        assert!(
            compiled.accepts(r#"{"a":1}"#) && !compiled.accepts(r#"{"a":""}"#) && !compiled.accepts("1"),
            "{text}"
        );
        let notes = notes(&text, &options, &limits);
        assert!(notes.len() == 1 && notes[0].contains(name), "{text}: {notes:?}");
        assert!(explain(&text, &options, &limits).iter().any(|row| row.why == notes[0]), "{text}");
    }
    for (text, pointer) in [
        (format!(r#"{{"name": "x", "version": 2, "schema": {inner}}}"#), "`#/schema`"),
        (format!(r#"{{"parameters": {inner}}}"#), "`#/parameters`"),
        (format!(r#"{{"function": {{"parameters": {inner}, "y": 1}}}}"#), "`#/function/parameters`"),
    ] {
        assert!(refusal(&text).contains(pointer), "{text}: {}", refusal(&text));
    }
    // Keywords that constrain make it a schema, whatever else stands beside them.
    for text in [
        r#"{"type": "object", "parameters": {"type": "string"}}"#,
        r#"{"properties": {"schema": {"type": "string"}}}"#,
    ] {
        assert!(
            grammar(text, &options, &limits).is_ok() && notes(text, &options, &limits).is_empty(),
            "{text}"
        );
    }
}

#[test]
fn a_schema_that_constrains_nothing_is_noted() {
    let notes = |text: &str| notes(text, &SchemaOptions::default(), &SchemaLimits::default());
    for text in [
        r#"{"title": "x"}"#,
        r#"{"typ": "string"}"#,
        r#"{"$defs": {"a": {"type": "string"}}}"#,
        r#"{"nullable": true}"#,
    ] {
        assert!(notes(text).len() == 1 && notes(text)[0].contains("any JSON is accepted"), "{text}");
    }
    for text in
        ["{}", "true", "false", r#"{"type": "string"}"#, r#"{"properties": {}}"#, r#"{"format": "date"}"#]
    {
        assert_eq!(notes(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn openapi_is_a_dialect() {
    let limits = SchemaLimits::default();
    let schema = r#"{"type": "integer", "nullable": true, "minimum": 0, "exclusiveMinimum": true, "discriminator": {"propertyName": "a"}, "example": 3}"#;
    let mut options = SchemaOptions::default();
    assert!(grammar(schema, &options, &limits).is_err());
    options.dialect = Some(Draft::OpenApi30);
    let named =
        schema.replacen('{', r#"{"$schema": "https://spec.openapis.org/oas/3.0/schema/2021-09-28", "#, 1);
    for (schema, options) in [(schema, &options), (&named, &SchemaOptions::default())] {
        let compiled = Bytes::new().compile_with(schema, options).unwrap();
        assert!(compiled.accepts("1") && compiled.accepts("null"), "{schema}");
        assert!(!compiled.accepts("0") && !compiled.accepts("\"\""), "{schema}");
        let fate = |keyword: &str| {
            let rows = explain(schema, options, &limits);
            rows.into_iter().find(|row| row.keyword == keyword).map(|row| row.fate)
        };
        for (keyword, expected) in [
            ("nullable", Fate::Enforced),
            ("exclusiveMinimum", Fate::Enforced),
            ("discriminator", Fate::Annotation),
            ("example", Fate::Annotation),
        ] {
            assert_eq!(fate(keyword), Some(expected), "{keyword} of {schema}");
        }
    }
    // Without a `type`, `nullable` adds nothing (OpenAPI 3.0.3, 4.7.24.1).
    let compiled = Bytes::new().compile_with(r#"{"nullable": true, "enum": [1]}"#, &options).unwrap();
    assert!(!compiled.accepts("null"));
    let newer = r#"{"$schema": "https://spec.openapis.org/oas/3.1/dialect/base", "type": ["integer", "null"], "exclusiveMinimum": 0}"#;
    assert!(grammar(newer, &SchemaOptions::default(), &limits).is_ok());
    let rows = explain(r#"{"type": "string", "nullable": true}"#, &SchemaOptions::default(), &limits);
    assert!(rows.iter().any(|row| row.keyword == "nullable" && row.why.contains("\"null\"]")), "{rows:?}");
    for name in ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12", "openapi-3.0"] {
        assert_eq!(name.parse::<Draft>().unwrap().to_string(), name);
    }
    assert_eq!("openapi-3.1".parse(), Ok(Draft::Draft202012));
}

#[test]
fn equal_resources_of_one_name_are_one() {
    let schema = r#"{"properties": {"a": {"$id": "T0", "const": 1}, "b": {"$id": "T0", "const": 1}, "c": {"$ref": "T0"}}}"#;
    let compiled = Bytes::new().compile_with(schema, &SchemaOptions::default()).unwrap();
    assert!(compiled.accepts(r#"{"a":1,"b":1,"c":1}"#) && !compiled.accepts(r#"{"c":2}"#));
}

#[test]
fn explain_says_where_null_is_lost() {
    let rows = explain(
        r#"{"type": ["string", "null"], "enum": ["a"]}"#,
        &SchemaOptions::default(),
        &SchemaLimits::default(),
    );
    assert!(
        rows.iter().any(|row| row.keyword == "type" && row.why.contains("null is never written")),
        "{rows:?}"
    );
}
