//! Training of small models: the workspace makes its own embedded model with it.
//!
//! The module is made for a few million parameters on a CPU within the hour. It has neither accumulation of gradients
//! nor mixed precision nor more than one device. A run is a function of the configuration, the data and the options.
//! The windows of step `n` depend on the seed and on `n` alone, so that a run that was stopped and resumed sees the
//! batches of an uninterrupted run.
//!
//! The weights and the optimiser's state live on the host as plain vectors, and each step uploads the weights as
//! leaves of a fresh graph. Not taken: burn's own optimisers. They clip each tensor by itself instead of all by their
//! common norm, and they write their state in a format of burn's. With host vectors a checkpoint is a safetensors
//! file, and AdamW is twenty lines.

mod checkpoint;
mod optimizer;
mod save;

use std::path::PathBuf;
use std::time::Instant;

use ::burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::burn::Backend;
use crate::burn::decoder::{Attention, Decoder};
use crate::burn::rotary::Places;
use crate::config::parameters::{self, Parameter};
use crate::config::{ConfigError, ModelConfig};
use crate::math::rotary::{Regime, Rotary};
use crate::network::Network;
use crate::weights::random;

use optimizer::AdamW;

/// The tokens to learn from: two streams of ids below `vocab_size`.
#[derive(Clone, Debug)]
pub struct TrainingData {
    /// The stream whose windows are trained on.
    pub train: Vec<u32>,
    /// The stream whose windows only measure the validation loss.
    pub valid: Vec<u32>,
}

/// The options of a run. Start from [`TrainOptions::new`] and change the fields that matter.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Windows per step.
    pub batch: usize,
    /// Tokens predicted per window.
    pub context: usize,
    /// Steps in all, those before a resumption included.
    pub steps: u64,
    /// The highest learning rate, reached at the end of the warm-up.
    pub learning_rate: f64,
    /// Steps over which the learning rate rises linearly. After the warm-up the rate falls along a cosine to a tenth.
    pub warmup: u64,
    /// Decoupled weight decay, of matrices only.
    pub weight_decay: f64,
    /// The largest norm of all gradients together; larger gradients are scaled down to it.
    pub clip: f64,
    /// Steps between validations; one validation always follows the last step.
    pub valid_every: u64,
    /// Windows per validation, spread evenly over the stream and the same each time.
    pub valid_windows: usize,
    /// Steps between checkpoints; one checkpoint always follows the last step.
    pub checkpoint_every: u64,
    /// Seed of the initial weights and of the order of the data.
    pub seed: u64,
    /// The checkpoint file. A run resumes from the file when it exists, and replaces it atomically.
    pub checkpoint: PathBuf,
    /// The backend to train on.
    pub backend: Backend,
    /// Threads that share each batch, a divisor of `batch`. The number changes results by rounding only.
    pub threads: usize,
}

impl TrainOptions {
    /// Options that suit a model of about two million parameters.
    #[must_use]
    pub fn new(checkpoint: impl Into<PathBuf>) -> Self {
        Self {
            batch: 16,
            context: 128,
            steps: 2000,
            learning_rate: 2e-3,
            warmup: 100,
            weight_decay: 0.1,
            clip: 1.0,
            valid_every: 100,
            valid_windows: 32,
            checkpoint_every: 100,
            seed: 0,
            checkpoint: checkpoint.into(),
            backend: Backend::default(),
            threads: 2,
        }
    }

    /// The learning rate of the step with this number, from 1.
    fn learning_rate_at(&self, step: u64) -> f64 {
        if step <= self.warmup {
            return self.learning_rate * step as f64 / self.warmup as f64;
        }
        let fall = self.steps.saturating_sub(self.warmup).max(1);
        let done = ((step - self.warmup) as f64 / fall as f64).min(1.0);
        self.learning_rate * (0.1 + 0.45 * (1.0 + (std::f64::consts::PI * done).cos()))
    }
}

