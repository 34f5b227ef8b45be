//! Minimal acyclic automata, built incrementally from sorted input: for UTF-8 classes and for lists of literals.
//!
//! The input is a list of sequences of byte ranges in ascending order. Only the path of the latest sequence is open
//! to change. When the next sequence leaves that path, the part below the fork is finished: each of its nodes,
//! deepest first, is replaced by an equal finished node if there is one. So the automaton is minimal at any time
//! except along one path, and it is never larger than that (Daciuk, Mihov, Watson and Watson 2000, the algorithm for
//! sorted data).
//!
//! Tried instead: a trie and then a general minimisation. For `\w` the trie has four times as many nodes, and every
//! copy of the class in a repetition would carry them into the subset construction.

use std::{collections::HashMap, ops::Range};

use regex_syntax::{hir::Class, utf8::Utf8Sequences};

/// An edge for every byte in `first..=last`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Edge {
    pub(crate) first: u8,
    pub(crate) last: u8,
    /// The index of a node.
    pub(crate) to: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    /// A range of `Acyclic::edges`, ascending and disjoint.
    edges: Range<usize>,
    accepting: bool,
}

/// A minimal acyclic automaton. Nodes are numbered so that edges lead to smaller numbers, and the root is the last; if
/// any input was given, node 0 is the accepting node without edges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acyclic {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

impl Acyclic {
    /// The UTF-8 encodings of the characters of `class`. O(n) for n ranges of characters.
    pub(crate) fn class(class: &Class) -> Self {
        let mut builder = Builder::default();
        match class {
            Class::Unicode(class) => {
                for range in class.ranges() {
                    for sequence in Utf8Sequences::new(range.start(), range.end()) {
                        builder.insert(sequence.as_slice().iter().map(|range| (range.start, range.end)));
                    }
                }
            }
            Class::Bytes(class) => {
                for range in class.ranges() {
                    builder.insert([(range.start(), range.end())]);
                }
            }
        }
        builder.finish()
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The number of edges of all nodes together.
    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Whether the language is empty.
    pub(crate) fn matches_nothing(&self) -> bool {
        !self.nodes[0].accepting
    }

    /// The edges of node `index`, in ascending order of their bytes.
    pub(crate) fn edges(&self, index: usize) -> &[Edge] {
        &self.edges[self.nodes[index].edges.clone()]
    }

    pub(crate) fn is_accepting(&self, index: usize) -> bool {
        self.nodes[index].accepting
    }
}

/// A node that may still get edges.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Open {
    edges: Vec<Edge>,
    accepting: bool,
}

/// Builds an [`Acyclic`] from sequences in ascending order.
#[derive(Debug)]
pub(crate) struct Builder {
    done: Acyclic,
    /// The finished nodes by content.
    registry: HashMap<Open, u32>,
    /// The nodes along the latest sequence, the root first: one more than `labels`.
    path: Vec<Open>,
    /// The latest sequence.
    labels: Vec<(u8, u8)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            done: Acyclic { nodes: vec![], edges: vec![] },
            registry: HashMap::new(),
            path: vec![Open::default()],
            labels: vec![],
        }
    }
}

impl Builder {
    /// Adds a sequence of ranges `(first, last)`. It must be greater than the one before it, and its range at the
    /// position where the two differ must be disjoint from the other's. Amortised O(n) for n ranges.
    pub(crate) fn insert(&mut self, sequence: impl IntoIterator<Item = (u8, u8)>) {
        let mut depth = 0;
        let mut shared = true;
        for label in sequence {
            if shared && self.labels.get(depth) == Some(&label) {
                depth += 1;
                continue;
            }
            if shared {
                debug_assert!(
                    self.labels.get(depth).is_none_or(|before| before.1 < label.0),
                    "sequences are ascending, and disjoint where they part"
                );
                self.close(depth);
                shared = false;
            }
            self.labels.push(label);
            self.path.push(Open::default());
        }
        debug_assert!(!shared || depth == 0, "sequences are distinct, and a prefix comes first");
        self.path.last_mut().expect("the root is always there").accepting = true;
    }

    /// The number of finished nodes plus the nodes along the latest sequence.
    pub(crate) fn len(&self) -> usize {
        self.done.nodes.len() + self.path.len()
    }

    pub(crate) fn finish(mut self) -> Acyclic {
        self.close(0);
        let root = self.path.pop().expect("the root is always there");
        self.register(root);
        self.done
    }

