//! A row in host memory, with the sum of each block of it.
//!
//! Tokens are drawn by blocks: first one of the blocks by its sum, then a token of it, for which that block alone is read
//! again. A token that is left out is subtracted from the sum of its block while digits remain, and the block is added up
//! without it where they do not: so a mass keeps its digits however small it is. Where all weights that remain are next to nothing
//! beside the greatest of the row, tokens are listed and weighed against the greatest of them.
//!
//! Where a mask leaves few tokens of a long row, their logits are kept with their ids. Otherwise a row stays where the model
//! wrote it, under its mask; only a row that stays in the cache gets a copy, since the copy takes as long as the pass.

use std::sync::Arc;

use unskew_core::{Logits, TokenId, TokenMask, logprob::log_sum_exp};

use super::{
    Drawn,
    pass::{self, BLOCK, LANES, LONG, Sums, add_up},
};

/// Weights are parts of about the greatest of the row. Below e^-87 they are zero in a long row, and below e^-708 in a short one;
/// a sum less than this many of the former, or than the least of the latter, has not all its digits.
const FAINT: [f64; 2] = [1e-290, 1e-20];

/// A difference that is less than this part of a sum is summed anew: in short rows, and in long ones, whose sums are right to 1e-6.
const CANCELLED: [f64; 2] = [1e-6, 0.5];

/// Where the logits lie.
#[derive(Clone, Debug)]
enum Stored {
    /// Among the rows of the pass that wrote them, whose buffer is not used again before this row is dropped.
    Pass(Arc<Logits>, usize),
    Own(Box<[f32]>),
}

/// Which token a logit belongs to, and whether it may be proposed.
#[derive(Clone, Debug)]
enum Ids {
    /// The token of its index, if the mask leaves it.
    Mask(Arc<TokenMask>),
    /// The token of this list, which is ascending.
    List(Box<[TokenId]>),
}

/// The tokens that may be proposed, with the model's logits.
#[derive(Clone, Debug)]
pub(crate) struct DenseRow {
    logits: Stored,
    ids: Ids,
    sums: Sums,
    /// A logit less this is the logarithm of a probability.
    normalizer: f64,
}

impl DenseRow {
    /// Row `index` of a pass under a mask, in one pass over it. A row that is no distribution has no finite
    /// [`normalizer`](Self::normalizer).
    pub(crate) fn under(logits: &Arc<Logits>, index: usize, mask: Arc<TokenMask>) -> Self {
        let sums = pass::sums(logits.row(index), Some(mask.words()));
        let normalizer = sums.normalizer();
        Self { logits: Stored::Pass(Arc::clone(logits), index), ids: Ids::Mask(mask), sums, normalizer }
    }

    /// The `tokens` of a row, ascending, in one pass over the row and one over them.
    pub(crate) fn listed(row: &[f32], tokens: Box<[TokenId]>) -> Self {
        let of = |id: &TokenId| row.get(id.index()).copied().unwrap_or(f32::NEG_INFINITY);
        let logits: Box<[f32]> = tokens.iter().map(of).collect();
        Self::of(tokens, logits, pass::log_normalizer(row))
    }

    /// These tokens with these logits.
    pub(super) fn of(tokens: Box<[TokenId]>, logits: Box<[f32]>, normalizer: f64) -> Self {
        let all = vec![u32::MAX; logits.len().div_ceil(32)];
        let sums = pass::sums(&logits, Some(&all));
        Self { logits: Stored::Own(logits), ids: Ids::List(tokens), sums, normalizer }
    }

    pub(crate) fn normalizer(&self) -> f64 {
        self.normalizer
    }

    /// Copies the logits, so that the pass need not be kept.
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

    /// The logarithm of a weight plus this is that of a probability.
    fn scale(&self) -> f64 {
        f64::from(self.sums.reference) - self.normalizer
    }

    fn is_faint(&self, sum: f64) -> bool {
        sum.is_nan() || sum <= FAINT[self.is_long()]
    }

    /// 1 if the weights are those of a long row, 0 if not.
    fn is_long(&self) -> usize {
        usize::from(self.logits().len() >= LONG)
    }

    /// The log-probability of a token; minus infinity where it may not be proposed.
    pub(crate) fn of_token(&self, token: TokenId) -> f64 {
        self.index(token).map_or(f64::NEG_INFINITY, |index| self.log_of(index))
    }

    /// The tokens that may be proposed and have a positive probability, ascending, with its logarithm.
    pub(crate) fn list(&self) -> Vec<(TokenId, f64)> {
        let of = |id: TokenId| (id, self.of_token(id));
        let possible = |(_, log_p): &(TokenId, f64)| *log_p > f64::NEG_INFINITY;
        match &self.ids {
            Ids::Mask(mask) => mask.ids().map(of).filter(possible).collect(),
            Ids::List(ids) => ids.iter().copied().map(of).filter(possible).collect(),
        }
    }

    /// The most probable token, of equal ones the first, and its log-probability.
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

    /// The logarithm of the mass of all tokens.
    pub(crate) fn sum(&self) -> f64 {
        self.log_mass(&[])
    }

    /// Writes the weights of a block, without the tokens that are left out, and answers with their number.
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

    /// The indices of those of some tokens that may be proposed.
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

    /// The logarithm of the mass of all tokens but `without`, which are ascending.
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

    /// One of the tokens but `without`, which are ascending, by a number in `[0, 1)`, with the mass of the others. `None` if there
    /// are none.
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
        // Added up without the one that is drawn, since a difference may have no digits left.
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

    /// The same where all tokens that remain are next to nothing beside the greatest, which is none of them.
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

    /// The memory that it holds, in bytes, with its logits and its mask.
    pub(crate) fn bytes(&self) -> usize {
        let ids = match &self.ids {
            Ids::Mask(mask) => mask.words().len() * 4,
            Ids::List(ids) => ids.len() * 4,
        };
        self.logits().len() * 4 + ids + self.sums.parts.len() * 12
    }
}

/// The first of some weights at which their sum passes `target`, with the part of it that is left there. Rounding may leave a rest
/// beyond the last weight, which then is the last positive one.
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
