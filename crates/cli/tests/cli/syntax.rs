//! Parameters behind the name of a method, options behind `--with`, constraints in JSON, and names that are the same
//! everywhere.

use serde_json::{Value, json};

use crate::support::{Files, Run, TABLE};

const TASK: [&str; 4] = ["--model", "table:t.json", "--seed", "3"];

fn generate(files: &Files, more: &[&str]) -> Run {
    files.run(&[&["generate", "--format", "jsonl"], &TASK[..], more].concat())
}

#[test]
fn methods_read_their_parameters() {
    let files = Files::new(&[("t.json", TABLE)]);
    let with = |method: &str, more: &[&str]| {
        let args = ["--regex", "[01]{1,4}", "-n", "8", "--sampler", method];
        generate(&files, &[&args[..], more].concat()).json()
    };
    for method in [
        "disc:k=4,form=published",
        "disc:top_m=1",
        "asap:iterations=3",
        "smc:n=4,threshold=0.3,twisted",
        "smc:n=3,all",
        "mcmc:steps=3,cut=restart",
        "cars:tries=500",
    ] {
        assert_eq!(with(method, &[]).len(), 8, "{method}");
    }
    assert_eq!(with("mentored:kl=0.2,budget=sequence,length=2", &["--draft-model", "ngram"]).len(), 8);
    let best = generate(&files, &["--regex", "[01]{1,4}", "-n", "2", "--sampler", "beam:n=3"]).json();
    assert_eq!(best.len(), 2);
}

#[test]
fn wrong_parameters_are_refused_with_those_of_the_method() {
    let files = Files::new(&[("t.json", TABLE)]);
    for (method, message) in [
        ("fair", "there is no sampler `fair`; there are auto, masked, rejection"),
        ("smc:k=3", "smc has no parameter `k`; it has n, threshold, twisted, values, all, tries"),
        ("masked:k=3", "masked has no parameter `k`; it has none"),
        ("auto:k=3", "auto has no parameter `k`; it has budget, exact"),
        ("disc:k=4,k=5", "disc: the parameter `k` is given twice"),
        ("disc:k=many", "disc: `k` is not \"many\": give a whole number from 0 to "),
        ("disc:form=odd", "disc: `form` is not \"odd\": it is learned, published, reuse"),
        ("smc:n=1000000000", "smc: `n` is not \"1000000000\": give a whole number from 1 to "),
        ("mentored", "mentored needs the parameter `kl`"),
        ("rejection:length=3", "the parameter `length` is that of the drafts of a --draft-model"),
        ("speculative", "speculation needs --draft-model"),
    ] {
        let run = generate(&files, &["--regex", "1", "--sampler", method]);
        assert!(run.refusal().contains(message), "{method}: {}", run.refusal());
    }
    let audit = |samplers: &str| {
        files.run(
            &[
                &["audit", "--regex", "1|0[01]", "-n", "9", "--samplers", samplers, "--format", "jsonl"],
                &TASK[..],
            ]
            .concat(),
        )
    };
    let lines = audit("masked,smc:n=4,twisted,disc:k=3").json();
    assert_eq!(lines.iter().map(|line| &line["sampler"]).collect::<Vec<_>>(), ["masked", "smc", "disc"]);
    assert!(audit("masked,fair").refusal().contains("no sampler `fair`"));
    assert!(audit("smc:n=4,fair").refusal().contains("smc has no parameter `fair`"));
}

