//! The canonical constraint: a regular language, restricted to the tokenizer's own sequences (CartesianMerge).
//!
//! The allowed tokens are the intersection of two automata. One is the product of the constraint's DFA with the
//! splitting, read by tokens ([`super::viability::position`]). The other is the bigram relation of tokens. Whether a
//! sequence can be completed after a token depends on the position that the token leads to, not on the position
//! before it. So each position has one token set that is valid for every left context. The mask is that set without
//! the tokens that the last token forbids as its right neighbours.
//!
//! [`super::viability::lazy_product`] decides which positions are live. The states of a sequence and the steps
//! between them are in [`super::viability::sequence`].

use std::{fmt, sync::Arc};

use unskew_core::{Constraint, MaskMut, MaskRef, Rejected, TokenId, TokenMask, hashed_key};

use super::{
    CanonicalError, CanonicalScratch, CanonicalState, engine::CanonicalEngine, index::CanonicalIndex,
    viability::language::DfaLanguage,
};
use crate::{Dfa, Limits, Pattern};

/// Token sequences whose text is in a regular language and that the tokenizer itself writes for that text:
/// `encode(decode(ids)) = ids`.
///
/// Exact for byte-pair tokenizers with their pre-tokenizers and normalisers. A tokenizer that cannot be followed
/// exactly is refused with a [`CanonicalError`]. The output is a text by itself, encoded as the continuation of a
/// prompt: without the space that some tokenizers write before whole texts.
///
/// # Example
///
/// Two spellings of one text, of which the tokenizer writes one. The example of [`CanonicalIndex`] shows the way
/// from a tokenizer to a mask.
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{CanonicalConstraint, CanonicalIndex, Limits, RegexConstraint, TokenizerAutomaton};
/// use unskew_core::{Constraint, Merge, MergeTable, Tokenization, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// let [a, b, c] = ["a", "b", "c"].map(|text| builder.text(text.as_bytes()));
/// let [ab, bc] = ["ab", "bc"].map(|text| builder.text(text.as_bytes()));
/// let vocabulary = builder.build()?;
/// let mut tokenization = Tokenization::default();
/// let merges = [(a, b, ab), (b, c, bc)].map(|(left, right, result)| Merge { left, right, result });
/// tokenization.merges = MergeTable::new(merges.into())?;
/// let automaton = Arc::new(TokenizerAutomaton::new(&vocabulary, &tokenization)?);
/// let trie = Arc::new(TokenTrie::new(vocabulary)?);
/// let index = Arc::new(CanonicalIndex::new(automaton, Arc::clone(&trie))?);
///
/// // The encoder merges `a b` first, so "abc" is `ab c` and never `a bc`.
/// let canonical = CanonicalConstraint::from_choices(["abc"], &index, &Limits::default())?;
/// let mut scratch = canonical.scratch();
/// let start = canonical.start();
/// assert!(canonical.allows(&mut scratch, &start, ab) && !canonical.allows(&mut scratch, &start, a));
/// // Over all spellings, both are allowed.
/// let every = RegexConstraint::from_choices(["abc"], trie, &Limits::default())?;
/// assert!(every.allows(&mut (), &every.start(), ab) && every.allows(&mut (), &every.start(), a));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CanonicalConstraint {
    language: DfaLanguage,
    engine: CanonicalEngine,
    /// The initial content of each scratch: the mask of the start, which every output needs, and the facts found
    /// while it was computed. The masks of a scratch take up to [`Limits::mask_cache_bytes`], the rest about
    /// [`Limits::lazy_bytes`]. When one of the two limits is reached, the older half of that cache is dropped.
    initial: CanonicalScratch,
}

