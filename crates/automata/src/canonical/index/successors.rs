//! The tokens that may follow a token from a splitter state: computed once for all constraints.
//!
//! A search for any token that leads to a live position mostly succeeds with most tokens, and then a few candidates
//! are enough. But some tokens have hardly any successors. Examples are a blank before a word, since nearly every
//! word begins with its own blank, and the first bytes of a character whose other tokens begin elsewhere. A search
//! would then test each of up to 50,000 tokens that the constraint reads, in vain. The successors of a token do not
//! depend on the constraint. So all successors are cached if they are few, and a sample if they are many.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use unskew_core::{TokenId, words_for};
use unskew_trie::ByteSet;

use super::{shared_cache::SharedCache, tables::CanonicalIndex};
use crate::{
    canonical::{
        merges::forest::BigramRelation,
        token_set::{bits, set},
    },
    ids::{SplitState, TokenClass},
};

/// The capacity of the cache of each kind of answer in bytes, and the number of its maps.
const CACHE_BYTES: usize = 8 << 20;
const CACHE_MAPS: usize = 4;

/// The capacity of the cache of pair tests, in bytes.
const PAIR_TEST_BYTES: usize = 6 << 20;

/// The cost of an entry without its tokens, in bytes.
const OVERHEAD: usize = 64;

/// Tokens that may follow, in the order of their first bytes.
#[derive(Debug)]
pub(crate) struct Successors {
    pub(crate) tokens: Box<[u32]>,
    /// The first bytes, each with the index at which its tokens end.
    first: Box<[(u8, u32)]>,
    /// Whether these are all tokens that may follow.
    pub(crate) is_all: bool,
}

/// The caches of the bigram relation.
#[derive(Debug)]
pub(crate) struct SuccessorCache {
    /// By class of a token and splitter state.
    successors: SharedCache<(TokenClass, SplitState), Arc<Successors>>,
    /// By class of a token: the tokens that must not follow, one bit each, if they are many.
    forbidden: SharedCache<TokenClass, Arc<[u32]>>,
    /// By token: the results of its pair tests as the right neighbour.
    pair_tests: SharedCache<u32, Arc<PairTests>>,
}

/// The pair tests of one token as the right neighbour, with their results. Results are added one by one, from any
/// thread. Computing all of them at once needs the tables for the opposite direction of the bigram relation, which
/// take 60 milliseconds for 128,000 tokens.
#[derive(Debug)]
pub(crate) struct PairTests {
    token: u32,
    /// One bit each, set when the result is known.
    known: Box<[AtomicU32]>,
    /// The tokens that the token must not follow.
    forbidden_prev: Box<[AtomicU32]>,
}

impl PairTests {
    /// No results yet for `token`, which merges create, in a vocabulary of `len` tokens.
    fn new(token: u32, len: usize) -> Self {
        let none = || (0..words_for(len)).map(|_| AtomicU32::new(0)).collect();
        Self { token, known: none(), forbidden_prev: none() }
    }

    /// Whether the token may follow `before`. Merges create `before`.
    pub(crate) fn may_follow(&self, bigrams: &BigramRelation, before: u32) -> bool {
        let (word, bit) = (before as usize / 32, 1 << (before % 32));
        let (known, forbidden_prev) = (&self.known[word], &self.forbidden_prev[word]);
        if known.load(Ordering::Acquire) & bit != 0 {
            return forbidden_prev.load(Ordering::Relaxed) & bit == 0;
        }
        let may_follow = bigrams.may_follow(before, self.token);
        if !may_follow {
            forbidden_prev.fetch_or(bit, Ordering::Relaxed);
        }
        known.fetch_or(bit, Ordering::Release);
        may_follow
    }

    pub(crate) fn bytes(&self) -> usize {
        OVERHEAD + size_of_val(&self.known[..]) + size_of_val(&self.forbidden_prev[..])
    }
}

