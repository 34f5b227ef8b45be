//! A row as a list of the tokens that may be proposed: the form of short rows, and of long ones under a mask that leaves few
//! tokens.

use rand_core::Rng;
use unskew_core::{TokenId, logprob::log_sum_exp};

use super::{Drawn, digits};
use crate::random::{uniform, weighted};

/// The tokens, with the model's logits: 16 bytes for each.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Listed {
    /// Ascending; none has probability zero.
    tokens: Box<[TokenId]>,
    logits: Box<[f32]>,
    /// The probabilities, as parts of the greatest of them: exponentials are most of the time that a row takes.
    weights: Box<[f64]>,
    /// The logarithm of the greatest probability.
    scale: f64,
    /// The logarithm of all probabilities together.
    sum: f64,
    /// What turns a logit into a log-probability.
    normalizer: f64,
}

impl Listed {
    pub(crate) fn new(tokens: &[TokenId], logits: &[f32], normalizer: f64) -> Self {
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = digits::weights(logits, greatest);
        let scale = f64::from(greatest) - normalizer;
        let sum = weights.iter().sum::<f64>().ln() + scale;
        Self { tokens: tokens.into(), logits: logits.into(), weights, scale, sum, normalizer }
    }

    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    pub(crate) fn log_prob(&self, index: usize) -> f64 {
        f64::from(self.logits[index]) - self.normalizer
    }

    pub(super) fn of(&self, token: TokenId) -> f64 {
        self.tokens.binary_search(&token).map_or(f64::NEG_INFINITY, |index| self.log_prob(index))
    }

    pub(super) fn best(&self) -> Option<(TokenId, f64)> {
        let best = (0..self.tokens.len())
            .reduce(|best, index| if self.log_prob(best) >= self.log_prob(index) { best } else { index })?;
        Some((self.tokens[best], self.log_prob(best)))
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    /// The indices of the tokens that are not among `without`, which is ascending.
    fn fresh<'a>(
        &'a self,
        without: impl Iterator<Item = TokenId> + Clone + 'a,
    ) -> impl Iterator<Item = usize> + Clone + 'a {
        let mut without = without.peekable();
        (0..self.tokens.len()).filter(move |index| {
            let token = self.tokens[*index];
            while without.next_if(|other| *other < token).is_some() {}
            without.next_if(|other| *other == token).is_none()
        })
    }

    pub(super) fn log_mass(&self, without: impl Iterator<Item = TokenId> + Clone) -> f64 {
        let fresh = self.fresh(without);
        let sum: f64 = fresh.clone().map(|index| self.weights[index]).sum();
        if sum > f64::MIN_POSITIVE {
            return sum.ln() + self.scale;
        }
        // Nothing is left, or so little that its parts of the greatest have no digits.
        log_sum_exp(fresh.map(|index| self.log_prob(index)))
    }

    /// With the mass of the others, if the log-probability is above `rest_above`.
    fn drawn(&self, index: usize, rest_above: f64, rest: impl FnOnce() -> f64) -> Drawn {
        let log_p = self.log_prob(index);
        Drawn { token: self.tokens[index], log_p, rest: (log_p > rest_above).then(rest) }
    }

    pub(super) fn draw(
        &self,
        without: impl Iterator<Item = TokenId> + Clone,
        rest_above: f64,
        rng: &mut dyn Rng,
    ) -> Option<Drawn> {
        if without.clone().next().is_none() {
            return self.draw_any(rest_above, rng);
        }
        let fresh = self.fresh(without);
        let sum: f64 = fresh.clone().map(|index| self.weights[index]).sum();
        if sum <= f64::MIN_POSITIVE {
            return self.draw_improbable(fresh, rest_above, rng);
        }
        let mut left = uniform(rng) * sum;
        let mut drawn = None;
        // Added up without the one that is drawn, since a difference may have no digits left.
        let mut others = 0.0;
        for index in fresh.clone() {
            let weight = self.weights[index];
            if drawn.is_none() && weight > 0.0 && left < weight {
                drawn = Some(index);
            } else {
                left -= weight;
                others += weight;
            }
        }
        let Some(index) = drawn else {
            // Rounding has left a rest beyond the last weight.
            let last = fresh.filter(|index| self.weights[*index] > 0.0).last()?;
            let rest = || (others - self.weights[last]).max(0.0).ln() + self.scale;
            return Some(self.drawn(last, rest_above, rest));
        };
        Some(self.drawn(index, rest_above, || others.ln() + self.scale))
    }

    /// The same where all tokens are candidates, as at each new prefix: two plain sums.
    pub(super) fn draw_any(&self, rest_above: f64, rng: &mut dyn Rng) -> Option<Drawn> {
        let total = (self.sum - self.scale).exp();
        let target = uniform(rng) * total;
        let mut sum = 0.0;
        let found = self.weights.iter().position(|weight| {
            sum += weight;
            target < sum
        });
        // Rounding may leave a rest beyond the last weight.
        let drawn = found.or_else(|| self.weights.iter().rposition(|weight| *weight > 0.0))?;
        let rest = || {
            let (before, behind) = (&self.weights[..drawn], &self.weights[drawn + 1..]);
            (before.iter().sum::<f64>() + behind.iter().sum::<f64>()).ln() + self.scale
        };
        Some(self.drawn(drawn, rest_above, rest))
    }

    /// The same where all candidates are next to nothing beside the greatest, which is none of them.
    fn draw_improbable(
        &self,
        candidates: impl Iterator<Item = usize>,
        rest_above: f64,
        rng: &mut dyn Rng,
    ) -> Option<Drawn> {
        let candidates: Vec<usize> = candidates.collect();
        let greatest = candidates.iter().map(|index| self.logits[*index]).fold(f32::NEG_INFINITY, f32::max);
        let mut weights: Vec<f64> =
            candidates.iter().map(|index| f64::from(self.logits[*index] - greatest).exp()).collect();
        let drawn = weighted(&weights, rng)?;
        weights[drawn] = 0.0;
        let rest = || weights.iter().sum::<f64>().ln() + f64::from(greatest) - self.normalizer;
        Some(self.drawn(candidates[drawn], rest_above, rest))
    }

    /// The entropy in nats of what follows under the mask: these tokens, and the end with log-probability `stop`.
    pub(super) fn entropy(&self, stop: f64) -> f64 {
        let all = || std::iter::once(stop).chain((0..self.tokens.len()).map(|index| self.log_prob(index)));
        let mass = log_sum_exp(all().collect::<Vec<_>>());
        all()
            .filter(|log_prob| *log_prob > f64::NEG_INFINITY)
            .map(|log_prob| -(log_prob - mass) * (log_prob - mass).exp())
            .sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.tokens.len() * 16
    }
}
