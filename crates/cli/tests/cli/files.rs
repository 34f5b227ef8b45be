//! Files that commands write: whole or not at all, after a kill too, and nothing but files is replaced.

use std::fs;

use crate::support::{Files, Run, TABLE};

const LINES: &[u8] = b"0\n1\n01\n";
const PATTERN: &str = "[01]{1,4}";
const MODEL: [&str; 2] = ["--model", "table:t.json"];

fn files() -> Files {
    Files::new(&[
        ("t.json", TABLE),
        ("set.txt", LINES),
        ("more.txt", b"00\n11\n"),
        ("less.txt", b"1\n00\n"),
        ("kept.txt", b"0\n"),
    ])
}

fn run(files: &Files, args: &[&str]) -> Run {
    let has_model = ["info", "compact"].contains(&args[1]);
    files.run(&[args, if has_model { &[] } else { &MODEL[..] }].concat())
}

fn ok(files: &Files, args: &[&str]) {
    let run = run(files, args);
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
}

/// The outputs that a set allows, as many draws from a table of two tokens show them; none where there is no set.
fn allowed(files: &Files) -> Option<Vec<&'static str>> {
    if !files.path("a.set").exists() {
        return None;
    }
    let texts = ["0", "1", "00", "01", "10", "11"];
    let ids: Vec<String> = texts
        .iter()
        .map(|text| {
            format!(
                "{{\"ids\":[{}]}}",
                text.split("").filter(|id| !id.is_empty()).collect::<Vec<_>>().join(",")
            )
        })
        .collect();
    fs::write(files.path("asked.jsonl"), ids.join("\n")).unwrap();
    let answers =
        run(files, &["check", "--set", "a.set", "--jsonl", "asked.jsonl", "--format", "json"]).json();
    assert_eq!(answers.len(), texts.len());
    let accepted = texts.iter().zip(&answers).filter(|(_, answer)| answer["accepted"] == true);
    Some(accepted.map(|(text, _)| *text).collect())
}