impl Default for SuccessorCache {
    fn default() -> Self {
        Self {
            successors: SharedCache::new(CACHE_MAPS, CACHE_BYTES),
            forbidden: SharedCache::new(CACHE_MAPS, CACHE_BYTES),
            pair_tests: SharedCache::new(CACHE_MAPS, PAIR_TEST_BYTES),
        }
    }
}

impl Successors {
    /// The tokens that merges create, that the splitter reads from `state` (not a piece start), and that may follow
    /// `token`.
    fn new(index: &CanonicalIndex, token: u32, state: SplitState) -> Self {
        let CanonicalIndex { automaton: tokenizer, vocabulary, trie, tuning, .. } = index;
        let mut words = vec![0u32; words_for(vocabulary.len())];
        if index.liveness().places[state] == 0 {
            words.copy_from_slice(&index.targets(state, false).merged);
        } else {
            // Inside a character the splitter reads few tokens. These states are many, so their tokens are not
            // cached.
            trie.walk(
                state,
                |state, byte| tokenizer.split.step(state, byte),
                |TokenId(token), _| {
                    if tokenizer.is_merged(token) {
                        set(&mut words, token);
                    }
                },
            );
        }
        index.remove_forbidden(token, &mut words);
        let mut tokens: Vec<u32> = bits(&words).collect();
        let is_all = tokens.len() <= tuning.all_successors;
        if !is_all {
            tokens = tokens.iter().copied().step_by(tokens.len() / tuning.successor_sample).collect();
        }
        let first_of = |token: &u32| vocabulary.text(TokenId(*token)).and_then(<[u8]>::first).copied();
        tokens.sort_by_cached_key(first_of);
        let mut first: Vec<(u8, u32)> = Vec::new();
        for (token, end) in tokens.iter().zip(1..) {
            let byte = first_of(token).unwrap_or_default();
            match first.last_mut() {
                Some((last, last_end)) if *last == byte => *last_end = end,
                _ => first.push((byte, end)),
            }
        }
        Self { tokens: tokens.into(), first: first.into(), is_all }
    }

    /// The tokens that begin with one of these bytes.
    pub(crate) fn beginning_with(&self, bytes: &ByteSet) -> impl Iterator<Item = u32> {
        let mut begin = 0;
        let ranges = self.first.iter().map(move |(byte, end)| {
            let tokens = begin..*end as usize;
            begin = tokens.end;
            (*byte, tokens)
        });
        ranges.filter(|(byte, _)| bytes.contains(*byte)).flat_map(|(_, range)| &self.tokens[range]).copied()
    }

    fn bytes(&self) -> usize {
        OVERHEAD + size_of_val(&self.tokens[..]) + size_of_val(&self.first[..])
    }
}

impl SuccessorCache {
    /// The tokens that may follow `token` from `state`, cached. Merges create `token`.
    pub(crate) fn of(&self, index: &CanonicalIndex, token: u32, state: SplitState) -> Arc<Successors> {
        let key = (index.automaton.bigrams.class(token), state);
        if let Some(known) = self.successors.get(key) {
            return known;
        }
        let found = Arc::new(Successors::new(index, token, state));
        self.successors.keep(key, Arc::clone(&found), found.bytes());
        found
    }

    /// Removes the tokens that must not follow `token` from `words`. Merges create `token`.
    pub(crate) fn remove_forbidden(&self, index: &CanonicalIndex, token: u32, words: &mut [u32]) {
        let CanonicalIndex { automaton: tokenizer, tuning, .. } = index;
        let bigrams = &tokenizer.bigrams;
        let class = bigrams.class(token);
        if let Some(bits) = self.forbidden.get(class) {
            words.iter_mut().zip(&bits[..]).for_each(|(word, bits)| *word &= !bits);
            return;
        }
        let mut count = 0;
        bigrams.forbidden_next(token, |token| {
            words[token as usize / 32] &= !(1 << (token % 32));
            count += 1;
        });
        if count > tuning.listed_forbidden {
            // Padding is forbidden nowhere.
            let mut bits = vec![0u32; tokenizer.merged.len()];
            bigrams.forbidden_next(token, |token| set(&mut bits, token));
            let bytes = OVERHEAD + size_of_val(&bits[..]);
            self.forbidden.keep(class, bits.into(), bytes);
        }
    }

