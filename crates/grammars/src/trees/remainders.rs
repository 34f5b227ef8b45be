//! What is left of the tokens that leave a path of terminals, as tries; and how they are read on.
//!
//! A token that leaves a terminal goes on with a **remainder**. Remainders that begin with the same byte are a [`Group`], and a
//! group is a trie in depth-first order, made when it is first asked for. What may follow in a grammar is found by walking two
//! things side by side: the trie and a sorted list of literals ([`Trie::meet`]), or the trie and an automaton
//! ([`Trie::enter`]). Neither asks a parser for anything but where a terminal has ended.
//!
//! Tried instead: to read remainders byte by byte through the places of a parser. It is short and general, but for every byte
//! it makes a place, and most of them are states of white space behind a comma that the next mask makes again.

use std::sync::OnceLock;

use unskew_core::{TokenId, Vocabulary};
use unskew_trie::{ByteSet, DEAD};

use super::kept::{LibraryId, LibraryIds};
use crate::TreeLibrary;

/// The tokens that leave the last terminal of a path, by the byte with which they do.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// In ascending order of bytes.
    pub(crate) groups: Box<[Group]>,
    /// The bytes of the groups.
    pub(crate) bytes: ByteSet,
}

/// Remainders that begin with the same byte.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) byte: u8,
    /// Among all groups and nodes of a library.
    pub(crate) id: LibraryId,
    /// Whether a library keeps its node.
    is_kept: bool,
    /// Tokens, and how many of their last bytes are left.
    tokens: Box<[(TokenId, u32)]>,
    trie: OnceLock<Trie>,
}

/// A place in a [`Trie`]: behind the byte of this node.
pub(crate) type At = u32;

/// Remainders of one group.
#[derive(Debug)]
pub(crate) struct Trie {
    /// Depth-first, the byte of the group first; and one more behind the last.
    nodes: Box<[Node]>,
    /// In the order of the nodes that they end in.
    tokens: Box<[TokenId]>,
    /// The second bytes of the remainders and the places behind them: there are many, far from each other.
    second: Box<[(u8, At)]>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    byte: u8,
    /// The number of bytes in front of `byte`.
    depth: u32,
    /// Behind the nodes that begin like this one.
    end: u32,
    /// The first token that ends here or further on. Those that end here are in front of those of the next node.
    tokens: u32,
}

/// Where tokens of a trie are, once an automaton has read on.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    /// The tokens that end in it.
    pub(crate) inside: Vec<TokenId>,
    /// The tokens that leave it: with which byte, and how many bytes are left with that one.
    pub(crate) exits: Vec<(u8, TokenId, u32)>,
    /// The number of nodes that were looked at.
    pub(crate) work: usize,
}

impl Exits {
    /// Of tokens that leave with these bytes, each with the number of bytes that are left; of a node that a library keeps or not.
    pub(crate) fn new(tokens: &[(u8, TokenId, u32)], is_kept: bool, ids: &LibraryIds) -> Self {
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
        for (byte, token, left) in tokens {
            groups[index_of[usize::from(*byte)]].1.push((*token, *left));
        }
        let groups = groups.into_iter().map(|(byte, tokens)| Group {
            byte,
            id: ids.next(),
            is_kept,
            tokens: tokens.into(),
            trie: OnceLock::new(),
        });
        Self { groups: groups.collect(), bytes }
    }

    /// The tokens: with which byte they leave, and how many bytes are left with that one.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (u8, TokenId, u32)> {
        self.groups
            .iter()
            .flat_map(|group| group.tokens.iter().map(|(token, left)| (group.byte, *token, *left)))
    }

    /// What the groups take with the tries that were made, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let group = |group: &Group| {
            size_of::<Group>()
                + size_of_val(&group.tokens[..])
                + group.trie.get().map_or(0, Trie::memory_usage)
        };
        self.groups.iter().map(group).sum()
    }

    /// The group of `byte`, and its index.
    #[inline]
    pub(crate) fn group(&self, byte: u8) -> Option<(usize, &Group)> {
        if !self.bytes.contains(byte) {
            return None;
        }
        let index = self.bytes.rank(byte);
        Some((index, &self.groups[index]))
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.tokens.len()).sum()
    }
}

