//! How the quotients of a byte trie are made.

use std::collections::HashMap;

use unskew_core::{WORD_BITS, words_for};

use super::{
    Quotient, QuotientNode, Quotients, Summary,
    edges::{Edge, Edges},
    postings::Postings,
};
use crate::{
    byte_trie::ByteTrie,
    ids::{Id, MaskId, NodeId, QuotientId, SetId, SummaryId, index},
    symbols::{SymbolSet, Symbols},
    tuning::Tuning,
};

impl Quotients {
    /// The quotients of `trie`, a trie of some of `vocab_len` ids; and the tokens that are not strings of whole
    /// characters, as indices into its tokens. O(n log n) for n nodes.
    pub(crate) fn new(trie: &ByteTrie, vocab_len: usize, tuning: Tuning) -> (Self, Vec<usize>) {
        let mut symbols = Symbols::new();
        let (edges, irregular) = Edges::new(&trie.nodes, &mut symbols);
        let mut builder = Builder {
            trie,
            edges,
            quotients: Self {
                symbols,
                nodes: vec![],
                tokens: vec![],
                members: vec![],
                summaries: vec![],
                sets: vec![],
                masks: vec![],
                words: words_for(vocab_len),
                all: vec![],
                postings: Postings::default(),
                tuning,
            },
            ids_of_sets: HashMap::new(),
            prefixes: vec![],
        };
        builder.build();
        let mut quotients = builder.quotients;
        quotients.nodes.push(QuotientNode {
            end: index(quotients.nodes.len()),
            first_token: index(quotients.tokens.len()),
            first_member: index(quotients.members.len()),
            depth_and_symbol: 0,
            summary: None,
        });
        quotients.postings = Postings::new(&quotients, &builder.prefixes);
        (quotients, irregular)
    }
}

struct Builder<'t> {
    trie: &'t ByteTrie,
    edges: Edges,
    quotients: Quotients,
    ids_of_sets: HashMap<SymbolSet, SetId>,
    /// The number of bytes in front of each quotient.
    prefixes: Vec<usize>,
}

/// A subtree while its summary is made: the symbols below, and the length of the longest string.
#[derive(Clone, Copy, Default)]
struct Below {
    symbols: SymbolSet,
    height: u32,
}

