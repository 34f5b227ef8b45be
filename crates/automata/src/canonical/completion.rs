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

use std::{cell::Cell, collections::HashSet};

use unskew_core::{TokenTrie, words_for};

use super::{
    automaton::{Role, TokenizerAutomaton},
    derivation::NONE,
    product::Product,
    whole::WholePieces,
};
use crate::table::DEAD;

/// Up to so many tokens that may follow are kept as they are.
const FEW: usize = 16;

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
pub(crate) struct Search<'a> {
    pub(crate) product: &'a Product,
    pub(crate) tokenizer: &'a TokenizerAutomaton,
    pub(crate) trie: &'a TokenTrie,
    pub(crate) completion: &'a Completion,
}

impl Completion {
    /// Cost: for each state a walk through the trie that ends as soon as the state is settled.
    pub(crate) fn new(product: &Product, tokenizer: &TokenizerAutomaton, trie: &TokenTrie) -> Self {
        let len = product.len();
        let mut completion = Self { before: vec![Before::None; len], boundary: vec![false; len] };
        let mut open = product.by_distance.clone();
        // States whose sets may still grow: something that they depend on was not settled.
        let mut settled = vec![false; len];
        loop {
            let mut changed = false;
            for state in &open {
                let at = *state as usize;
                let search = Search { product, tokenizer, trie, completion: &completion };
                let unsettled = Cell::new(false);
                let depends = |other: Option<u32>| {
                    unsettled.set(unsettled.get() | other.is_none_or(|other| !settled[other as usize]));
                };
                let boundary = search.is_boundary(*state, depends);
                let before =
                    if boundary && !product.fresh[at] { Before::Any } else { search.before(*state, depends) };
                changed |= before != completion.before[at] || boundary != completion.boundary[at];
                settled[at] = before == Before::Any || !unsettled.get();
                completion.before[at] = before;
                completion.boundary[at] = boundary;
            }
            open.retain(|state| !settled[*state as usize]);
            if !changed || open.is_empty() {
                return completion;
            }
        }
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
        self.any_token(state, |token, behind| {
            self.tokenizer.roles[token as usize] != Role::Whole
                && self.tokenizer.neighbours.may_follow(last, token)
                && match whole.child(node, token) {
                    Some(child) => self.may_precede_node(child, behind),
                    None => self.may_precede(token, behind),
                }
        })
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

    /// What may stand in front of `state`, as far as it is known of the states behind it.
    fn before(&self, state: u32, depends: impl Fn(Option<u32>)) -> Before {
        if self.product.fresh[state as usize] {
            let leads_on = self.any_token(state, |token, behind| {
                // Sequences that are written as one token are followed further than one state.
                let is_short = self.tokenizer.whole.child(WholePieces::ROOT, token).is_none();
                depends(is_short.then_some(behind));
                self.may_begin(token, behind)
            });
            // The text may end where nothing was written, or behind an added token.
            let leads_on = leads_on || self.is_boundary(state, depends);
            return if leads_on { Before::Any } else { Before::None };
        }
        let leads_on = |token: u32, behind: u32| {
            depends(Some(behind));
            self.tokenizer.roles[token as usize] != Role::Whole && self.may_precede(token, behind)
        };
        // Few tokens lead on: keep them.
        let mut followers: Vec<u32> = Vec::new();
        let many = self.any_token(state, |token, behind| {
            if leads_on(token, behind) {
                followers.push(token);
            }
            followers.len() > FEW
        });
        if followers.is_empty() {
            return Before::None;
        }
        if !many {
            return Before::FollowedBy(followers.into());
        }
        // Many do: a token that forbids all of them is rare. Tokens that begin differently leave the fewest.
        let mut except = Intersection { tokenizer: self.tokenizer, words: None };
        let mut seen = HashSet::new();
        self.any_token(state, |token, behind| {
            let first = self.first_symbol(token);
            if !seen.contains(&first) && leads_on(token, behind) {
                seen.insert(first);
                except.forbidding(token);
            }
            except.is_empty()
        });
        if except.is_empty() {
            return Before::Any;
        }
        let except: Vec<u32> = except
            .tokens()
            .filter(|before| {
                let mut forbidden = HashSet::new();
                self.tokenizer.neighbours.forbidden(*before, |token| _ = forbidden.insert(token));
                !self.any_token(state, |token, behind| !forbidden.contains(&token) && leads_on(token, behind))
            })
            .collect();
        if except.is_empty() { Before::Any } else { Before::Except(except.into()) }
    }

    /// The symbol that the text of a token begins with.
    fn first_symbol(&self, token: u32) -> u32 {
        let left = &self.tokenizer.neighbours.trees.left;
        let parts =
            std::iter::successors(Some(token), |at| Some(left[*at as usize]).filter(|left| *left != NONE));
        parts.last().unwrap_or(token)
    }
}

/// The tokens that forbid all of several followers.
struct Intersection<'a> {
    tokenizer: &'a TokenizerAutomaton,
    /// One bit for each token; `None` before the first follower.
    words: Option<Vec<u32>>,
}

impl Intersection<'_> {
    /// Keeps the tokens that forbid `follower` too.
    fn forbidding(&mut self, follower: u32) {
        let mut more = vec![0u32; words_for(self.tokenizer.vocab_len)];
        self.tokenizer
            .neighbours
            .forbidding(follower, |token| more[token as usize / 32] |= 1 << (token % 32));
        match &mut self.words {
            None => self.words = Some(more),
            Some(words) => words.iter_mut().zip(more).for_each(|(word, more)| *word &= more),
        }
    }

    fn is_empty(&self) -> bool {
        self.words.as_ref().is_some_and(|words| words.iter().all(|word| *word == 0))
    }

    fn tokens(&self) -> impl Iterator<Item = u32> {
        let bits = (0u32..).zip(self.words.iter().flatten().copied());
        bits.flat_map(|(at, word)| {
            (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 32 + bit)
        })
    }
}
