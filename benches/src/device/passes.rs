//! Passes of a transformer on an adapter, with random weights: one new token for each of some sequences, and prompts.
//!
//! A pass of one sequence reads each weight once. So the rate at which it reads the weights, beside the bandwidth of
//! the card's memory, says how far it is from the bound. A pass ends with the answer to a question about each row, as
//! a sampler asks it.

use std::{fmt::Write, time::Instant};

use clap::ValueEnum;
use unskew_core::{
    Extension, LanguageModel, LogitRows, Logits, Rows, TokenId,
    rows::{Among, Pick, RowQuestion},
};
use unskew_runner::{Llama, ModelConfig, burn};

use crate::{
    checkpoints::{
        SMOL_CONFIG,
        weights::{Stored, checkpoint},
    },
    report::distribution,
};

/// The shape of Llama 3.2 1B, without the scaling of its rotary embeddings.
const BILLION_CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 8192, "tie_word_embeddings": true}"#;

/// Passes that are not counted: the first ones compile kernels, and burn tries several.
const WARM: usize = 6;
/// Tokens before the first pass of one new token.
const PROMPT: usize = 8;
/// Tokens of a prompt that is timed.
const LONG: usize = 512;

/// The shape of a model.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// SmolLM2-135M
    Smol,
    /// Llama 3.2 1B
    Billion,
}

impl Shape {
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
pub(super) fn report(shape: Shape, batches: &[usize], rounds: usize) -> Result<String, String> {
    let config = ModelConfig::from_json(shape.config_json()).map_err(|error| error.to_string())?;
    eprintln!("{}: {:.2} billion random weights", shape.name(), config.parameters() as f64 / 1e9);
    let mut model = {
        let mut file = Vec::new();
        checkpoint(&config, Stored::Bf16, &mut file).map_err(|error| error.to_string())?;
        let on_cpu = Llama::from_bytes(shape.config_json(), &file).map_err(|error| error.to_string())?;
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
        shape.name(),
        bytes / 1e9
    );
    let steps = batches.iter().map(|sequences| (*sequences, 1));
    for (sequences, tokens) in steps.chain([(1, LONG)]) {
        let name = match (sequences, tokens) {
            (1, 1) => "one sequence".to_owned(),
            (sequences, 1) => format!("{sequences} sequences"),
            (_, tokens) => format!("prompt of {tokens}"),
        };
        eprintln!("{name}");
        let mut times = time(&mut model, sequences, tokens, rounds)?;
        times.sort_unstable();
        let median = times[times.len() / 2] as f64 / 1e9;
        let rate = (sequences * tokens) as f64 / median;
        let cells = distribution(&times, 1e3);
        let _ = writeln!(out, "| {name} | {cells} | {rate:.0} | {:.0} |", bytes / 1e9 / median);
    }
    Ok(out)
}

/// Nanoseconds on the wall of each pass.
fn time(model: &mut burn::Llama, sequences: usize, tokens: usize, rounds: usize) -> Result<Vec<u64>, String> {
    let vocab_len = model.vocab_len();
    let mut logits = Logits::new();
    let mut held: Vec<burn::Sequence> = (0..sequences).map(|_| model.start()).collect();
    let mut times = Vec::new();
    for pass in 0..WARM + rounds {
        // A prompt begins its sequence; other passes continue theirs, after a short prompt.
        let is_first = tokens > 1 || pass == 0;
        if is_first {
            held.iter_mut().for_each(|sequence| *sequence = model.start());
        }
        let len = if is_first { tokens.max(PROMPT) } else { 1 };
        let token = |at: usize| TokenId::from_index((pass * 131 + at) * 7919 % vocab_len);
        let pieces: Vec<Vec<TokenId>> =
            (0..sequences).map(|sequence| (0..len).map(|at| token(sequence * 17 + at)).collect()).collect();
        let mut batch: Vec<Extension<'_, burn::Sequence>> = held
            .iter_mut()
            .zip(&pieces)
            .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last })
            .collect();
        let begin = Instant::now();
        model.extend(&mut batch, &mut logits).map_err(|error| error.to_string())?;
        let questions: Vec<RowQuestion<'_>> = (0..sequences)
            .map(|row| RowQuestion { pick: Pick::Best, ..RowQuestion::mass(row, Among::All) })
            .collect();
        let mut answers = Vec::new();
        logits.answer(&questions, &mut answers).map_err(|error| error.to_string())?;
        if pass >= WARM {
            times.push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
    Ok(times)
}
