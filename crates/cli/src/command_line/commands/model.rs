//! `unskew model`: what a checkpoint is, and how fast it runs here.

use std::{fs, io::Write, path::Path, time::Instant};

use serde::Serialize;

use super::answer;
use crate::{
    ModelSource,
    command_line::{
        args::{ModelArgs, ModelBenchArgs, ModelCommand, ModelInfoArgs},
        error::{Failure, Result, chain},
        models,
    },
    core::{Extension, LanguageModel, Logits, Rows, TokenId},
    runner::{Family, LayerRotary, Llama, ModelConfig, Scaling, memory_bandwidth},
};

/// The batches that are measured.
const BATCHES: [usize; 3] = [1, 8, 32];

/// Tokens of the text before each sequence of a batch.
const BEFORE: usize = 16;

/// The description of a checkpoint.
#[derive(Serialize)]
struct Info {
    /// The value of `model_type`.
    architecture: &'static str,
    parameters: u64,
    /// Of the weights in files.
    bytes: u64,
    layers: usize,
    hidden: usize,
    heads: usize,
    key_value_heads: usize,
    head_dim: usize,
    vocabulary: usize,
    /// The most tokens of a sequence.
    context: usize,
    /// Layers with a window.
    windows: usize,
    /// The type of rotary scaling; null for none.
    rotary_scaling: Option<&'static str>,
    tied_head: bool,
    /// Bytes of keys and values of one position.
    position_bytes: u64,
    eos: Vec<u32>,
}

pub(crate) fn model(command: &ModelCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        ModelCommand::Info(args) => info(args, out),
        ModelCommand::Bench(args) => bench(args, out),
    }
}

fn info(args: &ModelInfoArgs, out: &mut dyn Write) -> Result<()> {
    let (config, bytes) = match args.model.source() {
        ModelSource::Folder(folder) => {
            let path = folder.join("config.json");
            let text = fs::read_to_string(&path).map_err(|error| Failure::file(&path, error))?;
            (read(&text)?, weights(folder)?)
        }
        ModelSource::Gguf(path) => {
            let config = Llama::config_of_gguf(path).map_err(crate::Error::of_gguf)?;
            let gguf = crate::vocab::Gguf::open(path).map_err(|error| Failure::file(path, error))?;
            (config, gguf.tensors().iter().filter_map(|tensor| tensor.bytes).sum())
        }
        #[cfg(feature = "tiny-model")]
        ModelSource::Tiny => {
            embedded(crate::tiny_model::TINY.config_json, crate::tiny_model::TINY.safetensors)?
        }
        #[cfg(feature = "tiny-model")]
        ModelSource::TinyDraft => {
            embedded(crate::tiny_model::DRAFT.config_json, crate::tiny_model::DRAFT.safetensors)?
        }
        _ => {
            return Err(Failure::input(
                "only a transformer has weights to describe; give the folder of a checkpoint, or a `.gguf` file",
            ));
        }
    };
    let info = describe(&config, bytes);
    answer(args.format, &info, out, |out| {
        writeln!(out, "{}, {} parameters, {:.1} MB", info.architecture, info.parameters, bytes as f64 / 1e6)?;
        writeln!(
            out,
            "{} layers of width {}, {} heads of width {} over {} of keys and values, {} tokens",
            info.layers, info.hidden, info.heads, info.head_dim, info.key_value_heads, info.vocabulary
        )?;
        let windows = match info.windows {
            0 => String::new(),
            count => format!(", windows in {count} layers"),
        };
        let scaling = info.rotary_scaling.map_or_else(String::new, |name| format!(", rotary scaling {name}"));
        let context = info.context;
        Ok(writeln!(out, "context {context}{windows}{scaling}; {} bytes a position", info.position_bytes)?)
    })
}

#[cfg(feature = "tiny-model")]
fn embedded(config: &str, weights: &[u8]) -> Result<(ModelConfig, u64)> {
    Ok((read(config)?, weights.len() as u64))
}

fn read(config: &str) -> Result<ModelConfig> {
    let text = config.strip_prefix('\u{feff}').unwrap_or(config);
    ModelConfig::from_json(text).map_err(|error| Failure::bad(&error))
}

/// The bytes of the weights in a folder.
fn weights(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(|error| Failure::file(folder, error))? {
        let entry = entry.map_err(|error| Failure::file(folder, error))?;
        if entry.path().extension().is_some_and(|ending| ending == "safetensors") {
            let path = entry.path();
            bytes += fs::metadata(&path).map_err(|error| Failure::file(&path, error))?.len();
        }
    }
    Ok(bytes)
}

fn describe(config: &ModelConfig, bytes: u64) -> Info {
    let architecture = &config.architecture;
    let kinds = (0..config.num_hidden_layers).map(|layer| architecture.layer(layer));
    let rotary_scaling = match &architecture.scaling {
        _ if architecture.family == Family::Gpt2 => None,
        Scaling::None => None,
        Scaling::Linear { .. } => Some("linear"),
        Scaling::Dynamic { .. } => Some("dynamic"),
        Scaling::Llama3 { .. } => Some("llama3"),
        Scaling::Yarn { .. } => Some("yarn"),
        Scaling::LongRope { .. } => Some("longrope"),
        _ => Some("another"),
    };
    debug_assert!(
        kinds.clone().all(|kind| kind.rotary != LayerRotary::Local || architecture.local_rope.is_some())
    );
    Info {
        architecture: architecture.family.model_type(),
        parameters: u64::try_from(config.parameters()).unwrap_or(u64::MAX),
        bytes,
        layers: config.num_hidden_layers,
        hidden: config.hidden_size,
        heads: config.num_attention_heads,
        key_value_heads: config.num_key_value_heads,
        head_dim: config.head_dim,
        vocabulary: config.vocab_size,
        context: config.context_len(),
        windows: kinds.filter(|kind| kind.window.is_some()).count(),
        rotary_scaling,
        tied_head: config.tie_word_embeddings,
        position_bytes: 8 * (config.num_hidden_layers * config.num_key_value_heads * config.head_dim) as u64,
        eos: config.eos_token_ids.clone(),
    }
}

