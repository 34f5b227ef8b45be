//! The structures that hold a set, each with the same three questions: where a prefix is, which tokens may follow it,
//! and which of some candidates may.
//!
//! Ours and its peers: a trie of hash tables (GENRE's, in Rust), a trie by child ranges (STATIC's structure),
//! the paper's array of rows, and an `fst` of the titles as strings. Those that need it hold the end as a token.

use std::sync::Arc;

use fst::raw::Fst;
use rustc_hash::FxHashMap;
use unskew_core::{Constraint, MaskMut, TokenId};
use unskew_sets::{SetConstraint, SetState};

use super::titles::{END, LONGEST};

/// Lanes of a row of the paper's array.
const LANES: usize = 16;

/// The padding of a row: no token, and greater than all of them.
const PAD: u32 = u32::MAX;

/// A structure over the titles.
pub(crate) trait Engine {
    /// The place of a prefix.
    type Place;

    /// The place of a prefix of titles.
    fn place(&self, prefix: &[u32]) -> Self::Place;

    /// The exact mask: the tokens that may follow, the end not counted. `None` where the structure cannot say.
    fn mask(&self, place: &Self::Place, mask: MaskMut<'_>) -> Option<()>;

    /// Which of the candidates may follow.
    fn candidates(&self, place: &Self::Place, candidates: &[TokenId], valid: &mut [bool]);

    /// Which of the candidates may follow, for many places with as many candidates each.
    fn step(&self, places: &[Self::Place], candidates: &[TokenId], valid: &mut [bool]) {
        let each = candidates.len() / places.len();
        let rows = candidates.chunks(each).zip(valid.chunks_mut(each));
        for (place, (candidates, valid)) in places.iter().zip(rows) {
            self.candidates(place, candidates, valid);
        }
    }

    /// The memory that it takes, in bytes.
    fn bytes(&self) -> usize;
}

/// Sorted columns with intervals.
pub(crate) struct Columns(pub(crate) Arc<SetConstraint>);

impl Engine for Columns {
    type Place = SetState;

    fn place(&self, prefix: &[u32]) -> SetState {
        let mut state = self.0.start();
        for token in prefix {
            self.0.advance(&mut (), &mut state, TokenId(*token)).expect("a prefix of a title");
        }
        state
    }

    fn mask(&self, place: &SetState, mask: MaskMut<'_>) -> Option<()> {
        self.0.fill_mask(&mut (), place, mask);
        Some(())
    }

    fn candidates(&self, place: &SetState, candidates: &[TokenId], valid: &mut [bool]) {
        self.0.candidates(place, candidates, valid);
    }

    fn step(&self, places: &[SetState], candidates: &[TokenId], valid: &mut [bool]) {
        self.0.candidate_batch(places, candidates, valid);
    }

    fn bytes(&self) -> usize {
        self.0.set().memory_usage()
    }
}

/// A trie in breadth-first order: the children of a node are a range, sorted.
pub(crate) struct Ranges {
    tokens: Vec<u32>,
    /// Where the children of each node begin; those of the next begin where they end.
    begins: Vec<u32>,
}

impl Ranges {
    /// From sorted titles.
    pub(crate) fn new(titles: &[Vec<u32>]) -> Self {
        // Node 0 is the root. The titles of each node of a level, in order.
        let (mut tokens, mut begins) = (vec![0], Vec::new());
        let mut level = vec![(0, titles.len())];
        for depth in 0..=LONGEST {
            let mut next = Vec::new();
            for (begin, end) in level {
                begins.push(tokens.len() as u32);
                let mut at = begin;
                let token = |at: usize| {
                    let title: &[u32] = &titles[at];
                    title.get(depth).copied().unwrap_or(END)
                };
                if depth > 0 && begin < end && titles[begin].len() < depth {
                    continue;
                }
                // The title that ends here comes first; as a token it would come last.
                let ended = at < end && token(at) == END;
                at += usize::from(ended);
                while at < end {
                    let run = at + titles[at..end].partition_point(|title| title[depth] == titles[at][depth]);
                    tokens.push(token(at));
                    next.push((at, run));
                    at = run;
                }
                if ended {
                    tokens.push(END);
                    next.push((begin, begin));
                }
            }
            level = next;
        }
        while begins.len() <= tokens.len() {
            begins.push(tokens.len() as u32);
        }
        Self { tokens, begins }
    }

    /// The number of nodes, ends included.
    pub(crate) fn nodes(&self) -> usize {
        self.tokens.len()
    }

