//! `--grammar`, and the parts that came with it: `explain`, `retokenize`, `--heal`.

use std::collections::BTreeMap;

use crate::support::{Files, unskew};
use insta::assert_snapshot;
use serde_json::Value;
use unskew::core::conformance::chi_square;

const RECORD: &[u8] = br#"start: "{" "\"name\":" STRING "," "\"age\":" INT "}"
STRING: /"[A-Z][a-z]{1,20}"/
INT: /[1-9][0-9]?/
%ignore / /
"#;

/// Brackets, nested to any depth.
const BRACKETS: &[u8] = b"root ::= \"(\" root \")\" root | \"\"\n";

fn files() -> Files {
    Files::new(&[
        ("record.lark", RECORD),
        ("brackets.gbnf", BRACKETS),
        ("brackets.ebnf", BRACKETS),
        ("brackets.xgrammar", BRACKETS),
        ("brackets.abnf", b"a = *( \"(\" a \")\" )\nb = \"b\""),
    ])
}

#[test]
fn outputs_are_words_of_the_grammar() {
    let files = files();
    let args = ["generate", "--grammar", "record.lark", "--with", "max-ignored=1", "-n", "5", "--seed", "1"];
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
    for grammar in ["brackets.gbnf", "brackets.ebnf", "brackets.xgrammar", "brackets.abnf"] {
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
        &["mask", "--grammar", "g.gbnf", "--with", "max-ignored=1"]
    ));
    assert_snapshot!(refusal(&[], &["mask", "--regex", "a", "--with", "max-ignored=1"]));
    assert_snapshot!(refusal(&[("g.lark", b"start: <|nothing|>")], &["mask", "--grammar", "g.lark"]));
    assert_snapshot!(refusal(&[], &["explain"]));
}

/// Outputs of samplers that ask about single tokens, and outputs over the drafts of counts, follow the distribution
/// of masked sampling, which its own outputs tell exactly.
#[test]
fn without_masks_and_with_guesses_the_distribution_is_that_of_masks() {
    let grammar = "start: \"Dear \" (\"Mr\" | \"Ms\" | \"Dr\") \" \" NAME \",\"\nNAME: \"Brown\" | \"Meyer\" | \"Novak\" | \"Silva\"\n";
    let files = Files::new(&[("letter.lark", grammar.as_bytes())]);
    let draw = |n: &str, sampler: &[&str]| {
        let args = ["generate", "--grammar", "letter.lark", "-n", n, "--seed", "5", "--format", "jsonl"];
        files.run(&[&args[..], sampler].concat()).json()
    };
    // A text has many spellings: its probability is the sum over those that come at all.
    let probability = |line: &Value| {
        let number = |field: &str| line[field].as_f64().unwrap();
        (number("logprob") - number("log_weight")).exp()
    };
    let mut exact: BTreeMap<String, f64> = BTreeMap::new();
    for line in draw("4000", &["--sampler", "masked"]) {
        exact.insert(line["ids"].to_string(), probability(&line));
    }
    let seen: f64 = exact.values().sum();
    assert!(exact.len() > 8 && seen > 0.98, "{seen} in {} sequences", exact.len());
    for (n, sampler) in [
        ("2000", &["--sampler", "awrs"][..]),
        ("400", &["--sampler", "speculative", "--draft-model", "counts"]),
    ] {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for line in draw(n, sampler) {
            *counts.entry(line["ids"].to_string()).or_default() += 1;
        }
        // All that masked sampling did not show in 4,000 draws is one cell.
        let shown = exact.iter().map(|(ids, probability)| (counts.remove(ids).unwrap_or(0), *probability));
        let mut cells: Vec<(u64, f64)> = shown.collect();
        cells.push((counts.values().sum(), 1.0 - seen));
        let fit = chi_square(cells);
        assert!(fit.deviation < 4.0 && fit.degrees_of_freedom > 3, "{sampler:?}: {fit:?}");
    }
}

/// Free text that may follow does not swallow the trigger of a tool: its first end is the boundary.
#[test]
fn a_lazy_terminal_ends_where_it_first_may() {
    let tool: &[u8] = br#"start: tool* tail
tail: TEXT
head[lazy]: TEXT "<call>"
tool: head /[0-9]+/ "</call>"
TEXT: /(\n|.)*/
"#;
    let files = Files::new(&[("tool.lark", tool)]);
    let check = |text: &str| {
        let run = files.run(&["check", "--grammar", "tool.lark", "--text", text, "--format", "json"]);
        let answer = &run.json()[0];
        (answer["accepted"].as_bool().unwrap(), answer["rejected_at"].as_u64())
    };
    // The trigger may be written, and the token behind it is refused.
    assert_eq!(check("<call>"), (false, None));
    let (accepted, rejected_at) = check("<call>x</call>");
    assert!(!accepted && rejected_at.is_some());
    assert_eq!(check("<call>x"), (false, rejected_at));
    for text in ["", "no call", "<cal", "<call>12</call>", "so <call>1</call> and\n<call>2</call>."] {
        assert_eq!(check(text), (true, None), "{text}");
    }
    let fates = files.run(&["explain", "--grammar", "tool.lark", "--format", "json"]).json();
    let lazy = fates.iter().find(|fate| fate["construct"] == "`lazy`").unwrap();
    assert_eq!(lazy["fate"], "enforced");
    assert!(fates.iter().all(|fate| fate["fate"] == "enforced"), "{fates:?}");
}

