#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | content |
//! |---|---|
//! | `config` | the shape of a model and how it computes, read from `config.json` or a GGUF file, and checked |
//! | `math` | products with SIMD and threads, and the layout of weights; functions of rows; rotary embeddings |
//! | `cache` | keys and values of one sequence, and attention over them; the prefixes that the model remembers |
//! | `caches` | the caches of one sequence, where frequencies follow its length |
//! | `weights` | safetensors and GGUF files to matrices; random values |
//! | `memory` | how fast this machine reads memory |
//! | `threads` | parallel loops, and what they are where there are no threads |
//! | `network` | the weights in their places, and what each layer does: the description of a model made concrete |
//! | `decoder` | the decoder on the CPU |
//! | `batch` | a batch of sequences as passes |
//! | `llama` | batches of sequences: the `LanguageModel` |
//! | `burn` | with the feature `burn`: the same on burn; `burn/device`, with `wgpu`: logits that stay on a GPU and answer there |
//! | `train` | with the feature `train`: the training loop, checkpoints, writing a model |

mod batch;
#[cfg(feature = "burn")]
pub mod burn;
mod cache;
mod caches;
mod config;
mod decoder;
mod llama;
mod math;
mod memory;
mod network;
mod threads;
#[cfg(feature = "train")]
mod train;
mod weights;

pub use batch::ModelError;
pub use config::{
    Activation, Architecture, Biases, ConfigError, Family, GgufModelError, HeadNorm, LayerKind, LayerRotary,
    LocalRope, ModelConfig, Norm, Placement, Scaling,
};
pub use llama::{Llama, Sequence};
pub use memory::memory_bandwidth;
#[cfg(feature = "train")]
pub use train::{TrainError, TrainEvent, TrainOptions, TrainedModel, TrainingData, train};
pub use weights::{LoadError, LoadOptions, LoadProgress, Quantization};
