//! Drafts: tokens that are expected to follow a rollout, so that one pass yields the rows of all of them.
//!
//! Drafting and verifying belong together: a draft is accepted by the ratio of two probabilities, and one of them is
//! the probability with which the draft was drawn. So a [`Drafter`] does not hand over tokens; it is handed
//! [`Drafts`]. They draw for the drafter, under the same mask as the target's, and keep the distributions that they
//! drew from. All rollouts that wait at one time are drafted for together, so that a draft model evaluates them in
//! one batch too.

use std::{fmt, sync::Arc};

use rand_chacha::ChaCha8Rng;
use unskew_core::{Constraint, Cost, TokenId, TokenMask};

use super::outcomes::Outcomes;
use crate::random::weighted;

/// The error of a drafter.
pub type DraftError = Box<dyn std::error::Error + Send + Sync>;

/// Drafts tokens for rollouts.
pub trait Drafter<C: Constraint> {
    /// The length of the drafter's rows, if it has rows. They must be over the target's tokens.
    fn vocab_len(&self) -> Option<usize> {
        None
    }

    /// Drafts the continuation of each of `drafts`, while there is [room](Drafts::left). A drafter may draft less, or
    /// nothing.
    ///
    /// # Errors
    ///
    /// When the drafter cannot be evaluated.
    fn draft(&mut self, drafts: &mut Drafts<'_, C>) -> Result<(), DraftError>;

    /// Records that `token` followed `state` in a rollout.
    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId) {
        let _ = (constraint, scratch, state, token);
    }

    /// The cost of drafts since the last call.
    fn take_cost(&mut self) -> Cost {
        Cost::default()
    }
}

/// The way in which a token was drafted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Drawn {
    /// The token is the only allowed one.
    Forced,
    /// The drafter named the token with certainty.
    Surely,
    /// The token was drawn in proportion to the exponentials of `logs`, which sum to one: that of the end, and those
    /// of the allowed tokens `ids`.
    From { ids: Vec<TokenId>, logs: Vec<f64> },
}

/// A drafted position.
#[derive(Clone, Debug)]
pub(crate) struct DraftStep<S> {
    /// A token, or the end.
    pub(crate) choice: Option<TokenId>,
    pub(crate) drawn: Drawn,
    /// The constraint's state after the choice.
    pub(crate) state: S,
}

/// The draft of one rollout.
pub(crate) struct DraftRun<'a, S> {
    /// The tokens of the output and of the draft.
    pub(crate) tokens: Vec<TokenId>,
    /// The state after these tokens.
    pub(crate) state: S,
    pub(crate) steps: Vec<DraftStep<S>>,
    /// The number of positions that may still be drafted.
    pub(crate) left: usize,
    pub(crate) rng: &'a mut ChaCha8Rng,
}

/// Drafts under construction, one for each rollout that waits. Tokens that the constraint forces are appended without
/// the drafter: they cost nothing, and are always right.
pub struct Drafts<'a, C: Constraint> {
    pub(crate) constraint: &'a C,
    pub(crate) scratch: &'a mut C::Scratch,
    pub(crate) end: &'a [TokenId],
    pub(crate) mask: TokenMask,
    pub(crate) prompt: &'a Arc<[TokenId]>,
    pub(crate) runs: Vec<DraftRun<'a, C::State>>,
}

impl<C: Constraint> Drafts<'_, C> {
    /// The number of drafts.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing is to be drafted.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The prompt of the outputs.
    pub fn prompt(&self) -> &Arc<[TokenId]> {
        self.prompt
    }

    /// The tokens of an output and of its draft so far.
    pub fn tokens(&self, index: usize) -> &[TokenId] {
        &self.runs[index].tokens
    }

    /// The number of positions of an output that may still be drafted.
    pub fn left(&self, index: usize) -> usize {
        self.runs[index].left
    }

    /// The constraint, its scratch, and the state after the draft so far.
    pub fn state(&mut self, index: usize) -> (&C, &mut C::Scratch, &C::State) {
        (self.constraint, self.scratch, &self.runs[index].state)
    }

    /// Drafts `token` with certainty. False if it cannot be drafted: there is no room, or the token is not allowed.
    pub fn guess(&mut self, index: usize, token: TokenId) -> bool {
        let run = &mut self.runs[index];
        if run.left == 0 || self.constraint.advance(self.scratch, &mut run.state, token).is_err() {
            return false;
        }
        self.push(index, Some(token), Drawn::Surely);
        true
    }

    /// Draws a token, or the end, from a row of logits under the constraint. False if nothing can be drawn: there is
    /// no room, or the row gives probability zero to all allowed outcomes, or the row is no distribution.
    pub fn draw(&mut self, index: usize, logits: &[f32]) -> bool {
        let run = &mut self.runs[index];
        if run.left == 0 {
            return false;
        }
        self.constraint.fill_mask(self.scratch, &run.state, self.mask.as_mut());
        let ids: Vec<TokenId> = self.mask.ids().collect();
        let end = if self.constraint.is_accepting(&run.state) { self.end } else { &[] };
        let Some(row) = Outcomes::read(logits, &ids, end).filter(Outcomes::has_mass) else { return false };
        let Some(drawn) = weighted(&row.masked(), run.rng) else { return false };
        let choice = drawn.checked_sub(1).map(|drawn| ids[drawn]);
        if let Some(token) = choice
            && self.constraint.advance(self.scratch, &mut run.state, token).is_err()
        {
            // The rollout meets the same rejection, and says so.
            return false;
        }
        self.push(index, choice, Drawn::From { ids, logs: row.masked_logs() });
        true
    }

    fn push(&mut self, index: usize, choice: Option<TokenId>, drawn: Drawn) {
        let run = &mut self.runs[index];
        run.steps.push(DraftStep { choice, drawn, state: run.state.clone() });
        run.left -= 1;
        match choice {
            Some(token) => {
                run.tokens.push(token);
                self.force(index);
            }
            // No token comes after the end.
            None => run.left = 0,
        }
    }

    /// Appends the tokens that are forced.
    pub(crate) fn force(&mut self, index: usize) {
        let run = &mut self.runs[index];
        while run.left > 0
            && let Some(token) = self.constraint.forced(self.scratch, &run.state)
            && self.constraint.advance(self.scratch, &mut run.state, token).is_ok()
        {
            let state = run.state.clone();
            run.steps.push(DraftStep { choice: Some(token), drawn: Drawn::Forced, state });
            run.tokens.push(token);
            run.left -= 1;
        }
    }
}

impl<C: Constraint> fmt::Debug for Drafts<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drafts").field("len", &self.len()).finish_non_exhaustive()
    }
}
