//! Whether a token may precede a position, where only a search over tokens decides: the last of the rules of
//! [`super::lazy_product`].
//!
//! The search over tokens is depth-first, longest tokens first: if the next possible piece end is far away, nearly
//! every path reaches it. A node whose failed search touched no open node is recorded as dead at once. The other
//! nodes are recorded when the whole search has failed. Tried instead:
//!
//! - A breadth-first search over tokens: in `[acgt]{200}` it visits all texts.
//! - All tokens of a position listed before the first of them is followed: ten times as long in a list of words.
//! - The successors of a token computed from the constraint. The tokens that may follow it from a splitter state do
//!   not depend on the constraint and are cached for all constraints ([`crate::canonical::index::successors`]). The
//!   blank before a word took half of the time for a mask.

use std::{cmp::Reverse, sync::Arc};

use rustc_hash::FxHashSet as Set;

use super::{
    language::LazyDfa,
    lazy_product::{OVERHEAD, Query},
    memo::ViableToken,
    position::Position,
};
use crate::ids::TokenClass;

/// The most viable tokens that are kept for each position.
const VIABLE_KEPT: usize = 8;

/// The most readable tokens that are kept for a position.
const READABLE_KEPT: usize = 2_048;

/// The number of bytes that a state may read so that its tokens are read one by one, where steps are costly.
const NARROW: usize = 2;

/// The number of tokens that are tested while the tokens of a position are listed.
const TRIED_FIRST: usize = 16;

/// The number of readable symbols from which on [groups of tokens](super::lookahead) are tested instead of single
/// tokens.
const WIDE_SYMBOLS: usize = 16;

/// A node of the search: a token and the position after it, with its possible successors.
struct Open {
    token: u32,
    at: Position,
    /// The readable tokens and the positions after them. They are tried from the last to the first.
    readable: Arc<[(u32, Position)]>,
    left: usize,
    /// Whether a failure may be caused by a node that is still open.
    is_cyclic: bool,
}