    /// The cached pair tests of `token`, which merges create, in a vocabulary of `len` tokens.
    pub(crate) fn pair_tests(&self, token: u32, len: usize) -> Arc<PairTests> {
        if let Some(known) = self.pair_tests.get(token) {
            return known;
        }
        let pair_tests = Arc::new(PairTests::new(token, len));
        self.pair_tests.keep(token, Arc::clone(&pair_tests), pair_tests.bytes());
        pair_tests
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.successors.memory_usage() + self.forbidden.memory_usage() + self.pair_tests.memory_usage()
    }
}

#[cfg(test)]
mod tests {
    use unskew_core::{SplitBehavior, SplitPattern, Tokenization, Vocabulary};
    use unskew_trie::TokenTrie;

    use super::*;
    use crate::canonical::{
        TokenizerAutomaton,
        index::split_transitions::TokenTarget,
        testing::{Listing, Random, table},
        tuning::Tuning,
    };
    use crate::ids::WholeNode;

    /// Compares all caches of a tokenizer, each queried twice, with every token and every pair of tokens.
    #[test]
    fn what_is_kept_of_a_tokenizer_is_what_its_parts_say() {
        let (all, some, forbidden_many, whole_starts) = check_kept(150, Tuning::small());
        assert!(
            all > 100 && some > 100 && forbidden_many > 100 && whole_starts > 100,
            "{all} {some} {forbidden_many} {whole_starts}"
        );
        // Tokenizers as small as these have no more successors than are kept.
        let (all, some, forbidden_many, whole_starts) = check_kept(30, Tuning::default());
        assert!(
            all > 100 && (some, forbidden_many) == (0, 0) && whole_starts > 20,
            "{all} {some} {whole_starts}"
        );
    }

