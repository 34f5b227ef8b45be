//! The quotient of a vocabulary: its tokens as strings of [`Symbols`], equal strings merged, as tries.
//!
//! The trie of 128,000 tokens has 270,000 nodes; the tokens that are words have 30 strings of symbols (`aaaa`, ` Aaaaaa`). As long
//! as the automaton does not distinguish the characters of a symbol, a walk over these strings visits hundreds of nodes where the
//! walk over the bytes visits a hundred thousand. Where the automaton does, the walk goes on from the *members* of a node, the
//! places of the byte trie that spell it, each with a state of its own.
//!
//! There is a quotient for the whole trie and one for each large subtree (in four levels: `␣`, `␣c`, `␣co`, `␣con`). A pattern may
//! single out some first letters, as keywords among identifiers do. The tokens after the other letters are then walked in quotients
//! again, and not byte by byte.
//!
//! Tokens that are not whole characters, about 1,500, are in no quotient. They have a small byte trie of their own.

use std::{collections::HashMap, ops::Range};

use unskew_core::{TokenId, WORD_BITS, words_for};

use crate::{
    symbols::{LOWER, Symbols},
    trie::{Node, index},
};

/// The members and tokens of subtrees smaller than this are walked byte by byte.
const LARGE: usize = 48;

/// The greatest depth of nested quotients. It bounds time and memory, and the recursion of a walk.
const LEVELS: u8 = 5;

/// The least number of tokens of a set that is also kept as a mask. Setting a bit takes about a nanosecond, and the union of two
/// masks over 128,000 ids about half a microsecond. A limit of 400 takes 6 MB more and is no faster; a limit of 3,000 is a tenth
/// slower.
const MASK_TOKENS: u32 = if cfg!(test) { 8 } else { 1024 };

/// The least number of tokens of a subtree for which the walk asks whether all are allowed.
const WHOLE_TOKENS: u32 = 16;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// A set of symbols.
pub(crate) type SymbolSet = [u64; 4];

/// A string of symbols that begins tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QuotientNode {
    /// Index of the first node after this one's subtree.
    pub(crate) end: u32,
    /// The node's tokens: from here to the first token of the next node.
    pub(crate) first_token: u32,
    /// The node's members: from here to the first member of the next node.
    pub(crate) first_member: u32,
    /// The length of the string, minus one, in the high 24 bits; its last symbol in the low 8.
    depth_and_symbol: u32,
    /// Index into the facts, or [`NONE`].
    pub(crate) facts: u32,
}

impl QuotientNode {
    #[inline]
    pub(crate) fn symbol(self) -> u8 {
        (self.depth_and_symbol & 0xff) as u8
    }

    #[inline]
    pub(crate) fn depth(self) -> usize {
        (self.depth_and_symbol >> 8) as usize
    }
}

/// The facts of a node with many tokens at it or below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// The symbols below the node; index into the sets.
    pub(crate) set: u32,
    /// The length of the longest string below the node, beyond the node's own.
    pub(crate) height: u32,
    /// The node's own tokens as a mask, or [`NONE`].
    pub(crate) own_mask: u32,
    /// The tokens below the node as a mask, or [`NONE`].
    pub(crate) below_mask: u32,
    /// The tokens below the node.
    pub(crate) below: (u32, u32),
}

/// A place of the byte trie that a node of a quotient stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Member {
    /// The last character.
    pub(crate) char: u32,
    /// The node of the byte trie that ends it.
    pub(crate) node: u32,
    /// The quotient of the subtree below the member, or [`NONE`].
    pub(crate) quotient: u32,
}

/// The quotient of one subtree of the byte trie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quotient {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The length of the longest string.
    pub(crate) height: u32,
    /// The facts of the empty string: an index, or [`NONE`].
    pub(crate) facts: u32,
}

/// The quotients of a byte trie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Quotients {
    pub(crate) symbols: Symbols,
    /// Each quotient depth-first, and one sentinel at the end.
    pub(crate) nodes: Vec<QuotientNode>,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) members: Vec<Member>,
    pub(crate) facts: Vec<Facts>,
    pub(crate) sets: Vec<SymbolSet>,
    masks: Vec<u32>,
    words: usize,
    /// The quotients. The first is that of the whole trie.
    pub(crate) all: Vec<Quotient>,
    /// The holders of symbols among the tokens of the first quotient.
    pub(crate) with: Holders,
}