impl Group {
    /// The trie, made where it is not there. `library` gave the group its id.
    pub(crate) fn trie(&self, library: &TreeLibrary) -> &Trie {
        self.trie.get_or_init(|| {
            let trie = Trie::new(&self.tokens, library.vocabulary());
            if self.is_kept {
                library.kept.grow(trie.memory_usage());
            }
            trie
        })
    }

    /// Makes the trie.
    pub(crate) fn make_trie(&self, vocabulary: &Vocabulary) {
        self.trie.get_or_init(|| Trie::new(&self.tokens, vocabulary));
    }
}

impl Trie {
    /// The place behind the first byte of all remainders.
    pub(crate) const FIRST: At = 0;

    fn new(tokens: &[(TokenId, u32)], vocabulary: &Vocabulary) -> Self {
        let mut texts: Vec<(&[u8], TokenId)> = tokens
            .iter()
            .map(|(token, left)| {
                let text = vocabulary.text(*token).unwrap_or_default();
                (&text[text.len() - *left as usize..], *token)
            })
            .collect();
        texts.sort_unstable();
        let id = |index: usize| u32::try_from(index).expect("bounded");
        let mut nodes: Vec<Node> = Vec::new();
        // The nodes that the text at hand goes through.
        let mut open: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for (at, (text, _)) in texts.iter().enumerate() {
            let shared = before.iter().zip(*text).take_while(|(left, right)| left == right).count();
            let end = nodes.len();
            open.drain(shared..).for_each(|node| nodes[node].end = id(end));
            for (depth, byte) in text.iter().enumerate().skip(shared) {
                open.push(nodes.len());
                nodes.push(Node { byte: *byte, depth: id(depth), end: 0, tokens: id(at) });
            }
            before = text;
        }
        let end = id(nodes.len());
        open.into_iter().for_each(|node| nodes[node].end = end);
        nodes.push(Node { byte: 0, depth: 0, end, tokens: id(texts.len()) });
        let tokens = texts.into_iter().map(|(_, token)| token).collect();
        let trie = Self { nodes: nodes.into(), tokens, second: Box::default() };
        Self { second: trie.children(Self::FIRST).collect(), ..trie }
    }

