//! `--grammar`, and what came with it: `explain`, `retokenize`, `--heal`.

use crate::support::{Files, unskew};
use insta::assert_snapshot;
use serde_json::Value;

const RECORD: &[u8] = br#"start: "{" "\"name\":" STRING "," "\"age\":" INT "}"
STRING: /"[A-Z][a-z]{1,20}"/
INT: /[1-9][0-9]?/
%ignore / /
"#;

/// Brackets, nested to any depth.
const BRACKETS: &[u8] = b"root ::= \"(\" root \")\" root | \"\"\n";

fn files() -> Files {
    Files::new(&[("record.lark", RECORD), ("brackets.gbnf", BRACKETS), ("brackets.ebnf", BRACKETS)])
}

#[test]
fn outputs_are_words_of_the_grammar() {
    let files = files();
    let args = ["generate", "--grammar", "record.lark", "--max-ignored", "1", "-n", "5", "--seed", "1"];
    let lines = files.run(&[&args[..], &["--sampler", "masked", "--format", "json"]].concat()).json();
    let record =
        regex::Regex::new(r#"^ ?\{ ?"name": ?"[A-Z][a-z]{1,20}" ?, ?"age": ?[1-9][0-9]? ?\} ?$"#).unwrap();
    for line in &lines {
        let text = line["text"].as_str().unwrap();
        assert!(record.is_match(text), "{text:?}");
        let answer =
            files.run(&["check", "--grammar", "record.lark", "--text", text, "--format", "json"]).json();
        assert_eq!(answer[0]["accepted"], Value::Bool(true));
    }
    assert_eq!(lines.len(), 5);
}

#[test]
fn masks_and_checks() {
    let files = files();
    assert_snapshot!(files.run(&["mask", "--grammar", "record.lark", "--prefix", "{\"name\":"]).stdout);
    for grammar in ["brackets.gbnf", "brackets.ebnf"] {
        let accepted = |text: &str| {
            let run = files.run(&["check", "--grammar", grammar, "--text", text, "--format", "json"]);
            run.json()[0]["accepted"] == Value::Bool(true)
        };
        assert!(accepted("(()())()") && accepted(""));
        assert!(!accepted("(()") && !accepted("())"));
    }
}

#[test]
fn every_construct_has_a_fate() {
    let files = files();
    assert_snapshot!(files.run(&["explain", "--grammar", "record.lark"]).stdout);
    let wrong = Files::new(&[("wrong.lark", b"start: \"a\" other")]);
    let run = wrong.run(&["explain", "--grammar", "wrong.lark", "--format", "json"]);
    assert_eq!(run.json()[0]["fate"], "rejected");
    assert_snapshot!(unskew(&["explain", "--regex", r"[a-z]+\b"]).stdout);
    assert_eq!(unskew(&["explain", "--regex", "(a|b)*", "--format", "json"]).json()[0]["fate"], "enforced");
}

#[test]
fn a_healed_prompt_is_continued_where_it_ended() {
    let args = ["generate", "--prompt", "Dear Ms Meyer, thank yo", "--sampler", "masked", "--seed", "1"];
    let more = ["--regex", "u [a-z]{1,8}", "--format", "json"];
    let healed = unskew(&[&args[..], &more, &["--heal"]].concat()).json().remove(0);
    // The text goes on where the prompt ended; the tokens begin before.
    let text = healed["text"].as_str().unwrap();
    assert!(text.starts_with("u "), "{text:?}");
    let plain = unskew(&[&args[..], &more].concat()).json().remove(0);
    assert!(plain["text"].as_str().unwrap().starts_with("u "));
    assert_ne!(healed["ids"][0], plain["ids"][0]);
    // The model finds the text far likelier when it may write the whole word.
    assert!(healed["logprob"].as_f64().unwrap() > plain["logprob"].as_f64().unwrap());
}

#[test]
fn a_text_as_the_model_would_have_written_it() {
    let answer = unskew(&["retokenize", "--prompt", "Kind", "--text", " regards,", "--format", "json"])
        .json()
        .remove(0);
    let tokens: Vec<_> =
        answer["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!(tokens.concat(), " regards,");
    assert!(answer["logprob"].as_f64().unwrap() < 0.0);
    assert!(answer["canonical"].is_array());
}

#[test]
fn bad_grammars() {
    let refusal = |files: &[(&str, &[u8])], args: &[&str]| Files::new(files).run(args).refusal().to_owned();
    assert_snapshot!(refusal(
        &[("g.lark", b"start: \"a\" nmae\nname: \"b\"")],
        &["mask", "--grammar", "g.lark"]
    ));
    assert_snapshot!(refusal(&[("g.gbnf", b"root ::= \"a\" root")], &["mask", "--grammar", "g.gbnf"]));
    assert_snapshot!(refusal(&[("g.txt", b"")], &["mask", "--grammar", "g.txt"]));
    assert_snapshot!(refusal(&[], &["mask", "--grammar", "missing.lark"]));
    assert_snapshot!(refusal(
        &[("g.gbnf", BRACKETS)],
        &["mask", "--grammar", "g.gbnf", "--max-ignored", "1"]
    ));
    assert_snapshot!(refusal(&[], &["mask", "--regex", "a", "--max-ignored", "1"]));
    assert_snapshot!(refusal(&[("g.gbnf", BRACKETS)], &["mask", "--grammar", "g.gbnf", "--canonical"]));
    assert_snapshot!(refusal(&[("g.lark", b"start: <|nothing|>")], &["mask", "--grammar", "g.lark"]));
    assert_snapshot!(refusal(&[], &["explain"]));
}
