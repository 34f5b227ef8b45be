//! The same models on burn, a tensor library: for the GPU, for training, and as a second implementation that the
//! decoder on the CPU is compared with.
//!
//! burn takes 270 CPU-seconds to build, so that no default build has it. On the CPU this decoder is slower than
//! [`crate::Llama`] (`cargo xtask bench runner` measures both).
//!
//! No type of burn appears in the public interface: a new version of burn is no breaking change of this crate.

mod backend;
mod cache;
pub(crate) mod decoder;
#[cfg(feature = "wgpu")]
mod device;
pub(crate) mod rotary;

use ::burn::tensor::{Device, Int, Tensor, TensorData};
use unskew_core::{Extension, LanguageModel, Logits, TokenId};

use crate::batch::{self, Held, Item, ModelError, ModelId, Work};
use crate::config::ModelConfig;
use crate::config::parameters;
use crate::math::matrix::transposed;
use crate::math::rotary::Rotary;

pub use backend::Backend;
#[cfg(feature = "wgpu")]
pub use device::DeviceError;

use cache::{Cache, Run};
use decoder::{Attention, Decoder};
use rotary::Rotation;

/// Starts burn's runtime for wgpu, once for the process.
#[cfg(feature = "wgpu")]
pub(crate) fn start_runtime() -> Result<(), DeviceError> {
    device::shared().map(|_| ())
}

/// A model of the Llama family on burn, made by [`crate::Llama::to_burn`].
#[derive(Debug)]
pub struct Llama {
    config: ModelConfig,
    decoder: Decoder,
    rotary: Rotary,
    device: Device,
    id: ModelId,
}

/// One sequence of a [`Llama`] on burn: its tokens, with their keys and values.
///
/// Memory, in addition to the tokens: `8 * num_hidden_layers * num_key_value_heads * head_dim` bytes for each
/// position that there is room for; the room is up to twice the length. A fork shares this memory until one of the
/// two grows.
#[derive(Debug)]
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
    /// `values` are those of a checkpoint in f32, in the order of [`parameters::table`].
    pub(crate) fn new(config: ModelConfig, values: Vec<Vec<f32>>, backend: Backend) -> Self {
        let device = backend.device();
        let upload = |values, shape: [usize; 2]| Tensor::from_data(TensorData::new(values, shape), &device);
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let head = config
            .tie_word_embeddings
            .then(|| upload(transposed(&values[0], vocab, hidden), [hidden, vocab]));
        let table = parameters::table(&config);
        let tensors = table.iter().zip(values).map(|(parameter, values)| {
            let [rows, columns] = parameter.shape;
            let turns = parameter.is_transposed();
            upload(if turns { transposed(&values, columns, rows) } else { values }, parameter.shape)
        });
        let decoder = Decoder::new(&config, tensors.collect(), head);
        let rotary = Rotary::new(&config);
        Self { config, decoder, rotary, device, id: ModelId::next() }
    }

    /// The model's shape and its special tokens.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Evaluates some positions of some sequences. Returns the wanted rows of logits, if there are any.
    fn pass(&mut self, batch: &mut [Extension<'_, Sequence>], pieces: &[Work]) -> Option<Tensor<2>> {
        let mut tokens = Vec::new();
        let mut wanted = Vec::new();
        let mut runs = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let extension = &mut batch[piece.item];
            let item = item(extension);
            for position in piece.start..piece.end {
                if position >= piece.wanted_from {
                    wanted.push(tokens.len() as i32);
                }
                tokens.push(item.token(position).0 as i32);
            }
            extension.sequence.cache.reserve(piece.end, &self.config, &self.device);
            runs.push(Run::new(piece.start, piece.end, &self.config, &self.device));
        }
        let rows = tokens.len();
        let positions = pieces.iter().flat_map(|piece| piece.start..piece.end);
        let rotation = Rotation::at(&mut self.rotary, positions, &self.device);
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

    /// Evaluates a batch in as many passes as its plan needs, and calls the closure with the wanted rows of each
    /// pass, in order, on the device. Sequences hold the new tokens once all passes have succeeded: the passes write
    /// to the caches beyond the sequences' lengths, and an error leaves no trace.
    fn passes(
        &mut self,
        batch: &mut [Extension<'_, Sequence>],
        plan: Vec<Work>,
        mut take: impl FnMut(Tensor<2>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        for pieces in batch::passes(plan) {
            if let Some(logits) = self.pass(batch, &pieces) {
                take(logits)?;
            }
        }
        for extension in batch {
            extension.sequence.tokens.extend_from_slice(extension.tokens);
        }
        Ok(())
    }
}

fn item<'a>(extension: &'a Extension<'_, Sequence>) -> Item<'a> {
    let Extension { sequence, tokens, rows } = extension;
    let held = Held::all(sequence.tokens.len());
    Item { model: sequence.model, old: &sequence.tokens, new: tokens, rows: *rows, held }
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
        let plan = batch::plan(&self.config, self.id, batch.iter().map(item))?;
        #[cfg(feature = "wgpu")]
        if self.device != Device::flex() {
            return self.extend_on_device(batch, plan, logits);
        }
        let rows = plan.iter().map(Work::wanted).sum();
        let mut output = logits.reset(rows, self.config.vocab_size);
        self.passes(batch, plan, |logits| {
            let values = logits
                .try_into_vec_as::<f32>()
                .map_err(|error| ModelError::Device { reason: error.to_string() })?;
            let (front, rest) = std::mem::take(&mut output).split_at_mut(values.len());
            front.copy_from_slice(&values);
            output = rest;
            Ok(())
        })
    }
}
