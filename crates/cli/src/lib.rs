//! Constrained decoding that keeps the language model's own distribution.
//!
//! Engines that mask tokens make outputs valid and change the model's distribution: they push it down paths that it
//! would not have taken. unskew gives the same guarantee on the form of an output, and draws it from
//!
//! ```text
//! P(output | constraint) = P(output) / P(constraint)
//! ```
//!
//! # Outputs in a dozen lines
//!
//! ```
//! # #[cfg(all(feature = "facade", feature = "runner", feature = "tiny-model"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use unskew::{Model, Spec};
//!
//! let model = Model::open("tiny")?; // or the folder of a checkpoint
//! let draws = model
//!     .prompt("Dear Ms Meyer,\nKind regards,\n")
//!     .constrain(Spec::choices(["Thomas Hansen", "Peter Costa", "Paul Becker"]))?
//!     .seed(1)
//!     .sample("cars")?;
//! for output in draws.take(5) {
//!     let output = output?;
//!     println!("{}: log-probability {:.3}, {} passes", output.text, output.log_prob, output.cost.passes);
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "facade", feature = "runner", feature = "tiny-model")))]
//! # fn main() {}
//! ```
//!
//! [`Model`] is a language model with its tokens, [`Spec`] a constraint as data, and [`Request`] the two with a
//! prompt, a seed, limits and a callback. A model of one's own is [`Model::new`], a constraint of one's own
//! [`Request::constrain_with`]. The samplers, with their parameters and the distributions of their outputs, are the
//! table [`METHODS`]. The example `own` (`cargo run --example own`) has one of each. All of this is the feature
//! `facade`.
//!
//! # The parts
//!
//! Each of them is a crate of its own:
//!
//! | module | purpose |
//! |---|---|
//! | [`core`] | token ids, vocabularies, masks; the traits of constraints, models and samplers, with tests for any implementation |
//! | [`trie`] | the tokens of a vocabulary as a trie, and masks from automata over bytes |
//! | [`automata`] | regular expressions and lists of choices as exact constraints, over all spellings or the tokenizer's own |
//! | [`grammar`] | context-free grammars as data: a builder, facts about them |
//! | [`notation`] | grammars as texts: Lark, GBNF, EBNF, ABNF and others are read, and GBNF is written |
//! | [`grammars`] | such grammars as exact constraints |
//! | [`schema`] | JSON Schema as exact grammars; a keyword that is not enforced is an error |
//! | [`sets`] | items out of millions as exact constraints; any text but those |
//! | [`engine`] | what an inference engine embeds: a compiler with a bounded cache, matchers, batches (feature `facade`) |
//! | [`samplers`] | masked, exact and weighted samplers, searches, drafts |
//! | [`vocab`] | `tokenizer.json` files (feature `vocab`) |
//! | [`runner`] | transformers on the CPU (feature `runner`) |
//! | [`endpoint`] | models that a server runs: vLLM, SGLang, llama.cpp's, OpenAI-compatible (feature `http`) |
//! | `llama_cpp` | GGUF files that llama.cpp runs (feature `llama-cpp`); [`runner`] runs most without it |
//! | [`tiny_model`] | the embedded models (feature `tiny-model`) |
//!
//! # Features
//!
//! | feature | for | with it |
//! |---|---|---|
//! | `cli` (default) | the program | `command-line`, `tiny-model` |
//! | `https` (default) | models that a server runs, also over TLS | `http`; a C compiler builds ring |
//! | `http` | models that a server runs | `facade` |
//! | `command-line` | [`command_line`] in a program of one's own | `facade`, `chat` |
//! | `facade` | [`Model`], [`Spec`], [`Request`] | `vocab` |
//! | `runner` | transformers on the CPU | |
//! | `chat` | the chat templates of checkpoints | `runner` |
//! | `tiny-model` | the embedded models | five megabytes |
//! | `vocab` | `tokenizer.json` files | the tokenizers library |
//! | `sets` (default) | [`sets`] and `Spec::set`, from mapped files | |
//! | `rayon` (default) | `engine::fill_batch` over threads | rayon |
//! | `schemars` | `Spec::of::<T>()`: the constraint of a type | `facade`; serde_json keeps the order of members |
//! | `stream` | `Draws::into_stream`: outputs in async programs | `facade` |
//! | `gpu` | sets on a GPU | wgpu |
//! | `wgpu` | models on a GPU, too | `gpu`, `runner`; 25 CPU-minutes of build |
//! | `llama-cpp` | GGUF files that llama.cpp runs | `facade`; a C++ compiler, cmake and libclang |
//! | `llama-cpp-cuda`, `llama-cpp-metal`, `llama-cpp-vulkan` | the same on GPUs | `llama-cpp`; the SDK of each |
//!
//! A library should depend with `default-features = false, features = ["facade"]`, and `runner` or `http` for models.
//!
//! # Example: the parts by themselves
//!
//! Any model, here one given as a table: it likes to begin with `0`, and rarely goes on as the constraint demands.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//! use unskew::{
//!     automata::RegexConstraint,
//!     core::{Sampler, TableModel, TokenId},
//!     samplers::{Exact, Masked, Sampling, Task},
//! };
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//!
//! let after_zero = (vec![TokenId(0)], vec![0.05, 0.05, 0.9]);
//! let model = TableModel::new(["0", "1"], vec![0.6, 0.3, 0.1], [after_zero])?;
//! let vocabulary = model.vocabulary().clone();
//! let constraint = RegexConstraint::for_vocabulary("[01][01]", Arc::clone(&vocabulary))?;
//!
//! let task = || Task::new(model.clone(), &constraint, &vocabulary, 8);
//! let share_of_zero = |sampler: &mut dyn Sampler<Error = _>| {
//!     let mut rng = ChaCha8Rng::seed_from_u64(1);
//!     (0..2000).filter(|_| sampler.draw(&mut rng).unwrap().tokens[0] == TokenId(0)).count() as f64 / 2000.0
//! };
//! let masked = share_of_zero(&mut Sampling::new(task(), Masked::new()));
//! let faithful = share_of_zero(&mut Sampling::new(task(), Exact::disc()));
//! // Masking begins with `0` two times in three. The model itself, where it satisfies the constraint, two in eleven.
//! assert!((masked - 0.667).abs() < 0.05 && (faithful - 0.182).abs() < 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "command-line")]
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]
pub mod command_line;
#[cfg(feature = "facade")]
mod facade;

#[cfg(feature = "facade")]
pub use facade::*;

pub use unskew_automata as automata;
pub use unskew_core as core;
#[cfg(feature = "http")]
pub use unskew_endpoint as endpoint;
#[cfg(feature = "facade")]
pub use unskew_engine as engine;
pub use unskew_grammar as grammar;
pub use unskew_grammars as grammars;
#[cfg(feature = "llama-cpp")]
pub use unskew_llama_cpp as llama_cpp;
pub use unskew_notation as notation;
#[cfg(feature = "runner")]
pub use unskew_runner as runner;
pub use unskew_samplers as samplers;
pub use unskew_schema as schema;
#[cfg(feature = "sets")]
pub use unskew_sets as sets;
#[cfg(feature = "tiny-model")]
pub use unskew_tiny_model as tiny_model;
pub use unskew_trie as trie;
#[cfg(feature = "vocab")]
pub use unskew_vocab as vocab;
