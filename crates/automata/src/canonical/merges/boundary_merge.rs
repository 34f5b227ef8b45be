//! A fast, partial pair test: the merge of the two symbols at a boundary.
//!
//! The first merge that could cross a boundary joins the last symbol of the left token and the first symbol of the
//! right token. If that merge happens before either symbol is consumed in its own tree, the tokens must not be
//! neighbours. So this file stores for each token the symbols at both ends of its tree and the keys at which they
//! are consumed, and a table of the merges of two symbols. Three look-ups replace the [pair test](super::pair),
//! which walks both edges and searches for a merge at each step.
//!
//! This test decides half of the pairs that are asked for in a list of words, and 440 of 446 pairs before the names
//! of attributes. The full pair test decides the others.

use super::{
    derivation::{Derivations, NONE},
    forest::Partners,
};
use crate::ids::MergeKey;

/// The most symbols for which the table is built. Tokenizers over characters have more symbols, and no table.
const SYMBOLS: usize = 512;

/// For each token, the symbols at both ends of its tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BoundaryMerges {
    /// By token: its last symbol.
    last: Box<[Symbol]>,
    /// By token: its first symbol.
    first: Box<[Symbol]>,
    /// By two symbols: the key of their merge. [`MergeKey::SYMBOL`], which no merge has, if no merge joins them.
    keys: Box<[MergeKey]>,
    symbols: usize,
}

/// The symbol at one end of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Symbol {
    /// The number of the symbol; [`NONE`] for an unreachable token.
    number: u32,
    /// The key from which on a merge finds the symbol consumed.
    end: MergeKey,
}

impl BoundaryMerges {
    /// `None` if there are too many symbols. O(tokens and merges of symbols) otherwise.
    pub(crate) fn new(trees: &Derivations, by_left: &Partners) -> Option<Self> {
        let symbols: Vec<u32> = (0u32..)
            .zip(&trees.key)
            .filter(|(_, key)| **key == MergeKey::SYMBOL)
            .map(|(token, _)| token)
            .collect();
        if symbols.len() > SYMBOLS {
            return None;
        }
        let mut number = vec![NONE; trees.key.len()];
        (0u32..).zip(&symbols).for_each(|(at, symbol)| number[*symbol as usize] = at);
        let mut keys = vec![MergeKey::SYMBOL; symbols.len() * symbols.len()];
        for (symbol, row) in symbols.iter().zip(keys.chunks_mut(symbols.len().max(1))) {
            for (partner, key) in by_left.of(*symbol) {
                if let Some(key_of) = row.get_mut(number[partner as usize] as usize) {
                    *key_of = key;
                }
            }
        }
        let last = ends(&number, &trees.right, |above| trees.right_end(above));
        // A merge of equal rank is further left and so happens before the symbol is consumed: hence the addition of
        // one.
        let first = ends(&number, &trees.left, |above| trees.left_end(above).next());
        Some(Self { last, first, keys: keys.into(), symbols: symbols.len() })
    }

    /// Whether a merge joins the two symbols at the boundary between `left` and `right`. Both tokens are reachable.
    #[inline]
    pub(crate) fn crosses(&self, left: u32, right: u32) -> bool {
        let (left, right) = (self.last[left as usize], self.first[right as usize]);
        let key = self.keys.get(left.number as usize * self.symbols + right.number as usize);
        key.is_some_and(|key| *key != MergeKey::SYMBOL && *key < left.end.min(right.end))
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.last[..]) * 2 + size_of_val(&self.keys[..])
    }
}

/// For each token, the symbol at the end of the edge along `down`. `end` is the key at which a token consumes its
/// part there.
fn ends(number: &[u32], down: &[u32], end: impl Fn(u32) -> MergeKey) -> Box<[Symbol]> {
    let mut ends: Vec<Symbol> = Vec::with_capacity(down.len());
    for (token, part) in (0u32..).zip(down) {
        let (mut above, mut at) = (token, *part);
        let symbol = loop {
            match at {
                // A symbol or an unreachable token has no parts.
                NONE => break Symbol { number: number[above as usize], end: MergeKey::NEVER },
                // Most parts have a lower id than the token, so their result is in `ends` already.
                _ if number[at as usize] != NONE => {
                    break Symbol { number: number[at as usize], end: end(above) };
                }
                _ if at < token => break ends[at as usize],
                _ => (above, at) = (at, down[at as usize]),
            }
        };
        ends.push(symbol);
    }
    ends.into()
}
