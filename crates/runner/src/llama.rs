//! A loaded model as a [`LanguageModel`]: batches of sequences of different lengths in one pass.
//!
//! The new positions of all sequences of a batch are one matrix of rows, without padding. Embedding, linear maps and
//! normalisations treat all rows alike; attention runs sequence by sequence, each over its own cache. Sequences of any
//! length therefore share a pass, with one new token or many (a prompt, a draft to verify). Only rows whose logits are
//! wanted go through the head, which for a small model is a large part of the work.
//!
//! Long prompts are cut into passes of at most [`PASS_ROWS`] rows, which bounds the memory of attention scores.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};

use crate::backend::Backend;
use crate::cache::{Cache, Run};
use crate::config::{ConfigError, ModelConfig};
use crate::model::{Attention, Decoder};
use crate::parameters::{self, transposed};
use crate::rotary::Rotary;
use crate::weights::{self, LoadError, Values};

/// The most rows of one pass. Above a few hundred rows a pass is no faster per row.
const PASS_ROWS: usize = 512;

/// A model of the Llama family, ready to run.
///
/// # Example
///
/// ```
/// use unskew_core::{Extension, LanguageModel, Logits, Rows, TokenId};
/// use unskew_runner::{Llama, ModelConfig};
///
/// let config = ModelConfig::from_json(
///     r#"{"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
///         "num_attention_heads": 2, "vocab_size": 10, "tie_word_embeddings": true}"#,
/// )?;
/// let mut model = Llama::random(&config, 0)?;
/// let mut sequence = model.start();
/// let mut logits = Logits::new();
/// let tokens = [TokenId(3), TokenId(1)];
/// model.extend(
///     &mut [Extension { sequence: &mut sequence, tokens: &tokens, rows: Rows::Last }],
///     &mut logits,
/// )?;
/// assert_eq!(logits.row(0).len(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Llama {
    config: ModelConfig,
    decoder: Decoder,
    rotary: Rotary,
    pub(crate) device: Device,
    /// The id of the model; its sequences have it too.
    id: u64,
}

/// One sequence of a [`Llama`]: its tokens, with their keys and values.
///
/// Memory, in addition to the tokens: `8 * num_hidden_layers * num_key_value_heads * head_dim` bytes for each position that
/// there is room for; the room is up to twice the length. A fork shares this memory until one of the two grows.
#[derive(Debug)]
pub struct Sequence {
    tokens: Vec<TokenId>,
    cache: Cache,
    model: u64,
}

impl Sequence {
    /// The tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }
}

/// An error of evaluating a batch. No sequence of the batch has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Logits are wanted for an empty sequence.
    #[error(
        "item {item} of the batch asks for logits after an empty sequence; append a token first, such as {bos}"
    )]
    EmptyContext {
        /// The item of the batch.
        item: usize,
        /// The model's start token, or the token to use in its place.
        bos: String,
    },
    /// A sequence would exceed the context.
    #[error(
        "item {item} of the batch would hold {len} tokens, the model's context is {context}; truncate it first"
    )]
    ContextFull {
        /// The item of the batch.
        item: usize,
        /// The length that the sequence would have.
        len: usize,
        /// The model's limit.
        context: usize,
    },
    /// A token id is outside the vocabulary.
    #[error(
        "item {item} of the batch appends token {token}, but ids end below {vocab_len}; check the tokenizer"
    )]
    UnknownToken {
        /// The item of the batch.
        item: usize,
        /// The id.
        token: u32,
        /// The length of the vocabulary.
        vocab_len: usize,
    },
    /// A sequence was started by another model.
    #[error("item {item} of the batch was started by another model; start it with this one")]
    ForeignSequence {
        /// The item of the batch.
        item: usize,
    },
    /// The device failed to compute or to hand over the logits.
    #[error("the device failed to evaluate the batch: {reason}")]
    Device {
        /// The device's error.
        reason: String,
    },
}

impl Llama {
    /// Loads `config.json` and the weights from a folder in the layout of Hugging Face, onto the CPU.
    ///
    /// Memory at the peak: the model in f32 (a tied head counts as one more matrix) and its largest file.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when a file is absent or damaged, when the configuration asks for a computation that is not supported,
    /// and when configuration and weights do not belong together.
    pub fn from_dir(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        let path = folder.join("config.json");
        let text = String::from_utf8(weights::read(&path)?)
            .map_err(|error| LoadError::Damaged { path, reason: error.to_string() })?;
        // Editors on Windows put a byte order mark in front of the text.
        let config = ModelConfig::from_json(text.strip_prefix('\u{feff}').unwrap_or(&text))?;
        let values = weights::from_folder(&config, folder)?;
        Ok(Self::new(config, values, Backend::Cpu))
    }

