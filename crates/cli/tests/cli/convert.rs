//! `unskew convert`: a constraint as GBNF.

use crate::support::{Files, unskew};

#[test]
fn a_schema_becomes_a_grammar_with_the_same_outputs() {
    let schema = br#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;
    let files = Files::new(&[("s.json", schema)]);
    let run = files.run(&["convert", "--json-schema", "s.json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stderr,
        "looser at #: texts that may not repeat may repeat: GBNF does not remember them\n"
    );
    std::fs::write(files.path("s.gbnf"), &run.stdout).unwrap();
    for (text, accepted) in
        [(r#"{"n": 12, "m": [true]}"#, true), (r#"{"n": 1.5}"#, false), (r#"{"m": 1}"#, false)]
    {
        for constraint in [["--grammar", "s.gbnf"], ["--json-schema", "s.json"]] {
            let run = files.run(&[&["check", "--format", "jsonl", "--text", text], &constraint[..]].concat());
            assert_eq!(run.json()[0]["accepted"], accepted, "{text} {constraint:?}");
        }
    }
    assert!(
        files
            .run(&["convert", "--strict", "--json-schema", "s.json"])
            .refusal()
            .contains("leave out --strict")
    );
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let run = unskew(&["convert", "--max-bytes", "9", "--regex", "[a-z]{3}[0-9]{3}"]);
    assert!(run.refusal().contains("more than 9 bytes"), "{}", run.stderr);
    let run = unskew(&["convert", "--format", "gbnf", "--strict", "--regex", "[a-z]{3}"]);
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (0, "root ::= [a-z]{3}\n", ""));
}
