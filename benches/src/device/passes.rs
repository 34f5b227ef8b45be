//! Passes of a transformer on an adapter, with random weights: one new token for each of some sequences, and prompts.
//!
//! A pass of one sequence reads each weight once. So the rate at which it reads the weights, beside the bandwidth of
//! the card's memory, says how far it is from the bound. A pass ends with the answer to a question about each row, as
//! a sampler asks it.

use std::fmt::Write;

use clap::ValueEnum;
use unskew_core::{
    LogitRows, Logits,
    rows::{Among, Pick, RowQuestion},
};
use unskew_runner::{Llama, ModelConfig};

use crate::{
    checkpoints::{
        SMOL_CONFIG,
        weights::{Stored, checkpoint},
    },
    passes::{Shape, Times},
    record::figures::distribution,
};

/// The shape of Llama 3.2 1B, without the scaling of its rotary embeddings.
const BILLION_CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 8192, "tie_word_embeddings": true}"#;

/// Passes that are not counted: the first ones compile kernels.
const WARM: usize = 6;
/// Tokens of a prompt that is timed.
const LONG: usize = 512;

/// A model of which the shape is known, and whose weights are random.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Model {
    /// SmolLM2-135M
    Smol,
    /// Llama 3.2 1B
    Billion,
}

impl Model {
    fn config_json(self) -> &'static str {
        match self {
            Self::Smol => SMOL_CONFIG,
            Self::Billion => BILLION_CONFIG,
        }
    }
    fn name(self) -> &'static str {
        match self {
            Self::Smol => "SmolLM2-135M",
            Self::Billion => "Llama 3.2 1B",
        }
    }
}

/// Passes of a model of this shape.
#[allow(clippy::print_stderr, reason = "a program that reports")]
pub(super) fn report(of: Model, batches: &[usize], rounds: usize) -> Result<String, String> {
    let config = ModelConfig::from_json(of.config_json()).map_err(|error| error.to_string())?;
    eprintln!("{}: {:.2} billion random weights", of.name(), config.parameters() as f64 / 1e9);
    let mut model = {
        let mut file = Vec::new();
        checkpoint(&config, Stored::Bf16, &mut file).map_err(|error| error.to_string())?;
        let on_cpu = Llama::from_bytes(of.config_json(), &file).map_err(|error| error.to_string())?;
        on_cpu.on_gpu().map_err(|error| error.to_string())?
    };
    // The device computes with 32 bits.
    let bytes = config.parameters() as f64 * 4.0;
    let mut out = format!(
        "\n## Passes: the shape of {}\n\n\
         Random weights, {:.2} GB in 32 bits on the device. Microseconds on the wall of a pass and of the choice of each row's most \
         probable token; {rounds} passes after {WARM} that are not counted. `GB/s`: the weights over the median.\n\n\
         | new tokens | n | mean | p50 | p90 | p99 | p99.9 | max | tokens/s | GB/s |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        of.name(),
        bytes / 1e9
    );
    let steps = batches.iter().map(|sequences| Shape { sequences: *sequences, tokens: 1 });
    for shape in steps.chain([Shape { sequences: 1, tokens: LONG }]) {
        eprintln!("{}", shape.name());
        let mut times = Times::default();
        shape.time(&mut model, WARM, rounds, &mut times, choose)?;
        times.wall.sort_unstable();
        let median = times.wall[times.wall.len() / 2] as f64 / 1e9;
        let rate = (shape.sequences * shape.tokens) as f64 / median;
        let cells = distribution(&times.wall, 1e3);
        let _ = writeln!(out, "| {} | {cells} | {rate:.0} | {:.0} |", shape.name(), bytes / 1e9 / median);
    }
    Ok(out)
}

/// The choice of each row's most probable token.
fn choose(logits: &Logits) -> Result<(), String> {
    let questions: Vec<RowQuestion<'_>> = (0..logits.len())
        .map(|row| RowQuestion { pick: Pick::Best, ..RowQuestion::mass(row, Among::All) })
        .collect();
    logits.answer(&questions, &mut Vec::new()).map_err(|error| error.to_string())
}
