//! The data that all constraints over one vocabulary share: the tokenizer's automaton, the vocabulary, its trie, and
//! facts derived from them.
//!
//! The tables of a [`TokenizerAutomaton`] do not depend on a vocabulary's padding, so one automaton serves many
//! vocabularies. Constraints ask again and again for certain sets of tokens. These sets are computed from the
//! tables, the texts of the tokens and their trie, and they are as long as the vocabulary. An index computes each
//! set at its first use and keeps it. It holds the inputs, so no answer depends on the first caller.
//!
//! Tried instead: the sets beside the tables, with the vocabulary and the trie as arguments of every query. Then the
//! sets of the first vocabulary answered the queries of the second.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use unskew_core::Vocabulary;
use unskew_trie::TokenTrie;

use super::{
    shared_cache::SharedCache,
    split_liveness::{CharacterMemo, SplitLiveness},
    split_transitions::{SplitTransitions, TokenProperties, TokenTargets},
    successors::{PairTests, SuccessorCache, Successors},
};
use crate::{
    canonical::{
        CanonicalError, merges::facts::BigramFacts, part::PartCache,
        tokenizer::automaton::TokenizerAutomaton, tuning::Tuning,
    },
    ids::{SplitState, TokenClass},
};

/// The capacity of the cache of [`CanonicalIndex::completes_character`], in bytes, and its number of maps.
const CHARACTER_BYTES: usize = 1 << 20;
const CHARACTER_MAPS: usize = 16;

/// The automaton of a tokenizer together with one vocabulary and its trie. Every
/// [`CanonicalConstraint`](crate::canonical::CanonicalConstraint) over that vocabulary is built from it.
///
/// Constraints share an index through an [`Arc`], from any thread. Sets of tokens that do not depend on a constraint
/// are cached here when a constraint first needs them. The caches take at most about 160 MB; a full cache drops the
/// sets that were not used lately. A model with other padding needs an index of its own, which may use the same
/// automaton.
///
/// # Example
///
/// From a tokenizer to a mask:
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{CanonicalConstraint, CanonicalIndex, Limits, TokenizerAutomaton};
/// use unskew_core::{Constraint, Merge, MergeTable, TokenMask, Tokenization, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// // A tokenizer of three symbols and one merge. `unskew_vocab::Tokenizer` reads the file of a real one, which has a
/// // `vocabulary()` and a `tokenization()`.
/// let mut builder = Vocabulary::builder();
/// let [n, o, dot] = ["n", "o", "."].map(|text| builder.text(text.as_bytes()));
/// let no = builder.text(b"no");
/// let vocabulary = builder.build()?;
/// let mut tokenization = Tokenization::default();
/// tokenization.merges = MergeTable::new(vec![Merge { left: n, right: o, result: no }])?;
///
/// // Once for a tokenizer, and once for a vocabulary.
/// let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, &tokenization)?);
/// let trie = Arc::new(TokenTrie::new(vocabulary)?);
/// let index = Arc::new(CanonicalIndex::new(automaton, trie)?);
///
/// // Once for a pattern.
/// let constraint = CanonicalConstraint::new(r"(no|n)\.", &index, &Limits::default())?;
///
/// // For each output, and for each of its tokens. The tokenizer never writes `n` and `o` for "no".
/// let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
/// let mut mask = TokenMask::new(constraint.vocab_len());
/// constraint.fill_mask(&mut scratch, &state, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [n, no]);
/// constraint.advance(&mut scratch, &mut state, n)?;
/// constraint.fill_mask(&mut scratch, &state, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [dot]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CanonicalIndex {
    pub(crate) automaton: Arc<TokenizerAutomaton>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) trie: Arc<TokenTrie>,
    pub(crate) tuning: Tuning,
    /// Facts about byte bigrams.
    facts: OnceLock<BigramFacts>,
    /// Universal states and ordinary characters of the automaton.
    liveness: OnceLock<SplitLiveness>,
    /// Sets of tokens by properties of their texts.
    properties: OnceLock<TokenProperties>,
    /// By state of the splitter: the tokens that are read from there.
    targets: SplitTransitions,
    /// By token and state: the tokens that may follow.
    successors: SuccessorCache,
    /// By class of a token and splitter state: whether tokens can complete the character in which the token ends.
    completes_character: SharedCache<(TokenClass, SplitState), bool>,
    /// Parts of texts that constraints share.
    pub(crate) parts: PartCache,
}

