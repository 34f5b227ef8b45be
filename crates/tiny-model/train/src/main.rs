//! Makes the embedded models, from nothing but this repository: `cargo xtask train [STEPS]` runs it.
//!
//! Corpus (a function of a seed), tokenizer, then two models of one shape family on the same tokens: `tiny`, which the
//! command line runs by default, and `draft`, a quarter of its size, which proposes tokens to it in speculative
//! decoding. `unskew-tiny-model` embeds the files that are written. A run that is stopped resumes from its checkpoints
//! in `target/train`. With STEPS it is a trial run of so many steps, into `target/train/trial`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use indicatif::{ProgressBar, ProgressStyle};
use unskew_runner::{ModelConfig, TrainEvent, TrainOptions, TrainedModel, TrainingData, train};
use unskew_tiny_model_train::Corpus;
use unskew_vocab::{Tokenizer, train_byte_level_bpe};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The seed of the training text; the validation text is the stream of the next seed.
const CORPUS_SEED: u64 = 1;
const TRAIN_DOCUMENTS: usize = 220_000;
const VALID_DOCUMENTS: usize = 2_000;
/// The tokenizer learns from the first documents: its merges are settled long before the text ends.
const TOKENIZER_DOCUMENTS: usize = 40_000;
const VOCAB_SIZE: usize = 2048;
/// Put between documents: begins and ends each of them.
const END_OF_TEXT: &str = "<|endoftext|>";

/// One of the two models.
struct Recipe {
    name: &'static str,
    hidden: usize,
    inner: usize,
    layers: usize,
    heads: usize,
    steps: u64,
}

