//! The plain trie of tokens over bytes, flat, in depth-first order.
//!
//! A walk runs a byte automaton over every token at once and skips a whole subtree where the automaton stops. In
//! depth-first order that is one forward pass over an array. A node knows its depth (which state to step from) and
//! the end of its subtree (where to go on when a byte fails). A trie of child arrays with an explicit stack took
//! about twice the time of this form, over 128,000 tokens.

use unskew_core::TokenId;

use crate::ids::{Id, NodeId, index};

/// One node: the last byte of a prefix of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    /// Index of the first node after this one's subtree.
    pub(crate) end: u32,
    /// The length of the prefix, minus one, in the high 24 bits; the byte in the low 8.
    depth_and_byte: u32,
    /// The tokens that spell this prefix: from here to the first token of the next node. There is none if the two are
    /// equal.
    pub(crate) first_token: u32,
}

impl Node {
    #[inline]
    pub(crate) fn byte(self) -> u8 {
        (self.depth_and_byte & 0xff) as u8
    }

    #[inline]
    pub(crate) fn depth(self) -> usize {
        (self.depth_and_byte >> 8) as usize
    }
}

/// A depth-first array of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ByteTrie {
    /// Depth-first, children in ascending order of bytes; the root is not stored. One sentinel node at the end.
    pub(crate) nodes: Vec<Node>,
    /// Token ids in the order of their bytes. Tokens of equal bytes are in the order of ids.
    pub(crate) tokens: Vec<TokenId>,
}

impl ByteTrie {
    /// The trie of `texts`, which ascend and are not empty.
    pub(crate) fn new(texts: &[(&[u8], TokenId)]) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut tokens = Vec::with_capacity(texts.len());
        // The nodes of the current prefix, whose subtrees are still open.
        let mut open: Vec<usize> = Vec::new();
        let mut previous: &[u8] = &[];
        for (text, token) in texts {
            let shared = previous.iter().zip(*text).take_while(|(left, right)| left == right).count();
            // `previous` may be longer than the prefix that it shares with `text`: the subtrees of its other nodes
            // are complete.
            for closed in open.drain(shared..) {
                nodes[closed].end = index(nodes.len());
            }
            for (depth, byte) in text.iter().enumerate().skip(shared) {
                open.push(nodes.len());
                let depth_and_byte = index(depth) << 8 | u32::from(*byte);
                nodes.push(Node { end: 0, depth_and_byte, first_token: index(tokens.len()) });
            }
            tokens.push(*token);
            previous = text;
        }
        for closed in open {
            nodes[closed].end = index(nodes.len());
        }
        nodes.push(Node { end: index(nodes.len()), depth_and_byte: 0, first_token: index(tokens.len()) });
        Self { nodes, tokens }
    }

    /// The number of nodes, without the sentinel.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The tokens that spell the prefix of `node`.
    #[inline]
    pub(crate) fn own(&self, node: usize) -> &[TokenId] {
        &self.tokens[self.nodes[node].first_token as usize..self.nodes[node + 1].first_token as usize]
    }

    /// The tokens that begin with the prefix of `node`.
    pub(crate) fn below(&self, node: usize) -> &[TokenId] {
        let Node { first_token, end, .. } = self.nodes[node];
        &self.tokens[first_token as usize..self.nodes[end as usize].first_token as usize]
    }

    /// The node `at` and its siblings after it, as far as they lie before `end`, each with its byte.
    fn siblings(&self, mut at: usize, end: usize) -> impl Iterator<Item = Child> {
        std::iter::from_fn(move || {
            let child = (at < end).then_some((self.nodes[at].byte(), NodeId::from_index(at)))?;
            at = self.nodes[at].end as usize;
            Some(child)
        })
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.tokens[..])
    }
}

/// A child of a node: its byte, and its place.
pub(crate) type Child = (u8, NodeId);

/// Lists of children in which one child is found without passing over the others. Children lie far apart, and passing
/// over all of them is most of a walk that reads few bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Children {
    /// The nodes of single bytes.
    pub(crate) roots: Vec<Child>,
    /// The nodes with many children, in ascending order, each with the index of its first child in `all`.
    branching: Vec<(NodeId, u32)>,
    /// For each of these nodes the children, in ascending order of bytes.
    all: Vec<Child>,
    /// The least number of children that are many.
    many: usize,
}

impl Children {
    /// The lists of nodes with at least `many` children.
    pub(crate) fn new(trie: &ByteTrie, many: usize) -> Self {
        let roots = trie.siblings(0, trie.len()).collect();
        let (mut branching, mut all) = (Vec::new(), Vec::new());
        for (at, node) in trie.nodes[..trie.len()].iter().enumerate() {
            let end = node.end as usize;
            if end - at > many && trie.siblings(at + 1, end).nth(many - 1).is_some() {
                branching.push((NodeId::from_index(at), index(all.len())));
                all.extend(trie.siblings(at + 1, end));
            }
        }
        Self { roots, branching, all, many }
    }

    /// The list of the children of `node`, if there is one.
    #[inline]
    pub(crate) fn of(&self, trie: &ByteTrie, node: usize) -> Option<&[Child]> {
        if trie.nodes[node].end as usize - node <= self.many {
            return None;
        }
        let at = self.branching.binary_search_by_key(&node, |(node, _)| node.index()).ok()?;
        let end = self.branching.get(at + 1).map_or(self.all.len(), |(_, first)| *first as usize);
        Some(&self.all[self.branching[at].1 as usize..end])
    }

    /// The node of the prefix `bytes`, which is not empty.
    pub(crate) fn find(&self, trie: &ByteTrie, bytes: &[u8]) -> Option<usize> {
        let search = |children: &[Child], byte: u8| {
            let found = children.binary_search_by_key(&byte, |(byte, _)| *byte).ok()?;
            Some(children[found].1.index())
        };
        let nodes = &trie.nodes;
        let child = |node: usize, byte: u8| match self.of(trie, node) {
            Some(children) => search(children, byte),
            None => {
                let (mut at, end) = (node + 1, nodes[node].end as usize);
                while at < end && nodes[at].byte() < byte {
                    at = nodes[at].end as usize;
                }
                (at < end && nodes[at].byte() == byte).then_some(at)
            }
        };
        let (first, others) = bytes.split_first()?;
        others.iter().try_fold(search(&self.roots, *first)?, |at, byte| child(at, *byte))
    }

    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&self.branching[..]) + size_of_val(&self.all[..])
    }
}