/// An event of a training run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TrainEvent {
    /// A checkpoint was found; training continues after its step.
    Resumed {
        /// The steps that the checkpoint had done.
        step: u64,
    },
    /// A step was done.
    Step {
        /// Its number, from 1.
        step: u64,
        /// Mean cross-entropy of its batch before the update, in nats per token.
        loss: f64,
        /// Its learning rate.
        learning_rate: f64,
        /// Norm of all gradients together, before clipping.
        gradient_norm: f64,
        /// Tokens trained on per second in this step, without validation and checkpoints.
        tokens_per_second: f64,
    },
    /// The validation loss was measured.
    Validated {
        /// Steps done so far.
        step: u64,
        /// Mean cross-entropy over the validation windows, in nats per token.
        loss: f64,
    },
    /// A checkpoint was written.
    Saved {
        /// Steps done so far.
        step: u64,
    },
}

/// An error of training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The configuration is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An option is out of range.
    #[error("training option `{option}` = {value}, but it must be {expected}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// A stream is too short for a single window.
    #[error(
        "the {stream} stream holds {tokens} tokens, but one window takes {window}; pass more or shorten it"
    )]
    TooFewTokens {
        /// `train` or `valid`.
        stream: &'static str,
        /// Its length.
        tokens: usize,
        /// The length of a window: the options' context and one.
        window: usize,
    },
    /// A token id is outside the vocabulary.
    #[error(
        "token {token} at {index} of the {stream} stream is not below vocab_size = {vocab_size}; encode anew"
    )]
    Token {
        /// `train` or `valid`.
        stream: &'static str,
        /// The place in the stream.
        index: usize,
        /// The id.
        token: u32,
        /// The configuration's vocabulary.
        vocab_size: usize,
    },
    /// The loss or a gradient is not finite any more.
    #[error("training diverged at step {step}: loss {loss}; lower the learning rate from {learning_rate}")]
    Diverged {
        /// The step, from 1.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Its learning rate.
        learning_rate: f64,
    },
    /// The checkpoint belongs to another run.
    #[error(
        "checkpoint {path} was made with {what} = {found}, this run has {expected}; delete it to start anew"
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The name of the setting that differs.
        what: String,
        /// Its value in the file.
        found: String,
        /// Its value in this run.
        expected: String,
    },
    /// The checkpoint cannot be read.
    #[error("checkpoint {path} is damaged: {reason}; delete it to start anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {path}; check that the folder exists and is writable")]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The result of training.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    config: ModelConfig,
    values: Vec<Vec<f32>>,
    steps: u64,
    valid_loss: f64,
}

impl TrainedModel {
    /// The shape of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Steps trained, those before a resumption included.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Mean cross-entropy over the validation windows after the last step, in nats per token.
    #[must_use]
    pub fn valid_loss(&self) -> f64 {
        self.valid_loss
    }

    /// The weights as the bytes of a `model.safetensors`: f16, with Hugging Face's names and shapes for Llama. Equal
    /// models give equal bytes.
    #[must_use]
    pub fn to_safetensors(&self) -> Vec<u8> {
        save::to_f16(&self.config, &self.values)
    }

    /// Writes `config.json` and `model.safetensors` into a folder, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`TrainError::Io`] with the file's name, when the folder or a file cannot be written.
    pub fn save(&self, folder: impl Into<PathBuf>) -> Result<(), TrainError> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(|source| TrainError::Io {
            action: "write",
            path: folder.clone(),
            source,
        })?;
        let config = self.config.to_json() + "\n";
        checkpoint::write_atomically(&folder.join("config.json"), config.as_bytes())?;
        checkpoint::write_atomically(&folder.join("model.safetensors"), &self.to_safetensors())
    }
}

