//! Inputs that a user should not give and does: numbers without measure, files without end, texts that turn the
//! terminal around, and an interruption in the middle of the work.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use crate::support::{Files, TABLE, unskew};

const MODEL: [&str; 3] = ["generate", "--model", "table:t.json"];

/// Each option with a number, and a command that reads it.
const NUMBERS: &[(&str, &[&str])] = &[
    ("--samples", &["generate"]),
    ("--max-tokens", &["generate"]),
    ("--batch", &["generate"]),
    ("--top-k", &["generate", "--truncate", "before-mask"]),
    ("--samples", &["audit"]),
    ("--max-prefixes", &["audit"]),
    ("--memory", &["set", "build", "in.txt", "-o", "out"]),
];

/// Each parameter of a method with a number.
const PARAMETERS: &[&str] =
    &["smc:n", "beam:n", "mcmc:steps", "asap:iterations", "disc:k", "disc:top_m", "ars:tries"];

/// Was a crash (`smc:n`), a wait without end (`mcmc:steps`), or all of the memory (`beam:n`).
#[test]
fn every_number_has_a_limit() {
    for number in ["1000000001", "18446744073709551615", "99999999999999999999999"] {
        for parameter in PARAMETERS {
            let run = unskew(&["generate", "--sampler", &format!("{parameter}={number}")]);
            let said = format!("is not \"{number}\": give a whole number from ");
            assert!(run.refusal().contains(&said), "{parameter}: {}", run.refusal());
        }
        let files = Files::new(&[("s.json", b"{}"), ("g.lark", b"start: \"a\"")]);
        for (constraint, option) in
            [(["--json-schema", "s.json"], "exponents"), (["--grammar", "g.lark"], "max-ignored")]
        {
            let run =
                files.run(&[&["mask"], &constraint[..], &["--with", &format!("{option}={number}")]].concat());
            assert!(run.refusal().contains(option), "{}", run.refusal());
        }
        for (option, command) in NUMBERS {
            let run = unskew(&[command, &[*option, number][..]].concat());
            let message = run.refusal();
            let said = format!("invalid value '{number}' for '{option} ");
            assert!(message.contains(&said) && message.contains("give a whole number from "), "{message}");
        }
    }
}

/// A sampler that rejects tries a hundred thousand times by default, and no number of tries makes an output shorter. A
/// search among the states of the constraint says so after a few.
#[test]
fn outputs_that_are_longer_than_the_limit_are_no_endless_run() {
    let files = Files::new(&[("t.json", TABLE)]);
    for sampler in ["rejection", "rsft", "ars", "cars", "disc", "asap", "twist", "awrs", "smc", "mcmc", "imh"]
    {
        let never = ["--regex", "[01]{900}", "--max-tokens", "20", "--sampler", sampler];
        let run = files.run(&[&MODEL[..], &never].concat());
        assert_eq!(run.code, 1, "{sampler}: {}", run.stderr);
        let message = run.stderr.lines().last().unwrap();
        let why = "every output of the constraint has more than 20 tokens";
        assert!(message.contains(why) && message.contains("--max-tokens"), "{sampler}: {message}");
    }
}

#[test]
fn a_sampler_that_accepts_nothing_names_the_option_and_another_sampler() {
    let files = Files::new(&[("t.json", TABLE)]);
    // SMC goes by the mask, in populations of ten, and finds only too late that one of 256 endings has room.
    let late = "[01]{16}(0{8}|[01]{9})";
    let cases = [("rejection", "(01){12}"), ("rsft", "(01){12}"), ("ars", "(01){12}"), ("smc", late)];
    for (sampler, regex) in cases {
        let method = format!("{sampler}:tries=20");
        let never = ["--regex", regex, "--max-tokens", "24", "--sampler", &method];
        let run = files.run(&[&MODEL[..], &never, &["--seed", "1"]].concat());
        assert_eq!(run.code, 1, "{sampler}: {}", run.stderr);
        let message = run.stderr.lines().last().unwrap();
        assert!(message.contains("no output in 20 tries"), "{sampler}: {message}");
        assert!(
            message.contains(&format!("--sampler {sampler}:tries=N")) && message.contains("--sampler masked"),
            "{sampler}: {message}"
        );
    }
}

