//! A row in host memory, with the sum of each of its blocks.
//!
//! A token is drawn by blocks: first one of the blocks by its sum, then a token of that block, for which the block
//! alone is read again. A token that is left out is subtracted from the sum of its block while the difference keeps
//! enough digits; otherwise the block is added up anew without the token. So a mass keeps its digits however small it
//! is. Where all remaining weights are negligible next to the greatest weight of the row, the remaining tokens are
//! listed and weighed against the greatest of them.
//!
//! Where a mask leaves few tokens of a long row, the logits of these tokens are kept with their ids. Otherwise a row
//! stays where the model wrote it, under its mask. Only a row that stays in the cache is copied, since the copy takes
//! as long as the pass.

use std::sync::Arc;

use unskew_core::{Logits, TokenId, TokenMask, logprob::log_sum_exp};

use super::{
    Drawn,
    pass::{self, BLOCK, LANES, LONG, Sums, add_up},
};

/// Weights are relative to about the greatest weight of the row. In a long row, a weight below e^-87 is zero; in a
/// short one, a weight below e^-708. A sum below this limit (the first for short rows, the second for long ones) has
/// lost digits.
const FAINT: [f64; 2] = [1e-290, 1e-20];

/// A difference that is less than this part of a sum is summed anew. The first limit is that of short rows, the
/// second that of long rows, whose sums are right to 1e-6.
const CANCELLED: [f64; 2] = [1e-6, 0.5];

/// The place of the logits.
#[derive(Clone, Debug)]
enum Stored {
    /// Among the rows of the pass that wrote them. The buffer of the pass is not used again before this row is dropped.
    Pass(Arc<Logits>, usize),
    Own(Box<[f32]>),
}

/// The token that a logit belongs to, and whether it may be proposed.
#[derive(Clone, Debug)]
enum Ids {
    /// The token whose id is the index of the logit, if the mask leaves it.
    Mask(Arc<TokenMask>),
    /// The token at that index of this list, which is ascending.
    List(Box<[TokenId]>),
}

/// The tokens that may be proposed, with the model's logits.
#[derive(Clone, Debug)]
pub(crate) struct DenseRow {
    logits: Stored,
    ids: Ids,
    sums: Sums,
    /// The logarithm of the sum of the exponentials of all logits: a logit minus this is a log-probability.
    normalizer: f64,
}

impl DenseRow {
    /// Row `index` of a pass under a mask, in one pass over the row. If the row is no distribution, its
    /// [`normalizer`](Self::normalizer) is not finite.
    pub(crate) fn under(logits: &Arc<Logits>, index: usize, mask: Arc<TokenMask>) -> Self {
        let sums = pass::sums(logits.row(index), Some(mask.words()));
        let normalizer = sums.normalizer();
        Self { logits: Stored::Pass(Arc::clone(logits), index), ids: Ids::Mask(mask), sums, normalizer }
    }

    /// The `tokens` of a row, which are ascending, in one pass over the row and one over the tokens.
    pub(crate) fn listed(row: &[f32], tokens: Box<[TokenId]>) -> Self {
        let of = |id: &TokenId| row.get(id.index()).copied().unwrap_or(f32::NEG_INFINITY);
        let logits: Box<[f32]> = tokens.iter().map(of).collect();
        Self::of(tokens, logits, pass::log_normalizer(row))
    }

    /// A row of these tokens with these logits.
    pub(super) fn of(tokens: Box<[TokenId]>, logits: Box<[f32]>, normalizer: f64) -> Self {
        let all = vec![u32::MAX; logits.len().div_ceil(32)];
        let sums = pass::sums(&logits, Some(&all));
        Self { logits: Stored::Own(logits), ids: Ids::List(tokens), sums, normalizer }
    }

    pub(crate) fn normalizer(&self) -> f64 {
        self.normalizer
    }

    /// Copies the logits, so that the buffer of the pass is free.
    pub(crate) fn detach(&mut self) {
        if let Stored::Pass(logits, index) = &self.logits {
            self.logits = Stored::Own(logits.row(*index).into());
        }
    }

    fn logits(&self) -> &[f32] {
        match &self.logits {
            Stored::Pass(logits, index) => logits.row(*index),
            Stored::Own(logits) => logits,
        }
    }

    fn token(&self, index: usize) -> TokenId {
        match &self.ids {
            Ids::Mask(_) => TokenId::from_index(index),
            Ids::List(ids) => ids[index],
        }
    }

    /// The index of a token's logit, if it may be proposed.
    fn index(&self, token: TokenId) -> Option<usize> {
        match &self.ids {
            Ids::Mask(mask) => {
                let index = token.index();
                (index < mask.len().min(self.logits().len()) && mask.contains(token)).then_some(index)
            }
            Ids::List(ids) => ids.binary_search(&token).ok(),
        }
    }

