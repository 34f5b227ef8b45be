//! A loaded model as a [`LanguageModel`]: batches of sequences of different lengths in one pass.
//!
//! Embedding, linear maps and normalisations treat all rows alike; attention runs sequence by sequence, each over its
//! own cache. Only rows whose logits are wanted go through the head, which for a small model is a large part of the
//! work.
//!
//! Keys and values of whole pages go into a tree of known prefixes ([`crate::cache::prefixes`]). A sequence that reads
//! the same tokens again takes them from there.

use std::path::Path;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use unskew_core::{Extension, LanguageModel, Logits, TokenId};

use crate::batch::{self, Item, ModelError, ModelId, Work};
use crate::cache::prefixes::Prefixes;
use crate::cache::{Cache, PAGE};
use crate::caches::Caches;
use crate::config::{ConfigError, ModelConfig};
use crate::decoder::{Buffers, Decoder, Piece};
use crate::math::matrix::Matrix;
use crate::math::rotary::{Regimes, Rotary};
use crate::weights::{self, LoadError, LoadOptions};

/// The bytes of keys and values that a model remembers, if nobody sets another number.
const REMEMBERED: usize = 256 << 20;

/// A decoder of Llama's kind on the CPU, of any family in [`Family`](crate::Family), in plain Rust with SIMD and
/// threads.
///
/// Weights are kept as the checkpoint stores them (f32, f16 or bf16) or in eight bits, and sums are f32. A row of
/// logits is a function of the model and the tokens before it, bit by bit: it depends neither on the rest of the
/// batch, nor on how the tokens were appended, nor on the number of threads.
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
    prefixes: Prefixes,
    /// Rows that passes have evaluated.
    evaluated: u64,
    id: ModelId,
}

/// One sequence of a [`Llama`]: its tokens, with their keys and values.
///
/// Memory, in addition to the tokens: `8 * num_hidden_layers * num_key_value_heads * head_dim` bytes for each
/// position, in pages of 8 positions (`head_dim` rounded up to a multiple of 32 for the values). A fork shares all
/// pages; the side that writes to a shared page copies that page alone.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The sequence's own are the first `len`: a truncation leaves the others to forks.
    tokens: Arc<Vec<TokenId>>,
    len: usize,
    caches: Caches<Cache>,
    model: ModelId,
}

impl Sequence {
    /// The tokens so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens[..self.len]
    }
}

impl Llama {
    /// Loads `config.json` and the weights from a folder in the layout of Hugging Face.
    ///
    /// Memory at the peak: the model, and some megabytes.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when a file is absent or damaged, when the configuration asks for a computation that is not
    /// supported, and when configuration and weights do not belong together.
    pub fn from_dir(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::from_dir_with(folder, &mut LoadOptions::default())
    }

    /// The same with options: weights of eight bits, reports of progress.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_dir`].
    pub fn from_dir_with(folder: impl AsRef<Path>, options: &mut LoadOptions<'_>) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        let config = Self::config_of_dir(folder)?;
        let parameters = weights::safetensors::from_folder(&config, folder, options)?;
        Ok(Self::new(config, parameters))
    }

    /// The `config.json` of a folder, without the weights.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when the file is absent or damaged, or asks for a computation that is not supported.
    pub fn config_of_dir(folder: impl AsRef<Path>) -> Result<ModelConfig, LoadError> {
        let path = folder.as_ref().join("config.json");
        let text = String::from_utf8(weights::read(&path)?)
            .map_err(|error| LoadError::Damaged { path, reason: error.to_string() })?;
        // Editors on Windows put a byte order mark in front of the text.
        Ok(ModelConfig::from_json(text.strip_prefix('\u{feff}').unwrap_or(&text))?)
    }

