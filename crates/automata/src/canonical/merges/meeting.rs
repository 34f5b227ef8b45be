//! The merge of the two symbols at a boundary: why most pairs of tokens are refused at once.
//!
//! The first merge that could cross a boundary is that of the last symbol of the left token and the first one of the right
//! token. Where the two merge before either is used up in its own tree, the tokens must not be neighbours. So the symbols at the
//! ends of each tree, and when they are used up, are kept for each token, with a table of the merges of two symbols: a look at
//! these three instead of the [pair test](super::pair), which walks both edges and searches for a merge at each step. It decides
//! half of the pairs that the search in a list of words asks for, and 440 of 446 in front of the names of attributes; the rest
//! is for that test.

use super::{
    derivation::{Derivations, NONE},
    forest::Partners,
};

/// Tokenizers of more symbols have no table: those whose symbols are characters.
const SYMBOLS: usize = 512;

/// Where all edges end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Meetings {
    /// By token: its last symbol.
    last: Box<[Symbol]>,
    /// By token: its first symbol.
    first: Box<[Symbol]>,
    /// By two symbols: when they are merged, 0 if they are not.
    keys: Box<[u32]>,
    symbols: usize,
}

/// The symbol at the end of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Symbol {
    /// Its number, [`NONE`] for a token that is never made.
    number: u32,
    /// Merges from this one on find it used up.
    end: u32,
}

impl Meetings {
    /// `None` if there are too many symbols. O(tokens and merges of symbols) otherwise.
    pub(crate) fn new(trees: &Derivations, by_left: &Partners) -> Option<Self> {
        let symbols: Vec<u32> =
            (0u32..).zip(&trees.key).filter(|(_, key)| **key == 0).map(|(token, _)| token).collect();
        if symbols.len() > SYMBOLS {
            return None;
        }
        let mut number = vec![NONE; trees.key.len()];
        (0u32..).zip(&symbols).for_each(|(at, symbol)| number[*symbol as usize] = at);
        let mut keys = vec![0; symbols.len() * symbols.len()];
        for (symbol, row) in symbols.iter().zip(keys.chunks_mut(symbols.len().max(1))) {
            for (partner, key) in by_left.of(*symbol) {
                if let Some(key_of) = row.get_mut(number[partner as usize] as usize) {
                    *key_of = key;
                }
            }
        }
        let last = ends(&number, &trees.right, |above| trees.right_end(above));
        // To it a merge of equal rank, which lies to its left, comes first.
        let first = ends(&number, &trees.left, |above| trees.left_end(above).saturating_add(1));
        Some(Self { last, first, keys: keys.into(), symbols: symbols.len() })
    }

    /// Whether the two symbols at the boundary between `left` and `right`, which are made, are merged across it.
    #[inline]
    pub(crate) fn crosses(&self, left: u32, right: u32) -> bool {
        let (left, right) = (self.last[left as usize], self.first[right as usize]);
        let key = self.keys.get(left.number as usize * self.symbols + right.number as usize);
        // Keys begin with 1.
        key.is_some_and(|key| (1..left.end.min(right.end)).contains(key))
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.last[..]) * 2 + size_of_val(&self.keys[..])
    }
}

/// The symbols at the ends of all edges that go `down`; `end` is when a token uses up its part there.
fn ends(number: &[u32], down: &[u32], end: impl Fn(u32) -> u32) -> Box<[Symbol]> {
    let mut ends: Vec<Symbol> = Vec::with_capacity(down.len());
    for (token, part) in (0u32..).zip(down) {
        let (mut above, mut at) = (token, *part);
        let symbol = loop {
            match at {
                // A symbol, or what is never made.
                NONE => break Symbol { number: number[above as usize], end: u32::MAX },
                // Mostly parts come first.
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