impl Quotients {
    /// The quotients of the byte trie `nodes`, whose tokens are `tokens`; and the tokens that are not whole characters,
    /// as indices into `tokens`. O(n log n) for n nodes.
    pub(crate) fn new(nodes: &[Node], tokens: &[TokenId], vocab_len: usize) -> (Self, Vec<usize>) {
        let mut symbols = Symbols::new();
        let (edges, irregular) = Edges::new(nodes, &mut symbols);
        let mut builder = Builder {
            trie: nodes,
            trie_tokens: tokens,
            edges,
            quotients: Self {
                symbols,
                nodes: vec![],
                tokens: vec![],
                members: vec![],
                facts: vec![],
                sets: vec![],
                masks: vec![],
                words: words_for(vocab_len),
                all: vec![],
                with: Holders::default(),
            },
            ids_of_sets: HashMap::new(),
            fronts: vec![],
        };
        builder.build();
        let mut quotients = builder.quotients;
        quotients.nodes.push(QuotientNode {
            end: index(quotients.nodes.len()),
            first_token: index(quotients.tokens.len()),
            first_member: index(quotients.members.len()),
            depth_and_symbol: 0,
            facts: NONE,
        });
        quotients.with = Holders::new(&quotients, &builder.fronts);
        (quotients, irregular)
    }

    /// The members of a node.
    pub(crate) fn members_of(&self, node: usize) -> &[Member] {
        &self.members[self.nodes[node].first_member as usize..self.nodes[node + 1].first_member as usize]
    }

    /// The nodes among `among`, which are in the quotient that begins at `root`, that end with one of the symbols `ascii`, or with
    /// a symbol beyond ASCII if `wide`, or that have at least the depth `depth`. The answer has a bit for each node, from the first
    /// of `among` on. Nodes below other such nodes may be missing. No node above all of `among` may have one of the symbols, and
    /// nodes of that depth must have at least [`SHORT`] symbols, those in front of the quotient included.
    pub(crate) fn exceptions(
        &self,
        among: Range<usize>,
        root: usize,
        ascii: u128,
        wide: bool,
        depth: usize,
    ) -> Vec<u64> {
        let mut found = vec![0; among.len().div_ceil(64)];
        let mut insert = |bit: usize| found[bit / 64] |= 1 << (bit % 64);
        if among.len() <= SCANNED {
            for (bit, node) in self.nodes[among].iter().enumerate() {
                let symbol = node.symbol();
                if (if symbol < 128 { ascii >> symbol & 1 != 0 } else { wide }) || node.depth() >= depth {
                    insert(bit);
                }
            }
            return found;
        }
        let mut left = ascii;
        while left != 0 {
            let nodes = &self.with.nodes[left.trailing_zeros() as usize];
            within(nodes, &among).for_each(&mut insert);
            left &= left - 1;
        }
        if wide {
            within(&self.with.wide_nodes, &among).for_each(&mut insert);
        }
        let quotient = self.all.partition_point(|quotient| quotient.first as usize <= root) - 1;
        let deep = self.with.deep[quotient].iter().take_while(|(found, _)| *found as usize >= depth);
        let deep = deep.map(|(_, node)| *node as usize).filter(|node| among.contains(node));
        deep.map(|node| node - among.start).for_each(insert);
        found
    }

    pub(crate) fn mask(&self, mask: u32) -> &[u32] {
        &self.masks[mask as usize * self.words..][..self.words]
    }

    /// The memory of the tables, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.symbols.memory_usage()
            + size_of_val(&self.nodes[..])
            + size_of_val(&self.tokens[..])
            + size_of_val(&self.members[..])
            + size_of_val(&self.facts[..])
            + size_of_val(&self.sets[..])
            + size_of_val(&self.masks[..])
            + size_of_val(&self.all[..])
            + self.with.memory_usage()
    }
}

/// The holders of symbols: for each symbol, the tokens of the quotient of the whole trie that hold it, and the nodes of all
/// quotients that have it. Also the tokens that are long, and the nodes that are deep.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Holders {
    /// For each ASCII symbol, the tokens that hold it; empty where they are many.
    pub(crate) symbol: Vec<Vec<TokenId>>,
    /// The ASCII symbols that many tokens hold, one bit each.
    pub(crate) many: u128,
    /// The tokens that hold symbols beyond ASCII, in words of a mask.
    pub(crate) wide: Vec<u32>,
    /// Tokens with more than [`SHORT`] symbols, by their number of symbols, the longest first.
    pub(crate) long: Vec<(u32, TokenId)>,
    /// For each ASCII symbol that few tokens hold: the nodes that end with it and are below no other such node, in order.
    nodes: Vec<Vec<u32>>,
    /// The same for all symbols beyond ASCII together.
    wide_nodes: Vec<u32>,
    /// For each quotient: the nodes of more than [`SHORT`] symbols, and those that may have as many, each with its depth, the
    /// deepest first.
    deep: Vec<Vec<(u32, u32)>>,
}

