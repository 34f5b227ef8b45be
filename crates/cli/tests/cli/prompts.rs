//! `--prompts`: the outputs of each prompt by its number, the same as for the prompt alone, and runs that go on.

use serde_json::{Value, json};
use unskew::tiny_model::{TINY, TOKENIZER_JSON};

use crate::support::{Files, unskew_reading};

const LINES: &str = "{\"prompt\": \"Dear Ms \"}\n\n{\"prompt\": \"Kind regards,\\n\"}\n{\"prompt\": \"\"}\n";
const NAME: [&str; 9] =
    ["generate", "--regex", "[A-Z][a-z]{2,6}", "--sampler", "masked", "--format", "json", "--seed", "5"];

fn numbered(lines: &[Value]) -> Vec<(u64, String)> {
    lines
        .iter()
        .map(|line| (line["prompt"].as_u64().unwrap(), line["text"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn each_output_names_its_prompt() {
    let files = Files::new(&[("p.jsonl", LINES.as_bytes())]);
    let run = files.run(&[&NAME[..], &["--prompts", "p.jsonl", "-n", "3"]].concat());
    let all = numbered(&run.json());
    let numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 0, 0, 1, 1, 1, 2, 2, 2], "{}", run.stderr);
    // The first prompt has the outputs that it has alone.
    let alone = files.run(&[&NAME[..], &["--prompt", "Dear Ms ", "-n", "3"]].concat()).json();
    for (line, (_, text)) in alone.iter().zip(&all) {
        assert_eq!((line["text"].as_str(), line.get("prompt")), (Some(text.as_str()), None));
    }
    // A run goes on where another one has ended, with the same outputs.
    let rest = files.run(&[&NAME[..], &["--prompts", "p.jsonl", "-n", "3", "--skip-prompts", "1"]].concat());
    assert_eq!(numbered(&rest.json()), all[3..]);
    let input = unskew_reading(&files.path(""), &[&NAME[..], &["--prompts", "-", "-n", "3"]].concat(), LINES);
    assert_eq!(input.stdout, run.stdout, "{}", input.stderr);
    // The same prompt twice has other random numbers.
    let twice = "{\"prompt\": \"Dear Ms \"}\n".repeat(2);
    let twice =
        unskew_reading(&files.path(""), &[&NAME[..], &["--prompts", "-", "-n", "3"]].concat(), &twice);
    let twice = numbered(&twice.json());
    assert_ne!(
        twice[..3].iter().map(|(_, text)| text).collect::<Vec<_>>(),
        twice[3..].iter().map(|(_, text)| text).collect::<Vec<_>>()
    );
    let text = files.run(&["generate", "--choice", "a", "--prompts", "p.jsonl", "--seed", "1"]);
    assert_eq!(text.stdout.matches("prompt ").count(), 3, "{}", text.stdout);
}

/// The law of each prompt is that of the model after it: a prompt takes nothing from the one before.
#[test]
fn samplers_that_learn_begin_anew() {
    let table = br#"{"tokens": ["0", "1"], "eos": 2, "default": [0.5, 0.4, 0.1], "contexts": {"0": [0.1, 0.8, 0.1], "1": [0.8, 0.1, 0.1]}}"#;
    let files = Files::new(&[("t.json", table), ("p.jsonl", b"{\"prompt\": \"0\"}\n{\"prompt\": \"1\"}\n")]);
    let draw = [
        "generate",
        "--model",
        "table:t.json",
        "--regex",
        "[01]",
        "--format",
        "json",
        "--seed",
        "2",
        "-n",
        "300",
    ];
    for sampler in ["cars", "disc", "masked"] {
        let run = files
            .run(&[&draw[..], &["--end", "model", "--sampler", sampler, "--prompts", "p.jsonl"]].concat());
        let lines = run.json();
        let share = |number: u64| {
            let of: Vec<&Value> = lines.iter().filter(|line| line["prompt"] == number).collect();
            assert_eq!(of.len(), 300, "{}", run.stderr);
            of.iter().filter(|line| line["text"] == "0").count()
        };
        // An eighth and eight ninths, by the contexts of the table.
        assert!(share(0) < 100 && share(1) > 200, "{sampler}: {} {}", share(0), share(1));
    }
}

#[test]
fn lines_that_are_no_prompts_are_refused_by_number() {
    let files = Files::new(&[("t.json", b"{}")]);
    for (line, words) in [
        ("{\"text\": \"a\"}", "line 2: unknown field `text`"),
        ("{}", r#"line 2: give either "prompt" or "messages""#),
        ("{\"prompt\": \"a\", \"messages\": []}", r#"line 2: give either "prompt" or "messages""#),
        ("{\"messages\": []}", "line 2: `messages` are none"),
        ("{\"messages\": [{}]}", "line 2: `messages`: the message 0 has no `role`"),
        ("[", "line 2: "),
    ] {
        std::fs::write(files.path("p.jsonl"), format!("{{\"prompt\": \"a\"}}\n{line}\n")).unwrap();
        let run = files.run(&[&NAME[..], &["--prompts", "p.jsonl"]].concat());
        // Nothing is drawn from a file that is wrong further down.
        assert!(run.refusal().contains(words), "{}", run.stderr);
    }
    let input = unskew_reading(
        &files.path(""),
        &[&NAME[..], &["--prompts", "-"]].concat(),
        "{\"prompt\": \"a\"}\n[\n",
    );
    assert_eq!((input.code, input.stdout.lines().count()), (2, 1), "{}", input.stderr);
    assert!(input.stderr.contains("--seed 5 --skip-prompts 1 goes on"), "{}", input.stderr);
    let none = unskew_reading(&files.path(""), &[&NAME[..], &["--prompts", "-"]].concat(), "\n");
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("there is no prompt"), "{}", none.stderr);
    std::fs::write(files.path("p.jsonl"), LINES).unwrap();
    let keeps = files.run(&[
        "generate",
        "--regex",
        "a",
        "--sampler",
        "cars",
        "--prompts",
        "p.jsonl",
        "--save-trie",
        "x",
    ]);
    assert!(keeps.refusal().contains("--skip-prompts"), "{}", keeps.stderr);
    let both = files.run(&["generate", "--prompts", "p.jsonl", "--prompt", "a"]);
    assert!(both.refusal().contains("cannot be used with"), "{}", both.stderr);
    assert!(files.run(&["generate", "--skip-prompts", "1"]).refusal().contains("--prompts"));
    assert_eq!(files.run(&["generate", "--prompts", "none.jsonl"]).code, 2);
}

#[test]
fn messages_go_through_the_template() {
    let template = "<|endoftext|>{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    let tools =
        json!([{"name": "age", "description": "of a person", "inputSchema": {"type": "object"}}]).to_string();
    let lines = [
        json!({"messages": [{"role": "system", "content": "Write."}, {"role": "user", "content": "A name"}]}),
        json!({"prompt": "A name"}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    let files = Files::new(&[
        ("m/config.json", TINY.config_json.as_bytes()),
        ("m/tokenizer.json", TOKENIZER_JSON.as_bytes()),
        ("m/model.safetensors", TINY.safetensors),
        ("m/chat_template.jinja", template.as_bytes()),
        ("p.jsonl", lines.as_bytes()),
        ("tools.json", tools.as_bytes()),
    ]);
    let choice = ["generate", "--model", "m", "--seed", "3", "--format", "json"];
    let log_probs = |args: &[&str]| -> Vec<Value> {
        let run = files.run(&[&choice[..], args].concat());
        run.json().iter().map(|line| line["logprob"].clone()).collect()
    };
    let plain = |prompt: &str, more: &[&str]| log_probs(&[more, &["--prompt", prompt]].concat()).remove(0);
    let name = ["--choice", "Thomas Hansen"];
    assert_eq!(
        log_probs(&[&name[..], &["--prompts", "p.jsonl", "--chat"]].concat()),
        [plain("system: Write.\nuser: A name\n", &name), plain("user: A name\n", &name)]
    );
    // A text is a text without --chat, and messages are always a chat.
    assert_eq!(
        log_probs(&[&name[..], &["--prompts", "p.jsonl"]].concat()),
        [plain("system: Write.\nuser: A name\n", &name), plain("A name", &name)]
    );
    // The template is shown the tools.
    let tool = [
        "--tools",
        "tools.json",
        "--tool-style",
        "hermes",
        "--tool-choice",
        "age",
        "--with",
        "whitespace=compact",
    ];
    let first = |args: &[&str]| {
        log_probs(&[args, &["--max-tokens", "200", "--sampler", "masked"]].concat()).remove(0)
    };
    assert_eq!(
        first(&[&tool[..], &["--chat", "--prompt", "A name"]].concat()),
        first(&[&tool[..], &["--prompt", "age;user: A name\n"]].concat())
    );
    let heals = files.run(&[&choice[..], &name, &["--prompts", "p.jsonl", "--heal"]].concat());
    assert!(heals.refusal().contains("line 1: --heal is for texts"), "{}", heals.stderr);
}

/// A signal ends a run of many prompts: after the output under way, or at once where it waits for a prompt.
#[cfg(unix)]
#[test]
fn a_signal_ends_the_run() {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        process::{Command, Stdio},
    };

    for (many, is_waiting) in [("1000000000", false), ("1", true)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unskew"));
        command.args(NAME).args(["--prompts", "-", "-n", many]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{}", json!({"prompt": "a"})).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        out.read_line(&mut text).unwrap();
        assert!(text.contains("\"prompt\":0"), "{text}");
        // The answer is written before it asks for the next prompt.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        out.read_to_string(&mut text).unwrap();
        let code = child.wait().unwrap().code();
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        assert_eq!(code, Some(130), "{message}");
        assert!(text.ends_with('\n'));
        let hint = "the run ends at the prompt 0; --seed 5 --skip-prompts 0 goes on with all of its outputs";
        assert_eq!(message.contains(hint), !is_waiting, "{message}");
        drop(input);
    }
}
