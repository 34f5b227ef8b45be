//! The answers of each command, on a table model (exact numbers) and on the embedded model (properties: its logits
//! differ in the last bits from machine to machine).

use std::collections::HashMap;

use crate::support::{Files, TABLE, unskew};
use regex::Regex;
use serde_json::json;
use unskew::core::{ExactDistribution, TableModel, conformance::chi_square};

const DATE: &str = "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]";

#[test]
fn generate_writes_one_object_a_line() {
    let files = Files::new(&[("t.json", TABLE)]);
    let args = [
        "generate",
        "--model",
        "table:t.json",
        "--regex",
        "1{3}",
        "--end",
        "model",
        "--seed",
        "1",
        "--format",
        "jsonl",
    ];
    let lines = files.run(&args).json();
    // 0.5 * 0.45 * 0.45, and the end.
    let logprob = (0.5 * 0.45 * 0.45 * 0.1_f64).ln();
    let line = lines[0].as_object().unwrap();
    assert!((line["logprob"].as_f64().unwrap() - logprob).abs() < 1e-5);
    let mut keys: Vec<_> = line.keys().map(String::as_str).collect();
    keys.sort_unstable();
    let all = ["finish", "how", "ids", "lm_calls", "lm_passes", "log_weight", "logprob", "proposals", "text"];
    assert_eq!(keys, all);
    assert_eq!((&line["text"], &line["ids"]), (&json!("111"), &json!([1, 1, 1])));
    assert_eq!(
        (&line["finish"], &line["how"], &line["log_weight"]),
        (&json!("stop"), &json!("accepted"), &json!(0.0))
    );
}

#[test]
fn the_default_sampler_follows_the_exact_distribution() {
    let files = Files::new(&[("t.json", TABLE)]);
    let pattern = "(00000|1[01]{4}|0[01]{0,2})";
    let n = "100000";
    let args = [
        "generate",
        "--model",
        "table:t.json",
        "--regex",
        pattern,
        "--end",
        "model",
        "-n",
        n,
        "--seed",
        "5",
        "--format",
        "jsonl",
    ];
    let mut counts: HashMap<String, u64> = HashMap::new();
    for line in files.run(&args).json() {
        *counts.entry(line["text"].as_str().unwrap().to_owned()).or_default() += 1;
    }

    let mut model = TableModel::from_json(TABLE).unwrap();
    let vocabulary = model.vocabulary().clone();
    let constraint = unskew::automata::RegexConstraint::for_vocabulary(pattern, vocabulary.clone()).unwrap();
    let distribution =
        ExactDistribution::enumerate(&mut model, &constraint, &[], vocabulary.end_of_sequence(), 10, 1000)
            .unwrap();
    let text = |output| String::from_utf8(vocabulary.decode(output)).unwrap();
    assert!(counts.len() <= distribution.len());
    let fit = chi_square(
        distribution
            .iter()
            .map(|(output, probability)| (counts.get(&text(output)).copied().unwrap_or(0), probability)),
    );
    assert!(fit.deviation < 4.0, "{fit:?}");
    assert!(fit.degrees_of_freedom > 15, "{fit:?}");
}

#[test]
fn the_embedded_model_writes_dates_and_a_seed_repeats_them() {
    let dates = |n: &str, seed: &str| {
        unskew(&["generate", "--regex", DATE, "-n", n, "--seed", seed, "--format", "jsonl"])
    };
    let first = dates("20", "1");
    let date = Regex::new(&format!("^{DATE}$")).unwrap();
    let lines = first.json();
    assert_eq!(lines.len(), 20);
    for line in &lines {
        assert!(date.is_match(line["text"].as_str().unwrap()), "{line}");
        assert!(line["logprob"].as_f64().unwrap() < 0.0);
        assert_eq!(line["finish"], "stop");
    }
    assert_eq!(first.stdout, dates("20", "1").stdout);
    assert_ne!(first.stdout, dates("20", "2").stdout);
}