const RECIPES: [Recipe; 2] = [
    Recipe { name: "tiny", hidden: 192, inner: 512, layers: 4, heads: 6, steps: 3000 },
    Recipe { name: "draft", hidden: 96, inner: 256, layers: 2, heads: 3, steps: 2000 },
];

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    let mut args = std::env::args().skip(1);
    let done = match (root, args.next(), args.next()) {
        (Some(root), steps, None) => steps
            .map(|steps| steps.parse().map_err(|error| format!("{steps}: {error}").into()))
            .transpose()
            .and_then(|steps| run(root, steps)),
        _ => Err("usage: cargo xtask train [STEPS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("train: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Trains the models that are not trained yet and writes them to `crates/tiny-model/model`; `steps` overrides the
/// recipes' number, for a trial run, which then writes to `target/train/trial`.
fn run(root: &Path, steps: Option<u64>) -> Result<()> {
    let work = root.join("target/train");
    let out = if steps.is_some() { work.join("trial") } else { root.join("crates/tiny-model/model") };
    fs::create_dir_all(&work)?;
    fs::create_dir_all(&out)?;

    let tokenizer_json = tokenizer(&out.join("tokenizer.json"))?;
    let tokenizer = Tokenizer::from_bytes(&tokenizer_json)?;
    let data = TrainingData {
        train: stream(&tokenizer, CORPUS_SEED, TRAIN_DOCUMENTS, "training text")?,
        valid: stream(&tokenizer, CORPUS_SEED + 1, VALID_DOCUMENTS, "validation text")?,
    };
    println!("{} training tokens, {} validation tokens", data.train.len(), data.valid.len());

    let mut rows = String::new();
    for recipe in &RECIPES {
        let checkpoint = if steps.is_some() {
            out.join(format!("{}.checkpoint", recipe.name))
        } else {
            work.join(format!("{}.checkpoint", recipe.name))
        };
        let steps = steps.unwrap_or(recipe.steps);
        let model = train_one(recipe, steps, checkpoint, &data)?;
        model.save(out.join(recipe.name))?;
        writeln!(
            rows,
            "| {} | {:.2} M | {} | {} | {} | {} | {:.3} |",
            recipe.name,
            model.config().parameters() as f64 / 1e6,
            recipe.layers,
            recipe.hidden,
            model.steps(),
            model.steps() * 2048,
            model.valid_loss(),
        )?;
    }
    let card = card(&data, &rows);
    fs::write(out.join("MODEL_CARD.md"), card)?;
    println!("wrote {}", out.display());
    Ok(())
}

fn tokenizer(path: &Path) -> Result<Vec<u8>> {
    println!("learning the tokenizer from {TOKENIZER_DOCUMENTS} documents");
    let corpus = Corpus::new(CORPUS_SEED);
    let json = train_byte_level_bpe(corpus.iter().take(TOKENIZER_DOCUMENTS), VOCAB_SIZE, &[END_OF_TEXT])?;
    fs::write(path, &json)?;
    Ok(json)
}

/// The tokens of the first documents of a corpus, each preceded by the end of the one before it.
fn stream(tokenizer: &Tokenizer, seed: u64, documents: usize, what: &'static str) -> Result<Vec<u32>> {
    let bar = bar(documents as u64, "{msg} {bar:40} {pos}/{len} {eta}").with_message(what);
    let end = tokenizer.begin_of_sequence().to_vec();
    let mut ids = Vec::new();
    for document in Corpus::new(seed).iter().take(documents) {
        ids.extend(end.iter().map(|id| id.0));
        ids.extend(tokenizer.encode(&document, false)?.iter().map(|id| id.0));
        bar.inc(1);
    }
    ids.extend(end.iter().map(|id| id.0));
    bar.finish_and_clear();
    Ok(ids)
}

fn train_one(recipe: &Recipe, steps: u64, checkpoint: PathBuf, data: &TrainingData) -> Result<TrainedModel> {
    let config = ModelConfig {
        hidden_size: recipe.hidden,
        intermediate_size: recipe.inner,
        num_hidden_layers: recipe.layers,
        num_attention_heads: recipe.heads,
        num_key_value_heads: recipe.heads / 3,
        head_dim: 32,
        vocab_size: VOCAB_SIZE,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        max_position_embeddings: 512,
        tie_word_embeddings: true,
        bos_token_id: Some(0),
        eos_token_ids: vec![0],
        architecture: unskew_runner::Architecture::llama(),
    };
    let mut options = TrainOptions::new(checkpoint);
    options.steps = steps;
    options.learning_rate = 3e-3;
    options.valid_every = 250;
    options.checkpoint_every = 50;

    let bar = bar(steps, "{prefix} {bar:40} {pos}/{len} {eta} {msg}").with_prefix(recipe.name);
    let mut valid = f64::NAN;
    let model = train(&config, data, &options, &mut |event| match event {
        TrainEvent::Resumed { step } => bar.println(format!("{}: resumed after step {step}", recipe.name)),
        TrainEvent::Step { step, loss, tokens_per_second, .. } => {
            bar.set_position(step);
            bar.set_message(format!("loss {loss:.3}, valid {valid:.3}, {tokens_per_second:.0} tokens/s"));
        }
        TrainEvent::Validated { step, loss } => {
            valid = loss;
            let line = format!("{}: step {step}, validation loss {loss:.4}", recipe.name);
            // A bar that is not drawn swallows its lines.
            if bar.is_hidden() { println!("{line}") } else { bar.println(line) }
        }
        _ => {}
    })?;
    bar.finish_and_clear();
    Ok(model)
}

fn bar(len: u64, template: &str) -> ProgressBar {
    ProgressBar::new(len).with_style(ProgressStyle::with_template(template).expect("a valid template"))
}

fn card(data: &TrainingData, rows: &str) -> String {
    format!(
        "# The embedded models

Two decoder-only transformers of the Llama family (RMSNorm, rotary embeddings, grouped-query attention, SwiGLU, tied
head), made by `cargo xtask train` from this repository alone. They exist to show and to test constrained decoding on
a model that runs anywhere in milliseconds; they know nothing about the world.

| model | parameters | layers | width | steps | tokens seen | validation loss (nats per token) |
|---|---|---|---|---|---|---|
{rows}
- **Text**: the synthetic corpus of `crates/tiny-model/train` (people, places, products, dates, e-mail addresses, short English
  prose, JSON records, logs, arithmetic, s-expressions, lists), seed {CORPUS_SEED}: {TRAIN_DOCUMENTS} documents, {train} tokens.
  Every name, sentence and fact is made up by the generator.
- **Validation**: {VALID_DOCUMENTS} documents of seed {valid_seed}, {valid} tokens. The table of people is the same for both seeds.
- **Tokenizer**: byte-level byte-pair encoding with GPT-2's split pattern, {VOCAB_SIZE} ids, learnt from the first
  {TOKENIZER_DOCUMENTS} documents. `{END_OF_TEXT}` (id 0) stands between documents.
- **Training**: AdamW, 16 windows of 128 tokens a step, learning rate 3e-3 with warm-up and cosine decay, on the CPU.
- **Weights**: f16, under Hugging Face's Llama names.
- **Limits**: 512 positions, trained on windows of 128. English of a few hundred sentence patterns. Arithmetic is often
  wrong. Not fit for any use but tests and demonstrations.
",
        train = data.train.len(),
        valid = data.valid.len(),
        valid_seed = CORPUS_SEED + 1,
    )
}