    fn children(&self, node: u32) -> (usize, &[u32]) {
        let (begin, end) = (self.begins[node as usize] as usize, self.begins[node as usize + 1] as usize);
        (begin, &self.tokens[begin..end])
    }
}

impl Engine for Ranges {
    type Place = u32;

    fn place(&self, prefix: &[u32]) -> u32 {
        prefix.iter().fold(0, |node, token| {
            let (begin, children) = self.children(node);
            (begin + children.binary_search(token).expect("a prefix of a title")) as u32
        })
    }

    fn mask(&self, place: &u32, mut mask: MaskMut<'_>) -> Option<()> {
        mask.clear();
        let (_, children) = self.children(*place);
        let children = if let [children @ .., END] = children { children } else { children };
        children.iter().for_each(|token| mask.insert(TokenId(*token)));
        Some(())
    }

    fn candidates(&self, place: &u32, candidates: &[TokenId], valid: &mut [bool]) {
        let (_, children) = self.children(*place);
        for (valid, token) in valid.iter_mut().zip(candidates) {
            *valid = children.binary_search(&token.0).is_ok();
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.tokens[..]) + size_of_val(&self.begins[..])
    }
}

/// A hash table of children for each node.
pub(crate) struct Hashes(Vec<FxHashMap<u32, u32>>);

impl Hashes {
    pub(crate) fn new(titles: &[Vec<u32>]) -> Self {
        let mut nodes = vec![FxHashMap::default()];
        for title in titles {
            let mut node = 0;
            for token in title.iter().copied().chain([END]) {
                let new = nodes.len() as u32;
                let child = *nodes[node].entry(token).or_insert(new);
                if child == new {
                    nodes.push(FxHashMap::default());
                }
                node = child as usize;
            }
        }
        Self(nodes)
    }
}

impl Engine for Hashes {
    type Place = u32;

    fn place(&self, prefix: &[u32]) -> u32 {
        prefix.iter().fold(0, |node: u32, token| self.0[node as usize][token])
    }

    fn mask(&self, place: &u32, mut mask: MaskMut<'_>) -> Option<()> {
        mask.clear();
        let children = self.0[*place as usize].keys().filter(|token| **token != END);
        children.for_each(|token| mask.insert(TokenId(*token)));
        Some(())
    }

    fn candidates(&self, place: &u32, candidates: &[TokenId], valid: &mut [bool]) {
        let children = &self.0[*place as usize];
        for (valid, token) in valid.iter_mut().zip(candidates) {
            *valid = children.contains_key(&token.0);
        }
    }

    /// The tables, and their entries with a byte of control at a load of seven eighths.
    fn bytes(&self) -> usize {
        let entries = |table: &FxHashMap<u32, u32>| match table.capacity() {
            0 => 0,
            capacity => (capacity * 8 / 7).next_power_of_two() * 9 + 16,
        };
        size_of_val(&self.0[..]) + self.0.iter().map(entries).sum::<usize>()
    }
}

/// The paper's array: rows of 16 tokens, searched from the whole array at every step, with a comparison that is
/// lexicographic. A place is the prefix itself.
pub(crate) struct Rows {
    rows: Vec<[u32; LANES]>,
    /// Whether a comparison stops at the first lane that differs, as a CPU can, or takes all lanes, as a GPU does.
    early_exit: bool,
}

impl Rows {
    pub(crate) fn new(titles: &[Vec<u32>], early_exit: bool) -> Self {
        let row = |title: &Vec<u32>| {
            let mut row = [PAD; LANES];
            row[..title.len()].copy_from_slice(title);
            row[title.len()] = END;
            row
        };
        let mut rows: Vec<_> = titles.iter().map(row).collect();
        rows.sort_unstable();
        Self { rows, early_exit }
    }

    /// Whether a row, in so many lanes, comes in front of the key: by the first lane that differs, found among all.
    fn precedes(row: &[u32; LANES], key: &[u32; LANES], lanes: usize) -> bool {
        let (mut less, mut greater) = (0u32, 0u32);
        for lane in 0..LANES {
            less |= u32::from(row[lane] < key[lane]) << lane;
            greater |= u32::from(row[lane] > key[lane]) << lane;
        }
        let kept = (1 << lanes) - 1;
        (less & kept).trailing_zeros() < (greater & kept).trailing_zeros()
    }
}

impl Engine for Rows {
    type Place = Vec<u32>;

    fn place(&self, prefix: &[u32]) -> Vec<u32> {
        prefix.to_vec()
    }

    fn mask(&self, _: &Vec<u32>, _: MaskMut<'_>) -> Option<()> {
        None
    }

