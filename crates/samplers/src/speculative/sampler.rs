//! Speculative and mentored decoding as samplers, by themselves and under samplers that correct the mask.

use std::fmt;

use rand_core::Rng;
use unskew_core::{Constraint, Cost, Draw, LanguageModel, Origin, Sampler, TokenId, Vocabulary};

use super::{
    Budget, BudgetError, Divergence, Draft, DraftLength, KullbackLeibler,
    budget::ShareError,
    draft::{Drawn, Step},
    stepper::{Coins, End, Output, Stepper},
};
use crate::{DiscConfig, Form, MAX_DRAFT, SampleError, Task, draws::Method, random::weighted};

/// What is drafted, and what may be spent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpeculativeConfig {
    /// How many positions a draft reaches. Default: as many as pay.
    pub length: DraftLength,
    /// What a position may diverge from the target. Default: nothing.
    pub budget: Budget,
    /// Which sampler the outputs are proposals of. Default: none, they are what masked sampling gives.
    pub under: Under,
    /// Whether the weights of outputs refer to the law that they were drawn from. Without, they refer to that of masked
    /// sampling: they correct the mask and not the mentoring, and drafts that speculative sampling would accept are accepted without
    /// computing the optimum. Without a budget the two are the same. Default: true.
    pub weights: bool,
    /// Whether that shortcut is taken: it changes no output. Default: true.
    pub early_tests: bool,
}

impl Default for SpeculativeConfig {
    fn default() -> Self {
        Self {
            length: DraftLength::default(),
            budget: Budget::Lossless,
            under: Under::Masked,
            weights: true,
            early_tests: true,
        }
    }
}

/// The sampler that makes outputs of what is proposed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Under {
    /// Masked sampling: every proposal is an output, with its weight.
    Masked,
    /// Rejection sampling, which gives up after so many tries for one output. Exact.
    Rejection {
        /// The most tries.
        max_tries: u64,
    },
    /// DISC as published ([`Form::Fresh`]): tries, then a choice among fresh proposals.
    Disc(DiscConfig),
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
        "mentored decoding draws from a law of its own, which rejection and DISC cannot turn into the model's; \
         use it by itself, or with a budget of 0"
    )]
    MentoredUnderExact,
    /// A form of DISC that needs to know more of its proposals.
    #[error(
        "DISC's form {form:?} is not for speculative proposals, which keep no tree of prefixes; use Form::Fresh"
    )]
    DiscForm {
        /// The form.
        form: Form,
    },
}

/// Whether two models have the same tokens, one by one: what vocabularies of the same length do not say.
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

/// What speculation has come to, over all outputs so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speculation {
    /// Tokens that were drawn, those of proposals that were given up among them, without ends.
    pub tokens: u64,
    /// Positions that were drafted, not counting forced ones.
    pub drafted: u64,
    /// Those of them that the target was asked about: none behind a rejection.
    pub tested: u64,
    /// Those that were accepted.
    pub accepted: u64,
    /// Positions that were forced, and so drafted for nothing.
    pub forced: u64,
    /// Positions at which the optimum was computed.
    pub solved: u64,
    /// What the draft has cost, in positions and passes of its own model.
    pub draft: Cost,
    /// Proposals.
    pub outputs: u64,
    /// The divergence that was spent, on all proposals together.
    pub spent: f64,
    /// That which the budget allowed on the positions that spent it: at each of them, or over all proposals.
    pub allowed: f64,
    /// The most that one proposal has spent.
    pub most_spent: f64,
    pub(crate) allowed_at_positions: f64,
}

impl Speculation {
    /// Of the drafts that were tested, the share that was accepted.
    pub fn acceptance(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let share = self.accepted as f64 / self.tested.max(1) as f64;
        share
    }

    pub(crate) fn count(&mut self, steps: &[Step], accepted: u32, tested: u32) {
        let forced = steps.iter().filter(|step| step.drawn == Drawn::Forced).count() as u64;
        self.forced += forced;
        self.drafted += steps.len() as u64 - forced;
        self.accepted += u64::from(accepted);
        self.tested += u64::from(tested);
    }