/// Files that have no end and say that they have no size.
#[cfg(unix)]
#[test]
fn special_files_are_read_within_limits() {
    let files = Files::new(&[("t.json", TABLE), ("m/tokenizer.json", b"{}")]);
    std::os::unix::fs::symlink("/dev/zero", files.path("m/config.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", files.path("zero.lark")).unwrap();
    for args in [
        &["mask", "--regex-file", "/dev/zero"][..],
        &["mask", "--json-schema", "/dev/zero"],
        &["mask", "--grammar", "zero.lark"],
        &["mask", "--set", "/dev/zero"],
        &["mask", "--tokenizer", "/dev/zero"],
        &["check", "--regex", "a", "--jsonl", "/dev/zero"],
        &["generate", "--model", "m"],
        &["generate", "--model", "table:/dev/zero"],
    ] {
        // The program itself takes half a gigabyte of addresses.
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -v 1500000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_unskew")])
            .args(args);
        let run = command.current_dir(files.path("")).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!((run.status.code(), &run.stdout[..]), (Some(2), &b""[..]), "{args:?}: {stderr}");
        assert!(!stderr.contains("out of memory"), "{args:?}: {stderr}");
    }
    // Read a second time for the checksum of --save-trie it would be empty.
    let shell = format!(
        "mkfifo pipe && cat t.json > pipe & sleep 0.2; {} generate --model table:pipe --regex 0+ --sampler cars --save-trie x; \
         exec echo $?",
        env!("CARGO_BIN_EXE_unskew")
    );
    let run = Command::new("sh").args(["-c", &shell]).current_dir(files.path("")).output().unwrap();
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "2\n", "{}", String::from_utf8_lossy(&run.stderr));
}

