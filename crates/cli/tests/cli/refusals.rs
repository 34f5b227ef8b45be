//! Bad input: one clear line that names the fault, the place and the way out, and exit code 2.

use crate::support::{Files, TABLE, unskew};
use insta::assert_snapshot;

fn refusal(args: &[&str]) -> String {
    unskew(args).refusal().to_owned()
}

fn with(files: &[(&str, &[u8])], args: &[&str]) -> String {
    Files::new(files).run(args).refusal().to_owned()
}

#[test]
fn usage() {
    assert_snapshot!(refusal(&["generate", "-n", "0"]));
    assert_snapshot!(refusal(&["generate", "--regex", "a", "--choice", "b"]));
    assert_snapshot!(refusal(&["generate", "--sampler", "magic"]));
    assert_snapshot!(refusal(&["generate", "--top-k", "3"]));
    assert_snapshot!(refusal(&["generate", "--top-k", "0", "--truncate", "before-mask"]));
    assert_snapshot!(refusal(&["generate", "--regex", "a", "--top-k", "3", "--truncate", "after-mask"]));
    assert_snapshot!(refusal(&["generate", "--truncate", "before-mask"]));
    assert_snapshot!(refusal(&["generate", "--temperature", "0"]));
    assert_snapshot!(refusal(&["generate", "--max-tokens", "5000"]));
    assert_snapshot!(refusal(&["check"]));
    assert_snapshot!(refusal(&["logits", "--ids", "1,x"]));
    assert_snapshot!(refusal(&["logits", "--ids", "1,5000"]));
    assert_snapshot!(refusal(&["logits", "--ids", ""]));
    assert_snapshot!(refusal(&["frobnicate"]));
}

#[test]
fn constraints() {
    assert_snapshot!(refusal(&["mask", "--regex", "a(b"]));
    assert_snapshot!(refusal(&["mask", "--regex", "ab\n(?=c)d"]));
    assert_snapshot!(refusal(&["mask", "--regex", r"(a)\1"]));
    assert_snapshot!(refusal(&["mask", "--regex", r"a\b\B"]));
    assert_snapshot!(refusal(&["mask", "--regex", "[a&&b]", "--with", "regex-dialect=rust"]));
    assert_snapshot!(refusal(&["mask", "--regex", "((a{1000}){1000}){1000}"]));
    assert_snapshot!(refusal(&["mask", "--choice", "a", "--choice", ""]));
    assert_snapshot!(refusal(&["mask", "--regex", "ab*", "--prefix", "ac"]));
    assert_snapshot!(with(&[("t.json", TABLE)], &["mask", "--model", "table:t.json", "--regex", "[a-z]+"]));
}

#[test]
fn canonical() {
    assert_snapshot!(with(&[("t.json", TABLE)], &["mask", "--model", "table:t.json", "--canonical"]));
    assert_snapshot!(with(&[("t.json", TABLE)], &["generate", "--model", "table:t.json", "--canonical"]));
    assert_snapshot!(refusal(&["mask", "--canonical", "--regex", r"<\|endoftext\|>"]));
    assert_snapshot!(refusal(&["check", "--canonical", "--choice", "<|endoftext|>", "--text", "a"]));
    assert_snapshot!(refusal(&["mask", "--canonical", "--regex", "a(b"]));
    // Allowed one by one, but not the tokenizer's own tokens of `the`.
    let prefix = ["mask", "--regex", "the", "--canonical", "--prefix", "th"];
    assert_snapshot!(refusal(&prefix));
    // A model without merges, and a step that cannot be followed.
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value: serde_json::Value = serde_json::from_str(unskew::tiny_model::TOKENIZER_JSON).unwrap();
        change(&mut value);
        with(&[("t.json", value.to_string().as_bytes())], &["mask", "--tokenizer", "t.json", "--canonical"])
    };
    assert_snapshot!(changed(&|value| value["model"]["dropout"] = serde_json::json!(0.1)));
    assert_snapshot!(changed(&|value| {
        let normalizers = [serde_json::json!({"type": "NFKC"}), serde_json::json!({"type": "NFD"})];
        value["normalizer"] = serde_json::json!({"type": "Sequence", "normalizers": normalizers});
    }));
}

/// Longer than any argument can be, so from a file.
#[test]
fn ten_megabytes_of_regex() {
    let pattern = vec![b'a'; 10 << 20];
    assert_snapshot!(with(&[("r.txt", &pattern)], &["mask", "--regex-file", "r.txt"]));
    assert_snapshot!(with(&[("r.txt", b"\xff")], &["mask", "--regex-file", "r.txt"]));
    assert_snapshot!(refusal(&["mask", "--regex-file", "nowhere.txt"]));
}

