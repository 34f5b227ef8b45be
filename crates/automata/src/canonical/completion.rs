//! Which tokens may stand in front of a state without leading to a dead end.
//!
//! In a state of the product inside a piece, what comes next depends on the token in front only through the neighbours that
//! it forbids. If the piece, or the text, can end here, every token is fine. Otherwise some token must follow in the same
//! piece, so a token is fine if it does not forbid all of those that lead on. For `williams` after `will` those are `i`,
//! `ia`, `iams` and so on, and `will` forbids them all where `williams` is one token.
//!
//! So each state has a set of tokens that may stand in front of it, and these sets are the least ones that fit together:
//! they grow from nothing until nothing changes. States near an accepting one come first, so that one round settles nearly
//! all, and what settles a state is found after a few steps through the trie. The published way, a search over all pairs
//! of a state of the constraint and a state of the tokenizer, forwards and backwards, took 27 seconds for a constraint.

use std::cell::Cell;

use unskew_core::{ByteAutomaton, MaskMut, TokenId, TokenTrie, Verdict, Vocabulary, words_for};

use super::{
    automaton::{Role, TokenizerAutomaton},
    derivation::NONE,
    product::{Product, Sources},
    whole::WholePieces,
};
use crate::table::DEAD;

/// Up to so many tokens that may follow are kept as they are.
const FEW: usize = 16;

/// In the first round, a state that depends on so many unsettled ones is left for the next.
const PATIENCE: u32 = 32;

/// The tokens that may stand in front of a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// All.
    Any,
    /// None: nothing leads on. (In front of a fresh state stands no token of its piece: it is `Any` where it can be
    /// completed.)
    None,
    /// Those that may be followed by one of these.
    FollowedBy(Box<[u32]>),
    /// All but these, in ascending order.
    Except(Box<[u32]>),
}

/// For each state of a product, what may stand in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    pub(crate) before: Vec<Before>,
    /// By state: whether the piece may end here: the text ends, another piece begins, or an added token follows.
    pub(crate) boundary: Vec<bool>,
}

/// The search, and what a constraint asks again later.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) product: &'a Product,
    pub(crate) tokenizer: &'a TokenizerAutomaton,
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) trie: &'a TokenTrie,
    pub(crate) completion: &'a Completion,
}

impl Completion {
    /// Cost: for each state a walk through the trie that ends as soon as the state is settled.
    pub(crate) fn new(
        product: &Product,
        tokenizer: &TokenizerAutomaton,
        vocabulary: &Vocabulary,
        trie: &TokenTrie,
    ) -> Self {
        let len = product.len();
        let sources = product.sources();
        let mut completion = Self { before: vec![Before::None; len], boundary: vec![false; len] };
        let mut open = product.by_distance.clone();
        // States whose sets may still grow: something that they depend on was not settled.
        let mut settled = vec![false; len];
        for round in 0.. {
            let mut changed = false;
            for state in &open {
                let at = *state as usize;
                let search = Search { product, tokenizer, vocabulary, trie, completion: &completion };
                let unsettled = Cell::new(0);
                let depends = |other: Option<u32>| {
                    let is_settled = other.is_some_and(|other| settled[other as usize]);
                    unsettled.set(unsettled.get() + u32::from(!is_settled));
                };
                // In the first round it is better to come back than to look through all that is not known yet.
                let tired = || round == 0 && unsettled.get() > PATIENCE;
                let boundary = search.is_boundary(*state, depends);
                let before = if boundary && !product.fresh[at] {
                    Before::Any
                } else {
                    search.before(*state, &sources, depends, tired)
                };
                changed |= before != completion.before[at] || boundary != completion.boundary[at];
                settled[at] = before == Before::Any || unsettled.get() == 0;
                completion.before[at] = before;
                completion.boundary[at] = boundary;
            }
            open.retain(|state| !settled[*state as usize]);
            if (!changed && round > 0) || open.is_empty() {
                break;
            }
        }
        completion
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let lists = self.before.iter().map(|before| match before {
            Before::Any | Before::None => 0,
            Before::FollowedBy(tokens) | Before::Except(tokens) => size_of_val(&tokens[..]),
        });
        self.before.len() * (size_of::<Before>() + 1) + lists.sum::<usize>()
    }
}