    /// The checks of the test above, over `count` tokenizers. How often all successors were kept and how often some;
    /// how many tokens forbid more than are listed; and how many tokens start a whole piece.
    fn check_kept(count: u64, tuning: Tuning) -> (u32, u32, usize, usize) {
        let Tuning { all_successors, successor_sample, listed_forbidden, .. } = tuning;
        let (mut all, mut some, mut forbidden_many, mut whole_starts) = (0, 0, 0, 0);
        for seed in 0..count {
            let mut random = Random::new(seed);
            let listing = [Listing::Proper, Listing::AllSplits, Listing::Shuffled][random.below(3)];
            let (texts, merges) = table(&mut random, 3, 25, listing);
            let mut builder = Vocabulary::builder();
            texts.iter().for_each(|text| _ = builder.text(text));
            let vocabulary = builder.build().unwrap();
            let pattern = ["a+|[bc]+", "[ab]{1,2}|c"][random.below(2)];
            let mut tokenization = Tokenization::default();
            tokenization.merges = merges;
            tokenization.whole_pieces = random.below(2) == 0;
            tokenization.splits.push(SplitPattern::Regex {
                pattern: pattern.to_owned(),
                behavior: SplitBehavior::Isolated,
                invert: false,
            });
            let tokenizer = TokenizerAutomaton::new(&vocabulary, &tokenization).unwrap();
            let (tokenizer, trie) = (Arc::new(tokenizer), Arc::new(TokenTrie::new(vocabulary).unwrap()));
            let index = CanonicalIndex::with_tuning(Arc::clone(&tokenizer), trie, tuning).unwrap();
            let (split, bigrams) = (&tokenizer.split, &tokenizer.bigrams);
            let tokens =
                || (0..u32::try_from(texts.len()).unwrap()).filter(|token| tokenizer.is_merged(*token));
            let end = |state: SplitState, token: u32| {
                texts[token as usize].iter().try_fold(state, |state, byte| split.step(state, *byte))
            };
            for token in tokens() {
                let mut words = vec![u32::MAX; words_for(texts.len())];
                for _ in 0..2 {
                    index.remove_forbidden(token, &mut words);
                    let forbidden = tokens().filter(|next| !bigrams.may_follow(token, *next));
                    let removed = tokens().filter(|next| words[*next as usize / 32] >> (next % 32) & 1 == 0);
                    let forbidden: Vec<u32> = forbidden.collect();
                    forbidden_many += usize::from(forbidden.len() > listed_forbidden);
                    assert_eq!(removed.collect::<Vec<u32>>(), forbidden, "seed {seed}, {token}");
                }
                for _ in 0..2 {
                    let pair_tests = index.pair_tests(token);
                    for before in tokens() {
                        let may_follow = bigrams.may_follow(before, token);
                        assert_eq!(
                            pair_tests.may_follow(bigrams, before),
                            may_follow,
                            "seed {seed}, {token}"
                        );
                    }
                }
                for state in split.states() {
                    let may = |next: &u32| end(state, *next).is_some() && bigrams.may_follow(token, *next);
                    let expected: Vec<u32> = tokens().filter(may).collect();
                    let found = index.successors(token, state);
                    assert_eq!(found.is_all, expected.len() <= all_successors, "seed {seed}");
                    if found.is_all {
                        all += 1;
                        let mut tokens = found.tokens.to_vec();
                        tokens.sort_unstable();
                        assert_eq!(tokens, expected, "seed {seed}, {token}, {state:?}");
                        let bytes: ByteSet = (b'a'..=b'c').filter(|_| random.below(2) == 0).collect();
                        let mut beginning: Vec<u32> = found.beginning_with(&bytes).collect();
                        beginning.sort_unstable();
                        let begins = |token: &u32| bytes.contains(texts[*token as usize][0]);
                        assert_eq!(beginning, expected.iter().copied().filter(begins).collect::<Vec<_>>());
                    } else {
                        some += 1;
                        assert!(
                            found.tokens.len() >= successor_sample && found.tokens.iter().all(may),
                            "seed {seed}"
                        );
                    }
                }
            }
            for state in split.states() {
                for is_piece_start in [false, true] {
                    let targets = index.targets(state, is_piece_start);
                    let properties = index.properties();
                    for token in 0..u32::try_from(texts.len()).unwrap() {
                        let starts_whole = is_piece_start && properties.starts_whole(token);
                        let after = end(state, token).filter(|_| starts_whole || tokenizer.is_merged(token));
                        let found = targets.target[token as usize];
                        assert_eq!(found != TokenTarget::NONE, after.is_some(), "seed {seed}");
                        if after.is_some() {
                            assert_eq!(found.state(), after, "seed {seed}");
                            assert_eq!(Some(&found.last()), texts[token as usize].last(), "seed {seed}");
                        }
                        let is_read = targets.merged[token as usize / 32] >> (token % 32) & 1 != 0;
                        assert_eq!(is_read, after.is_some(), "seed {seed}");
                        let child = tokenizer.whole.child(WholeNode::ROOT, token);
                        let is_whole = tokenizer.only_whole.contains(&token);
                        assert_eq!(
                            properties.starts_whole(token),
                            child.is_some() || is_whole,
                            "seed {seed}"
                        );
                        whole_starts += usize::from(starts_whole && is_read);
                    }
                    // The tokens allowed with some bytes are also allowed with more bytes, and with all bytes.
                    let few: ByteSet = (b'a'..=b'c').filter(|_| random.below(2) == 0).collect();
                    let more = targets.viable_with(&(0..=255).collect(), u8::MAX);
                    for _ in 0..2 {
                        let few = targets.viable_with(&few, 0);
                        assert!(few.iter().zip(&more[..]).all(|(few, more)| few & !more == 0), "seed {seed}");
                        assert!(more.iter().zip(&targets.viable).all(|(more, all)| more & !all == 0));
                    }
                }
            }
        }
        (all, some, forbidden_many, whole_starts)
    }
}
