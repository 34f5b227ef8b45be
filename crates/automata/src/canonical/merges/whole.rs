//! Pieces that the encoder writes as one token without any merge (`ignore_merges`) although merges would write other
//! tokens.
//!
//! Some encoders look up a whole piece in the vocabulary before they merge. For tokens that merges create anyway,
//! the look-up changes nothing. The other tokens (588 of Llama 3's) are written exactly if they are a whole piece,
//! and the sequence that merges would create from the same piece is never written. The same holds for a piece that
//! reads like the name of a token that spells another text (`<0x0A>`). A small trie stores these unwritten
//! sequences. It is followed from the start of each piece.

use super::derivation::NONE;
use crate::ids::{Id, WholeNode};

/// The merged sequences of the pieces that the encoder writes as one token instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WholePieces {
    /// Node 0 is the root: the start of a piece.
    nodes: Vec<Node>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    /// The token on the edge to this node; [`NONE`] for the root.
    token: u32,
    /// Whether a piece may not end here.
    is_complete: bool,
    /// Tokens and nodes, in ascending order of tokens.
    children: Vec<(u32, WholeNode)>,
}

impl Default for WholePieces {
    fn default() -> Self {
        Self { nodes: vec![Node { token: NONE, is_complete: false, children: vec![] }] }
    }
}

impl WholePieces {
    /// In bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let children = self.nodes.iter().map(|node| size_of_val(&node.children[..]));
        size_of_val(&self.nodes[..]) + children.sum::<usize>()
    }

    /// Adds the sequence that merges would create from a piece.
    pub(crate) fn insert(&mut self, sequence: &[u32]) {
        let mut at = WholeNode::ROOT;
        for token in sequence {
            at = match self.child(at, *token) {
                Some(child) => child,
                None => {
                    let child = WholeNode::from_index(self.nodes.len());
                    self.nodes.push(Node { token: *token, is_complete: false, children: vec![] });
                    let children = &mut self.nodes[at.index()].children;
                    let place = children.partition_point(|(other, _)| other < token);
                    children.insert(place, (*token, child));
                    child
                }
            };
        }
        self.nodes[at.index()].is_complete = true;
    }

    pub(crate) fn child(&self, node: WholeNode, token: u32) -> Option<WholeNode> {
        let children = &self.nodes[node.index()].children;
        let at = children.binary_search_by_key(&token, |(token, _)| *token).ok()?;
        Some(children[at].1)
    }

    /// The children of `node` with the tokens on the edges to them.
    pub(crate) fn children(&self, node: WholeNode) -> &[(u32, WholeNode)] {
        &self.nodes[node.index()].children
    }

    /// The token on the edge to `node`, which is not the root.
    pub(crate) fn token(&self, node: WholeNode) -> u32 {
        self.nodes[node.index()].token
    }

    /// Whether a piece must not end at `node` because the encoder writes the piece as one token.
    pub(crate) fn is_complete(&self, node: WholeNode) -> bool {
        self.nodes[node.index()].is_complete
    }
}