    /// A proposal has ended.
    pub(crate) fn close(&mut self, budget: Budget, spent: f64) {
        self.outputs += 1;
        self.spent += spent;
        self.most_spent = self.most_spent.max(spent);
        let at_positions = std::mem::take(&mut self.allowed_at_positions);
        self.allowed += match budget {
            Budget::Lossless => 0.0,
            Budget::Token(_) => at_positions,
            Budget::Sequence { total, .. } => total,
        };
    }
}

/// Speculative and mentored decoding.
///
/// | budget | under | law |
/// |---|---|---|
/// | [`Lossless`](Budget::Lossless) | [`Masked`](Under::Masked) | that of [`Masked`](crate::Masked) sampling; weights correct it |
/// | | [`Rejection`](Under::Rejection) | the target law, exactly |
/// | | [`Disc`](Under::Disc) | that of [`Disc`](crate::Disc): exact where accepted |
/// | [`Token`](Budget::Token), [`Sequence`](Budget::Sequence) | `Masked` | at each position the [`optimum`](super::optimum()) for the draft and the masked target, within the budget; weights correct it |
/// | | others | refused: [`SpeculationError::MentoredUnderExact`] |
///
/// A draft that learns from output to output (counts) changes no law without a budget; with one, the law of an output depends
/// on what was learnt, and is within the budget all the same. Samplers that learn about prefixes ([`Form::Learned`]) are not combined with
/// speculation: what they draw from changes at prefixes that a draft has passed already.
///
/// **Cost**: [`Draw::cost`] counts the target model's positions, rejected drafts among them, and passes; the draft's own are in
/// [`Speculation::draft`].
///
/// # Example
///
/// ```
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// use unskew_core::{Sampler, TableModel, TokenId, Unconstrained};
/// use unskew_samplers::{Task, speculative::*};
///
/// let target = TableModel::new(["a", "b"], vec![0.6, 0.3, 0.1], [])?;
/// let draft = TableModel::new(["a", "b"], vec![0.5, 0.4, 0.1], [])?;
/// let vocabulary = target.vocabulary().clone();
/// let task = Task::new(target, Unconstrained::new(&vocabulary), &vocabulary, 20).after(vec![TokenId(0)]);
/// let config = SpeculativeConfig { budget: Budget::Token(0.01), ..SpeculativeConfig::default() };
/// let mut sampler = Speculative::new(task, ModelDraft::new(draft), config)?;
/// let draw = sampler.draw(&mut ChaCha8Rng::seed_from_u64(1))?;
/// assert!(sampler.speculation().spent <= 0.01 * draw.cost.positions as f64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Speculative<M: LanguageModel, C: Constraint, D, F = KullbackLeibler> {
    stepper: Stepper<M, C, D, F>,
}

impl<M, C, D> Speculative<M, C, D>
where
    M: LanguageModel,
    C: Constraint,
    D: Draft<C, M::Error>,
{
    /// A sampler for `task` that `draft` drafts for.
    ///
    /// # Errors
    ///
    /// [`SpeculationError`] when the budget is none, the draft is over other tokens, or the parts do not go together.
    pub fn new(task: Task<M, C>, draft: D, config: SpeculativeConfig) -> Result<Self, SpeculationError> {
        Self::with_divergence(task, draft, KullbackLeibler, config)
    }
}