/// Trains a model from random weights, or from the checkpoint that `options` name.
///
/// Memory: four times the parameters in f32 (weights, gradients and the optimiser's two moments), and intermediate
/// results that grow with `batch * context`: a few hundred megabytes for two million parameters, a vocabulary of 2048
/// and batches of 16 windows of 128 tokens.
///
/// Each step allocates and frees its intermediate results. With glibc, `MALLOC_ARENA_MAX=1`,
/// `MALLOC_MMAP_THRESHOLD_=1000000000` and `MALLOC_TRIM_THRESHOLD_=4000000000` in the environment keep this memory in
/// the process instead of returning it to the system each time. On two cores the three settings made steps a third
/// shorter.
///
/// # Errors
///
/// [`TrainError`] when the configuration, the options or the data are out of range, when the checkpoint belongs to
/// another run, when a file cannot be read or written, and when the loss is not finite any more.
pub fn train(
    config: &ModelConfig,
    data: &TrainingData,
    options: &TrainOptions,
    on_event: &mut dyn FnMut(TrainEvent),
) -> Result<TrainedModel, TrainError> {
    config.validate()?;
    config.check_plain()?;
    check(config, data, options)?;
    let table = parameters::table(config);
    let device = options.backend.device();
    let trainer = Trainer {
        config,
        places: Places::new(config, &mut Rotary::new(config), &window_places(options), &device),
        hidden: hidden_from(options.context, config, &device),
        table: &table,
        options,
        device,
    };

    let mut state = match checkpoint::load(config, &table, options)? {
        Some(state) => {
            on_event(TrainEvent::Resumed { step: state.step });
            state
        }
        None => {
            let values = random::initial(config, &mut ChaCha8Rng::seed_from_u64(options.seed));
            State { step: 0, optimizer: AdamW::new(&values), values }
        }
    };
    let mut valid_loss = f64::NAN;
    while state.step < options.steps {
        let event = trainer.step(&mut state, &data.train)?;
        on_event(event);
        let step = state.step;
        if step.is_multiple_of(options.valid_every) || step == options.steps {
            valid_loss = trainer.validate(&state.values, &data.valid);
            on_event(TrainEvent::Validated { step, loss: valid_loss });
        }
        if step.is_multiple_of(options.checkpoint_every) || step == options.steps {
            checkpoint::store(config, &table, options, &state)?;
            on_event(TrainEvent::Saved { step });
        }
    }
    if valid_loss.is_nan() {
        // The run resumed after the last step.
        valid_loss = trainer.validate(&state.values, &data.valid);
    }
    Ok(TrainedModel { config: config.clone(), values: state.values, steps: state.step, valid_loss })
}

/// The content of a checkpoint.
#[derive(Debug)]
struct State {
    step: u64,
    /// The weights, in the order and orientation of [`parameters::table`].
    values: Vec<Vec<f32>>,
    optimizer: AdamW,
}

fn check(config: &ModelConfig, data: &TrainingData, options: &TrainOptions) -> Result<(), TrainError> {
    let bad = |option, value: String, expected: &str| {
        Err(TrainError::Option { option, value, expected: expected.to_owned() })
    };
    for (option, value) in [
        ("batch", options.batch as u64),
        ("context", options.context as u64),
        ("steps", options.steps),
        ("threads", options.threads as u64),
        ("valid_every", options.valid_every),
        ("valid_windows", options.valid_windows as u64),
        ("checkpoint_every", options.checkpoint_every),
    ] {
        if value == 0 {
            return bad(option, value.to_string(), "1 or more");
        }
    }
    if !options.batch.is_multiple_of(options.threads) {
        let expected = format!("a divisor of batch = {}", options.batch);
        return bad("threads", options.threads.to_string(), &expected);
    }
    if options.context > config.max_position_embeddings {
        let expected = format!("at most max_position_embeddings = {}", config.max_position_embeddings);
        return bad("context", options.context.to_string(), &expected);
    }
    for (option, value) in [("learning_rate", options.learning_rate), ("clip", options.clip)] {
        if !(value.is_finite() && value > 0.0) {
            return bad(option, value.to_string(), "finite and above 0");
        }
    }
    if !(0.0..1.0).contains(&options.weight_decay) {
        return bad("weight_decay", options.weight_decay.to_string(), "from 0 to below 1");
    }
    for (stream, tokens) in [("train", &data.train), ("valid", &data.valid)] {
        let window = options.context + 1;
        if tokens.len() < window {
            return Err(TrainError::TooFewTokens { stream, tokens: tokens.len(), window });
        }
        if let Some(index) = tokens.iter().position(|token| *token as usize >= config.vocab_size) {
            let (token, vocab_size) = (tokens[index], config.vocab_size);
            return Err(TrainError::Token { stream, index, token, vocab_size });
        }
    }
    Ok(())
}

