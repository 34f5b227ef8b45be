//! The constraint: a DFA read by tokens, with the mask of each state computed once.
//!
//! The state of a sequence is the state of the DFA, four bytes. The constraint itself owns the masks, because they
//! are the same for all sequences: each is computed on its first request and then shared by all threads without a
//! lock. A budget bounds their memory. The mask of a state beyond the budget is computed into the caller's buffer on
//! each request; the result is the same.
//!
//! Tried instead: all masks in advance. For `[a-z ]{1,40}` over 128,000 tokens that is 40 walks, of which a short
//! answer needs five.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use unskew_core::{Constraint, MaskMut, MaskRef, Reach, Rejected, TokenId, Vocabulary, words_for};
use unskew_trie::{ByteSet, TokenTrie};

use crate::{Dfa, Limits, Pattern, RegexError, StateId, TokenDfa, dfa::state::StateVec};

/// Token sequences whose text is in a regular language: that of a regex, of a list of choices, or of any [`Dfa`].
///
/// All sequences that spell an accepted text are allowed, not only the one that a tokenizer would write. Tokens
/// without text, control tokens and unused ids are never allowed.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::RegexConstraint;
/// use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "b", "ab", "ba"] {
///     builder.text(text.as_bytes());
/// }
/// let constraint = RegexConstraint::for_vocabulary("(ab)+", Arc::new(builder.build()?))?;
///
/// let mut scratch = constraint.scratch();
/// let mut state = constraint.start();
/// let mut mask = TokenMask::new(constraint.vocab_len());
/// constraint.fill_mask(&mut scratch, &state, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(0), TokenId(2)]); // `a` and `ab`
///
/// constraint.advance(&mut scratch, &mut state, TokenId(2))?;
/// assert!(constraint.is_accepting(&state));
/// assert!(constraint.advance(&mut scratch, &mut state, TokenId(1)).is_err()); // `abb` is the beginning of no match
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RegexConstraint {
    tokens: TokenDfa,
    /// By state: its mask, once it was computed and kept.
    masks: StateVec<OnceLock<Box<[u32]>>>,
    /// How many masks may be kept.
    most_masks: usize,
    /// How many more masks may be kept.
    masks_left: AtomicUsize,
    /// By state: the only token that is allowed, [`SEVERAL`], or [`NOT_ASKED`].
    only: StateVec<AtomicU32>,
    /// The bytes with which texts end, once they were asked for.
    last_bytes: OnceLock<ByteSet>,
}

/// No token is forced.
const SEVERAL: u32 = u32::MAX;

/// It is not known yet whether a token is forced.
const NOT_ASKED: u32 = u32::MAX - 1;

impl RegexConstraint {
    /// The constraint that the whole output matches `pattern`; for the syntax see [`Dfa::from_pattern`]. `trie` is
    /// built once for a vocabulary and shared by all constraints over it.
    ///
    /// Cost: the costs of [`Dfa::from_pattern`] and [`TokenDfa::new`]. No mask is computed yet.
    ///
    /// # Errors
    ///
    /// [`RegexError`].
    pub fn new<'t>(
        pattern: impl Into<Pattern<'t>>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        Self::from_dfa(Arc::new(Dfa::from_pattern(pattern, limits)?), trie, limits)
    }

    /// As [`new`](Self::new) with default limits and a new trie: for a single constraint.
    ///
    /// # Errors
    ///
    /// [`RegexError`].
    pub fn for_vocabulary(pattern: &str, vocabulary: Arc<Vocabulary>) -> Result<Self, RegexError> {
        Self::new(pattern, Arc::new(TokenTrie::new(vocabulary)?), &Limits::default())
    }

    /// The constraint that the whole output is one of `choices`.
    ///
    /// # Errors
    ///
    /// [`RegexError`], also for an empty list or an empty choice.
    pub fn from_choices<T: AsRef<[u8]>>(
        choices: impl IntoIterator<Item = T>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        Self::from_dfa(Arc::new(Dfa::of_choices(choices, limits)?), trie, limits)
    }

    /// The constraint that `dfa` accepts the whole output. One DFA can serve several vocabularies.
    ///
    /// # Errors
    ///
    /// The errors of [`TokenDfa::new`].
    pub fn from_dfa(dfa: Arc<Dfa>, trie: Arc<TokenTrie>, limits: &Limits) -> Result<Self, RegexError> {
        let tokens = TokenDfa::new(dfa, trie, limits)?;
        let masks = tokens.dfa().states().map(|_| OnceLock::new()).collect();
        let mask_bytes = words_for(tokens.vocabulary().len()) * size_of::<u32>();
        let most_masks = limits.mask_cache_bytes / mask_bytes.max(1);
        let masks_left = AtomicUsize::new(most_masks);
        let only = tokens.dfa().states().map(|_| AtomicU32::new(NOT_ASKED)).collect();
        Ok(Self { tokens, masks, most_masks, masks_left, only, last_bytes: OnceLock::new() })
    }

    /// The automaton through which the constraint reads tokens.
    pub fn tokens(&self) -> &TokenDfa {
        &self.tokens
    }

    /// The memory of the DFA and of the kept masks, in bytes. The shared vocabulary and its trie are not counted. O(1).
    pub fn memory_usage(&self) -> usize {
        let dfa = self.tokens.dfa();
        let masks = self.most_masks - self.masks_left.load(Ordering::Relaxed);
        let kept = masks * words_for(self.vocab_len()) * size_of::<u32>();
        dfa.memory_usage() + dfa.len() * (size_of::<OnceLock<Box<[u32]>>>() + size_of::<AtomicU32>()) + kept
    }

    /// The kept mask of `state`, computed now if it is new; `None` if the budget has no room for it.
    fn kept_mask(&self, state: StateId) -> Option<MaskRef<'_>> {
        let mask = &self.masks[state];
        if let Some(words) = mask.get() {
            return Some(MaskRef::new(words, self.vocab_len()));
        }
        self.masks_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .ok()?;
        let mut computed = false;
        let words = mask.get_or_init(|| {
            computed = true;
            let mut words = vec![0; words_for(self.vocab_len())];
            self.tokens.fill_mask(state, MaskMut::new(&mut words, self.vocab_len()));
            words.into()
        });
        if !computed {
            // Another thread was faster and has used its own share of the budget.
            self.masks_left.fetch_add(1, Ordering::Relaxed);
        }
        Some(MaskRef::new(words, self.vocab_len()))
    }
}

