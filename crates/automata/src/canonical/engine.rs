//! The canonical sequences of the texts of any constraint that is an exact automaton ([`LazyDfa`]): a DFA
//! ([`CanonicalConstraint`](super::CanonicalConstraint)), or the states of a parser, which are made when they are
//! asked for.

use std::{fmt, sync::Arc};

use unskew_core::{Generations, MaskMut, MaskRef, Rejected, TokenId, TokenMask};

use super::{
    CanonicalError, CanonicalState, NothingCanonical,
    index::CanonicalIndex,
    viability::{
        context::{Context, texts_of},
        language::LazyDfa,
        lazy_product::{LazyProduct, OVERHEAD, Query},
        memo::Memo,
        sequence::Viability,
    },
};

/// The canonical sequences of the texts of a [`LazyDfa`].
///
/// All questions take the automaton, so that one whose states are made on demand may lie in a scratch. One engine,
/// and one [`CanonicalMemo`], belong to one automaton.
#[derive(Debug)]
pub struct CanonicalEngine {
    pub(crate) index: Arc<CanonicalIndex>,
    pub(crate) lazy: LazyProduct,
    /// ASCII texts are in every normalisation form.
    is_ascii: bool,
}

/// The answers that were found for one automaton. It is to be dropped when the automaton numbers its states anew.
pub type CanonicalMemo = Memo;

/// Cache of one thread: masks by state, and the answers that were found on the way.
#[derive(Clone)]
pub struct CanonicalScratch {
    masks: Generations<CanonicalState, CachedMask>,
    /// The answers.
    pub memo: CanonicalMemo,
}

#[derive(Clone, Debug)]
struct CachedMask {
    words: Box<[u32]>,
    /// The token, if the mask has exactly one.
    only: Option<TokenId>,
}

impl CanonicalScratch {
    /// An empty scratch, whose masks take at most `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self { masks: Generations::new(bytes), memo: Memo::default() }
    }

    /// The memory of the masks and of the cached answers, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.memo.bytes() + self.masks.bytes()
    }

    /// The mask of `state` over `len` ids, if it is here.
    pub fn ready_mask(&self, state: &CanonicalState, len: usize) -> Option<MaskRef<'_>> {
        Some(MaskRef::new(&self.masks.peek(state)?.words, len))
    }
}

impl fmt::Debug for CanonicalScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanonicalScratch").field("masks", &self.masks.len()).finish_non_exhaustive()
    }
}

impl CanonicalEngine {
    /// The index that the engine was made from.
    pub fn index(&self) -> &Arc<CanonicalIndex> {
        &self.index
    }

    /// The memory in bytes, without the index.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.lazy.memory_usage()
    }

    /// The engine for `language`, whose memos have at most `bytes`.
    pub fn new<L: LazyDfa>(language: &L, index: &Arc<CanonicalIndex>, bytes: usize) -> Self {
        let is_ascii = language.bytes().iter().all(|byte| byte.is_ascii());
        let context = Context { language, form: texts_of(index, is_ascii), index };
        Self { lazy: LazyProduct::new(context, bytes), index: Arc::clone(index), is_ascii }
    }

    pub(crate) fn context<'a, L: LazyDfa>(&'a self, language: &'a L) -> Context<'a, L> {
        Context { language, form: texts_of(&self.index, self.is_ascii), index: &self.index }
    }

    pub(crate) fn query<'a, L: LazyDfa>(&'a self, language: &'a L, memo: &'a mut Memo) -> Query<'a, L> {
        self.lazy.query(self.context(language), memo)
    }

    /// The state of the empty sequence.
    pub fn start<L: LazyDfa>(&self, language: &L) -> CanonicalState {
        self.context(language).start()
    }

    /// Checks that there is a sequence, or that a search would visit more positions than [`LazyDfa::most_positions`].
    ///
    /// # Errors
    ///
    /// [`CanonicalError::NothingCanonical`].
    pub fn check_any<L: LazyDfa>(
        &self,
        language: &L,
        memo: &mut CanonicalMemo,
    ) -> Result<(), CanonicalError> {
        let start = self.context(language).automata().start();
        let has_any = self.query(language, memo).is_live_start(start);
        match memo.take_beyond() || has_any {
            true => Ok(()),
            false => Err(CanonicalError::NothingCanonical { reason: NothingCanonical::Rewritten }),
        }
    }

    /// Whether the sequence may end in `state`.
    pub fn is_accepting<L: LazyDfa>(&self, language: &L, state: &CanonicalState) -> bool {
        self.context(language).is_accepting(state)
    }

    /// O(b + d) for a token of b bytes and merge trees d deep, if the liveness of the next position is known.
    ///
    /// # Errors
    ///
    /// [`Rejected`] if no sequence goes on with `token`; with that name as the limit, and an empty memo, if a search
    /// would visit more positions than [`LazyDfa::most_positions`]. `state` is unchanged then.
    pub fn advance<L: LazyDfa>(
        &self,
        language: &L,
        memo: &mut CanonicalMemo,
        state: &mut CanonicalState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let mut next = state.clone();
        let read = self.context(language).advance(&mut self.query(language, memo), &mut next, token);
        // A search that was given up may have answered wrongly. The token may be read all the same.
        if memo.take_beyond() {
            return Err(Rejected::beyond(token, "LazyDfa::most_positions"));
        }
        read?;
        *state = next;
        Ok(())
    }

    /// Sets `mask` to the tokens that may follow. Answers whether no search would visit more positions than
    /// [`LazyDfa::most_positions`]; otherwise the mask has too few tokens, and the memo is empty.
    pub fn fill_mask<L: LazyDfa>(
        &self,
        language: &L,
        memo: &mut CanonicalMemo,
        state: &CanonicalState,
        mask: MaskMut<'_>,
    ) -> bool {
        self.context(language).fill_mask(&mut self.query(language, memo), state, mask);
        !memo.take_beyond()
    }

    /// As [`fill_mask`](Self::fill_mask), where `scratch` keeps the mask.
    pub fn fill_cached<L: LazyDfa>(
        &self,
        language: &L,
        scratch: &mut CanonicalScratch,
        state: &CanonicalState,
        mut mask: MaskMut<'_>,
    ) -> bool {
        if let Some(kept) = scratch.masks.get(state) {
            mask.copy_from(MaskRef::new(&kept.words, mask.len()));
            return true;
        }
        if !self.fill_mask(language, &mut scratch.memo, state, mask.reborrow()) {
            return false;
        }
        let mut ids = mask.as_ref().into_ids();
        let only = ids.next().filter(|_| ids.next().is_none());
        drop(ids);
        let words: Box<[u32]> = mask.as_ref().words().into();
        let bytes = OVERHEAD + size_of_val(&words[..]);
        scratch.masks.insert(state.clone(), CachedMask { words, only }, bytes);
        true
    }

    /// The only token that may follow in a state that does not accept.
    pub fn only<L: LazyDfa>(
        &self,
        language: &L,
        scratch: &mut CanonicalScratch,
        state: &CanonicalState,
    ) -> Option<TokenId> {
        if let Some(kept) = scratch.masks.get(state) {
            return kept.only;
        }
        let mut mask = TokenMask::new(self.index.vocabulary.len());
        self.fill_cached(language, scratch, state, mask.as_mut());
        scratch.masks.get(state)?.only
    }
}
