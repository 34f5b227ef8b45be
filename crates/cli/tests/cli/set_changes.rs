//! `unskew set add`, `remove`, `compact` and `subset`; `--subset`, `--exclude-set` and `--with gpu`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{Files, TABLE};

const NAMES: &[u8] = b"Ada Lovelace\nAda\nGrace Hopper\nMary Somerville\n";

/// A built set, and files with lines.
fn files() -> Files {
    let files = Files::new(&[
        ("names.txt", NAMES),
        ("new.txt", b"Emmy Noether\n\nAda\nLise Meitner\n"),
        ("gone.txt", b"Ada\nMary Somerville\nLise Meitner\n"),
        ("unknown.txt", b"Ada\nGrace\n"),
        ("hopper.txt", b"Grace Hopper\nAda Lovelace\n"),
        ("t.json", TABLE),
        ("bits.txt", b"00\n01\n111\n"),
    ]);
    assert_eq!(files.run(&["set", "build", "names.txt", "-o", "names.set"]).code, 0);
    files
}

/// Which of these texts an option allows.
fn allowed(files: &Files, option: &[&str]) -> Vec<&'static str> {
    let texts =
        ["Ada", "Ada Lovelace", "Emmy Noether", "Grace Hopper", "Lise Meitner", "Mary Somerville", "Ad"];
    let accepted = |text: &&str| {
        let run = files.run(&[&["check", "--text", text, "--format", "json"][..], option].concat());
        run.json()[0]["accepted"] == Value::Bool(true)
    };
    texts.into_iter().filter(accepted).collect()
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let files = files();
    let names: Vec<String> = (0..6).map(|index| format!("Author {index}")).collect();
    for (index, name) in names.iter().enumerate() {
        std::fs::write(files.path(&format!("{index}.txt")), name).unwrap();
    }
    std::thread::scope(|scope| {
        for index in 0..names.len() {
            let files = &files;
            scope.spawn(move || {
                let lines = format!("{index}.txt");
                assert_eq!(files.run(&["set", "add", "names.set", "--lines", &lines]).code, 0);
            });
        }
    });
    let info = files.run(&["set", "info", "names.set", "--format", "json"]).json().remove(0);
    assert_eq!((&info["items"], &info["pending_added"]), (&json!(4), &json!(6)));
}

