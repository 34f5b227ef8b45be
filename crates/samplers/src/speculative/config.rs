//! The parameters of speculation, its errors, and its statistics.

use unskew_core::{Cost, TokenId, Vocabulary};

use super::{Budget, BudgetError, DraftLength, budget::ShareError};
use crate::MAX_DRAFT;

/// The length of drafts, and the divergence that they may cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpeculationConfig {
    /// The number of positions that a draft reaches. Default: as many positions as pay.
    pub length: DraftLength,
    /// The divergence from the target that a position may spend. Default: none.
    pub budget: Budget,
    /// If true, the weights of outputs correct for the mask and for the divergence of mentored decoding. If false,
    /// they correct for the mask alone, as those of masked sampling; drafts that speculative sampling would accept
    /// are then accepted without computing the optimum. Without a budget, both settings are the same. Default: true.
    pub weights: bool,
}

impl Default for SpeculationConfig {
    fn default() -> Self {
        Self { length: DraftLength::default(), budget: Budget::Lossless, weights: true }
    }
}

impl SpeculationConfig {
    /// Refuses a configuration that does not fit the policy or the vocabularies.
    pub(crate) fn check(
        &self,
        is_masked: bool,
        target: usize,
        draft: Option<usize>,
    ) -> Result<(), SpeculationError> {
        self.budget.check()?;
        let (DraftLength::Fixed(length) | DraftLength::Auto { most: length, .. }) = self.length;
        if length > MAX_DRAFT {
            return Err(SpeculationError::DraftLength { length });
        }
        if let Some(draft) = draft.filter(|draft| *draft != target) {
            return Err(SpeculationError::VocabularyLength { draft, target });
        }
        if !self.budget.is_lossless() && !is_masked {
            return Err(SpeculationError::MentoredUnderExact);
        }
        Ok(())
    }
}

/// Parameters that do not fit together.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeculationError {
    /// A budget that is not a divergence.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A share that is not above 0 and at most 1.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A draft that is longer than the limit on its memory.
    #[error(
        "a draft of {length} tokens is too long: each takes a row of logits, and the limit is {MAX_DRAFT}"
    )]
    DraftLength {
        /// The length.
        length: usize,
    },
    /// The draft model has another number of tokens than the target.
    #[error(
        "the draft model has {draft} tokens and the target {target}: a draft needs the target's own tokens"
    )]
    VocabularyLength {
        /// The length of the draft model's rows.
        draft: usize,
        /// The length of the target's rows.
        target: usize,
    },
    /// The draft model has another token under the same id.
    #[error(
        "token {token} of the draft model is not that of the target: a draft needs the target's own tokenizer"
    )]
    Token {
        /// The first token that differs.
        token: TokenId,
    },
    /// Mentored decoding under a sampler that corrects the mask.
    #[error(
        "mentored decoding draws from a distribution of its own, which a sampler that rejects or learns cannot turn into the \
         model's; use it with masked sampling, or with a budget of 0"
    )]
    MentoredUnderExact,
}

/// Checks that two models have the same tokens, one by one. Vocabularies of the same length may differ.
///
/// # Errors
///
/// [`SpeculationError`] when they differ.
pub fn check_vocabularies(target: &Vocabulary, draft: &Vocabulary) -> Result<(), SpeculationError> {
    if target.len() != draft.len() {
        return Err(SpeculationError::VocabularyLength { draft: draft.len(), target: target.len() });
    }
    let differs = |id: &TokenId| target.text(*id) != draft.text(*id) || target.kind(*id) != draft.kind(*id);
    match (0..target.len()).map(TokenId::from_index).find(differs) {
        Some(token) => Err(SpeculationError::Token { token }),
        None => Ok(()),
    }
}

/// The statistics of speculation, over all rollouts so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct SpeculationStats {
    /// The number of drawn tokens, those of rejected rollouts included, ends not included.
    pub tokens: u64,
    /// The number of drafted positions, forced ones not included.
    pub drafted: u64,
    /// The number of drafted positions that the target has verified: none after a rejection.
    pub tested: u64,
    /// The number of verified positions whose draft was accepted.
    pub accepted: u64,
    /// The number of positions at which the optimum was computed.
    pub solved: u64,
    /// The cost of the drafts, in positions and passes of the draft model.
    pub draft: Cost,
    /// The number of rollouts that have ended.
    pub rollouts: u64,
    /// The divergence spent by all rollouts together.
    pub spent: f64,
    /// The divergence that the budget allowed where divergence was spent: at each position, or over all rollouts.
    pub allowed: f64,
    /// The most divergence that one rollout has spent.
    pub most_spent: f64,
}

impl std::ops::AddAssign for SpeculationStats {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.drafted += other.drafted;
        self.tested += other.tested;
        self.accepted += other.accepted;
        self.solved += other.solved;
        self.draft += other.draft;
        self.rollouts += other.rollouts;
        self.spent += other.spent;
        self.allowed += other.allowed;
        self.most_spent = self.most_spent.max(other.most_spent);
    }
}

impl SpeculationStats {
    pub(crate) fn spend(&mut self, divergence: f64) {
        self.spent += divergence;
    }

    /// Closes the statistics of one rollout of `tokens` tokens.
    pub(crate) fn close(&mut self, budget: Budget, tokens: usize) {
        self.tokens = tokens as u64;
        self.rollouts = 1;
        self.most_spent = self.spent;
        if let Budget::Sequence { total, .. } = budget {
            self.allowed = total;
        }
    }

    /// The share of the verified drafts that was accepted.
    pub fn acceptance(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let share = self.accepted as f64 / self.tested.max(1) as f64;
        share
    }
}