/// Outputs and bounds are there after a signal, and the second signal does not wait.
#[cfg(unix)]
#[test]
fn an_interruption_keeps_what_was_drawn() {
    let signal = |name: &str, id: u32| {
        let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().unwrap();
        assert!(sent.success());
    };
    for name in ["INT", "TERM"] {
        let files = Files::new(&[("t.json", TABLE)]);
        let args = ["--regex", "[01]{1,20}", "--sampler", "cars", "--seed", "1", "--format", "jsonl"];
        let begin = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_unskew"));
            command.args(MODEL).args(args).args(more).current_dir(files.path(""));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut child = begin(&["-n", "1000000000", "--save-trie", "a.trie"]);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        out.read_line(&mut text).unwrap();
        signal(name, child.id());
        out.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        assert_eq!(status.code(), Some(130), "{name}: {message}");
        // All that is said to be drawn was written, and whole.
        assert!(text.ends_with('\n'));
        let written: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let written = written.len();
        assert_eq!(message, format!("error: interrupted after {written} outputs\n"));
        let next = files.run(&[&MODEL[..], &args[..], &["-n", "2", "--load-trie", "a.trie"]].concat());
        assert_eq!(next.json().len(), 2);
    }
    // A single output that never comes, without anything to save.
    let files = Files::new(&[("t.json", TABLE)]);
    let args = ["--regex", "(01){300}", "--max-tokens", "700", "--sampler", "rejection:tries=10000000"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_unskew"))
        .args(MODEL)
        .args(args)
        .current_dir(files.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut heading = String::new();
    messages.read_line(&mut heading).unwrap();
    messages.read_line(&mut heading).unwrap();
    assert!(heading.contains("seed"), "{heading}");
    signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Messages are shown on terminals, so names in them are escaped; so is all of JSON. The text of an output in a pipe
/// is data.
#[test]
fn nothing_in_a_name_reaches_the_terminal() {
    const NAME: &str = "\u{1b}]0;x\u{7}\u{9b}\u{202e}";
    let is_active =
        |char: char| (char.is_control() && char != '\n') || ('\u{202a}'..='\u{202e}').contains(&char);
    let table =
        serde_json::json!({"tokens": [NAME, "1"], "eos": 2, "default": [0.45, 0.45, 0.10]}).to_string();
    let grammar = format!("start: \"{NAME}\" unknown");
    let schema = serde_json::json!({"properties": {NAME: {"uniqueItems": 3}}}).to_string();
    let files = Files::new(&[
        ("t.json", table.as_bytes()),
        ("g.lark", grammar.as_bytes()),
        ("s.json", schema.as_bytes()),
        ("lines.txt", b"a\nb\n"),
    ]);
    assert_eq!(files.run(&["set", "build", "lines.txt", "-o", "built"]).code, 0);
    let missing = format!("no{NAME}file");
    for args in [
        &["mask", "--regex-file", &missing][..],
        &["mask", "--grammar", "g.lark"],
        &["mask", "--json-schema", "s.json"],
        &["mask", "--set", "built", "--subset", NAME],
        &["set", "subset", "built", "--name", NAME, "--forget"],
        &["generate", "--sampler", NAME],
        &["mask", "--regex", &format!("(?<{NAME}>a")],
        &["generate", "--sampler", &format!("speculative:length={NAME}")],
        &["mask", "--regex", "a", "--with", NAME],
    ] {
        let run = files.run(args);
        assert!(run.refusal().starts_with("error: "), "{args:?}");
        // Neither the message nor the line below it.
        assert!(!run.stderr.replace('\n', "").contains(is_active), "{args:?}: {:?}", run.stderr);
    }
    let generate = ["--choice", NAME, "--seed", "1", "--format"];
    let json = files.run(&[&MODEL[..], &generate, &["jsonl"]].concat());
    assert_eq!(json.json()[0]["text"], NAME);
    assert!(!json.stdout.contains(is_active), "{:?}", json.stdout);
    assert!(files.run(&[&MODEL[..], &generate, &["text"]].concat()).stdout.starts_with(NAME));
    // The heading has the pattern in it.
    let heading = files.run(&[&MODEL[..], &["--regex", &format!("{NAME}?1"), "--seed", "1"]].concat()).stderr;
    assert!(
        heading.starts_with(r"regex \u{1b}]0;x\u{7}\u{9b}\u{202e}?1") && !heading.contains(is_active),
        "{heading:?}"
    );
}

#[test]
fn messages_name_what_is_the_matter() {
    let values: Vec<String> =
        (0..20_000).map(|index: u64| format!("{:020}", index.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    let list = serde_json::json!({"enum": values}).to_string();
    let files = Files::new(&[
        ("long.json", br#"{"type": "string", "maxLength": 1e30}"#),
        ("old.json", br#"{"$schema": "http://json-schema.org/draft-04/schema#", "maxLength": 1e19}"#),
        ("list.json", list.as_bytes()),
    ]);
    let refusal = |args: &[&str]| files.run(args).refusal().to_owned();
    assert!(refusal(&["mask", "--json-schema", "long.json"]).contains("the characters pass 50000000"));
    let old = refusal(&["mask", "--json-schema", "old.json"]);
    assert!(old.contains("without a point and without an exponent in draft 4"), "{old}");
    let list = refusal(&["mask", "--json-schema", "list.json"]);
    assert!(list.contains("`enum` lists 20000 values") && !list.contains("repetition"), "{list}");
    for (temperature, what) in
        [("1e-320", "too small"), ("-1", "too small"), ("1e31", "too large"), ("nan", "not a number")]
    {
        let message = refusal(&["generate", &format!("--temperature={temperature}")]);
        assert!(message.contains(what) && message.contains("from 1e-30 to 1e30"), "{message}");
    }
}

#[test]
fn byte_order_marks_are_passed_over_and_those_of_utf_16_named() {
    let with = |text: &str| ["\u{feff}", text].concat().into_bytes();
    let tiny = unskew::tiny_model::TINY;
    let files = Files::new(&[
        ("s.json", &with(r#"{"const": 1}"#)),
        ("g.lark", &with("start: \"a\"")),
        ("g.gbnf", &with("root ::= \"a\"")),
        ("g.ebnf", &with("a ::= \"a\"")),
        ("g.xgrammar", &with("root ::= \"a\"")),
        ("g.abnf", &with("a = \"a\"")),
        ("r.txt", &with("a")),
        ("set.txt", &with("a\nb\n")),
        ("t.json", &with(std::str::from_utf8(TABLE).unwrap())),
        ("m/config.json", &with(tiny.config_json)),
        ("m/tokenizer.json", &with(unskew::tiny_model::TOKENIZER_JSON)),
        ("m/model.safetensors", tiny.safetensors),
        ("l.jsonl", &with("{\"text\": \"a\"}\n{\"text\": \"b\"}\n")),
    ]);
    let accepts = |constraint: &[&str], text: &str| {
        let run = files.run(&[&["check", "--format", "jsonl", "--text", text], constraint].concat());
        assert_eq!(run.json()[0]["accepted"], true, "{constraint:?}");
    };
    accepts(&["--json-schema", "s.json"], "1");
    for grammar in ["g.lark", "g.gbnf", "g.ebnf", "g.xgrammar", "g.abnf"] {
        accepts(&["--grammar", grammar], "a");
    }
    accepts(&["--regex-file", "r.txt"], "a");
    accepts(&["--set", "set.txt"], "a");
    accepts(&["--model", "table:t.json", "--regex", "01"], "01");
    accepts(&["--model", "m", "--regex", "a"], "a");
    assert_eq!(files.run(&["logits", "--model", "m", "--ids", "1", "--format", "jsonl"]).json().len(), 1);
    let lines = files.run(&["check", "--regex", "a", "--jsonl", "l.jsonl", "--format", "jsonl"]).json();
    assert_eq!([&lines[0]["accepted"], &lines[1]["accepted"]], [true, false]);

    let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files = Files::new(&[("w.lark", &wide), ("w.json", &wide)]);
    for args in [
        &["mask", "--grammar", "w.lark"][..],
        &["mask", "--json-schema", "w.json"],
        &["mask", "--model", "table:w.json"],
        &["mask", "--set", "w.json"],
        &["check", "--regex", "a", "--jsonl", "w.json"],
    ] {
        let run = files.run(args);
        assert!(run.refusal().contains("UTF-16; save it in UTF-8"), "{args:?}: {}", run.stderr);
    }
}

/// Of a text that cannot be read `explain` has nothing to say; of a construct that is refused it has.
#[test]
fn explain_refuses_what_it_cannot_read() {
    let files = Files::new(&[
        ("open.lark", b"start: \"a"),
        ("open.json", b"{"),
        ("refused.json", br#"{"items": {"uniqueItems": true}}"#),
        ("refused.lark", b"start: \"a\" unknown"),
    ]);
    for args in [
        &["--grammar", "open.lark"][..],
        &["--json-schema", "open.json"],
        &["--json-schema", "nowhere.json"],
        &["--regex", "a("],
    ] {
        files.run(&[&["explain"], args].concat()).refusal();
    }
    for args in
        [&["--json-schema", "refused.json"][..], &["--grammar", "refused.lark"], &["--regex", r"(a)\1"]]
    {
        let run = files.run(&[&["explain", "--format", "jsonl"], args].concat());
        assert!(run.json().iter().any(|one| one["fate"] == "rejected"), "{args:?}");
    }
}