#[test]
fn items_are_added_removed_and_made_one_set() {
    let files = files();
    let run = |args: &[&str]| files.run(&[args, &["--format", "json"]].concat()).json().remove(0);
    let added = run(&["set", "add", "names.set", "--lines", "new.txt"]);
    assert_eq!(
        added,
        json!({"items": 6, "changed": 2, "unchanged": 1, "blank": 1, "pending_added": 2, "pending_removed": 0})
    );
    assert!(files.path("names.set.delta").exists());
    let removed = run(&["set", "remove", "names.set", "--lines", "gone.txt"]);
    assert_eq!(
        removed,
        json!({"items": 3, "changed": 3, "unchanged": 0, "blank": 0, "pending_added": 1, "pending_removed": 2})
    );
    let left = ["Ada Lovelace", "Emmy Noether", "Grace Hopper"];
    assert_eq!(allowed(&files, &["--set", "names.set"]), left);
    let info = run(&["set", "info", "names.set"]);
    assert_eq!(
        (&info["items"], &info["pending_added"], &info["pending_removed"]),
        (&json!(4), &json!(1), &json!(2))
    );
    // They are no items any more.
    assert_snapshot!(files.run(&["set", "remove", "names.set", "--lines", "gone.txt"]).refusal());

    // Into another file, and then in the place of the old one.
    let compact = run(&["set", "compact", "names.set", "-o", "other.set"]);
    assert_eq!((&compact["items"], &compact["pending_added"]), (&json!(3), &Value::Null));
    assert_eq!(allowed(&files, &["--set", "other.set"]), left);
    assert!(files.path("names.set.delta").exists());
    run(&["set", "compact", "names.set"]);
    assert!(!files.path("names.set.delta").exists());
    assert_eq!(allowed(&files, &["--set", "names.set"]), left);
    assert_eq!(
        std::fs::read(files.path("names.set")).unwrap(),
        std::fs::read(files.path("other.set")).unwrap()
    );
    // Nothing to do.
    run(&["set", "compact", "names.set"]);
    assert_eq!(allowed(&files, &["--set", "names.set"]), left);

    // An item that is added and removed again leaves no change.
    run(&["set", "add", "names.set", "--lines", "unknown.txt"]);
    let run = files.run(&["set", "remove", "names.set", "--lines", "unknown.txt"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!files.path("names.set.delta").exists());
}

#[test]
fn people_are_told_what_was_done() {
    let files = files();
    let told = |args: &[&str]| files.run(args).stdout;
    assert_snapshot!(told(&["set", "subset", "names.set", "--name", "us", "--lines", "hopper.txt"]));
    assert_snapshot!(told(&["set", "subset", "names.set", "--name", "us", "--lines", "names.txt"]));
    assert_snapshot!(told(&["set", "add", "names.set", "--lines", "new.txt"]));
    assert_snapshot!(told(&["set", "remove", "names.set", "--lines", "gone.txt"]));
    let info = told(&["set", "info", "names.set"]);
    assert!(
        info.ends_with("subset us\n1 items added and 2 removed beside it, until `unskew set compact`\n"),
        "{info}"
    );
    assert!(told(&["set", "compact", "names.set"]).starts_with("3 items of up to "));
    assert_snapshot!(told(&["set", "subset", "names.set", "--name", "us", "--forget"]));
}

#[test]
fn subsets_have_names() {
    let files = files();
    let run = |args: &[&str]| files.run(&[args, &["--format", "json"]].concat()).json().remove(0);
    let named = run(&["set", "subset", "names.set", "--name", "us", "--lines", "hopper.txt"]);
    assert_eq!(named, json!({"name": "us", "items": 2, "replaced": false, "subsets": ["us"]}));
    run(&["set", "subset", "names.set", "--name", "all", "--lines", "names.txt"]);
    let (us, all) = (["--set", "names.set", "--subset", "us"], ["--set", "names.set", "--subset", "all"]);
    assert_eq!(allowed(&files, &us), ["Ada Lovelace", "Grace Hopper"]);
    assert_eq!(allowed(&files, &all).len(), 4);
    // Outputs too.
    let generate = ["generate", "-n", "12", "--seed", "1", "--format", "json"];
    for line in files.run(&[&generate[..], &us].concat()).json() {
        assert!(["Ada Lovelace", "Grace Hopper"].contains(&line["text"].as_str().unwrap()), "{line}");
    }
    // Changes are read along: removed items are in no subset, and neither are added ones.
    std::fs::write(files.path("bye.txt"), "Grace Hopper\n").unwrap();
    run(&["set", "remove", "names.set", "--lines", "bye.txt"]);
    run(&["set", "add", "names.set", "--lines", "new.txt"]);
    assert_eq!(allowed(&files, &us), ["Ada Lovelace"]);
    assert_eq!(allowed(&files, &all), ["Ada", "Ada Lovelace", "Mary Somerville"]);
    let compact = run(&["set", "compact", "names.set"]);
    assert_eq!(compact["subsets"], json!(["us", "all"]));
    assert_eq!(allowed(&files, &us), ["Ada Lovelace"]);
    let named = run(&["set", "subset", "names.set", "--name", "us", "--lines", "new.txt"]);
    assert_eq!(named, json!({"name": "us", "items": 3, "replaced": true, "subsets": ["all", "us"]}));
    assert_eq!(allowed(&files, &us), ["Ada", "Emmy Noether", "Lise Meitner"]);
    let named = run(&["set", "subset", "names.set", "--name", "all", "--forget"]);
    assert_eq!(named, json!({"name": "all", "items": null, "replaced": false, "subsets": ["us"]}));
    assert_eq!(run(&["set", "info", "names.set"])["subsets"], json!(["us"]));
}

#[test]
fn items_are_excluded() {
    let files = files();
    for set in ["names.txt", "names.set"] {
        assert_eq!(allowed(&files, &["--exclude-set", set]), ["Emmy Noether", "Lise Meitner", "Ad"]);
    }
    // However it is spelled: the fewest tokens are two, and so are these.
    let check = |ids: &str| {
        let args = [
            "check",
            "--model",
            "table:t.json",
            "--exclude-set",
            "bits.txt",
            "--format",
            "json",
            "--ids",
            ids,
        ];
        files.run(&args).json()[0]["accepted"] == Value::Bool(true)
    };
    assert!(!check("0,0") && !check("1,1,1") && check("0") && check("1,1") && check("0,0,0") && check(""));
    // The model's distribution among the rest, whose first outputs are short: never an item.
    let args =
        ["generate", "--model", "table:t.json", "--exclude-set", "bits.txt", "-n", "300", "--seed", "1"];
    let lines = files.run(&[&args[..], &["--format", "json"]].concat()).json();
    let texts: Vec<&str> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert!(texts.iter().all(|text| !["00", "01", "111"].contains(text)), "{texts:?}");
    assert!(["0", "1", "10", "11"].iter().all(|text| texts.contains(text)), "{texts:?}");
    // With changes.
    files.run(&["set", "remove", "names.set", "--lines", "hopper.txt"]);
    let left = ["Ada Lovelace", "Emmy Noether", "Grace Hopper", "Lise Meitner", "Ad"];
    assert_eq!(allowed(&files, &["--exclude-set", "names.set"]), left);
}

/// Without an adapter, or where the program cannot use one: the same answer, and one warning.
#[test]
fn a_gpu_that_is_not_there_is_said_once() {
    let files = files();
    let args = [
        "generate",
        "--model",
        "table:t.json",
        "--set",
        "bits.txt",
        "-n",
        "40",
        "--seed",
        "1",
        "--format",
        "json",
    ];
    let (with, without) = (files.run(&[&args[..], &["--with", "gpu"]].concat()), files.run(&args));
    assert_eq!((with.code, &with.stdout), (0, &without.stdout), "{}", with.stderr);
    let warnings: Vec<&str> = with.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    let about_model = "warning: --with gpu: only a transformer runs on a GPU; the model runs on the CPU";
    let warnings: Vec<&str> = match &warnings[..] {
        [first, rest @ ..] if cfg!(feature = "wgpu") && *first == about_model => rest.to_vec(),
        _ => warnings,
    };
    if cfg!(feature = "gpu") {
        assert!(warnings.len() <= 1 && warnings.iter().all(|line| line.contains("no GPU")), "{warnings:?}");
    } else {
        let expected =
            "warning: --with gpu: this program was built without the feature \"gpu\"; the CPU does the work";
        assert_eq!(warnings, [expected]);
    }
}

#[test]
fn bad_changes_are_refused() {
    let files = files();
    let refusal = |args: &[&str]| files.run(args).refusal().to_owned();
    assert_snapshot!(refusal(&["set", "remove", "names.set", "--lines", "unknown.txt"]));
    assert_snapshot!(refusal(&["set", "subset", "names.set", "--name", "x", "--lines", "unknown.txt"]));
    assert_snapshot!(refusal(&["set", "subset", "names.set", "--name", "x", "--forget"]));
    assert_snapshot!(refusal(&["set", "subset", "names.set", "--name", "x"]));
    assert_snapshot!(refusal(&["set", "add", "names.txt", "--lines", "new.txt"]));
    assert_snapshot!(refusal(&["set", "add", "names.set", "--lines", "names.set"]));
    assert_snapshot!(refusal(&["mask", "--set", "names.set", "--subset", "x"]));
    assert_snapshot!(refusal(&["mask", "--set", "names.txt", "--subset", "x"]));
    assert_snapshot!(refusal(&["mask", "--subset", "x"]));
    assert_snapshot!(refusal(&["mask", "--with", "gpu", "--choice", "a"]));
    assert_snapshot!(refusal(&["mask", "--exclude-set", "names.set", "--choice", "a"]));
    assert_snapshot!(refusal(&["generate", "--exclude-set", "names.set", "--heal", "--prompt", "thank yo"]));
    for args in [
        &["set", "add", "names.set", "--lines", "bits.txt"][..],
        &["set", "subset", "names.set", "--name", "x", "--lines", "bits.txt"],
        &["mask", "--exclude-set", "names.set"],
    ] {
        let foreign = refusal(&[args, &["--model", "table:t.json"]].concat());
        assert!(foreign.contains("names.set: the set was built with another tokenizer ("), "{foreign}");
    }
    assert!(!files.path("names.set.delta").exists());

    // Changes to a set that is another one now, damaged ones, and ones that would be lost.
    assert_eq!(files.run(&["set", "add", "names.set", "--lines", "new.txt"]).code, 0);
    assert_snapshot!(refusal(&["set", "build", "names.txt", "-o", "names.set"]));
    assert_snapshot!(refusal(&["set", "subset", "names.set", "--name", "x", "--lines", "names.txt"]));
    let changes = files.path("names.set.delta");
    let bytes = std::fs::read(&changes).unwrap();
    std::fs::write(&changes, &bytes[..bytes.len() - 1]).unwrap();
    let damaged = refusal(&["mask", "--set", "names.set"]);
    assert!(
        damaged.starts_with("error: names.set.delta: the set is damaged: the checksum of its delta is"),
        "{damaged}"
    );
    std::fs::remove_file(&changes).unwrap();
    assert_eq!(files.run(&["set", "build", "new.txt", "-o", "names.set"]).code, 0);
    std::fs::write(&changes, &bytes).unwrap();
    assert_snapshot!(refusal(&["mask", "--set", "names.set"]));
    assert_snapshot!(refusal(&["set", "info", "names.set"]));

    // All of it removed.
    let files = self::files();
    assert_eq!(files.run(&["set", "remove", "names.set", "--lines", "names.txt"]).code, 0);
    assert_snapshot!(files.run(&["mask", "--set", "names.set"]).refusal());
}