    fn memory_usage(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.tokens[..]) + size_of_val(&self.second[..])
    }

    /// The tokens that end at `at`.
    #[inline]
    pub(crate) fn tokens(&self, at: At) -> &[TokenId] {
        &self.tokens[self.nodes[at as usize].tokens as usize..self.nodes[at as usize + 1].tokens as usize]
    }

    /// The number of places at and behind `at`.
    #[inline]
    pub(crate) fn size(&self, at: At) -> u32 {
        self.nodes[at as usize].end - at
    }

    /// The tokens that end at `at` or behind it.
    #[inline]
    pub(crate) fn below(&self, at: At) -> &[TokenId] {
        let Node { tokens, end, .. } = self.nodes[at as usize];
        &self.tokens[tokens as usize..self.nodes[end as usize].tokens as usize]
    }

    /// The place behind `byte`, if some remainder goes on with it.
    #[inline]
    pub(crate) fn child(&self, at: At, byte: u8) -> Option<At> {
        self.child_from(at, at + 1, byte).ok()
    }

    /// As [`child`](Self::child), where `from` is the first of the children that may be it. If there is none, the first one behind
    /// where it would be.
    #[inline]
    fn child_from(&self, at: At, from: At, byte: u8) -> Result<At, At> {
        let end = self.nodes[at as usize].end;
        if at == Self::FIRST {
            return match self.second.binary_search_by_key(&byte, |(byte, _)| *byte) {
                Ok(found) => Ok(self.second[found].1),
                Err(behind) => Err(self.second.get(behind).map_or(end, |(_, child)| *child)),
            };
        }
        let mut next = from;
        while next < end && self.nodes[next as usize].byte < byte {
            next = self.nodes[next as usize].end;
        }
        if next < end && self.nodes[next as usize].byte == byte { Ok(next) } else { Err(next) }
    }

    /// The places behind one byte more, in ascending order of bytes.
    #[inline]
    pub(crate) fn children(&self, at: At) -> impl Iterator<Item = (u8, At)> {
        let end = self.nodes[at as usize].end;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = (self.nodes[next as usize].byte, next);
                next = self.nodes[next as usize].end;
                child
            })
        })
    }

    /// Reads on from `at` with `literals`, which ascend and agree in their first `depth` bytes, the last of which is at `at`.
    /// Calls `inside` with the tokens that end in or behind one of them, and `ended` with each that comes to its end before
    /// its last token, and where that is. `open` is a buffer, empty.
    ///
    /// Cost: the nodes that agree with a literal and their neighbours, and a search in the list for each byte where literals
    /// part.
    pub(crate) fn meet<'l, L: Copy>(
        &self,
        (at, depth): (At, usize),
        literals: &'l [L],
        text: impl Fn(L) -> &'l [u8],
        mut inside: impl FnMut(&[TokenId]),
        mut ended: impl FnMut(At, L),
        open: &mut Vec<(At, u32, u32, u32)>,
    ) {
        let id = |index: usize| u32::try_from(index).expect("limited");
        open.push((at, id(depth), 0, id(literals.len())));
        while let Some((at, depth, first, end)) = open.pop() {
            let depth = depth as usize;
            inside(self.tokens(at));
            let has_children = self.nodes[at as usize].end > at + 1;
            let mut literals = &literals[first as usize..end as usize];
            let mut first = first;
            while let Some(literal) = literals.first().filter(|literal| text(**literal).len() == depth) {
                if has_children {
                    ended(at, *literal);
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
                        open.push((child, id(depth + 1), first, first + id(len)));
                        from = child;
                    }
                    Err(behind) => from = behind,
                }
                literals = &literals[len..];
                first += id(len);
            }
        }
    }

    /// Reads on from `at` with an automaton, from `start`; or, where that is nothing, from the first byte on. It is left where it
    /// cannot go on and may end, but not in front of a byte.
    ///
    /// Cost: one step for every node whose prefixes were all read.
    pub(crate) fn enter<S: Copy>(
        &self,
        at: Option<At>,
        start: S,
        step: impl Fn(S, u8) -> Option<S>,
        may_end: impl Fn(S) -> bool,
        entered: &mut Entered,
    ) {
        let (first, end, base) = match at {
            Some(at) => (at + 1, self.nodes[at as usize].end, self.nodes[at as usize].depth + 1),
            None => (0, self.nodes[0].end, 0),
        };
        let mut states = vec![start];
        let mut next = first;
        while next < end {
            let node = self.nodes[next as usize];
            let depth = (node.depth - base) as usize;
            states.truncate(depth + 1);
            let state = states[depth];
            entered.work += 1;
            if let Some(state) = step(state, node.byte) {
                states.push(state);
                entered.inside.extend_from_slice(self.tokens(next));
                next += 1;
                continue;
            }
            if depth > 0 && may_end(state) {
                for below in next..node.end {
                    let left = self.nodes[below as usize].depth - node.depth + 1;
                    entered.exits.extend(self.tokens(below).iter().map(|token| (node.byte, *token, left)));
                }
            }
            next = node.end;
        }
    }

    /// Calls `each` with `at` and every place behind it that is read, and the state there: `state` is at `at`, and `step` says
    /// what is behind a byte more, or [`DEAD`]. `stack` is a buffer.
    #[inline]
    pub(crate) fn walk(
        &self,
        at: At,
        state: u32,
        stack: &mut Vec<u32>,
        mut step: impl FnMut(u32, u8) -> u32,
        mut each: impl FnMut(At, u32),
    ) {
        let Node { depth: base, end, .. } = self.nodes[at as usize];
        each(at, state);
        stack.clear();
        stack.push(state);
        let mut next = at + 1;
        while next < end {
            let node = self.nodes[next as usize];
            stack.truncate((node.depth - base) as usize);
            let state = step(stack[stack.len() - 1], node.byte);
            if state == DEAD {
                next = node.end;
                continue;
            }
            stack.push(state);
            each(next, state);
            next += 1;
        }
    }
}

/// What the trie of a group takes for each token: about three nodes.
pub(crate) const PER_TOKEN: usize = 3 * size_of::<Node>() + size_of::<TokenId>();
