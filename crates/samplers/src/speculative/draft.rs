//! Who drafts: another model, or anyone who guesses.
//!
//! Drafting and verifying belong together, since a draft is accepted by the ratio of two probabilities, and one of them is that
//! with which it was drawn. So a draft does not hand over tokens; it is handed a [`Run`], which draws for it, under the same
//! mask as the target's, and keeps what it drew from.

use std::fmt;

use rand_core::Rng;
use unskew_core::{Constraint, Cost, Extension, LanguageModel, Logits, Proposer, Rows, TokenId, TokenMask};

use super::row::Row;
use crate::random::weighted;

/// Drafts tokens for a target model whose errors are `E`.
pub trait Draft<C: Constraint, E> {
    /// The length of its rows, if it has rows: they must be over the target's tokens.
    fn vocab_len(&self) -> Option<usize>;

    /// A new output begins after `prompt`.
    fn begin(&mut self, prompt: &[TokenId]);

    /// Drafts what follows [`Run::text`], for as long as there is room in `run`; or less, or nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be evaluated.
    fn draft(&mut self, run: &mut Run<'_, C>, rng: &mut dyn Rng) -> Result<(), E>;

    /// Takes note that `token` came behind `state`.
    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId);

    /// What was spent on drafts since the last call.
    fn take_cost(&mut self) -> Cost;
}

/// Drafted tokens as they come to be. Tokens that the constraint forces are appended by themselves: they cost the draft nothing,
/// and are always right.
pub struct Run<'a, C: Constraint> {
    pub(crate) constraint: &'a C,
    pub(crate) scratch: &'a mut C::Scratch,
    pub(crate) end: &'a [TokenId],
    pub(crate) mask: &'a mut TokenMask,
    /// The prompt, the output and what was drafted behind it.
    pub(crate) text: &'a mut Vec<TokenId>,
    /// Behind all of `text`.
    pub(crate) state: C::State,
    pub(crate) steps: &'a mut Vec<Step>,
    /// How many more positions may be drafted.
    pub(crate) left: usize,
}

/// A drafted position.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The tokens that are allowed there, ascending.
    pub(crate) ids: Vec<TokenId>,
    /// What was drafted: one of them, or the end.
    pub(crate) choice: Option<TokenId>,
    pub(crate) drawn: Drawn,
}

/// How a draft was drawn.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Drawn {
    /// It is the only thing that is allowed.
    Forced,
    /// It was certain to be drafted.
    Surely,
    /// In proportion to the exponentials of these logarithms, which sum to one: of the end, and of each allowed token.
    From(Vec<f64>),
}

impl<C: Constraint> Run<'_, C> {
    /// The prompt, the output so far, and what was drafted behind it.
    pub fn text(&self) -> &[TokenId] {
        self.text
    }

    /// How many more positions may be drafted.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Drafts `token`, without chance. False if it cannot be drafted: there is no room, or it is not allowed.
    pub fn guess(&mut self, token: TokenId) -> bool {
        if self.left == 0 {
            return false;
        }
        let ids = self.allowed();
        if self.constraint.advance(self.scratch, &mut self.state, token).is_err() {
            return false;
        }
        self.push(Step { ids, choice: Some(token), drawn: Drawn::Surely });
        true
    }

    /// Draws a token, or the end, from a row of logits, as far as it is allowed. False if nothing can be drawn: there is no room, or the row
    /// gives no probability to what is allowed, or is no distribution.
    pub fn draw(&mut self, logits: &[f32], rng: &mut dyn Rng) -> bool {
        if self.left == 0 {
            return false;
        }
        let ids = self.allowed();
        let end = if self.constraint.is_accepting(&self.state) { self.end } else { &[] };
        let Some(row) = Row::read(logits, &ids, end).filter(Row::has_mass) else { return false };
        let Some(index) = weighted(&row.masked(), rng) else { return false };
        let choice = index.checked_sub(1).map(|index| ids[index]);
        if let Some(token) = choice {
            let advanced = self.constraint.advance(self.scratch, &mut self.state, token);
            advanced.expect("a token of the mask is allowed");
        }
        self.push(Step { ids, choice, drawn: Drawn::From(row.masked_logs()) });
        true
    }

    fn push(&mut self, step: Step) {
        let choice = step.choice;
        self.steps.push(step);
        self.left -= 1;
        match choice {
            Some(token) => {
                self.text.push(token);
                self.force();
            }
            // Nothing comes after the end.
            None => self.left = 0,
        }
    }

    /// Appends what is forced.
    pub(crate) fn force(&mut self) {
        while self.left > 0
            && let Some(token) = self.constraint.forced(self.scratch, &self.state)
        {
            let advanced = self.constraint.advance(self.scratch, &mut self.state, token);
            advanced.expect("a forced token is allowed");
            self.steps.push(Step { ids: vec![token], choice: Some(token), drawn: Drawn::Forced });
            self.text.push(token);
            self.left -= 1;
        }
    }

    fn allowed(&mut self) -> Vec<TokenId> {
        self.constraint.fill_mask(self.scratch, &self.state, self.mask.as_mut());
        self.mask.ids().collect()
    }
}

