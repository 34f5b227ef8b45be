//! Random choices for the corpus: a seeded stream of dice with skewed picks.
//!
//! Every choice is made in integer arithmetic, so that a document is the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Scale of the integer Zipf weights: large against the longest word list.
const ZIPF_SCALE: u64 = 1 << 20;

/// A source of random choices.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    generator: ChaCha8Rng,
}

impl Dice {
    /// The choices of stream number `stream` under `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self { generator }
    }

    /// A number in `0..bound`; `bound` must not be zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "cannot draw below zero");
        // The bias of multiply-and-shift is under bound / 2^64: nothing for training text.
        ((u128::from(self.generator.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// The smaller of two draws from `low..=high`: small numbers are the likely ones.
    pub(crate) fn small(&mut self, low: u64, high: u64) -> u64 {
        self.between(low, high).min(self.between(low, high))
    }

    /// True with a probability of `percent` in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, all equally likely.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// One of `items`, the one at rank `r` (from zero) with a weight of `1 / (r + 2)`.
    pub(crate) fn zipf<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.zipf_rank(items.len())]
    }

    /// One of `items`, each with the weight it is paired with.
    pub(crate) fn weighted<'a, T>(&mut self, items: &'a [(u64, T)]) -> &'a T {
        let total = items.iter().map(|(weight, _)| weight).sum();
        &items[self.rank_of(total, |rank| items[rank].0)].1
    }

    /// `count` different items (or all, where there are fewer), Zipf-like, in the order drawn.
    pub(crate) fn several<'a, T>(&mut self, items: &'a [T], count: usize) -> Vec<&'a T> {
        let mut left: Vec<&T> = items.iter().collect();
        let mut drawn = Vec::new();
        while drawn.len() < count && !left.is_empty() {
            drawn.push(left.remove(self.zipf_rank(left.len())));
        }
        drawn
    }

    /// A rank below `length`, the low ones the likely ones.
    fn zipf_rank(&mut self, length: usize) -> usize {
        let weight = |rank: usize| ZIPF_SCALE / (rank as u64 + 2);
        let total = (0..length).map(weight).sum();
        self.rank_of(total, weight)
    }

    /// The first rank at which the running sum of weights passes a draw below `total`.
    fn rank_of(&mut self, total: u64, weight: impl Fn(usize) -> u64) -> usize {
        let mut left = self.below(total);
        let mut rank = 0;
        while left >= weight(rank) {
            left -= weight(rank);
            rank += 1;
        }
        rank
    }
}
