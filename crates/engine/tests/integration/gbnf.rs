//! Constraints of every kind as GBNF.

use unskew_core::OutputEnd;
use unskew_engine::{GBNF_BYTES, LooseningKind, Spec, SpecOptions};
use unskew_notation::GrammarFormat;

fn written(spec: &Spec) -> (String, Vec<LooseningKind>) {
    let gbnf = spec.to_gbnf(GBNF_BYTES, false).unwrap();
    (gbnf.text, gbnf.loosened.iter().map(|one| one.kind).collect())
}

#[test]
fn each_kind_is_written() {
    let number = Spec::regex("[0-9]{1,3}");
    let compact = SpecOptions {
        json_schema: Some(r#"{"enum": [true, "a"]}"#.to_owned()),
        whitespace: Some("compact".to_owned()),
        ..SpecOptions::default()
    };
    let schema = Spec::try_from(compact).unwrap();
    let tag = r#"{"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "const_string", "value": "<n>"}, {"type": "regex", "pattern": "[0-9]+"}]}}"#;
    for (spec, expected) in [
        (Spec::default(), "root ::= .*\n"),
        (number.clone(), "root ::= [0-9]{1,3}\n"),
        (Spec::choices(["a", "ab"]), "root ::= \"a\" \"b\"?\n"),
        (Spec::any_of([number.clone(), schema.clone()]), "root ::= [0-9]{1,3} | \"true\" | \"\\\"a\\\"\"\n"),
        (Spec::sequence([number, schema]), "root ::= [0-9]{1,3} (\"true\" | \"\\\"a\\\"\")\n"),
        (Spec::structural_tag(tag), "root ::= \"<n>\" [0-9]+\n"),
    ] {
        assert_eq!(written(&spec), (expected.to_owned(), vec![]), "{spec}");
    }
}

#[test]
fn what_is_not_enforced_is_listed_or_refused() {
    assert_eq!(written(&Spec::regex("a").canonical()).1, [LooseningKind::Canonical]);
    let captured = Spec::grammar("start: a\na[capture]: /b+/", GrammarFormat::Lark);
    assert_eq!(written(&captured).1, [LooseningKind::Captures]);
    let error = captured.to_gbnf(GBNF_BYTES, true).unwrap_err().to_string();
    assert!(error.contains("in 1 places, the first is a: captures are not reported"), "{error}");
    let error = Spec::regex("a").ending(OutputEnd::Free).to_gbnf(GBNF_BYTES, false).unwrap_err().to_string();
    assert!(error.contains("`end` says who ends an output"), "{error}");
    let error = Spec::regex("[a-z]{40}x{7}").to_gbnf(5, false).unwrap_err().to_string();
    assert!(error.contains("takes more than 5 bytes"), "{error}");
}
