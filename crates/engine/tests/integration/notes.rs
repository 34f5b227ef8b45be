//! What a user is told beside errors: notes of schemas, and the keywords of the schemas of a structural tag.

use unskew_engine::{Compiler, Spec};

use crate::common::bytes;

#[test]
fn a_schema_that_constrains_nothing_is_noted() {
    let compiler = Compiler::new(bytes());
    for (schema, notes) in [
        (r#"{"type": "string"}"#, 0),
        (r#"{"name": "f", "inputSchema": {"type": "object"}}"#, 1),
        (r#"{"title": "nothing"}"#, 1),
        ("{", 0),
    ] {
        let spec = Spec::json_schema(schema);
        assert_eq!(spec.notes().len(), notes, "{schema}");
        if let Ok(compiled) = compiler.compile(&spec) {
            assert_eq!(compiled.notes(), spec.notes(), "{schema}");
            assert_eq!(compiler.compile(&spec).unwrap().notes(), spec.notes(), "{schema}");
        }
    }
    let parts = r#"{"any_of": [{"json_schema": {"title": "a"}}, {"regex": "b"}]}"#;
    assert_eq!(Spec::from_json(parts).unwrap().notes().len(), 1);
}

#[test]
fn the_keywords_of_schemas_in_a_tag_are_listed() {
    let tag = r#"{"type": "structural_tag", "format": {"type": "json_schema", "json_schema":
        {"type": "object", "x-order": 1, "properties": {"a": {"type": "string", "format": "email"}}}}}"#;
    let rows = Spec::structural_tag(tag).explain().unwrap();
    let fate = |pointer: &str, construct: &str| {
        rows.iter()
            .find(|row| row.pointer.as_deref() == Some(pointer) && row.construct == construct)
            .map(|row| row.fate)
    };
    let at = "/format/json_schema";
    assert_eq!(fate(at, "type"), Some("enforced"), "{rows:?}");
    assert_eq!(fate(at, "x-order"), Some("annotation"), "{rows:?}");
    assert_eq!(fate(&format!("{at}/properties/a"), "format"), Some("narrowed"), "{rows:?}");
}

#[test]
fn a_dialect_is_an_option_of_schemas() {
    let compile = |dialect: &str| {
        let spec =
            format!(r#"{{"json_schema": {{"type": "integer", "nullable": true}}, "dialect": "{dialect}"}}"#);
        let compiled = Compiler::new(bytes()).compile(&Spec::from_json(&spec).unwrap()).unwrap();
        let mut matcher = compiled.matcher();
        matcher.accept(u32::from(b'n').into()).unwrap()
    };
    assert!(compile("openapi-3.0") && !compile("2020-12"));
    assert!(Spec::from_json(r#"{"json_schema": {}, "dialect": "openapi"}"#).is_err());
    assert!(Spec::from_json(r#"{"regex": "a", "dialect": "2020-12"}"#).is_err());
}
