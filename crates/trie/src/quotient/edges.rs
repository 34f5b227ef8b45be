//! The byte trie as a trie of characters: for each node at which a character ends, the characters that follow.

use std::collections::HashMap;

use super::Member;
use crate::{
    byte_trie::Node,
    ids::{Id, NodeId},
    symbols::{Symbol, Symbols},
};

/// The characters that follow each place of a byte trie. The sentinel node stands for the root.
pub(super) struct Edges {
    /// For each node of the byte trie: the index of its first edge.
    first: Vec<u32>,
    edges: Vec<Edge>,
}

/// A character that follows a place of the trie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) symbol: Symbol,
    pub(super) member: Member,
}

/// The state of reading a prefix.
#[derive(Clone, Copy)]
struct Reading {
    /// The place where the last whole character ended; `None` where the bytes are no text.
    at: Option<NodeId>,
    /// The bytes since that place.
    bytes: [u8; 4],
    len: u8,
}

impl Edges {
    /// The edges of `nodes`; and the tokens that are not strings of whole characters with a symbol, as indices. O(n)
    /// for n nodes.
    pub(super) fn new(nodes: &[Node], symbols: &mut Symbols) -> (Self, Vec<usize>) {
        let root = NodeId::from_index(nodes.len() - 1);
        let mut found: Vec<(NodeId, Edge)> = Vec::with_capacity(nodes.len());
        let mut irregular = vec![];
        let mut cache: HashMap<char, Option<Symbol>> = HashMap::new();
        let mut readings = vec![Reading { at: Some(root), bytes: [0; 4], len: 0 }];
        for (node_index, pair) in nodes.windows(2).enumerate() {
            let node = pair[0];
            let mut reading = readings[node.depth()];
            if let Some(place) = reading.at {
                let here = NodeId::from_index(node_index);
                reading.bytes[usize::from(reading.len)] = node.byte();
                reading.len += 1;
                match std::str::from_utf8(&reading.bytes[..usize::from(reading.len)]) {
                    Ok(text) => {
                        let char = text.chars().next().expect("there is a byte");
                        let symbol = if char.is_ascii() {
                            symbols.symbol(char)
                        } else {
                            *cache.entry(char).or_insert_with(|| symbols.symbol(char))
                        };
                        let member = Member { char, node: here, quotient: None };
                        found.extend(symbol.map(|symbol| (place, Edge { symbol, member })));
                        reading = Reading { at: symbol.map(|_| here), bytes: [0; 4], len: 0 };
                    }
                    Err(error) if error.error_len().is_some() => reading.at = None,
                    Err(_) => {}
                }
            }
            if reading.at.is_none() || reading.len > 0 {
                irregular.extend(node.first_token as usize..pair[1].first_token as usize);
            }
            readings.truncate(node.depth() + 1);
            readings.push(reading);
        }
        // A counting sort: the edges of each place, in their order.
        let mut first = vec![0; nodes.len() + 1];
        for (place, _) in &found {
            first[place.index() + 1] += 1;
        }
        for place in 0..nodes.len() {
            first[place + 1] += first[place];
        }
        let mut at = first.clone();
        let none = Edge { symbol: Symbol(0), member: Member { char: '\0', node: root, quotient: None } };
        let mut edges = vec![none; found.len()];
        for (place, edge) in found {
            let slot = &mut at[place.index()];
            edges[*slot as usize] = edge;
            *slot += 1;
        }
        (Self { first, edges }, irregular)
    }

    /// The characters that follow `place`.
    pub(super) fn of(&self, place: NodeId) -> &[Edge] {
        let place = place.index();
        &self.edges[self.first[place] as usize..self.first[place + 1] as usize]
    }
}
