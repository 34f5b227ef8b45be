//! Subterminal trees of counted units, selected by cost from those of the automaton without bounds.
//!
//! A string of at most 500 characters has as many states as characters. After each of them, the tokens are those of
//! an unbounded string that do not have too many characters, or that close it with enough of them. The
//! [cost](unskew_grammar::kit::terminal::counted) of each token is computed once for a state of the automaton; then the
//! tree for any bounds takes a few microseconds and no walk. Bounds between which no token has its cost have one tree.
//!
//! Far from the bounds only a long token can pass them, and only one with a closing mark can be too short. While these
//! are few, they alone are read: the costs of all tokens take 3 ms, and a pattern has a state for each of its words.
//!
//! Tried instead: the automaton of that many units, with a tree for each of its states. Each takes a walk over the
//! vocabulary, a millisecond, and a text needs one of them every few characters.

use unskew_automata::StateId;
use unskew_core::{MaskRef, TokenId, TokenMask, Vocabulary};
use unskew_grammar::kit::terminal::counted::{Bounds, Units};

use super::{
    nodes::{Tokens, TreeNode},
    permissive::{ByteLists, returning},
    suffixes::Exit,
};

/// The tokens that continue from a state, by cost. The **last** ones are those after which no unit ends: they have a
/// least cost too.
#[derive(Debug)]
pub(crate) struct TokensByCount {
    /// Tokens that are not the last ones, in the order of their cost.
    open: Box<[TokenId]>,
    /// Their costs, each with the number of these tokens up to it.
    ends: Box<[(u32, u32)]>,
    /// The same tokens as a mask.
    all: TokenMask,
    /// The last tokens that end inside, with their cost.
    closing: Box<[(TokenId, u32)]>,
    /// Tokens that leave, with their cost, the byte with which they leave and the length of the suffix.
    leaving: Box<[(TokenId, u32, u8, u32)]>,
    /// The costs of the last tokens, in ascending order.
    last: Box<[u32]>,
}

/// Those of the tokens `in_question` that `root` has and that are not within bounds, in ascending order; and the widest
/// bounds that leave out the same ones. `None` if there are none.
pub(crate) fn beyond(
    units: &Units,
    at: StateId,
    (root, in_question): (&TreeNode, [&[TokenId]; 2]),
    (min, max): Bounds,
    vocabulary: &Vocabulary,
) -> Option<(Bounds, Vec<TokenId>)> {
    let single = units.single(at);
    let max = max.unwrap_or(u32::MAX);
    let (mut tokens, mut least, mut most) = (Vec::new(), 0, None);
    for token in in_question.into_iter().flatten().copied() {
        let (cost, is_last) = units.cost(at, vocabulary.text(token).unwrap_or_default(), &single);
        let is_short = is_last && cost < min;
        // After the last unit it is inside or has left.
        if (is_short || cost > max) && (is_last || root.inside.contains(token)) {
            tokens.push(token);
            if is_short {
                least = least.max(cost + 1);
            } else {
                most = Some(most.unwrap_or(cost).min(cost));
            }
        }
    }
    tokens.sort_unstable();
    tokens.dedup();
    (!tokens.is_empty()).then(|| ((least, most.map(|most| most - 1)), tokens))
}