impl Builder<'_> {
    fn build(&mut self) {
        let Tuning { quotient_nodes, quotient_levels, .. } = self.quotients.tuning;
        // For each node of the byte trie: its quotient.
        let mut of_node: Vec<Option<QuotientId>> = vec![None; self.trie.nodes.len()];
        let root = NodeId::from_index(self.trie.len());
        self.quotient(root);
        // Large subtrees, level by level.
        let mut level = vec![root];
        for _ in 1..quotient_levels {
            let mut next = vec![];
            for place in level {
                // A place with a single continuation is not worth a quotient; its continuation may be.
                let mut open = vec![place];
                while let Some(place) = open.pop() {
                    for edge in self.edges.of(place) {
                        let node = edge.member.node;
                        if self.trie.nodes[node.index()].end as usize - node.index() < quotient_nodes {
                            continue;
                        }
                        if self.edges.of(node).len() > 1 {
                            next.push(node);
                        } else {
                            open.push(node);
                        }
                    }
                }
            }
            for place in &next {
                of_node[place.index()] = Some(QuotientId::from_index(self.quotients.all.len()));
                self.quotient(*place);
            }
            level = next;
        }
        for member in &mut self.quotients.members {
            member.quotient = of_node[member.node.index()];
        }
    }

    /// Builds the quotient of the subtree below `place`.
    fn quotient(&mut self, place: NodeId) {
        let first = self.quotients.nodes.len();
        // For each node its parent, counted from the quotient's first node.
        let mut parents: Vec<Option<usize>> = vec![];
        let mut open: Vec<usize> = vec![];
        // The groups that wait for their node, the next one last: the depth, and the index of their first edge in
        // `work`.
        let mut groups: Vec<(usize, usize)> = vec![];
        let mut work: Vec<Edge> = self.edges.of(place).to_vec();
        let mut height = 0;
        group(&mut work[..], 0, 0, &mut groups);
        while let Some((depth, begin)) = groups.pop() {
            let node = self.quotients.nodes.len();
            for closed in open.drain(depth..) {
                self.quotients.nodes[closed].end = index(node);
            }
            parents.push(open.last().map(|parent| parent - first));
            open.push(node);
            height = height.max(depth + 1);
            let first_member = self.quotients.members.len();
            let first_token = self.quotients.tokens.len();
            self.quotients.nodes.push(QuotientNode {
                end: 0,
                first_token: index(first_token),
                first_member: index(first_member),
                depth_and_symbol: index(depth) << 8 | u32::from(work[begin].symbol.0),
                summary: None,
            });
            self.quotients.members.extend(work.drain(begin..).map(|edge| edge.member));
            for member in first_member..self.quotients.members.len() {
                let member = self.quotients.members[member].node;
                self.quotients.tokens.extend_from_slice(self.trie.own(member.index()));
                work.extend_from_slice(self.edges.of(member));
            }
            self.quotients.tokens[first_token..].sort_unstable();
            group(&mut work[begin..], begin, depth + 1, &mut groups);
        }
        let end = index(self.quotients.nodes.len());
        for closed in open {
            self.quotients.nodes[closed].end = end;
        }
        let summary = self.summaries(first, &parents);
        self.quotients.all.push(Quotient { first: index(first), end, height: index(height), summary });
        let is_root = place.index() == self.trie.len();
        self.prefixes.push(if is_root { 0 } else { self.trie.nodes[place.index()].depth() + 1 });
    }

    /// Makes the summaries of the nodes from `first` on, and that of the empty string.
    fn summaries(&mut self, first: usize, parents: &[Option<usize>]) -> Option<SummaryId> {
        let mut below: Vec<Below> = vec![Below::default(); parents.len()];
        let mut all = Below::default();
        let tokens_end = index(self.quotients.tokens.len());
        for at in (0..parents.len()).rev() {
            let node = self.quotients.nodes[first + at];
            let first_token_of =
                |node: usize| self.quotients.nodes.get(node).map_or(tokens_end, |next| next.first_token);
            let (own_end, below_end) = (first_token_of(first + at + 1), first_token_of(node.end as usize));
            let mut subtree = below[at];
            self.quotients.nodes[first + at].summary =
                self.add_summary(subtree, (node.first_token, own_end), (own_end, below_end));
            subtree.symbols.insert(node.symbol());
            let parent = match parents[at] {
                None => &mut all,
                Some(parent) => &mut below[parent],
            };
            parent.symbols.union(subtree.symbols);
            parent.height = parent.height.max(subtree.height + 1);
        }
        let begin = self.quotients.nodes.get(first).map_or(tokens_end, |node| node.first_token);
        self.add_summary(all, (begin, begin), (begin, tokens_end))
    }

    /// The id of `set`, which is added if it is new.
    fn set(&mut self, set: SymbolSet) -> SetId {
        let sets = &mut self.quotients.sets;
        *self.ids_of_sets.entry(set).or_insert_with(|| {
            sets.push(set);
            SetId::from_index(sets.len() - 1)
        })
    }

    /// Adds the summary of a subtree with its own tokens and those below, if they are enough.
    fn add_summary(&mut self, subtree: Below, own: (u32, u32), below: (u32, u32)) -> Option<SummaryId> {
        let Tuning { mask_tokens, summary_tokens, .. } = self.quotients.tuning;
        if own.1 - own.0 < mask_tokens && below.1 - below.0 < summary_tokens {
            return None;
        }
        let symbols = self.set(subtree.symbols);
        let quotients = &mut self.quotients;
        let [own_mask, below_mask] = [own, below].map(|(begin, end)| {
            (end - begin >= mask_tokens).then(|| quotients.add_mask(begin as usize..end as usize))
        });
        quotients.summaries.push(Summary { symbols, height: subtree.height, own_mask, below_mask, below });
        Some(SummaryId::from_index(quotients.summaries.len() - 1))
    }
}

impl Quotients {
    /// Adds the mask of these of the tokens.
    fn add_mask(&mut self, tokens: std::ops::Range<usize>) -> MaskId {
        let mask = self.masks.len();
        self.masks.resize(mask + self.words, 0);
        for token in &self.tokens[tokens] {
            self.masks[mask + token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
        }
        MaskId::from_index(mask / self.words)
    }
}

/// Sorts `edges`, which begin at `offset`, and adds their groups by symbol, the smallest symbol last.
fn group(edges: &mut [Edge], offset: usize, depth: usize, groups: &mut Vec<(usize, usize)>) {
    // The group that is taken first lies last. In a group, members ascend.
    edges.sort_unstable_by(|left, right| right.symbol.cmp(&left.symbol).then(left.member.cmp(&right.member)));
    let mut before = None;
    for (at, edge) in edges.iter().enumerate() {
        if before.replace(edge.symbol) != Some(edge.symbol) {
            groups.push((depth, offset + at));
        }
    }
}