#[test]
fn every_sampler_and_option_runs_on_the_embedded_model() {
    let base = ["generate", "--prompt", "{\"name\": \"", "--seed", "3", "--format", "jsonl", "-n", "3"];
    let regex = ["--regex", r#"[A-Z][a-z]+ [A-Z][a-z]+", "age": [1-9][0-9], "city": "[A-Z][a-z]+"\}"#];
    for more in [
        &["--sampler", "masked"][..],
        &["--sampler", "disc:k=4,form=reuse"],
        &["--sampler", "masked", "--top-k", "40", "--truncate", "after-mask"],
        &["--top-p", "0.9", "--truncate", "before-mask", "--temperature", "0.8", "--sampler", "disc:k=20"],
    ] {
        let args = [&base[..], &regex, more].concat();
        for line in unskew(&args).json() {
            assert!(line["text"].as_str().unwrap().contains(' '), "{more:?}: {line}");
        }
    }
    // Without a constraint, and cut off.
    let args = [&base[..], &["--max-tokens", "2"]].concat();
    assert!(unskew(&args).json().iter().all(|line| line["ids"].as_array().unwrap().len() <= 2));
    let choices = ["--choice", "Anna", "--choice", "Zzyzx", "--sampler", "masked"];
    for line in unskew(&[&base[..], &choices].concat()).json() {
        assert!(["Anna", "Zzyzx"].contains(&line["text"].as_str().unwrap()));
    }
}

#[test]
fn mask_shows_what_may_follow() {
    let files = Files::new(&[("t.json", TABLE)]);
    let mask = |more: &[&str]| {
        let base = ["mask", "--model", "table:t.json", "--regex", "0*(11)?", "--format", "json", "--list"];
        files.run(&[&base, more].concat()).json().remove(0)
    };
    assert_eq!(mask(&[]), json!({"allowed": 2, "ids": [0, 1], "accepting": true, "forced": []}));
    let after = json!({"allowed": 1, "ids": [1], "accepting": false, "forced": [1]});
    assert_eq!(mask(&["--prefix", "001"]), after);
    assert_eq!(mask(&["--prefix-ids", "0, 0,1"]), after);
    assert_eq!(
        mask(&["--prefix-ids", "1,1"]),
        json!({"allowed": 0, "ids": [], "accepting": true, "forced": []})
    );
}

/// A DFA beyond the limits: two million states, and a million `a`.
#[test]
fn regexes_beyond_the_limits_of_a_dfa() {
    let twenty = "a".repeat(20);
    let check = |text: &str| {
        let args = ["check", "--regex", "(a|b)*a(a|b){20}", "--text", text, "--format", "json"];
        unskew(&args).json()[0]["accepted"].clone()
    };
    assert_eq!(check(&format!("bba{twenty}")), true);
    assert_eq!(check(&format!("bbb{twenty}")), false);
    let shown = unskew(&["mask", "--regex", "(a{1000}){1000}"]).stdout;
    assert!(shown.starts_with("1 of 2048 tokens allowed"), "{shown}");
    assert!(shown.ends_with("\" and 9900 more tokens\n"), "{shown}");
}

#[test]
fn check_says_where_and_whether_it_is_complete() {
    let check = |args: &[&str]| {
        let base = ["check", "--regex", "[0-9]{4}-[0-9]{2}", "--format", "json"];
        unskew(&[&base, args].concat()).json().remove(0)
    };
    assert_eq!(
        check(&["--text", "2024-12"]),
        json!({"accepted": true, "canonical": true, "rejected_at": null})
    );
    let digits: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
    assert_eq!(
        check(&["--text", "2024-"]),
        json!({"accepted": false, "canonical": true, "rejected_at": null, "rejection": {
            "offset": 5, "before": "2024-", "after": "", "expected": digits, "expected_count": 10, "may_end": false,
        }})
    );
    assert_eq!(check(&["--text", "x"])["rejected_at"], 0);
    let longer = &check(&["--text", "2024-12x"])["rejection"];
    assert_eq!(
        (&longer["offset"], &longer["after"], &longer["may_end"]),
        (&json!(7), &json!("x"), &json!(true))
    );
    let run = unskew(&["check", "--regex", "ab*c?", "--text", "abbxy"]);
    assert_eq!((run.code, &run.stderr[..]), (1, ""));
    let shown = "at byte 3, after \"abb\", there is \"xy\"; expected: \"b\", \"c\", the end\n";
    assert!(run.stdout.ends_with(shown), "{}", run.stdout);
    assert_eq!(unskew(&["check", "--regex", "ab*c?", "--text", "abb"]).code, 0);

    // Byte by byte: allowed, but not the tokenizer's own sequence. The bytes' ids are those of their own texts.
    let byte = |text: &str| {
        let answer = unskew(&["mask", "--choice", text, "--list", "--format", "json"]).json().remove(0);
        answer["ids"][0].as_u64().unwrap().to_string()
    };
    let ids = ["2", "0", "2", "4", "-", "1", "2"].map(byte).join(",");
    assert_eq!(check(&["--ids", &ids]), json!({"accepted": true, "canonical": false, "rejected_at": null}));
    // The end of the sequence, id 0, is allowed at the end and nowhere else.
    assert_eq!(check(&["--ids", &format!("{ids},0")])["accepted"], true);
    assert_eq!(check(&["--ids", "0"])["rejected_at"], 0);

    let timed = check(&["--text", "2024-12", "--timing"]);
    let times = timed["mask_us"].as_array().unwrap();
    assert!(times.len() > 2 && times.iter().all(|time| time.as_f64().unwrap() >= 0.0));
}

#[test]
fn check_answers_ten_thousand_lines() {
    let lines: String = (0..10_000)
        .map(|index| {
            if index % 2 == 0 {
                format!("{{\"text\": \"{index:04}-01\"}}\n")
            } else {
                "{\"ids\": [0]}\n".to_owned()
            }
        })
        .collect();
    let files = Files::new(&[("lines.jsonl", lines.as_bytes())]);
    let args = ["check", "--regex", "[0-9]{4}-[0-9]{2}", "--jsonl", "lines.jsonl", "--format", "jsonl"];
    let answers = files.run(&args).json();
    assert_eq!(answers.len(), 10_000);
    assert!(answers.iter().enumerate().all(|(index, answer)| answer["accepted"] == (index % 2 == 0)));
}

#[test]
fn logits_are_the_models_own() {
    let files = Files::new(&[("t.json", TABLE)]);
    let logits = |more: &[&str]| {
        files
            .run(&[&["logits", "--model", "table:t.json", "--format", "json"], more].concat())
            .json()
            .remove(0)
    };
    let near = |value: &serde_json::Value, probability: f64| {
        (value.as_f64().unwrap() - probability.ln()).abs() < 1e-6
    };
    let last = &logits(&["--ids", "0,0"])["logits"];
    assert!(near(&last[0], 0.9) && near(&last[1], 0.05) && near(&last[2], 0.05));
    let all = &logits(&["--ids", "0,0", "--all"])["logits"];
    assert!(near(&all[0][0], 0.45) && near(&all[1][0], 0.9));
    assert_eq!(logits(&["--ids", ""])["logits"][2], json!(null));
    assert_eq!(
        unskew(&["logits", "--ids", "0", "--format", "json"]).json()[0]["logits"].as_array().unwrap().len(),
        2048
    );
}

/// A checkpoint in a folder with a chat template and other stop tokens than its configuration's.
#[test]
fn chats_have_a_template_and_stop_tokens() {
    let template = r#"{"bos_token": "<|endoftext|>", "chat_template": "{{ bos_token }}Q: {{ messages[0].content | trim }}\nA:"}"#;
    let files = |more: &[(&str, &[u8])]| {
        let tiny = unskew::tiny_model::TINY;
        let all: [(&str, &[u8]); 3] = [
            ("m/config.json", tiny.config_json.as_bytes()),
            ("m/tokenizer.json", unskew::tiny_model::TOKENIZER_JSON.as_bytes()),
            ("m/model.safetensors", tiny.safetensors),
        ];
        Files::new(&[&all[..], more].concat())
    };
    let with = files(&[("m/tokenizer_config.json", template.as_bytes())]);
    let draw = |prompt: &str, chat: &[&str]| {
        let fixed = [
            "generate",
            "--model",
            "m",
            "--seed",
            "1",
            "--max-tokens",
            "8",
            "--regex",
            "[a-z ]*",
            "--format",
            "jsonl",
        ];
        with.run(&[&fixed[..], &["--prompt", prompt], chat].concat()).json()[0].clone()
    };
    assert_eq!(draw("Q: Who?\nA:", &[])["ids"], draw(" Who? ", &["--chat"])["ids"]);
    let refused = files(&[]).run(&["generate", "--model", "m", "--chat", "--prompt", "Who?"]);
    assert!(refused.refusal().contains("no chat template"), "{}", refused.refusal());
    // The token b is special here, and a grammar that names it holds it only where it does not end an output.
    let special = r#""added_tokens":[{"id":66,"content":"b","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},"#;
    let tokenizer = unskew::tiny_model::TOKENIZER_JSON.replacen("\"added_tokens\":[", special, 1);
    let allowed = |more: &[(&str, &[u8])]| {
        let own: [(&str, &[u8]); 2] =
            [("t.json", tokenizer.as_bytes()), ("g.lark", b"start: \"c\" | <[66]>")];
        let files = files(&[&own[..], more].concat());
        let arguments =
            ["mask", "--model", "m", "--tokenizer", "t.json", "--grammar", "g.lark", "--format", "jsonl"];
        files.run(&arguments).json()[0]["allowed"].clone()
    };
    let stops: (&str, &[u8]) = ("m/generation_config.json", br#"{"eos_token_id": [66]}"#);
    assert_eq!((allowed(&[]), allowed(&[stops])), (2.into(), 1.into()));
    let ordinary = files(&[stops]).run(&["mask", "--model", "m", "--regex", "b"]);
    assert!(ordinary.refusal().contains("66 is not a control token"), "{}", ordinary.refusal());
    let beyond = files(&[("m/generation_config.json", br#"{"eos_token_id": 99999999}"#)]);
    assert!(beyond.run(&["generate", "--model", "m", "--regex", "b"]).refusal().contains("99999999"));
}

#[test]
fn models_are_described_and_measured() {
    let info = unskew(&["model", "info", "tiny", "--format", "jsonl"]).json();
    assert_eq!(info[0]["architecture"], "llama");
    assert_eq!(info[0]["bytes"], unskew::tiny_model::TINY.safetensors.len());
    assert!(unskew(&["model", "info", "tiny"]).stdout.starts_with("llama, "));
    let speed =
        unskew(&["model", "bench", "tiny", "--steps", "2", "--prompt-tokens", "8", "--format", "jsonl"])
            .json();
    assert_eq!((&speed[0]["weights"], &speed[0]["decode"][1]["batch"]), (&"f16".into(), &8.into()));
    assert!(speed[0]["decode"][2]["tokens_per_s"].as_f64().unwrap() > 0.0);
    let eight =
        unskew(&["model", "bench", "tiny", "--steps", "2", "--quantize", "q8_0", "--format", "jsonl"]).json();
    assert_eq!(eight[0]["weights"], "q8_0");
    assert!(eight[0]["bytes"].as_u64() < speed[0]["bytes"].as_u64());
    assert!(unskew(&["model", "info", "table:t.json"]).refusal().contains("only a transformer"));
}

/// `--budget` and `--exact` choose the sampler, and every output says how it was made.
#[test]
fn a_budget_or_exactness_chooses_the_sampler() {
    let fixed = [
        "generate",
        "--regex",
        "[12][0-9]{3}",
        "--prompt",
        "born in ",
        "--seed",
        "1",
        "-n",
        "40",
        "--format",
        "jsonl",
    ];
    let how = |more: &[&str]| {
        let lines = unskew(&[&fixed[..], more].concat()).json();
        let proposals: u64 = lines.iter().map(|line| line["proposals"].as_u64().unwrap()).sum();
        let accepted = lines.iter().filter(|line| line["how"] == "accepted").count();
        (proposals, accepted)
    };
    assert_eq!(how(&["--exact"]).1, 40);
    assert_eq!(how(&["--budget", "1"]), (40, 0));
    let (proposals, accepted) = how(&["--budget", "2"]);
    assert!((50..=120).contains(&proposals) && accepted > 0, "{proposals} {accepted}");
    assert_eq!(how(&["--budget", "2"]), how(&["--sampler", "auto:budget=2"]));
    let text = unskew(&["generate", "--regex", "[12][0-9]{3}", "--budget", "2", "--seed", "1"]);
    assert!(
        text.stderr.contains("sampler twist: ") && text.stderr.contains("within a budget"),
        "{}",
        text.stderr
    );
    for (more, message) in [
        (&["--budget", "2", "--exact"][..], "cannot be used with"),
        (&["--budget", "0.5"], "it must lie between 1 and 1000000"),
        (
            &["--budget", "2", "--sampler", "cars"],
            "--budget chooses the sampler, and --sampler cars names one",
        ),
        (&["--exact", "--sampler", "masked"], "--exact chooses the sampler, and --sampler masked names one"),
    ] {
        let refused = unskew(&[&fixed[..], more].concat());
        assert!(refused.refusal().contains(message), "{}", refused.refusal());
    }
}
