//! Passes of transformers on the CPU, beside burn and beside the memory: `cargo xtask bench runner`.
//!
//! - **The embedded model**, two million parameters in f16: one new token for each of some sequences, and a prompt.
//!   Our decoder and burn's take turns, so that a busy machine is busy for both. Times are on the wall, since threads
//!   share a pass; the time of the process says how much of the processor that took.
//! - **The shape of SmolLM2-135M**, random weights: its passes read more than the caches hold. So their bound is the
//!   time in which this machine reads the weights once, which is measured here, too.

mod memory;

use std::{fmt::Write, time::Instant};

use clap::Args;
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_runner::{Llama, ModelConfig, burn};

use crate::{
    checkpoints::{
        SMOL_CONFIG,
        weights::{self, Stored},
    },
    clock::{Moment, use_cpu_time},
    options::{RecordOptions, at_least_one},
    record,
    report::{amount, distribution},
};

/// Passes of transformers on the CPU, beside burn and beside the memory.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Rounds, in each of which the decoders take turns
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one)]
    rounds: usize,
    /// Passes of a decoder in a round
    #[arg(long, value_name = "N", default_value = "40", value_parser = at_least_one)]
    passes: usize,
    #[command(flatten)]
    record: RecordOptions,
}

/// The sequences of a pass, and the tokens that it appends to each.
#[derive(Clone, Copy)]
struct Shape {
    sequences: usize,
    /// New tokens of each sequence. More than one: the pass is the first of its sequences.
    tokens: usize,
}

const EMBEDDED: [Shape; 5] = [
    Shape { sequences: 1, tokens: 1 },
    Shape { sequences: 8, tokens: 1 },
    Shape { sequences: 16, tokens: 1 },
    Shape { sequences: 32, tokens: 1 },
    Shape { sequences: 1, tokens: 256 },
];

const SMOL: [Shape; 3] = [
    Shape { sequences: 1, tokens: 1 },
    Shape { sequences: 8, tokens: 1 },
    Shape { sequences: 1, tokens: 128 },
];

/// Tokens before the first pass that is timed.
const PROMPT: usize = 8;

/// Nanoseconds of passes, on the wall and of the process.
#[derive(Clone, Debug, Default)]
struct Times {
    wall: Vec<u64>,
    process: Vec<u64>,
}

impl Times {
    /// Sorted, and as cells of a table: the wall's distribution and least, and the median of the process.
    fn cells(&mut self) -> String {
        self.wall.sort_unstable();
        self.process.sort_unstable();
        let least = self.wall.first().copied().unwrap_or(0) as f64;
        let process = self.process.get(self.process.len() / 2).copied().unwrap_or(0) as f64;
        format!("{} | {} | {}", distribution(&self.wall, 1e3), amount(least / 1e3), amount(process / 1e3))
    }
}

const HEAD: &str = "| new tokens | decoder | n | mean | p50 | p90 | p99 | p99.9 | max | least | process |\n\
                    |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

impl Shape {
    fn name(self) -> String {
        match self {
            Self { sequences: 1, tokens: 1 } => "one sequence".to_owned(),
            Self { sequences, tokens: 1 } => format!("{sequences} sequences"),
            Self { tokens, .. } => format!("prompt of {tokens}"),
        }
    }

    /// Times so many passes after one that is not counted.
    fn time<M: LanguageModel>(self, model: &mut M, passes: usize, times: &mut Times) -> Result<(), String> {
        let vocab_len = model.vocab_len();
        let token = |number: usize| TokenId::from_index(number * 7919 % vocab_len);
        let mut logits = Logits::new();
        let mut sequences: Vec<M::Sequence> = (0..self.sequences).map(|_| model.start()).collect();
        for pass in 0..=passes {
            let is_first = self.tokens > 1 || pass == 0;
            if is_first {
                sequences.iter_mut().for_each(|sequence| *sequence = model.start());
            }
            let len = if self.tokens > 1 {
                self.tokens
            } else if is_first {
                PROMPT
            } else {
                1
            };
            let pieces: Vec<Vec<TokenId>> = (0..self.sequences)
                .map(|item| (0..len).map(|at| token(pass * 131 + item * 17 + at)).collect())
                .collect();
            let mut batch: Vec<Extension<'_, M::Sequence>> = sequences
                .iter_mut()
                .zip(&pieces)
                .map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last })
                .collect();
            let (process, wall) = (Moment::now(), Instant::now());
            model.extend(&mut batch, &mut logits).map_err(|error| error.to_string())?;
            if pass > 0 {
                times.wall.push(u64::try_from(wall.elapsed().as_nanos()).unwrap_or(u64::MAX));
                times.process.push(process.ns());
            }
        }
        Ok(())
    }
}