#[cfg(unix)]
#[test]
fn nothing_but_files_is_written_over() {
    use std::os::unix::fs::{FileTypeExt, symlink};

    let files = files();
    ok(&files, &["set", "build", "set.txt", "-o", "a.set"]);
    ok(&files, &["set", "add", "a.set", "--lines", "more.txt"]);
    symlink("/dev/null", files.path("null")).unwrap();
    fs::create_dir(files.path("folder")).unwrap();
    let learn = ["generate", "--regex", PATTERN, "--sampler", "cars", "-n", "1", "--save-trie"];
    let audit = ["audit", "--regex", PATTERN, "--samplers", "masked", "--samples", "1", "--out"];
    let commands: [&[&str]; 4] =
        [&["set", "build", "set.txt", "-o"], &["set", "compact", "a.set", "-o"], &learn, &audit];
    for command in commands {
        for (target, kind) in [("/dev/null", "a device"), ("null", "a device"), ("folder", "a folder")] {
            let refused = run(&files, &[command, &[target]].concat());
            let refusal = refused.refusal();
            assert!(
                refusal.starts_with(&format!("error: {target}: this is {kind} and not a file")),
                "{refusal}"
            );
        }
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(files.path("null").is_symlink() && files.path("folder").is_dir());

    // The target of a link is replaced, and not the link.
    symlink("folder/there", files.path("link")).unwrap();
    for command in commands {
        ok(&files, &[command, &["link"]].concat());
        assert!(files.path("link").is_symlink() && !files.path("folder/there").is_symlink());
        fs::remove_file(files.path("folder/there")).unwrap();
    }
    // A set and its changes are the same by the name of a link.
    symlink("a.set", files.path("b.set")).unwrap();
    ok(&files, &["set", "remove", "b.set", "--lines", "less.txt"]);
    ok(&files, &["set", "compact", "b.set"]);
    assert!(files.path("b.set").is_symlink());
    assert_eq!(allowed(&files).unwrap(), ["0", "01", "11"]);
}

#[cfg(unix)]
#[test]
fn no_input_is_written_over() {
    use std::os::unix::fs::symlink;

    let files = Files::new(&[
        ("t.json", TABLE),
        ("set.txt", LINES),
        ("more.txt", b"00\n"),
        ("regex", PATTERN.as_bytes()),
        ("folder/schema.json", b"{}"),
    ]);
    ok(&files, &["set", "build", "set.txt", "-o", "a.set"]);
    ok(&files, &["set", "add", "a.set", "--lines", "more.txt"]);
    fs::hard_link(files.path("set.txt"), files.path("hard")).unwrap();
    symlink("set.txt", files.path("soft")).unwrap();
    symlink("t.json", files.path("table")).unwrap();
    let learn = ["generate", "--regex-file", "regex", "--sampler", "cars", "-n", "1", "--save-trie"];
    let audit = ["audit", "--regex-file", "regex", "--samplers", "masked", "--samples", "1", "--out"];
    let audit_set = ["audit", "--set", "a.set", "--samplers", "masked", "--samples", "1", "--out"];
    let registry = ["--json-schema", "folder/schema.json", "--with", "schema-registry=folder"];
    let audit_schema =
        [&["audit"], &registry[..], &["--samplers", "masked", "--samples", "1", "--out"]].concat();
    let cases: [(&[&str], &[&str]); 6] = [
        (&["set", "build", "set.txt", "-o"], &["set.txt", "./set.txt", "hard", "soft", "t.json", "table"]),
        (&["set", "compact", "a.set", "-o"], &["a.set.delta"]),
        (&learn, &["regex", "t.json", "table"]),
        (&audit, &["regex", "t.json", "table"]),
        (&audit_set, &["a.set", "a.set.delta"]),
        (&audit_schema, &["folder/schema.json"]),
    ];
    for (command, outputs) in cases {
        for output in outputs {
            let before = fs::read(files.path(output)).unwrap();
            let refused = run(&files, &[command, &[output]].concat());
            let refusal = refused.refusal();
            let begin = format!("error: {output}: this would be written over the input ");
            assert!(refusal.starts_with(&begin), "{command:?} {output}: {refusal}");
            assert_eq!(fs::read(files.path(output)).unwrap(), before);
        }
    }
    // The same file by another name is compacted in its place.
    ok(&files, &["set", "compact", "a.set", "-o", "./a.set"]);
    assert!(!files.path("a.set.delta").exists());
    assert_eq!(allowed(&files).unwrap(), ["0", "1", "00", "01"]);
}

/// Every byte of a saved file, changed: the same outputs, or an error.
#[test]
fn each_byte_of_what_was_saved_counts() {
    let files = files();
    let args = [
        "generate",
        "--model",
        "table:t.json",
        "--regex",
        "[01]",
        "--sampler",
        "cars",
        "-n",
        "3",
        "--format",
        "jsonl",
    ];
    let saved = files.run(&[&args[..], &["--seed", "1", "--save-trie", "a.trie"]].concat());
    assert_eq!(saved.code, 0, "{}", saved.stderr);
    let goes_on = [&args[..], &["--load-trie", "a.trie"]].concat();
    let bytes = fs::read(files.path("a.trie")).unwrap();
    // All of the header, in which the generator stands, and places behind it.
    let places = (0..104).chain((104..bytes.len()).step_by(bytes.len() / 20));
    for at in places {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(files.path("a.trie"), damaged).unwrap();
        let run = files.run(&goes_on);
        assert_eq!(run.code, 2, "byte {at}: {}", run.stdout);
    }
}

/// Runs that are ended in front of each step, one after the other. Release builds do not count steps.
#[cfg(debug_assertions)]
mod ended {
    use std::process::{Command, Output};

    use super::*;

    /// The names that are there but for those that tests made.
    fn names(files: &Files) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let ours = ["t.json", "set.txt", "more.txt", "less.txt", "kept.txt", "asked.jsonl", "a.set.lock"];
        let mut names: Vec<String> = fs::read_dir(files.path(""))
            .unwrap()
            .map(name)
            .filter(|name| !ours.contains(&name.as_str()))
            .collect();
        names.sort();
        names
    }

    /// Runs a command and ends it in front of its steps, one after the other, each time from the same beginning.
    /// `state` is the view of a user. Answers with the states, the last of which is that of the command that came to
    /// its end.
    fn states<T: PartialEq + std::fmt::Debug>(
        prepare: impl Fn() -> Files,
        args: &[&str],
        state: impl Fn(&Files) -> T,
    ) -> Vec<T> {
        let before = state(&prepare());
        let mut states = Vec::new();
        for step in 0.. {
            let files = prepare();
            let mut command = Command::new(env!("CARGO_BIN_EXE_unskew"));
            command.args(args).current_dir(files.path("")).env("UNSKEW_ABORT_AT_STEP", step.to_string());
            let Output { status, stderr, .. } = command.output().unwrap();
            states.push(state(&files));
            if status.success() {
                break;
            }
            assert_eq!(status.code(), None, "{}", String::from_utf8_lossy(&stderr));
            // The same command comes to its end afterwards, and leaves nothing but its own.
            let again = files.run(args);
            assert!(again.code == 0 || again.stderr.contains("is not an item"), "{step}: {}", again.stderr);
            assert!(names(&files).iter().all(|name| !name.starts_with('.')), "{step}: {:?}", names(&files));
        }
        let after = states.last().unwrap();
        assert_ne!(before, *after);
        let changes = states.iter().position(|state| *state != before).unwrap();
        assert!(states[changes..].iter().all(|state| state == after), "{states:?}");
        states
    }

    #[test]
    fn a_set_that_is_built_is_there_or_not() {
        let args = ["set", "build", "set.txt", "-o", "a.set", "--model", "table:t.json"];
        let states = states(files, &args, allowed);
        // Whether it can be written; create, writes, sync and rename; sync of the folder.
        assert!(states.len() > 5 && states[0].is_none(), "{states:?}");
        assert_eq!(states.last().unwrap().as_deref().unwrap(), ["0", "1", "01"]);
        // In the place of another.
        let prepare = || {
            let files = files();
            ok(&files, &["set", "build", "more.txt", "-o", "a.set"]);
            files
        };
        self::states(prepare, &args, allowed);
    }

    #[test]
    fn changes_to_a_set_are_made_or_not() {
        let built = || {
            let files = files();
            ok(&files, &["set", "build", "set.txt", "-o", "a.set"]);
            files
        };
        let add = ["set", "add", "a.set", "--lines", "more.txt", "--model", "table:t.json"];
        let states_of_add = states(built, &add, allowed);
        assert_eq!(states_of_add.last().unwrap().as_deref().unwrap(), ["0", "1", "00", "01", "11"]);

        let added = || {
            let files = built();
            ok(&files, &["set", "add", "a.set", "--lines", "more.txt"]);
            files
        };
        let remove = ["set", "remove", "a.set", "--lines", "less.txt", "--model", "table:t.json"];
        assert_eq!(states(added, &remove, allowed).last().unwrap().as_deref().unwrap(), ["0", "01", "11"]);
        // All changes are removed.
        let remove = ["set", "remove", "a.set", "--lines", "more.txt", "--model", "table:t.json"];
        assert_eq!(states(added, &remove, allowed).last().unwrap().as_deref().unwrap(), ["0", "1", "01"]);
    }

    /// Nothing changes for readers when changes become part of a set, so the state here is where they are: at each
    /// point every command works, and answers the same.
    #[test]
    fn a_set_is_compacted_at_once() {
        let changed = || {
            let files = files();
            ok(&files, &["set", "build", "set.txt", "-o", "a.set"]);
            ok(&files, &["set", "add", "a.set", "--lines", "more.txt"]);
            ok(&files, &["set", "remove", "a.set", "--lines", "less.txt"]);
            files
        };
        let expected = ["0", "01", "11"];
        let state = |files: &Files| {
            assert_eq!(allowed(files).unwrap(), expected);
            let info = run(files, &["set", "info", "a.set", "--format", "json"]).json().remove(0);
            (info["items"].clone(), info["pending_added"].clone())
        };
        let states = states(changed, &["set", "compact", "a.set"], state);
        assert!(states.len() > 5, "{states:?}");

        // Between the set and the removal of the changes each command works, and its effect is right.
        let between = || {
            let files = changed();
            let left = fs::read(files.path("a.set.delta")).unwrap();
            ok(&files, &["set", "compact", "a.set"]);
            fs::write(files.path("a.set.delta"), left).unwrap();
            files
        };
        let after = |args: &[&str]| {
            let files = between();
            ok(&files, args);
            allowed(&files).unwrap()
        };
        assert_eq!(after(&["set", "info", "a.set"]), expected);
        assert_eq!(after(&["set", "compact", "a.set"]), expected);
        assert_eq!(after(&["set", "add", "a.set", "--lines", "set.txt"]), ["0", "1", "01", "11"]);
        assert_eq!(after(&["set", "subset", "a.set", "--name", "x", "--lines", "kept.txt"]), expected);
        assert_eq!(after(&["set", "build", "set.txt", "-o", "a.set"]), ["0", "1", "01"]);
        assert_eq!(after(&["generate", "--set", "a.set", "-n", "2"]), expected);
    }

    #[test]
    fn what_was_learned_is_saved_or_not() {
        let args = [
            "generate",
            "--model",
            "table:t.json",
            "--regex",
            PATTERN,
            "--sampler",
            "cars",
            "-n",
            "5",
            "--format",
            "jsonl",
        ];
        let first = [&args[..], &["--seed", "1", "--save-trie", "a.trie"]].concat();
        let second = [&args[..], &["--load-trie", "a.trie", "--save-trie", "a.trie"]].concat();
        let prepare = || {
            let files = files();
            assert_eq!(files.run(&first).code, 0);
            files
        };
        // From each state a run goes on, and shows which it is.
        let state = |files: &Files| {
            let goes_on = [&args[..], &["--load-trie", "a.trie"]].concat();
            files.run(&goes_on).json().iter().map(|line| line["text"].to_string()).collect::<Vec<_>>()
        };
        assert!(states(prepare, &second, state).len() > 5);
    }
}