impl<C: Constraint> fmt::Debug for Run<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("text", &self.text).field("left", &self.left).finish_non_exhaustive()
    }
}

/// Drafts by another model over the same tokens.
#[derive(Debug)]
pub struct ModelDraft<M: LanguageModel> {
    model: M,
    sequence: M::Sequence,
    /// The tokens in `sequence`.
    held: Vec<TokenId>,
    logits: Logits,
    cost: Cost,
}

impl<M: LanguageModel> ModelDraft<M> {
    /// Drafts by `model`.
    pub fn new(mut model: M) -> Self {
        let sequence = model.start();
        Self { model, sequence, held: Vec::new(), logits: Logits::new(), cost: Cost::default() }
    }

    /// Evaluates the row behind `text`: what it shares with the last one is not evaluated again.
    fn read(&mut self, text: &[TokenId]) -> Result<(), M::Error> {
        let shared = self.held.iter().zip(text).take_while(|(left, right)| left == right).count();
        // The row comes with the last token.
        let keep = shared.min(text.len().saturating_sub(1));
        self.model.truncate(&mut self.sequence, keep);
        self.held.truncate(keep);
        let tokens = &text[keep..];
        let extension = Extension { sequence: &mut self.sequence, tokens, rows: Rows::Last };
        self.model.extend(&mut [extension], &mut self.logits)?;
        self.held.extend_from_slice(tokens);
        self.cost.positions += tokens.len().max(1) as u64;
        self.cost.passes += 1;
        Ok(())
    }
}

impl<M: LanguageModel, C: Constraint, E: From<M::Error>> Draft<C, E> for ModelDraft<M> {
    fn vocab_len(&self) -> Option<usize> {
        Some(self.model.vocab_len())
    }

    fn begin(&mut self, _: &[TokenId]) {}

    fn draft(&mut self, run: &mut Run<'_, C>, rng: &mut dyn Rng) -> Result<(), E> {
        let room = self.model.context_len().unwrap_or(usize::MAX);
        while run.left() > 0 && run.text().len() <= room {
            self.read(run.text())?;
            if !run.draw(self.logits.row(0), rng) {
                break;
            }
        }
        Ok(())
    }

    fn observe(&mut self, _: &C, _: &mut C::Scratch, _: &C::State, _: TokenId) {}

    fn take_cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }
}

/// Drafts by a [`Proposer`]: each is certain to be proposed, and so is accepted with the target's own probability.
#[derive(Clone, Debug)]
pub struct ProposerDraft<P> {
    proposer: P,
}

impl<P> ProposerDraft<P> {
    /// Drafts by `proposer`.
    pub fn new(proposer: P) -> Self {
        Self { proposer }
    }

    /// Whoever proposes.
    pub fn proposer_mut(&mut self) -> &mut P {
        &mut self.proposer
    }
}

impl<C: Constraint, P: Proposer<C>, E> Draft<C, E> for ProposerDraft<P> {
    fn vocab_len(&self) -> Option<usize> {
        None
    }

    fn begin(&mut self, prompt: &[TokenId]) {
        self.proposer.begin(prompt);
    }

    fn draft(&mut self, run: &mut Run<'_, C>, _: &mut dyn Rng) -> Result<(), E> {
        // What is forced stands before what it is asked for.
        let mut tokens: Vec<TokenId> = run.steps.iter().filter_map(|step| step.choice).collect();
        let (forced, begin) = (tokens.len(), run.text.len());
        self.proposer.propose(run.constraint, run.scratch, &run.state, run.left, &mut tokens);
        for (index, token) in tokens.drain(forced..).enumerate() {
            // What is forced is appended already, and what was expected after something else is of no use.
            match run.text.get(begin + index).copied() {
                Some(forced) if forced == token => {}
                None if run.guess(token) => {}
                _ => break,
            }
        }
        Ok(())
    }

    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId) {
        self.proposer.observe(constraint, scratch, state, token);
    }

    fn take_cost(&mut self) -> Cost {
        Cost::default()
    }
}
