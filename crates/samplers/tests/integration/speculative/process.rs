//! The distribution of speculative decoding, by following every path of its process: the oracle of the tests beside.

use std::collections::BTreeMap;

use unskew_core::{Constraint, TableModel, TokenId, TokenMask};
use unskew_samplers::speculative::{Budget, KullbackLeibler, Pair, optimum};

use crate::{speculative::MAX_TOKENS, support::Outputs};

/// The outcomes after `tokens`, the end first, under a model and a mask; `None` where the model gives all of them
/// probability zero.
fn masked(model: &TableModel, constraint: &Outputs, tokens: &[TokenId]) -> Option<(Vec<TokenId>, Vec<f64>)> {
    let state = tokens.to_vec();
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(&mut (), &state, mask.as_mut());
    let ids: Vec<TokenId> = mask.ids().collect();
    let context = [&[TokenId(0)], tokens].concat();
    let row = model.row(&context);
    let stop = if constraint.is_accepting(&state) { row[row.len() - 1] } else { 0.0 };
    let weights: Vec<f64> = std::iter::once(stop).chain(ids.iter().map(|id| row[id.index()])).collect();
    let sum: f64 = weights.iter().sum();
    (sum > 0.0).then(|| (ids, weights.iter().map(|weight| weight / sum).collect()))
}

pub(crate) type Distribution = BTreeMap<(Vec<TokenId>, bool), f64>;

/// The distribution of outputs, by following every path of the process: a draft of `length` positions, each accepted
/// or replaced.
pub(crate) struct Process<'a> {
    target: &'a TableModel,
    draft: &'a TableModel,
    constraint: &'a Outputs,
    length: usize,
    budget: Budget,
    pub(crate) distribution: Distribution,
    pub(crate) most_spent: f64,
}

impl Process<'_> {
    fn pass(&mut self, tokens: &[TokenId], spent: f64, probability: f64) {
        // A forced token is appended before a draft begins.
        if let Some((ids, _)) = masked(self.target, self.constraint, tokens)
            && let [token] = ids[..]
            && !self.constraint.is_accepting(&tokens.to_vec())
        {
            if let Some(tokens) = self.emit(tokens, Some(token), probability) {
                self.pass(&tokens, spent, probability);
            }
            return;
        }
        let left = MAX_TOKENS.checked_sub(tokens.len() + 1).map(|room| room.min(self.length));
        self.position(tokens, left.unwrap_or(0), spent, probability);
    }

    fn emit(
        &mut self,
        tokens: &[TokenId],
        choice: Option<TokenId>,
        probability: f64,
    ) -> Option<Vec<TokenId>> {
        let mut tokens = tokens.to_vec();
        let is_cut = choice.is_some() && tokens.len() + 1 == MAX_TOKENS;
        tokens.extend(choice);
        if choice.is_none() || is_cut {
            *self.distribution.entry((tokens, is_cut)).or_default() += probability;
            return None;
        }
        Some(tokens)
    }

    fn position(&mut self, tokens: &[TokenId], left: usize, spent: f64, probability: f64) {
        self.most_spent = self.most_spent.max(spent);
        if probability == 0.0 {
            return;
        }
        let Some((ids, target)) = masked(self.target, self.constraint, tokens) else { return };
        let choice = |index: usize| index.checked_sub(1).map(|index| ids[index]);
        let is_forced = ids.len() == 1 && !self.constraint.is_accepting(&tokens.to_vec());
        let draft = masked(self.draft, self.constraint, tokens).map(|(_, draft)| draft);
        let draft = if is_forced { Some(target.clone()) } else { draft };
        let Some(draft) = draft.filter(|_| left > 0) else {
            for (index, q) in target.iter().enumerate() {
                if let Some(tokens) = self.emit(tokens, choice(index), probability * q) {
                    self.pass(&tokens, spent, probability * q);
                }
            }
            return;
        };
        let allowed = match self.budget {
            Budget::Lossless => 0.0,
            Budget::Token(budget) => budget,
            Budget::Sequence { total, share } => (total - spent) * share,
        };
        let optimum = optimum(&Pair::new(&draft, &target).unwrap(), &KullbackLeibler, allowed).unwrap();
        let spent = spent + optimum.divergence();
        for (index, (p, q)) in draft.iter().zip(&target).enumerate() {
            let accepted = probability * if *p > 0.0 { p * optimum.accepts(*p, *q) } else { 0.0 };
            if let Some(tokens) = self.emit(tokens, choice(index), accepted) {
                self.position(&tokens, left - 1, spent, accepted);
            }
            let replaced = probability * optimum.residual(*p, *q);
            if let Some(tokens) = self.emit(tokens, choice(index), replaced) {
                self.pass(&tokens, spent, replaced);
            }
        }
    }
}

pub(crate) fn process<'a>(
    target: &'a TableModel,
    draft: &'a TableModel,
    constraint: &'a Outputs,
    length: usize,
    budget: Budget,
) -> Process<'a> {
    let (distribution, most_spent) = (Distribution::new(), 0.0);
    let mut process = Process { target, draft, constraint, length, budget, distribution, most_spent };
    process.pass(&[], 0.0, 1.0);
    process
}
