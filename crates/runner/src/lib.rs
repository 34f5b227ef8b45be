#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | content |
//! |---|---|
//! | `config` | the shape of a model and how it computes, read from `config.json` and checked |
//! | `parameters` | the table of parameters: names, shapes, orientation, random values |
//! | `weights` | safetensors to matrices |
//! | `kernel`, `pack`, `matrix`, `functions` | products with SIMD and threads, and the layout of weights; functions of rows |
//! | `memory` | how fast this machine reads memory |
//! | `rotary` | position embeddings |
//! | `cache`, `prefixes` | keys and values of one sequence, and attention over them; those that the model remembers |
//! | `decoder` | the decoder on the CPU |
//! | `batch` | a batch of sequences as passes |
//! | `llama` | batches of sequences: the `LanguageModel` |
//! | `burn` | with the feature `burn`: the same on burn; `burn/device`, with `wgpu`: logits that stay on a GPU and answer there |
//! | `train`, `save` | with the feature `train`: the training loop, checkpoints, writing a model |

mod batch;
#[cfg(feature = "burn")]
pub mod burn;
mod cache;
mod config;
mod decoder;
mod functions;
mod kernel;
mod llama;
mod matrix;
mod memory;
mod pack;
mod parameters;
mod prefixes;
mod rotary;
#[cfg(feature = "train")]
mod save;
#[cfg(feature = "train")]
mod train;
mod weights;

pub use batch::ModelError;
pub use config::{
    Activation, Architecture, Biases, ConfigError, Family, HeadNorm, LayerKind, LayerRotary, LocalRope,
    ModelConfig, Norm, Placement, Scaling,
};
pub use llama::{Llama, Sequence};
pub use memory::memory_bandwidth;
#[cfg(feature = "train")]
pub use train::{TrainError, TrainEvent, TrainOptions, TrainedModel, TrainingData, train};
pub use weights::{LoadError, LoadOptions, LoadProgress, Quantization};