/// The example of the documentation.
#[test]
fn captures_are_reported() {
    let grammar = br#"start: "call " name "(" arg ("," arg)* ")"
name[capture]: /[a-z]{1,9}/
arg[capture="argument"]: /[0-9]{1,3}/
"#;
    let endless = b"start: s\ns[capture]: s s | \"x\"?\n";
    let files =
        Files::new(&[("call.lark", grammar), ("endless.lark", endless), ("plain.lark", b"start: \"x\"")]);
    let check = |more: &[&str]| files.run(&[&["check"], more].concat());
    assert_snapshot!(check(&["--grammar", "call.lark", "--text", "call add(1,23)"]).stdout, @r#"
    accepted
        name: "add", bytes 5..8, tokens 2..5
        argument: "1", bytes 9..10, tokens 6..7
        argument: "23", bytes 11..13, tokens 8..9
    "#);
    let json =
        |args: &[&str]| files.run(&[&["check"], args, &["--format", "json"]].concat()).json().remove(0);
    for more in [&[][..], &["--canonical"]] {
        let answer = json(&[&["--grammar", "call.lark", "--text", "call add(1,23)"], more].concat());
        let captures = answer["captures"].as_array().unwrap();
        let spans: Vec<_> =
            captures.iter().map(|one| (one["name"].as_str().unwrap(), &one["bytes"])).collect();
        assert_eq!(
            spans,
            [
                ("name", &serde_json::json!([5, 8])),
                ("argument", &serde_json::json!([9, 10])),
                ("argument", &serde_json::json!([11, 13]))
            ]
        );
    }
    // A text that is not whole, or not accepted, has none, and neither has a grammar that names nothing.
    for text in ["call add(1", "call add)"] {
        let answer = json(&["--grammar", "call.lark", "--text", text]);
        assert_eq!((&answer["accepted"], &answer["captures"]), (&Value::Bool(false), &Value::Null));
        assert!(answer.get("captures").is_some() && answer.get("captures_error").is_none());
    }
    assert!(json(&["--grammar", "plain.lark", "--text", "x"]).get("captures").is_none());
    let error = json(&["--grammar", "endless.lark", "--text", "xx"]);
    assert!(error["captures_error"].as_str().unwrap().contains("through itself alone"), "{error}");
    let costly =
        json(&["--grammar", "call.lark", "--text", "call a(1)", "--limit", "grammar.capture_items=9"]);
    assert!(
        costly["captures_error"].as_str().unwrap().ends_with("--limit grammar.capture_items=N"),
        "{costly}"
    );

    let args = ["generate", "--grammar", "call.lark", "--sampler", "masked", "-n", "4", "--seed", "1"];
    let run = files.run(&[&args[..], &["--prompt", "I ", "--max-tokens", "60", "--format", "json"]].concat());
    let mut whole = 0;
    for line in run.json() {
        let text = line["text"].as_str().unwrap();
        if line["finish"] == "length" {
            assert_eq!(line["captures"], Value::Null);
            continue;
        }
        whole += 1;
        let captures = line["captures"].as_array().unwrap();
        assert_eq!(captures.len(), 2 + text.matches(',').count(), "{line}");
        for one in captures {
            let at = |end: usize| usize::try_from(one["bytes"][end].as_u64().unwrap()).unwrap();
            assert_eq!(one["text"], text[at(0)..at(1)]);
        }
    }
    assert!(whole > 0);
    // Bytes are counted in the text that is written, also after a prompt that is healed.
    let healed = ["--heal", "--prompt", "please ca", "--grammar", "healed.lark", "--format", "json"];
    std::fs::write(files.path("healed.lark"), "start: \"ll \" name\nname[capture]: /[a-z]{1,9}/\n").unwrap();
    for line in files.run(&[&["generate", "--sampler", "masked", "--seed", "1"], &healed[..]].concat()).json()
    {
        let length = line["text"].as_str().unwrap().len();
        assert_eq!(line["captures"][0]["bytes"], serde_json::json!([3, length]), "{line}");
    }
}
