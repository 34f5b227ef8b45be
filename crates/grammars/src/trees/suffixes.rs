//! Suffix tries: the suffixes of the tokens that leave a path of terminals, and how they are read.
//!
//! A token that leaves a terminal continues with a **suffix**. Suffixes that begin with the same byte are a
//! [`SuffixGroup`]. The suffixes of a group are a trie in depth-first order, built when it is first asked for. The
//! terminals that may follow are found by a walk over two things side by side: the trie and a sorted list of literals
//! ([`SuffixTrie::meet`]), or the trie and an automaton ([`SuffixTrie::enter`]). Neither asks the parser for anything
//! but the followers of a terminal that has ended.
//!
//! Tried instead: to read suffixes byte by byte through configurations. That is short and general, but it creates a
//! configuration for every byte, and most of them are states of white space after a comma that the next mask creates
//! again.

use std::sync::OnceLock;

use unskew_core::{TokenId, Vocabulary};
use unskew_trie::ByteSet;

use super::cache::{LibraryId, LibraryIds};
use crate::{
    TreeLibrary,
    ids::{Id, id, number},
};

/// A token that leaves a path: the byte with which it leaves, the token, and the length of the suffix that begins
/// with that byte.
pub(crate) type Exit = (u8, TokenId, u32);

/// The tokens that leave the last terminal of a path, by the byte with which they leave.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// In ascending order of bytes.
    pub(crate) groups: Box<[SuffixGroup]>,
    /// The bytes of the groups.
    pub(crate) bytes: ByteSet,
}

/// Suffixes that begin with the same byte.
#[derive(Debug)]
pub(crate) struct SuffixGroup {
    pub(crate) byte: u8,
    /// Among all groups and nodes of a library.
    pub(crate) id: LibraryId,
    /// Tokens, and the lengths of their suffixes.
    tokens: Box<[(TokenId, u32)]>,
    trie: OnceLock<SuffixTrie>,
}

id! {
    /// A node of a [`SuffixTrie`]: the point after its byte.
    SuffixNode
}

/// The suffixes of one group.
#[derive(Debug)]
pub(crate) struct SuffixTrie {
    /// Depth-first, the byte of the group first; and one more after the last.
    nodes: Box<[TrieNode]>,
    /// In the order of the nodes in which they end.
    tokens: Box<[TokenId]>,
    /// The second bytes of the suffixes and their nodes: there are many, far from each other.
    second: Box<[(u8, u32)]>,
}

#[derive(Clone, Copy, Debug)]
struct TrieNode {
    byte: u8,
    /// The number of bytes before `byte`.
    depth: u32,
    /// The node after the descendants of this one.
    end: u32,
    /// The first token that ends here or in a descendant. Tokens that end here come before those of the next node.
    tokens: u32,
}

/// The tokens of a trie after an automaton has read their suffixes.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    /// The tokens that end in the automaton.
    pub(crate) inside: Vec<TokenId>,
    pub(crate) exits: Vec<Exit>,
}

impl Exits {
    /// Of a node.
    pub(crate) fn new(tokens: &[Exit], ids: &LibraryIds) -> Self {
        let mut bytes = ByteSet::default();
        let mut lens = [0; 256];
        for (byte, ..) in tokens {
            bytes.insert(*byte);
            lens[usize::from(*byte)] += 1;
        }
        let mut index_of = [0; 256];
        let mut groups: Vec<(u8, Vec<(TokenId, u32)>)> = Vec::with_capacity(bytes.len());
        for byte in bytes.iter() {
            index_of[usize::from(byte)] = groups.len();
            groups.push((byte, Vec::with_capacity(lens[usize::from(byte)])));
        }
        for (byte, token, len) in tokens {
            groups[index_of[usize::from(*byte)]].1.push((*token, *len));
        }
        let groups = groups.into_iter().map(|(byte, tokens)| SuffixGroup {
            byte,
            id: ids.next(),
            tokens: tokens.into(),
            trie: OnceLock::new(),
        });
        Self { groups: groups.collect(), bytes }
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = Exit> {
        self.groups
            .iter()
            .flat_map(|group| group.tokens.iter().map(|(token, len)| (group.byte, *token, *len)))
    }

    /// The bytes of the groups and of the tries that were built.
    pub(crate) fn memory_usage(&self) -> usize {
        let group = |group: &SuffixGroup| {
            size_of::<SuffixGroup>()
                + size_of_val(&group.tokens[..])
                + group.trie.get().map_or(0, SuffixTrie::memory_usage)
        };
        self.groups.iter().map(group).sum()
    }

    /// The group of `byte`, and its index.
    #[inline]
    pub(crate) fn group(&self, byte: u8) -> Option<(usize, &SuffixGroup)> {
        if !self.bytes.contains(byte) {
            return None;
        }
        let index = self.bytes.rank(byte);
        Some((index, &self.groups[index]))
    }
}

impl SuffixGroup {
    /// The trie, built at the first call. `library` gave the group its id.
    pub(crate) fn trie(&self, library: &TreeLibrary) -> &SuffixTrie {
        self.trie.get_or_init(|| {
            let trie = SuffixTrie::new(&self.tokens, library.vocabulary());
            library.cache.grow(trie.memory_usage());
            trie
        })
    }

