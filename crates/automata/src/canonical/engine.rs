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
use crate::StateId;

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

    /// Whether searches are among single tokens, because there are texts for which the encoder writes none. A language
    /// without limit on its states may have no end of them.
    pub fn is_by_tokens(&self) -> bool {
        !self.lazy.is_regular()
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

    /// Whether there is any sequence.
    pub fn has_any<L: LazyDfa>(&self, language: &L, memo: &mut CanonicalMemo) -> bool {
        let start = self.context(language).automata().start();
        self.query(language, memo).is_live_start(start)
    }

    /// Whether the sequence may end in `state`.
    pub fn is_accepting<L: LazyDfa>(&self, language: &L, state: &CanonicalState) -> bool {
        self.context(language).is_accepting(state)
    }

    /// O(b + d) for a token of b bytes and merge trees d deep, if the liveness of the next position is known.
    ///
    /// # Errors
    ///
    /// [`Rejected`] if no sequence goes on with `token`, or if a search would visit more positions than
    /// [`LazyDfa::most_positions`]. `state` is unchanged then.
    pub fn advance<L: LazyDfa>(
        &self,
        language: &L,
        memo: &mut CanonicalMemo,
        state: &mut CanonicalState,
        token: TokenId,
    ) -> Result<(), Rejected> {
        let context = self.context(language);
        context.advance(&mut self.query(language, memo), state, token)
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

impl CanonicalState {
    /// The same state where the state of the text has another number.
    #[must_use]
    pub fn renumbered(&self, state: StateId) -> Self {
        let mut renumbered = self.clone();
        renumbered.0.iter_mut().for_each(|at| at.position.regex = state);
        renumbered
    }
}
