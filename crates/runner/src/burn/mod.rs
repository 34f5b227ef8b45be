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

use crate::batch::{self, Item, ModelError, ModelId, Work};
use crate::caches::Caches;
use crate::config::ModelConfig;
use crate::math::matrix::{Matrix, transposed};
use crate::math::rotary::{Regimes, Rotary};
use crate::network::Network;

pub use backend::Backend;
#[cfg(feature = "wgpu")]
pub use device::DeviceError;

use cache::{Cache, Run};
use decoder::{Attention, Decoder};
use rotary::Places;

/// Starts burn's runtime for wgpu, once for the process.
#[cfg(feature = "wgpu")]
pub(crate) fn start_runtime() -> Result<(), DeviceError> {
    device::shared().map(|_| ())
}

/// A model on burn, of any family, made by [`crate::Llama::to_burn`].
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
#[derive(Clone, Debug)]
pub struct Sequence {
    tokens: Vec<TokenId>,
    caches: Caches<Cache>,
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
    /// A copy of the weights in f32, on the device.
    pub(crate) fn new(config: ModelConfig, weights: &Network<Matrix>, backend: Backend) -> Self {
        let device = backend.device();
        let upload = |values, shape: [usize; 2]| Tensor::from_data(TensorData::new(values, shape), &device);
        let lookup = |matrix: &Matrix| upload(matrix.to_vec(), [matrix.outputs(), matrix.inputs()]);
        let map = |matrix: &Matrix| {
            let [outputs, inputs] = [matrix.outputs(), matrix.inputs()];
            upload(transposed(&matrix.to_vec(), outputs, inputs), [inputs, outputs])
        };
        let vector = |values: &Vec<f32>| upload(values.clone(), [1, values.len()]);
        let mut network = weights.convert(lookup, map, vector);
        // A tied head is a copy that lies as other maps do, because products of single rows must be fast.
        network.head.get_or_insert_with(|| map(&weights.embedding));
        let decoder = Decoder { network, head_dim: config.head_dim };
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
        let mut places = Vec::new();
        let mut runs = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let extension = &mut batch[piece.item];
            let item = item(extension);
            for position in piece.start..piece.end {
                if position >= piece.wanted_from {
                    wanted.push(tokens.len() as i32);
                }
                tokens.push(item.token(position).0 as i32);
                places.push((piece.regime, position));
            }
            let cache = extension.sequence.caches.of(piece.regime);
            cache.reserve(piece.end, &self.config, &self.device);
            runs.push(Run::new(piece.start, piece.end));
        }
        let rows = tokens.len();
        let places = Places::new(&self.config, &mut self.rotary, &places, &self.device);
        let tokens = Tensor::<1, Int>::from_data(TensorData::new(tokens, [rows]), &self.device);
        let hidden = self.decoder.forward(tokens, &places, |view, attention| {
            let mut attend = |index: usize, attention| {
                let Work { item, regime, .. } = pieces[index];
                batch[item].sequence.caches.of(regime).attend(view, &mut runs[index], attention)
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
        for pieces in batch::passes(plan.clone()) {
            if let Some(logits) = self.pass(batch, &pieces) {
                take(logits)?;
            }
        }
        for extension in &mut *batch {
            extension.sequence.tokens.extend_from_slice(extension.tokens);
        }
        for work in plan {
            batch[work.item].sequence.caches.set_held(work.regime, work.end);
        }
        Ok(())
    }
}

fn item<'a>(extension: &'a Extension<'_, Sequence>) -> Item<'a> {
    let Extension { sequence, tokens, rows } = extension;
    let Sequence { tokens: old, caches, model } = &**sequence;
    Item { model: *model, old, new: tokens, rows: *rows, held: caches.held() }
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
        Sequence { tokens: Vec::new(), caches: Caches::default(), model: self.id }
    }

    fn len(&self, sequence: &Sequence) -> usize {
        sequence.tokens.len()
    }

    /// Clones one handle for each layer. The first of the two sequences to grow copies the keys and values.
    fn fork(&mut self, sequence: &Sequence) -> Sequence {
        sequence.clone()
    }

    fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        let old = sequence.tokens.len();
        assert!(len <= old, "cannot truncate a sequence of {old} tokens to {len}");
        sequence.tokens.truncate(len);
        // What lies beyond is overwritten.
        sequence.caches.truncate(len, Regimes::new(&self.config), |_, _| ());
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
