//! `--json-schema`: outputs satisfy it, and a keyword that is not enforced is an error.

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
    // People are told which schema is enforced.
    let told = files.run(&args).stderr;
    assert!(told.contains("JSON Schema of person.json"), "{told}");
    for policy in [&[][..], &["--with", "whitespace=compact"], &["--with", "whitespace=bounded:2"]] {
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
    let expected = [
        ["#", "items", "enforced"],
        ["#", "title", "annotation"],
        ["#/items", "uniqueItems", "rejected"],
        ["#", "spelling plain", "enforced"],
    ];
    assert_eq!(fates, expected.map(|row| row.map(str::to_owned)));
    let run = files.run(&["mask", "--regex", "a", "--with", "whitespace=compact"]);
    assert_eq!(run.code, 2);
}

#[test]
fn white_space_and_spellings() {
    let files = files();
    let args = ["generate", "--json-schema", "person.json", "-n", "3", "--seed", "1", "--sampler", "masked"];
    for line in
        files.run(&[&args[..], &["--with", "whitespace=indent:2", "--format", "json"]].concat()).json()
    {
        let text = line["text"].as_str().unwrap();
        let lines: Vec<_> = text.split('\n').collect();
        assert!(
            lines.len() == 4 && lines[1].starts_with("  \"name\": ") && lines[2].starts_with("  \"age\": "),
            "{text}"
        );
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
    }
    for line in files.run(&[&args[..], &["--with", "ascii", "--format", "json"]].concat()).json() {
        assert!(line["text"].as_str().unwrap().is_ascii(), "{line}");
    }
    let run = files.run(&["mask", "--json-schema", "person.json", "--with", "whitespace=indent"]);
    assert!(run.code == 2 && run.stderr.contains("indent:N"), "{}", run.stderr);
}

#[test]
fn a_registry_of_schemas() {
    let files = Files::new(&[
        ("main.json", br#"{"$ref": "https://example.org/list"}"#),
        ("lost.json", br#"{"$ref": "sizes/none.json"}"#),
    ]);
    let folder = files.path("schemas");
    std::fs::create_dir_all(folder.join("sizes")).unwrap();
    let list = br#"{"$id": "https://example.org/list", "items": {"$ref": "https://example.org/size"}}"#;
    std::fs::write(folder.join("list.json"), list).unwrap();
    let size = br#"{"$id": "https://example.org/size", "type": "integer"}"#;
    std::fs::write(folder.join("sizes/size.json"), size).unwrap();
    let check = |schema: &str, text: &str| {
        files.run(&[
            "check",
            "--json-schema",
            schema,
            "--with",
            "schema-registry=schemas",
            "--text",
            text,
            "--format",
            "json",
        ])
    };
    assert_eq!(check("main.json", "[1]").json()[0]["accepted"], Value::Bool(true));
    assert_eq!(check("main.json", "[1.5]").json()[0]["accepted"], Value::Bool(false));
    assert!(check("lost.json", "1").refusal().contains("unskew:///sizes/none.json"));
    let run = files.run(&["check", "--json-schema", "main.json", "--text", "1"]);
    assert!(run.refusal().contains("https://example.org/list"), "{}", run.stderr);
    let explained = files.run(&[
        "explain",
        "--json-schema",
        "main.json",
        "--with",
        "schema-registry=schemas",
        "--format",
        "json",
    ]);
    let pointers: Vec<Value> = explained.json().into_iter().map(|one| one["pointer"].clone()).collect();
    assert!(pointers.contains(&Value::from("https://example.org/list#/items")), "{pointers:?}");
    std::fs::write(folder.join("broken.json"), b"{").unwrap();
    assert!(check("main.json", "1").refusal().contains("broken.json"));
}

#[test]
fn canonical_outputs_of_a_schema() {
    let files = Files::new(&[
        ("person.json", PERSON),
        ("tree.json", br##"{"type": "array", "items": {"$ref": "#"}}"##),
    ]);
    for schema in ["person.json", "tree.json"] {
        let args = ["generate", "--json-schema", schema, "--canonical", "--with", "whitespace=compact"];
        let more = ["-n", "3", "--seed", "1", "--sampler", "masked", "--format", "json"];
        for line in files.run(&[&args[..], &more].concat()).json() {
            let ids =
                line["ids"].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",");
            let answer = files.run(&["check", "--ids", &ids, "--canonical", "--format", "json"]).json();
            assert_eq!(answer[0]["accepted"], Value::Bool(true), "{line}");
            let text = line["text"].as_str().unwrap();
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{line}");
            let check = ["check", "--json-schema", schema, "--canonical", "--format", "json", "--ids", &ids];
            assert_eq!(files.run(&check).json()[0]["accepted"], Value::Bool(true), "{line}");
        }
    }
    let nested = files.run(&["check", "--json-schema", "tree.json", "--canonical", "--text", "[[]]"]);
    assert_eq!(nested.code, 0, "{}", nested.stderr);
    let fates =
        files.run(&["explain", "--json-schema", "tree.json", "--canonical", "--format", "json"]).json();
    let last = fates.last().unwrap();
    assert_eq!((&last["construct"], &last["fate"]), (&Value::from("canonical"), &Value::from("enforced")));
}

/// An option that is about a schema is an error where there is none, beside any other constraint.
#[test]
fn options_of_a_schema_need_one() {
    let files = files();
    for option in ["ascii", "any-order", "exponents=2", "schema-registry=."] {
        let run = files.run(&["mask", "--choice", "a", "--with", option]);
        assert!(run.refusal().contains("--json-schema"), "{option:?}: {}", run.stderr);
    }
    let run = files.run(&["explain", "--regex", "a", "--with", "schema-registry=."]);
    assert!(run.refusal().contains("--json-schema"), "{}", run.stderr);
}
