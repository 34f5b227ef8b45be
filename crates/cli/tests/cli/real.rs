//! A real model: SmolLM2-135M-Instruct in a GGUF file. `cargo xtask real` fetches it, and names it by the variable
//! `UNSKEW_REAL_GGUF`. Without the variable these tests have nothing to run on, and say so.
//!
//! Toys hide what real vocabularies have: tokens that begin with a space, bytes that no token has, several spellings of
//! each text, a chat template, an answer that goes on.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde_json::{Value, json};
use unskew::{
    Model, Request, Spec, TokenSpace,
    core::{
        Extension, LanguageModel, Logits, OutputEnd, Rows, TokenId, conformance::chi_square,
        logprob::log_sum_exp,
    },
};

use crate::{
    documents::{blocks, document},
    support::{Files, unskew},
};

/// The file.
#[allow(clippy::print_stderr, reason = "who reads that a test has passed should know that nothing ran")]
fn file() -> Option<PathBuf> {
    let file = std::env::var_os("UNSKEW_REAL_GGUF").map(PathBuf::from);
    if file.is_none() {
        eprintln!("skipped: UNSKEW_REAL_GGUF names no model");
    }
    file
}

/// The model, loaded once.
fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Model> = OnceLock::new();
    let file = file()?;
    Some(MODEL.get_or_init(|| Model::open(file.to_str().unwrap()).unwrap()))
}

fn asked(model: &Model, message: &str) -> Request {
    model.prompt_ids(model.encode_chat(message).unwrap()).seed(1).max_tokens(64)
}

/// A folder for lines of documents, where the name `unskew` is the program with `file` as its model.
#[cfg(unix)]
fn folder(file: &Path) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("unskew");
    let program = env!("CARGO_BIN_EXE_unskew");
    let script = format!(
        "#!/bin/sh\ntask=$1; shift\nexec '{program}' \"$task\" --model '{}' \"$@\"\n",
        file.display()
    );
    std::fs::write(&named, script).unwrap();
    std::fs::set_permissions(&named, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Runs a line of a document in `folder`.
fn run(line: &str, folder: &Path) -> std::process::Output {
    let line = format!("PATH=\"$PWD:$PATH\"\n{line}");
    std::process::Command::new("sh").args(["-e", "-c", &line]).current_dir(folder).output().unwrap()
}

/// The commands of README and of the page of examples that draw or judge, on the real model. Those that name a model or
/// a draft of their own are about these, and one has a budget of minutes.
#[test]
#[cfg(unix)]
fn commands_of_the_documents_run_on_it() {
    let Some(file) = file() else { return };
    let folder = folder(&file);
    let page = document("docs/command-line.md");
    let all = blocks(&page);
    let lines = || all.iter().filter(|(language, _)| *language == "sh").flat_map(|(_, block)| block.lines());
    for line in lines().filter(|line| line.starts_with("printf")) {
        let made = run(line, folder.path());
        assert!(made.status.success(), "{line}\n{}", String::from_utf8_lossy(&made.stderr));
    }
    let readme = document("README.md").replace("cargo run --release -- ", "unskew ");
    let mut commands: Vec<String> = Vec::new();
    for (_, block) in blocks(&readme) {
        // The audit is on this file, and has a prompt of several lines. A tenth of its outputs is enough here.
        if let Some(at) = block.find("unskew audit") {
            commands.push(block[at..].replace("-n 2000", "-n 200").replace(" --model smollm2.gguf", ""));
        } else if block.starts_with("unskew generate") {
            commands.extend(block.lines().next().map(str::to_owned));
        }
    }
    assert_eq!(commands.len(), 2, "{commands:#?}");
    let wanted = |line: &&str| {
        let of_tokens =
            ["unskew generate ", "unskew check ", "unskew mask "].iter().any(|task| line.starts_with(task));
        of_tokens
            && ![
                "--model",
                "--draft-model",
                "--load-trie",
                "titles.set",
                "person.gbnf",
                "--ids",
                "--prefix",
                "disc:budget=32",
            ]
            .iter()
            .any(|own| line.contains(own))
    };
    commands.extend(lines().filter(wanted).map(|line| line.replace("-n 200", "-n 5")));
    assert!(commands.len() > 12, "{commands:#?}");
    for command in &commands {
        // Most examples are about a text without a prompt, which this model begins by an end of another.
        let prompted = match command.contains("--prompt") || !command.starts_with("unskew generate") {
            true => command.clone(),
            false => command.replacen("generate", "generate --prompt 'For example: '", 1),
        };
        let done = run(&prompted, folder.path());
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !done.stdout.is_empty(), "{prompted}\n{said}");
    }
}