/// The most tokens that may hold a symbol for it to be an exception.
const MANY: usize = 1 << 14;

/// Among this number of nodes or fewer, those with a symbol are found by looking at each node.
const SCANNED: usize = if cfg!(test) { 4 } else { 384 };

/// The most symbols of a token that is not long, and of a node that is not deep.
pub(crate) const SHORT: usize = if cfg!(test) { 1 } else { 12 };

impl Holders {
    /// `fronts` are the numbers of bytes in front of each quotient.
    fn new(quotients: &Quotients, fronts: &[usize]) -> Self {
        let mut all = Self { symbol: vec![vec![]; 128], wide: vec![0; quotients.words], ..Self::default() };
        let Quotient { first, end, .. } = quotients.all[0];
        let mut above: Vec<u128> = vec![0];
        for pair in quotients.nodes[first as usize..=end as usize].windows(2) {
            let (symbol, depth) = (pair[0].symbol(), pair[0].depth());
            // The bit of `b`, which is no symbol, stands for all symbols beyond ASCII.
            let held = above[depth] | 1 << if symbol < 128 { symbol } else { LOWER + 1 };
            above.truncate(depth + 1);
            above.push(held);
            for token in &quotients.tokens[pair[0].first_token as usize..pair[1].first_token as usize] {
                if held >> (LOWER + 1) & 1 != 0 {
                    all.wide[token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
                }
                if depth >= SHORT {
                    all.long.push((index(depth + 1), *token));
                }
                let mut left = held & !(1 << (LOWER + 1));
                while left != 0 {
                    all.symbol[left.trailing_zeros() as usize].push(*token);
                    left &= left - 1;
                }
            }
        }
        for (symbol, tokens) in all.symbol.iter_mut().enumerate() {
            if tokens.len() > MANY {
                *tokens = Vec::new();
                all.many |= 1 << symbol;
            }
            tokens.shrink_to_fit();
        }
        all.long.sort_unstable_by(|left, right| right.cmp(left));
        all.add_nodes(quotients, fronts);
        all
    }

    fn add_nodes(&mut self, quotients: &Quotients, fronts: &[usize]) {
        self.nodes = vec![vec![]; 128];
        for (Quotient { first, end, .. }, front) in quotients.all.iter().zip(fronts) {
            let mut deep: Vec<(u32, u32)> = Vec::new();
            // For each symbol, with those beyond ASCII as one: the end of the subtree of the last such node.
            let mut done = [0; 129];
            for at in *first..*end {
                let node = quotients.nodes[at as usize];
                let symbol = node.symbol().min(128);
                let is_few = symbol == 128 || self.many >> symbol & 1 == 0;
                if is_few && at >= done[usize::from(symbol)] {
                    let nodes = self.nodes.get_mut(usize::from(symbol)).unwrap_or(&mut self.wide_nodes);
                    nodes.push(at);
                    done[usize::from(symbol)] = node.end;
                }
                // A string has at most as many symbols as bytes.
                if front + node.depth() >= SHORT {
                    deep.push((index(node.depth()), at));
                }
            }
            deep.sort_unstable_by(|left, right| right.cmp(left));
            deep.shrink_to_fit();
            self.deep.push(deep);
        }
        self.nodes.iter_mut().for_each(Vec::shrink_to_fit);
        self.wide_nodes.shrink_to_fit();
    }

    fn memory_usage(&self) -> usize {
        let lists = self.symbol.iter().map(|tokens| size_of_val(&tokens[..])).sum::<usize>();
        let nodes = self.nodes.iter().chain([&self.wide_nodes]).map(|nodes| size_of_val(&nodes[..]));
        let deep = self.deep.iter().map(|nodes| size_of_val(nodes) + size_of_val(&nodes[..]));
        let nodes = nodes.sum::<usize>() + deep.sum::<usize>();
        lists + nodes + size_of_val(&self.wide[..]) + size_of_val(&self.long[..])
    }
}

/// The members of `nodes`, which ascend, that are in the range `among`, counted from its start.
fn within<'a>(nodes: &'a [u32], among: &Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
    let of = |end: usize| nodes.partition_point(|node| (*node as usize) < end);
    let start = among.start;
    nodes[of(start)..of(among.end)].iter().map(move |node| *node as usize - start)
}