impl CanonicalConstraint {
    /// The constraint that the whole output matches `pattern`. The syntax is that of [`Dfa::from_pattern`].
    ///
    /// # Errors
    ///
    /// [`CanonicalError`].
    pub fn new<'t>(
        pattern: impl Into<Pattern<'t>>,
        index: &Arc<CanonicalIndex>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::of(Dfa::from_pattern(pattern, limits)?, index, limits)
    }

    /// The constraint that the whole output is one of `choices`.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`]; also for an empty list and an empty choice.
    pub fn from_choices<T: AsRef<[u8]>>(
        choices: impl IntoIterator<Item = T>,
        index: &Arc<CanonicalIndex>,
        limits: &Limits,
    ) -> Result<Self, CanonicalError> {
        Self::of(Dfa::of_choices(choices, limits)?, index, limits)
    }

    /// The constraint that the sequence is canonical. Any text is accepted.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`].
    pub fn any_text(index: &Arc<CanonicalIndex>, limits: &Limits) -> Result<Self, CanonicalError> {
        Self::new("(?s:.*)", index, limits)
    }

    /// The constraint that `dfa` accepts the whole output.
    ///
    /// Cost: O(n k) at most for n states of `dfa` and k byte classes, plus the mask of the start. That mask is kept
    /// together with the liveness that its computation found. The liveness of other positions is computed when a
    /// mask needs it.
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NothingCanonical`] if no sequence is left, and [`CanonicalError::TooManyProductStates`] if
    /// a search might visit more positions than its limit.
    pub fn from_dfa(dfa: &Dfa, index: &Arc<CanonicalIndex>, limits: &Limits) -> Result<Self, CanonicalError> {
        Self::of(dfa.clone(), index, limits)
    }

    fn of(dfa: Dfa, index: &Arc<CanonicalIndex>, limits: &Limits) -> Result<Self, CanonicalError> {
        let language = DfaLanguage::new(dfa, index, limits)?;
        let engine = CanonicalEngine::new(&language, index, limits.lazy_bytes);
        engine.lazy.check(language.context(index), limits)?;
        let mut initial = CanonicalScratch::new(limits.mask_cache_bytes);
        if engine.check_any(&language, &mut initial.memo).is_err() {
            return Err(CanonicalError::NothingCanonical { reason: language.context(index).why_nothing() });
        }
        let mut constraint = Self { language, engine, initial: initial.clone() };
        let mut mask = TokenMask::new(constraint.vocab_len());
        constraint.fill_mask(&mut initial, &constraint.start(), mask.as_mut());
        constraint.initial = initial;
        Ok(constraint)
    }

    /// The index that the constraint was built from.
    pub fn index(&self) -> &Arc<CanonicalIndex> {
        &self.engine.index
    }

    /// The number of states of the constraint's DFA.
    pub fn states(&self) -> usize {
        self.language.dfa.len()
    }

    /// The memory in bytes of the DFA, of the facts about its states, and of the initial scratch. Shared data and the
    /// scratches of callers are not counted.
    pub fn memory_usage(&self) -> usize {
        self.language.memory_usage() + self.engine.lazy.memory_usage() + self.initial.memory_usage()
    }
}

impl Constraint for CanonicalConstraint {
    type State = CanonicalState;
    type Scratch = CanonicalScratch;

    fn vocab_len(&self) -> usize {
        self.engine.index.vocabulary.len()
    }

    fn start(&self) -> CanonicalState {
        self.engine.start(&self.language)
    }

    fn scratch(&self) -> CanonicalScratch {
        self.initial.clone()
    }

    /// O(b + d) for a token of b bytes and merge trees d deep, if the liveness of the next position is precomputed.
    fn advance(
        &self,
        scratch: &mut CanonicalScratch,
        state: &mut CanonicalState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        self.engine.advance(&self.language, &mut scratch.memo, state, token)
    }

    fn is_accepting(&self, state: &CanonicalState) -> bool {
        self.engine.is_accepting(&self.language, state)
    }

    /// O(v) for v ids if the mask is in `scratch`. Otherwise one walk through the trie for a position that no mask
    /// was asked for before, and one step for each token that the last token forbids.
    fn fill_mask(&self, scratch: &mut CanonicalScratch, state: &CanonicalState, mask: MaskMut<'_>) {
        self.engine.fill_cached(&self.language, scratch, state, mask);
    }

    fn ready_mask<'a>(
        &'a self,
        scratch: &'a CanonicalScratch,
        state: &CanonicalState,
    ) -> Option<MaskRef<'a>> {
        scratch.ready_mask(state, self.vocab_len())
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, scratch: &mut CanonicalScratch, state: &CanonicalState, token: TokenId) -> bool {
        self.advance(scratch, &mut state.clone(), token).is_ok()
    }

    /// A hash of the configurations.
    fn state_key(&self, _scratch: &mut CanonicalScratch, state: &CanonicalState) -> Option<u64> {
        Some(hashed_key(state))
    }

    fn forced(&self, scratch: &mut CanonicalScratch, state: &CanonicalState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        self.engine.only(&self.language, scratch, state)
    }
}

impl fmt::Debug for CanonicalConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalConstraint")
            .field("states", &self.states())
            .field("vocabulary", &self.engine.index.vocabulary)
            .finish_non_exhaustive()
    }
}
