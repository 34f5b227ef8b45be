//! `--structural-tag`: free text with tools in it.

use crate::support::Files;
use serde_json::Value;

const TAG: &[u8] = br#"{"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f"], "tags": [
  {"type": "tag", "begin": "<f=age>", "end": "</f>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}}]}}"#;

fn files() -> Files {
    let wrong =
        br#"{"format": {"type": "sequence", "elements": [{"type": "any_text"}, {"type": "any_text", "max_tokens": 100001}]}}"#;
    Files::new(&[("tag.json", TAG), ("wrong.json", wrong), ("broken.json", b"{")])
}

#[test]
fn outputs_are_checked() {
    let files = files();
    for (text, expected) in
        [("my age: <f=age>42</f>.", true), ("a <", true), ("<f=age>old</f>", false), ("<f=name>", false)]
    {
        let run = files.run(&["check", "--structural-tag", "tag.json", "--text", text, "--format", "json"]);
        assert_eq!(run.json()[0]["accepted"], Value::Bool(expected), "{text}");
    }
    let generate =
        ["generate", "--structural-tag", "tag.json", "--with", "whitespace=compact", "--sampler", "masked"];
    let run = files.run(&[&generate[..], &["--max-tokens", "5", "--seed", "1"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("structural tag of tag.json"), "{}", run.stderr);
}

#[test]
fn errors_and_fates() {
    let files = files();
    let run = files.run(&["mask", "--structural-tag", "wrong.json"]);
    assert_eq!(run.code, 2);
    assert!(
        run.refusal().contains("wrong.json: structural tag, /format/elements/1/max_tokens: "),
        "{}",
        run.stderr
    );
    let fates = files.run(&["explain", "--structural-tag", "wrong.json", "--format", "json"]).json();
    let fates: Vec<_> =
        fates.iter().map(|one| (one["pointer"].as_str().unwrap(), one["fate"].as_str().unwrap())).collect();
    assert_eq!(fates, [("/format/elements/0", "enforced"), ("/format/elements/1/max_tokens", "rejected")]);
    assert_eq!(files.run(&["explain", "--structural-tag", "broken.json"]).code, 2);
    assert_eq!(files.run(&["mask", "--structural-tag", "tag.json", "--regex", "a"]).code, 2);
}
