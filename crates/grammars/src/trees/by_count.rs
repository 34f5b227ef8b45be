//! Subterminal trees of bounded repetitions, selected by the number of units from those without bounds.
//!
//! A string of at most 500 characters has as many states as characters. After each of them, the tokens are those of
//! an unbounded string that do not have too many characters, or that close it with enough of them. The number of
//! units in each token is computed once for a state of the unit; then the tree for any bounds takes a few
//! microseconds and no walk.
//!
//! Tried instead: the automaton of that many units, with a tree for each of its states. Each takes a walk over the
//! vocabulary, a millisecond, and a text needs one of them every few characters.

use unskew_automata::StateId;
use unskew_core::{MaskRef, TokenId, TokenMask, Vocabulary};

use super::{
    nodes::{Tokens, TreeNode},
    suffixes::Exit,
};
use crate::{BoundedLength, BoundedRepetition};

/// The tokens that continue from a state of a unit, by the number of units in them.
#[derive(Debug)]
pub(crate) struct TokensByCount {
    /// Tokens without the closing mark, in the order of that number.
    open: Box<[TokenId]>,
    /// The least number of these tokens.
    least: u32,
    /// By number, from the least one on: how many of these tokens have fewer units.
    first: Box<[u32]>,
    /// The same tokens as a mask.
    all: TokenMask,
    /// Tokens that end in the closing mark, with the number.
    closing: Box<[(TokenId, u32)]>,
    /// Tokens that leave after the closing mark, with the number, the byte with which they leave and the length of
    /// the suffix.
    leaving: Box<[(TokenId, u32, u8, u32)]>,
}

impl TokensByCount {
    /// `unbounded` is the node of `repetition` without bounds, in the state `at` of a unit.
    pub(crate) fn new(
        repetition: &BoundedRepetition,
        at: StateId,
        unbounded: &TreeNode,
        vocabulary: &Vocabulary,
    ) -> Self {
        let single = repetition.single_units();
        let count = |text: &[u8]| repetition.count(at, text, &single);
        Self::made(unbounded, vocabulary, count)
    }

    /// `root` is the node of the automaton of `length` in the state `at`. The number is the
    /// [cost](BoundedLength::cost), and no token is closing.
    pub(crate) fn by_cost(
        length: &BoundedLength,
        at: StateId,
        root: &TreeNode,
        vocabulary: &Vocabulary,
    ) -> Self {
        Self::made(root, vocabulary, |text| (length.cost(at, text), false))
    }

    /// `count` is the number of a token, and whether it contains the closing mark.
    fn made(unbounded: &TreeNode, vocabulary: &Vocabulary, count_of: impl Fn(&[u8]) -> (u32, bool)) -> Self {
        let text = |token: TokenId| vocabulary.text(token).unwrap_or_default();
        let mut all = TokenMask::new(vocabulary.len());
        let (mut open, mut closing) = (Vec::new(), Vec::new());
        let mut add = |token: TokenId| match count_of(text(token)) {
            (count, false) => {
                all.as_mut().insert(token);
                open.push((count, token));
            }
            (count, true) => closing.push((token, count)),
        };
        match &unbounded.inside {
            Tokens::Few(tokens) => tokens.iter().copied().for_each(&mut add),
            Tokens::Many(words) => MaskRef::new(words, vocabulary.len()).into_ids().for_each(&mut add),
        }
        // A counting sort: there are few numbers.
        let least = open.iter().map(|(count, _)| *count).min().unwrap_or(0);
        open.iter_mut().for_each(|(count, _)| *count -= least);
        let most = open.iter().map(|(count, _)| *count as usize).max().unwrap_or(0);
        let mut first = vec![0u32; most + 2];
        open.iter().for_each(|(count, _)| first[*count as usize + 1] += 1);
        for count in 1..first.len() {
            first[count] += first[count - 1];
        }
        let (mut next, mut sorted) = (first.clone(), vec![TokenId(0); open.len()]);
        for (count, token) in open {
            let at = &mut next[count as usize];
            sorted[*at as usize] = token;
            *at += 1;
        }
        let leaving = unbounded.exits.tokens().map(|(byte, token, left)| {
            let (count, _) = count_of(text(token));
            (token, count, byte, left)
        });
        Self {
            first: first.into(),
            open: sorted.into(),
            least,
            all,
            closing: closing.into(),
            leaving: leaving.collect(),
        }
    }

    /// The greatest number of a token.
    pub(crate) fn greatest(&self) -> u32 {
        let open = self.least + u32::try_from(self.first.len()).expect("tokens are short") - 2;
        let others = self.closing.iter().map(|(_, count)| *count);
        others.chain(self.leaving.iter().map(|(_, count, ..)| *count)).fold(open, u32::max)
    }

    /// The tokens inside, where `min` to `max` units follow.
    pub(crate) fn inside(&self, min: u32, max: Option<u32>) -> Tokens {
        let max = max.unwrap_or(u32::MAX);
        let end = match max.checked_sub(self.least) {
            None => 0,
            Some(max) => {
                self.first.get((max as usize).saturating_add(1)).map_or(self.open.len(), |end| *end as usize)
            }
        };
        let (within, beyond) = self.open.split_at(end);
        let closing = self.closing.iter().filter(|(_, count)| (min..=max).contains(count));
        let closing = closing.map(|(token, _)| *token);
        // The way with less work.
        let mut mask = if within.len() < beyond.len() {
            let mut mask = TokenMask::new(self.all.len());
            within.iter().for_each(|token| mask.as_mut().insert(*token));
            mask
        } else {
            let mut mask = self.all.clone();
            beyond.iter().for_each(|token| mask.as_mut().remove(*token));
            mask
        };
        closing.for_each(|token| mask.as_mut().insert(token));
        Tokens::of(mask.as_ref())
    }

    /// The tokens that leave, where `min` to `max` units follow.
    pub(crate) fn exits(&self, min: u32, max: Option<u32>) -> Vec<Exit> {
        let max = max.unwrap_or(u32::MAX);
        let leaving = self.leaving.iter().filter(move |(_, count, ..)| (min..=max).contains(count));
        leaving.map(|(token, _, byte, left)| (*byte, *token, *left)).collect()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.open[..])
            + size_of_val(&self.first[..])
            + size_of_val(self.all.words())
            + size_of_val(&self.closing[..])
            + size_of_val(&self.leaving[..])
    }
}
