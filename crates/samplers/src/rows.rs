//! Rows of the model, as far as a sampler may propose from them, in a cache that is bounded in bytes.
//!
//! A row is what a sampler needs to choose a token that it has not visited; everything else about a prefix is in the trie,
//! in a few numbers. So rows may be dropped at any time: one that is wanted again is computed again, which costs a model
//! call and changes nothing.

use std::{collections::HashMap, sync::Arc};

use rand_core::Rng;
use unskew_core::{TokenId, logprob::log_sum_exp};

use crate::{
    random::{uniform, weighted},
    trie::{Edge, NodeId},
};

/// The tokens that may follow a prefix, with the model's logits: 16 bytes for each.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
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
    /// The log-probability that the sequence ends, allowed or not.
    end: f64,
}

impl Row {
    pub(crate) fn new(tokens: &[TokenId], logits: &[f32], normalizer: f64, end: f64) -> Self {
        let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Box<[f64]> = logits.iter().map(|logit| f64::from(logit - greatest).exp()).collect();
        let scale = f64::from(greatest) - normalizer;
        let sum = weights.iter().sum::<f64>().ln() + scale;
        Self { tokens: tokens.into(), logits: logits.into(), weights, scale, sum, normalizer, end }
    }

    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    pub(crate) fn log_prob(&self, index: usize) -> f64 {
        f64::from(self.logits[index]) - self.normalizer
    }

    pub(crate) fn end(&self) -> f64 {
        self.end
    }

    /// The log-probability of a token; minus infinity where it is not in the row.
    pub(crate) fn of(&self, token: TokenId) -> f64 {
        self.tokens.binary_search(&token).map_or(f64::NEG_INFINITY, |index| self.log_prob(index))
    }

    /// The indices of the tokens whose edge does not count.
    fn fresh<'a>(&'a self, edges: &'a [Edge]) -> impl Iterator<Item = usize> + Clone + 'a {
        let mut edges = edges.iter().filter(|edge| edge.counts()).peekable();
        (0..self.tokens.len()).filter(move |index| {
            let token = self.tokens[*index];
            while edges.next_if(|edge| edge.token < token).is_some() {}
            edges.next_if(|edge| edge.token == token).is_none()
        })
    }

    /// The logarithm of the mass of all tokens.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// The logarithm of the mass of the tokens whose edge does not count.
    pub(crate) fn log_mass(&self, edges: &[Edge]) -> f64 {
        let sum: f64 = self.fresh(edges).map(|index| self.weights[index]).sum();
        if sum > f64::MIN_POSITIVE {
            return sum.ln() + self.scale;
        }
        // Nothing is left, or so little that its parts of the greatest have no digits.
        log_sum_exp(self.fresh(edges).map(|index| self.log_prob(index)))
    }

    /// One of these tokens, by probability: its index, and the logarithm of the mass of the others. `None` if there are none.
    pub(crate) fn draw(&self, edges: &[Edge], rng: &mut dyn Rng) -> Option<(usize, f64)> {
        if edges.is_empty() {
            return self.draw_any(rng);
        }
        let sum: f64 = self.fresh(edges).map(|index| self.weights[index]).sum();
        if sum <= f64::MIN_POSITIVE {
            return self.draw_improbable(edges, rng);
        }
        let mut left = uniform(rng) * sum;
        let mut drawn = None;
        // Added up without the one that is drawn, since a difference may have no digits left.
        let mut others = 0.0;
        for index in self.fresh(edges) {
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
            let last = self.fresh(edges).filter(|index| self.weights[*index] > 0.0).last()?;
            return Some((last, (others - self.weights[last]).max(0.0).ln() + self.scale));
        };
        Some((index, others.ln() + self.scale))
    }

    /// The same where all tokens are candidates, as at each new prefix: two plain sums.
    fn draw_any(&self, rng: &mut dyn Rng) -> Option<(usize, f64)> {
        let total = (self.sum - self.scale).exp();
        let target = uniform(rng) * total;
        let mut sum = 0.0;
        let found = self.weights.iter().position(|weight| {
            sum += weight;
            target < sum
        });
        // Rounding may leave a rest beyond the last weight.
        let drawn = found.or_else(|| self.weights.iter().rposition(|weight| *weight > 0.0))?;
        let others =
            self.weights[..drawn].iter().sum::<f64>() + self.weights[drawn + 1..].iter().sum::<f64>();
        Some((drawn, others.ln() + self.scale))
    }

    /// The same where all candidates are next to nothing beside the greatest, which is none of them.
    fn draw_improbable(&self, edges: &[Edge], rng: &mut dyn Rng) -> Option<(usize, f64)> {
        let candidates: Vec<usize> = self.fresh(edges).collect();
        let greatest = candidates.iter().map(|index| self.logits[*index]).fold(f32::NEG_INFINITY, f32::max);
        let mut weights: Vec<f64> =
            candidates.iter().map(|index| f64::from(self.logits[*index] - greatest).exp()).collect();
        let drawn = weighted(&weights, rng)?;
        weights[drawn] = 0.0;
        let others = weights.iter().sum::<f64>().ln() + f64::from(greatest) - self.normalizer;
        Some((candidates[drawn], others))
    }

    /// The entropy in nats of what follows under the mask: these tokens, and the end with log-probability `stop`.
    pub(crate) fn entropy(&self, stop: f64) -> f64 {
        let all = || std::iter::once(stop).chain((0..self.tokens.len()).map(|index| self.log_prob(index)));
        let mass = log_sum_exp(all().collect::<Vec<_>>());
        all()
            .filter(|log_prob| *log_prob > f64::NEG_INFINITY)
            .map(|log_prob| -(log_prob - mass) * (log_prob - mass).exp())
            .sum()
    }

