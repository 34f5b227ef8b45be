//! Safe bytes: bytes with which an automaton never comes to a dead end, and the bytes below each node of a byte trie.
//!
//! Inside a name every letter leads on, also where keywords tell the letters apart. An automaton that knows this says
//! so ([`ByteAutomaton::safe`](crate::ByteAutomaton::safe)), and the walk allows all tokens below a node at once if
//! they hold no other bytes. It visits the nodes above other bytes alone.
//!
//! The sets are of [symbols](crate::symbols) of ASCII: letters of one case and digits are one element each.

use std::collections::HashMap;

use crate::{
    byte_trie::ByteTrie,
    ids::index,
    symbols::{Symbol, SymbolSet},
};

/// Bytes of ASCII that are [safe](crate::ByteAutomaton::safe) from a state on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SafeBytes(u128);

impl SafeBytes {
    /// The bytes of ASCII for which `is_safe` is true. Letters of one case count only if all of them are safe, and so
    /// do digits. `None` if none are left.
    pub fn new(is_safe: impl Fn(u8) -> bool) -> Option<Self> {
        let mut symbols = ALL;
        for byte in (0..128).filter(|byte| !is_safe(*byte)) {
            symbols &= !(1 << Symbol::of_ascii(byte).0);
        }
        (symbols != 0).then_some(Self(symbols))
    }

    /// The number of elements: letters of one case are one, digits are one.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether all of these symbols are safe. None beyond ASCII is.
    #[inline]
    pub(crate) fn covers(self, symbols: SymbolSet) -> bool {
        !symbols.has_non_ascii() && symbols.ascii() & !self.0 == 0
    }
}

/// All symbols of ASCII, one bit each.
const ALL: u128 = {
    let (mut all, mut byte) = (0, 0);
    while byte < 128 {
        all |= 1 << Symbol::of_ascii(byte).0;
        byte += 1;
    }
    all
};

/// For each node of a byte trie, the symbols below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SymbolsBelow {
    /// By node: the index of its set.
    set: Vec<u32>,
    /// Each once.
    sets: Vec<SymbolSet>,
}

impl SymbolsBelow {
    /// O(n) for n nodes.
    pub(crate) fn new(trie: &ByteTrie) -> Self {
        let mut below = vec![SymbolSet::default(); trie.len()];
        // The nodes above the present one.
        let mut open: Vec<usize> = Vec::new();
        let close = |below: &mut Vec<SymbolSet>, open: &mut Vec<usize>| {
            if let (Some(closed), Some(parent)) = (open.pop(), open.last()) {
                let mut symbols = below[closed];
                symbols.insert(symbol(trie.nodes[closed].byte()));
                below[*parent].union(symbols);
            }
        };
        for (at, node) in trie.nodes[..trie.len()].iter().enumerate() {
            while open.len() > node.depth() {
                close(&mut below, &mut open);
            }
            open.push(at);
        }
        while !open.is_empty() {
            close(&mut below, &mut open);
        }
        let (mut sets, mut indices) = (Vec::new(), HashMap::new());
        let set = below.into_iter().map(|symbols| {
            *indices.entry(symbols).or_insert_with(|| {
                sets.push(symbols);
                index(sets.len() - 1)
            })
        });
        Self { set: set.collect(), sets }
    }

    /// The symbols below a node.
    #[inline]
    pub(crate) fn of(&self, node: usize) -> SymbolSet {
        self.sets[self.set[node] as usize]
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.set[..]) + size_of_val(&self.sets[..])
    }
}

/// The symbol of a byte; one for all bytes beyond ASCII, which are parts of characters.
fn symbol(byte: u8) -> Symbol {
    if byte.is_ascii() { Symbol::of_ascii(byte) } else { Symbol(128) }
}
