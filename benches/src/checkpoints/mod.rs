//! Peak memory of transformers: `cargo xtask bench checkpoints`.
//!
//! - **A thousand walks** after one prompt, on the shape of SmolLM2-135M: the cache of the prompt is there once, so
//!   that the peak of the process is the weights and the cache of the tree of walks, and little more.
//! - **A billion parameters** in bf16, the shape of Llama 3.2 1B: every command and every sampler of the command
//!   line, each in a process of its own.
//!
//! Weights are random, because memory does not depend on them, and no download is needed. Peaks are those that Linux
//! reports for a process (`VmHWM`), which count all of it: weights, caches, logits, the tokenizer and the program.
#![allow(clippy::print_stderr, reason = "says what is under way: the whole takes minutes")]
#![allow(clippy::cast_precision_loss, reason = "bytes are far below 2^52")]

mod commands;
mod walks;
pub(crate) mod weights;

use std::{fs::File, io::BufWriter, path::Path};

use clap::{Args, ValueEnum};
use unskew_runner::ModelConfig;

use crate::{options::RecordOptions, record};
use weights::Stored;

/// The shape of SmolLM2-135M.
pub(crate) const SMOL_CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0, "max_position_embeddings": 8192, "tie_word_embeddings": true}"#;

/// Peak memory of transformers.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these parts
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Only samplers with one of these in their names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    samplers: Vec<String>,
    #[command(flatten)]
    record: RecordOptions,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// A thousand walks after one prompt
    Walks,
    /// Every command on a billion parameters
    Commands,
}

/// Measures and reports.
#[allow(clippy::print_stdout, reason = "a program that reports")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut report = format!(
        "# Peak memory of transformers, {}\n\n{}{}. GB are 10^9 bytes.\n",
        record::today(),
        record::host(),
        record::command()
    );
    let wanted = |part: Part| options.parts.is_empty() || options.parts.contains(&part);
    // The walks come first: their peak is that of this process.
    if wanted(Part::Walks) {
        report += &walks::report()?;
    }
    if wanted(Part::Commands) {
        report += &commands::report(&options.samplers)?;
    }
    print!("{report}");
    options.record.write("checkpoints", &report)
}

/// Writes a checkpoint in bf16 into a folder.
fn write(folder: &Path, config_json: &str) -> Result<ModelConfig, String> {
    let config = ModelConfig::from_json(config_json).map_err(|error| error.to_string())?;
    eprintln!("writing {:.2} GB of random weights", config.parameters() as f64 * 2.0 / 1e9);
    let written = || -> std::io::Result<()> {
        std::fs::write(folder.join("config.json"), config_json)?;
        let file = File::create(folder.join("model.safetensors"))?;
        weights::checkpoint(&config, Stored::Bf16, BufWriter::new(file))
    };
    written().map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(config)
}
