//! The constraint: a DFA read by tokens, with the mask of each state computed once.
//!
//! The state of a sequence is the state of the DFA, four bytes. Masks lie in the constraint itself, because they are
//! the same for all sequences: each is computed when it is first asked for and then shared by all threads without a
//! lock. A budget bounds their memory; a state beyond it has its mask computed into the caller's buffer every time,
//! which is slower and otherwise the same.
//!
//! Tried instead: all masks up front. For `[a-z ]{1,40}` over 128,000 tokens that is 40 walks of which a short answer
//! needs five.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use unskew_core::{Constraint, MaskMut, MaskRef, Rejected, TokenId, Vocabulary, words_for};
use unskew_trie::TokenTrie;

use crate::{Dfa, Limits, RegexError, StateId, TokenDfa, dfa::state::StateVec};

/// Token sequences whose text is in a regular language: that of a regex, of a list of choices, or of any [`Dfa`].
///
/// All sequences that spell an accepted text are allowed, not only the one that a tokenizer would write. Tokens without
/// text, control tokens and unused ids never are.
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
    /// The masks that were computed and kept.
    rows: StateVec<OnceLock<Box<[u32]>>>,
    /// How many more masks may be kept.
    rows_left: AtomicUsize,
    /// By state: the only token that is allowed, [`SEVERAL`], or [`NOT_ASKED`].
    only: StateVec<AtomicU32>,
}

/// No token is forced.
const SEVERAL: u32 = u32::MAX;

/// Whether a token is forced was not asked yet.
const NOT_ASKED: u32 = u32::MAX - 1;

impl RegexConstraint {
    /// The constraint that the whole output matches `pattern`; for the syntax see [`Dfa::from_pattern`]. `trie` is
    /// built once for a vocabulary and shared by all constraints over it.
    ///
    /// Cost: that of [`Dfa::from_pattern`] and [`TokenDfa::new`]. No mask is computed yet.
    ///
    /// # Errors
    ///
    /// [`RegexError`].
    pub fn new(pattern: &str, trie: Arc<TokenTrie>, limits: &Limits) -> Result<Self, RegexError> {
        Self::from_dfa(Arc::new(Dfa::from_pattern(pattern, limits)?), trie, limits)
    }

    /// As [`new`](Self::new) with default limits and a trie of its own: for a single constraint.
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
    /// [`RegexError`]; for an empty list or an empty choice too.
    pub fn from_choices<T: AsRef<[u8]>>(
        choices: impl IntoIterator<Item = T>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        Self::from_dfa(Arc::new(Dfa::from_literals(choices, limits)?), trie, limits)
    }

    /// The constraint that `dfa` accepts the whole output. One DFA can serve several vocabularies.
    ///
    /// # Errors
    ///
    /// Those of [`TokenDfa::new`].
    pub fn from_dfa(dfa: Arc<Dfa>, trie: Arc<TokenTrie>, limits: &Limits) -> Result<Self, RegexError> {
        let tokens = TokenDfa::new(dfa, trie, limits)?;
        let rows = tokens.dfa().states().map(|_| OnceLock::new()).collect();
        let row_bytes = words_for(tokens.vocabulary().len()) * size_of::<u32>();
        let rows_left = AtomicUsize::new(limits.mask_cache_bytes / row_bytes.max(1));
        let only = tokens.dfa().states().map(|_| AtomicU32::new(NOT_ASKED)).collect();
        Ok(Self { tokens, rows, rows_left, only })
    }

    /// The automaton that the constraint reads tokens by.
    pub fn tokens(&self) -> &TokenDfa {
        &self.tokens
    }

    /// The memory of the DFA and of the masks kept so far, in bytes; the vocabulary and its trie, which are shared, are
    /// not counted.
    pub fn memory_usage(&self) -> usize {
        let dfa = self.tokens.dfa();
        let rows = dfa.states().filter_map(|state| self.rows[state].get());
        let kept: usize = rows.map(|row| size_of_val(&row[..])).sum();
        dfa.memory_usage() + dfa.len() * (size_of::<OnceLock<Box<[u32]>>>() + size_of::<AtomicU32>()) + kept
    }

    /// The kept mask of `state`, computed now if it was not; `None` if there is no memory left for it.
    fn row(&self, state: StateId) -> Option<MaskRef<'_>> {
        let row = &self.rows[state];
        if let Some(words) = row.get() {
            return Some(MaskRef::new(words, self.vocab_len()));
        }
        self.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        let mut computed = false;
        let words = row.get_or_init(|| {
            computed = true;
            let mut words = vec![0; words_for(self.vocab_len())];
            self.tokens.fill_mask(state, MaskMut::new_cleared(&mut words, self.vocab_len()));
            words.into()
        });
        if !computed {
            // Another thread was faster, and has paid.
            self.rows_left.fetch_add(1, Ordering::Relaxed);
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
        match self.row(*state) {
            Some(row) => mask.copy_from(row),
            None => self.tokens.fill_mask(*state, mask),
        }
    }

    /// Computes the mask if it was not asked for before; `None` once the memory for masks is used up.
    fn ready_mask<'a>(&'a self, (): &'a (), state: &StateId) -> Option<MaskRef<'a>> {
        self.row(*state)
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, (): &mut (), state: &StateId, token: TokenId) -> bool {
        self.tokens.step(*state, token).is_some()
    }

    /// A walk that ends at the second token that is found; remembered for each state.
    fn forced(&self, (): &mut (), state: &StateId) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        // Whoever asks at the same time finds the same.
        let known = &self.only[*state];
        let mut only = known.load(Ordering::Relaxed);
        if only == NOT_ASKED {
            only = self.tokens.only(*state).map_or(SEVERAL, |token| token.0);
            known.store(only, Ordering::Relaxed);
        }
        (only < NOT_ASKED).then_some(TokenId(only))
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

    /// Eight threads ask for the masks of all states at once, with room for half of them, or for all.
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
            // Whoever lost a race has given its share back, so that all of the room can be used now.
            constraint.tokens().dfa().states().for_each(|state| _ = constraint.ready_mask(&(), &state));
            assert_eq!(constraint.memory_usage() - empty, room * size_of::<u32>());
        }
    }
}