    /// Builds the trie.
    pub(crate) fn build_trie(&self, vocabulary: &Vocabulary) {
        self.trie.get_or_init(|| SuffixTrie::new(&self.tokens, vocabulary));
    }
}

impl SuffixTrie {
    /// The node of the first byte of all suffixes.
    pub(crate) const FIRST: SuffixNode = SuffixNode::of(0);

    fn new(tokens: &[(TokenId, u32)], vocabulary: &Vocabulary) -> Self {
        let mut texts: Vec<(&[u8], TokenId)> = tokens
            .iter()
            .map(|(token, len)| {
                let text = vocabulary.text(*token).unwrap_or_default();
                (&text[text.len() - *len as usize..], *token)
            })
            .collect();
        texts.sort_unstable();
        let mut nodes: Vec<TrieNode> = Vec::new();
        // The nodes of the bytes of the text at hand.
        let mut open: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for (at, (text, _)) in texts.iter().enumerate() {
            let shared = before.iter().zip(*text).take_while(|(left, right)| left == right).count();
            let end = nodes.len();
            open.drain(shared..).for_each(|node| nodes[node].end = number(end));
            for (depth, byte) in text.iter().enumerate().skip(shared) {
                open.push(nodes.len());
                nodes.push(TrieNode { byte: *byte, depth: number(depth), end: 0, tokens: number(at) });
            }
            before = text;
        }
        let end = number(nodes.len());
        open.into_iter().for_each(|node| nodes[node].end = end);
        nodes.push(TrieNode { byte: 0, depth: 0, end, tokens: number(texts.len()) });
        let tokens = texts.into_iter().map(|(_, token)| token).collect();
        let trie = Self { nodes: nodes.into(), tokens, second: Box::default() };
        let second = trie.children(Self::FIRST).map(|(byte, node)| (byte, node.raw()));
        Self { second: second.collect(), ..trie }
    }

    fn memory_usage(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.tokens[..]) + size_of_val(&self.second[..])
    }

    /// The tokens that end at a node.
    #[inline]
    pub(crate) fn tokens(&self, at: SuffixNode) -> &[TokenId] {
        self.tokens_at(at.raw())
    }

    #[inline]
    fn tokens_at(&self, at: u32) -> &[TokenId] {
        let [this, next] = [at, at + 1].map(|at| self.nodes[at as usize].tokens as usize);
        &self.tokens[this..next]
    }

    /// The number of descendants of a node, itself among them.
    #[inline]
    pub(crate) fn size(&self, at: SuffixNode) -> u32 {
        self.nodes[at.index()].end - at.raw()
    }

    /// The tokens that end at a node or its descendants.
    #[inline]
    pub(crate) fn below(&self, at: SuffixNode) -> &[TokenId] {
        let TrieNode { tokens, end, .. } = self.nodes[at.index()];
        &self.tokens[tokens as usize..self.nodes[end as usize].tokens as usize]
    }

    /// The children of a node with these bytes, which ascend, each with what comes with its byte.
    pub(crate) fn children_of<T>(
        &self,
        at: SuffixNode,
        bytes: impl Iterator<Item = (u8, T)>,
    ) -> impl Iterator<Item = (SuffixNode, T)> {
        let mut from = at.raw() + 1;
        bytes.filter_map(move |(byte, with)| match self.child_from(at.raw(), from, byte) {
            Ok(child) => {
                from = child;
                Some((SuffixNode::of(child), with))
            }
            Err(after) => {
                from = after;
                None
            }
        })
    }

    /// The child of a node with this byte, where `from` is the first child that may be it. If there is none, the child
    /// or the end after the place where it would be.
    #[inline]
    fn child_from(&self, at: u32, from: u32, byte: u8) -> Result<u32, u32> {
        let end = self.nodes[at as usize].end;
        if at == 0 {
            return match self.second.binary_search_by_key(&byte, |(byte, _)| *byte) {
                Ok(found) => Ok(self.second[found].1),
                Err(after) => Err(self.second.get(after).map_or(end, |(_, child)| *child)),
            };
        }
        let mut next = from;
        while next < end && self.nodes[next as usize].byte < byte {
            next = self.nodes[next as usize].end;
        }
        if next < end && self.nodes[next as usize].byte == byte { Ok(next) } else { Err(next) }
    }