    /// Finishes the nodes of the path below `depth`.
    fn close(&mut self, depth: usize) {
        while self.labels.len() > depth {
            let (Some(node), Some((first, last))) = (self.path.pop(), self.labels.pop()) else {
                unreachable!("there is a node below each label");
            };
            let to = self.register(node);
            let parent = self.path.last_mut().expect("the root is above every other node");
            match parent.edges.last_mut() {
                // Adjacent ranges to one node become one edge, since equal nodes could otherwise have different
                // edges.
                Some(edge) if edge.to == to && edge.last + 1 == first => edge.last = last,
                _ => parent.edges.push(Edge { first, last, to }),
            }
        }
    }

    /// The finished node that equals `node`.
    fn register(&mut self, node: Open) -> u32 {
        let Acyclic { nodes, edges } = &mut self.done;
        *self.registry.entry(node).or_insert_with_key(|node| {
            let first = edges.len();
            edges.extend_from_slice(&node.edges);
            nodes.push(Node { edges: first..edges.len(), accepting: node.accepting });
            u32::try_from(nodes.len() - 1).expect("limits keep automata below 2^32 nodes")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    impl Acyclic {
        fn accepts(&self, text: &[u8]) -> bool {
            let mut node = self.len() - 1;
            for byte in text {
                match self.edges(node).iter().find(|edge| (edge.first..=edge.last).contains(byte)) {
                    Some(edge) => node = edge.to as usize,
                    None => return false,
                }
            }
            self.is_accepting(node)
        }

        /// The left quotients of all nodes, that is, the texts from each node to an accepting one. The automaton is
        /// minimal if they are distinct.
        fn languages(&self) -> Vec<BTreeSet<Vec<u8>>> {
            let mut languages: Vec<BTreeSet<Vec<u8>>> = vec![];
            for node in 0..self.len() {
                let mut language = BTreeSet::new();
                if self.is_accepting(node) {
                    language.insert(vec![]);
                }
                for edge in self.edges(node) {
                    for byte in edge.first..=edge.last {
                        let tails = &languages[edge.to as usize];
                        language.extend(tails.iter().map(|tail| [&[byte][..], tail].concat()));
                    }
                }
                languages.push(language);
            }
            languages
        }
    }

    fn class(pattern: &str) -> Class {
        match regex_syntax::parse(pattern).unwrap().into_kind() {
            regex_syntax::hir::HirKind::Class(class) => class,
            kind => panic!("{kind:?}"),
        }
    }

    proptest! {
        /// Any set of words becomes an automaton of exactly these words, without two equal nodes.
        #[test]
        fn literals_are_accepted_exactly_and_minimally(
            words in prop::collection::btree_set(prop::collection::vec(0u8..4, 0..5), 1..40),
        ) {
            let mut builder = Builder::default();
            for word in &words {
                builder.insert(word.iter().map(|byte| (*byte, *byte)));
            }
            let automaton = builder.finish();
            let languages = automaton.languages();
            prop_assert_eq!(languages.last(), Some(&words));
            prop_assert_eq!(languages.iter().collect::<BTreeSet<_>>().len(), automaton.len());
        }
    }

    #[test]
    fn a_class_accepts_the_encodings_of_its_characters() {
        for pattern in [r"\w", ".", r"[^\x00]", r"\p{Greek}", "[a-cé日-本😀]", r"[\u{d7ff}\u{e000}]"] {
            let class = class(pattern);
            let automaton = Acyclic::class(&class);
            let Class::Unicode(set) = &class else { panic!("{pattern} is a Unicode class") };
            for char in '\0'..=char::MAX {
                let at = set.ranges().partition_point(|range| range.end() < char);
                let member = set.ranges().get(at).is_some_and(|range| range.start() <= char);
                let accepted = automaton.accepts(char.encode_utf8(&mut [0; 4]).as_bytes());
                assert_eq!(accepted, member, "{pattern} {char:?}");
            }
            for wrong in [&b""[..], b"\x80", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe6\x97"] {
                assert!(!automaton.accepts(wrong), "{pattern} {wrong:x?}");
            }
        }
    }

    #[test]
    fn classes_share_their_tails() {
        let size = |pattern: &str| Acyclic::class(&class(pattern)).len();
        assert_eq!(size("[a-z0-9]"), 2);
        // The end, one to three full continuation bytes, four leading bytes that restrict the second byte, and the
        // root.
        assert_eq!(size(r"[^\x00]"), 9);
    }
}
