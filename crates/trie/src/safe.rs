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
    symbols::{DIGIT, LOWER, Symbol, UPPER},
};

/// Bytes of ASCII that are [safe](crate::ByteAutomaton::safe) from a state on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SafeBytes(u128);

/// The element that stands for all bytes beyond ASCII, and for 0x7F: it is never safe.
const NEVER: u128 = 1 << 127;

impl SafeBytes {
    /// The bytes of ASCII for which `is_safe` is true. Letters of one case count only if all of them are safe, and so
    /// do digits. `None` if none are left.
    pub fn new(is_safe: impl Fn(u8) -> bool) -> Option<Self> {
        let mut symbols = 0;
        for (symbol, mut bytes) in [(LOWER, b'a'..=b'z'), (UPPER, b'A'..=b'Z'), (DIGIT, b'0'..=b'9')] {
            symbols |= u128::from(bytes.all(&is_safe)) << symbol.0;
        }
        for byte in (0..0x7F).filter(|byte: &u8| !byte.is_ascii_alphanumeric()) {
            symbols |= u128::from(is_safe(byte)) << byte;
        }
        (symbols != 0).then_some(Self(symbols))
    }

    /// The number of elements: letters of one case are one, digits are one.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether all of these symbols of ASCII, one bit each, are safe.
    #[inline]
    pub(crate) fn covers(self, symbols: u128) -> bool {
        symbols & !(self.0 & !NEVER) == 0
    }
}

/// For each node of a byte trie, the symbols of ASCII below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SymbolsBelow {
    /// By node: the index of its set.
    set: Vec<u32>,
    /// Each once.
    sets: Vec<u128>,
}

impl SymbolsBelow {
    /// O(n) for n nodes.
    pub(crate) fn new(trie: &ByteTrie) -> Self {
        let mut below: Vec<u128> = vec![0; trie.len()];
        // The nodes above the present one.
        let mut open: Vec<usize> = Vec::new();
        let close = |below: &mut Vec<u128>, open: &mut Vec<usize>| {
            if let (Some(closed), Some(parent)) = (open.pop(), open.last()) {
                below[*parent] |= below[closed] | symbol(trie.nodes[closed].byte());
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

    /// The symbols below a node, one bit each.
    #[inline]
    pub(crate) fn of(&self, node: usize) -> u128 {
        self.sets[self.set[node] as usize]
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.set[..]) + size_of_val(&self.sets[..])
    }
}

/// The element of a byte.
fn symbol(byte: u8) -> u128 {
    if byte < 0x7F { 1 << Symbol::of_ascii(byte).0 } else { NEVER }
}