impl TokensByCount {
    /// `root` is the node of the automaton of `units` in the state `at`.
    ///
    /// Most tokens that stay inside have one unit for each character. The others have a byte with which something else
    /// begins, and are read.
    pub(crate) fn new(
        units: &Units,
        at: StateId,
        root: &TreeNode,
        vocabulary: &Vocabulary,
        lists: &ByteLists,
    ) -> Self {
        let single = units.single(at);
        let beyond_ascii = match units.ends(at) {
            true => returning(units.dfa(), at, |state| !units.ends(state)),
            false => [false; 128],
        };
        let is_read = |byte: u8| match byte.checked_sub(128) {
            None => units.dfa().step(at, byte).is_some() && !single[usize::from(byte)],
            Some(byte) => !beyond_ascii[usize::from(byte)],
        };
        let mut read = TokenMask::new(vocabulary.len());
        lists.having_any(is_read).for_each(|token| read.as_mut().insert(token));
        let (none, is_last) = units.cost(at, &[], &single);
        let text = |token: TokenId| vocabulary.text(token).unwrap_or_default();
        let mut all = TokenMask::new(vocabulary.len());
        let (mut open, mut closing) = (Vec::with_capacity(vocabulary.len()), Vec::new());
        let mut add = |token: TokenId| {
            let (cost, is_last) = match read.contains(token) {
                true => units.cost(at, text(token), &single),
                false => (lists.characters(token) + none, is_last),
            };
            if is_last {
                closing.push((token, cost));
            } else {
                all.as_mut().insert(token);
                open.push((cost, token));
            }
        };
        match &root.inside {
            Tokens::Few(tokens) => tokens.iter().copied().for_each(&mut add),
            Tokens::Many(words) => MaskRef::new(words, vocabulary.len()).into_ids().for_each(&mut add),
        }
        let cost_of = |token: TokenId| units.cost(at, text(token), &single).0;
        let leaving = root.exits.tokens().map(|(byte, token, left)| (token, cost_of(token), byte, left));
        let leaving: Box<[_]> = leaving.collect();
        // A counting sort: there are few costs.
        let least = open.iter().map(|(cost, _)| *cost).min().unwrap_or(0);
        open.iter_mut().for_each(|(cost, _)| *cost -= least);
        let most = open.iter().map(|(cost, _)| *cost as usize).max().unwrap_or(0);
        let mut first = vec![0u32; most + 2];
        open.iter().for_each(|(cost, _)| first[*cost as usize + 1] += 1);
        for cost in 1..first.len() {
            first[cost] += first[cost - 1];
        }
        let ends = (least..).zip(first.array_windows()).filter(|(_, [begin, end])| begin < end);
        let ends = ends.map(|(cost, [_, end])| (cost, *end)).collect();
        let (mut next, mut sorted) = (first, vec![TokenId(0); open.len()]);
        for (cost, token) in open {
            let at = &mut next[cost as usize];
            sorted[*at as usize] = token;
            *at += 1;
        }
        let last = closing.iter().map(|(_, cost)| *cost).chain(leaving.iter().map(|(_, cost, ..)| *cost));
        let mut last: Vec<u32> = last.collect();
        last.sort_unstable();
        last.dedup();
        Self { open: sorted.into(), ends, all, closing: closing.into(), leaving, last: last.into() }
    }

    /// The greatest cost up to `max` of tokens that are not the last ones, and the number of these tokens.
    fn open_up_to(&self, max: u32) -> Option<(u32, u32)> {
        self.ends[..self.ends.partition_point(|(cost, _)| *cost <= max)].last().copied()
    }

    /// The bounds as far as these tokens tell them apart.
    pub(crate) fn told_apart(&self, (min, max): Bounds) -> Bounds {
        let last = &self.last;
        let min = match last.partition_point(|cost| *cost < min) {
            0 => 0,
            beyond => last.get(beyond).copied().unwrap_or(last[beyond - 1] + 1),
        };
        let up_to = |max: u32| {
            let last = last[..last.partition_point(|cost| *cost <= max)].last().copied();
            last.max(self.open_up_to(max).map(|(cost, _)| cost))
        };
        (min, max.map(up_to).filter(|max| *max < up_to(u32::MAX)).map(Option::unwrap_or_default))
    }

    /// The tokens inside, within bounds.
    pub(crate) fn inside(&self, (min, max): Bounds) -> Tokens {
        let max = max.unwrap_or(u32::MAX);
        let (within, beyond) =
            self.open.split_at(self.open_up_to(max).map_or(0, |(_, tokens)| tokens as usize));
        let closing = self.closing.iter().filter(|(_, cost)| (min..=max).contains(cost));
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

    /// The tokens that leave, within bounds.
    pub(crate) fn exits(&self, (min, max): Bounds) -> Vec<Exit> {
        let max = max.unwrap_or(u32::MAX);
        let leaving = self.leaving.iter().filter(move |(_, cost, ..)| (min..=max).contains(cost));
        leaving.map(|(token, _, byte, left)| (*byte, *token, *left)).collect()
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.open[..])
            + size_of_val(&self.ends[..])
            + size_of_val(self.all.words())
            + size_of_val(&self.closing[..])
            + size_of_val(&self.leaving[..])
            + size_of_val(&self.last[..])
    }
}