/// The speed of a checkpoint here.
#[derive(Serialize)]
struct Speed {
    architecture: &'static str,
    parameters: u64,
    /// Of the weights in memory.
    bytes: u64,
    /// The type in which weights are kept.
    weights: &'static str,
    /// Bytes of weights that a step reads, whatever the batch.
    step_bytes: u64,
    /// Bytes of memory that this machine reads in a second.
    memory_bytes_per_s: f64,
    load_ms: u64,
    /// Tokens of a prompt in a second.
    prefill_tokens_per_s: f64,
    decode: Vec<Decode>,
}

/// Steps of a batch, one token for each sequence.
#[derive(Serialize)]
struct Decode {
    batch: usize,
    tokens_per_s: f64,
    /// Bytes of weights for each token.
    bytes_per_token: f64,
    /// The share of the memory's speed at which weights are read.
    share_of_bandwidth: f64,
}

fn bench(args: &ModelBenchArgs, out: &mut dyn Write) -> Result<()> {
    let begin = Instant::now();
    let named = ModelArgs {
        model: args.model.source().clone(),
        tokenizer: None,
        quantize: args.quantize,
        endpoint: None,
    };
    let model = models::load(&named)?;
    let load_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let measured = model.any_model().with(|llama: &Llama| {
        let config = llama.config();
        (
            config.architecture.family.model_type(),
            u64::try_from(config.parameters()).unwrap_or(u64::MAX),
            llama.weight_bytes() as u64,
            llama.kept_as(),
            llama.step_bytes() as u64,
        )
    });
    let Some((architecture, parameters, bytes, weights, step_bytes)) = measured else {
        return Err(Failure::input(
            "only a transformer of our own decoder has weights to measure; give the folder of a checkpoint, or a `.gguf` file",
        ));
    };
    let memory_bytes_per_s = memory_bandwidth(5);
    let mut model = model.any_model().clone();
    let context = model.context_len().unwrap_or(usize::MAX);
    let (steps, prompt) = (args.steps.get(), args.prompt_tokens.get().min(context));
    if context <= BEFORE + steps {
        return Err(Failure::input(format!(
            "the model's context is {context} tokens; give fewer `--steps` than {}",
            context.saturating_sub(BEFORE)
        )));
    }
    let prefill = prompt as f64 / seconds(&mut model, 1, prompt, 0)?;
    let mut decode = Vec::new();
    for batch in BATCHES {
        let taken = seconds(&mut model, batch, BEFORE, steps)?;
        let rate = steps as f64 / taken;
        decode.push(Decode {
            batch,
            tokens_per_s: rate * batch as f64,
            bytes_per_token: step_bytes as f64 / batch as f64,
            share_of_bandwidth: rate * step_bytes as f64 / memory_bytes_per_s,
        });
    }
    let speed = Speed {
        architecture,
        parameters,
        bytes,
        weights,
        step_bytes,
        memory_bytes_per_s,
        load_ms,
        prefill_tokens_per_s: prefill,
        decode,
    };
    answer(args.format, &speed, out, |out| {
        writeln!(
            out,
            "{architecture}, {:.1} MB of {weights}, loaded in {load_ms} ms; memory {:.1} GB/s",
            bytes as f64 / 1e6,
            memory_bytes_per_s / 1e9
        )?;
        writeln!(out, "prompt of {prompt}: {prefill:.1} tokens/s")?;
        for step in &speed.decode {
            writeln!(
                out,
                "batch {:>2}: {:>10.1} tokens/s, {:>8.2} MB of weights a token, {:>4.0} % of the memory's speed",
                step.batch,
                step.tokens_per_s,
                step.bytes_per_token / 1e6,
                100.0 * step.share_of_bandwidth
            )?;
        }
        Ok(())
    })
}

/// The seconds of `steps` steps of a batch after a prompt; without steps those of the prompt.
fn seconds(model: &mut crate::AnyModel, batch: usize, prompt: usize, steps: usize) -> Result<f64> {
    let vocab_len = model.vocab_len();
    // Texts differ from their first token on, so that no prefix is known.
    let token =
        |of: usize, at: usize| TokenId::from_index((of * 7919 + at * 131 + steps * 17 + batch) % vocab_len);
    let mut logits = Logits::new();
    let mut sequences: Vec<_> = (0..batch).map(|_| model.start()).collect();
    let mut begin = Instant::now();
    for step in 0..=steps {
        let pieces: Vec<Vec<TokenId>> = (0..batch)
            .map(|of| match step {
                0 => (0..prompt).map(|at| token(of, at)).collect(),
                _ => vec![token(of, prompt + step)],
            })
            .collect();
        let items = sequences.iter_mut().zip(&pieces);
        let mut extensions: Vec<_> =
            items.map(|(sequence, tokens)| Extension { sequence, tokens, rows: Rows::Last }).collect();
        if step == 1 {
            begin = Instant::now();
        }
        model
            .extend(&mut extensions, &mut logits)
            .map_err(|error| Failure::input(format!("the model fails: {}", chain(&error))))?;
    }
    Ok(begin.elapsed().as_secs_f64())
}
