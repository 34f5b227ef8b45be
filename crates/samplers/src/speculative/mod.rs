//! Speculation: drafts of several tokens, verified by the target model in one pass.
//!
//! A small model, or a guess, drafts the next tokens. The target model, whose distribution counts, evaluates all of
//! them in one pass, and each drafted token is accepted or replaced so that the distribution is right. Any policy can
//! be drafted for ([`Sampling::speculative`](crate::Sampling::speculative)): the outputs of masked sampling,
//! rejection, DISC or CARS follow the distribution that they follow without drafts. That is speculative sampling.
//! Under masked sampling a [`Budget`] makes it mentored decoding, which accepts more drafts and states the most by
//! which its distribution may diverge ([`optimum()`]).
//!
//! - Drafts come from a model ([`ModelDraft`]) or from guesses ([`ProposerDraft`]). Guesses are counts by place in a
//!   grammar, or the tokens that followed the same ones before ([`PromptLookup`]). Forced tokens are drafted at no
//!   cost.
//! - Drafts and target are under the same mask: the draft proposes no forbidden token, and the target gives none
//!   probability.
//! - All rollouts that wait at one time are drafted for in one batch, and verified in one pass.
//!
//! A rollout that draws by bounds (CARS, at known prefixes) does not verify a draft there. It draws as without a
//! draft, and the draft is of use if the draws agree.

mod budget;
mod config;
mod divergence;
mod drafters;
mod drafts;
mod length;
mod levels;
mod lookup;
mod optimum;
mod outcomes;
mod pair;
mod selection;
mod verify;

pub use budget::{Budget, ShareError};
pub use config::{SpeculationConfig, SpeculationError, SpeculationStats, check_vocabularies};
pub use divergence::{Divergence, KullbackLeibler, ReverseKullbackLeibler, TotalVariation};
pub use drafters::{ModelDraft, ProposerDraft};
pub use drafts::{DraftError, Drafter, Drafts};
pub(crate) use drafts::{DraftRun, DraftStep, Drawn};
pub(crate) use length::Acceptance;
pub use length::DraftLength;
pub use lookup::PromptLookup;
pub use optimum::{BudgetError, Optimum, optimum};
pub use pair::{Pair, PairError};
pub use selection::Selection;
pub(crate) use verify::{Target, Verified, Verifier};
