//! The parameters of speculation, what may go wrong with them, and the statistics that it keeps.

use unskew_core::{Cost, TokenId, Vocabulary};

use super::{Budget, BudgetError, DraftLength, budget::ShareError};
use crate::MAX_DRAFT;

/// How much is drafted, and how far the distribution may diverge for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpeculationConfig {
    /// How many positions a draft reaches. Default: as many as pay.
    pub length: DraftLength,
    /// The divergence from the target that a position may spend. Default: none.
    pub budget: Budget,
    /// Whether the weights of outputs refer to the distribution that they were drawn from. Without, they refer to that of masked
    /// sampling: they correct the mask and not the mentoring, and drafts that speculative sampling would accept are accepted
    /// without computing the optimum. Without a budget the two are the same. Default: true.
    pub weights: bool,
    /// Whether that shortcut is taken: it changes no output. Default: true.
    pub early_tests: bool,
}

impl Default for SpeculationConfig {
    fn default() -> Self {
        Self { length: DraftLength::default(), budget: Budget::Lossless, weights: true, early_tests: true }
    }
}

impl SpeculationConfig {
    /// Refuses a configuration that does not go with a policy or with the vocabularies.
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

/// Parts that do not go together.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeculationError {
    /// A budget that is no divergence.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A share that is none.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Drafts that are longer than memory is meant for.
    #[error(
        "a draft of {length} tokens is too long: each takes a row of logits, and the limit is {MAX_DRAFT}"
    )]
    DraftLength {
        /// The length.
        length: usize,
    },
    /// The draft's rows are not over the target's tokens.
    #[error(
        "the draft model has {draft} tokens and the target {target}: a draft needs the target's own tokens"
    )]
    VocabularyLength {
        /// The length of the draft's rows.
        draft: usize,
        /// The length of the target's.
        target: usize,
    },
    /// The draft's tokens are not the target's.
    #[error(
        "token {token} of the draft model is not that of the target: a draft needs the target's own tokenizer"
    )]
    Token {
        /// The first that differs.
        token: TokenId,
    },
    /// Mentored proposals under a sampler that corrects the mask.
    #[error(
        "mentored decoding draws from a distribution of its own, which a sampler that rejects or learns cannot turn into the \
         model's; use it with masked sampling, or with a budget of 0"
    )]
    MentoredUnderExact,
}

/// Whether two models have the same tokens, one by one; vocabularies of the same length may differ.
///
/// # Errors
///
/// [`SpeculationError`] when they have not.
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
    /// Tokens that were drawn, those of rejected rollouts among them, without ends.
    pub tokens: u64,
    /// Positions that were drafted, not counting forced ones.
    pub drafted: u64,
    /// The drafted positions that the target was asked about: none after a rejection.
    pub tested: u64,
    /// The tested positions whose draft was accepted.
    pub accepted: u64,
    /// Positions at which the optimum was computed.
    pub solved: u64,
    /// The cost of the drafts, in positions and passes of the draft model.
    pub draft: Cost,
    /// Rollouts that have ended.
    pub rollouts: u64,
    /// The divergence that was spent, on all rollouts together.
    pub spent: f64,
    /// The divergence that the budget allowed on the positions that spent it: at each of them, or over all rollouts.
    pub allowed: f64,
    /// The most that one rollout has spent.
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

    /// The share of the tested drafts that was accepted.
    pub fn acceptance(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let share = self.accepted as f64 / self.tested.max(1) as f64;
        share
    }
}