/// Measures and reports.
#[allow(clippy::print_stdout, reason = "a program that reports")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    use_cpu_time();
    let report = embedded(options)? + &smol(options)?;
    let head = format!(
        "# Passes of transformers on the CPU, {}\n\n{}{}.\n\n\
         Microseconds of a pass on the wall, {} rounds of {} passes each, in which the decoders take turns; `process` is the median \
         of the time of all threads. `cpu` is our decoder.\n\n",
        record::today(),
        record::host(),
        record::command(),
        options.rounds,
        options.passes,
    );
    let report = head + &report;
    print!("{report}");
    options.record.write("runner", &report)
}

#[allow(clippy::print_stderr, reason = "a program that reports")]
fn embedded(options: &Options) -> Result<String, String> {
    let tiny = unskew_tiny_model::TINY;
    let mut cpu = Llama::from_bytes(tiny.config_json, tiny.safetensors).map_err(|error| error.to_string())?;
    let mut on_burn = cpu.to_burn(burn::Backend::Cpu).map_err(|error| error.to_string())?;
    let mut out = format!("## The embedded model\n\n{HEAD}");
    for shape in EMBEDDED {
        eprintln!("the embedded model, {}", shape.name());
        let [mut ours, mut theirs] = [Times::default(), Times::default()];
        for _ in 0..options.rounds {
            shape.time(&mut cpu, options.passes, &mut ours)?;
            shape.time(&mut on_burn, options.passes, &mut theirs)?;
        }
        for (name, times) in [("cpu", &mut ours), ("burn", &mut theirs)] {
            let _ = writeln!(out, "| {} | {name} | {} |", shape.name(), times.cells());
        }
    }
    Ok(out)
}

#[allow(clippy::print_stderr, reason = "a program that reports")]
fn smol(options: &Options) -> Result<String, String> {
    let config = ModelConfig::from_json(SMOL_CONFIG).map_err(|error| error.to_string())?;
    let mut out = format!("\n## The shape of SmolLM2-135M, random weights\n\n{HEAD}");
    let mut bounds = String::from(
        "\n| weights | MB | passes of one sequence, GB/s: least time | median | memory, GB/s | share of the bound |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for stored in [Stored::F32, Stored::F16, Stored::Bf16] {
        let mut model = {
            let mut file = Vec::new();
            weights::checkpoint(&config, stored, &mut file).map_err(|error| error.to_string())?;
            Llama::from_bytes(SMOL_CONFIG, &file).map_err(|error| error.to_string())?
        };
        let bytes = config.parameters() as f64 * stored.bytes() as f64;
        let mut memory = memory::Block::new();
        let mut most = 0.0_f64;
        for shape in SMOL {
            eprintln!("{}, {}", stored.name(), shape.name());
            let mut times = Times::default();
            for _ in 0..options.rounds {
                shape.time(&mut model, options.passes.div_ceil(8), &mut times)?;
                most = most.max(memory.read());
            }
            let _ = writeln!(out, "| {} | {} | {} |", shape.name(), stored.name(), times.cells());
            if (shape.sequences, shape.tokens) == (1, 1) {
                let rate = |ns: u64| bytes / ns as f64;
                let (least, median) = (rate(times.wall[0]), rate(times.wall[times.wall.len() / 2]));
                let _ = writeln!(
                    bounds,
                    "| {} | {:.0} | {least:.1} | {median:.1} | {most:.1} | {:.2} |",
                    stored.name(),
                    bytes / 1e6,
                    least / most
                );
            }
        }
    }
    Ok(out + &bounds)
}
