#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | content |
//! |---|---|
//! | `schedule` | sequences of ours as sequences of llama.cpp, batches as passes; no llama.cpp |
//! | `model` | with the feature `llama-cpp`: a GGUF file as a `LanguageModel` |
//! | `threads` | how threads wait for each other |
//! | `messages` | with the feature `llama-cpp`: the reason why llama.cpp refuses a file |

mod error;
#[cfg(feature = "llama-cpp")]
mod messages;
#[cfg(feature = "llama-cpp")]
mod model;
#[cfg_attr(
    not(feature = "llama-cpp"),
    allow(dead_code, reason = "tested without llama.cpp, and used with it")
)]
mod schedule;
mod threads;

pub use error::{LlamaCppError, LoadError};
#[cfg(feature = "llama-cpp")]
pub use model::{CacheType, LlamaCpp, Options};
pub use schedule::Sequence;
pub use threads::wait_passively;
