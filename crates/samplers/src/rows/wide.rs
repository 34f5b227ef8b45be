//! A long row that stays as the model wrote it, with the sum of each block of it.
//!
//! Tokens are drawn by blocks: first one of the blocks by its sum, then a token of it, for which that block alone is read
//! again. Where some tokens are left out, the sums of their blocks are made anew, and kept for the next time, when it is mostly
//! the same tokens and one more: a prefix that many outputs share has hundreds of them. Nothing is subtracted, so that a mass keeps its
//! digits however small it is; and where it is too small for sums of `f32`, the row is taken apart token by token.

use std::sync::{Arc, Mutex, PoisonError};

use rand_core::Rng;
use unskew_core::{Logits, TokenId, TokenMask};

use super::{
    Drawn, Listed,
    pass::{self, BLOCK, Sums, add_others, find, groups_of_block, sums_in},
};
use crate::random::uniform;

/// A part of the greatest weight: a sum below it, of weights of which those below e^-87 are zero, has not all its digits.
const FAINT: f64 = 1e-20;

/// Where the logits are.
#[derive(Clone, Debug)]
enum Stored {
    /// Among the rows of the pass that wrote them, which is not used again before this row is dropped.
    Pass(Arc<Logits>, usize),
    Own(Box<[f32]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Wide {
    logits: Stored,
    /// Which tokens may be proposed. Rows of which this is known beforehand share it. None when it was released.
    mask: Option<Arc<TokenMask>>,
    sums: Sums,
    normalizer: f64,
    rest: Rest,
}

/// What the last question left out, and the sums without it. A matter of time alone: they are the same when made anew.
#[derive(Default, Debug)]
struct Rest(Mutex<Parts>);

impl Clone for Rest {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The sums of blocks, and of groups of them, without some tokens.
#[derive(Default, Debug)]
struct Parts {
    /// Ascending.
    without: Vec<TokenId>,
    each: Vec<f32>,
    groups: Vec<f64>,
}

impl Wide {
    /// A place for a row: what it allocates is used for one after the other.
    pub(super) fn unread() -> Self {
        Self {
            logits: Stored::Own(Box::default()),
            mask: None,
            sums: Sums::default(),
            normalizer: f64::NAN,
            rest: Rest::default(),
        }
    }

    /// Reads a row of a pass under a mask, and answers with its normalizer.
    pub(crate) fn read(&mut self, logits: &[f32], mask: Option<&[u32]>) -> f64 {
        sums_in(&mut self.sums, logits, mask);
        self.normalizer = self.sums.normalizer();
        self.normalizer
    }

    /// Whether the sums of what was read are great enough to be used.
    pub(crate) fn is_usable(&self) -> bool {
        self.sums.total.is_finite() && self.sums.kept > FAINT
    }

    /// Takes hold of what was read.
    pub(crate) fn hold(&mut self, logits: &Arc<Logits>, index: usize, mask: &Arc<TokenMask>) {
        self.logits = Stored::Pass(Arc::clone(logits), index);
        self.mask = Some(Arc::clone(mask));
        self.rest = Rest::default();
    }

    pub(super) fn release(&mut self) -> Option<Arc<TokenMask>> {
        self.logits = Stored::Own(Box::default());
        self.mask.take()
    }

    /// The words of the mask.
    fn words(&self) -> &[u32] {
        self.mask.as_ref().map_or(&[], |mask| mask.words())
    }

    /// With a copy of the logits, so that the pass need not be kept.
    pub(crate) fn detach(&mut self) {
        self.logits = Stored::Own(self.logits().into());
    }

    fn logits(&self) -> &[f32] {
        match &self.logits {
            Stored::Pass(logits, index) => logits.row(*index),
            Stored::Own(logits) => logits,
        }
    }

    fn log_prob(&self, token: TokenId) -> f64 {
        f64::from(self.logits()[token.index()]) - self.normalizer
    }

    fn has(&self, index: usize) -> bool {
        self.mask.as_ref().is_some_and(|mask| index < mask.len() && mask.contains(TokenId::from_index(index)))
    }

    /// What turns the logarithm of a weight into that of a probability.
    fn scale(&self) -> f64 {
        f64::from(self.sums.reference) - self.normalizer
    }

    pub(super) fn of(&self, token: TokenId) -> f64 {
        if token.index() < self.logits().len() && self.has(token.index()) {
            self.log_prob(token)
        } else {
            f64::NEG_INFINITY
        }
    }

    pub(super) fn best(&self) -> Option<(TokenId, f64)> {
        let greatest = pass::greatest(&self.sums.greatest);
        if greatest == f32::NEG_INFINITY {
            return None;
        }
        #[allow(clippy::float_cmp, reason = "the same number is looked for")]
        let first = self.sums.greatest.iter().position(|other| *other == greatest)? * BLOCK;
        let end = self.logits().len().min(first + BLOCK);
        #[allow(clippy::float_cmp, reason = "the same number is looked for")]
        let index = (first..end).find(|index| self.logits()[*index] == greatest && self.has(*index))?;
        let token = TokenId::from_index(index);
        Some((token, self.log_prob(token)))
    }

    pub(super) fn sum(&self) -> f64 {
        self.sums.kept.ln() + self.scale()
    }

    /// Writes the weights of a block without the tokens `without`.
    fn weigh(&self, block: usize, without: impl Iterator<Item = TokenId>, weights: &mut [f32; BLOCK]) {
        let logits = self.logits();
        let first = block * BLOCK;
        let words = self.words().get(first / 32..).unwrap_or_default();
        let logits = &logits[first..logits.len().min(first + BLOCK)];
        pass::weigh_under(logits, self.sums.reference, words, weights);
        for token in without {
            if let Some(weight) = token.index().checked_sub(first).and_then(|at| weights.get_mut(at)) {
                *weight = 0.0;
            }
        }
    }

    /// What `read` makes of the sums of blocks, and of groups of them, without some tokens, which are ascending; and of these
    /// tokens, as far as they lie in a block.
    fn parts<R>(
        &self,
        without: impl Iterator<Item = TokenId> + Clone,
        read: impl FnOnce(&[f32], &[f64], &[TokenId]) -> R,
    ) -> R {
        let Sums { parts, groups, .. } = &self.sums;
        if without.clone().next().is_none() {
            return read(parts, groups, &[]);
        }
        let mut rest = self.rest.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = &mut *rest;
        if rest.each.is_empty() {
            rest.each.clone_from(parts);
            rest.groups.clone_from(groups);
        }
        // What is left out for the first time, and what is no more.
        let mut before = rest.without.iter().copied().peekable();
        let mut now = without.clone().peekable();
        let mut changed = Vec::new();
        while let Some(token) = before.peek().into_iter().chain(now.peek()).min().copied() {
            let was_left_out = before.next_if_eq(&token).is_some();
            let is_left_out = now.next_if_eq(&token).is_some();
            let block = token.index() / BLOCK;
            if was_left_out != is_left_out && changed.last() != Some(&block) && block < parts.len() {
                changed.push(block);
            }
        }
        if !changed.is_empty() {
            rest.without.clear();
            rest.without.extend(without);
        }
        let mut weights = [0.0; BLOCK];
        for block in changed {
            let from = rest.without.partition_point(|token| token.index() / BLOCK < block);
            let here =
                rest.without[from..].iter().copied().take_while(|token| token.index() / BLOCK == block);
            self.weigh(block, here, &mut weights);
            rest.each[block] = pass::add_lanes(&weights);
            pass::regroup(&rest.each, &mut rest.groups, block);
        }
        read(&rest.each, &rest.groups, &rest.without)
    }

    pub(super) fn log_mass(&self, without: impl Iterator<Item = TokenId> + Clone) -> f64 {
        let sum: f64 = self.parts(without.clone(), |_, groups, _| groups.iter().sum());
        if sum > FAINT { sum.ln() + self.scale() } else { self.listed().log_mass(without) }
    }

    pub(super) fn draw(
        &self,
        without: impl Iterator<Item = TokenId> + Clone,
        rest_above: f64,
        rng: &mut dyn Rng,
    ) -> Option<Drawn> {
        let drawn = self.parts(without.clone(), |each, groups, without| {
            self.draw_of(each, groups, without, rest_above, rng)
        });
        drawn.unwrap_or_else(|| self.listed().draw(without, rest_above, rng))
    }

    pub(super) fn draw_any(&self, rest_above: f64, rng: &mut dyn Rng) -> Option<Drawn> {
        let Sums { parts, groups, .. } = &self.sums;
        let drawn = self.draw_of(parts, groups, &[], rest_above, rng);
        drawn.unwrap_or_else(|| self.listed().draw_any(rest_above, rng))
    }

    /// By the sums of blocks. None where these are too small.
    fn draw_of(
        &self,
        each: &[f32],
        groups: &[f64],
        without: &[TokenId],
        rest_above: f64,
        rng: &mut dyn Rng,
    ) -> Option<Option<Drawn>> {
        let sum: f64 = groups.iter().sum();
        (sum > FAINT).then(|| self.draw_among(each, groups, sum, without, rest_above, rng))
    }

    fn draw_among(
        &self,
        each: &[f32],
        groups: &[f64],
        sum: f64,
        without: &[TokenId],
        rest_above: f64,
        rng: &mut dyn Rng,
    ) -> Option<Drawn> {
        // Rounding may leave a rest beyond the last part, and beyond the last weight of one.
        let (block, left) = find(each, groups, uniform(rng) * sum)
            .or_else(|| Some((each.iter().rposition(|part| *part > 0.0)?, f64::INFINITY)))?;
        let first = block * BLOCK;
        let here = &without[without.partition_point(|token| token.index() < first)..];
        let mut weights = [0.0; BLOCK];
        let here = here.iter().copied().take_while(|token| token.index() < first + BLOCK);
        self.weigh(block, here, &mut weights);
        let lane = find(&weights, &groups_of_block(&weights), left)
            .map(|(lane, _)| lane)
            .or_else(|| weights.iter().rposition(|weight| *weight > 0.0))?;
        let token = TokenId::from_index(first + lane);
        let log_p = self.log_prob(token);
        let rest = (log_p > rest_above).then(|| {
            // As it will be summed when this token is left out.
            weights[lane] = 0.0;
            let others = add_others(each, groups, block) + f64::from(pass::add_lanes(&weights));
            others.ln() + self.scale()
        });
        Some(Drawn { token, log_p, rest })
    }

    /// Token by token.
    pub(super) fn listed(&self) -> Listed {
        let logits = self.logits();
        let (tokens, logits): (Vec<TokenId>, Vec<f32>) = self
            .mask
            .iter()
            .flat_map(|mask| mask.ids())
            .take_while(|id| id.index() < logits.len())
            .map(|id| (id, logits[id.index()]))
            .filter(|(_, logit)| *logit > f32::NEG_INFINITY)
            .unzip();
        Listed::new(&tokens, &logits, self.normalizer)
    }

    /// With the sums that questions leave, but for the tokens that these left out: four bytes for a visited prefix each.
    pub(super) fn bytes(&self) -> usize {
        let Sums { parts, groups, .. } = &self.sums;
        self.logits().len() * 4 + self.words().len() * 4 + parts.len() * 12 + groups.len() * 16
    }
}
