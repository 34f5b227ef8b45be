//! `--canonical`: only sequences that the tokenizer itself would write. The judge is `check`, which asks the encoder.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::{collections::HashSet, path::PathBuf};

use crate::support::{Files, unskew};
use insta::assert_snapshot;
use serde_json::{Value, json};

const DATE: &str = "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]";
const NAMES: &str = " (William|Theodore)";
const RECORD: &str = r#"\{"name": "[A-Z][a-z]{2,8}", "age": [1-9][0-9], "city": "[A-Z][a-z]{2,8}"\}"#;

fn one(args: &[&str]) -> Value {
    unskew(args).json().remove(0)
}

/// The one-byte tokens that spell `text`.
fn byte_by_byte(text: &str) -> Vec<String> {
    let byte = |char: char| {
        let answer = one(&["mask", "--choice", &char.to_string(), "--list", "--format", "json"]);
        answer["ids"][0].to_string()
    };
    text.chars().map(byte).collect()
}

#[test]
fn mask_with_and_without() {
    assert_snapshot!(unskew(&["mask", "--regex", NAMES]).stdout);
    assert_snapshot!(unskew(&["mask", "--regex", NAMES, "--canonical"]).stdout);
    assert_snapshot!(unskew(&["mask", "--regex", DATE, "--prefix", "2024-", "--list"]).stdout);
    assert_snapshot!(unskew(&["mask", "--regex", DATE, "--canonical", "--prefix", "2024-", "--list"]).stdout);
    assert_snapshot!(unskew(&["mask", "--canonical", "--format", "json"]).stdout);
}

