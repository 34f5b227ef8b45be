//! `--set` and `unskew set`.

use crate::support::{Files, TABLE, unskew};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// Names of which one begins another, with a duplicate and a blank line.
const NAMES: &[u8] = "Ada Lovelace\nAda\nGrace Hopper\n\nAda\nMary Sömerville\n".as_bytes();

fn files() -> Files {
    Files::new(&[("names.txt", NAMES), ("t.json", TABLE), ("bits.txt", b"00\n01\n111\n")])
}

#[test]
fn outputs_are_items() {
    let files = files();
    let built = files.run(&["set", "build", "names.txt", "-o", "names.set", "--format", "json"]).json();
    assert_eq!(
        (&built[0]["items"], &built[0]["duplicates"], &built[0]["blank"]),
        (&json!(4), &json!(1), &json!(1))
    );
    assert!(built[0]["build_ms"].is_u64() && built[0]["max_len"].is_u64());
    for set in ["names.txt", "names.set"] {
        // The default sampler.
        let args =
            ["generate", "--set", set, "--prompt", "The first programmer was ", "-n", "12", "--seed", "3"];
        let lines = files.run(&[&args[..], &["--format", "json"]].concat()).json();
        assert_eq!(lines.len(), 12);
        for line in &lines {
            let text = line["text"].as_str().unwrap();
            assert!(["Ada Lovelace", "Ada", "Grace Hopper", "Mary Sömerville"].contains(&text), "{text:?}");
            assert_eq!(line["finish"], "stop");
        }
        let accepted = |text: &str| {
            let run = files.run(&["check", "--set", set, "--text", text, "--format", "json"]);
            run.json()[0]["accepted"] == Value::Bool(true)
        };
        assert!(accepted("Ada") && accepted("Ada Lovelace") && accepted("Mary Sömerville"));
        assert!(!accepted("Ada L") && !accepted("") && !accepted("Grace"));
    }
    // The same seed gives the same outputs, whether the set was built before or not.
    let texts = |set: &str| {
        files
            .run(&[
                "generate", "--set", set, "--prompt", "I am ", "-n", "5", "--seed", "9", "--format", "json",
            ])
            .stdout
    };
    assert_eq!(texts("names.txt"), texts("names.set"));
}

/// Outputs of the table under the set, which the model ends.
const DRAWN: [&str; 9] =
    ["generate", "--model", "table:t.json", "--set", "bits.txt", "--end", "model", "--format", "json"];

/// The distribution of the default sampler on a set, by hand: P(00) = .5 .5 .05 .. as the table has it.
#[test]
fn the_distribution_is_the_models() {
    let files = files();
    let lines = files.run(&[&DRAWN[..], &["-n", "4000", "--seed", "1"]].concat()).json();
    let share = |text: &str| lines.iter().filter(|line| line["text"] == text).count() as f64 / 4000.0;
    // After nothing .5 .5; after "0 0" the end has .05; every other context is .45 .45 .10.
    let mass = [0.5 * 0.45 * 0.05, 0.5 * 0.45 * 0.10, 0.5 * 0.45 * 0.45 * 0.10];
    for (text, mass_of) in ["00", "01", "111"].into_iter().zip(mass) {
        let expected = mass_of / mass.iter().sum::<f64>();
        let sigma = (expected * (1.0 - expected) / 4000.0).sqrt();
        assert!((share(text) - expected).abs() < 4.0 * sigma, "{text}: {} and not {expected}", share(text));
    }
}

/// The paper's two uses: DISC over candidates, and beam search.
#[test]
fn candidates_and_beams_stay_in_the_set() {
    let files = files();
    let texts = |sampler: &[&str]| -> Vec<String> {
        let lines = files.run(&[&DRAWN[..], &["--seed", "2"], sampler].concat()).json();
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    // Of equal tokens the first is a candidate, so that each step has one, and the end.
    let only = texts(&["--sampler", "disc:k=4,top_m=1", "-n", "20"]);
    assert!(only.iter().all(|text| text == "00"), "{only:?}");
    let all = texts(&["--sampler", "disc:k=4,top_m=2", "-n", "200"]);
    assert!(["00", "01", "111"].iter().all(|item| all.iter().any(|text| text == item)), "{all:?}");
    assert!(all.iter().all(|text| ["00", "01", "111"].contains(&text.as_str())), "{all:?}");
    assert_eq!(texts(&["--sampler", "beam:n=3", "-n", "3"]), ["01", "00", "111"]);
}

#[test]
fn masks_are_exact() {
    let files = files();
    let args = ["--model", "table:t.json", "--set", "bits.txt", "--format", "json"];
    let mask = |prefix: &str| {
        files.run(&[&["mask", "--list", "--prefix-ids", prefix][..], &args].concat()).json().remove(0)
    };
    assert_eq!(mask("0")["ids"], json!([0, 1]));
    let forced = mask("1");
    assert_eq!((&forced["ids"], &forced["forced"]), (&json!([1]), &json!([1, 1])));
    assert_eq!(mask("1,1,1")["accepting"], json!(true));
}

#[test]
fn what_is_left_out_is_said() {
    let files = files();
    let run = files.run(&["set", "build", "names.txt", "-o", "names.set"]);
    assert_eq!(
        run.stderr,
        "names.txt: left out as duplicates: 1 (line 5 is line 2)\nnames.txt: left out as blank: 1 (line 4)\n"
    );
    assert!(run.stdout.starts_with("4 items of up to "), "{}", run.stdout);
    let info = files.run(&["set", "info", "names.set", "--format", "json"]).json();
    assert_eq!((&info[0]["items"], &info[0]["build_ms"]), (&json!(4), &json!(null)));
    let bytes = std::fs::metadata(files.path("names.set")).unwrap().len();
    assert_eq!(info[0]["bytes"], json!(bytes));
}

/// A pipe can be read once.
#[cfg(unix)]
#[test]
fn items_may_come_through_a_pipe() {
    let files = files();
    let pipe = files.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, NAMES).unwrap()
    });
    let run = files.run(&["check", "--set", "pipe", "--text", "Ada Lovelace", "--format", "json"]);
    writer.join().unwrap();
    assert_eq!(run.json()[0]["accepted"], json!(true));
}