/// The byte trie as a trie of characters: for each node at which a character ends, the characters that follow.
struct Edges {
    /// For each node of the byte trie, with the root last: the index of its first edge.
    first: Vec<u32>,
    edges: Vec<Edge>,
}

/// A character that follows a place of the trie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    symbol: u8,
    member: Member,
}

/// The state of reading a prefix.
#[derive(Clone, Copy)]
struct Reading {
    /// The place where the last whole character ended; [`NONE`] where the bytes are no text.
    at: u32,
    /// The bytes since that place.
    bytes: [u8; 4],
    len: u8,
}

impl Edges {
    /// Answers also with the tokens that are not strings of whole characters with a symbol.
    fn new(nodes: &[Node], symbols: &mut Symbols) -> (Self, Vec<usize>) {
        let root = index(nodes.len() - 1);
        let mut found: Vec<(u32, Edge)> = Vec::with_capacity(nodes.len());
        let mut irregular = vec![];
        let mut cache: HashMap<char, Option<u8>> = HashMap::new();
        let mut readings = vec![Reading { at: root, bytes: [0; 4], len: 0 }];
        for (node_index, pair) in nodes.windows(2).enumerate() {
            let node = pair[0];
            let mut reading = readings[node.depth()];
            if reading.at != NONE {
                let here = index(node_index);
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
                        let member = Member { char: char as u32, node: here, quotient: NONE };
                        found.extend(symbol.map(|symbol| (reading.at, Edge { symbol, member })));
                        let at = if symbol.is_some() { here } else { NONE };
                        reading = Reading { at, bytes: [0; 4], len: 0 };
                    }
                    Err(error) if error.error_len().is_some() => reading.at = NONE,
                    Err(_) => {}
                }
            }
            if reading.at == NONE || reading.len > 0 {
                irregular.extend(node.first_token as usize..pair[1].first_token as usize);
            }
            readings.truncate(node.depth() + 1);
            readings.push(reading);
        }
        // A counting sort: the edges of each place, in their order.
        let mut first = vec![0; nodes.len() + 1];
        for (place, _) in &found {
            first[*place as usize + 1] += 1;
        }
        for place in 0..nodes.len() {
            first[place + 1] += first[place];
        }
        let mut at = first.clone();
        let none = Edge { symbol: 0, member: Member { char: 0, node: 0, quotient: NONE } };
        let mut edges = vec![none; found.len()];
        for (place, edge) in found {
            let slot = &mut at[place as usize];
            edges[*slot as usize] = edge;
            *slot += 1;
        }
        (Self { first, edges }, irregular)
    }

    fn of(&self, place: u32) -> &[Edge] {
        &self.edges[self.first[place as usize] as usize..self.first[place as usize + 1] as usize]
    }
}

struct Builder<'t> {
    trie: &'t [Node],
    trie_tokens: &'t [TokenId],
    edges: Edges,
    quotients: Quotients,
    ids_of_sets: HashMap<SymbolSet, u32>,
    /// The number of bytes in front of each quotient.
    fronts: Vec<usize>,
}

