//! Postings: for each symbol, the tokens that hold it and the nodes that end with it. Also the tokens that are long,
//! and the nodes that are deep. In these lists the walk finds the few exceptions among thousands of nodes.

use std::ops::Range;

use unskew_core::{TokenId, WORD_BITS};

use super::{Quotient, Quotients};
use crate::{
    ids::index,
    symbols::{LOWER, Symbol},
};

/// The lists of one set of quotients. Tokens are those of the quotient of the whole trie; nodes are those of all
/// quotients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Postings {
    /// For each ASCII symbol, the tokens that hold it; empty where they are many.
    symbol: Vec<Vec<TokenId>>,
    /// The ASCII symbols that many tokens hold, one bit each.
    pub(crate) many: u128,
    /// The tokens that hold symbols beyond ASCII, in words of a mask.
    pub(crate) non_ascii: Vec<u32>,
    /// The tokens with more than [`short_symbols`](crate::tuning::Tuning::short_symbols) symbols, by their number of
    /// symbols, the longest first.
    long: Vec<(u32, TokenId)>,
    /// For each ASCII symbol that few tokens hold: the nodes that end with it and are below no other such node, in
    /// order.
    nodes: Vec<Vec<u32>>,
    /// The same for all symbols beyond ASCII together.
    non_ascii_nodes: Vec<u32>,
    /// For each quotient: the nodes of more than `short_symbols` symbols, and those that may have as many, each with
    /// its depth, the deepest first.
    deep: Vec<Vec<(u32, u32)>>,
}

/// The exceptions that are asked for: nodes that end with one of these symbols, and nodes of at least this depth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exceptions {
    /// Symbols of ASCII, one bit each.
    pub(crate) ascii: u128,
    /// Whether all symbols beyond ASCII are exceptions.
    pub(crate) non_ascii: bool,
    pub(crate) depth: usize,
}

/// The bit of `b`, which is no symbol, stands for all symbols beyond ASCII.
const NON_ASCII: u128 = 1 << (LOWER.0 + 1);