/// The lines of the tutorial that name the model, as they stand.
#[test]
#[cfg(unix)]
fn the_tutorial_of_the_command_line_runs_on_it() {
    let Some(file) = file() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(std::path::absolute(file).unwrap(), folder.path().join("smollm2.gguf"))
        .unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_unskew"), folder.path().join("unskew")).unwrap();
    let page = document("docs/tutorials/command-line.md");
    let blocks = blocks(&page);
    let lines: Vec<&str> = blocks
        .iter()
        .filter(|(language, _)| *language == "sh real")
        .flat_map(|(_, block)| block.lines())
        .collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for line in lines {
        let done = run(line, folder.path());
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !done.stdout.is_empty(), "{line}\n{said}");
    }
}

/// What users ask for first: a schema with strings, any object, any JSON, one tool and a choice of tools.
#[test]
fn schemas_and_tools_are_written() {
    let Some(model) = model() else { return };
    let person = json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"], "additionalProperties": false});
    let tool = json!({"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [{"begin": "<tool_call>",
        "content": {"type": "json_schema", "json_schema": person}, "end": "</tool_call>"}], "at_least_one": true,
        "stop_after_first": true});
    let message = "Write a person as JSON with name and age.";
    for schema in [person, json!({}), json!({"type": "object"})] {
        let spec = Spec::json_schema(schema.to_string());
        for output in asked(model, message).constrain(spec).unwrap().sample("masked").unwrap().take(4) {
            let output = output.unwrap();
            if output.finish == unskew::core::Finish::Stop {
                let value: Value = serde_json::from_str(&output.text).unwrap();
                assert!(jsonschema::is_valid(&schema, &value), "{schema}: {value}");
            }
        }
    }
    let spec: Spec = serde_json::from_value(json!({"structural_tag": {"format": tool}})).unwrap();
    let output =
        asked(model, message).constrain(spec).unwrap().sample("masked").unwrap().next().unwrap().unwrap();
    let tags = ["<tool_call>", "</tool_call>"];
    assert!(
        output.text.contains(tags[0]) || output.finish == unskew::core::Finish::Length,
        "{}",
        output.text
    );
}

/// The law of a list of texts: all that the model can write, byte by byte, as `docs/ends.md` says it.
fn law(request: &Request, tokens: &TokenSpace, choices: &[&str], end: OutputEnd) -> BTreeMap<String, f64> {
    const LEAST: f64 = -18.0;
    let task = request.task().unwrap();
    let (mut model, prompt) = (task.model, task.prompt.clone());
    let vocabulary = tokens.vocabulary();
    let is_prefix = |text: &[u8]| choices.iter().any(|choice| choice.as_bytes().starts_with(text));
    let is_choice = |text: &[u8]| choices.iter().any(|choice| choice.as_bytes() == text);
    let goes_on =
        |text: &[u8]| choices.iter().any(|c| c.as_bytes() != text && c.as_bytes().starts_with(text));
    let mut mass: BTreeMap<String, f64> = BTreeMap::new();
    let mut add = |text: &[u8], p: f64| {
        *mass.entry(String::from_utf8(text.to_vec()).unwrap()).or_default() += p.exp();
    };
    let mut open: Vec<(Vec<u8>, Vec<TokenId>, f64)> = vec![(Vec::new(), Vec::new(), 0.0)];
    while let Some((text, ids, log_p)) = open.pop() {
        let (mut sequence, mut logits) = (model.start(), Logits::new());
        let read = [&prompt[..], &ids].concat();
        let extension = Extension { sequence: &mut sequence, tokens: &read, rows: Rows::Last };
        model.extend(&mut [extension], &mut logits).unwrap();
        let row: Vec<f64> = logits.row(0).iter().map(|logit| f64::from(*logit)).collect();
        let all = log_sum_exp(row.iter().copied());
        for (at, logit) in row.iter().enumerate() {
            let (token, p) = (TokenId::from_index(at), log_p + logit - all);
            let is_end = vocabulary.end_of_sequence().contains(&token);
            let Some(more) = vocabulary.text(token).filter(|_| !is_end) else {
                if is_choice(&text) && (is_end || end == OutputEnd::Free) {
                    add(&text, p);
                }
                continue;
            };
            let longer = [&text[..], more].concat();
            if is_prefix(&longer) {
                match end == OutputEnd::Free && is_choice(&longer) && !goes_on(&longer) {
                    true => add(&longer, p),
                    false if p > LEAST => open.push((longer, [&ids[..], &[token]].concat(), p)),
                    false => {}
                }
            } else if end == OutputEnd::Free {
                let cut = (text.len()..longer.len()).rev().find(|cut| is_prefix(&longer[..*cut])).unwrap();
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
                let cuts_a_word = cut > text.len() && is_word(&longer[cut - 1]) && is_word(&longer[cut]);
                if is_choice(&longer[..cut]) && !cuts_a_word {
                    add(&longer[..cut], p);
                }
            }
        }
    }
    mass
}

