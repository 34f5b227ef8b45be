//! The constraint of a pattern whose DFA is too large to build: it follows sets of NFA states along tokens.
//!
//! The state of a sequence is the set of NFA states that read its next byte. The NFA is trimmed first, so that each
//! of its transitions can reach acceptance. So a non-empty set is never a dead end, and a mask needs no look-ahead.
//!
//! Sets leave out members whose language another member includes (`inclusion`, `closures`): the sets of a chain of
//! optional parts have a few members for any length of the chain, and a bounded repetition is in one of its copies.
//!
//! **Masks** are walks over the vocabulary through a lazily built DFA. This DFA is not the pattern's. A mask does not
//! depend on whether a text may end, so a set also leaves out a member if another member reads all texts that it can
//! read: if some member is the loop of a `.*`, the thousand words that might begin at any place do not count.
//! `(a|b)*a(a|b){20}` has a million states, and masks see one. A simulation with a bounded number of steps decides
//! whether one member reads all that another reads; a pair that it does not decide within the bound counts as
//! incomparable, which costs time and changes no mask.
//!
//! The [`LazyScratch`] owns the cache, in bounded memory and in two halves. When the younger half is full, the older
//! half is dropped, and the younger becomes the older; entries of the older half that are used move to the younger
//! one. A mask that does not fit even then is a walk that keeps only the sets along one token.
//!
//! Tried instead: the same with whole sets. The first mask of `.*(w1|…|w2000).*` then builds 3,000 sets of 2,000
//! members.

mod closures;
mod inclusion;
mod walk;

use std::{fmt, sync::Arc};

use unskew_core::{Constraint, MaskMut, MaskRef, Reach, Rejected, TokenId, WORD_BITS, hashed_key};
use unskew_trie::TokenTrie;

use self::{
    closures::Closures,
    walk::{Cache, Walk, Work},
};
use crate::{
    Limits, Pattern, RegexError,
    dfa::{
        ByteClasses, Cuts,
        closure::{ACCEPTING, Closure},
        determinize::cut,
        nfa::{Nfa, NfaId, NfaState, Transition},
    },
    regex::parse,
};

/// Token sequences whose text matches a pattern, with states that are built when they are reached: for the patterns
/// whose DFA exceeds the [`Limits`]. For all others [`RegexConstraint`](crate::RegexConstraint) is faster;
/// [`regex`](crate::regex()) chooses.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{Dfa, LazyRegexConstraint, Limits};
/// use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "b", "ab"] {
///     builder.text(text.as_bytes());
/// }
/// let trie = Arc::new(TokenTrie::new(builder.build()?)?);
///
/// // Two million states: which of the last 21 letters were `a`.
/// let (pattern, limits) = ("(a|b)*a(a|b){20}", Limits::default());
/// assert!(Dfa::from_pattern(pattern, &limits).is_err());
/// let constraint = LazyRegexConstraint::new(pattern, trie, &limits)?;
///
/// let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
/// constraint.advance(&mut scratch, &mut state, TokenId(0))?;
/// for _ in 0..20 {
///     assert!(!constraint.is_accepting(&state));
///     constraint.advance(&mut scratch, &mut state, TokenId(1))?;
/// }
/// assert!(constraint.is_accepting(&state));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LazyRegexConstraint {
    nfa: Nfa,
    classes: ByteClasses,
    start: LazyState,
    closures: Closures,
    trie: Arc<TokenTrie>,
    cache_bytes: usize,
}

/// The state of a sequence under a [`LazyRegexConstraint`]. Cloning it copies a pointer. Equal states allow the same
/// sequences; states that allow the same sequences may differ.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LazyState(Arc<[u32]>);

impl LazyState {
    /// The number of NFA states that may read the next byte, without those that others include. The cost of a step
    /// grows with it.
    pub fn members(&self) -> usize {
        self.0.strip_suffix(&[ACCEPTING]).unwrap_or(&self.0).len()
    }
}

/// The buffers and the cache of a [`LazyRegexConstraint`]: four bytes for each state of the NFA, and up to about
/// [`Limits::lazy_bytes`].
pub struct LazyScratch {
    work: Work,
    cache: Cache,
    /// The older half of the cache: a DFA with state numbers of its own.
    old: Cache,
}

impl LazyScratch {
    /// The memory of the buffers and the cache, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.cache.memory_usage() + self.old.memory_usage() + self.work.memory_usage()
    }
}