/// The places of the rows of a thread's share of a batch: each window counts from zero.
fn window_places(options: &TrainOptions) -> Vec<(Regime, usize)> {
    let context = options.context;
    (0..options.batch / options.threads * context).map(|row| (0, row % context)).collect()
}

/// The causal mask: the columns that each row must not see, `[1, 1, group * context, context]`. A row sees itself and
/// the rows before it. The rows of the query heads that share a key head lie one head after the other.
fn hidden_from(context: usize, config: &ModelConfig, device: &Device) -> Tensor<4, Bool> {
    let group = config.num_attention_heads / config.num_key_value_heads;
    let hidden: Vec<bool> =
        (0..group * context).flat_map(|row| (0..context).map(move |column| column > row % context)).collect();
    Tensor::from_data(TensorData::new(hidden, [1, 1, group * context, context]), device)
}

/// The values that stay the same from step to step.
struct Trainer<'a> {
    config: &'a ModelConfig,
    table: &'a [Parameter],
    options: &'a TrainOptions,
    device: Device,
    places: Places,
    hidden: Tensor<4, Bool>,
}

impl Trainer<'_> {
    /// One step: draws a batch, computes the gradients, updates the weights.
    fn step(&self, state: &mut State, stream: &[u32]) -> Result<TrainEvent, TrainError> {
        let started = Instant::now();
        let options = self.options;
        let step = state.step + 1;
        let values = &state.values;
        let shares =
            self.share(&self.draw(step, stream.len()), |starts| self.gradients(values, stream, starts));
        let count = shares.len() as f64;
        let mut shares = shares.into_iter();
        let (mut loss, mut gradients) = shares.next().expect("there is at least one thread");
        for (share_loss, share) in shares {
            loss += share_loss;
            for (sum, share) in gradients.iter_mut().flatten().zip(share.iter().flatten()) {
                *sum += share;
            }
        }
        loss /= count;

        let learning_rate = options.learning_rate_at(step);
        let gradient_norm = optimizer::norm(&gradients) / count;
        if !(loss.is_finite() && gradient_norm.is_finite()) {
            return Err(TrainError::Diverged { step, loss, learning_rate });
        }
        let gradient_scale = (options.clip / gradient_norm).min(1.0) / count;
        state.optimizer.update(
            self.table,
            &mut state.values,
            &gradients,
            optimizer::Rates { step, learning_rate, weight_decay: options.weight_decay, gradient_scale },
        );
        state.step = step;
        let tokens = (options.batch * options.context) as f64;
        let tokens_per_second = tokens / started.elapsed().as_secs_f64();
        Ok(TrainEvent::Step { step, loss, learning_rate, gradient_norm, tokens_per_second })
    }

    /// The loss of some windows and its gradients, in the order of the table.
    fn gradients(&self, values: &[Vec<f32>], stream: &[u32], starts: &[usize]) -> (f64, Vec<Vec<f32>>) {
        let leaves: Vec<Tensor<2>> =
            self.upload(values).into_iter().map(|tensor| tensor.autodiff().require_grad()).collect();
        let loss = self.loss(leaves.clone(), stream, starts);
        let mut gradients = loss.backward();
        let take = |leaf: &Tensor<2>| {
            let gradient = leaf.grad_remove(&mut gradients).expect("every parameter takes part in the loss");
            gradient.into_data().try_into_vec::<f32>().expect("gradients are f32, as the weights")
        };
        let gradients = leaves.iter().map(take).collect();
        (f64::from(loss.into_scalar::<f32>()), gradients)
    }

    /// Runs `work` on each thread's share of the windows. The results have the order of the shares. Threads that
    /// share the batch keep all cores busy; threads inside each operation do not, because most operations are too
    /// small.
    fn share<R: Send>(&self, starts: &[usize], work: impl Fn(&[usize]) -> R + Sync) -> Vec<R> {
        let work = &work;
        std::thread::scope(|scope| {
            let shares = starts.chunks(self.options.batch / self.options.threads);
            let threads: Vec<_> = shares.map(|share| scope.spawn(move || work(share))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, R>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        })
    }

    /// The mean loss over the validation windows, a whole batch at a time. The last batch repeats windows to fill up.
    /// The repeated windows weigh more, and they are the same ones each time.
    fn validate(&self, values: &[Vec<f32>], stream: &[u32]) -> f64 {
        let options = self.options;
        let batches = options.valid_windows.div_ceil(options.batch);
        let weights = self.upload(values);
        let room = (stream.len() - options.context - 1) as u128;
        let start = |window: usize| (room * window as u128 / options.valid_windows as u128) as usize;
        let mut total = 0.0;
        for batch in 0..batches {
            let windows = batch * options.batch..(batch + 1) * options.batch;
            let starts: Vec<usize> = windows.map(|window| start(window % options.valid_windows)).collect();
            let losses =
                self.share(&starts, |starts| self.loss(weights.clone(), stream, starts).into_scalar::<f32>());
            total += losses.iter().copied().map(f64::from).sum::<f64>() / losses.len() as f64;
        }
        total / batches as f64
    }

    fn upload(&self, values: &[Vec<f32>]) -> Vec<Tensor<2>> {
        self.table
            .iter()
            .zip(values)
            .map(|(parameter, values)| {
                Tensor::from_data(TensorData::new(values.clone(), parameter.shape), &self.device)
            })
            .collect()
    }

    /// The starts of the windows of a step; a function of the seed and the step.
    fn draw(&self, step: u64, stream_len: usize) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(self.options.seed);
        // Stream 0 is that of the initial weights.
        random.set_stream(step);
        let choices = (stream_len - self.options.context) as u128;
        (0..self.options.batch).map(|_| ((u128::from(random.next_u64()) * choices) >> 64) as usize).collect()
    }

    /// Mean cross-entropy of the windows that start at `starts`.
    fn loss(&self, weights: Vec<Tensor<2>>, stream: &[u32], starts: &[usize]) -> Tensor<1> {
        let rows = starts.len() * self.options.context;
        let ids = |offset: usize| -> Vec<i32> {
            let windows = starts.iter().map(|start| &stream[start + offset..][..self.options.context]);
            windows.flatten().map(|token| *token as i32).collect()
        };
        let inputs = Tensor::<1, Int>::from_data(TensorData::new(ids(0), [rows]), &self.device);
        let targets = Tensor::<2, Int>::from_data(TensorData::new(ids(1), [rows, 1]), &self.device);
        let network = Network::new(self.config, weights);
        let decoder = Decoder { network, head_dim: self.config.head_dim };
        let hidden = decoder.forward(inputs, &self.places, |_, attention| self.attend(attention));
        activation::log_softmax(decoder.logits(hidden), 1).gather(1, targets).mean().neg()
    }

    /// Causal attention inside each window, all windows at once. The query heads that share a key head lie one after
    /// the other along the rows, so that keys are not repeated.
    fn attend(&self, attention: Attention) -> Tensor<2> {
        let [rows, heads, width] = attention.queries.dims();
        let time = self.options.context;
        let batch = rows / time;
        let shared = attention.keys.dims()[1];
        let group = heads / shared;
        let queries = attention
            .queries
            .reshape([batch, time, shared, group, width])
            .permute([0, 2, 3, 1, 4])
            .reshape([batch, shared, group * time, width]);
        let keys = attention.keys.reshape([batch, time, shared, width]).permute([0, 2, 3, 1]);
        let values = attention.values.reshape([batch, time, shared, width]).permute([0, 2, 1, 3]);
        let scores = queries
            .matmul(keys)
            .mask_fill(self.hidden.clone().expand([batch, shared, group * time, time]), f32::NEG_INFINITY);
        activation::softmax(scores, 3)
            .matmul(values)
            .reshape([batch, shared, group, time, width])
            .permute([0, 3, 1, 2, 4])
            .reshape([rows, heads * width])
    }
}
