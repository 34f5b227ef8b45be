//! The tokens that may precede a state of the product without leading to a dead end.
//!
//! In a state within a piece, the continuation depends on the previous token only through the right neighbours that
//! it forbids. If the piece or the text can end here, every token may precede. Otherwise some token must follow in
//! the same piece, so a token may precede if it does not forbid all viable tokens. After `will`, the viable tokens
//! for `williams` are `i`, `ia`, `iams` and so on. If `williams` is one token, `will` forbids them all.
//!
//! So each state has a set of tokens that may precede it. These sets are the least fixpoint: they grow from empty
//! sets until nothing changes. States near an accepting state come first, so one round settles nearly all states,
//! and a few steps through the trie settle a state. Tried instead: the published way, a forward and backward search
//! over all pairs of a state of the constraint and a state of the tokenizer. It took 27 seconds for one constraint.

use unskew_core::{MaskMut, TokenId, words_for};
use unskew_trie::{ByteAutomaton, Verdict};

use super::product::Product;
use crate::{
    canonical::{index::CanonicalIndex, merges::derivation::NONE, tokenizer::automaton::Role},
    ids::{Id, ProductState, Table, WholeNode},
};

/// The tokens that may precede a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// All tokens. For a piece start: it is live.
    Any,
    /// No token: the state has no viable successor. No token of its piece precedes a piece start; `None` means there
    /// that it is not live.
    None,
    /// The tokens that may be followed by one of these.
    FollowedBy(Box<[u32]>),
    /// All tokens except these, in ascending order.
    Except(Box<[u32]>),
}

/// For each state of a product, the tokens that may precede it.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    pub(crate) before: Table<ProductState, Before>,
    /// By state: whether the piece may end here. That is so if the text ends, another piece begins, or an added
    /// token follows.
    pub(crate) boundary: Table<ProductState, bool>,
}

/// The queries on a product and its completion. The fixpoint computation and finished constraints share them.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) product: &'a Product,
    pub(crate) index: &'a CanonicalIndex,
    pub(crate) completion: &'a Completion,
}

impl Completion {
    pub(crate) fn memory_usage(&self) -> usize {
        let lists = self.before.entries().iter().map(|before| match before {
            Before::Any | Before::None => 0,
            Before::FollowedBy(tokens) | Before::Except(tokens) => size_of_val(&tokens[..]),
        });
        self.before.len() * (size_of::<Before>() + 1) + lists.sum::<usize>()
    }
}