impl LazyRegexConstraint {
    /// The constraint that the whole output matches `pattern`; for the syntax see
    /// [`Dfa::from_pattern`](crate::Dfa::from_pattern).
    ///
    /// Cost: O(n) for n states and transitions of the NFA, which [`Limits::nfa_size`] bounds.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: syntax, an unsupported construct, a limit on the NFA, or a pattern that matches nothing;
    /// and [`RegexError::SpellingTooCostly`] if a byte that the pattern uses is not a
    /// token: to find the states that tokens can complete, every state would have to be built.
    pub fn new<'t>(
        pattern: impl Into<Pattern<'t>>,
        trie: Arc<TokenTrie>,
        limits: &Limits,
    ) -> Result<Self, RegexError> {
        let nfa = Nfa::new(&parse(pattern, limits)?.plain()?, limits.nfa_size)?;
        Self::from_nfa(nfa, trie, limits)
    }

    pub(super) fn from_nfa(nfa: Nfa, trie: Arc<TokenTrie>, limits: &Limits) -> Result<Self, RegexError> {
        let (nfa, accepts) = nfa.trimmed();
        let mut closure = Closure::new(nfa.len());
        closure.run(&nfa, &[nfa.start()], true);
        if closure.set.is_empty() {
            return Err(RegexError::MatchesNothing);
        }
        let mut used = [false; 256];
        for transition in nfa.transitions() {
            used[usize::from(transition.first)..=usize::from(transition.last)].fill(true);
        }
        for (_, text) in trie.vocabulary().text_tokens() {
            if let [byte] = text {
                used[usize::from(*byte)] = false;
            }
        }
        let missing = used.iter().filter(|missing| **missing).count();
        if missing > 0 {
            return Err(RegexError::SpellingTooCostly { limit: limits.spelling_steps, missing });
        }
        let mut cuts = Cuts::default();
        cut(nfa.transitions(), &mut cuts);
        let closures = Closures::new(&nfa, accepts, limits)?;
        let mut start = closure.set;
        let may_end = start.pop_if(|last| *last == ACCEPTING);
        closures.reduce(&nfa, &mut start);
        start.extend(may_end);
        let start = LazyState(Arc::from(start));
        Ok(Self { nfa, classes: cuts.to_classes(), start, closures, trie, cache_bytes: limits.lazy_bytes })
    }

    /// The memory of the NFA, in bytes. Scratches and the shared vocabulary and trie are not counted.
    pub fn memory_usage(&self) -> usize {
        self.nfa.memory_usage() + self.closures.memory_usage()
    }

    /// Computes into `work.set` the set after `text`, from `set`. Returns false if that set is empty.
    fn run(&self, work: &mut Work, set: &[u32], text: &[u8]) -> bool {
        for (index, byte) in text.iter().enumerate() {
            let mut targets = std::mem::take(&mut work.targets);
            targets.clear();
            let members = if index == 0 { set } else { &work.set };
            self.targets(members, *byte, &mut targets);
            self.closures.of(&self.nfa, &targets, &mut work.walk, &mut work.set);
            work.targets = targets;
            if work.targets.is_empty() {
                return false;
            }
        }
        true
    }

    /// Computes into `targets` the targets of `byte` from the members of `set`: sorted, without duplicates.
    fn targets(&self, set: &[u32], byte: u8, targets: &mut Vec<NfaId>) {
        targets.clear();
        for member in set.iter().filter(|member| **member != ACCEPTING) {
            let transitions = reads(&self.nfa, *member);
            let at = transitions.partition_point(|transition| transition.last < byte);
            targets.extend(
                transitions
                    .get(at)
                    .filter(|transition| transition.first <= byte)
                    .map(|transition| transition.next),
            );
        }
        targets.sort_unstable();
        targets.dedup();
    }

    /// The text of `token`. `None` if it is empty or the token has no text.
    fn text(&self, token: TokenId) -> Option<&[u8]> {
        self.trie.vocabulary().text(token).filter(|text| !text.is_empty())
    }

    /// The mask of `set`, by a walk that keeps only the sets along one token.
    fn fill_uncached(&self, work: &mut Work, set: &[u32], mask: &mut MaskMut<'_>) {
        let mut sets: Vec<Vec<u32>> = vec![set.to_vec()];
        self.trie.walk(
            0usize,
            |depth, byte| {
                let (before, after) = sets.split_at_mut(depth + 1);
                if !self.run(work, &before[depth], &[byte]) {
                    return None;
                }
                match after.first_mut() {
                    Some(next) => next.clone_from(&work.set),
                    None => sets.push(work.set.clone()),
                }
                Some(depth + 1)
            },
            |token, _| mask.insert(token),
        );
    }
}

/// The transitions of a member of a set.
fn reads(nfa: &Nfa, member: u32) -> &[Transition] {
    match nfa.state(NfaId(member)) {
        NfaState::Bytes { first, last } => nfa.bytes(first, last),
        _ => unreachable!("the members of a set read a byte"),
    }
}