    fn log_of(&self, index: usize) -> f64 {
        f64::from(self.logits()[index]) - self.normalizer
    }

    /// The logarithm of a weight plus this is a log-probability.
    fn scale(&self) -> f64 {
        f64::from(self.sums.reference) - self.normalizer
    }

    fn is_faint(&self, sum: f64) -> bool {
        sum.is_nan() || sum <= FAINT[self.is_long()]
    }

    /// 1 if the weights are those of a long row, 0 otherwise.
    fn is_long(&self) -> usize {
        usize::from(self.logits().len() >= LONG)
    }

    /// The log-probability of a token; minus infinity for a token that may not be proposed.
    pub(crate) fn of_token(&self, token: TokenId) -> f64 {
        self.index(token).map_or(f64::NEG_INFINITY, |index| self.log_of(index))
    }

    /// The tokens that may be proposed and have a positive probability, ascending, with their log-probabilities.
    pub(crate) fn list(&self) -> Vec<(TokenId, f64)> {
        let of = |id: TokenId| (id, self.of_token(id));
        let possible = |(_, log_p): &(TokenId, f64)| *log_p > f64::NEG_INFINITY;
        match &self.ids {
            Ids::Mask(mask) => mask.ids().map(of).filter(possible).collect(),
            Ids::List(ids) => ids.iter().copied().map(of).filter(possible).collect(),
        }
    }

    /// The most probable token and its log-probability. Of equally probable tokens, the first.
    pub(crate) fn best(&self) -> Option<(TokenId, f64)> {
        let best = self.sums.greatest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if best == f32::NEG_INFINITY {
            return None;
        }
        #[allow(clippy::float_cmp, reason = "the same number is looked for")]
        let index = {
            let first = self.sums.greatest.iter().position(|other| *other == best)? * BLOCK;
            let end = self.logits().len().min(first + BLOCK);
            (first..end)
                .find(|index| self.logits()[*index] == best && self.index(self.token(*index)).is_some())?
        };
        Some((self.token(index), self.log_of(index)))
    }

