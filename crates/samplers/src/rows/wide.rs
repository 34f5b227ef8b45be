//! A long row that stays as the model wrote it, with the sum of each block of it.
//!
//! Tokens are drawn by blocks: first one of the blocks by its sum, then a token of it, for which that block alone is read
//! again. Where some tokens are left out, the sums of their blocks are made anew. Nothing is subtracted, so that a mass keeps its
//! digits however small it is; and where it is too small for sums of `f32`, the row is taken apart token by token.

use std::{borrow::Cow, sync::Arc};

use rand_core::Rng;
use unskew_core::{Logits, MaskRef, TokenId};

use super::{
    Drawn, Listed,
    pass::{self, BLOCK, Sums, add_others, add_up, find, groups_of},
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
    /// Which tokens may be proposed. Rows of which this is known beforehand share it.
    mask: Arc<[u32]>,
    sums: Sums,
    normalizer: f64,
}

/// The sums of blocks, and of groups of them.
struct Parts<'a> {
    each: Cow<'a, [f32]>,
    groups: Cow<'a, [f64]>,
}

impl Parts<'_> {
    fn sum(&self) -> f64 {
        self.groups.iter().sum()
    }
}

impl Wide {
    /// A row of a pass under a mask, of which these are the sums. None where these are too small to be used.
    pub(crate) fn new(
        logits: &Arc<Logits>,
        index: usize,
        mask: impl Into<Arc<[u32]>>,
        sums: Sums,
    ) -> Option<Self> {
        let normalizer = sums.normalizer();
        (sums.kept > FAINT).then(|| Self {
            logits: Stored::Pass(Arc::clone(logits), index),
            mask: mask.into(),
            sums,
            normalizer,
        })
    }

    /// With a copy of the logits, so that the pass need not be kept.
    pub(crate) fn detached(mut self) -> Self {
        self.logits = Stored::Own(self.logits().into());
        self
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
        self.mask.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 != 0)
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
        let greatest = self.sums.greatest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
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

    /// The weights of a block without the tokens `without`.
    fn weights(&self, block: usize, without: impl Iterator<Item = TokenId>) -> [f32; BLOCK] {
        let logits = self.logits();
        let first = block * BLOCK;
        let words = self.mask.get(first / 32..).unwrap_or_default();
        let mut weights =
            pass::weights(&logits[first..logits.len().min(first + BLOCK)], self.sums.reference, words);
        for token in without {
            if let Some(weight) = token.index().checked_sub(first).and_then(|at| weights.get_mut(at)) {
                *weight = 0.0;
            }
        }
        weights
    }

    /// The sums of all blocks without some tokens, which are ascending.
    fn parts(&self, without: impl Iterator<Item = TokenId> + Clone) -> Parts<'_> {
        let Sums { parts, groups, .. } = &self.sums;
        let mut parts = Parts { each: Cow::Borrowed(parts), groups: Cow::Borrowed(groups) };
        let mut at = without.clone();
        let mut last = None;
        while let Some(token) = at.next() {
            let block = token.index() / BLOCK;
            if last.replace(block) == Some(block) || block >= parts.each.len() {
                continue;
            }
            let here = std::iter::once(token).chain(at.clone());
            let here = here.take_while(|token| token.index() / BLOCK == block);
            parts.each.to_mut()[block] = pass::add_lanes(&self.weights(block, here));
            pass::regroup(&parts.each, parts.groups.to_mut(), block);
        }
        parts
    }

    pub(super) fn log_mass(&self, without: impl Iterator<Item = TokenId> + Clone) -> f64 {
        let sum = self.parts(without.clone()).sum();
        if sum > FAINT { sum.ln() + self.scale() } else { self.listed().log_mass(without) }
    }

    pub(super) fn draw(
        &self,
        without: impl Iterator<Item = TokenId> + Clone,
        rng: &mut dyn Rng,
    ) -> Option<Drawn> {
        let parts = self.parts(without.clone());
        let sum = parts.sum();
        if sum <= FAINT {
            return self.listed().draw(without, rng);
        }
        // Rounding may leave a rest beyond the last part, and beyond the last weight of one.
        let Parts { each, groups } = &parts;
        let (block, left) = find(each, groups.iter().copied(), uniform(rng) * sum)
            .or_else(|| Some((each.iter().rposition(|part| *part > 0.0)?, f64::INFINITY)))?;
        let first = block * BLOCK;
        let here = without.skip_while(|token| token.index() < first);
        let weights = self.weights(block, here.take_while(|token| token.index() < first + BLOCK));
        let lane = find(&weights, groups_of(&weights), left)
            .map(|(lane, _)| lane)
            .or_else(|| weights.iter().rposition(|weight| *weight > 0.0))?;
        let others =
            add_others(each, groups, block) + add_up(&weights[..lane]) + add_up(&weights[lane + 1..]);
        let token = TokenId::from_index(first + lane);
        Some(Drawn { token, log_p: self.log_prob(token), rest: others.ln() + self.scale() })
    }

    /// Token by token.
    pub(super) fn listed(&self) -> Listed {
        let logits = self.logits();
        let ids = MaskRef::new(&self.mask, self.mask.len() * 32).into_ids();
        let (tokens, logits): (Vec<TokenId>, Vec<f32>) = ids
            .take_while(|id| id.index() < logits.len())
            .map(|id| (id, logits[id.index()]))
            .filter(|(_, logit)| *logit > f32::NEG_INFINITY)
            .unzip();
        Listed::new(&tokens, &logits, self.normalizer)
    }

    pub(super) fn bytes(&self) -> usize {
        self.logits().len() * 4 + self.mask.len() * 4 + self.sums.parts.len() * 8 + self.sums.groups.len() * 8
    }
}
