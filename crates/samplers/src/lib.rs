//! Samplers that keep the distribution of the language model under a constraint.
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
//! # Should you use this crate?
//!
//! To draw valid outputs with the probabilities that the model gives them, or with weights that correct them:
//! yes. If only the form counts and speed decides, masks alone do: `unskew-engine` in an inference engine, or
//! [`Masked`] here. The `unskew` crate has these samplers with models and constraints around them.
//!
//! ```text
//! Task: model, constraint --session/--> what the rollouts of a task share: prefixes (tree/), rows of the model (row/, warped/)
//!     |                                      |
//!     |                   rollout/ one generation;  speculative/ drafts for it;  values/ how likely a prefix ends well
//!     v                                      |
//! policy/ which rollout comes next --scheduler/--> draws under way, in batches --drawing/--> Sampling: one draw, or many
//!                                            |
//!        machine/ the same without a model: a caller feeds rows;  walks/ outputs that a serving engine writes
//! ```
//!
//!
//! A sampler is a policy over a task, or other rules: [`Sampling::new(task, Exact::cars(1_000))`](Sampling).
//!
//! | policy | distribution of one output | cost of one output |
//! |---|---|---|
//! | [`Masked`] | not the model's; every output has its weight | one rollout |
//! | [`Exact::rejection`] | exact | `1 / P(L)` rollouts on average, stopped early |
//! | [`Exact::rsft`] | exact | fewer by the probability that the first token is allowed |
//! | [`Exact::ars`], [`Exact::cars`] | exact, independent | `b / P(L)`; the bound `b` falls with each rollout: CARS about two |
//! | [`Exact::disc`] | exact when accepted; else resampled, and says so | as CARS, with a budget |
//! | [`Asap`] | tends to the model's with the number of outputs | one rollout |
//! | [`Twisted`] | near the model's after a few outputs; every output has its weight | one rollout, or a budget of some |
//! | [`Awrs`] | that of `Masked`; weights are estimates | one rollout, and few questions to the constraint |
//! | [`Smc`] | exact with its weight, near it without | N rollouts in step |
//! | [`Imh`] | likewise, from proposals that learn between outputs | `k + 1` rollouts |
//! | [`Mcmc`] | tends to the model's with the number of steps | one rollout and `k` parts of one |
//! | [`Beam`], [`Greedy`] | none: searches, with exact log-probabilities | N rollouts in step, or one |
//!
//! Every policy can be drafted for ([`Sampling::speculative`]): its distribution stays, and it takes fewer passes.
//! With a budget, masked sampling becomes mentored decoding ([`speculative`]).
//!
//! For many outputs take CARS, for a few DISC; masked sampling where only speed counts. A *rollout* is one
//! left-to-right generation. Prefixes that an earlier rollout has scored cost no forward pass. All rollouts share one
//! tree of visited prefixes, bounded in bytes ([`Task::max_bytes`]), and step through the model in batches
//! ([`Task::batch`]). For a given seed, no output depends on these two limits unless the policy learns: a rollout
//! then learns from all rollouts that have ended. A cost counts evaluated positions and passes; a pass that several
//! outputs share is counted with the first of them. [`trace()`] shows where an output loses the model's mass.
//!
//! A program with a loop of its own around the model (a server, or an engine that calls back with logits) uses a
//! policy without a model. A [`Scheduler`] is a [`Machine`]: it asks for rows, and the program feeds them. Its draws
//! are those of a [`Drawing`].
//!
//! An engine that batches its own sequences and samples from rows that a plug-in may change takes [`Walks`]: one
//! rollout along one of its sequences, asked for the token of a position and told the row there. A [`WalkTable`] holds
//! those of all prompts and constraints.
//!
//! Temperature and truncation before the mask make another model. The samplers keep the distribution of that model:
//! [`Warped`].
//!
//! # Example
//!
//! ```
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//! use unskew_core::{Sampler, TableModel, Unconstrained};
//! use unskew_samplers::{Exact, Sampling, Task};
//!
//! let model = TableModel::uniform(["a", "b"]);
//! let vocabulary = model.vocabulary().clone();
//! let task = Task::new(model, Unconstrained::new(&vocabulary), &vocabulary, 3);
//! let draw = Sampling::new(task, Exact::disc()).draw(&mut ChaCha8Rng::seed_from_u64(7))?;
//! assert!(draw.tokens.len() <= 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod limits;
mod machine;
mod random;
mod task;

mod drawing;
mod policy;
mod rollout;
mod row;
mod scheduler;
mod session;
mod tree;
mod values;
mod walks;

pub mod speculative;

mod warped;

mod retokenize;
mod trace;

#[cfg(test)]
mod mutants;
#[cfg(test)]
mod testing;

pub use drawing::{Beam, Drawing, Polled, Populations, Rules, Sampling, Search, Smc};
pub use error::SampleError;
pub use limits::{MAX_BEAMS, MAX_CANDIDATES, MAX_DRAFT, MAX_PARTICLES};
pub use machine::{FedRow, Machine, Poll, Request, SequencePool, drive, step};
pub use policy::{Asap, Awrs, Cut, Exact, Greedy, Imh, Masked, Mcmc, Twisted};
pub use retokenize::{Spelling, retokenize};
pub use row::{log_mass, log_normalizer};
pub use scheduler::{Scheduler, Usage};
pub use task::{ModelShape, Task};
pub use trace::{TraceStep, trace};
pub use tree::TrieFileError;
pub use unskew_core::Cancel;
pub use values::{StateValues, ValuesError};
pub use walks::{
    FedRows, FullError, Walk, WalkEnd, WalkKey, WalkMode, WalkOutput, WalkStats, WalkStep, WalkSums,
    WalkTable, Walks,
};
pub use warped::{
    MAX_TEMPERATURE, MIN_TEMPERATURE, TemperatureError, Truncation, TruncationError, Warp, Warped,
};