/// The mask of the start has the first tokens of the encoder's sequences for the matches, and no others.
#[test]
fn masks_are_the_first_tokens_of_the_encoder() {
    let letters = ["a", "b", "c"];
    let pairs: Vec<_> =
        letters.iter().flat_map(|left| letters.map(|right| format!("{left}{right}"))).collect();
    let numbers = (1..=4).flat_map(|left| (1..=4).map(move |right| format!("{left}{right}")));
    let numbers: Vec<_> = numbers.flat_map(|number| [format!(" {number}"), number]).collect();
    let words = ["the", "The", " the", "the ", "The ", " the "].map(str::to_owned);
    for (regex, matches) in [("[a-c]{2}", &pairs[..]), (" ?[1-4]{2}", &numbers), ("(the|The| the) ?", &words)]
    {
        let first = |more: &[&str]| -> HashSet<u64> {
            let args = [&["mask", "--regex", regex, "--list", "--format", "json"], more].concat();
            one(&args)["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
        };
        let spellings: Vec<_> = matches
            .iter()
            .map(|text| one(&["mask", "--canonical", "--choice", text, "--format", "json"])["forced"].clone())
            .collect();
        judged_canonical(&spellings, &["--regex", regex]);
        let allowed = first(&["--canonical"]);
        assert!(allowed.is_subset(&first(&[])));
        assert_eq!(allowed, spellings.iter().map(|ids| ids[0].as_u64().unwrap()).collect(), "{regex}");
    }
}

#[test]
fn check_tells_one_spelling_from_the_others() {
    let check = |more: &[&str]| one(&[&["check", "--format", "json"], more].concat());
    let own = json!({"accepted": true, "canonical": true, "rejected_at": null});
    assert_eq!(check(&["--canonical", "--regex", DATE, "--text", "2024-12-01"]), own);
    assert_eq!(check(&["--canonical", "--text", "Any text, \u{1f600} and e\u{301}."]), own);
    assert_eq!(check(&["--canonical", "--text", ""]), own);
    assert_eq!(check(&["--canonical", "--choice", "2024-12", "--choice", "x", "--text", "x"]), own);

    // Byte by byte: the first token that a proper spelling does not have there.
    let bytes = byte_by_byte("2024-12-01").join(",");
    let plain = json!({"accepted": true, "canonical": false, "rejected_at": null});
    assert_eq!(check(&["--regex", DATE, "--ids", &bytes]), plain);
    let proper = one(&["mask", "--canonical", "--choice", "2024-12-01", "--format", "json"]);
    let proper: Vec<_> = proper["forced"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let differs = proper.iter().zip(bytes.split(',')).position(|(proper, byte)| proper != byte);
    let rejected = check(&["--canonical", "--choice", "2024-12-01", "--ids", &bytes]);
    assert_eq!(
        (&rejected["accepted"], &rejected["canonical"], &rejected["rejected_at"]),
        (&json!(false), &json!(false), &json!(differs.unwrap()))
    );
    for regex in [&["--regex", DATE][..], &[]] {
        let rejected = check(&[&["--canonical", "--ids", &bytes], regex].concat());
        assert_eq!((&rejected["accepted"], &rejected["canonical"]), (&json!(false), &json!(false)));
        assert!(rejected["rejected_at"].as_u64().unwrap() >= differs.unwrap() as u64, "{rejected}");
    }
}

/// `canonical` is the encoder's word, with a constraint or without one.
#[test]
fn check_judges_any_ids() {
    let check = |ids: &str| one(&["check", "--ids", ids, "--format", "json"]);
    let verdict = |ids: &str| (check(ids)["accepted"].clone(), check(ids)["canonical"].clone());
    let both = |accepted: bool, canonical: bool| (json!(accepted), json!(canonical));
    assert_eq!(verdict(""), both(true, true));
    // The end alone, and an end in the middle.
    assert_eq!(verdict("0"), both(true, true));
    assert_eq!(verdict("0,0"), both(false, false));
    let bytes = byte_by_byte("2024");
    assert_eq!(verdict(&bytes.join(",")), both(true, false));
    assert_eq!(verdict(&bytes[0]), both(true, true));
    assert_eq!(verdict(&format!("{},0", bytes[0])), both(true, true));
    // The text of the end of the sequence, which the encoder takes for the end.
    assert_eq!(verdict(&byte_by_byte("<|endoftext|>").join(",")), both(true, false));
    // The first byte of a character without the others.
    let first = one(&["mask", "--regex", "\u{10348}", "--list", "--format", "json"])["ids"][0].to_string();
    assert_eq!(verdict(&first).1, json!(false));
    // No such id.
    assert_eq!(verdict("4000000000"), both(false, false));
}

/// Records of a fixed form: the tokens between the fields are forced, and the model is not waited for.
#[test]
fn the_model_is_asked_less_often_than_there_are_tokens() {
    let generate = |more: &[&str]| {
        let base = ["generate", "--regex", RECORD, "--seed", "1", "-n", "5", "--format", "jsonl"];
        unskew(&[&base, more].concat()).json()
    };
    let canonical = generate(&["--sampler", "masked", "--canonical"]);
    for line in &canonical {
        assert!(line["lm_passes"].as_u64().unwrap() < line["ids"].as_array().unwrap().len() as u64, "{line}");
    }
    // Without the flag a field's name has many spellings, and the model is asked which.
    let free = generate(&["--sampler", "masked"]);
    assert!(
        canonical[0]["lm_passes"].as_u64() < free[0]["lm_passes"].as_u64(),
        "{} {}",
        canonical[0],
        free[0]
    );
}

#[test]
fn every_sampler_writes_canonical_outputs() {
    for sampler in [
        &["--sampler", "masked"][..],
        &["--sampler", "disc"],
        &["--sampler", "disc:k=4,form=reuse"],
        &["--sampler", "disc:k=4,form=published"],
        &[],
    ] {
        let base =
            ["generate", "--canonical", "--regex", RECORD, "--seed", "2", "-n", "10", "--format", "jsonl"];
        all_canonical(&[&base, sampler].concat(), &["--regex", RECORD]);
    }
    // A text that the model is likely to write by itself, for rejection sampling; and any text at all.
    let base = ["generate", "--canonical", "--seed", "2", "-n", "5", "--format", "jsonl"];
    let regex = ["--regex", "[A-Z][a-z]+ [A-Z][a-z]+\"(?s:.*)"];
    let rejection = ["--prompt", "{\"name\": \"", "--sampler", "rejection"];
    all_canonical(&[&base[..], &rejection, &regex].concat(), &regex);
    all_canonical(&base, &[]);
    // Cut off, an output is the beginning of a canonical one.
    for line in unskew(&[&base[..], &["--sampler", "masked", "--max-tokens", "10"]].concat()).json() {
        assert_eq!(judge(&[line["ids"].clone()], &[])[0]["rejected_at"], Value::Null, "{line}");
    }
}

/// Runs `generate` and has `check` judge its outputs.
fn all_canonical(generate: &[&str], constraint: &[&str]) {
    let ids: Vec<_> = unskew(generate).json().iter().map(|line| line["ids"].clone()).collect();
    judged_canonical(&ids, constraint);
}

/// The answers of `check` about sequences of ids.
fn judge(sequences: &[Value], constraint: &[&str]) -> Vec<Value> {
    let lines: String = sequences.iter().map(|ids| json!({"ids": ids}).to_string() + "\n").collect();
    let files = Files::new(&[("ids.jsonl", lines.as_bytes())]);
    let check = ["check", "--canonical", "--jsonl", "ids.jsonl", "--format", "jsonl"];
    let answers = files.run(&[&check, constraint].concat()).json();
    assert_eq!(answers.len(), sequences.len());
    answers
}

fn judged_canonical(sequences: &[Value], constraint: &[&str]) {
    for (ids, answer) in sequences.iter().zip(judge(sequences, constraint)) {
        let expected = json!({"accepted": true, "canonical": true, "rejected_at": null});
        assert_eq!(answer, expected, "{constraint:?}: {ids}");
    }
}

/// The tokenizers of well-known models, where `UNSKEW_DATA` names the folder that holds them.
#[test]
fn tokenizers_of_well_known_models() {
    let Some(data) = std::env::var_os("UNSKEW_DATA").map(PathBuf::from) else {
        eprintln!("skipped: set UNSKEW_DATA to a folder with tokenizers/*/tokenizer.json");
        return;
    };
    for name in ["gpt2", "llama2", "llama3", "mistral-v1", "qwen2", "cl100k"] {
        let path = data.join("tokenizers").join(name).join("tokenizer.json");
        if !path.is_file() {
            eprintln!("skipped: {} is not there", path.display());
            continue;
        }
        let path = path.to_str().unwrap();
        let run = |args: &[&str]| one(&[args, &["--tokenizer", path, "--format", "json"]].concat());
        for text in ["2024-12-01", "2024-02-29"] {
            let own = json!({"accepted": true, "canonical": true, "rejected_at": null});
            assert_eq!(
                run(&["check", "--canonical", "--regex", DATE, "--text", text]),
                own,
                "{name}: {text}"
            );
        }
        let free = run(&["mask", "--regex", NAMES]);
        let canonical = run(&["mask", "--regex", NAMES, "--canonical"]);
        assert!(canonical["allowed"].as_u64() < free["allowed"].as_u64(), "{name}: {canonical} {free}");
    }
}

/// `check` judges the text that the tokenizer reads, and names it where it is another one.
#[test]
fn check_says_which_text_it_judges() {
    let mut json: Value = serde_json::from_str(unskew::tiny_model::TOKENIZER_JSON).unwrap();
    json["normalizer"] = json!({"type": "NFC"});
    json["decoder"] = Value::Null;
    let files = Files::new(&[("nfc.json", json.to_string().as_bytes())]);
    let check = |regex: &str, text: &str| {
        files.run(&["check", "--tokenizer", "nfc.json", "--regex", regex, "--text", text, "--format", "json"])
    };
    let run = check("\u{e9}", "e\u{301}");
    assert_eq!(
        run.json()[0],
        json!({"accepted": true, "canonical": true, "rejected_at": null, "read_as": "\u{e9}"})
    );
    assert!(
        run.stderr.contains("note: the tokenizer reads the text as \"\u{e9}\", and that is checked"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("note: the tokenizer has no decoder"), "{}", run.stderr);
    assert_eq!(check("e\u{301}", "e\u{301}").json()[0]["accepted"], false);
    let run = check("\u{e9}", "\u{e9}");
    assert_eq!(run.json()[0].get("read_as"), None);
    assert!(!run.stderr.contains("reads the text"), "{}", run.stderr);
}
