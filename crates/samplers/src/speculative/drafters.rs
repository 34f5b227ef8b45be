//! The drafters: another model, and any [`Proposer`].

use std::sync::Arc;

use unskew_core::{Constraint, Cost, LanguageModel, Logits, Proposer, TokenId};

use super::drafts::{DraftError, Drafter, Drafts};
use crate::{FedRow, Request, SequencePool};

/// Drafts by another model over the same tokens.
#[derive(Debug)]
pub struct ModelDraft<M: LanguageModel> {
    pool: SequencePool<M>,
    cost: Cost,
}

/// The number of sequences that one pass of a draft model extends.
const BATCH: usize = 16;

impl<M: LanguageModel> ModelDraft<M> {
    /// Drafts by `model`.
    pub fn new(model: M) -> Self {
        Self { pool: SequencePool::new(model, BATCH), cost: Cost::default() }
    }
}

impl<M: LanguageModel, C: Constraint> Drafter<C> for ModelDraft<M> {
    fn vocab_len(&self) -> Option<usize> {
        Some(self.pool.model().vocab_len())
    }

    fn draft(&mut self, drafts: &mut Drafts<'_, C>) -> Result<(), DraftError> {
        let room = self.pool.model().context_len().unwrap_or(usize::MAX);
        let Some(room) = room.checked_sub(drafts.prompt().len()) else { return Ok(()) };
        let mut open: Vec<usize> = (0..drafts.len()).collect();
        loop {
            open.retain(|index| drafts.left(*index) > 0 && drafts.tokens(*index).len() <= room);
            if open.is_empty() {
                return Ok(());
            }
            // Rollouts at the same prefix share a row, and draw from it one by one.
            let mut requests: Vec<Request> = Vec::with_capacity(open.len());
            let mut readers: Vec<Vec<usize>> = Vec::with_capacity(open.len());
            for index in &open {
                let tokens = drafts.tokens(*index);
                match requests.iter().position(|request| request.tokens == tokens) {
                    Some(same) => readers[same].push(*index),
                    None => {
                        let prompt = Arc::clone(drafts.prompt());
                        requests.push(Request {
                            prompt,
                            tokens: tokens.to_vec(),
                            first: tokens.len(),
                            drafted: 0,
                        });
                        readers.push(vec![*index]);
                    }
                }
            }
            let mut costs = vec![Cost::default(); requests.len()];
            let mut stopped: Vec<usize> = Vec::new();
            let mut failure = None;
            let read = |logits: &Arc<Logits>, rows: &[FedRow]| {
                for FedRow { request, row, .. } in rows {
                    let row = match logits.to_host(*row) {
                        Ok(row) => row,
                        Err(error) => {
                            failure = Some(error);
                            return;
                        }
                    };
                    stopped.extend(readers[*request].iter().filter(|index| !drafts.draw(**index, &row)));
                }
            };
            self.pool.evaluate(&requests, &mut costs, read)?;
            if let Some(error) = failure {
                return Err(error.into());
            }
            costs.into_iter().for_each(|cost| self.cost += cost);
            open.retain(|index| !stopped.contains(index));
        }
    }

    fn take_cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }
}

/// Drafts by a [`Proposer`]. The proposer names a token with certainty, so the target accepts the token with its own
/// probability.
#[derive(Clone, Debug)]
pub struct ProposerDraft<P> {
    proposer: P,
}

impl<P> ProposerDraft<P> {
    /// Drafts by `proposer`.
    pub fn new(proposer: P) -> Self {
        Self { proposer }
    }
}

impl<C: Constraint, P: Proposer<C>> Drafter<C> for ProposerDraft<P> {
    fn draft(&mut self, drafts: &mut Drafts<'_, C>) -> Result<(), DraftError> {
        let mut tokens = Vec::new();
        let mut text = drafts.prompt().to_vec();
        let prompt = text.len();
        for index in 0..drafts.len() {
            text.truncate(prompt);
            text.extend_from_slice(drafts.tokens(index));
            tokens.clear();
            let left = drafts.left(index);
            let (constraint, scratch, state) = drafts.state(index);
            self.proposer.propose(constraint, scratch, &text, state, left, &mut tokens);
            for (offset, token) in tokens.iter().enumerate() {
                // Forced tokens are appended already. A token that was proposed to follow another one is of no use.
                match drafts.tokens(index).get(text.len() - prompt + offset).copied() {
                    Some(forced) if forced == *token => {}
                    None if drafts.guess(index, *token) => {}
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn observe(&mut self, constraint: &C, scratch: &mut C::Scratch, state: &C::State, token: TokenId) {
        self.proposer.observe(constraint, scratch, state, token);
    }
}
