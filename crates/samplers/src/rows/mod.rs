//! Rows of the model, as far as a sampler may propose from them, in a cache that is bounded in bytes.
//!
//! A row is what a sampler needs to choose a token that it has not visited; everything else about a prefix is in the trie,
//! in a few numbers. So rows may be dropped at any time: one that is wanted again is computed again, which costs a model
//! call and changes nothing.
//!
//! A short row, and one of which a mask leaves little, is a list of tokens ([`Listed`]). A long one under a mask that leaves
//! much stays where the model wrote it and is read in one pass ([`Wide`]); it is copied into the cache only where its prefix is likely to
//! come again, since the copy takes as long as the pass.

pub(crate) mod digits;
mod listed;
mod pass;
mod wide;

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use rand_core::Rng;
use unskew_core::{TokenId, TokenMask};

pub(crate) use listed::Listed;
pub use pass::{log_mass, log_normalizer};
pub(crate) use wide::Wide;

use crate::tree::NodeId;

/// From so many logits on a row is a long one.
pub(crate) const LONG: usize = 1 << 13;

/// A token that was drawn from a row. Natural logarithms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Drawn {
    pub(crate) token: TokenId,
    pub(crate) log_p: f64,
    /// The mass of the tokens that might have been drawn in its place, where that was asked for.
    pub(crate) rest: Option<f64>,
}

/// The tokens that may follow a prefix, with their probabilities, and the end.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    tokens: Tokens,
    /// The log-probability that the sequence ends, allowed or not.
    end: f64,
}

#[derive(Clone, Debug)]
enum Tokens {
    Listed(Listed),
    Wide(Wide),
}

impl Row {
    pub(crate) fn listed(row: Listed, end: f64) -> Self {
        Self { tokens: Tokens::Listed(row), end }
    }

    /// A place for a long row.
    pub(crate) fn unread() -> Self {
        Self { tokens: Tokens::Wide(Wide::unread()), end: f64::NAN }
    }

    /// What reads a long row, and the place for the log-probability that the sequence ends; none where it is a list.
    pub(crate) fn parts_mut(&mut self) -> Option<(&mut Wide, &mut f64)> {
        match &mut self.tokens {
            Tokens::Listed(_) => None,
            Tokens::Wide(row) => Some((row, &mut self.end)),
        }
    }

    /// Lets go of what a long row that nobody reads any more shares with others: the logits of its pass, and the mask, which is
    /// answered. The rest of it is used again; none where it is a list.
    pub(crate) fn release(&mut self) -> Option<Arc<TokenMask>> {
        match &mut self.tokens {
            Tokens::Listed(_) => None,
            Tokens::Wide(row) => row.release(),
        }
    }

    pub(crate) fn is_wide(&self) -> bool {
        matches!(self.tokens, Tokens::Wide(_))
    }

    /// Token by token: for a wide row the work of several passes.
    pub(crate) fn list(&self) -> Cow<'_, Listed> {
        match &self.tokens {
            Tokens::Listed(row) => Cow::Borrowed(row),
            Tokens::Wide(row) => Cow::Owned(row.listed()),
        }
    }

    pub(crate) fn end(&self) -> f64 {
        self.end
    }

    /// The log-probability of a token; minus infinity where it is not in the row.
    pub(crate) fn of(&self, token: TokenId) -> f64 {
        match &self.tokens {
            Tokens::Listed(row) => row.of(token),
            Tokens::Wide(row) => row.of(token),
        }
    }

    /// The most probable token, of equal ones the first, and its log-probability.
    pub(crate) fn best(&self) -> Option<(TokenId, f64)> {
        match &self.tokens {
            Tokens::Listed(row) => row.best(),
            Tokens::Wide(row) => row.best(),
        }
    }

    /// The logarithm of the mass of all tokens.
    pub(crate) fn sum(&self) -> f64 {
        match &self.tokens {
            Tokens::Listed(row) => row.sum(),
            Tokens::Wide(row) => row.sum(),
        }
    }

    /// The logarithm of the mass of all tokens but `without`, which are ascending.
    pub(crate) fn log_mass(&self, without: impl Iterator<Item = TokenId> + Clone) -> f64 {
        match &self.tokens {
            Tokens::Listed(row) => row.log_mass(without),
            Tokens::Wide(row) => row.log_mass(without),
        }
    }

    /// One of the tokens but `without`, by probability, with the mass of the others if its log-probability is above
    /// `rest_above`. `None` if there are none.
    pub(crate) fn draw(
        &self,
        without: impl Iterator<Item = TokenId> + Clone,
        rest_above: f64,
        rng: &mut dyn Rng,
    ) -> Option<Drawn> {
        if without.clone().next().is_none() {
            return self.draw_any(rest_above, rng);
        }
        match &self.tokens {
            Tokens::Listed(row) => row.draw(without, rest_above, rng),
            Tokens::Wide(row) => row.draw(without, rest_above, rng),
        }
    }

    /// The same of all tokens, as at each new prefix.
    pub(crate) fn draw_any(&self, rest_above: f64, rng: &mut dyn Rng) -> Option<Drawn> {
        match &self.tokens {
            Tokens::Listed(row) => row.draw_any(rest_above, rng),
            Tokens::Wide(row) => row.draw_any(rest_above, rng),
        }
    }

    /// The entropy in nats of what follows under the mask: these tokens, and the end with log-probability `stop`.
    pub(crate) fn entropy(&self, stop: f64) -> f64 {
        self.list().entropy(stop)
    }

    fn bytes(&self) -> usize {
        // With the entry of the cache.
        let tokens = match &self.tokens {
            Tokens::Listed(row) => row.bytes(),
            Tokens::Wide(row) => row.bytes(),
        };
        tokens + size_of::<Self>() + 48
    }
}