impl Search<'_> {
    /// Whether `state` is live when `token` precedes it in the same piece.
    #[inline]
    pub(crate) fn may_precede(&self, token: u32, state: ProductState) -> bool {
        match &self.completion.before[state] {
            Before::Any => true,
            Before::None => false,
            Before::FollowedBy(tokens) => {
                tokens.iter().any(|next| self.index.automaton.bigrams.may_follow(token, *next))
            }
            Before::Except(tokens) => tokens.binary_search(&token).is_err(),
        }
    }

    /// Whether `state` is live after `node` of the trie of whole pieces.
    pub(crate) fn may_precede_node(&self, node: WholeNode, state: ProductState) -> bool {
        let whole = &self.index.automaton.whole;
        let may_end = !whole.is_complete(node) && self.completion.boundary[state];
        if may_end || Some(state) == self.product.continuing_end {
            return true;
        }
        let last = whole.token(node);
        if !self.may_precede(last, state) {
            return false;
        }
        let is_viable = |token: u32, after: ProductState| {
            self.index.automaton.roles[token as usize] != Role::Whole
                && self.index.automaton.bigrams.may_follow(last, token)
                && match whole.child(node, token) {
                    Some(child) => self.may_precede_node(child, after),
                    None => self.may_precede(token, after),
                }
        };
        // Symbols are few, and in a wide state one of them succeeds.
        for (byte, symbol) in
            (0..=255u8).zip(&self.index.automaton.symbols).filter(|(_, symbol)| **symbol != NONE)
        {
            if self.product.step(state, byte).is_some_and(|after| is_viable(*symbol, after)) {
                return true;
            }
        }
        self.any_token(state, is_viable)
    }

    /// Whether `token`, as the first token of a piece, leads to `state` without a dead end.
    #[inline]
    pub(crate) fn may_begin(&self, token: u32, state: ProductState) -> bool {
        match self.index.automaton.roles[token as usize] {
            Role::Merged | Role::Fallback => match self.index.automaton.whole.child(WholeNode::ROOT, token) {
                Some(node) => self.may_precede_node(node, state),
                None => self.may_precede(token, state),
            },
            Role::Whole => self.completion.boundary[state],
            Role::Never => false,
        }
    }

    /// Calls `visit` with the tokens that can be read from `state` and the states after them, until it returns true.
    /// Returns whether it did. Fallback tokens are included. `visit` decides whether a token is viable.
    pub(crate) fn any_token(
        &self,
        state: ProductState,
        mut visit: impl FnMut(u32, ProductState) -> bool,
    ) -> bool {
        for (byte, token) in (0..=255u8).zip(&self.index.automaton.fallback) {
            let after = self.product.step_fallback(state, byte).filter(|_| *token != NONE);
            if after.is_some_and(|after| visit(*token, after)) {
                return true;
            }
        }
        let roles = &self.index.automaton.roles;
        self.index.trie.any(
            state,
            |state, byte| self.product.step(state, byte),
            |token, after| {
                // A vocabulary may have more ids than its tokenizer.
                let role = roles.get(token.index()).copied().unwrap_or(Role::Never);
                matches!(role, Role::Merged | Role::Whole) && visit(token.0, after)
            },
        )
    }

    /// The tokens that can be read from `state` and lead to live states, for any left context: one bit each, in
    /// words of a mask over the vocabulary. Added tokens are not included.
    pub(crate) fn token_set(&self, state: ProductState) -> Vec<u32> {
        self.token_set_seeing(state, |_| ())
    }

    /// As [`token_set`](Self::token_set). Calls `seen` with the states in which tokens end.
    pub(crate) fn token_set_seeing(&self, state: ProductState, seen: impl Fn(ProductState)) -> Vec<u32> {
        let len = self.index.vocabulary.len();
        let mut words = vec![0u32; words_for(len)];
        let mut mask = MaskMut::new(&mut words, len);
        self.index.trie.fill(&mut Reader { search: *self, seen: &seen }, state.raw(), mask.reborrow());
        // The trie also has unreachable tokens and fallback tokens, which are read through another table.
        let merged = self.index.automaton.merged.iter().copied().chain(std::iter::repeat(0));
        words.iter_mut().zip(merged).for_each(|(word, merged)| *word &= merged);
        let mut set = |token: u32, allowed: bool| {
            let (word, bit) = (&mut words[token as usize / 32], 1 << (token % 32));
            if allowed { *word |= bit } else { *word &= !bit }
        };
        if !self.product.fallback.is_empty() {
            for (byte, token) in
                (0..=255u8).zip(&self.index.automaton.fallback).filter(|(_, token)| **token != NONE)
            {
                let after = self.product.step_fallback(state, byte);
                set(*token, after.is_some_and(|after| self.may_precede(*token, after)));
            }
        }
        if self.product.at_piece_start[state.index()] {
            let read = |token: u32| self.product.run(state, self.index.vocabulary.text(TokenId(token))?);
            for (token, _) in self.index.automaton.whole.children(WholeNode::ROOT) {
                if self.index.automaton.roles[*token as usize] == Role::Merged {
                    set(*token, read(*token).is_some_and(|after| self.may_begin(*token, after)));
                }
            }
            for token in &self.index.automaton.only_whole {
                set(*token, read(*token).is_some_and(|after| self.may_begin(*token, after)));
            }
        }
        words
    }
}

/// The product as an automaton that the trie reads.
struct Reader<'a, F> {
    search: Search<'a>,
    seen: &'a F,
}

impl<F: Fn(ProductState)> ByteAutomaton for Reader<'_, F> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.search.product.classes[usize::from(byte)]
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.search.product.next_entry(state, byte)
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        let state = ProductState::of(state);
        (self.seen)(state);
        match self.search.completion.before[state] {
            Before::Any => Verdict::All,
            Before::None => Verdict::None,
            Before::FollowedBy(_) | Before::Except(_) => Verdict::Each,
        }
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        // Other tokens are removed from the row afterwards.
        self.search.index.automaton.is_merged(token.0)
            && self.search.may_precede(token.0, ProductState::of(state))
    }
}
