//! The canonical sequences of the texts of any constraint that is an exact automaton ([`LazyDfa`]): a DFA
//! ([`CanonicalConstraint`](super::CanonicalConstraint)), or the states of a parser, which are made when they are asked
//! for.

use std::sync::Arc;

use unskew_core::{MaskMut, Rejected, TokenId};

use super::{
    CanonicalState,
    index::CanonicalIndex,
    viability::{
        context::{Context, texts_of},
        language::LazyDfa,
        lazy_product::{LazyProduct, Query},
        memo::Memo,
        sequence::Viability,
    },
};

/// The canonical sequences of the texts of a [`LazyDfa`].
///
/// All questions take the automaton, so that one whose states are made on demand may lie in a scratch. One engine, and
/// one [`CanonicalMemo`], belong to one automaton.
#[derive(Debug)]
pub struct CanonicalEngine {
    pub(crate) index: Arc<CanonicalIndex>,
    pub(crate) lazy: LazyProduct,
    /// ASCII texts are in every normalisation form.
    is_ascii: bool,
}

/// The answers that were found for one automaton. It is to be dropped when the automaton numbers its states anew.
pub type CanonicalMemo = Memo;

impl CanonicalEngine {
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

    /// Whether there is any sequence; false also if a search would visit more positions than
    /// [`LazyDfa::most_positions`].
    pub fn has_any<L: LazyDfa>(&self, language: &L, memo: &mut CanonicalMemo) -> bool {
        let start = self.context(language).automata().start();
        let has_any = self.query(language, memo).is_live_start(start);
        memo.take_beyond();
        has_any
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
        // What a search that was given up has answered may be wrong, also where the token is read.
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
}