impl CanonicalIndex {
    /// The index of the vocabulary of `trie`.
    ///
    /// The vocabulary has the ids that `automaton` [covers](TokenizerAutomaton::vocab_len), with the same tokens. It
    /// may have more ids after them, which the tokenizer never writes.
    ///
    /// Cost: a hash of all texts, less than a millisecond for 128,000 tokens. All other data is computed at its
    /// first use.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::VocabularyMismatch`] if the vocabulary has fewer ids than `automaton` covers.
    /// [`CanonicalError::OtherVocabulary`] if the tokens of these ids are not the tokens that `automaton` was built
    /// for. Tokens are compared by [fingerprints](Vocabulary::fingerprint) of 64 bits.
    pub fn new(automaton: Arc<TokenizerAutomaton>, trie: Arc<TokenTrie>) -> Result<Self, CanonicalError> {
        Self::with_tuning(automaton, trie, Tuning::default())
    }

    /// As [`new`](Self::new), with other numbers than those that ship.
    pub(crate) fn with_tuning(
        automaton: Arc<TokenizerAutomaton>,
        trie: Arc<TokenTrie>,
        tuning: Tuning,
    ) -> Result<Self, CanonicalError> {
        let vocabulary = Arc::clone(trie.vocabulary());
        let ids = automaton.vocab_len();
        if ids > vocabulary.len() {
            let vocabulary = vocabulary.len();
            return Err(CanonicalError::VocabularyMismatch { automaton: ids, vocabulary });
        }
        if vocabulary.fingerprint_of_first(ids) != automaton.vocabulary_fingerprint {
            return Err(CanonicalError::OtherVocabulary { ids });
        }
        Ok(Self {
            facts: OnceLock::new(),
            liveness: OnceLock::new(),
            properties: OnceLock::new(),
            targets: SplitTransitions::new(),
            successors: SuccessorCache::default(),
            completes_character: SharedCache::new(CHARACTER_MAPS, CHARACTER_BYTES),
            parts: PartCache::default(),
            automaton,
            vocabulary,
            trie,
            tuning,
        })
    }

    /// The tokenizer's automaton.
    pub fn automaton(&self) -> &Arc<TokenizerAutomaton> {
        &self.automaton
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The vocabulary's trie.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    /// The byte bigrams that no token contains, and whether all texts can be spelled.
    pub(crate) fn bigram_facts(&self) -> &BigramFacts {
        self.facts.get_or_init(|| BigramFacts::new(&self.automaton, &self.vocabulary))
    }

    /// The universal states of the splitter and related facts.
    pub(crate) fn liveness(&self) -> &SplitLiveness {
        self.liveness.get_or_init(|| SplitLiveness::new(&self.automaton))
    }

    /// The tokens that some automata never refuse.
    pub(crate) fn properties(&self) -> &TokenProperties {
        self.properties.get_or_init(|| TokenProperties::new(self))
    }

    /// The tokens that the splitter reads from `state`: with `is_piece_start` as the first token of a piece,
    /// otherwise within a piece.
    pub(crate) fn targets(&self, state: SplitState, is_piece_start: bool) -> Arc<TokenTargets> {
        self.targets.of(self, state, is_piece_start)
    }

    /// The tokens that the splitter reads from `state` and that may follow `token` in the same piece. Merges create
    /// `token`.
    pub(crate) fn successors(&self, token: u32, state: SplitState) -> Arc<Successors> {
        self.successors.of(self, token, state)
    }

    /// Removes the tokens that must not follow `token` from a set in words of a mask. Merges create `token`.
    pub(crate) fn remove_forbidden(&self, token: u32, words: &mut [u32]) {
        self.successors.remove_forbidden(self, token, words);
    }

    /// The cached pair tests of `token` as the right neighbour. Merges create `token`.
    pub(crate) fn pair_tests(&self, token: u32) -> Arc<PairTests> {
        self.successors.pair_tests(token, self.automaton.vocab_len)
    }

    /// [`SplitLiveness::completes_character`] for any characters, cached.
    pub(crate) fn completes_character(&self, token: u32, state: SplitState) -> bool {
        let key = (self.automaton.bigrams.class(token), state);
        self.completes_character.get(key).unwrap_or_else(|| {
            let found =
                self.liveness().completes_character(self, &mut CharacterMemo::default(), token, state, None);
            self.completes_character.keep(key, found, 0);
            found
        })
    }

    /// The memory of the cached data, in bytes. The automaton, the vocabulary and the trie are not counted.
    pub fn memory_usage(&self) -> usize {
        self.liveness.get().map_or(0, SplitLiveness::memory_usage)
            + self.targets.memory_usage()
            + self.successors.memory_usage()
            + self.completes_character.memory_usage()
            + self.parts.memory_usage()
            + self.properties.get().map_or(0, TokenProperties::memory_usage)
            + size_of::<Self>()
    }
}

impl fmt::Debug for CanonicalIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalIndex")
            .field("automaton", &self.automaton)
            .field("vocabulary", &self.vocabulary)
            .finish_non_exhaustive()
    }
}