    /// Up to `most` of the most probable tokens, by token, with their log-probabilities. A token whose probability,
    /// relative to the most probable one, is below e to `least_ratio` is left out. Reads the blocks alone that may
    /// have such a token: at least `most` tokens are as probable as the last of the `most` blocks with the most
    /// probable tokens.
    pub(crate) fn most_probable(&self, most: usize, least_ratio: f64) -> Vec<(TokenId, f64)> {
        let best = self.sums.greatest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if best == f32::NEG_INFINITY || most == 0 {
            return Vec::new();
        }
        #[allow(clippy::cast_possible_truncation, reason = "a threshold")]
        let mut least = best + least_ratio as f32;
        if self.sums.greatest.len() > most {
            let mut greatest = self.sums.greatest.clone();
            let (_, of_block, _) =
                greatest.select_nth_unstable_by(most - 1, |left, right| right.total_cmp(left));
            least = least.max(*of_block);
        }
        let logits = self.logits();
        let order =
            |left: &(f32, usize), right: &(f32, usize)| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1));
        let mut found: Vec<(f32, usize)> = Vec::new();
        for (block, greatest) in self.sums.greatest.iter().enumerate() {
            if *greatest < least {
                continue;
            }
            let first = block * BLOCK;
            let some = &logits[first..logits.len().min(first + BLOCK)];
            let above = some.iter().enumerate().filter(|(_, logit)| **logit >= least);
            let above = above.map(|(lane, logit)| (*logit, first + lane));
            found.extend(above.filter(|(_, index)| self.index(self.token(*index)).is_some()));
            // Of many tokens about as probable, none but the first are kept from block to block.
            if found.len() > most + BLOCK {
                let (_, last, _) = found.select_nth_unstable_by(most - 1, order);
                least = last.0;
                found.truncate(most);
            }
        }
        if found.len() > most {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by_key(|(_, index)| *index);
        found.into_iter().map(|(_, index)| (self.token(index), self.log_of(index))).collect()
    }

    /// The logarithm of the mass of all tokens.
    pub(crate) fn sum(&self) -> f64 {
        self.log_mass(&[])
    }

    /// Writes the weights of a block, without the tokens that are left out, and answers with the number of weights.
    fn weigh(&self, block: usize, without: &[usize], weights: &mut [f64; BLOCK]) -> usize {
        let logits = self.logits();
        let first = block * BLOCK;
        let logits_of = &logits[first..logits.len().min(first + BLOCK)];
        let words = match &self.ids {
            Ids::Mask(mask) => Some(mask.words().get(first / 32..).unwrap_or_default()),
            Ids::List(_) => None,
        };
        pass::weigh_under(logits.len(), logits_of, self.sums.reference, words, weights);
        for index in without {
            if let Some(weight) = index.checked_sub(first).and_then(|at| weights.get_mut(at)) {
                *weight = 0.0;
            }
        }
        logits_of.len()
    }

    /// The indices of the given tokens that may be proposed.
    fn indices(&self, tokens: &[TokenId]) -> Vec<usize> {
        tokens.iter().filter_map(|token| self.index(*token)).collect()
    }

    /// The sums of the blocks without some indices, which are ascending.
    fn parts(&self, without: &[usize]) -> Vec<f64> {
        let mut parts = self.sums.parts.clone();
        let mut weights = [0.0; BLOCK];
        for some in without.chunk_by(|left, right| left / BLOCK == right / BLOCK) {
            let part = &mut parts[some[0] / BLOCK];
            let weight =
                |index: &usize| (f64::from(self.logits()[*index]) - f64::from(self.sums.reference)).exp();
            let left = *part - some.iter().map(weight).sum::<f64>();
            *part = if left > CANCELLED[self.is_long()] * *part {
                left
            } else {
                let len = self.weigh(some[0] / BLOCK, some, &mut weights);
                weights[..len].iter().sum()
            };
        }
        parts
    }

    /// The logarithm of the mass of all tokens except `without`, which are ascending.
    pub(crate) fn log_mass(&self, without: &[TokenId]) -> f64 {
        let sum: f64 = match without {
            [] => self.sums.kept(),
            _ => add_up(&self.parts(&self.indices(without))),
        };
        if self.is_faint(sum) {
            let rest = self.list().into_iter().filter(|(token, _)| without.binary_search(token).is_err());
            return log_sum_exp(rest.map(|(_, log_p)| log_p).collect::<Vec<_>>());
        }
        sum.ln() + self.scale()
    }

    /// Draws one of the tokens except `without`, which are ascending, by a number in `[0, 1)`; with the mass of the
    /// other tokens. `None` if there is none to draw.
    pub(crate) fn draw(&self, without: &[TokenId], uniform: f64) -> Option<Drawn> {
        let own;
        let (left_out, parts) = match without {
            [] => (Vec::new(), &self.sums.parts),
            _ => {
                let left_out = self.indices(without);
                own = self.parts(&left_out);
                (left_out, &own)
            }
        };
        let total = add_up(parts);
        if self.is_faint(total) {
            return self.draw_listed(without, uniform);
        }
        let mut weights = [0.0; BLOCK];
        let (block, left) = find(parts, uniform * total)?;
        let first = block * BLOCK;
        let len = self.weigh(block, &left_out, &mut weights);
        let (lane, _) = find(&weights[..len], left)?;
        // The mass is added up without the drawn token, since a difference may have no digits left.
        weights[lane] = 0.0;
        let (before, after) = (&parts[..block], &parts[block + 1..]);
        let others = add_up(before) + add_up(after) + add_up(&weights[..len]);
        let index = first + lane;
        Some(Drawn {
            token: self.token(index),
            log_p: self.log_of(index),
            rest: Some(others.ln() + self.scale()),
        })
    }

    /// The same draw where all remaining tokens are negligible next to the greatest one, which is left out.
    fn draw_listed(&self, without: &[TokenId], uniform: f64) -> Option<Drawn> {
        let mut tokens = self.list();
        tokens.retain(|(token, _)| without.binary_search(token).is_err());
        let greatest = tokens.iter().map(|(_, log_p)| *log_p).fold(f64::NEG_INFINITY, f64::max);
        let mut weights: Vec<f64> = tokens.iter().map(|(_, log_p)| (log_p - greatest).exp()).collect();
        let (index, _) = find(&weights, uniform * weights.iter().sum::<f64>())?;
        weights[index] = 0.0;
        let (token, log_p) = tokens[index];
        Some(Drawn { token, log_p, rest: Some(weights.iter().sum::<f64>().ln() + greatest) })
    }

    /// The memory of the row in bytes, with its logits and its mask.
    pub(crate) fn bytes(&self) -> usize {
        let ids = match &self.ids {
            Ids::Mask(mask) => mask.words().len() * 4,
            Ids::List(ids) => ids.len() * 4,
        };
        self.logits().len() * 4 + ids + self.sums.parts.len() * 12
    }
}

/// The index of the first weight at which the running sum passes `target`, with the part of `target` that is left at
/// that weight. Where rounding leaves a rest beyond the last weight, the answer is the last positive one.
fn find(weights: &[f64], target: f64) -> Option<(usize, f64)> {
    let mut left = target;
    for (chunk, some) in weights.chunks(LANES).enumerate() {
        let sum = add_up(some);
        if left < sum {
            for (index, weight) in some.iter().enumerate() {
                if left < *weight {
                    return Some((chunk * LANES + index, left));
                }
                left -= weight;
            }
            // Rounding: the next chunk begins.
            left = left.max(0.0);
        } else {
            left -= sum;
        }
    }
    let last = weights.iter().rposition(|weight| *weight > 0.0)?;
    Some((last, f64::INFINITY))
}