/// A constraint is the same as flags with `--with`, and in JSON.
#[test]
fn constraints_have_two_spellings() {
    let files = Files::new(&[
        ("t.json", TABLE),
        ("s.json", br#"{"type": "array", "items": {"const": 1}, "maxItems": 2}"#),
        ("spec.json", br#"{"json_schema": {"type": "array", "items": {"const": 1}, "maxItems": 2}, "whitespace": "compact"}"#),
        ("file.json", br#"{"json_schema_file": "s.json", "whitespace": "compact"}"#),
        ("canonical.json", br#"{"regex": "abc", "canonical": true}"#),
        ("choices.json", br#"{"choices": ["yes", "no"]}"#),
        ("grammar.json", br#"{"grammar": "start: \"a\"", "grammar_format": "lark"}"#),
        ("g.lark", b"start: \"a\""),
    ]);
    let mask = |more: &[&str]| files.run(&[&["mask", "--list", "--format", "jsonl"], more].concat()).json();
    let schema = ["--json-schema", "s.json"];
    // White space may follow a bracket.
    let inside = |more: &[&str]| mask(&[&["--prefix", "["], more].concat());
    let expected = inside(&[&schema[..], &["--with", "whitespace=compact"]].concat());
    assert_ne!(expected, inside(&schema));
    assert_eq!(expected, inside(&["--spec", "spec.json"]));
    assert_eq!(expected, inside(&["--spec", "file.json"]));
    assert_eq!(mask(&["--spec", "canonical.json"]), mask(&["--regex", "abc", "--canonical"]));
    assert_eq!(mask(&["--spec", "choices.json"]), mask(&["--choice", "yes", "--choice", "no"]));
    assert_eq!(mask(&["--spec", "grammar.json"]), mask(&["--grammar", "g.lark"]));
    let all =
        ["--with", "whitespace=indent:2,ascii", "--with", "any_order", "--with", "exponents=1,margin=2"];
    assert_eq!(files.run(&[&["mask"], &schema[..], &all].concat()).code, 0);
    // And `explain` reads all of them.
    let explain = |more: &[&str]| files.run(&[&["explain", "--format", "jsonl"], more].concat()).json();
    assert_eq!(explain(&["--spec", "grammar.json"]), explain(&["--grammar", "g.lark"]));
}

#[test]
fn wrong_constraints_are_refused_in_one_line() {
    let files = Files::new(&[
        ("two.json", br#"{"regex": "a", "set": "b"}"#),
        ("stray.json", br#"{"regex": "a", "ascii": true}"#),
        ("typo.json", br#"{"regexp": "a"}"#),
        ("none.json", b"["),
        ("good.json", br#"{"regex": "a"}"#),
        ("s.json", b"{}"),
    ]);
    let refused = |args: &[&str], message: &str| {
        let run = files.run(args);
        assert!(run.refusal().contains(message), "{args:?}: {}", run.refusal());
    };
    refused(&["mask", "--spec", "two.json"], "two.json: `regex` and `set` are two constraints");
    refused(&["mask", "--spec", "stray.json"], "stray.json: `ascii` is for the strings of a `json_schema`");
    refused(&["mask", "--spec", "typo.json"], "unknown field `regexp`");
    refused(&["mask", "--spec", "none.json"], "none.json: not a constraint in JSON");
    refused(&["mask", "--spec", "nowhere.json"], "nowhere.json: No such file");
    refused(&["mask", "--spec", "good.json", "--canonical"], "--spec FILE is the whole constraint");
    refused(&["mask", "--spec", "good.json", "--regex", "a"], "cannot be used with '--regex <R>'");
    refused(&["mask", "--with", "ascii"], "--with ascii is for the strings of a --json-schema");
    refused(
        &["mask", "--json-schema", "s.json", "--with", "odd"],
        "--with has no option \"odd\"; it has regex-dialect, whitespace",
    );
    refused(&["mask", "--json-schema", "s.json", "--with", "whitespace"], "--with whitespace needs a value");
    refused(
        &["mask", "--json-schema", "s.json", "--with", "whitespace=wide"],
        "it is `compact`, `spaced`, `line`, `printed`, `flexible`",
    );
    refused(&["mask", "--json-schema", "s.json", "--with", "ascii=3"], "--with ascii is a switch");
    refused(&["mask", "--json-schema", "s.json", "--with", "exponents=x"], "is no whole number");
    refused(&["mask", "--json-schema", "s.json", "--with", "exponents=101"], "give a whole number up to 100");
    refused(&["explain", "--choice", "a"], "has constructs to explain");
}

#[test]
fn names_are_the_same_everywhere() {
    let files = Files::new(&[("t.json", TABLE), ("lines.txt", b"0\n1\n"), ("r.txt", b"a+\n")]);
    let count = |flag: &str| generate(&files, &["--regex", "[01]", flag, "3"]).json().len();
    assert_eq!((count("-n"), count("--samples")), (3, 3));
    for flag in ["-o", "--out", "--output"] {
        let args = ["set", "build", "lines.txt", flag, "a.set", "--model", "table:t.json"];
        assert_eq!(files.run(&args).code, 0, "{flag}");
        let args = ["audit", "--regex", "1", "-n", "3", "--samplers", "masked", flag, "r.html"];
        assert_eq!(files.run(&[&args[..], &TASK].concat()).code, 0, "{flag}");
    }
    let explained = files.run(&["explain", "--regex-file", "r.txt", "--format", "jsonl"]).json();
    assert_eq!(explained[0]["fate"], "enforced");
}

/// The list of flags can be read at one glance.
#[test]
fn help_lists_what_a_run_needs() {
    let files = Files::new(&[("t.json", TABLE)]);
    let help = files.run(&["generate", "--help"]).stdout;
    let options: Vec<&str> = help
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('-'))
        .filter(|line| !line.starts_with("- "))
        .collect();
    assert!((20..=46).contains(&options.len()), "{}: {options:#?}", options.len());
    for shown in
        ["- smc: ", "twisted: use the bounds", "k=N: try K times", "whitespace=compact", "--draft-model"]
    {
        assert!(help.contains(shown), "{shown}");
    }
}

/// People read passes and positions; the fields of JSON keep their names.
#[test]
fn costs_have_their_own_names() {
    let files = Files::new(&[("t.json", TABLE)]);
    let text =
        files.run(&[&["generate", "--regex", "1{3}", "--sampler", "masked"], &TASK[..]].concat()).stdout;
    assert!(text.contains(" positions in ") && text.contains(" passes, "), "{text}");
    let line: Value = generate(&files, &["--regex", "1{3}", "--sampler", "masked"]).json().remove(0);
    assert_ne!((&line["lm_calls"], &line["lm_passes"]), (&json!(null), &json!(null)));
}

/// A set of more than a megabyte is opened without reading it: damage in a column is found by `set info`, and never a
/// panic.
#[test]
fn a_large_set_is_not_read_to_be_opened() {
    let lines: String = (0..60_000_u32).map(|n| format!("{:09b}{:016b}\n", n % 509, n)).collect();
    let files = Files::new(&[("t.json", TABLE), ("lines.txt", lines.as_bytes())]);
    let build = ["set", "build", "lines.txt", "-o", "a.set", "--model", "table:t.json"];
    assert_eq!(files.run(&build).code, 0);
    let bytes = std::fs::read(files.path("a.set")).unwrap();
    assert!(bytes.len() > 1 << 20, "{}", bytes.len());
    let run = |at: usize| {
        let mut damaged = bytes.clone();
        damaged[at..at + 64].fill(0xff);
        std::fs::write(files.path("b.set"), damaged).unwrap();
        let info = files.run(&["set", "info", "b.set"]);
        assert!(info.refusal().starts_with("error: b.set: the set"), "{at}: {}", info.refusal());
        generate(&files, &["--set", "b.set", "--sampler", "masked", "-n", "20"])
    };
    for at in [bytes.len() / 5, bytes.len() / 3, bytes.len() / 2, bytes.len() * 3 / 4] {
        let drawn = run(at);
        assert!([0, 1, 2].contains(&drawn.code), "{at}: {}", drawn.stderr);
        assert!(drawn.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    }
    // The header is checked.
    assert_eq!(run(40).code, 2);
}