#[test]
fn tables() {
    let table = |text: &str| with(&[("t.json", text.as_bytes())], &["generate", "--model", "table:t.json"]);
    assert_snapshot!(table(
        r#"{"tokens": ["0"], "eos": 1, "default": [0.5, 0.5], "contexts": {"0 0": [0.5, 0.4]}}"#
    ));
    assert_snapshot!(table(r#"{"tokens": ["0"], "eos": 1}"#));
    assert_snapshot!(table("nonsense"));
    assert_snapshot!(refusal(&["generate", "--model", "table:nowhere.json"]));
    assert_snapshot!(with(&[("t.json", TABLE)], &["mask", "--model", "table:t.json", "--prefix", "0x1"]));
}

#[test]
fn tokenizers_and_checkpoints() {
    assert_snapshot!(refusal(&["mask", "--tokenizer", "nowhere.json"]));
    assert_snapshot!(with(&[("t.json", b"{}")], &["mask", "--tokenizer", "t.json"]));
    assert_snapshot!(with(&[("t.json", b"{\n  nonsense")], &["mask", "--tokenizer", "t.json"]));
    assert_snapshot!(refusal(&["generate", "--model", "nowhere"]));

    let tiny = unskew::tiny_model::TINY;
    let tokenizer = unskew::tiny_model::TOKENIZER_JSON.as_bytes();
    let checkpoint = |config: &str, weights: &[u8]| {
        let files = [
            ("m/config.json", config.as_bytes()),
            ("m/model.safetensors", weights),
            ("m/tokenizer.json", tokenizer),
        ];
        with(&files, &["generate", "--model", "m"])
    };
    assert_snapshot!(checkpoint(tiny.config_json, &tiny.safetensors[..100_000]));
    assert_snapshot!(checkpoint(
        &tiny.config_json.replace("\"hidden_size\": 192", "\"hidden_size\": 96"),
        tiny.safetensors
    ));
    assert_snapshot!(checkpoint(&tiny.config_json.replace("\"llama\"", "\"mamba\""), tiny.safetensors));
    assert_snapshot!(checkpoint("{}", tiny.safetensors));

    let nothing_begins = |text: &str| {
        let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
        for key in ["bos_token_id", "post_processor"] {
            value.as_object_mut().unwrap().remove(key);
        }
        value.to_string()
    };
    let config = nothing_begins(tiny.config_json);
    let tokenizer_json = nothing_begins(unskew::tiny_model::TOKENIZER_JSON);
    let files = [
        ("m/config.json", config.as_bytes()),
        ("m/tokenizer.json", tokenizer_json.as_bytes()),
        ("m/model.safetensors", tiny.safetensors),
    ];
    assert_snapshot!("nothing_begins", with(&files, &["generate", "--model", "m"]));
    let files =
        Files::new(&[("m/config.json", tiny.config_json.as_bytes()), ("m/tokenizer.json", tokenizer)]);
    assert!(!files.path("m/model.safetensors").exists());
    assert_snapshot!(files.run(&["generate", "--model", "m"]).refusal());

    // Ids beyond the model's rows are unused, so that the weights are looked for.
    let mut few: serde_json::Value = serde_json::from_str(tiny.config_json).unwrap();
    few["vocab_size"] = 300.into();
    few["bos_token_id"] = serde_json::Value::Null;
    few["eos_token_id"] = serde_json::Value::Null;
    let files = Files::new(&[("m/config.json", few.to_string().as_bytes()), ("m/tokenizer.json", tokenizer)]);
    let error = files.run(&["generate", "--model", "m"]).refusal().to_owned();
    assert!(error.contains("model.safetensors"), "{error}");
}

#[test]
fn lines() {
    let lines = |text: &str, answered: usize| {
        let files = Files::new(&[("l.jsonl", text.as_bytes())]);
        let run = files.run(&["check", "--regex", "a+", "--jsonl", "l.jsonl", "--format", "jsonl"]);
        assert_eq!(run.code, 2);
        // The lines before the bad one were answered.
        assert_eq!(run.stdout.lines().count(), answered);
        run.stderr.trim_end().to_owned()
    };
    assert_snapshot!(lines("{\"text\": \"a\"}\n{\"text\": \"a\"}\n{\"text\": \"a\"\n", 2));
    assert_snapshot!(lines("{\"text\": \"a\"}\n{\"words\": 3}\n", 1));
    assert_snapshot!(lines("{\"text\": \"a\", \"ids\": [1]}\n", 0));
    assert_snapshot!(lines("{}", 0));
}

/// A failure that the user cannot foresee is no usage error: exit code 1.
#[test]
fn what_the_model_never_writes() {
    let table = br#"{"tokens": ["0", "1"], "eos": 2, "default": [0.9, 0.0, 0.1]}"#;
    let files = Files::new(&[("t.json", table)]);
    let run = files.run(&[
        "generate",
        "--model",
        "table:t.json",
        "--regex",
        "1+",
        "--seed",
        "1",
        "--format",
        "jsonl",
    ]);
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr.trim_end());
}
