//! `--json-schema`: outputs satisfy it, and what is not enforced is an error.

use crate::support::Files;
use serde_json::Value;

const PERSON: &[u8] = br#"{"title": "Person", "type": "object",
  "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 18, "maximum": 99}},
  "required": ["name", "age"], "additionalProperties": false}"#;

fn files() -> Files {
    Files::new(&[
        ("person.json", PERSON),
        ("unique.json", br#"{"items": {"uniqueItems": true}, "title": "x"}"#),
    ])
}

#[test]
fn outputs_satisfy_the_schema() {
    let files = files();
    let args = ["generate", "--json-schema", "person.json", "-n", "5", "--seed", "1", "--sampler", "masked"];
    for policy in [&[][..], &["--whitespace", "compact"], &["--whitespace", "bounded:2"]] {
        let lines = files.run(&[&args[..], policy, &["--format", "json"]].concat()).json();
        assert_eq!(lines.len(), 5);
        for line in lines {
            let text = line["text"].as_str().unwrap();
            let person: Value = serde_json::from_str(text).unwrap();
            let age = person["age"].as_f64().unwrap();
            assert!((18.0..=99.0).contains(&age) && age.fract() == 0.0, "{text}");
            assert!(person["name"].as_str().unwrap().chars().count() <= 8, "{text}");
            assert_eq!(person.as_object().unwrap().len(), 2, "{text}");
        }
    }
    let accepted = |text: &str| {
        files.run(&["check", "--json-schema", "person.json", "--text", text, "--format", "json"]).json()[0]["accepted"]
            == Value::Bool(true)
    };
    assert!(accepted(r#"{"name": "Ann", "age": 30}"#) && !accepted(r#"{"name": "Ann", "age": 17}"#));
}

#[test]
fn what_is_not_enforced_is_an_error_and_explained() {
    let files = files();
    let run = files.run(&["check", "--json-schema", "unique.json", "--text", "[]"]);
    assert_eq!(run.code, 2);
    assert!(run.refusal().contains("#/items: `uniqueItems` is not enforced"), "{}", run.stderr);
    let fates = files.run(&["explain", "--json-schema", "unique.json", "--format", "json"]).json();
    let fates: Vec<_> = fates
        .iter()
        .map(|one| ["pointer", "construct", "fate"].map(|key| one[key].as_str().unwrap().to_owned()))
        .collect();
    let expected =
        [["#", "items", "enforced"], ["#", "title", "annotation"], ["#/items", "uniqueItems", "rejected"]];
    assert_eq!(fates, expected.map(|row| row.map(str::to_owned)));
    let run = files.run(&["mask", "--regex", "a", "--whitespace", "compact"]);
    assert_eq!(run.code, 2);
    let run = files.run(&["mask", "--json-schema", "person.json", "--canonical"]);
    assert!(run.refusal().contains("--canonical cannot be combined"), "{}", run.stderr);
}