impl Postings {
    /// The postings of `quotients`, with these numbers of bytes in front of each quotient.
    pub(super) fn new(quotients: &Quotients, prefixes: &[usize]) -> Self {
        let tuning = &quotients.tuning;
        let mut all =
            Self { symbol: vec![vec![]; 128], non_ascii: vec![0; quotients.words], ..Self::default() };
        let Quotient { first, end, .. } = quotients.whole();
        let mut above: Vec<u128> = vec![0];
        for at in first as usize..end as usize {
            let (symbol, depth) = (quotients.nodes[at].symbol(), quotients.nodes[at].depth());
            let held = above[depth] | if symbol.is_ascii() { 1 << symbol.0 } else { NON_ASCII };
            above.truncate(depth + 1);
            above.push(held);
            for token in quotients.own(at) {
                if held & NON_ASCII != 0 {
                    all.non_ascii[token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
                }
                if depth >= tuning.short_symbols {
                    all.long.push((index(depth + 1), *token));
                }
                let mut left = held & !NON_ASCII;
                while left != 0 {
                    all.symbol[left.trailing_zeros() as usize].push(*token);
                    left &= left - 1;
                }
            }
        }
        for (symbol, tokens) in all.symbol.iter_mut().enumerate() {
            if tokens.len() > tuning.listed_tokens {
                *tokens = Vec::new();
                all.many |= 1 << symbol;
            }
            tokens.shrink_to_fit();
        }
        all.long.sort_unstable_by(|left, right| right.cmp(left));
        all.add_nodes(quotients, prefixes);
        all
    }

    fn add_nodes(&mut self, quotients: &Quotients, prefixes: &[usize]) {
        self.nodes = vec![vec![]; 128];
        for (Quotient { first, end, .. }, prefix) in quotients.all.iter().zip(prefixes) {
            let mut deep: Vec<(u32, u32)> = Vec::new();
            // For each symbol, with those beyond ASCII as one: the end of the subtree of the last such node.
            let mut done = [0; 129];
            for at in *first..*end {
                let node = quotients.nodes[at as usize];
                let symbol = node.symbol().0.min(128);
                let is_few = symbol == 128 || self.many >> symbol & 1 == 0;
                if is_few && at >= done[usize::from(symbol)] {
                    let nodes = self.nodes.get_mut(usize::from(symbol)).unwrap_or(&mut self.non_ascii_nodes);
                    nodes.push(at);
                    done[usize::from(symbol)] = node.end;
                }
                // A string has at most as many symbols as bytes.
                if prefix + node.depth() >= quotients.tuning.short_symbols {
                    deep.push((index(node.depth()), at));
                }
            }
            deep.sort_unstable_by(|left, right| right.cmp(left));
            deep.shrink_to_fit();
            self.deep.push(deep);
        }
        self.nodes.iter_mut().for_each(Vec::shrink_to_fit);
        self.non_ascii_nodes.shrink_to_fit();
    }

    /// The tokens that hold a symbol of ASCII, which is not among [`many`](Self::many).
    pub(crate) fn holding(&self, symbol: Symbol) -> &[TokenId] {
        &self.symbol[symbol.index()]
    }

    /// The tokens with more symbols than `most`, which is at least `short_symbols`.
    pub(crate) fn longer_than(&self, most: usize) -> &[(u32, TokenId)] {
        &self.long[..self.long.partition_point(|(symbols, _)| *symbols as usize > most)]
    }

    pub(super) fn memory_usage(&self) -> usize {
        let lists = self.symbol.iter().map(|tokens| size_of_val(&tokens[..])).sum::<usize>();
        let nodes = self.nodes.iter().chain([&self.non_ascii_nodes]).map(|nodes| size_of_val(&nodes[..]));
        let deep = self.deep.iter().map(|nodes| size_of_val(nodes) + size_of_val(&nodes[..]));
        let nodes = nodes.sum::<usize>() + deep.sum::<usize>();
        lists + nodes + size_of_val(&self.non_ascii[..]) + size_of_val(&self.long[..])
    }
}

impl Quotients {
    /// The nodes among `among`, which are in the quotient that begins at `root`, that are exceptions. The answer has
    /// a bit for each node, from the first of `among` on. Nodes below other exceptions may be missing.
    ///
    /// No node above all of `among` may have one of the symbols, and none of the symbols may be among
    /// [`many`](Postings::many). Nodes of the given depth must have at least `short_symbols` symbols, those in front
    /// of the quotient included.
    pub(crate) fn exceptions(&self, among: Range<usize>, root: usize, of: Exceptions) -> Vec<u64> {
        let Exceptions { ascii, non_ascii, depth } = of;
        let mut found = vec![0; among.len().div_ceil(64)];
        let mut insert = |bit: usize| found[bit / 64] |= 1 << (bit % 64);
        if among.len() <= self.tuning.scanned_nodes {
            for (bit, node) in self.nodes[among].iter().enumerate() {
                let symbol = node.symbol();
                let has_symbol = if symbol.is_ascii() { ascii >> symbol.0 & 1 != 0 } else { non_ascii };
                if has_symbol || node.depth() >= depth {
                    insert(bit);
                }
            }
            return found;
        }
        let mut left = ascii;
        while left != 0 {
            let nodes = &self.postings.nodes[left.trailing_zeros() as usize];
            within(nodes, &among).for_each(&mut insert);
            left &= left - 1;
        }
        if non_ascii {
            within(&self.postings.non_ascii_nodes, &among).for_each(&mut insert);
        }
        let quotient = self.all.partition_point(|quotient| quotient.first as usize <= root) - 1;
        let deep = self.postings.deep[quotient].iter().take_while(|(found, _)| *found as usize >= depth);
        let deep = deep.map(|(_, node)| *node as usize).filter(|node| among.contains(node));
        deep.map(|node| node - among.start).for_each(insert);
        found
    }
}

/// The members of `nodes`, which ascend, that are in the range `among`, counted from its start.
fn within<'a>(nodes: &'a [u32], among: &Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
    let of = |end: usize| nodes.partition_point(|node| (*node as usize) < end);
    let start = among.start;
    nodes[of(start)..of(among.end)].iter().map(move |node| *node as usize - start)
}
