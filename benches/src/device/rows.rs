//! Masked outputs of a set where the model runs on wgpu.
//!
//! The two ways in which a sampler can have the rows of such a model, with the same model, the same set, and the same
//! seeds:
//!
//! - **asked**: the logits stay on the device. Masks go up, and a token and four numbers a row come down.
//! - **read-back**: the logits come down, and the CPU masks them.
//!
//! The model is small but for its vocabulary, so that a pass is mostly the head and the transfers. Times are those of
//! the process and on the wall: on a software adapter the first are the work of all threads, kernels among them.

use std::{fmt::Write, sync::Arc, time::Instant};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use unskew_core::{Cancel, Extension, LanguageModel, Logits, Sampler, TokenId};
use unskew_runner::{
    ModelConfig, ModelError,
    burn::{Llama, Sequence},
};
use unskew_samplers::{Masked, Sampling, Task};
use unskew_sets::SetConstraint;

use crate::{
    clock::Moment,
    sets::{
        set_of,
        titles::{TOKENS, Titles, VOCAB},
    },
};

/// The end of a sequence: an id that no title has.
const END: TokenId = TokenId(TOKENS);
const PROMPT: [TokenId; 4] = [TokenId(5), TokenId(6), TokenId(7), TokenId(8)];
/// Rounds that are not counted: the first ones compile kernels.
const WARM: usize = 3;
/// The most tokens of an output.
const LENGTH: usize = 32;

/// A model whose rows are read to host memory where that is asked for.
struct Rows {
    model: Llama,
    reads: bool,
}

impl LanguageModel for Rows {
    type Sequence = Sequence;
    type Error = ModelError;

    fn vocab_len(&self) -> usize {
        self.model.vocab_len()
    }
    fn context_len(&self) -> Option<usize> {
        self.model.context_len()
    }
    fn start(&mut self) -> Sequence {
        self.model.start()
    }
    fn len(&self, sequence: &Sequence) -> usize {
        self.model.len(sequence)
    }
    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        self.model.fork(sequence)
    }
    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        self.model.truncate(sequence, len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        logits: &mut Logits,
    ) -> Result<(), ModelError> {
        self.model.extend(batch, logits)?;
        if self.reads {
            logits.read_all().map_err(|error| ModelError::Device { reason: error.to_string() })?;
        }
        Ok(())
    }
}

/// A set of `items` titles, outputs of `batch` sequences at once.
#[allow(clippy::print_stderr, reason = "a program that reports")]
pub(super) fn report(items: usize, batches: &[usize], rounds: usize) -> Result<String, String> {
    let constraint = constraint(items)?;
    let mut out = format!(
        "\n## Rows\n\n\
         A random model of one layer and {VOCAB} ids, 32 wide, and a set of {items} titles. Masked outputs, as many at once as a \
         batch has; {rounds} rounds after {WARM} that are not counted. `asked`: masks go up, and a token and four numbers come \
         down. `read-back`: the logits come down. Milliseconds a token; process: the time of all threads.\n\n\
         | batch | rows | tokens | process p50 | least | wall p50 | least |\n\
         |--:|---|--:|--:|--:|--:|--:|\n",
    );
    for &batch in batches {
        for (name, reads) in [("asked", false), ("read-back", true)] {
            eprintln!("{batch} sequences, {name}");
            let [tokens, process, wall] = measure(&constraint, batch, rounds, reads)?;
            let _ = writeln!(out, "| {batch} | {name} | {tokens} | {process} | {wall} |");
        }
    }
    Ok(out)
}

pub(super) fn model() -> Result<Llama, String> {
    let config = format!(
        r#"{{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "vocab_size": {VOCAB}, "max_position_embeddings": 4096,
                 "tie_word_embeddings": true}}"#
    );
    let config = ModelConfig::from_json(&config).map_err(|error| error.to_string())?;
    let model = unskew_runner::Llama::random(&config, 1).map_err(|error| error.to_string())?;
    model.on_gpu().map_err(|error| error.to_string())
}

fn constraint(items: usize) -> Result<SetConstraint, String> {
    let set = set_of(&Titles::new(1).set(items));
    SetConstraint::new(Arc::new(set), VOCAB).map_err(|error| error.to_string())
}

/// The number of tokens, and for each clock the median and the least time of a round, in milliseconds a token.
fn measure(
    constraint: &SetConstraint,
    batch: usize,
    rounds: usize,
    reads: bool,
) -> Result<[String; 3], String> {
    let task = Task {
        model: Rows { model: model()?, reads },
        constraint: constraint.clone(),
        prompt: PROMPT.to_vec(),
        end: vec![END],
        max_tokens: LENGTH,
        top: None,
        batch,
        // No row is kept, so that each token costs a pass.
        max_bytes: 0,
        cancel: Cancel::default(),
    };
    let mut sampler = Sampling::new(task, Masked::new());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut times, mut all) = ([Vec::new(), Vec::new()], 0);
    for round in 0..WARM + rounds {
        let mut draws = Vec::new();
        let (process, wall) = (Moment::now(), Instant::now());
        sampler.draw_many(batch, &mut rng, &mut draws).map_err(|error| error.to_string())?;
        let spent = [process.ns() as f64, wall.elapsed().as_nanos() as f64];
        let tokens: usize = draws.iter().map(|draw| draw.tokens.len() + 1).sum();
        if round >= WARM {
            all += tokens;
            times.iter_mut().zip(spent).for_each(|(times, spent)| times.push(spent / tokens as f64 / 1e6));
        }
    }
    let [process, wall] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        format!("{:.2} | {:.2}", times[times.len() / 2], times[0])
    });
    Ok([all.to_string(), process, wall])
}