impl Constraint for LazyRegexConstraint {
    type State = LazyState;
    type Scratch = LazyScratch;

    fn vocab_len(&self) -> usize {
        self.trie.vocab_len()
    }

    fn start(&self) -> LazyState {
        self.start.clone()
    }

    fn scratch(&self) -> LazyScratch {
        LazyScratch { work: Work::default(), cache: Cache::default(), old: Cache::default() }
    }

    /// O(b n) for a token of b bytes and a set of n NFA states.
    fn advance(
        &self,
        scratch: &mut LazyScratch,
        state: &mut LazyState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let text = self.text(token).ok_or(Rejected::new(token))?;
        if !self.run(&mut scratch.work, &state.0, text) {
            return Err(Rejected::new(token));
        }
        *state = LazyState(Arc::from(&scratch.work.set[..]));
        Ok(())
    }

    fn is_accepting(&self, state: &LazyState) -> bool {
        state.0.last() == Some(&ACCEPTING)
    }

    fn fill_mask(&self, scratch: &mut LazyScratch, state: &LazyState, mut mask: MaskMut<'_>) {
        let LazyScratch { work, cache, old } = scratch;
        if cache.bytes > self.cache_bytes / 2 {
            *old = std::mem::take(cache);
        }
        let mut walk = Walk { constraint: self, work, cache, old, overflow: false };
        let id = walk.state_of_whole(&state.0);
        if let Some(words) = walk.cache.masks.get(&id) {
            mask.copy_from(MaskRef::new(words, self.vocab_len()));
            return;
        }
        if let Some(words) = walk.old.of_whole.get(&state.0).and_then(|id| walk.old.masks.get(id)) {
            mask.copy_from(MaskRef::new(words, self.vocab_len()));
        } else {
            mask.clear();
            self.trie.fill(&mut walk, id, mask.reborrow());
        }
        if walk.overflow {
            // A single mask takes more than the younger half, so the older half is empty already.
            *walk.cache = Cache::default();
            mask.clear();
            self.fill_uncached(walk.work, &state.0, &mut mask);
        } else {
            let words = mask.as_ref().words();
            cache.count(words);
            cache.masks.insert(id, words.into());
        }
    }

    /// Reads the token's bytes; no mask is computed.
    fn allows(&self, scratch: &mut LazyScratch, state: &LazyState, token: TokenId) -> bool {
        self.text(token).is_some_and(|text| self.run(&mut scratch.work, &state.0, text))
    }

    /// A hash of the set of NFA states.
    fn state_key(&self, _scratch: &mut LazyScratch, state: &LazyState) -> Option<u64> {
        Some(hashed_key(&state.0))
    }

    fn reach(&self, scratch: &mut LazyScratch, state: &LazyState, text: &[u8]) -> Option<Reach> {
        let mut at = state.clone();
        for (len, byte) in text.iter().enumerate() {
            if !self.run(&mut scratch.work, &at.0, std::slice::from_ref(byte)) {
                return Some(Reach { len, is_accepting: self.is_accepting(&at) });
            }
            at = LazyState(Arc::from(&scratch.work.set[..]));
        }
        Some(Reach { len: text.len(), is_accepting: self.is_accepting(&at) })
    }

    /// Reads the state's mask, which is kept: O(v) for v ids, without an allocation if the mask was computed before.
    fn forced(&self, scratch: &mut LazyScratch, state: &LazyState) -> Option<TokenId> {
        if self.is_accepting(state) {
            return None;
        }
        let id = scratch.cache.of_whole.get(&state.0);
        let words = match id.and_then(|id| scratch.cache.masks.get(id)) {
            Some(words) => words,
            None => {
                let mut mask = unskew_core::TokenMask::new(self.vocab_len());
                self.fill_mask(scratch, state, mask.as_mut());
                return only(mask.words());
            }
        };
        only(words)
    }
}

/// The only bit that is set, if there is exactly one.
fn only(words: &[u32]) -> Option<TokenId> {
    let mut found = words.iter().enumerate().filter(|(_, word)| **word != 0);
    let (index, word) = found.next()?;
    (word.is_power_of_two() && found.next().is_none())
        .then(|| TokenId::from_index(index * WORD_BITS + word.trailing_zeros() as usize))
}

impl fmt::Debug for LazyRegexConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyRegexConstraint")
            .field("nfa_states", &self.nfa.len())
            .field("vocabulary", self.trie.vocabulary())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LazyScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyScratch")
            .field("states", &(self.cache.sets.len() + self.old.sets.len()))
            .field("bytes", &(self.cache.bytes + self.old.bytes))
            .finish_non_exhaustive()
    }
}
