//! A loaded model as a [`LanguageModel`]: batches of sequences of different lengths in one pass.
//!
//! Embedding, linear maps and normalisations treat all rows alike; attention runs sequence by sequence, each over its own
//! cache. Only rows whose logits are wanted go through the head, which for a small model is a large part of the work.

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use unskew_core::{Extension, LanguageModel, Logits, TokenId};

use crate::batch::{self, Item, ModelError, ModelId, Work};
use crate::cache::Cache;
use crate::config::{ConfigError, ModelConfig};
use crate::decoder::{Buffers, Decoder, Piece};
use crate::matrix::Matrix;
use crate::parameters;
use crate::rotary::Rotary;
use crate::weights::{self, LoadError};

/// A model of the Llama family on the CPU, in plain Rust with SIMD and threads.
///
/// Weights are kept as the checkpoint stores them (f32, f16 or bf16), and sums are f32. A row of logits is a function of the
/// model and the tokens before it, bit by bit: it depends neither on the rest of the batch, nor on how the tokens were
/// appended, nor on the number of threads.
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
    buffers: Buffers,
    id: ModelId,
}

/// One sequence of a [`Llama`]: its tokens, with their keys and values.
///
/// Memory, in addition to the tokens: `8 * num_hidden_layers * num_key_value_heads * head_dim` bytes for each position, in pages
/// of 32 positions (`head_dim` rounded up to a multiple of 32 for the values). A fork shares all pages; the side that writes to a
/// shared page copies that page alone.
#[derive(Clone, Debug)]
pub struct Sequence {
    tokens: Vec<TokenId>,
    cache: Cache,
    model: ModelId,
}

impl Sequence {
    /// The tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }
}

impl Llama {
    /// Loads `config.json` and the weights from a folder in the layout of Hugging Face.
    ///
    /// Memory at the peak: the model and its largest file.
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
        let parameters = weights::from_folder(&config, folder)?;
        Ok(Self::new(config, parameters))
    }

    /// Loads a model from the contents of a `config.json` and of a `model.safetensors`.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_dir`].
    pub fn from_bytes(config_json: &str, safetensors: &[u8]) -> Result<Self, LoadError> {
        let config = ModelConfig::from_json(config_json)?;
        let parameters = weights::from_bytes(&config, safetensors)?;
        Ok(Self::new(config, parameters))
    }

    /// A model with random weights in f32, for tests: a function of the configuration and the seed. Its logits vary by
    /// about one.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration is out of range.
    pub fn random(config: &ModelConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let parameters = parameters::random(config, &mut ChaCha8Rng::seed_from_u64(seed));
        Ok(Self::new(config.clone(), parameters))
    }

    fn new(config: ModelConfig, parameters: Vec<Matrix>) -> Self {
        let decoder = Decoder::new(&config, parameters);
        let rotary = Rotary::new(&config);
        Self { config, decoder, rotary, buffers: Buffers::default(), id: ModelId::next() }
    }

    /// The model's shape and its special tokens.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// A copy of the model on burn. Sequences of this model are not sequences of the copy.
    ///
    /// # Panics
    ///
    /// With `Backend::Wgpu` where there is no adapter; `on_gpu` returns an error there.
    #[cfg(feature = "burn")]
    #[must_use]
    pub fn to_burn(&self, backend: crate::burn::Backend) -> crate::burn::Llama {
        crate::burn::Llama::new(self.config.clone(), self.decoder.values(), backend)
    }

    /// A copy of the model on the default GPU, whose logits stay there: as [`to_burn`](Self::to_burn) with `Backend::Wgpu`, but
    /// with an error where that function panics.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoRuntime`](crate::burn::DeviceError::NoRuntime).
    #[cfg(feature = "wgpu")]
    pub fn on_gpu(&self) -> Result<crate::burn::Llama, crate::burn::DeviceError> {
        crate::burn::start_runtime()?;
        Ok(self.to_burn(crate::burn::Backend::Wgpu))
    }

    /// Evaluates some positions of some sequences, and writes the wanted rows of logits to the front of `output`. Returns the
    /// rest of it.
    fn pass<'a>(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        pieces: &[Work],
        output: &'a mut [f32],
    ) -> &'a mut [f32] {
        let (mut tokens, mut wanted) = (Vec::new(), Vec::new());
        for piece in pieces {
            let item = item(&batch[piece.item]);
            for position in piece.start..piece.end {
                if position >= piece.wanted_from {
                    wanted.push(tokens.len());
                }
                tokens.push(item.token(position).index());
            }
        }
        // Pieces are in the order of the batch, at most one for each item.
        let mut work = pieces.iter().peekable();
        let mut parts = Vec::with_capacity(pieces.len());
        for (index, extension) in batch.iter_mut().enumerate() {
            if let Some(piece) = work.next_if(|piece| piece.item == index) {
                let cache = &mut extension.sequence.cache;
                parts.push(Piece { cache, start: piece.start, end: piece.end });
            }
        }
        self.decoder.forward(&tokens, &mut parts, &mut self.rotary, &mut self.buffers);
        let (front, rest) = output.split_at_mut(wanted.len() * self.config.vocab_size);
        self.decoder.logits(&wanted, &mut self.buffers, front);
        rest
    }
}

fn item<'a>(extension: &'a Extension<'_, Sequence>) -> Item<'a> {
    let Extension { sequence, tokens, rows } = extension;
    Item { model: sequence.model, old: &sequence.tokens, new: tokens, rows: *rows }
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
        Sequence { tokens: Vec::new(), cache: Cache::default(), model: self.id }
    }

    fn len(&self, sequence: &Sequence) -> usize {
        sequence.tokens.len()
    }

    /// Clones one handle for each 32 positions. The first of the two sequences to write to the last page copies that page.
    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        let old = sequence.tokens.len();
        assert!(len <= old, "cannot truncate a sequence of {old} tokens to {len}");
        sequence.tokens.truncate(len);
        sequence.cache.truncate(len);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        logits: &mut Logits,
    ) -> Result<(), ModelError> {
        let plan = batch::plan(&self.config, self.id, batch.iter().map(item))?;
        let rows = plan.iter().map(Work::wanted).sum();
        let mut output = logits.reset(rows, self.config.vocab_size);
        for pieces in batch::passes(plan) {
            output = self.pass(batch, &pieces, output);
        }
        for extension in batch {
            extension.sequence.tokens.extend_from_slice(extension.tokens);
        }
        Ok(())
    }
}