impl<L: LazyDfa> Query<'_, L> {
    /// Whether tokens lead from `at`, after `token` in the same piece, to a place where the piece may end.
    pub(super) fn search(&mut self, token: u32, at: Position) -> bool {
        // The answer is not used.
        if self.memo.is_beyond {
            return false;
        }
        let first = match self.viable_after(token, at) {
            Ok(successor) => {
                self.keep(token, at, successor);
                return true;
            }
            Err(readable) if !readable.iter().any(|(next, _)| self.may_follow(token, *next)) => {
                self.memo.complete.insert((self.class(token), at), false, 0);
                return false;
            }
            Err(readable) => Open { token, at, left: readable.len(), readable, is_cyclic: false },
        };
        let mut open: Vec<Open> = vec![first];
        // `seen` contains the nodes that were opened after the first. Each of them is open or has failed.
        let root = (self.class(token), at);
        let mut seen: Set<(TokenClass, Position)> = Set::default();
        let mut opens: Option<(u32, Position)> = None;
        loop {
            if let Some((token, at)) = opens.take() {
                seen.insert((self.class(token), at));
                match self.viable_after(token, at) {
                    Ok(successor) => {
                        self.keep(token, at, successor);
                        self.keep_way(&open, token);
                        return true;
                    }
                    Err(readable) => {
                        let left = readable.len();
                        open.push(Open { token, at, readable, left, is_cyclic: false });
                    }
                }
            }
            if seen.len() > self.automata.language.most_positions() {
                self.memo.is_beyond = true;
                return false;
            }
            let Some(last) = open.last_mut() else {
                // Every node that failed because of an open node has failed together with that node.
                seen.into_iter().chain([root]).for_each(|failed| self.memo.complete.insert(failed, false, 0));
                return false;
            };
            if let Some(left) = last.left.checked_sub(1) {
                last.left = left;
                let (next, after) = last.readable[left];
                if !self.may_follow(last.token, next) {
                    continue;
                }
                match self.decided(next, after) {
                    Some(true) => {
                        self.keep_way(&open, next);
                        return true;
                    }
                    Some(false) => {}
                    None => match (self.class(next), after) {
                        known if known == root || seen.contains(&known) => last.is_cyclic = true,
                        _ => opens = Some((next, after)),
                    },
                }
            } else if let Some(Open { token, at, is_cyclic, .. }) = open.pop() {
                if !is_cyclic {
                    self.memo.complete.insert((self.class(token), at), false, 0);
                } else if let Some(before) = open.last_mut() {
                    before.is_cyclic = true;
                }
            }
        }
    }

    /// Records that `successor` is viable after `token` in `at`.
    fn keep(&mut self, token: u32, at: Position, successor: u32) {
        let class = self.class(token);
        self.memo.complete.insert((class, at), true, 0);
        let new = || ViableToken::new(successor);
        match self.memo.viable.get_mut(&at) {
            Some(known)
                if known.len() < VIABLE_KEPT && known.iter().all(|known| known.token != successor) =>
            {
                known.push(new());
            }
            Some(_) => {}
            None => self.memo.viable.insert(at, vec![new()], 4 * size_of::<ViableToken>()),
        }
    }

    /// Records that every node of `open` is viable, each through the next one and the last through `successor`.
    fn keep_way(&mut self, open: &[Open], mut successor: u32) {
        for Open { token, at, .. } in open.iter().rev() {
            self.keep(*token, *at, successor);
            successor = *token;
        }
    }

    /// A token that may follow `token` and is viable from `at` without a search, if it pays to test for one.
    /// Otherwise the readable tokens from `at`.
    fn viable_after(&mut self, token: u32, at: Position) -> Result<u32, Arc<[(u32, Position)]>> {
        let is_viable = |query: &mut Self, next: u32, after: Position| {
            query.may_follow(token, next) && query.decided(next, after) == Some(true)
        };
        if let Some(known) = self.memo.readable.get(&at).cloned() {
            return Err(known);
        }
        // Inside a character few tokens may follow, for any constraint.
        if self.liveness.places[at.split] != 0 {
            return self.viable_successor(token, at).map_err(Arc::from);
        }
        // The tokens that may follow are known without a step.
        let language = self.automata.language;
        if language.is_costly() && self.read_bytes(at.regex).len() > NARROW {
            return self.viable_successor(token, at).map_err(Arc::from);
        }
        // Symbols are few. In a wide position one of them, or a group of tokens, succeeds.
        let product = self.product;
        if self.read_bytes(at.regex).len() >= WIDE_SYMBOLS {
            let mut read = 0;
            for (byte, symbol) in &product.symbols {
                if let Some(after) = self.automata.step(at, *byte) {
                    read += 1;
                    if is_viable(self, *symbol, after) {
                        return Ok(*symbol);
                    }
                }
            }
            if read >= WIDE_SYMBOLS {
                return self.viable_successor(token, at).map_err(Arc::from);
            }
        }
        let mut all: Vec<(u32, Position)> = Vec::new();
        // If many tokens can be read, one of the first succeeds.
        let found = self.any_token(at, |query, next, after| {
            all.push((next, after));
            all.len() <= TRIED_FIRST && is_viable(query, next, after)
        });
        if let (true, Some((successor, _))) = (found, all.last()) {
            return Ok(*successor);
        }
        // The last is tried first. Where states have no limit, a search away from an end finds none.
        if language.is_costly() {
            all.sort_by_cached_key(|(_, after)| Reverse(language.distance(after.regex)));
        }
        let all: Arc<[(u32, Position)]> = all.into();
        if all.len() <= READABLE_KEPT {
            self.memo.readable.insert(at, Arc::clone(&all), OVERHEAD + size_of_val(&all[..]));
        }
        Err(all)
    }
}