impl Builder<'_> {
    fn build(&mut self) {
        // For each node of the byte trie: its quotient.
        let mut of_node = vec![NONE; self.trie.len()];
        let root = index(self.trie.len() - 1);
        self.quotient(root);
        // Large subtrees, level by level.
        let mut level = vec![root];
        for _ in 1..LEVELS {
            let mut next = vec![];
            for place in level {
                // A place with a single continuation is not worth a quotient; its continuation may be.
                let mut open = vec![place];
                while let Some(place) = open.pop() {
                    for edge in self.edges.of(place) {
                        let node = edge.member.node;
                        let size = self.trie[node as usize].end - node;
                        if (size as usize) < LARGE {
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
                of_node[*place as usize] = index(self.quotients.all.len());
                self.quotient(*place);
            }
            level = next;
        }
        for member in &mut self.quotients.members {
            member.quotient = of_node[member.node as usize];
        }
    }

    /// Builds the quotient of the subtree below `place`.
    fn quotient(&mut self, place: u32) {
        let first = self.quotients.nodes.len();
        let mut parents: Vec<u32> = vec![];
        let mut open: Vec<u32> = vec![];
        // The groups that wait for their node, the next one last: the depth, and the index of their first edge in `work`.
        let mut groups: Vec<(usize, usize)> = vec![];
        let mut work: Vec<Edge> = self.edges.of(place).to_vec();
        let mut height = 0;
        group(&mut work[..], 0, 0, &mut groups);
        while let Some((depth, begin)) = groups.pop() {
            let node = index(self.quotients.nodes.len());
            for closed in open.drain(depth..) {
                self.quotients.nodes[closed as usize].end = node;
            }
            parents.push(open.last().copied().unwrap_or(NONE));
            open.push(node);
            height = height.max(depth + 1);
            let first_member = self.quotients.members.len();
            let first_token = self.quotients.tokens.len();
            self.quotients.nodes.push(QuotientNode {
                end: 0,
                first_token: index(first_token),
                first_member: index(first_member),
                depth_and_symbol: index(depth) << 8 | u32::from(work[begin].symbol),
                facts: NONE,
            });
            self.quotients.members.extend(work.drain(begin..).map(|edge| edge.member));
            for member in first_member..self.quotients.members.len() {
                let member = self.quotients.members[member].node as usize;
                let own = self.trie[member].first_token as usize..self.trie[member + 1].first_token as usize;
                self.quotients.tokens.extend_from_slice(&self.trie_tokens[own]);
                work.extend_from_slice(self.edges.of(index(member)));
            }
            self.quotients.tokens[first_token..].sort_unstable();
            group(&mut work[begin..], begin, depth + 1, &mut groups);
        }
        let end = index(self.quotients.nodes.len());
        for closed in open {
            self.quotients.nodes[closed as usize].end = end;
        }
        let facts = self.facts(first, &parents);
        self.quotients.all.push(Quotient { first: index(first), end, height: index(height), facts });
        let is_root = place as usize == self.trie.len() - 1;
        self.fronts.push(if is_root { 0 } else { self.trie[place as usize].depth() + 1 });
    }

    /// Makes the facts of the nodes from `first` on, and those of the empty string.
    fn facts(&mut self, first: usize, parents: &[u32]) -> u32 {
        let mut below: Vec<(SymbolSet, u32)> = vec![([0; 4], 0); parents.len()];
        let (mut all, mut height) = ([0; 4], 0);
        let tokens_end = index(self.quotients.tokens.len());
        for at in (0..parents.len()).rev() {
            let node = self.quotients.nodes[first + at];
            let own_end =
                self.quotients.nodes.get(first + at + 1).map_or(tokens_end, |next| next.first_token);
            let below_end =
                self.quotients.nodes.get(node.end as usize).map_or(tokens_end, |next| next.first_token);
            let (mut set, own_height) = below[at];
            self.quotients.nodes[first + at].facts =
                self.add_facts(set, own_height, (node.first_token, own_end), (own_end, below_end));
            set[usize::from(node.symbol() / 64)] |= 1 << (node.symbol() % 64);
            let (parent_set, parent_height) = match parents[at] {
                NONE => (&mut all, &mut height),
                parent => {
                    let (set, height) = &mut below[parent as usize - first];
                    (set, height)
                }
            };
            parent_set.iter_mut().zip(set).for_each(|(word, more)| *word |= more);
            *parent_height = (*parent_height).max(own_height + 1);
        }
        let begin = self.quotients.nodes.get(first).map_or(tokens_end, |node| node.first_token);
        self.add_facts(all, height, (begin, begin), (begin, tokens_end))
    }

    /// The index of `set` among the sets.
    fn set(&mut self, set: SymbolSet) -> u32 {
        let sets = &mut self.quotients.sets;
        *self.ids_of_sets.entry(set).or_insert_with(|| {
            sets.push(set);
            index(sets.len() - 1)
        })
    }

    fn add_facts(&mut self, set: SymbolSet, height: u32, own: (u32, u32), below: (u32, u32)) -> u32 {
        if own.1 - own.0 < MASK_TOKENS && below.1 - below.0 < WHOLE_TOKENS {
            return NONE;
        }
        let set = self.set(set);
        let quotients = &mut self.quotients;
        let [own_mask, below_mask] = [own, below].map(|(begin, end)| {
            if end - begin < MASK_TOKENS {
                return NONE;
            }
            let mask = quotients.masks.len();
            quotients.masks.resize(mask + quotients.words, 0);
            for token in &quotients.tokens[begin as usize..end as usize] {
                quotients.masks[mask + token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
            }
            index(mask / quotients.words)
        });
        quotients.facts.push(Facts { set, height, own_mask, below_mask, below });
        index(quotients.facts.len() - 1)
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
