//! Samplers that keep the law of the language model under a constraint.
//!
//! Masking tokens makes outputs valid and moves their distribution: the model is pushed down paths that it would not
//! have taken. The samplers here draw from the model's own distribution *given* that the output is valid,
//!
//! ```text
//! P(output | constraint) = P(output) / P(constraint)     for every valid output,
//! ```
//!
//! over any [`Constraint`](unskew_core::Constraint) and any [`LanguageModel`](unskew_core::LanguageModel).
//!
//! | sampler | law | cost of one output |
//! |---|---|---|
//! | [`Masked`] | not the model's; every output has its weight | one walk |
//! | [`Guessed`] | that of `Masked` | fewer passes, where guesses are right |
//! | [`Speculative`](speculative::Speculative) | that of `Masked`, or within a stated divergence of it; exact under rejection | fewer passes, where drafts are accepted |
//! | [`Rejection`] | exact | `1 / P(L)` walks on average, stopped early |
//! | [`Disc`] | exact when accepted; else resampled, and says so | fewer walks than rejection, bounded |
//!
//! Temperature and truncation before the mask make another model, whose law is then kept: [`Warped`].
//!
//! # Example
//!
//! ```
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//! use unskew_core::{Sampler, TableModel, Unconstrained};
//! use unskew_samplers::{Disc, DiscConfig, Task};
//!
//! let model = TableModel::uniform(["a", "b"]);
//! let vocabulary = model.vocabulary().clone();
//! let task = Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 3);
//! let draw = Disc::new(task, DiscConfig::default()).draw(&mut ChaCha8Rng::seed_from_u64(7))?;
//! assert!(draw.tokens.len() <= 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod disc;
mod error;
mod masked;
mod prefixes;
mod random;
mod rejection;
mod retokenize;
pub mod speculative;
mod task;
mod truncation;
mod walk;
mod warped;

pub use disc::{Disc, DiscConfig, Form};
pub use error::SampleError;
pub use masked::Masked;
pub use rejection::Rejection;
pub use retokenize::{Spelling, retokenize};
pub use speculative::Guessed;
pub use task::Task;
pub use truncation::{Truncation, TruncationError};
pub use warped::{TemperatureError, Warped};
