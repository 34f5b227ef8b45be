//! Passes of transformers on the CPU, beside burn and beside the memory: `cargo xtask bench runner`.
//!
//! - **The embedded model**, two million parameters in f16: one new token for each of some sequences, and a prompt.
//!   Our decoder and burn's take turns, so that a busy machine is busy for both. Times are on the wall, since threads
//!   share a pass; the time of the process says how much of the processor that took.
//! - **The shape of SmolLM2-135M**, random weights: its passes read more than the caches hold. So their bound is the
//!   time in which this machine reads the weights once, which is measured here, too.

mod memory;

use std::fmt::Write;

use clap::Args;
use unskew_runner::{Llama, ModelConfig, burn};

use crate::{
    checkpoints::{
        SMOL_CONFIG,
        weights::{self, Stored},
    },
    clock::use_cpu_time,
    options::{RecordOptions, at_least_one},
    passes::{Shape, Times},
    record,
    record::figures::{amount, distribution},
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

/// The times, which become sorted, as cells of a table: the wall's distribution and least, and the median of the
/// process.
fn cells(times: &mut Times) -> String {
    let Times { wall, process } = times;
    wall.sort_unstable();
    process.sort_unstable();
    let least = wall.first().copied().unwrap_or(0) as f64;
    let process = process.get(process.len() / 2).copied().unwrap_or(0) as f64;
    format!("{} | {} | {}", distribution(wall, 1e3), amount(least / 1e3), amount(process / 1e3))
}

const HEAD: &str = "| new tokens | decoder | n | mean | p50 | p90 | p99 | p99.9 | max | least | process |\n\
                    |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

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
            shape.time(&mut cpu, 1, options.passes, &mut ours, |_| Ok(()))?;
            shape.time(&mut on_burn, 1, options.passes, &mut theirs, |_| Ok(()))?;
        }
        for (name, times) in [("cpu", &mut ours), ("burn", &mut theirs)] {
            let _ = writeln!(out, "| {} | {name} | {} |", shape.name(), cells(times));
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
                shape.time(&mut model, 1, options.passes.div_ceil(8), &mut times, |_| Ok(()))?;
                most = most.max(memory.read());
            }
            let _ = writeln!(out, "| {} | {} | {} |", shape.name(), stored.name(), cells(&mut times));
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
