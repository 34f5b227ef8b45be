//! Completion by tokens alone, for the few constraints with texts for which the encoder may write no token
//! ([`crate::canonical::merges::facts`]).
//!
//! For these, a text that the automata read does not show that a position can be completed. So the search follows
//! whole configurations from token to token until the text may end. It is depth-first: with a hundred thousand tokens
//! for each step it must reach an end before it has seen all ways. Every answer on the way is kept.

use rustc_hash::FxHashSet as Set;
use unskew_core::{TokenId, words_for};

use super::{
    language::LazyDfa,
    lazy_product::Query,
    position::Position,
    sequence::{Configuration, LeftContext},
};
use crate::canonical::token_set::{TokenSet, set};

impl<L: LazyDfa> Query<'_, L> {
    /// Whether tokens lead from `from` to the end of a text.
    pub(super) fn ends(&mut self, from: Configuration) -> bool {
        if let Some(known) = self.known_end(from) {
            return known;
        }
        // The configurations that were met, each with the index of its predecessor.
        let mut met: Vec<(Configuration, usize)> = vec![(from, 0)];
        let mut seen: Set<Configuration> = Set::from_iter([from]);
        let mut open: Vec<usize> = vec![0];
        while let Some(mut on) = open.pop() {
            if met.len() > self.automata.language.most_positions() {
                self.memo.is_beyond = true;
                return false;
            }
            let found = self.any_step(met[on].0, |query, after| {
                let known = query.known_end(after);
                if known.is_none() && seen.insert(after) {
                    open.push(met.len());
                    met.push((after, on));
                }
                known == Some(true)
            });
            if found {
                loop {
                    self.memo.ends.insert(met[on].0, true, 0);
                    if on == 0 {
                        return true;
                    }
                    on = met[on].1;
                }
            }
        }
        met.into_iter().for_each(|(dead, _)| self.memo.ends.insert(dead, false, 0));
        false
    }

    fn known_end(&mut self, at: Configuration) -> Option<bool> {
        if self.context.is_end(at) { Some(true) } else { self.memo.ends.get(&at).copied() }
    }

    /// Calls `visit` with the configurations after a boundary, an added token or a token, until it returns true.
    /// Returns whether it did.
    fn any_step(
        &mut self,
        from: Configuration,
        mut visit: impl FnMut(&mut Self, Configuration) -> bool,
    ) -> bool {
        let context = self.context;
        let added = context.added(from).into_iter().map(|(_, after)| after);
        for position in context.boundary(from).into_iter().chain(added) {
            if visit(self, Configuration { position, left: LeftContext::Nothing }) {
                return true;
            }
        }
        from.left != LeftContext::Whole
            && self.any_token_of_a_piece(from.position, |query, token| {
                context.continued(from, TokenId(token)).is_some_and(|after| visit(query, after))
            })
    }

    /// As [`any_token`](Self::any_token), with the tokens that are a whole piece at the start of one.
    fn any_token_of_a_piece(&mut self, at: Position, mut visit: impl FnMut(&mut Self, u32) -> bool) -> bool {
        let whole: &[u32] = if at.at_piece_start { &self.automata.tokenizer.only_whole } else { &[] };
        self.any_token(at, |query, token, _| visit(query, token))
            || whole.iter().any(|token| visit(self, *token))
    }

    /// The tokens that can be read from `at` and are viable for any left context, without added tokens.
    pub(super) fn token_set_by_tokens(&mut self, at: Position) -> TokenSet {
        let mut tokens: Vec<u32> = Vec::new();
        self.any_token_of_a_piece(at, |_, token| {
            tokens.push(token);
            false
        });
        let mut words = vec![0u32; words_for(self.index.vocabulary.len())];
        for token in tokens {
            // The left context of the next token, which is no token of a whole piece's sequence unless a piece begins.
            let after = self.context.begun(at, TokenId(token)).map(|after| match at.at_piece_start {
                true => after,
                false => Configuration { left: LeftContext::Class(self.class(token)), ..after },
            });
            if after.is_some_and(|after| self.ends(after)) {
                set(&mut words, token);
            }
        }
        TokenSet::new(words)
    }
}