    /// Loads a model from the contents of a `config.json` and of a `model.safetensors`, onto the CPU.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_dir`].
    pub fn from_bytes(config_json: &str, safetensors: &[u8]) -> Result<Self, LoadError> {
        let config = ModelConfig::from_json(config_json)?;
        let values = weights::from_bytes(&config, safetensors)?;
        Ok(Self::new(config, values, Backend::Cpu))
    }

    /// A model with random weights, for tests: a function of the configuration and the seed. Its logits vary by
    /// about one.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration is out of range.
    pub fn random(config: &ModelConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let values = parameters::random(config, &mut ChaCha8Rng::seed_from_u64(seed));
        Ok(Self::new(config.clone(), values, Backend::Cpu))
    }

    /// A copy of the model on another backend. Sequences of this model are not sequences of the copy.
    ///
    /// # Panics
    ///
    /// With `Backend::Wgpu` where there is no adapter; `Llama::on_gpu` returns an error there.
    #[must_use]
    pub fn to_backend(&self, backend: Backend) -> Self {
        let device = backend.device();
        let decoder = self.decoder.to_device(&device);
        let rotary = Rotary::new(&self.config);
        Self { config: self.config.clone(), decoder, rotary, device, id: next_id() }
    }

    /// The model's shape and its special tokens.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    pub(crate) fn new(config: ModelConfig, values: Values, backend: Backend) -> Self {
        let device = backend.device();
        let upload = |values, shape: [usize; 2]| Tensor::from_data(TensorData::new(values, shape), &device);
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let head = config
            .tie_word_embeddings
            .then(|| upload(transposed(&values[0], vocab, hidden), [hidden, vocab]));
        let table = parameters::table(&config);
        let tensors = table.iter().zip(values).map(|(row, values)| upload(values, row.shape)).collect();
        let decoder = Decoder::new(&config, tensors, head);
        let rotary = Rotary::new(&config);
        Self { config, decoder, rotary, device, id: next_id() }
    }
}

/// An id that no other model of this process has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The work of one item of a batch: the positions to evaluate, and the first position whose logits are wanted.
#[derive(Clone, Copy, Debug)]
struct Work {
    item: usize,
    start: usize,
    end: usize,
    wanted_from: usize,
}

impl Work {
    fn wanted(&self) -> usize {
        self.end - self.wanted_from.clamp(self.start, self.end)
    }

    /// Cuts off at most `rows` positions from the front.
    fn split_front(&mut self, rows: usize) -> Self {
        let end = self.end.min(self.start + rows);
        let front = Self { end, ..*self };
        self.start = end;
        front
    }
}

