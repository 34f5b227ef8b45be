//! Passes of transformers on the CPU, beside burn and beside the memory: `cargo xtask bench runner`.
//!
//! - **The embedded model**, two million parameters in f16: one new token for each of some sequences, and a prompt.
//!   Our decoder and burn's take turns, so that a busy machine is busy for both. Times are on the wall, since threads
//!   share a pass; the time of the process says how much of the processor that took.
//! - **The shape of SmolLM2-135M**, random weights: its passes read more than the caches hold. So their bound is the
//!   time in which this machine reads the weights once, which is measured here, too. llama.cpp takes turns with ours
//!   where `--llama-cpp` asks for it, in a program of its own: it is built from C++.

mod memory;

use std::{fmt::Write, path::Path, process::Command};

use clap::Args;
use unskew_runner::{Llama, LoadOptions, ModelConfig, Quantization, burn};

use crate::{
    checkpoints::{
        SMOL_CONFIG,
        weights::{self, Stored},
    },
    clock::use_cpu_time,
    options::{RecordOptions, at_least_one, llama_cpp},
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
    /// Measure llama.cpp too, on the same shape
    #[arg(long)]
    llama_cpp: bool,
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
    let mut on_burn = cpu.to_burn(burn::Backend::Cpu);
    let mut out = format!("## The embedded model\n\n{HEAD}");
    for shape in EMBEDDED {
        eprintln!("the embedded model, {}", shape.name());
        let [mut ours, mut theirs] = [Times::default(), Times::default()];
        for _ in 0..options.rounds {
            time(shape, &mut cpu, options.passes, &mut ours)?;
            shape.time(&mut on_burn, 1, options.passes, &mut theirs, |_| Ok(()))?;
        }
        for (name, times) in [("cpu", &mut ours), ("burn", &mut theirs)] {
            let _ = writeln!(out, "| {} | {name} | {} |", shape.name(), cells(times));
        }
    }
    Ok(out)
}

/// Times passes, of which each evaluates all its tokens.
fn time(shape: Shape, model: &mut Llama, passes: usize, times: &mut Times) -> Result<(), String> {
    model.remember(0);
    let before = model.evaluated();
    let appended = shape.time(model, 1, passes, times, |_| Ok(()))?;
    let evaluated = model.evaluated() - before;
    if evaluated != appended as u64 {
        return Err(format!("{appended} tokens were appended, and {evaluated} positions evaluated"));
    }
    Ok(())
}

/// How weights are stored, how they are kept, and the name of the same weights in `examples/speed.rs` of
/// `unskew-llama-cpp`.
const KEPT: [(Stored, Quantization, Option<&str>); 4] = [
    (Stored::F32, Quantization::None, None),
    (Stored::F16, Quantization::None, Some("smollm2-f16")),
    (Stored::Bf16, Quantization::None, None),
    (Stored::F32, Quantization::Q8_0, Some("smollm2-q8")),
];

#[allow(clippy::print_stderr, reason = "a program that reports")]
fn smol(options: &Options) -> Result<String, String> {
    let config = ModelConfig::from_json(SMOL_CONFIG).map_err(|error| error.to_string())?;
    let peer = options.llama_cpp.then(llama_cpp).transpose()?;
    let mut out = format!("\n## The shape of SmolLM2-135M, random weights\n\n{HEAD}");
    let mut bounds = String::from(
        "\n`beside f32`: the median of f32 over this one. `8 sequences`: the tokens in a second beside those of one sequence.\n\n\
         | weights | MB | passes of one sequence, GB/s: least time | median | memory, GB/s | share of the bound | beside f32 | 8 sequences |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut peers = String::new();
    let mut median_of_f32 = None;
    for (stored, quantization, llama_cpp) in KEPT {
        let mut model = {
            let mut file = Vec::new();
            weights::checkpoint(&config, stored, &mut file).map_err(|error| error.to_string())?;
            let mut options = LoadOptions::default();
            options.quantization = quantization;
            Llama::from_bytes_with(SMOL_CONFIG, &file, &mut options).map_err(|error| error.to_string())?
        };
        let (name, bytes) = (model.kept_as(), model.step_bytes() as f64);
        let mut memory = memory::Block::new();
        let mut most = 0.0_f64;
        let mut all: Vec<Times> = vec![Times::default(); SMOL.len()];
        let mut peer_rates = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds {
            for (shape, times) in SMOL.into_iter().zip(&mut all) {
                eprintln!("{name}, {}", shape.name());
                time(shape, &mut model, options.passes.div_ceil(8), times)?;
                most = most.max(memory.read());
            }
            if let (Some(program), Some(name)) = (&peer, llama_cpp) {
                for (rates, rate) in peer_rates.iter_mut().zip(tokens_per_second(program, name)?) {
                    rates.push(rate);
                }
            }
        }
        for (shape, times) in SMOL.into_iter().zip(&mut all) {
            let _ = writeln!(out, "| {} | {name} | {} |", shape.name(), cells(times));
        }
        let median = |times: &Times| times.wall[times.wall.len() / 2] as f64;
        let (one, eight) = (median(&all[0]), median(&all[1]));
        let _ = writeln!(
            bounds,
            "| {name} | {:.0} | {:.1} | {:.1} | {most:.1} | {:.2} | {:.2} | {:.2} |",
            bytes / 1e6,
            bytes / all[0].wall[0] as f64,
            bytes / one,
            bytes / all[0].wall[0] as f64 / most,
            *median_of_f32.get_or_insert(one) / one,
            8.0 * one / eight,
        );
        for ((sequences, ours), mut theirs) in [(1, 1e9 / one), (8, 8e9 / eight)].into_iter().zip(peer_rates)
        {
            if !theirs.is_empty() {
                theirs.sort_unstable_by(f64::total_cmp);
                let theirs = theirs[theirs.len() / 2];
                let _ = writeln!(
                    peers,
                    "| {name} | {sequences} | {} | {} | {:.2} |",
                    amount(ours),
                    amount(theirs),
                    ours / theirs
                );
            }
        }
    }
    if !peers.is_empty() {
        let head = "\nTokens in a second, beside llama.cpp's own loop, which reads no logits; medians.\n\n\
                    | weights | sequences | ours | llama.cpp | ratio |\n|---|--:|--:|--:|--:|\n";
        peers.insert_str(0, head);
    }
    Ok(out + &bounds + &peers)
}

/// Tokens in a second of llama.cpp, for one sequence and for eight.
fn tokens_per_second(program: &Path, name: &str) -> Result<[f64; 2], String> {
    let out = Command::new(program).arg(name).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout);
    let rate = |line: &str| line.split_once("trait, ")?.1.split_once(' ')?.0.parse().ok();
    let rates: Vec<f64> = text.lines().filter_map(rate).collect();
    let unread =
        |_| format!("{} printed {text:?} {:?}", program.display(), String::from_utf8_lossy(&out.stderr));
    rates.try_into().map_err(unread)
}