impl Search<'_> {
    /// Whether the piece may end in `state`. `depends` is told the states that the answer depends on; `None` stands for
    /// any state.
    fn is_boundary(&self, state: u32, depends: impl Fn(Option<u32>)) -> bool {
        let leads_on = |fresh: u32| {
            depends(Some(fresh));
            self.completion.before[fresh as usize] == Before::Any
        };
        let mark = self.product.mark[state as usize];
        self.product.accepting[state as usize]
            || (mark != DEAD && leads_on(mark))
            || self.product.added(state).any(|(_, behind)| leads_on(behind))
    }

    /// Whether `state` with `token` in front of it, in the same piece, can be completed.
    #[inline]
    pub(crate) fn may_precede(&self, token: u32, state: u32) -> bool {
        match &self.completion.before[state as usize] {
            Before::Any => true,
            Before::None => false,
            Before::FollowedBy(tokens) => {
                tokens.iter().any(|next| self.tokenizer.neighbours.may_follow(token, *next))
            }
            Before::Except(tokens) => tokens.binary_search(&token).is_err(),
        }
    }

    /// Whether `state` can be completed where `node` of the pieces that are looked up as a whole was reached.
    pub(crate) fn may_precede_node(&self, node: u32, state: u32) -> bool {
        let whole = &self.tokenizer.whole;
        if !whole.is_complete(node) && self.completion.boundary[state as usize] {
            return true;
        }
        let last = whole.token(node);
        if !self.may_precede(last, state) {
            return false;
        }
        let leads_on = |token: u32, behind: u32| {
            self.tokenizer.roles[token as usize] != Role::Whole
                && self.tokenizer.neighbours.may_follow(last, token)
                && match whole.child(node, token) {
                    Some(child) => self.may_precede_node(child, behind),
                    None => self.may_precede(token, behind),
                }
        };
        // Symbols are few, and in a wide state one of them does.
        for (byte, symbol) in (0..=255u8).zip(&self.tokenizer.symbols).filter(|(_, symbol)| **symbol != NONE)
        {
            let behind = self.product.step(state, byte);
            if behind != DEAD && leads_on(*symbol, behind) {
                return true;
            }
        }
        self.any_token(state, leads_on)
    }

    /// Whether `token`, as the first of a piece, leads to `state` and no dead end.
    #[inline]
    pub(crate) fn may_begin(&self, token: u32, state: u32) -> bool {
        match self.tokenizer.roles[token as usize] {
            Role::Made | Role::Fallback => match self.tokenizer.whole.child(WholePieces::ROOT, token) {
                Some(node) => self.may_precede_node(node, state),
                None => self.may_precede(token, state),
            },
            Role::Whole => self.completion.boundary[state as usize],
            Role::Never | Role::Added => false,
        }
    }

    /// Calls `visit` with the tokens that can be read from `state` and the states behind them, until it answers true.
    /// Answers whether it did. Tokens of fallback included; whether they lead on is for `visit` to say.
    pub(crate) fn any_token(&self, state: u32, mut visit: impl FnMut(u32, u32) -> bool) -> bool {
        for (byte, token) in (0..=255u8).zip(&self.tokenizer.fallback) {
            let behind = self.product.step_fallback(state, byte);
            if *token != NONE && behind != DEAD && visit(*token, behind) {
                return true;
            }
        }
        let found = Cell::new(false);
        let roles = &self.tokenizer.roles;
        self.trie.walk(
            state,
            |state, byte| {
                let next = self.product.step(state, byte);
                // Once one is found, every other prefix is left at once.
                (next != DEAD && !found.get()).then_some(next)
            },
            |token, behind| {
                // A vocabulary may have more ids than its tokenizer.
                let role = roles.get(token.index()).copied().unwrap_or(Role::Never);
                if !found.get() && matches!(role, Role::Made | Role::Whole) {
                    found.set(visit(token.0, behind));
                }
            },
        );
        found.get()
    }

    /// The tokens that can be read from `state` and lead on, whatever stands in front: one bit each, in words of a mask
    /// over the vocabulary. Added tokens are not among them.
    pub(crate) fn row(&self, state: u32) -> Vec<u32> {
        let len = self.vocabulary.len();
        let mut words = vec![0u32; words_for(len)];
        let mut mask = MaskMut::new_cleared(&mut words, len);
        self.trie.fill(&mut Reader(*self), state, mask.reborrow());
        // The trie has tokens that merges never make, and tokens of fallback, which are read otherwise.
        let made = self.tokenizer.made.iter().copied().chain(std::iter::repeat(0));
        words.iter_mut().zip(made).for_each(|(word, made)| *word &= made);
        let mut set = |token: u32, allowed: bool| {
            let (word, bit) = (&mut words[token as usize / 32], 1 << (token % 32));
            if allowed { *word |= bit } else { *word &= !bit }
        };
        if !self.product.fallback.is_empty() {
            for (byte, token) in
                (0..=255u8).zip(&self.tokenizer.fallback).filter(|(_, token)| **token != NONE)
            {
                let behind = self.product.step_fallback(state, byte);
                set(*token, behind != DEAD && self.may_precede(*token, behind));
            }
        }
        if self.product.fresh[state as usize] {
            let read = |token: u32| self.product.run(state, self.vocabulary.text(TokenId(token))?);
            for (token, _) in self.tokenizer.whole.children(WholePieces::ROOT) {
                if self.tokenizer.roles[*token as usize] == Role::Made {
                    set(*token, read(*token).is_some_and(|behind| self.may_begin(*token, behind)));
                }
            }
            for token in &self.tokenizer.only_whole {
                set(*token, read(*token).is_some_and(|behind| self.may_begin(*token, behind)));
            }
        }
        words
    }

    /// What may stand in front of `state`, as far as it is known of the states behind it. Less than that once `tired`.
    fn before(
        &self,
        state: u32,
        sources: &Sources,
        depends: impl Fn(Option<u32>),
        tired: impl Fn() -> bool,
    ) -> Before {
        if self.product.fresh[state as usize] {
            let leads_on = Cell::new(false);
            let is_node = |token: u32| self.tokenizer.whole.child(WholePieces::ROOT, token).is_some();
            self.any_token(state, |token, behind| {
                // Sequences that are written as one token are followed further than one state, so they come last.
                depends((!is_node(token)).then_some(behind));
                leads_on.set(!is_node(token) && self.may_begin(token, behind));
                leads_on.get() || tired()
            });
            if !leads_on.get() && !tired() {
                let found =
                    self.any_token(state, |token, behind| is_node(token) && self.may_begin(token, behind));
                leads_on.set(found);
            }
            // The text may end where nothing was written, or behind an added token.
            let leads_on = leads_on.get() || self.is_boundary(state, depends);
            return if leads_on { Before::Any } else { Before::None };
        }
        let leads_on = |token: u32, behind: u32| {
            depends(Some(behind));
            self.tokenizer.roles[token as usize] != Role::Whole && self.may_precede(token, behind)
        };
        // Few tokens lead on: keep them.
        let mut followers: Vec<u32> = Vec::new();
        self.any_token(state, |token, behind| {
            if leads_on(token, behind) {
                followers.push(token);
            }
            followers.len() > FEW || tired()
        });
        if followers.is_empty() {
            return Before::None;
        }
        if followers.len() <= FEW {
            return Before::FollowedBy(followers.into());
        }
        // Many do: a token that forbids all of them is rare. Of those that can stand here at all, keep those that forbid
        // every symbol that leads on.
        let mut except = self.tokenizer.ending_in(&sources.bytes(self.product, state), self.vocabulary);
        for (byte, symbol) in (0..=255u8).zip(&self.tokenizer.symbols).filter(|(_, symbol)| **symbol != NONE)
        {
            let behind = self.product.step(state, byte);
            if behind != DEAD && leads_on(*symbol, behind) {
                let forbidding = self.tokenizer.forbidding_symbol(byte);
                let mut left = 0;
                for (word, forbidding) in except.iter_mut().zip(forbidding) {
                    *word &= forbidding;
                    left |= *word;
                }
                if left == 0 {
                    return Before::Any;
                }
            }
        }
        let arriving = |token: &u32| {
            self.vocabulary
                .text(TokenId(*token))
                .is_some_and(|text| sources.arrives(self.product, state, text))
        };
        let except: Vec<u32> = bits(&except).filter(arriving).collect();
        if except.is_empty() {
            return Before::Any;
        }
        // And of these the ones that forbid all longer tokens too.
        let row = self.row(state);
        let followers: Vec<u32> = bits(&row).collect();
        let except: Vec<u32> =
            except.into_iter().filter(|before| !self.some_may_follow(*before, &row, &followers)).collect();
        if except.is_empty() {
            return Before::Any;
        }
        // Any token that does not lead on yet may do so later.
        self.any_token(state, |token, behind| {
            leads_on(token, behind);
            false
        });
        Before::Except(except.into())
    }

    /// Whether one of `followers`, which are the bits of `row`, may follow `token`.
    fn some_may_follow(&self, token: u32, row: &[u32], followers: &[u32]) -> bool {
        /// So many are tried one by one, from all over the row, before all are compared at once.
        const TRIES: usize = 24;
        let stride = followers.len() / TRIES + 1;
        let tried = followers.iter().step_by(stride);
        if tried.into_iter().any(|next| self.tokenizer.neighbours.may_follow(token, *next)) {
            return true;
        }
        if stride == 1 {
            return false;
        }
        let mut row = row.to_vec();
        self.tokenizer.neighbours.forbidden(token, |next| row[next as usize / 32] &= !(1 << (next % 32)));
        row.iter().any(|word| *word != 0)
    }
}

/// The product, read by the trie.
struct Reader<'a>(Search<'a>);

impl ByteAutomaton for Reader<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.0.product.classes[usize::from(byte)]
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.0.product.step(state, byte)
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        match self.0.completion.before[state as usize] {
            Before::Any => Verdict::All,
            Before::None => Verdict::None,
            Before::FollowedBy(_) | Before::Except(_) => Verdict::Each,
        }
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        // Other tokens are taken off the row afterwards.
        self.0.tokenizer.is_made(token.0) && self.0.may_precede(token.0, state)
    }
}

/// The positions of the bits that are set.
pub(crate) fn bits(words: &[u32]) -> impl Iterator<Item = u32> {
    let words = (0u32..).zip(words.iter().copied());
    words.flat_map(|(at, word)| {
        std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
            .take_while(|word| *word != 0)
            .map(move |word| at * 32 + word.trailing_zeros())
    })
}