    /// The children of a node with their bytes, in ascending order.
    #[inline]
    pub(crate) fn children(&self, at: SuffixNode) -> impl Iterator<Item = (u8, SuffixNode)> {
        let end = self.nodes[at.index()].end;
        let mut next = at.raw() + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = (self.nodes[next as usize].byte, SuffixNode::of(next));
                next = self.nodes[next as usize].end;
                child
            })
        })
    }

    /// Reads `literals` from a node on. They ascend and agree in their first `depth` bytes, of which the last is that
    /// of the node. Calls `inside` with the tokens that end in a literal or at its end, and `ended` with each literal
    /// that ends at a node with children, and that node. `open` is a buffer, empty.
    ///
    /// Cost: the nodes that agree with a literal and their neighbours, and a search in the list for each byte in
    /// which literals differ.
    pub(crate) fn meet<'l, L: Copy>(
        &self,
        (at, depth): (SuffixNode, usize),
        literals: &'l [L],
        text: impl Fn(L) -> &'l [u8],
        mut inside: impl FnMut(&[TokenId]),
        mut ended: impl FnMut(SuffixNode, L),
        open: &mut Vec<(u32, u32, u32, u32)>,
    ) {
        open.push((at.raw(), number(depth), 0, number(literals.len())));
        while let Some((at, depth, first, end)) = open.pop() {
            let depth = depth as usize;
            inside(self.tokens_at(at));
            let has_children = self.nodes[at as usize].end > at + 1;
            let mut literals = &literals[first as usize..end as usize];
            let mut first = first;
            while let Some(literal) = literals.first().filter(|literal| text(**literal).len() == depth) {
                if has_children {
                    ended(SuffixNode::of(at), *literal);
                }
                literals = &literals[1..];
                first += 1;
            }
            let mut from = at + 1;
            while let Some(literal) = literals.first().filter(|_| has_children) {
                let next = |literal: &L| text(*literal)[depth];
                let byte = next(literal);
                let len = match &literals[1..] {
                    [] => 1,
                    others => 1 + others.partition_point(|literal| next(literal) == byte),
                };
                match self.child_from(at, from, byte) {
                    Ok(child) => {
                        open.push((child, number(depth + 1), first, first + number(len)));
                        from = child;
                    }
                    Err(after) => from = after,
                }
                literals = &literals[len..];
                first += number(len);
            }
        }
    }

    /// Reads the suffixes with an automaton that begins in `start`: from the children of a node on, or from the first
    /// byte on. A suffix leaves the automaton where it cannot be read and the automaton may end, but not before its
    /// first byte.
    ///
    /// Cost: one step for every node whose parent was read.
    pub(crate) fn enter<S: Copy>(
        &self,
        at: Option<SuffixNode>,
        start: S,
        step: impl Fn(S, u8) -> Option<S>,
        may_end: impl Fn(S) -> bool,
        entered: &mut Entered,
    ) {
        let (first, end, base) = match at {
            Some(at) => (at.raw() + 1, self.nodes[at.index()].end, self.nodes[at.index()].depth + 1),
            None => (0, self.nodes[0].end, 0),
        };
        let mut states = vec![start];
        let mut next = first;
        while next < end {
            let node = self.nodes[next as usize];
            let depth = (node.depth - base) as usize;
            states.truncate(depth + 1);
            let state = states[depth];
            if let Some(state) = step(state, node.byte) {
                states.push(state);
                entered.inside.extend_from_slice(self.tokens_at(next));
                next += 1;
                continue;
            }
            if depth > 0 && may_end(state) {
                for below in next..node.end {
                    let len = self.nodes[below as usize].depth - node.depth + 1;
                    entered.exits.extend(self.tokens_at(below).iter().map(|token| (node.byte, *token, len)));
                }
            }
            next = node.end;
        }
    }

    /// Calls `each` with `at` and every descendant that is read, and the state there. `state` is the state at `at`,
    /// and `step` computes the state after a byte. `stack` is a buffer.
    #[inline]
    pub(crate) fn walk<S: Copy>(
        &self,
        at: SuffixNode,
        state: S,
        stack: &mut Vec<S>,
        mut step: impl FnMut(S, u8) -> Option<S>,
        mut each: impl FnMut(SuffixNode, S),
    ) {
        let TrieNode { depth: base, end, .. } = self.nodes[at.index()];
        each(at, state);
        stack.clear();
        stack.push(state);
        let mut next = at.raw() + 1;
        while next < end {
            let node = self.nodes[next as usize];
            stack.truncate((node.depth - base) as usize);
            let Some(state) = step(stack[stack.len() - 1], node.byte) else {
                next = node.end;
                continue;
            };
            stack.push(state);
            each(SuffixNode::of(next), state);
            next += 1;
        }
    }
}
