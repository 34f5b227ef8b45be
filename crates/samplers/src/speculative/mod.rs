//! Speculation: drafts of several tokens, verified by the target model in one pass.
//!
//! A small model, or a guess, drafts what comes next; the model whose law counts evaluates all of it in one pass, and each
//! drafted token is accepted or replaced so that the law is right. [`Speculative`] is that loop. Without a budget it is
//! speculative sampling, which draws from exactly the law of masked sampling; with one it is mentored decoding, which accepts
//! more and states by how much its law may diverge ([`optimum()`], [`Budget`]). [`Guessed`] is an older and simpler relative: it
//! draws first and compares with the guess then, so that its outputs do not depend on what was guessed.
//!
//! - Drafts come from a model ([`ModelDraft`]) or from anyone who guesses ([`ProposerDraft`]): counts by place in a grammar, or
//!   what followed the same tokens before ([`Ngram`]). What the constraint forces is drafted for nothing.
//! - Drafts and target are under the same mask: a draft cannot propose, and the target does not give probability to, what is
//!   forbidden.

mod budget;
mod divergence;
mod draft;
mod guessed;
mod length;
mod levels;
mod ngram;
mod optimum;
mod pair;
mod row;
mod sampler;
mod selection;
mod stepper;

pub use budget::{Budget, ShareError};
pub use divergence::{Divergence, KullbackLeibler, ReverseKullbackLeibler, TotalVariation};
pub use draft::{Draft, ModelDraft, ProposerDraft, Run};
pub use guessed::Guessed;
pub use length::DraftLength;
pub use ngram::Ngram;
pub use optimum::{BudgetError, Optimum, optimum};
pub use pair::{Pair, PairError};
pub use sampler::{Speculation, SpeculationError, Speculative, SpeculativeConfig, Under, check_vocabularies};
pub use selection::Selection;
