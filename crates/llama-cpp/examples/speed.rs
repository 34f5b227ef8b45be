//! Tokens a second through the trait of models, beside llama.cpp's own calls on the same file.
//!
//! `cargo run --release -p unskew-llama-cpp --features llama-cpp --example speed -- FILE.gguf`, or in place of a file
//! `tiny` (the embedded model in f16), `smollm2-f16` or `smollm2-q8` (the shape of SmolLM2-135M with random weights).
//! A number after it is that of the threads.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::{error::Error, num::NonZeroU32, time::Instant};

use llama_cpp_2::{
    context::params::LlamaContextParams,
    llama_backend::LlamaBackend,
    llama_batch::LlamaBatch,
    model::{LlamaModel, params::LlamaModelParams},
    token::LlamaToken,
};
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
use unskew_llama_cpp::{LlamaCpp, Options};
use unskew_testdata::gguf::{self, Weights};
use unskew_tiny_model::{TINY, TOKENIZER_JSON};

/// Tokens of each sequence in a run.
const LEN: usize = 64;
const RUNS: usize = 5;
const BATCHES: [usize; 2] = [1, 8];

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("give a GGUF file, tiny, smollm2-f16 or smollm2-q8")?;
    let folder = tempfile::tempdir()?;
    let random =
        |weights| gguf::random_llama_of(gguf::SMOLLM2_135M, weights, |file| gguf::numbered(file, 49_152));
    let written = match name.as_str() {
        "tiny" => Some(gguf::llama(TINY.config_json, TOKENIZER_JSON, TINY.safetensors, Weights::F16)),
        "smollm2-f16" => Some(random(Weights::F16)),
        "smollm2-q8" => Some(random(Weights::Q8)),
        _ => None,
    };
    let path = match written {
        None => name,
        Some(bytes) => {
            let path = folder.path().join("model.gguf");
            std::fs::write(&path, bytes)?;
            path.to_str().ok_or("a path that is not UTF-8")?.to_owned()
        }
    };
    let threads = match std::env::args().nth(2) {
        Some(threads) => threads.parse()?,
        None => std::thread::available_parallelism()?.get(),
    };
    // llama.cpp is initialised once at a time: here first, and then by the model.
    let alone = llama_cpp_alone(&path, i32::try_from(threads)?)?;
    let mut options = Options::default();
    options.threads = Some(threads);
    let mut model = LlamaCpp::open(&path, &options)?;
    for (batch, alone) in BATCHES.into_iter().zip(alone) {
        let runs = (0..RUNS).map(|_| through_the_trait(&mut model, batch)).collect::<Result<Vec<_>, _>>()?;
        println!(
            "batch {batch}: {:.0} tokens/s through the trait, {alone:.0} by llama.cpp alone",
            median(runs)
        );
    }
    println!("{threads} threads; {LEN} tokens of each sequence, median of {RUNS} runs");
    Ok(())
}

/// The loop of `llama-bench`: a pass for a token of each sequence. It reads no logits.
fn llama_cpp_alone(path: &str, threads: i32) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut backend = LlamaBackend::init()?;
    backend.void_logs();
    let model = LlamaModel::load_from_file(&backend, path, &LlamaModelParams::default())?;
    let mut medians = Vec::new();
    for batch in BATCHES {
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(1024))
            .with_n_seq_max(u32::try_from(batch)?)
            .with_kv_unified(true)
            .with_n_threads(threads)
            .with_n_threads_batch(threads);
        let mut context = model.new_context(&backend, params)?;
        let mut tokens = LlamaBatch::new(batch, 1);
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            context.clear_kv_cache();
            let begin = Instant::now();
            for step in 0..i32::try_from(LEN)? {
                tokens.clear();
                for sequence in 0..i32::try_from(batch)? {
                    tokens.add(LlamaToken(step + 1), step, &[sequence], true)?;
                }
                context.decode(&mut tokens)?;
                context.synchronize();
            }
            runs.push((LEN * batch) as f64 / begin.elapsed().as_secs_f64());
        }
        medians.push(median(runs));
    }
    Ok(medians)
}

fn through_the_trait(model: &mut LlamaCpp, batch: usize) -> Result<f64, Box<dyn Error>> {
    let mut sequences: Vec<_> = (0..batch).map(|_| model.start()).collect();
    let mut logits = Logits::new();
    let begin = Instant::now();
    for step in 0..LEN {
        let token = [TokenId(u32::try_from(step)? + 1)];
        let mut items: Vec<_> = sequences
            .iter_mut()
            .map(|sequence| Extension { sequence, tokens: &token, rows: Rows::Last })
            .collect();
        model.extend(&mut items, &mut logits)?;
    }
    Ok((LEN * batch) as f64 / begin.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