impl<M, C, D, F> Speculative<M, C, D, F>
where
    M: LanguageModel,
    C: Constraint,
    D: Draft<C, M::Error>,
    F: Divergence,
{
    /// The same, with budgets of another divergence. Whether those add up along a sequence is another question: the total
    /// variation of outputs is at most the sum over positions, as the Kullback-Leibler divergence is.
    ///
    /// # Errors
    ///
    /// As for [`new`](Speculative::new).
    pub fn with_divergence(
        task: Task<M, C>,
        draft: D,
        divergence: F,
        config: SpeculativeConfig,
    ) -> Result<Self, SpeculationError> {
        config.budget.check()?;
        let (DraftLength::Fixed(length) | DraftLength::Auto { most: length, .. }) = config.length;
        if length > MAX_DRAFT {
            return Err(SpeculationError::DraftLength { length });
        }
        let target = task.model.vocab_len();
        if let Some(draft) = draft.vocab_len().filter(|draft| *draft != target) {
            return Err(SpeculationError::VocabularyLength { draft, target });
        }
        match config.under {
            Under::Masked => {}
            _ if !config.budget.is_lossless() => return Err(SpeculationError::MentoredUnderExact),
            Under::Disc(DiscConfig { form, .. }) if form != Form::Fresh => {
                return Err(SpeculationError::DiscForm { form });
            }
            Under::Rejection { .. } | Under::Disc(_) => {}
        }
        Ok(Self { stepper: Stepper::new(task, draft, divergence, config) })
    }

    /// What speculation has come to so far.
    pub fn speculation(&self) -> &Speculation {
        &self.stepper.tally
    }

    /// Whoever drafts.
    pub fn draft_mut(&mut self) -> &mut D {
        &mut self.stepper.draft
    }

    fn masked(&mut self, rng: &mut dyn Rng) -> Result<(Output, Origin, u64), SampleError<M::Error>> {
        match self.stepper.walk(Coins::None, true, rng)? {
            End::Output(output) => Ok((output, Origin::Proposed, 1)),
            End::Stuck(tokens) => Err(SampleError::DeadEnd { tokens }),
            End::Refused => unreachable!("a walk without coins"),
        }
    }

    fn rejection(
        &mut self,
        max_tries: u64,
        rng: &mut dyn Rng,
    ) -> Result<(Output, Origin, u64), SampleError<M::Error>> {
        for tries in 1..=max_tries {
            if let End::Output(output) = self.stepper.walk(Coins::All, false, rng)? {
                return Ok((output, Origin::Accepted, tries));
            }
        }
        Err(SampleError::NoOutput { tries: max_tries, max_tokens: self.stepper.task.max_tokens })
    }

    /// Proposals that are accepted with the mass that the masks left of them, but for the first one's; then a choice among fresh
    /// ones in proportion to it.
    fn disc(
        &mut self,
        config: DiscConfig,
        rng: &mut dyn Rng,
    ) -> Result<(Output, Origin, u64), SampleError<M::Error>> {
        Method::check(&config)?;
        let mut tries = 0;
        while tries < config.max_tries && self.stepper.cost.positions < config.max_positions {
            tries += 1;
            match self.stepper.walk(Coins::BelowRoot, false, rng)? {
                End::Output(output) => return Ok((output, Origin::Accepted, tries)),
                // No number of tries will help.
                End::Stuck(tokens) if tokens.is_empty() => {
                    return Err(SampleError::Impossible { max_tokens: self.stepper.task.max_tokens });
                }
                End::Stuck(_) | End::Refused => {}
            }
        }
        let mut candidates = Vec::new();
        for _ in 0..config.particles {
            tries += 1;
            if let End::Output(output) = self.stepper.walk(Coins::None, false, rng)? {
                candidates.push(output);
            }
        }
        let log_weight = |output: &Output| output.log_prob - output.log_proposal;
        let greatest = candidates.iter().map(log_weight).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> =
            candidates.iter().map(|output| (log_weight(output) - greatest).exp()).collect();
        match weighted(&weights, rng) {
            Some(index) => Ok((candidates.swap_remove(index), Origin::Resampled, tries)),
            None => Err(SampleError::NoOutput { tries, max_tokens: self.stepper.task.max_tokens }),
        }
    }
}

impl<M, C, D, F> Sampler for Speculative<M, C, D, F>
where
    M: LanguageModel,
    C: Constraint,
    D: Draft<C, M::Error>,
    F: Divergence,
{
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when a model fails, or nothing that is allowed can be drawn.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        self.stepper.cost = Cost::default();
        let under = self.stepper.config.under;
        let (output, origin, proposals) = match under {
            Under::Masked => self.masked(rng)?,
            Under::Rejection { max_tries } => self.rejection(max_tries, rng)?,
            Under::Disc(config) => self.disc(config, rng)?,
        };
        let is_masked = under == Under::Masked;
        Ok(Draw {
            tokens: output.tokens,
            log_prob: output.log_prob,
            log_weight: if is_masked { output.log_prob - output.log_proposal } else { 0.0 },
            finish: output.finish,
            origin,
            cost: Cost { proposals, ..self.stepper.cost },
        })
    }
}

impl<M: LanguageModel, C: Constraint, D, F> fmt::Debug for Speculative<M, C, D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speculative")
            .field("config", &self.stepper.config)
            .field("speculation", &self.stepper.tally)
            .finish_non_exhaustive()
    }
}