#[test]
fn exact_samplers_follow_its_law() {
    const OUTPUTS: usize = 400;
    let Some(model) = model() else { return };
    let choices = ["positive", "negative", "neutral", "mixed"];
    let message = "Is this review positive, negative, neutral or mixed? Answer with one word.\n\n\
                   The room was clean, and the staff rude.";
    for end in [OutputEnd::Free, OutputEnd::Model] {
        let spec = Spec::choices(choices).ending(end);
        let request = asked(model, message).constrain(spec).unwrap().batch(32);
        let law = law(&request, model.tokens(), &choices, end);
        let total: f64 = law.values().sum();
        for sampler in ["cars", "disc:budget=1000"] {
            let mut draws = request.clone().sample(sampler).unwrap().take(OUTPUTS);
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            draws.by_ref().for_each(|output| *counts.entry(output.unwrap().text).or_default() += 1);
            // Rare texts are one cell, as a chi-square wants it.
            let (common, rare): (Vec<_>, Vec<_>) = law
                .iter()
                .map(|(text, p)| (counts.get(text).copied().unwrap_or(0), p / total))
                .partition(|(_, p)| *p > 0.01);
            let rest = rare.iter().fold((0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
            let cells: Vec<(u64, f64)> = common.into_iter().chain((rest.1 > 0.0).then_some(rest)).collect();
            let fit = chi_square(cells.iter().copied().filter(|(count, p)| *count > 0 || *p > 1e-3));
            assert!(fit.deviation < 4.5, "{sampler} {end:?}: {fit:?} {cells:?}");
            let ratio = (draws.log_mass().unwrap() - total.ln()).exp();
            assert!(
                (0.6..1.6).contains(&ratio),
                "{sampler} {end:?}: P(constraint) {total}, said {ratio} of it"
            );
        }
    }
}

/// Outputs of `canonical` masks are what `check` calls canonical, and every output is one of its constraint.
#[test]
fn what_it_writes_is_checked() {
    let Some(file) = file() else { return };
    let files = Files::new(&[]);
    let date = "[0-9]{4}-[0-9]{2}-[0-9]{2}, [A-Z][a-z]{2,9}";
    let model = file.to_str().unwrap();
    let args = ["generate", "--model", model, "--regex", date, "--prompt", "The party is on ", "--canonical"];
    let lines = unskew(
        &[&args[..], &["--sampler", "masked", "-n", "12", "--seed", "1", "--format", "jsonl"]].concat(),
    )
    .json();
    for line in &lines {
        let ids = line["ids"].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",");
        let check =
            ["check", "--model", model, "--regex", date, "--canonical", "--ids", &ids, "--format", "jsonl"];
        let verdict = unskew(&check).json().remove(0);
        assert_eq!(
            (&verdict["accepted"], &verdict["canonical"]),
            (&json!(true), &json!(true)),
            "{line} {verdict}"
        );
    }
    drop(files);
    assert_eq!(lines.len(), 12);
}
