#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | content |
//! |---|---|
//! | `config` | the shape of a model, read from `config.json` and checked |
//! | `parameters` | the table of parameters: names, shapes, orientation, random values |
//! | `weights` | safetensors to host values |
//! | `rotary` | position embeddings |
//! | `model` | the decoder, one definition for training and inference |
//! | `cache` | keys and values of one sequence, and attention over them |
//! | `llama` | batches of sequences: the `LanguageModel` |
//! | `device` | with the feature `wgpu`: logits that stay on the device and answer questions there |
//! | `train`, `save` | with the feature `train`: the training loop, checkpoints, writing a model |
//!
//! No type of burn appears in the public interface: a new version of burn is no breaking change of this crate.

mod backend;
mod cache;
mod config;
#[cfg(feature = "wgpu")]
mod device;
mod llama;
mod model;
mod parameters;
mod rotary;
#[cfg(feature = "train")]
mod save;
#[cfg(feature = "train")]
mod train;
mod weights;

pub use backend::Backend;
pub use config::{ConfigError, ModelConfig};
#[cfg(feature = "wgpu")]
pub use device::DeviceError;
pub use llama::{Llama, ModelError, Sequence};
#[cfg(feature = "train")]
pub use train::{TrainError, TrainEvent, TrainOptions, TrainedModel, TrainingData, train};
pub use weights::LoadError;