    fn bytes(&self) -> usize {
        // With the entry of the cache.
        self.tokens.len() * 16 + size_of::<Self>() + 48
    }
}

/// Rows by prefix, the recently used ones.
#[derive(Debug)]
pub(crate) struct RowCache {
    rows: HashMap<NodeId, (Arc<Row>, u64)>,
    bytes: usize,
    max_bytes: usize,
    clock: u64,
}

impl RowCache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { rows: HashMap::new(), bytes: 0, max_bytes, clock: 0 }
    }

    pub(crate) fn get(&mut self, node: NodeId) -> Option<Arc<Row>> {
        self.clock += 1;
        let (row, used) = self.rows.get_mut(&node)?;
        *used = self.clock;
        Some(Arc::clone(row))
    }

    pub(crate) fn insert(&mut self, node: NodeId, row: Arc<Row>) {
        self.clock += 1;
        self.bytes += row.bytes();
        if let Some((old, _)) = self.rows.insert(node, (row, self.clock)) {
            self.bytes -= old.bytes();
        }
        if self.bytes > self.max_bytes {
            self.drop_old();
        }
    }

    /// Drops the rows that were not used for longest, down to half of the limit.
    fn drop_old(&mut self) {
        let mut uses: Vec<_> = self.rows.iter().map(|(node, (_, used))| (*used, *node)).collect();
        uses.sort_unstable();
        for (_, node) in uses {
            if self.bytes <= self.max_bytes / 2 {
                break;
            }
            if let Some((row, _)) = self.rows.remove(&node) {
                self.bytes -= row.bytes();
            }
        }
    }

    /// Takes new ids for the old ones; what has none is dropped.
    pub(crate) fn rename(&mut self, new: impl Fn(NodeId) -> Option<NodeId>) {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        for (node, entry) in rows {
            if let Some(node) = new(node) {
                self.bytes += entry.0.bytes();
                self.rows.insert(node, entry);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;
    use crate::trie::Trie;

    fn row() -> Row {
        let logits = [0.5f64, 0.2, 0.2, 0.1].map(|p| {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let logit = p.ln() as f32;
            logit
        });
        Row::new(&[1, 3, 4, 9].map(TokenId), &logits, 0.0, f64::NEG_INFINITY)
    }

    fn edges(tokens: &[(u32, f64)]) -> Vec<Edge> {
        tokens
            .iter()
            .map(|(token, weight)| Edge { token: TokenId(*token), node: Trie::ROOT, weight: *weight })
            .collect()
    }

    #[test]
    fn what_counts_among_the_edges_is_not_fresh() {
        let row = row();
        // 3 does not count, 7 is not in the row.
        let edges = edges(&[(1, -1.0), (3, f64::NAN), (7, -1.0), (9, f64::NEG_INFINITY)]);
        assert!((row.log_mass(&edges).exp() - 0.4).abs() < 1e-6);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            let (index, others) = row.draw(&edges, &mut rng).unwrap();
            assert!((others.exp() - 0.2).abs() < 1e-6);
            counts[index] += 1;
        }
        assert!(counts[0] == 0 && counts[3] == 0 && (1800..2200).contains(&counts[1]), "{counts:?}");
        assert!((row.entropy(f64::NEG_INFINITY) - 1.2206).abs() < 1e-3);
    }

    #[test]
    fn what_is_next_to_nothing_is_drawn_where_nothing_else_is_left() {
        let tokens = [0, 1, 2].map(TokenId);
        let row = Row::new(&tokens, &[0.0, -2000.0, -2001.0], 0.0, f64::NEG_INFINITY);
        let edges = edges(&[(0, -1.0)]);
        assert!((row.log_mass(&edges) + 2000.0 - (1.0 + (-1f64).exp()).ln()).abs() < 1e-9);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0; 3];
        for _ in 0..4000 {
            let (index, others) = row.draw(&edges, &mut rng).unwrap();
            assert!((others - if index == 1 { -2001.0 } else { -2000.0 }).abs() < 1e-9);
            counts[index] += 1;
        }
        assert!(counts[0] == 0 && (2800..3050).contains(&counts[1]), "{counts:?}");
        let all = self::edges(&[(0, -1.0), (1, -1.0), (2, -1.0)]);
        assert_eq!((row.draw(&all, &mut rng), row.log_mass(&all)), (None, f64::NEG_INFINITY));
        assert_eq!(Row::new(&[], &[], 0.0, 0.0).sum(), f64::NEG_INFINITY);
    }

    #[test]
    fn the_least_recently_used_rows_go_first() {
        let bytes = row().bytes();
        let mut trie = Trie::new();
        let nodes: Vec<_> = (0..5).map(|token| trie.child(Trie::ROOT, TokenId(token))).collect();
        let mut cache = RowCache::new(4 * bytes);
        for node in &nodes[..4] {
            cache.insert(*node, Arc::new(row()));
        }
        assert!(cache.get(nodes[0]).is_some());
        cache.insert(nodes[4], Arc::new(row()));
        assert_eq!(cache.bytes(), 2 * bytes);
        assert!(
            cache.get(nodes[0]).is_some() && cache.get(nodes[4]).is_some() && cache.get(nodes[1]).is_none()
        );
    }
}
