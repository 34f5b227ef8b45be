//! Every command and sampler of the command line on a checkpoint of a billion parameters, each in a process of its own.
//!
//! The tokenizer is the embedded one. All ids beyond it end an output. Random weights give each id about the same
//! probability, so that outputs are short, and samplers that reject find one. A prompt of some hundred tokens is in
//! the cache.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::write;
use crate::{options, process::memory_of};

/// The shape of Llama 3.2 1B.
const VOCAB: usize = 128_256;

/// The bound, in bytes.
const LIMIT: u64 = 8_000_000_000;

/// How often the memory of a process is looked at. A peak stays readable until the process ends.
const LOOK: Duration = Duration::from_millis(10);

/// Samplers with a draft, of the same tokens: the prompt itself.
const DRAFTED: [&str; 2] = ["speculative", "mentored:kl=0.1"];
const SAMPLERS: [&str; 16] = [
    "auto",
    "masked",
    "rejection",
    "rsft",
    "ars",
    "cars",
    "disc",
    "asap",
    "twist:budget=2",
    "awrs",
    "smc:n=8",
    "smc:n=8,values",
    "mcmc",
    "imh",
    "beam:n=8",
    "greedy",
];

const CONSTRAINT: [&str; 2] = ["--regex", "[a-z ]{1,12}"];

/// A process that has ended.
struct Ended {
    peak: u64,
    seconds: f64,
    failure: Option<String>,
}

fn measure(program: &Path, folder: &Path, args: &[&str]) -> Result<Ended, String> {
    eprintln!("unskew {}", args.iter().take(5).copied().collect::<Vec<_>>().join(" "));
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let process = child.id().to_string();
    let mut peak = 0;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        peak = peak.max(memory_of(&process, "VmHWM:"));
        thread::sleep(LOOK);
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failure = said.lines().find(|line| line.starts_with("error")).unwrap_or("no error line").to_owned();
    let failure = (!output.status.success()).then_some(failure);
    Ok(Ended { peak, seconds: begin.elapsed().as_secs_f64(), failure })
}

pub(super) fn report(filters: &[String]) -> Result<String, String> {
    let program = options::command_line()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let known = unskew_vocab::Tokenizer::from_bytes(unskew_tiny_model::TOKENIZER_JSON.as_bytes())
        .map_err(|error| error.to_string())?
        .vocabulary()
        .len();
    let config = json!({
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": VOCAB, "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0, "max_position_embeddings": 131_072, "tie_word_embeddings": true, "bos_token_id": 0,
        "eos_token_id": (known..VOCAB).collect::<Vec<_>>(),
    });
    let config = write(folder.path(), &config.to_string())?;
    // The tokenizer names them, for they end an output.
    let mut tokenizer: serde_json::Value =
        serde_json::from_str(unskew_tiny_model::TOKENIZER_JSON).map_err(|error| error.to_string())?;
    let ends = (known..VOCAB).map(|id| {
        json!({
            "id": id, "content": format!("<|end {id}|>"), "special": true, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false,
        })
    });
    tokenizer["added_tokens"].as_array_mut().ok_or("a tokenizer without added tokens")?.extend(ends);
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string())
        .map_err(|error| error.to_string())?;
    let prompt = "the quick brown fox jumps over the lazy dog, and the dog sleeps on. ".repeat(12);

    let model = ["--model", ".", "--prompt", &prompt, "--max-tokens", "6", "--seed", "1"];
    let draw = |sampler: &str, outputs: &str| {
        let mut args =
            [&["generate"][..], &CONSTRAINT[..], &model, &["-n", outputs, "--sampler", sampler]].concat();
        if DRAFTED.contains(&sampler) {
            args.extend(["--draft-model", "ngram"]);
        }
        args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>()
    };
    let plain = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let mut commands: Vec<(String, Vec<String>)> = SAMPLERS
        .iter()
        .chain(&DRAFTED)
        .map(|sampler| (format!("generate, {sampler}"), draw(sampler, "2")))
        .collect();
    let batched = [&draw("cars", "16")[..], &plain(&["--batch", "16"])].concat();
    let audited =
        [&["audit"][..], &CONSTRAINT[..], &model, &["--samples", "2", "--samplers", "masked,cars"]].concat();
    commands.extend([
        ("generate, cars, batches of 16".to_owned(), batched),
        ("audit, masked and cars".to_owned(), plain(&audited)),
        (
            "check".to_owned(),
            plain(&[&["check"][..], &CONSTRAINT[..], &["--model", ".", "--text", "the lines"]].concat()),
        ),
        ("mask".to_owned(), plain(&[&["mask"][..], &CONSTRAINT[..], &["--model", "."]].concat())),
    ]);
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(&**filter));
    let mut out = format!(
        "\n## {:.2} billion parameters in bf16, {:.2} GB of weights\n\n| command | peak, GB | seconds |\n|---|--:|--:|\n",
        config.parameters() as f64 / 1e9,
        config.parameters() as f64 * 2.0 / 1e9
    );
    let mut most = 0;
    for (name, args) in commands.iter().filter(|(name, _)| wanted(name)) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let Ended { peak, seconds, failure } = measure(&program, folder.path(), &args)?;
        most = most.max(peak);
        if let Some(failure) = failure {
            return Err(format!("{name}: {failure}"));
        }
        out += &format!("| `{name}` | {:.2} | {seconds:.1} |\n", peak as f64 / 1e9);
    }
    let verdict = if most <= LIMIT { "within" } else { "**above**" };
    let limit = LIMIT as f64 / 1e9;
    out += &format!("\nThe highest peak is {:.2} GB, {verdict} {limit:.0} GB.\n", most as f64 / 1e9);
    Ok(out)
}
