//! A regular language minus finitely many texts, such as "any name except the declared ones".
//!
//! As an automaton of its own, the difference would give every object of a schema its own subterminal trees.
//! Each tree costs a walk over the whole vocabulary, though it differs from that of the base language in a
//! few dozen tokens. So the difference is kept as the automaton of the base language, with a trie of the
//! excluded texts over it. After a byte that leaves the trie, the state is one of the base automaton, and
//! shares everything with all its other uses.
//!
//! Masks use the trees of the base language in place of those of the difference. They are wrong only for
//! tokens that follow the trie to the end of an excluded text. These are few; they are [found](Difference::below)
//! and checked one by one.
//!
//! Tried instead: the difference as an automaton. One mask in a hundred took 1.7 ms on real schemas, nearly
//! always for the tree of a name.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use unskew_automata::{Dfa, RegexError, StateId, dfa::DfaAlgebra};
use unskew_core::ids::{Id, number as id};

use super::{ScanState, remaining::Remaining};
use crate::terminal::COUNTS;

/// A regular language minus finitely many texts. Never empty.
#[derive(Clone, Debug)]
pub struct Difference {
    base: Arc<Dfa>,
    /// The excluded texts in ascending order, each accepted by the automaton.
    texts: Box<[Box<[u8]>]>,
    /// The trie, root first and parents before children.
    nodes: Box<[Node]>,
    /// Bytes with their child nodes.
    children: Box<[(u8, u32)]>,
    /// Of the automaton.
    remaining: OnceLock<Arc<Remaining>>,
}

#[derive(Clone, Debug)]
struct Node {
    /// The state of the automaton.
    state: StateId,
    /// The range in `children`.
    children: (u32, u32),
    /// Whether it is the end of an excluded text.
    is_left_out: bool,
    /// Whether some text of the difference passes through it.
    is_live: bool,
}

impl PartialEq for Difference {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base && self.texts == other.texts
    }
}

impl Eq for Difference {}

impl std::hash::Hash for Difference {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // Equal values hash equal numbers. Automata are large, so only their number of states is hashed.
        self.base.len().hash(state);
        self.texts.hash(state);
    }
}

/// The meaning of a node for a text that reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    /// A proper prefix of an excluded text.
    Inner,
    /// An excluded text, which may still be continued to a text of the difference.
    LeftOut,
    /// No continuation is a text of the difference.
    Dead,
}

impl Difference {
    /// The memory of the texts and the trie, in bytes, without the automaton.
    #[doc(hidden)]
    pub fn memory_usage(&self) -> usize {
        let texts = self.texts.iter().map(|text| size_of_val(text) + text.len());
        size_of::<Self>()
            + COUNTS
            + texts.sum::<usize>()
            + size_of_val(&self.nodes[..])
            + size_of_val(&self.children[..])
    }

    /// The language of `base` minus `texts`; `None` if it is empty.
    pub(crate) fn new(base: Arc<Dfa>, texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Option<Self> {
        let accepted = texts.into_iter().filter(|text| base.accepts(text.as_ref()));
        let mut texts: Vec<Box<[u8]>> = accepted.map(|text| text.as_ref().into()).collect();
        texts.sort_unstable();
        texts.dedup();
        // Only the part that a text does not share with the previous one adds nodes. A single name may have
        // megabytes.
        let shared = |pair: &[Box<[u8]>]| {
            pair[0].iter().zip(&pair[1]).take_while(|(left, right)| left == right).count()
        };
        let len: usize = texts.iter().map(|text| text.len()).sum();
        let len = len - texts.windows(2).map(shared).sum::<usize>();
        let mut nodes = Vec::with_capacity(len + 1);
        nodes.push(Node { state: base.start(), children: (0, 0), is_left_out: false, is_live: false });
        let mut children: Vec<(u8, u32)> = Vec::with_capacity(len);
        // Breadth first: the texts that pass through a node are adjacent.
        let mut ranges = VecDeque::from([(0, texts.len(), 0)]);
        let mut at = 0;
        while let Some((first, end, depth)) = ranges.pop_front() {
            let mut from = first;
            if texts.get(from).is_some_and(|text| from < end && text.len() == depth) {
                nodes[at].is_left_out = true;
                from += 1;
            }
            let begin = id(children.len());
            while from < end {
                let byte = texts[from][depth];
                let len = texts[from..end].partition_point(|text| text[depth] == byte);
                children.push((byte, id(nodes.len())));
                let state = base.step(nodes[at].state, byte).expect("the text is accepted");
                nodes.push(Node { state, children: (0, 0), is_left_out: false, is_live: false });
                ranges.push_back((from, from + len, depth + 1));
                from += len;
            }
            nodes[at].children = (begin, id(children.len()));
            at += 1;
        }
        for at in (0..nodes.len()).rev() {
            let Node { state, children: (first, end), is_left_out, .. } = nodes[at];
            let own = &children[first as usize..end as usize];
            let leaves = |byte: u8| own.binary_search_by_key(&byte, |(byte, _)| *byte).is_err();
            nodes[at].is_live = (base.is_accepting(state) && !is_left_out)
                || own.iter().any(|(_, child)| nodes[*child as usize].is_live)
                || base.edges(state).any(|edge| edge.bytes.clone().into_iter().any(leaves));
        }
        let is_live = nodes[0].is_live;
        is_live.then(|| Self {
            base,
            texts: texts.into(),
            nodes: nodes.into(),
            children: children.into(),
            remaining: OnceLock::new(),
        })
    }

    /// The same, where the texts of the automaton were counted.
    pub(crate) fn counted(self, remaining: &Arc<Remaining>) -> Self {
        Self { remaining: OnceLock::from(Arc::clone(remaining)), ..self }
    }

    /// The number of texts of the automaton of the base language, counted at the first call.
    #[doc(hidden)]
    pub fn remaining(&self) -> &Arc<Remaining> {
        self.remaining.get_or_init(|| Arc::new(Remaining::new(&self.base)))
    }

    /// The automaton of the base language.
    #[inline]
    pub fn base(&self) -> &Arc<Dfa> {
        &self.base
    }

    /// The excluded texts, in ascending order.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.texts.iter().map(|text| &text[..])
    }

