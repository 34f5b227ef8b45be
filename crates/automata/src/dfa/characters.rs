//! The edges of an automaton over text as ranges of code points.
//!
//! Notations about characters are built from these ranges: JSON spellings, and classes of GBNF.

use rustc_hash::FxHashMap;

use super::{Dfa, StateId};

/// A range of code points, inclusive, and the state that it leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// The first code point.
    pub first: u32,
    /// The last code point.
    pub last: u32,
    /// The state after each of them.
    pub target: StateId,
}

/// An automaton whose texts are valid UTF-8, with memoized facts about its states.
#[derive(Debug)]
pub struct Characters<'d> {
    dfa: &'d Dfa,
    /// By state inside a character and number of missing bytes: the common target of all completions, if there is
    /// one.
    uniform: FxHashMap<(StateId, u32), Option<StateId>>,
}

impl<'d> Characters<'d> {
    /// The characters of `dfa`.
    pub fn new(dfa: &'d Dfa) -> Self {
        Self { dfa, uniform: FxHashMap::default() }
    }

    /// The edges of `state`, which is not inside a character, as ascending, maximal ranges of code points.
    pub fn pieces(&mut self, state: StateId) -> Vec<Piece> {
        let mut pieces = vec![];
        let dfa = self.dfa;
        for edge in dfa.edges(state) {
            let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
            if first < 0x80 {
                add(&mut pieces, u32::from(first), u32::from(last.min(0x7f)), edge.target);
            }
            for (from, to, left, mask) in
                [(0xc2, 0xdf, 1, 0x1f), (0xe0, 0xef, 2, 0x0f), (0xf0, 0xf4, 3, 0x07)]
            {
                let (first, last) = (first.max(from), last.min(to));
                if first <= last {
                    self.rest(
                        &mut pieces,
                        u32::from(first & mask),
                        u32::from(last & mask),
                        edge.target,
                        left,
                    );
                }
            }
        }
        pieces
    }

    /// Adds the characters with leading bits `first` to `last`, of which `left` bytes remain to be read from
    /// `state`.
    fn rest(&mut self, pieces: &mut Vec<Piece>, first: u32, last: u32, state: StateId, left: u32) {
        if let Some(target) = self.uniform(state, left) {
            add(pieces, first << (6 * left), ((last + 1) << (6 * left)) - 1, target);
            return;
        }
        let dfa = self.dfa;
        for bits in first..=last {
            for edge in dfa.edges(state) {
                let (low, high) =
                    (bits << 6 | u32::from(edge.bytes.start() & 0x3f), u32::from(edge.bytes.end() & 0x3f));
                let high = bits << 6 | high;
                if left == 1 {
                    add(pieces, low, high, edge.target);
                } else {
                    // The recursion is at most three bytes deep.
                    self.rest(pieces, low, high, edge.target, left - 1);
                }
            }
        }
    }

    fn uniform(&mut self, state: StateId, left: u32) -> Option<StateId> {
        if left == 0 {
            return Some(state);
        }
        if let Some(known) = self.uniform.get(&(state, left)) {
            return *known;
        }
        let only = self.dfa.edges(state).next().filter(|edge| edge.bytes == (0x80..=0xbf));
        let found = only.and_then(|edge| self.uniform(edge.target, left - 1));
        self.uniform.insert((state, left), found);
        found
    }
}

/// Appends a range to an ascending list, merging adjacent ranges with the same target.
fn add(pieces: &mut Vec<Piece>, first: u32, last: u32, target: StateId) {
    match pieces.last_mut() {
        Some(piece) if piece.target == target && piece.last + 1 == first => piece.last = last,
        _ => pieces.push(Piece { first, last, target }),
    }
}
