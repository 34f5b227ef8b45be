//! What stands on standard error: the line of a text that an error is about, colours, and nothing where nothing is
//! wanted; and values that are texts or files.

use crate::support::{Files, unskew};

/// Each kind of text, in a file and as an option.
#[test]
fn errors_show_the_line_they_are_about() {
    let files = Files::new(&[
        ("g.lark", b"start: a\na: \"x\" b\n"),
        ("open.lark", b"start: (\"a\""),
        (
            "s.json",
            b"{\n  \"type\": \"object\",\n  \"properties\": {\"a\": {\"pattern\": \"(?=a)\\\\1\"}}\n}",
        ),
        ("broken.json", b"{\n  \"type\": }"),
        ("t.json", br#"{"format": {"type": "any_text", "max_tokens": 100001}}"#),
        ("r.txt", b"ab\n(?=c"),
        ("spec.json", br#"{"regex": "a(b"}"#),
    ]);
    let shown = |args: &[&str]| {
        let run = files.run(&[&["mask"], args].concat());
        run.refusal();
        run.stderr.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(shown(&["--grammar", "g.lark"]), " --> g.lark:2:8\n  |\n2 | a: \"x\" b\n  |        ^\n");
    assert_eq!(
        shown(&["--grammar", "open.lark"]),
        " --> open.lark:1:8\n  |\n1 | start: (\"a\"\n  |        ^\n"
    );
    assert_eq!(
        shown(&["--json-schema", "s.json"]),
        " --> s.json:3:35\n  |\n3 |   \"properties\": {\"a\": {\"pattern\": \"(?=a)\\\\1\"}}\n  |                                   ^^^^^^^^^^\n"
    );
    assert_eq!(
        shown(&["--json-schema", "broken.json"]),
        " --> broken.json:2:11\n  |\n2 |   \"type\": }\n  |           ^\n"
    );
    assert_eq!(
        shown(&["--structural-tag", "t.json"]),
        " --> t.json:1:47\n  |\n1 | {\"format\": {\"type\": \"any_text\", \"max_tokens\": 100001}}\n  |                                               ^^^^^^\n"
    );
    assert_eq!(shown(&["--regex-file", "r.txt"]), " --> r.txt:2:1\n  |\n2 | (?=c\n  | ^^^^\n");
    assert_eq!(shown(&["--regex", "a(b"]), " --> --regex:1:2\n  |\n1 | a(b\n  |  ^^\n");
    assert_eq!(shown(&["--spec", "spec.json"]), " --> --spec:1:2\n  |\n1 | a(b\n  |  ^^\n");
    assert_eq!(
        shown(&["--grammar", "root ::= a"]),
        " --> --grammar:1:10\n  |\n1 | root ::= a\n  |          ^\n"
    );
    // A fault without a place, and the place of another text, show nothing.
    assert_eq!(shown(&["--choice", ""]), "");
    assert_eq!(shown(&["--regex-file", "none.txt"]), "");
}

#[test]
fn quiet_is_errors_alone() {
    let loud = unskew(&["generate", "--regex", "[a-z]{2}", "--seed", "1"]);
    let quiet = unskew(&["generate", "--regex", "[a-z]{2}", "--seed", "1", "-q"]);
    assert!(loud.stderr.contains("sampler ") && loud.code == 0, "{}", loud.stderr);
    assert_eq!((quiet.code, quiet.stderr.as_str(), &quiet.stdout), (0, "", &loud.stdout));
    let wrong = unskew(&["mask", "--regex", "a(b", "--quiet"]);
    assert_eq!(wrong.stderr.lines().count(), 1, "{}", wrong.stderr);
    assert_eq!(wrong.refusal(), unskew(&["mask", "--regex", "a(b"]).refusal());
}

#[test]
fn colours_are_asked_for() {
    let red = "\u{1b}[1;31m";
    for args in [&["mask", "--regex", "a(b"][..], &["mask", "--regex"]] {
        for (color, expected) in [("always", true), ("never", false), ("auto", false)] {
            for color in [&["--color", color][..], &[&format!("--color={color}")]] {
                let run = unskew(&[args, color].concat());
                assert_eq!(run.stderr.contains(red), expected, "{args:?} {color:?}: {}", run.stderr);
                assert_eq!(run.code, 2);
            }
        }
    }
    let help = |color: &str| unskew(&["mask", "--help", "--color", color]).stdout;
    assert!(help("always").contains("\u{1b}[") && !help("auto").contains("\u{1b}["));
    assert!(
        unskew(&["mask", "--color", "blue"]).refusal().contains("[possible values: auto, always, never]")
    );
}

#[test]
fn help_names_json() {
    for command in ["generate", "mask", "check", "explain", "audit"] {
        let help = unskew(&[command, "-h"]).stdout;
        assert!(help.contains("[possible values: text, jsonl, json]"), "{help}");
        assert!(help.contains("--quiet") && help.contains("--color <WHEN>"), "{help}");
    }
    assert!(unskew(&["mask", "--format", "yaml"]).refusal().contains("text, jsonl, json"));
}

#[test]
fn schemas_and_grammars_stand_in_the_option_or_in_a_file() {
    let schema = r#"{"type": "integer", "minimum": 7, "maximum": 7}"#;
    let (gbnf, lark) = ("root ::= \"7\"", "start: \"7\"");
    let files = Files::new(&[
        ("s.json", schema.as_bytes()),
        ("{.json", schema.as_bytes()),
        ("g.gbnf", gbnf.as_bytes()),
        ("g.lark", lark.as_bytes()),
    ]);
    for (option, value) in [
        ("--json-schema", schema),
        ("--json-schema", "s.json"),
        ("--json-schema", "@s.json"),
        ("--json-schema", "@{.json"),
        ("--json-schema", "./{.json"),
        ("--grammar", gbnf),
        ("--grammar", lark),
        ("--grammar", "g.gbnf"),
        ("--grammar", "@g.lark"),
    ] {
        let run = files.run(&["generate", option, value, "--seed", "1", "--format", "json", "-q"]);
        assert_eq!(run.json()[0]["text"], "7", "{option} {value}: {}", run.stderr);
        let check = files.run(&["check", option, value, "--text", "8", "--format", "json"]);
        assert_eq!(check.json()[0]["accepted"], false, "{option} {value}");
    }
    for value in ["@none.json", "none.json"] {
        assert!(files.run(&["mask", "--json-schema", value]).refusal().starts_with("error: none.json: "));
    }
    assert!(files.run(&["explain", "--json-schema", schema]).stdout.contains("minimum"));
    // `convert` writes what `--grammar` reads.
    let written = files.run(&["convert", "--json-schema", schema]).stdout;
    let check = files.run(&["check", "--grammar", &written, "--text", "7", "--format", "json"]);
    assert_eq!(check.json()[0]["accepted"], true, "{written}");
}
