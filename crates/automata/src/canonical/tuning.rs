//! The numbers that decide what an index keeps and how it searches.
//!
//! They change times and memory, and never a mask. An index is made with one [`Tuning`], which stays with it, so that
//! tests run the engine with small numbers, where a few dozen tokens are many, and with those that ship.

/// The numbers of one index. The default ships.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// The most added tokens of a tokenizer that are tried one by one in each position. Of more, a prefix search finds
    /// those that the constraint reads. One by one costs a run of the constraint's DFA for each added token; the
    /// search allocates, and costs a binary search for each prefix that the constraint reads.
    pub(crate) few_added: usize,
    /// The most successors of a token of which all are kept. With more, a search that all kept successors fail walks
    /// the trie. A higher value takes memory (4 bytes for each successor) and saves such walks.
    pub(crate) all_successors: usize,
    /// About how many successors are kept of larger sets. They are tried before a walk of the trie. A higher value
    /// takes time where all of them fail, and saves walks where one succeeds.
    pub(crate) successor_sample: usize,
    /// The most forbidden neighbours of a token that are computed again for each mask. Larger sets are kept, one bit
    /// for each token of the vocabulary. A lower value fills the cache with sets that are computed sooner than they
    /// are read.
    pub(crate) listed_forbidden: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { few_added: 32, all_successors: 2_048, successor_sample: 128, listed_forbidden: 512 }
    }
}

#[cfg(test)]
impl Tuning {
    /// Numbers that a dozen tokens exceed.
    pub(crate) fn small() -> Self {
        Self { few_added: 1, all_successors: 3, successor_sample: 2, listed_forbidden: 2 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unskew_core::{
        AddedToken, Constraint, SplitBehavior, SplitPattern, TokenId, TokenMask, Tokenization, Vocabulary,
    };
    use unskew_trie::TokenTrie;

    use super::*;
    use crate::{
        Limits,
        canonical::{
            CanonicalConstraint, CanonicalIndex, TokenizerAutomaton,
            testing::{Listing, Random, table},
        },
    };

    /// A random tokenizer of the letters `a`, `b` and `c`, with a few added tokens that are text.
    fn tokenizer(random: &mut Random) -> (Arc<TokenizerAutomaton>, Arc<TokenTrie>) {
        let listing = [Listing::Proper, Listing::AllSplits, Listing::Shuffled][random.below(3)];
        let (texts, merges) = table(random, 3, 25, listing);
        let mut builder = Vocabulary::builder();
        texts.iter().for_each(|text| _ = builder.text(text));
        let mut tokenization = Tokenization::default();
        tokenization.merges = merges;
        tokenization.whole_pieces = random.below(2) == 0;
        tokenization.splits.push(SplitPattern::Regex {
            pattern: ["a+|[bc]+", "[ab]{1,2}|c", "[abc]+"][random.below(3)].to_owned(),
            behavior: SplitBehavior::Isolated,
            invert: false,
        });
        for content in ["cab", "cabca", "bbbb"].into_iter().take(random.below(4)) {
            tokenization.added.push(AddedToken {
                id: builder.text(content.as_bytes()),
                content: content.to_owned(),
                special: false,
                single_word: false,
                lstrip: false,
                rstrip: false,
                normalized: false,
            });
        }
        let vocabulary = Arc::new(builder.build().unwrap());
        let automaton = TokenizerAutomaton::new(&vocabulary, &tokenization).unwrap();
        (Arc::new(automaton), Arc::new(TokenTrie::new(vocabulary).unwrap()))
    }

    fn mask(
        constraint: &CanonicalConstraint,
        scratch: &mut <CanonicalConstraint as Constraint>::Scratch,
        sequence: &[TokenId],
    ) -> TokenMask {
        let mut state = constraint.start();
        for token in sequence {
            constraint.advance(scratch, &mut state, *token).unwrap();
        }
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(scratch, &state, mask.as_mut());
        mask
    }

    /// The masks of all sequences of up to four tokens, with small numbers and with those that ship.
    #[test]
    fn the_numbers_change_no_mask() {
        let (mut masks, mut added) = (0, 0);
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let (automaton, trie) = tokenizer(&mut random);
            let [small, shipped] = [Tuning::small(), Tuning::default()].map(|tuning| {
                let index = CanonicalIndex::with_tuning(Arc::clone(&automaton), Arc::clone(&trie), tuning);
                Arc::new(index.unwrap())
            });
            for pattern in ["[abc]{5}", "(ab?c|b(ca)*|cabca)*", "(aa|bb|cc){2,4}", "[ab]*c[abc]{0,3}b"] {
                let make = |index| CanonicalConstraint::new(pattern, index, &Limits::default());
                let (Ok(small), Ok(shipped)) = (make(&small), make(&shipped)) else {
                    panic!("seed {seed}, {pattern}");
                };
                let (mut small_scratch, mut shipped_scratch) = (small.scratch(), shipped.scratch());
                let mut open: Vec<Vec<TokenId>> = vec![vec![]];
                while let Some(sequence) = open.pop() {
                    let expected = mask(&shipped, &mut shipped_scratch, &sequence);
                    let found = mask(&small, &mut small_scratch, &sequence);
                    assert_eq!(found, expected, "seed {seed}, {pattern}, {sequence:?}");
                    masks += 1;
                    if sequence.len() < 4 {
                        open.extend(expected.ids().map(|next| [&sequence[..], &[next]].concat()));
                    }
                    let is_added = |token: TokenId| automaton.number_of_added(token.0).is_some();
                    added += expected.ids().filter(|token| is_added(*token)).count();
                }
            }
        }
        assert!(masks > 10_000 && added > 1_000, "{masks} {added}");
    }
}