impl Constraint for RegexConstraint {
    type State = StateId;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.tokens.vocabulary().len()
    }

    fn start(&self) -> StateId {
        self.tokens.start()
    }

    fn scratch(&self) {}

    #[inline]
    fn advance(&self, (): &mut (), state: &mut StateId, token: TokenId) -> Result<(), Rejected> {
        *state = self.tokens.step(*state, token).ok_or(Rejected::new(token))?;
        Ok(())
    }

    fn is_accepting(&self, state: &StateId) -> bool {
        self.tokens.is_accepting(*state)
    }

    /// O(v) for v ids if the mask is kept, else as [`TokenDfa::fill_mask`].
    fn fill_mask(&self, (): &mut (), state: &StateId, mut mask: MaskMut<'_>) {
        match self.kept_mask(*state) {
            Some(kept) => mask.copy_from(kept),
            None => self.tokens.fill_mask(*state, mask),
        }
    }

    /// Computes the mask on the first request; `None` if the budget for masks is used up.
    fn ready_mask<'a>(&'a self, (): &'a (), state: &StateId) -> Option<MaskRef<'a>> {
        self.kept_mask(*state)
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, (): &mut (), state: &StateId, token: TokenId) -> bool {
        self.tokens.step(*state, token).is_some()
    }

    /// The number of the state.
    fn state_key(&self, (): &mut (), state: &StateId) -> Option<u64> {
        Some(u64::from(state.0))
    }

    /// A walk that ends at the second allowed token. The answer is kept for each state.
    fn forced(&self, (): &mut (), state: &StateId) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        // Threads that compute this at the same time get the same answer.
        let known = &self.only[*state];
        let mut only = known.load(Ordering::Relaxed);
        if only == NOT_ASKED {
            only = self.tokens.only(*state).map_or(SEVERAL, |token| token.0);
            known.store(only, Ordering::Relaxed);
        }
        (only < NOT_ASKED).then_some(TokenId(only))
    }

    fn reach(&self, (): &mut (), state: &StateId, text: &[u8]) -> Option<Reach> {
        let dfa = self.tokens.dfa();
        let (mut at, mut len) = (*state, 0);
        while let Some(next) = text.get(len).and_then(|byte| dfa.step(at, *byte)) {
            (at, len) = (next, len + 1);
        }
        Some(Reach { len, is_accepting: dfa.is_accepting(at) })
    }

    fn may_end_with(&self, byte: u8) -> bool {
        self.last_bytes.get_or_init(|| self.tokens.dfa().last_bytes()).contains(byte)
    }
}

impl fmt::Debug for RegexConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegexConstraint")
            .field("dfa", self.tokens.dfa())
            .field("vocabulary", self.tokens.vocabulary())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight threads ask for the masks of all states at once, with room for half of the masks, or for all.
    #[test]
    fn the_budget_holds_among_threads() {
        let mut builder = Vocabulary::builder();
        (b'a'..=b'z').for_each(|byte| _ = builder.text(&[byte]));
        let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
        for room in [32, 64] {
            let limits = Limits { mask_cache_bytes: room * size_of::<u32>(), ..Limits::default() };
            let constraint = RegexConstraint::new("[a-z]{63}", Arc::clone(&trie), &limits).unwrap();
            let empty = constraint.memory_usage();
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for state in constraint.tokens().dfa().states() {
                            let expected = if constraint.is_accepting(&state) { 0 } else { 26 };
                            let mut mask = unskew_core::TokenMask::new(26);
                            constraint.fill_mask(&mut (), &state, mask.as_mut());
                            assert_eq!(mask.count(), expected);
                        }
                    });
                }
            });
            // Every thread that lost a race has returned its share, so that the whole budget is usable now.
            constraint.tokens().dfa().states().for_each(|state| _ = constraint.ready_mask(&(), &state));
            assert_eq!(constraint.memory_usage() - empty, room * size_of::<u32>());
        }
    }
}