    /// Whether `text` is in the language.
    pub fn accepts(&self, text: &[u8]) -> bool {
        self.base.accepts(text) && self.texts.binary_search_by(|other| (**other).cmp(text)).is_err()
    }

    /// The automaton of the language, within the limits of `builder`.
    #[doc(hidden)]
    pub fn made(&self, builder: &mut DfaAlgebra) -> Result<Dfa, RegexError> {
        let texts: Vec<&[u8]> = self.texts().filter(|text| !text.is_empty()).collect();
        let mut left = Dfa::clone(&self.base);
        if !texts.is_empty() {
            let texts = builder.literals(texts)?;
            left = builder.difference(&left, &texts)?;
        }
        if self.texts().any(<[u8]>::is_empty) {
            let empty = builder.pattern("")?;
            left = builder.difference(&left, &empty)?;
        }
        Ok(left)
    }

    /// The start state.
    #[doc(hidden)]
    #[inline]
    pub fn start(&self) -> ScanState {
        self.at_node(0)
    }

    /// The state after `byte`, if there is one.
    #[doc(hidden)]
    #[inline]
    pub fn step(&self, state: ScanState, byte: u8) -> Option<ScanState> {
        let behind = match self.node(state) {
            None => self.base.step(StateId::from_index(state.index()), byte),
            Some(node) => match self.child(node, byte) {
                Some(child) if self.nodes[child as usize].is_live => {
                    return Some(self.at_node(child));
                }
                Some(_) => None,
                None => self.base.step(node.state, byte),
            },
        };
        behind.map(|state| ScanState::from_index(state.index()))
    }

    /// Whether a text may end at `state`.
    #[doc(hidden)]
    #[inline]
    pub fn is_accepting(&self, state: ScanState) -> bool {
        self.base.is_accepting(self.state(state)) && self.node(state).is_none_or(|node| !node.is_left_out)
    }

    /// Whether an excluded text begins with what was read.
    #[doc(hidden)]
    #[inline]
    pub fn is_excluding(&self, state: ScanState) -> bool {
        state.index() >= self.base.len()
    }

    /// The state of the automaton at `state`.
    #[doc(hidden)]
    #[inline]
    pub fn state(&self, state: ScanState) -> StateId {
        self.node(state).map_or_else(|| StateId::from_index(state.index()), |node| node.state)
    }

    /// The child after `byte` of the node at `state`, if both exist, and its meaning.
    #[doc(hidden)]
    #[inline]
    pub fn below(&self, state: ScanState, byte: u8) -> Option<(ScanState, Below)> {
        let child = self.child(self.node(state)?, byte)?;
        Some((self.at_node(child), self.what_is(child)))
    }

    /// All children of the node at `state`: byte, state and meaning, as [`below`](Self::below) returns them.
    #[doc(hidden)]
    pub fn all_below(&self, state: ScanState) -> impl Iterator<Item = (u8, ScanState, Below)> {
        let (first, end) = self.node(state).map_or((0, 0), |node| node.children);
        let children = self.children[first as usize..end as usize].iter();
        children.map(|(byte, child)| (*byte, self.at_node(*child), self.what_is(*child)))
    }

    /// The state at a node of the trie: these states have the numbers that follow those of the automaton.
    #[inline]
    fn at_node(&self, node: u32) -> ScanState {
        ScanState::of(id(self.base.len()) + node)
    }

    fn what_is(&self, node: u32) -> Below {
        match &self.nodes[node as usize] {
            Node { is_live: false, .. } => Below::Dead,
            Node { is_left_out: true, .. } => Below::LeftOut,
            Node { .. } => Below::Inner,
        }
    }

    /// For every node at which [`below`](Self::below) returns another value than [`Below::Inner`]: the first
    /// and the last byte of its text, and whether the text is longer than one byte. No entry is repeated.
    #[doc(hidden)]
    pub fn ends(&self) -> Vec<(u8, u8, bool)> {
        let mut ends = Vec::new();
        let (first, end) = self.nodes[0].children;
        for (begin, child) in &self.children[first as usize..end as usize] {
            let mut open = vec![(*child, *begin, false)];
            while let Some((at, byte, is_longer)) = open.pop() {
                let node = &self.nodes[at as usize];
                if node.is_left_out || !node.is_live {
                    ends.push((*begin, byte, is_longer));
                }
                let (first, end) = node.children;
                open.extend(
                    self.children[first as usize..end as usize]
                        .iter()
                        .map(|(byte, child)| (*child, *byte, true)),
                );
            }
        }
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    fn node(&self, state: ScanState) -> Option<&Node> {
        self.nodes.get(state.index().checked_sub(self.base.len())?)
    }

    fn child(&self, node: &Node, byte: u8) -> Option<u32> {
        let (first, end) = node.children;
        let children = &self.children[first as usize..end as usize];
        children.binary_search_by_key(&byte, |(byte, _)| *byte).ok().map(|at| children[at].1)
    }
}