    /// Loads the model of a GGUF file of llama.cpp.
    ///
    /// Weights in blocks are the numbers that llama.cpp has for them, and inputs are not rounded to eight bits as it
    /// rounds them: logits are those of the weights.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when the file is absent or damaged. [`LoadError::is_beyond`] tells whether it is a model of
    /// another kind, which llama.cpp may run.
    pub fn from_gguf(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::from_gguf_with(path, &mut LoadOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_gguf`].
    pub fn from_gguf_with(path: impl AsRef<Path>, options: &mut LoadOptions<'_>) -> Result<Self, LoadError> {
        let (config, parameters) = weights::gguf::from_file(path.as_ref(), options)?;
        Ok(Self::new(config, parameters))
    }

    /// The shape of the model of a GGUF file, without its weights.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_gguf`].
    pub fn config_of_gguf(path: impl AsRef<Path>) -> Result<ModelConfig, LoadError> {
        weights::gguf::config(path.as_ref())
    }

    /// Loads a model from the contents of a `config.json` and of a `model.safetensors`.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_dir`].
    pub fn from_bytes(config_json: &str, safetensors: &[u8]) -> Result<Self, LoadError> {
        Self::from_bytes_with(config_json, safetensors, &mut LoadOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// As [`Llama::from_dir`].
    pub fn from_bytes_with(
        config_json: &str,
        safetensors: &[u8],
        options: &mut LoadOptions<'_>,
    ) -> Result<Self, LoadError> {
        let config = ModelConfig::from_json(config_json)?;
        let parameters = weights::safetensors::from_bytes(&config, safetensors, options)?;
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
        let parameters = weights::random::random(config, &mut ChaCha8Rng::seed_from_u64(seed));
        Ok(Self::new(config.clone(), parameters))
    }

    fn new(config: ModelConfig, parameters: Vec<Matrix>) -> Self {
        let decoder = Decoder::new(&config, parameters);
        let rotary = Rotary::new(&config);
        let prefixes = Prefixes::new(decoder.heads().page_bytes(), REMEMBERED);
        let (buffers, id) = (Buffers::default(), ModelId::next());
        Self { config, decoder, rotary, buffers, prefixes, evaluated: 0, id }
    }

    /// Sets the bytes of keys and values that the model remembers of earlier sequences, 256 MiB if never called.
    /// Zero: none.
    pub fn remember(&mut self, bytes: usize) {
        self.prefixes.set_limit(bytes);
    }

    /// The bytes of keys and values that the model remembers now. Living sequences share them.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.prefixes.bytes()
    }

    /// The rows that were evaluated so far: every position that was not remembered.
    #[must_use]
    pub fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// The bytes of all weights, a tied head once.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.decoder.bytes()
    }

    /// The bytes of weights that a step of one sequence reads.
    #[must_use]
    pub fn step_bytes(&self) -> usize {
        self.decoder.step_bytes()
    }

    /// The type in which most weights are kept: `f32`, `f16`, `bf16`, `q8_0`, or `q8_affine`, which has an offset, too.
    #[must_use]
    pub fn kept_as(&self) -> &'static str {
        self.decoder.kept_as()
    }

    /// The bytes of keys and values of one position.
    #[must_use]
    pub fn position_bytes(&self) -> usize {
        self.decoder.heads().page_bytes() / PAGE
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
        crate::burn::Llama::new(self.config.clone(), self.decoder.network(), backend)
    }

    /// A copy of the model on the default GPU, whose logits stay there: as [`to_burn`](Self::to_burn) with
    /// `Backend::Wgpu`, but with an error where that function panics.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoRuntime`](crate::burn::DeviceError::NoRuntime).
    #[cfg(feature = "wgpu")]
    pub fn on_gpu(&self) -> Result<crate::burn::Llama, crate::burn::DeviceError> {
        crate::burn::start_runtime()?;
        Ok(self.to_burn(crate::burn::Backend::Wgpu))
    }