/// Ids of nodes are counted up, by us: one product spreads them, and the hash of the library, made for keys that
/// others choose, is more code than the rest of a look-up.
#[derive(Default, Debug)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        // 2^64 over the golden ratio. A table takes some of the highest bits and some of the lowest: both must differ.
        let product = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Rows by prefix, the recently used ones.
#[derive(Debug)]
pub(crate) struct RowCache {
    rows: HashMap<NodeId, (Arc<Row>, u64), BuildHasherDefault<Spread>>,
    bytes: usize,
    max_bytes: usize,
    clock: u64,
}

impl RowCache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { rows: HashMap::default(), bytes: 0, max_bytes, clock: 0 }
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
    use rand_core::{Rng, SeedableRng};
    use unskew_core::{Logits, MaskRef, conformance::chi_square};

    use super::*;
    use crate::tree::PrefixTree;

    fn row() -> Listed {
        let logits = [0.5f64, 0.2, 0.2, 0.1].map(|p| {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let logit = p.ln() as f32;
            logit
        });
        Listed::new(&[1, 3, 4, 9].map(TokenId), &logits, 0.0)
    }

    #[test]
    fn what_is_left_out_is_not_drawn() {
        let row = row();
        // 7 is not in the row.
        let without = || [1, 7, 9].map(TokenId).into_iter();
        assert!((row.log_mass(without()).exp() - 0.4).abs() < 1e-6);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0; 10];
        for _ in 0..4000 {
            let drawn = row.draw(without(), f64::NEG_INFINITY, &mut rng).unwrap();
            assert!((drawn.rest.unwrap().exp() - 0.2).abs() < 1e-6);
            counts[drawn.token.index()] += 1;
        }
        assert!(counts[3] + counts[4] == 4000 && (1800..2200).contains(&counts[3]), "{counts:?}");
        assert!((row.entropy(f64::NEG_INFINITY) - 1.2206).abs() < 1e-3);
    }

    #[test]
    fn what_is_next_to_nothing_is_drawn_where_nothing_else_is_left() {
        let tokens = [0, 1, 2].map(TokenId);
        let row = Listed::new(&tokens, &[0.0, -2000.0, -2001.0], 0.0);
        let without = || std::iter::once(TokenId(0));
        assert!((row.log_mass(without()) + 2000.0 - (1.0 + (-1f64).exp()).ln()).abs() < 1e-9);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0; 3];
        for _ in 0..4000 {
            let drawn = row.draw(without(), f64::NEG_INFINITY, &mut rng).unwrap();
            assert!((drawn.rest.unwrap() - if drawn.token.0 == 1 { -2001.0 } else { -2000.0 }).abs() < 1e-9);
            counts[drawn.token.index()] += 1;
        }
        assert!(counts[0] == 0 && (2800..3050).contains(&counts[1]), "{counts:?}");
        let all = || tokens.into_iter();
        assert_eq!(
            (row.draw(all(), f64::NEG_INFINITY, &mut rng), row.log_mass(all())),
            (None, f64::NEG_INFINITY)
        );
        assert_eq!(Listed::new(&[], &[], 0.0).sum(), f64::NEG_INFINITY);
    }

    /// A long row in both forms, with a mask that leaves blocks whole, empty and in part.
    fn both(seed: u64, len: usize, spread: f64) -> (Listed, Wide) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut logits = Logits::new();
        for logit in logits.reset(1, len) {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let value = (f64::from(rng.next_u32()) / 4e9 * spread) as f32;
            *logit = if rng.next_u32().is_multiple_of(9) { f32::NEG_INFINITY } else { value };
        }
        let mut mask: Vec<u32> = (0..len.div_ceil(32))
            .map(|word| match word / 40 % 3 {
                0 => u32::MAX,
                1 => 0,
                _ => rng.next_u32(),
            })
            .collect();
        let logits = Arc::new(logits);
        if !len.is_multiple_of(32) {
            mask[len / 32] &= (1 << (len % 32)) - 1;
        }
        let mut wide = Wide::unread();
        wide.read(logits.row(0), Some(&mask));
        assert!(wide.is_usable());
        wide.hold(&logits, 0, &Arc::new(MaskRef::new(&mask, len).to_owned()));
        (wide.listed(), wide)
    }

    #[test]
    fn a_wide_row_is_the_listed_one() {
        for (seed, spread) in [(1, 3.0), (2, 12.0), (3, 60.0), (4, 600.0)] {
            let (listed, wide) = both(seed, 9_001, spread);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            assert!((listed.sum() - wide.sum()).abs() < 1e-6);
            assert_eq!(listed.best(), wide.best());
            let mut without: Vec<TokenId> = Vec::new();
            // The most probable ones too, until next to nothing is left.
            for round in 0..40 {
                if round % 7 == 6 {
                    without.remove(round % without.len());
                }
                let all = || without.iter().copied();
                assert!((listed.log_mass(all()) - wide.log_mass(all())).abs() < 1e-6);
                // What was kept of the last question changes no digit.
                assert_eq!(wide.log_mass(all()), wide.clone().log_mass(all()));
                let drawn = wide.draw(all(), f64::NEG_INFINITY, &mut rng).unwrap();
                assert!(!without.contains(&drawn.token));
                assert!((listed.of(drawn.token) - drawn.log_p).abs() < 1e-6);
                assert!((wide.of(drawn.token) - drawn.log_p).abs() == 0.0);
                let more = if round % 2 == 0 { drawn.token } else { TokenId(rng.next_u32() % 9_100) };
                if let Err(at) = without.binary_search(&more) {
                    without.insert(at, more);
                }
                if more == drawn.token {
                    let rest = listed.log_mass(without.iter().copied());
                    let found = drawn.rest.unwrap();
                    assert!((rest - found).abs() < 1e-6, "{rest} {found}");
                }
            }
            let mut detached = wide.clone();
            detached.detach();
            let mut same = ChaCha8Rng::seed_from_u64(9);
            let mut other = same.clone();
            for _ in 0..50 {
                let of = |row: &Wide, rng: &mut ChaCha8Rng| row.draw_any(f64::NEG_INFINITY, rng);
                assert_eq!(of(&wide, &mut same), of(&detached, &mut other));
            }
        }
    }

    /// Tokens by blocks, with some left out: their frequencies against their probabilities, which are summed in `f64`.
    #[test]
    fn draws_by_blocks_follow_the_probabilities() {
        #[cfg(debug_assertions)]
        const DRAWS: u32 = 40_000;
        #[cfg(not(debug_assertions))]
        const DRAWS: u32 = 1_000_000;
        for (seed, spread, left_out) in [(1, 2.0, 0), (2, 9.0, 5), (3, 25.0, 30)] {
            let (listed, wide) = both(seed, 8_500, spread);
            // The most probable ones.
            let mut order: Vec<usize> = (0..listed.tokens().len()).collect();
            order.sort_by(|left, right| listed.log_prob(*right).total_cmp(&listed.log_prob(*left)));
            let mut without: Vec<TokenId> =
                order[..left_out].iter().map(|index| listed.tokens()[*index]).collect();
            without.sort_unstable();
            let mass = listed.log_mass(without.iter().copied());
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut counts = vec![0u64; 8_500];
            for _ in 0..DRAWS {
                let drawn = wide.draw(without.iter().copied(), f64::INFINITY, &mut rng).unwrap();
                counts[drawn.token.index()] += 1;
            }
            assert!(without.iter().all(|token| counts[token.index()] == 0));
            let cells = order[left_out..].iter().map(|index| {
                let token = listed.tokens()[*index];
                (counts[token.index()], (listed.log_prob(*index) - mass).exp())
            });
            let fit = chi_square(cells);
            assert!(fit.deviation < 4.0, "{fit:?}");
        }
    }

    #[test]
    fn the_least_recently_used_rows_go_first() {
        let row = || Row::listed(row(), f64::NEG_INFINITY);
        let bytes = row().bytes();
        let mut tree = PrefixTree::new();
        let nodes: Vec<_> = (0..5).map(|token| tree.child(PrefixTree::ROOT, TokenId(token))).collect();
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
