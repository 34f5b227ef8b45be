//! `--save-trie` and `--load-trie`: two runs are one, and bounds of another task are refused.

use crate::support::{Files, Run, TABLE};
use insta::assert_snapshot;

const PATTERN: &str = "(00000|1[01]{4}|0[01]{0,2})";

fn generate(files: &Files, more: &[&str]) -> Run {
    let args = ["generate", "--model", "table:t.json", "--regex", PATTERN, "--format", "jsonl"];
    files.run(&[&args[..], more].concat())
}

/// The outputs, and their cost in tries: positions are fewer where rows are still at hand.
fn outputs(run: &Run) -> Vec<(String, u64, String)> {
    let line = |line: &serde_json::Value| {
        let logprob = line["logprob"].to_string();
        (line["text"].as_str().unwrap().to_owned(), line["proposals"].as_u64().unwrap(), logprob)
    };
    run.json().iter().map(line).collect()
}

#[test]
fn two_runs_are_one() {
    for sampler in ["cars", "ars", "asap:iterations=3", "disc"] {
        let files = Files::new(&[("t.json", TABLE)]);
        // One after the other, each learns from all before it.
        let with =
            |more: &[&str]| generate(&files, &[&["--sampler", sampler, "--batch", "1"], more].concat());
        let whole = outputs(&with(&["-n", "30", "--seed", "4"]));
        let first = with(&["-n", "12", "--seed", "4", "--save-trie", "a.trie"]);
        let second = with(&["-n", "10", "--load-trie", "a.trie", "--save-trie", "a.trie"]);
        let third = with(&["-n", "8", "--load-trie", "a.trie"]);
        let parts: Vec<_> = [&first, &second, &third].into_iter().flat_map(outputs).collect();
        assert_eq!(parts, whole, "{sampler}");
        assert!(!files.path("a.trie.partial").exists());
        // The same bounds, and other random numbers.
        let other = outputs(&with(&["-n", "8", "--load-trie", "a.trie", "--seed", "9"]));
        assert_ne!(other, outputs(&third), "{sampler}");
    }
}

#[test]
fn the_auto_sampler_and_one_that_gives_up_are_kept_too() {
    let files = Files::new(&[("t.json", TABLE)]);
    let first = generate(&files, &["-n", "3", "--seed", "1", "--save-trie", "a.trie"]);
    assert_eq!(first.json().len(), 3);
    // Next to nothing of the model satisfies it; the bounds that were learned until the tries ran out are kept.
    let args = ["generate", "--model", "table:t.json", "--regex", "(01){40}", "--max-tokens", "90"];
    let args = [&args[..], &["--sampler", "ars:tries=2", "--seed", "1", "--save-trie", "b.trie"]].concat();
    assert_eq!(files.run(&args).code, 1);
    assert!(files.path("b.trie").exists());
}

#[test]
fn what_belongs_to_another_task_is_refused() {
    let table = String::from_utf8(TABLE.to_vec()).unwrap().replace("0.45, 0.45, 0.10", "0.40, 0.50, 0.10");
    let files = Files::new(&[("t.json", TABLE), ("u.json", table.as_bytes()), ("junk", b"no trie")]);
    let saved = generate(&files, &["-n", "3", "--sampler", "cars", "--seed", "1", "--save-trie", "a.trie"]);
    assert_eq!(saved.code, 0, "{}", saved.stderr);
    let refused = |args: &[&str]| {
        let args = [&["generate", "--load-trie", "a.trie", "--sampler", "cars"], args].concat();
        files.run(&args).refusal().to_owned()
    };
    let task = ["--model", "table:t.json", "--regex", PATTERN];
    let but = |more: &[&str]| refused(&[&task[..], more].concat());
    assert_snapshot!(refused(&["--model", "table:u.json", "--regex", PATTERN]));
    assert_snapshot!(refused(&["--model", "table:t.json", "--regex", "[01]{4}"]));
    assert_snapshot!(but(&["--prompt", "0"]));
    assert_snapshot!(but(&["--temperature", "0.5"]));
    let limit = but(&["--max-tokens", "7"]);
    assert!(limit.contains("another task"), "{limit}");
    let other = files.run(&[&["generate", "--load-trie", "junk", "--sampler", "cars"], &task[..]].concat());
    assert_snapshot!(other.refusal());
    let masked =
        files.run(&[&["generate", "--save-trie", "c.trie", "--sampler", "masked"], &task[..]].concat());
    assert_snapshot!(masked.refusal());
    // One bit.
    let mut bytes = std::fs::read(files.path("a.trie")).unwrap();
    let at = bytes.len() - 30;
    bytes[at] ^= 1;
    std::fs::write(files.path("a.trie"), bytes).unwrap();
    assert_snapshot!(but(&[]));
}
