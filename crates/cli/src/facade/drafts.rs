//! Drafts: the parts that propose tokens for the model to verify in one pass, and their share in each output.

use serde::Serialize;
use unskew_core::{AnyState, EndScratch, EndState, Proposer, TokenId, WithEnd};
use unskew_engine::{Compiled, LastScratch};
use unskew_grammars::CountModel;
use unskew_samplers::speculative::SpeculationStats;

use super::{
    Method,
    error::{Error, Result},
    method::Disc,
    model::{Model, ModelSource},
};

/// The part that proposes tokens for the model to verify.
#[derive(Clone, Debug)]
pub enum Draft {
    /// The tokens that followed the same tokens before.
    Ngram,
    /// Counts of tokens by place in a grammar or JSON Schema.
    Counts,
    /// A smaller model with the same tokens.
    Model(Model),
}

impl Draft {
    /// The draft with this name: `ngram`, `counts`, or the name of a [`Model`].
    ///
    /// # Errors
    ///
    /// As [`Model::open`].
    pub fn open(name: &str) -> Result<Self> {
        Ok(match name {
            "ngram" => Self::Ngram,
            "counts" => Self::Counts,
            model => Self::Model(Model::load(&ModelSource::from(model), None)?),
        })
    }
}

/// Refuses a draft for a method that has no use for it.
pub(crate) fn check(method: &Method, draft: Option<&Draft>) -> Result<()> {
    if draft.is_none() {
        return match method.length() {
            _ if method.needs_draft() => Err(Error::combination(
                "speculation needs `draft_model`: tiny-draft, a folder, table:FILE, ngram or counts",
            )),
            Some(_) => Err(Error::combination(
                "the parameter `length` is that of the drafts of a `draft_model`; give one, or leave it out",
            )),
            None => Ok(()),
        };
    }
    let why = match method {
        Method::Disc(Disc { top_m: Some(_), .. }) => {
            return Err(Error::combination(
                "top_m of disc tests tokens one by one, and `draft_model` needs masks; leave out one of the two",
            ));
        }
        method if method.may_draft() => return Ok(()),
        Method::Masked => "masked with drafts is speculative",
        Method::Beam(_) | Method::Greedy => "it draws nothing that a draft could be accepted for",
        _ => "its steps are single tokens",
    };
    Err(Error::combination(format!(
        "`draft_model` is for `sampler` speculative, mentored, rejection, ars, cars, asap and disc, not for {method}: {why}"
    )))
}

/// The share of speculation in one output.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Drafted {
    /// Drafted tokens that the model verified.
    pub drafts_tested: u64,
    /// Those of them that it accepted.
    pub drafts_accepted: u64,
    /// Passes through the draft model.
    pub draft_passes: u64,
    /// The divergence that was spent, in nats.
    pub kl_spent: f64,
    /// The divergence that was allowed at the positions that spent it, or on the output.
    pub kl_allowed: f64,
}

impl std::ops::AddAssign for Drafted {
    fn add_assign(&mut self, other: Self) {
        self.drafts_tested += other.drafts_tested;
        self.drafts_accepted += other.drafts_accepted;
        self.draft_passes += other.draft_passes;
        self.kl_spent += other.kl_spent;
        self.kl_allowed += other.kl_allowed;
    }
}

impl Drafted {
    /// The share of the verified drafts that was accepted.
    pub fn acceptance(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let share = self.drafts_accepted as f64 / self.drafts_tested.max(1) as f64;
        share
    }

    pub(crate) fn new(stats: &SpeculationStats) -> Self {
        Self {
            drafts_tested: stats.tested,
            drafts_accepted: stats.accepted,
            draft_passes: stats.draft.passes,
            kl_spent: stats.spent,
            kl_allowed: stats.allowed,
        }
    }
}

/// Counts by place in the grammar that a constraint is.
pub(crate) struct Counts(pub(crate) CountModel);

impl Proposer<WithEnd<Compiled>> for Counts {
    fn propose(
        &mut self,
        constraint: &WithEnd<Compiled>,
        scratch: &mut EndScratch<LastScratch>,
        text: &[TokenId],
        state: &EndState<AnyState>,
        most: usize,
        tokens: &mut Vec<TokenId>,
    ) {
        let Some(state) = state.within() else { return };
        constraint.inner().with_grammar(scratch.inner_mut(), state, |grammar, scratch, state| {
            self.0.propose(grammar, scratch, text, state, most, tokens);
        });
    }

    fn observe(
        &mut self,
        constraint: &WithEnd<Compiled>,
        scratch: &mut EndScratch<LastScratch>,
        state: &EndState<AnyState>,
        token: TokenId,
    ) {
        let Some(state) = state.within() else { return };
        constraint.inner().with_grammar(scratch.inner_mut(), state, |grammar, scratch, state| {
            self.0.observe(grammar, scratch, state, token);
        });
    }
}
