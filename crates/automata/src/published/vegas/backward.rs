//! The tables that the search backwards needs, and that the canonical engine does without: the tokens that a token must
//! not follow, and the tokens that end in a byte. They take 60 milliseconds for 128,000 tokens.

use unskew_core::words_for;

use crate::{
    CanonicalIndex,
    canonical::merges::forest::{BigramRelation, Forest, Partners},
    ids::MergeKey,
};

/// The tables of one index.
#[derive(Debug)]
pub(super) struct Backward {
    /// The forest by right parts.
    rights: Forest,
    /// The merges by their right token.
    by_right: Partners,
    /// The tokens that merges create, by the last byte of their text.
    by_last_byte: Vec<Vec<u32>>,
}

impl Backward {
    pub(super) fn new(index: &CanonicalIndex) -> Self {
        let mut by_last_byte = vec![Vec::new(); 256];
        let merged = index.vocabulary.text_tokens().filter(|(token, _)| index.automaton.is_merged(token.0));
        for (token, text) in merged {
            text.last().into_iter().for_each(|last| by_last_byte[usize::from(*last)].push(token.0));
        }
        Self { by_last_byte, ..Self::of(&index.automaton.bigrams) }
    }

    /// The tables without the last bytes.
    fn of(bigrams: &BigramRelation) -> Self {
        let len = bigrams.trees.key.len();
        let merges = (0u32..)
            .take(len)
            .flat_map(|left| bigrams.by_left.of(left).map(move |(right, key)| (right, left, key)));
        Self {
            rights: Forest::new(&bigrams.trees, &bigrams.trees.right),
            by_right: Partners::new(len, merges),
            by_last_byte: Vec::new(),
        }
    }

    /// Calls `each` with the tokens that `token` must not follow, by the intervals of `rights` that contain them. A
    /// token may be reported several times. The opposite of [`BigramRelation::forbidden_next`].
    pub(super) fn forbidden_prev(&self, bigrams: &BigramRelation, token: u32, mut each: impl FnMut(u32)) {
        let (trees, Self { rights, by_right, .. }) = (&bigrams.trees, self);
        let mut each = |tokens: &[u32]| tokens.iter().for_each(|token| each(*token));
        trees.on_edge(&trees.left, token, |at, above| {
            // Of two merges of equal rank, the left one happens first.
            let end = above.map_or(MergeKey::NEVER, |above| trees.left_end(above));
            let until = above.map_or(MergeKey::NEVER, |above| trees.time[above as usize]);
            let since = trees.time[at as usize];
            for (partner, key) in by_right.of(at) {
                let partner_since = trees.time[partner as usize];
                if key <= end && partner_since <= until && bigrams.happens(key, since.max(partner_since)) {
                    let counts = |child| since < trees.time[child as usize] && key < trees.right_end(child);
                    let since = key.max(since).next();
                    rights.subtrees(&trees.right, &trees.time, partner, since, counts, &mut each);
                }
            }
        });
    }

    /// The tokens that merges create and whose text ends in one of `bytes`, one bit each.
    pub(super) fn ending_in(&self, bytes: &[u64; 4], vocab_len: usize) -> Vec<u32> {
        let mut words = vec![0u32; words_for(vocab_len)];
        for byte in (0..=255u8).filter(|byte| bytes[usize::from(byte / 64)] >> (byte % 64) & 1 != 0) {
            for token in &self.by_last_byte[usize::from(byte)] {
                words[*token as usize / 32] |= 1 << (token % 32);
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::TokenId;

    use super::*;
    use crate::canonical::{
        MergeOrder,
        merges::derivation::Derivations,
        testing::{Listing, Random, table},
    };

    #[test]
    fn it_is_the_bigram_relation_read_backwards() {
        for seed in 0..if cfg!(debug_assertions) { 100 } else { 1_000 } {
            let mut random = Random::new(seed);
            let listing = [Listing::Proper, Listing::AllSplits, Listing::Shuffled][random.below(3)];
            let (texts, merges) = table(&mut random, 3, 25, listing);
            for order in [MergeOrder::LowestRank, MergeOrder::Passes] {
                let length = |token: u32| texts[token as usize].len();
                let trees = Derivations::new(texts.len(), length, (0..3).map(TokenId), &merges, order);
                let bigrams = BigramRelation::new(trees, &merges);
                let backward = Backward::of(&bigrams);
                let tokens = 0..u32::try_from(texts.len()).unwrap();
                let reachable = || tokens.clone().filter(|token| bigrams.trees.is_reachable(*token));
                for right in reachable() {
                    let mut forbidden = vec![false; texts.len()];
                    backward.forbidden_prev(&bigrams, right, |left| forbidden[left as usize] = true);
                    for left in reachable() {
                        let expected = !bigrams.may_follow(left, right);
                        assert_eq!(forbidden[left as usize], expected, "seed {seed}: {left} before {right}");
                    }
                }
            }
        }
    }
}
