//! Masked sampling with guessed tokens, verified in one pass.
//!
//! Between two passes of the model a [`Proposer`] guesses what comes next. The model then evaluates the guesses together
//! with the token before them, and each row is drawn from as it would have been without a guess: where the draw agrees, the
//! next row is drawn from as well; where it does not, the rest is forgotten. So the output for a seed is the same whatever
//! is guessed, and its law is that of [`Masked`](crate::Masked) sampling; what changes is how many passes it takes (DOMINO,
//! section 3.6). Tokens that the constraint forces are guesses that are always right.
//!
//! The usual acceptance rule of speculative sampling, with a draft that puts all its mass on one token, accepts with that
//! token's probability and draws from the rest otherwise. That is the same law; comparing the draw is simpler, and the seed
//! decides the output.

use std::fmt;

use rand_core::Rng;
use unskew_core::{
    Constraint, Cost, Draw, Extension, Finish, LanguageModel, Logits, Origin, Proposer, Rows, Sampler,
    TokenId, TokenMask,
};

use crate::{
    SampleError, Task, Truncation,
    random::{uniform, weighted},
};

/// Masked sampling in fewer passes, where a [`Proposer`] guesses well.
///
/// - **Law**: that of [`Masked`](crate::Masked) sampling: guesses change no law.
/// - **Weight**: the same.
/// - **Cost**: a position for each token and each guess that was wrong; a pass for each run of right guesses.
pub struct Guessed<M: LanguageModel, C: Constraint, P> {
    task: Task<M, C>,
    proposer: P,
    most: usize,
    truncation: Option<Truncation>,
    scratch: C::Scratch,
    mask: TokenMask,
    logits: Logits,
    accepted: u64,
    guessed: u64,
}

impl<M: LanguageModel, C: Constraint, P: Proposer<C>> Guessed<M, C, P> {
    /// A sampler for `task` that verifies up to `most` guesses of `proposer` in a pass.
    pub fn new(task: Task<M, C>, proposer: P, most: usize) -> Self {
        let scratch = task.constraint.scratch();
        let mask = TokenMask::new(task.constraint.vocab_len());
        let logits = Logits::new();
        Self { task, proposer, most, truncation: None, scratch, mask, logits, accepted: 0, guessed: 0 }
    }

    /// The same sampler, which cuts off the improbable part of what the mask leaves. With one token kept it is greedy.
    #[must_use]
    pub fn truncated(mut self, truncation: Truncation) -> Self {
        self.truncation = Some(truncation);
        self
    }

    /// Guessed tokens so far, and how many of them were right.
    pub fn guesses(&self) -> (u64, u64) {
        (self.guessed, self.accepted)
    }

    /// Whoever guesses.
    pub fn proposer_mut(&mut self) -> &mut P {
        &mut self.proposer
    }

    /// Appends to `guesses` what is forced behind `state`, and what the proposer expects then.
    fn guess(&mut self, state: &C::State, most: usize, guesses: &mut Vec<TokenId>) {
        let Self { task: Task { constraint, .. }, scratch, .. } = self;
        let mut state = state.clone();
        while let Some(token) = constraint.forced(scratch, &state).filter(|_| guesses.len() < most) {
            constraint.advance(scratch, &mut state, token).expect("a forced token is allowed");
            guesses.push(token);
        }
        let left = most - guesses.len();
        self.proposer.propose(constraint, scratch, &state, left, guesses);
        guesses.truncate(most);
    }