    fn candidates(&self, place: &Vec<u32>, candidates: &[TokenId], valid: &mut [bool]) {
        let lanes = place.len() + 1;
        let mut key = [0; LANES];
        key[..place.len()].copy_from_slice(place);
        for (valid, token) in valid.iter_mut().zip(candidates) {
            key[place.len()] = token.0;
            let key_of_row = &key[..lanes];
            let at = if self.early_exit {
                self.rows.partition_point(|row| &row[..lanes] < key_of_row)
            } else {
                self.rows.partition_point(|row| Self::precedes(row, &key, lanes))
            };
            *valid = self.rows.get(at).is_some_and(|row| &row[..lanes] == key_of_row);
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.rows[..])
    }
}

/// The titles as strings of three bytes a token, in a minimal automaton.
pub(crate) struct Strings(Fst<Vec<u8>>);

impl Strings {
    /// From sorted titles.
    pub(crate) fn new(titles: &[Vec<u32>]) -> Self {
        let mut builder = fst::SetBuilder::memory();
        for title in titles {
            let bytes: Vec<u8> = title.iter().flat_map(|token| Self::bytes_of(*token)).collect();
            builder.insert(bytes).expect("titles are sorted");
        }
        Self(Fst::new(builder.into_inner().expect("memory")).expect("a set that was built"))
    }

    fn bytes_of(token: u32) -> [u8; 3] {
        let [_, bytes @ ..] = token.to_be_bytes();
        bytes
    }

    fn step(&self, node: usize, token: u32) -> Option<usize> {
        Self::bytes_of(token).into_iter().try_fold(node, |node, byte| {
            let node = self.0.node(node);
            Some(node.transition(node.find_input(byte)?).addr)
        })
    }
}

impl Engine for Strings {
    type Place = usize;

    fn place(&self, prefix: &[u32]) -> usize {
        let step = |node, token: &u32| self.step(node, *token).expect("a prefix of a title");
        prefix.iter().fold(self.0.root().addr(), step)
    }

    fn mask(&self, place: &usize, mut mask: MaskMut<'_>) -> Option<()> {
        mask.clear();
        for first in self.0.node(*place).transitions() {
            for second in self.0.node(first.addr).transitions() {
                for third in self.0.node(second.addr).transitions() {
                    mask.insert(TokenId(u32::from_be_bytes([0, first.inp, second.inp, third.inp])));
                }
            }
        }
        Some(())
    }

    fn candidates(&self, place: &usize, candidates: &[TokenId], valid: &mut [bool]) {
        for (valid, token) in valid.iter_mut().zip(candidates) {
            *valid = self.step(*place, token.0).is_some();
        }
    }

    fn bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unskew_core::TokenMask;

    use super::*;
    use crate::sets::titles::{Titles, VOCAB};

    fn check(engine: &impl Engine, titles: &[Vec<u32>], source: &mut Titles) {
        for _ in 0..50 {
            let title = &titles[source.below(titles.len())];
            let prefix = &title[..source.below(title.len() + 1)];
            let expected: BTreeSet<u32> = titles
                .iter()
                .filter(|title| title.starts_with(prefix))
                .filter_map(|title| title.get(prefix.len()).copied())
                .collect();
            let place = engine.place(prefix);
            let mut mask = TokenMask::new(VOCAB);
            if engine.mask(&place, mask.as_mut()).is_some() {
                assert!(mask.ids().map(u32::from).eq(expected.iter().copied()));
            }
            let mut candidates: Vec<TokenId> = (0..20).map(|_| TokenId(source.token())).collect();
            candidates.extend(expected.iter().take(5).copied().map(TokenId));
            let mut valid = vec![false; candidates.len()];
            engine.candidates(&place, &candidates, &mut valid);
            let mut of_step = vec![false; candidates.len()];
            engine.step(std::slice::from_ref(&place), &candidates, &mut of_step);
            assert_eq!(of_step, valid);
            for (token, valid) in candidates.iter().zip(valid) {
                assert_eq!(valid, expected.contains(&token.0));
            }
        }
    }

    #[test]
    fn all_structures_hold_the_titles() {
        let mut source = Titles::new(3);
        let mut titles = source.set(3000);
        titles.sort();
        check(&Ranges::new(&titles), &titles, &mut source);
        check(&Hashes::new(&titles), &titles, &mut source);
        check(&Rows::new(&titles, false), &titles, &mut source);
        check(&Rows::new(&titles, true), &titles, &mut source);
        check(&Strings::new(&titles), &titles, &mut source);
        let set = super::super::set_of(&titles);
        let set = SetConstraint::new(Arc::new(set), VOCAB).unwrap();
        check(&Columns(Arc::new(set)), &titles, &mut source);
    }
}
