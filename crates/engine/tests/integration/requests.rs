//! `response_format` and tools, as servers are sent them.

use crate::common::bytes;
use unskew_core::TokenId;
use unskew_engine::{Compiler, JsonRequest, Spec};
use unskew_schema::Whitespace;

fn accepts(spec: &Spec, text: &str) -> bool {
    let mut matcher =
        Compiler::new(bytes()).compile(spec).unwrap_or_else(|error| panic!("{spec}: {error}")).matcher();
    let tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(u32::from(byte))).collect();
    matcher.accept_all(&tokens).unwrap() == tokens.len() && matcher.is_accepting()
}

fn closed() -> JsonRequest {
    let mut request = JsonRequest::default();
    request.closed = Some(true);
    request.whitespace = Some(Whitespace::Spaced);
    request
}

#[test]
fn response_formats() {
    let request = JsonRequest::default();
    assert!(request.response_format(r#"{"type": "text"}"#).unwrap().is_unconstrained());
    let object = request.response_format(r#"{"type": "json_object"}"#).unwrap();
    assert!(accepts(&object, r#"{"a": [1]}"#) && !accepts(&object, "[1]"));
    let tag = request
        .response_format(r#"{"type":"structural_tag","format":{"type":"const_string","value":"x"}}"#)
        .unwrap();
    assert!(accepts(&tag, "x") && !accepts(&tag, "y"));
    let format = |strict: &str| {
        format!(
            r#"{{"type":"json_schema","json_schema":{{"name":"n"{strict},"schema":{{"type":"object","properties":{{"a":{{"type":"array","items":{{"type":"object","properties":{{"b":{{"const":1}}}}}}}}}},"required":["a"]}}}}}}"#
        )
    };
    let open = request.response_format(&format("")).unwrap();
    assert!(accepts(&open, r#"{"a": [{"b": 1, "c": 2}], "d": 3}"#));
    for spec in [
        request.response_format(&format(r#","strict":true"#)).unwrap(),
        closed().response_format(&format("")).unwrap(),
    ] {
        assert!(accepts(&spec, r#"{"a": [{"b": 1}, {}]}"#));
        assert!(!accepts(&spec, r#"{"a": [{"b": 1, "c": 2}]}"#) && !accepts(&spec, r#"{"a": [], "d": 3}"#));
    }
    // Separators as Python writes them, and no other white space.
    let spaced = closed().response_format(&format("")).unwrap();
    assert!(accepts(&spaced, r#"{"a": [{"b": 1}, {"b": 1}]}"#));
    assert!(!accepts(&spaced, r#"{"a":[{"b": 1}]}"#) && !accepts(&spaced, r#"{"a": [{"b": 1},{}]}"#));
    assert!(!accepts(&spaced, r#"{ "a": []}"#) && !accepts(&spaced, "{\"a\": []}\n"));
    assert_eq!(Spec::from_json(&spaced.to_json()).unwrap(), spaced);
}

#[test]
fn white_space_around_a_document() {
    let spec = Spec::from_json(r#"{"json_schema": {"type": "integer"}, "margin": 2}"#).unwrap();
    for text in ["5", " 5", "\n\t5 \r"] {
        assert!(accepts(&spec, text), "{text:?}");
    }
    for text in ["   5", "5   ", "5 5", "  "] {
        assert!(!accepts(&spec, text), "{text:?}");
    }
    let without = Spec::from_json(r#"{"json_schema": {"type": "integer"}, "margin": 0}"#).unwrap();
    assert!(accepts(&without, "5") && !accepts(&without, " 5") && !accepts(&without, "5 "));
    assert!(Spec::from_json(r#"{"json_schema": true, "margin": 1001}"#).is_err());
    assert!(Spec::from_json(r#"{"regex": "a", "margin": 1}"#).is_err());
}

#[test]
fn tools() {
    let tools = r#"[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}},{"type":"function","function":{"name":"g"}}]"#;
    let request = JsonRequest::default();
    let named = request.tools(tools, r#"{"type":"function","function":{"name":"f"}}"#).unwrap();
    assert!(accepts(&named, r#"{"x": 1}"#) && !accepts(&named, r#"{"x": 1, "y": 2}"#));
    let required = request.tools(tools, r#""required""#).unwrap();
    assert!(accepts(
        &required,
        r#"[{"name": "f", "parameters": {"x": 1}}, {"name": "g", "parameters": {}}]"#
    ));
    assert!(!accepts(&required, "[]") && !accepts(&required, r#"[{"name": "g", "parameters": {"x": 1}}]"#));
    assert!(request.tools(tools, r#""none""#).unwrap().is_unconstrained());
    for (tools, choice, message) in [
        (tools, r#""auto""#, "structural tag"),
        (tools, r#""any""#, "has to be"),
        (tools, r#"{"type":"function","function":{"name":"h"}}"#, "none of `tools`"),
        ("[]", r#""required""#, "no `tools`"),
        ("{}", r#""none""#, "`tools` is an array"),
        (r#"[{"type":"function","function":{}}]"#, r#""none""#, "`tools/0/function`: `name` is missing"),
        (r#"[{"type":"search","function":{}}]"#, r#""none""#, "`tools/0/type`"),
    ] {
        let error = request.tools(tools, choice).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn what_is_asked_for_and_cannot_be_kept_is_an_error() {
    let close = |schema: &str| {
        closed().response_format(&format!(r#"{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}"#))
    };
    let error = close(r#"{"properties":{"a":{"properties":{},"allOf":[{}]}}}"#).unwrap_err().to_string();
    assert!(error.contains("json_schema/schema/properties/a") && error.contains("`allOf`"), "{error}");
    // An object that says what it allows stays.
    let open =
        close(r#"{"type":"object","properties":{"a":true},"additionalProperties":{"type":"integer"}}"#)
            .unwrap();
    assert!(accepts(&open, r#"{"a": null, "b": 1}"#));
    // Digits and order are those of the request.
    let exact =
        close(r#"{"properties":{"z":{"const":1.50},"a":{"enum":[100000000000000000000000001]}}}"#).unwrap();
    assert!(exact.to_json().contains(r#"{"z":{"const":1.50},"a":{"enum":[100000000000000000000000001]}}"#));
    for format in [
        "{",
        "[]",
        r#"{"type":"yaml"}"#,
        r#"{"type":"text","strict":true}"#,
        r#"{"type":"json_schema"}"#,
        r#"{"type":"json_schema","json_schema":{"strict":1,"schema":{}}}"#,
    ] {
        assert!(JsonRequest::default().response_format(format).is_err(), "{format}");
    }
    let mut deep = "{}".to_owned();
    for _ in 0..120 {
        deep = format!(r#"{{"items":{deep}}}"#);
    }
    // Deeper than JSON is read or compiled: an error or a constraint, and no overflow.
    let _ = close(&deep).map(|spec| Compiler::new(bytes()).compile(&spec).is_ok());
}