    /// Draws from row `row` of the logits what follows `state`: a token or the end, its log-probability under the model,
    /// and that under the sampler.
    #[allow(clippy::type_complexity, reason = "three values, of which two are numbers")]
    fn choose(
        &mut self,
        row: usize,
        state: &C::State,
        tokens: &[TokenId],
        rng: &mut dyn Rng,
    ) -> Result<(Option<TokenId>, f64, f64), SampleError<M::Error>> {
        let row = self.logits.row(row);
        let normalizer = crate::rows::digits::log_normalizer(row);
        if !normalizer.is_finite() {
            return Err(SampleError::NotADistribution { tokens: tokens.len() });
        }
        let probability =
            |id: TokenId| row.get(id.index()).map_or(0.0, |logit| (f64::from(*logit) - normalizer).exp());
        self.task.constraint.fill_mask(&mut self.scratch, state, self.mask.as_mut());
        let ids: Vec<TokenId> = self.mask.ids().filter(|id| probability(*id) > 0.0).collect();
        let ends = self.task.constraint.is_accepting(state);
        let stop = if ends { self.task.end.iter().map(|id| probability(*id)).sum() } else { 0.0 };
        let mut weights: Vec<f64> =
            std::iter::once(stop).chain(ids.iter().map(|id| probability(*id))).collect();
        if weights.iter().sum::<f64>() <= 0.0 {
            return Err(SampleError::DeadEnd { tokens: tokens.to_vec() });
        }
        if let Some(truncation) = &self.truncation {
            let kept = truncation.keep(&weights);
            let mut left = vec![0.0; weights.len()];
            kept.into_iter().for_each(|index| left[index] = weights[index]);
            weights = left;
        }
        let total: f64 = weights.iter().sum();
        // One random number for whether it ends, as in masked sampling, and one for the token.
        let index = if uniform(rng) * total < weights[0] {
            0
        } else {
            weighted(&weights[1..], rng).map_or(0, |index| index + 1)
        };
        let drawn = weights[index];
        let choice = index.checked_sub(1).map(|index| ids[index]);
        Ok((choice, drawn.ln(), (drawn / total).ln()))
    }
}

impl<M: LanguageModel, C: Constraint, P: Proposer<C>> Sampler for Guessed<M, C, P> {
    type Error = SampleError<M::Error>;

    /// # Errors
    ///
    /// [`SampleError`] when the model fails, or gives probability zero to everything that is allowed.
    fn draw(&mut self, rng: &mut dyn Rng) -> Result<Draw, Self::Error> {
        let mut cost = Cost { proposals: 1, ..Cost::default() };
        let mut sequence = self.task.model.start();
        let mut state = self.task.constraint.start();
        self.proposer.begin(&self.task.prompt);
        let mut tokens: Vec<TokenId> = Vec::new();
        let mut unread = self.task.prompt.clone();
        let (mut log_prob, mut log_proposal) = (0.0, 0.0);
        let finish = 'output: loop {
            if tokens.len() == self.task.max_tokens {
                break Finish::Length;
            }
            let mut guesses = Vec::new();
            let most = self.most.min(self.task.max_tokens - tokens.len() - 1);
            self.guess(&state, most, &mut guesses);
            if unread.is_empty() {
                // Behind nothing the row of the empty sequence is asked for, which is no row of an appended token.
                guesses.clear();
            }
            let first_row = unread.len().saturating_sub(1);
            let before = self.task.model.len(&sequence) + unread.len();
            unread.extend_from_slice(&guesses);
            let (rows, first_row) = if guesses.is_empty() { (Rows::Last, 0) } else { (Rows::All, first_row) };
            let batch = &mut [Extension { sequence: &mut sequence, tokens: &unread, rows }];
            self.task.model.extend(batch, &mut self.logits).map_err(SampleError::Model)?;
            cost.passes += 1;
            cost.positions += unread.len().max(1) as u64;
            self.guessed += guesses.len() as u64;
            for index in 0..=guesses.len() {
                let (choice, model, sampler) = self.choose(first_row + index, &state, &tokens, rng)?;
                log_prob += model;
                log_proposal += sampler;
                let Some(token) = choice else { break 'output Finish::Stop };
                self.proposer.observe(&self.task.constraint, &mut self.scratch, &state, token);
                let advanced = self.task.constraint.advance(&mut self.scratch, &mut state, token);
                advanced.expect("a token of the mask is allowed");
                tokens.push(token);
                if guesses.get(index) == Some(&token) {
                    self.accepted += 1;
                    continue;
                }
                // What was guessed from here on is forgotten.
                self.task.model.truncate(&mut sequence, before + index);
                unread = vec![token];
                break;
            }
        };
        Ok(Draw {
            tokens,
            log_prob,
            log_weight: log_prob - log_proposal,
            finish,
            origin: Origin::Proposed,
            cost,
        })
    }
}

impl<M: LanguageModel, C: Constraint, P> fmt::Debug for Guessed<M, C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guessed")
            .field("guessed", &self.guessed)
            .field("accepted", &self.accepted)
            .finish_non_exhaustive()
    }
}