impl Llama {
    /// Checks a batch and returns the work of each item. The batch stays unchanged.
    fn plan(&self, batch: &[Extension<'_, Sequence>]) -> Result<Vec<Work>, ModelError> {
        let (vocab_len, context) = (self.config.vocab_size, self.config.max_position_embeddings);
        let mut plan = Vec::with_capacity(batch.len());
        for (item, extension) in batch.iter().enumerate() {
            if extension.sequence.model != self.id {
                return Err(ModelError::ForeignSequence { item });
            }
            if let Some(token) = extension.tokens.iter().find(|token| token.0 as usize >= vocab_len) {
                return Err(ModelError::UnknownToken { item, token: token.0, vocab_len });
            }
            let old = extension.sequence.tokens.len();
            let len = old + extension.tokens.len();
            if len > context {
                return Err(ModelError::ContextFull { item, len, context });
            }
            match extension.rows {
                Rows::Last if len == 0 => {
                    let bos = self.config.bos_token_id;
                    let bos = bos.map_or_else(|| "the token for a line end".to_owned(), |id| id.to_string());
                    return Err(ModelError::EmptyContext { item, bos });
                }
                // If there is no token to append, the last position is evaluated again.
                Rows::Last => {
                    plan.push(Work { item, start: old.min(len - 1), end: len, wanted_from: len - 1 });
                }
                Rows::All => plan.push(Work { item, start: old, end: len, wanted_from: old }),
                Rows::From(first) => {
                    let wanted_from = old.saturating_add(first).min(len);
                    plan.push(Work { item, start: old, end: len, wanted_from });
                }
            }
        }
        Ok(plan)
    }

    /// Evaluates some positions of some sequences. Returns the wanted rows of logits, if there are any.
    fn pass(&mut self, batch: &mut [Extension<'_, Sequence>], pieces: &[Work]) -> Option<Tensor<2>> {
        let mut tokens = Vec::new();
        let mut wanted = Vec::new();
        let mut runs = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let extension = &mut batch[piece.item];
            let old = extension.sequence.tokens.len();
            for position in piece.start..piece.end {
                if position >= piece.wanted_from {
                    wanted.push(tokens.len() as i32);
                }
                let known = extension.sequence.tokens.get(position);
                tokens.push(known.unwrap_or_else(|| &extension.tokens[position - old]).0 as i32);
            }
            extension.sequence.cache.reserve(piece.end, &self.config, &self.device);
            runs.push(Run::new(piece.start, piece.end, &self.config, &self.device));
        }
        let rows = tokens.len();
        let positions = pieces.iter().flat_map(|piece| piece.start..piece.end);
        let rotation = self.rotary.at(positions, &self.device);
        let tokens = Tensor::<1, Int>::from_data(TensorData::new(tokens, [rows]), &self.device);
        let hidden = self.decoder.forward(tokens, &rotation, |layer, attention| {
            let mut attend = |index: usize, attention| {
                let cache = &mut batch[pieces[index].item].sequence.cache;
                cache.attend(layer, &runs[index], attention)
            };
            if pieces.len() == 1 {
                return attend(0, attention);
            }
            let mut from = 0;
            let mixed = pieces.iter().enumerate().map(|(index, piece)| {
                let len = piece.end - piece.start;
                let part = |all: &Tensor<3>| all.clone().narrow(0, from, len);
                let part = Attention {
                    queries: part(&attention.queries),
                    keys: part(&attention.keys),
                    values: part(&attention.values),
                };
                from += len;
                attend(index, part)
            });
            Tensor::cat(mixed.collect(), 0)
        });
        let count = wanted.len();
        if count == 0 {
            return None;
        }
        let hidden = if count == rows {
            hidden
        } else {
            hidden.select(0, Tensor::from_data(TensorData::new(wanted, [count]), &self.device))
        };
        Some(self.decoder.logits(hidden))
    }

    /// Evaluates a batch in as many passes as it needs, and calls the closure with the wanted rows of each pass, in order,
    /// on the device. The sequences do not hold the new tokens afterwards: [`append`] adds them once all passes have
    /// succeeded.
    pub(crate) fn passes(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        mut take: impl FnMut(Tensor<2>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let mut plan = self.plan(batch)?;
        let mut rest = plan.as_mut_slice();
        let mut pieces: Vec<Work> = Vec::with_capacity(rest.len());
        let mut room = PASS_ROWS;
        // The passes write to the caches beyond the sequences' lengths until all is done: an error therefore leaves no
        // trace.
        while let Some(work) = rest.first_mut() {
            let piece = work.split_front(room);
            let finished = work.start == work.end;
            room -= piece.end - piece.start;
            if piece.start < piece.end {
                pieces.push(piece);
            }
            if finished {
                rest = &mut rest[1..];
            }
            if !pieces.is_empty() && (room == 0 || rest.is_empty()) {
                if let Some(logits) = self.pass(batch, &pieces) {
                    take(logits)?;
                }
                pieces.clear();
                room = PASS_ROWS;
            }
        }
        Ok(())
    }
}

/// Adds the new tokens of a batch to its sequences.
pub(crate) fn append(batch: &mut [Extension<'_, Sequence>]) {
    for extension in batch {
        extension.sequence.tokens.extend_from_slice(extension.tokens);
    }
}

impl LanguageModel for Llama {
    type Sequence = Sequence;
    type Error = ModelError;

    fn vocab_len(&self) -> usize {
        self.config.vocab_size
    }

    fn context_len(&self) -> Option<usize> {
        Some(self.config.max_position_embeddings)
    }

    fn start(&mut self) -> Sequence {
        Sequence { tokens: Vec::new(), cache: Cache::new(), model: self.id }
    }

    fn len(&self, sequence: &Sequence) -> usize {
        sequence.tokens.len()
    }

    /// Clones one handle for each layer. The first of the two sequences to grow copies the keys and values.
    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        Sequence { tokens: sequence.tokens.clone(), cache: sequence.cache.clone(), model: sequence.model }
    }

    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        let old = sequence.tokens.len();
        assert!(len <= old, "cannot truncate a sequence of {old} tokens to {len}");
        sequence.tokens.truncate(len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        logits: &mut Logits,
    ) -> Result<(), ModelError> {
        #[cfg(feature = "wgpu")]
        if self.device != Device::flex() {
            return self.extend_on_device(batch, logits);
        }
        let rows = self.plan(batch)?.iter().map(Work::wanted).sum();
        let mut output = logits.reset(rows, self.config.vocab_size);
        self.passes(batch, |logits| {
            let values = logits
                .try_into_vec_as::<f32>()
                .map_err(|error| ModelError::Device { reason: error.to_string() })?;
            let (front, rest) = std::mem::take(&mut output).split_at_mut(values.len());
            front.copy_from_slice(&values);
            output = rest;
            Ok(())
        })?;
        append(batch);
        Ok(())
    }
}