#[test]
fn a_healed_prompt_is_the_beginning_of_items() {
    let files = Files::new(&[("ends.txt", b"u very much\nu\n")]);
    let args = ["--set", "ends.txt", "--prompt", "Dear Ms Meyer, thank yo", "--heal", "--seed", "1"];
    let lines = files.run(&[&["generate", "--format", "json", "-n", "3"][..], &args].concat()).json();
    for line in &lines {
        assert!(["u very much", "u"].contains(&line["text"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn bad_sets_are_refused() {
    let files = Files::new(&[
        ("empty.txt", b"\n\n"),
        ("latin.txt", b"Ada\nS\xf6merville\n"),
        ("names.txt", NAMES),
        ("t.json", TABLE),
        ("letters.txt", b"00\n0a\n"),
    ]);
    assert_eq!(files.run(&["set", "build", "names.txt", "-o", "names.set"]).code, 0);
    let refusal = |args: &[&str]| files.run(args).refusal().to_owned();
    assert_snapshot!(refusal(&["mask", "--set", "nowhere.txt"]));
    assert_snapshot!(refusal(&["mask", "--set", "latin.txt"]));
    assert_snapshot!(refusal(&["mask", "--set", "letters.txt", "--model", "table:t.json"]));
    // Its sequences are compared with the tokenizer's.
    assert_eq!(files.run(&["mask", "--set", "names.set", "--canonical"]).code, 0);
    assert_snapshot!(refusal(&["set", "build", "names.set", "-o", "again.set"]));
    assert_snapshot!(refusal(&["set", "info", "names.txt"]));
    assert_snapshot!(refusal(&["set", "build", "names.txt"]));
    // The list of omitted lines comes first.
    assert_eq!(files.run(&["mask", "--set", "empty.txt"]).code, 2);
    let foreign = refusal(&["mask", "--set", "names.set", "--model", "table:t.json"]);
    assert!(foreign.contains("names.set: the set was built with another tokenizer ("), "{foreign}");

    let bytes = std::fs::read(files.path("names.set")).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        let files = Files::new(&[("s", &changed)]);
        files.run(&["mask", "--set", "s"]).refusal().to_owned()
    };
    let len = bytes.len();
    assert!(with(&|bytes| bytes.truncate(len - 1)).contains("bytes where its header says"));
    for at in [30, len / 3, len / 2, len - 1] {
        let refusal = with(&|bytes| bytes[at] ^= 1);
        assert!(refusal.starts_with("error: s: the set"), "{at}: {refusal}");
    }
    assert_eq!(unskew(&["mask", "--set", "a", "--choice", "b"]).code, 2);
}

/// Where there is no adapter, the CPU draws the same, and says so.
#[cfg(feature = "wgpu")]
#[test]
fn a_model_on_the_gpu_draws_items() {
    let files = files();
    let args =
        ["generate", "--set", "names.txt", "--prompt", "The first programmer was ", "--format", "json"];
    let run = |more: &[&str]| files.run(&[&args[..], more].concat());
    let there = !run(&["--sampler", "greedy", "--with", "gpu"]).stderr.contains("warning: --with gpu");
    let text = |run: &crate::support::Run| -> Vec<String> {
        run.json().iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    let greedy = run(&["--sampler", "greedy", "--with", "gpu"]);
    assert_eq!(text(&greedy), text(&run(&["--sampler", "greedy"])));
    for more in [
        &["--sampler", "masked", "-n", "9"][..],
        &["--sampler", "disc:form=published,k=3", "-n", "2"],
        &["--sampler", "disc"],
        &["--sampler", "cars", "-n", "3"],
        &["--sampler", "masked", "--top-k", "9", "--truncate", "after-mask"],
        &["--sampler", "masked", "--top-k", "9", "--truncate", "before-mask", "--temperature", "0.8"],
    ] {
        let drawn = run(&[more, &["--with", "gpu", "--seed", "4"]].concat());
        for line in drawn.json() {
            let text = line["text"].as_str().unwrap();
            assert!(["Ada Lovelace", "Ada", "Grace Hopper", "Mary Sömerville"].contains(&text), "{line}");
        }
        assert!(there != drawn.stderr.contains("warning: --with gpu"), "{}", drawn.stderr);
    }
}