    /// Evaluates some positions of some sequences, and writes the wanted rows of logits to the front of `output`.
    /// Returns the rest of it.
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
                let Work { start, end, regime, .. } = *piece;
                let cache = extension.sequence.caches.of(regime);
                parts.push(Piece { cache, start, end, regime });
            }
        }
        self.decoder.forward(&tokens, &mut parts, &mut self.rotary, &mut self.buffers);
        self.evaluated += tokens.len() as u64;
        let (front, rest) = output.split_at_mut(wanted.len() * self.config.vocab_size);
        self.decoder.logits(&wanted, &mut self.buffers, front);
        rest
    }

    /// Takes known pages of the prefixes that are about to be evaluated, and shortens the work.
    fn recall(&mut self, batch: &mut [Extension<'_, Sequence>], plan: &mut [Work]) {
        for work in plan {
            // A row that is asked for is evaluated.
            let pages = work.wanted_from.min(work.end) / PAGE;
            let first = work.start / PAGE;
            if pages <= first || !self.prefixes.keeps(work.regime) {
                continue;
            }
            let extension = &mut batch[work.item];
            let own = item(extension);
            let known = self.prefixes.find(work.regime, pages, |position| own.token(position));
            let count = known.len();
            if count <= first {
                continue;
            }
            let cache = extension.sequence.caches.of(work.regime);
            for (number, page) in known.into_iter().enumerate().skip(first) {
                cache.put(number, page);
            }
            work.start = count * PAGE;
        }
    }

    /// Remembers the pages that the works of a plan have filled. Sequences have their new tokens.
    fn store(&mut self, batch: &mut [Extension<'_, Sequence>], plan: &[Work]) {
        for work in plan {
            let pages = work.end / PAGE;
            if pages <= work.start / PAGE || !self.prefixes.keeps(work.regime) {
                continue;
            }
            let Sequence { tokens, caches, .. } = &mut *batch[work.item].sequence;
            if let Some(cache) = caches.find(work.regime) {
                self.prefixes.store(work.regime, &tokens[..pages * PAGE], cache);
            }
        }
    }
}

fn item<'a>(extension: &'a Extension<'_, Sequence>) -> Item<'a> {
    let Extension { sequence, tokens, rows } = extension;
    Item {
        model: sequence.model,
        old: sequence.tokens(),
        new: tokens,
        rows: *rows,
        held: sequence.caches.held(),
    }
}

impl LanguageModel for Llama {
    type Sequence = Sequence;
    type Error = ModelError;

    fn vocab_len(&self) -> usize {
        self.config.vocab_size
    }

    fn context_len(&self) -> Option<usize> {
        Some(self.config.context_len())
    }

    fn start(&mut self) -> Sequence {
        Sequence { tokens: Arc::default(), len: 0, caches: Caches::default(), model: self.id }
    }

    fn len(&self, sequence: &Sequence) -> usize {
        sequence.len
    }

    /// Clones three handles. The first of the two sequences to write to the last page copies that page.
    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        let old = sequence.len;
        assert!(len <= old, "cannot truncate a sequence of {old} tokens to {len}");
        sequence.len = len;
        sequence.caches.truncate(len, Regimes::new(&self.config), Cache::truncate);
    }

    fn extend(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        logits: &mut Logits,
    ) -> Result<(), ModelError> {
        let mut plan = batch::plan(&self.config, self.id, batch.iter().map(item))?;
        let rows = plan.iter().map(Work::wanted).sum();
        let mut output = logits.reset(rows, self.config.vocab_size);
        self.recall(batch, &mut plan);
        for pieces in batch::passes(plan.clone()) {
            output = self.pass(batch, &pieces, output);
        }
        for Extension { sequence, tokens, .. } in &mut *batch {
            if !tokens.is_empty() {
                let (len, own) = (sequence.len, Arc::make_mut(&mut sequence.tokens));
                own.truncate(len);
                own.extend_from_slice(tokens);
                sequence.len = own.len();
            }
        }
        for work in &plan {
            batch[work.item].sequence.caches.set_held(work.regime, work.end);
        }
        self.store(batch, &plan);
        Ok(())
    }
}
