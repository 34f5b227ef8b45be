//! The paths of terminals that tokens may take: nodes of subterminal trees, opened as far as the parser follows.
//!
//! A path begins with a terminal that was begun before the token, or with one at the beginning of the token. The
//! tokens inside its node are added. Some tokens leave it and continue with literals, which are met with their
//! suffixes byte by byte; others continue with an automaton, and the next node is opened. Where a terminal and the
//! next one [overlap](super::fusion), the two are fused.
//!
//! The order of nodes makes no difference, and a token may be found on several paths.

use std::{cmp::Reverse, ops::Range, sync::Arc};

use smallvec::SmallVec;
use unskew_grammar::kit::terminal::ScanState;
use unskew_trie::ByteSet;

use super::builder::{Buffers, MaskBuilder, ScratchNodes};
use crate::{
    network::terminals::ScanTerminal,
    parser::{
        configurations::Configurations,
        states::{Edge, Followers, ParserState},
    },
    trees::{
        nodes::{ENTRY, TreeNode},
        points::{Loop, OpenNode, Origin, Point, Segment},
        suffixes::{Exits, SuffixGroup, SuffixNode, SuffixTrie},
    },
};

/// The steps of an open node. If the library does not have it, it takes a walk over its tokens.
const NODE: usize = 50;

impl MaskBuilder<'_> {
    /// Whether tokens are missing, so that the mask is built by a walk: a path is too large, or all of them are.
    pub(crate) fn gives_up(&mut self) -> bool {
        if self.configurations.parser.meter.is_over_in_trees() {
            self.fragments.fail();
        }
        self.fragments.has_failed()
    }

    /// Adds the tokens that read the paths of the open nodes and all that may follow.
    pub(crate) fn add_paths(&mut self) {
        let mut looked_at = 0;
        while let Some(open) = self.buffers.open.pop() {
            looked_at += 1;
            self.configurations.parser.meter.add(NODE);
            if looked_at > self.compiled.tuning.opened_nodes {
                self.fragments.fail();
            }
            // The tokens that are missing are found by a walk, with all others.
            if self.gives_up() {
                self.buffers.open.clear();
                return;
            }
            let state = open.parser_state;
            let has_many_exits = open.node.exits.groups.len() >= self.compiled.tuning.fragment_groups;
            let point = Point::Open(open);
            if has_many_exits && self.add_by_fragment(&point, state) {
                continue;
            }
            if let Point::Open(open) = point {
                self.add_open(&open);
            }
        }
    }

    /// Adds the tokens of a node and those that continue from it.
    pub(crate) fn add_open(&mut self, open: &OpenNode) {
        let OpenNode { node, segment, parser_state, origin, .. } = open;
        let first = self.configurations.first_bytes(self.compiled, *parser_state);
        if first.meets(&node.extending) && !self.open_fused(open) {
            self.fragments.fail();
            return;
        }
        self.reach_placeholders(*parser_state, || Point::Open(open.clone()));
        if !open.is_added {
            let continues = matches!((origin, segment), (Origin::Begun, Segment::Terminal(..)));
            self.add_node(node, continues);
        }
        let origin = Origin::Exits(Arc::clone(node));
        self.add_exits(&node.exits, Some(node), &origin, *parser_state, Some(segment));
    }

    /// Adds the tokens that leave by `exits` and continue in a parser state, and opens the nodes after `origin`.
    /// `holder` has the exits; if none has, they are all tokens. `segment` was read up to there, and is fused with
    /// the terminals with which it overlaps.
    pub(crate) fn add_exits(
        &mut self,
        exits: &Exits,
        holder: Option<&Arc<TreeNode>>,
        origin: &Origin,
        state: ParserState,
        segment: Option<&Segment>,
    ) {
        let common = self.configurations.first_bytes(self.compiled, state).and(&exits.bytes);
        if common.is_empty() {
            return;
        }
        let followers = self.configurations.parser.followers(state, &self.compiled.rules);
        for index in self.others(followers) {
            let edge = self.configurations.parser.edge(followers, index);
            let is_begun = common.meets(self.compiled.terminals.first_bytes(edge.0));
            let is_fused = segment.and(holder).is_some_and(|node| self.overlaps(node, edge.0));
            if is_begun && !is_fused && self.is_crowded(edge) {
                self.fragments.fail();
                return;
            }
        }
        for (index, group) in common.iter().filter_map(|byte| exits.group(byte)) {
            let edges = self.configurations.parser.edges(followers);
            let literals = self.compiled.terminals.beginning(edges, group.byte);
            if !literals.is_empty() {
                self.add_literals((group, index), holder, followers, literals, 1);
            }
        }
        self.open_children(origin, &common, state, segment.zip(holder));
    }

    /// Adds the tokens of a group of suffixes, at this index, that are read by `literals`, which are edges and agree
    /// in their first `depth` bytes, which were read; and opens the nodes after those. `holder` has the exits; if
    /// none has, they are all tokens.
    pub(crate) fn add_literals(
        &mut self,
        (group, index): (&SuffixGroup, usize),
        holder: Option<&Arc<TreeNode>>,
        followers: Followers,
        literals: Range<usize>,
        depth: usize,
    ) {
        self.meet(group, SuffixTrie::FIRST, depth, followers, literals);
        self.continue_ended(holder, group, index);
    }

    /// Adds the tokens of `group` that are read from `at` on by `literals`, which are edges and were read to their
    /// first `depth` bytes.
    fn meet(
        &mut self,
        group: &SuffixGroup,
        at: SuffixNode,
        depth: usize,
        followers: Followers,
        literals: Range<usize>,
    ) {
        let Self { union, configurations, compiled, trees, buffers, .. } = self;
        let Buffers { literals: open, ended, .. } = &mut **buffers;
        configurations.parser.meter.add(literals.len());
        group.trie(&trees.library).meet(
            (at, depth),
            &configurations.parser.edges(followers)[literals],
            |(literal, _): Edge| compiled.terminals.literal(literal),
            |tokens| union.ids.extend_from_slice(tokens),
            |at, (_, target)| ended.push(Reverse((at, target))),
            open,
        );
    }

    /// Continues from the suffix nodes of `group`, which is at this index of its exits, in which literals have ended.
    pub(crate) fn continue_ended(
        &mut self,
        holder: Option<&Arc<TreeNode>>,
        group: &SuffixGroup,
        index: usize,
    ) {
        let on_heap = self.fragments.set_on_heap(Some(group.id));
        // In depth-first order all parser states at a node are known when it is its turn.
        while let Some(Reverse((at, target))) = self.buffers.ended.pop() {
            if self.gives_up() {
                self.buffers.ended.clear();
                break;
            }
            let Self { configurations: Configurations { parser, .. }, compiled, buffers, .. } = self;
            let mut state = parser.made(target, &compiled.rules);
            while let Some(Reverse((_, other))) = buffers.ended.peek().filter(|other| other.0.0 == at) {
                let other = parser.made(*other, &compiled.rules);
                state = parser.union(state, other, &compiled.rules);
                buffers.ended.pop();
            }
            let may_be_fragment = !self.fragments.is_made_in(group.id);
            if !(may_be_fragment && self.add_by_fragment(&Point::Suffix(holder.cloned(), index, at), state)) {
                self.add_after_suffix(holder, (group, index), at, state);
            }
        }
        self.fragments.set_on_heap(on_heap);
    }

    /// Adds the tokens that continue from a suffix node in a parser state, and opens nodes.
    pub(crate) fn add_after_suffix(
        &mut self,
        holder: Option<&Arc<TreeNode>>,
        (group, index): (&SuffixGroup, usize),
        at: SuffixNode,
        state: ParserState,
    ) {
        self.reach_placeholders(state, || Point::Suffix(holder.cloned(), index, at));
        let first = self.configurations.first_bytes(self.compiled, state);
        let Self { compiled, trees, .. } = *self;
        let trie = group.trie(&trees.library);
        let mut children: SmallVec<[(u8, SuffixNode); 8]> = SmallVec::new();
        children.extend(trie.children(at).filter(|(byte, _)| first.contains(*byte)));
        if children.is_empty() {
            return;
        }
        let mut bytes = ByteSet::default();
        let followers = self.configurations.parser.followers(state, &compiled.rules);
        for (byte, child) in children.iter().copied() {
            bytes.insert(byte);
            let literals = compiled.terminals.beginning(self.configurations.parser.edges(followers), byte);
            if !literals.is_empty() {
                self.meet(group, child, 1, followers, literals);
            }
        }
        if trie.size(at) > compiled.tuning.read_descendants {
            self.open_children(&Origin::Suffix(holder.cloned(), index, at), &bytes, state, None);
            return;
        }
        for index in self.others(followers) {
            let edge = self.configurations.parser.edge(followers, index);
            let first = compiled.terminals.first_bytes(edge.0);
            for (byte, child) in children.iter().filter(|(byte, _)| first.contains(*byte)) {
                self.read_on(trie, (*byte, *child), edge);
            }
        }
    }

    /// The indices of the edges that read no literals.
    pub(crate) fn others(&self, followers: Followers) -> Range<usize> {
        let edges = self.configurations.parser.edges(followers);
        edges.len() - self.compiled.terminals.others(edges).len()..edges.len()
    }

    /// Adds the tokens that the terminal of `edge`, no literal, reads from its first byte `byte` on, of which `at` is
    /// the node. Where the terminal may end, the parser state after it continues.
    fn read_on(
        &mut self,
        trie: &SuffixTrie,
        (byte, at): (u8, SuffixNode),
        (terminal, after): (ScanTerminal, ParserState),
    ) {
        let Self { union, compiled, buffers, .. } = self;
        let Buffers { scan_states, ended, .. } = &mut **buffers;
        let terminals = &compiled.terminals;
        let Some(state) = terminals.first(terminal, terminals.class(byte)) else { return };
        let step = |state: ScanState, byte: u8| terminals.step(terminal, state, terminals.class(byte));
        trie.walk(at, state, scan_states, step, |at, state| {
            union.ids.extend_from_slice(trie.tokens(at));
            if trie.size(at) > 1 && terminals.is_accepting(terminal, state) {
                ended.push(Reverse((at, after.into())));
            }
        });
    }

    /// Opens the nodes after `origin` of the automata that may follow in a parser state and begin with one of
    /// `bytes`; but for those with which the last segment, of this node, is fused.
    fn open_children(
        &mut self,
        origin: &Origin,
        bytes: &ByteSet,
        state: ParserState,
        last: Option<(&Segment, &Arc<TreeNode>)>,
    ) {
        let followers = self.configurations.parser.followers(state, &self.compiled.rules);
        let mut loops: SmallVec<[Loop; 2]> = SmallVec::new();
        if let Some((segment, node)) = last {
            for index in self.others(followers) {
                let edge = self.configurations.parser.edge(followers, index);
                // As in fusion: a terminal of the segment's own loop does not fuse with the rest of another loop.
                if self.overlaps(node, edge.0) && !self.is_in_loop(segment.end().1, edge) {
                    loops.extend(self.loop_of(state, edge).filter(|one| !loops.contains(one)));
                }
            }
        }
        for index in self.others(followers) {
            let edge = self.configurations.parser.edge(followers, index);
            let (terminal, after) = edge;
            if !bytes.meets(self.compiled.terminals.first_bytes(terminal)) {
                continue;
            }
            let is_fused = |(segment, node): (&Segment, &Arc<TreeNode>)| {
                self.overlaps(node, terminal)
                    || !loops.is_empty() && self.loop_of(state, edge).is_some_and(|one| loops.contains(&one))
                    || self.is_in_loop(segment.end().1, edge)
            };
            if !last.is_some_and(is_fused) {
                self.verify_after(origin, terminal);
                let (node, start) = self.child(origin, terminal);
                self.buffers.open.push(OpenNode {
                    node,
                    segment: Segment::Terminal(terminal, start),
                    parser_state: after,
                    origin: origin.clone(),
                    is_added: false,
                });
            }
        }
    }

    /// The node after `origin` where `terminal` comes next, and the state in which that begins.
    fn child(&mut self, origin: &Origin, terminal: ScanTerminal) -> (Arc<TreeNode>, ScanState) {
        let start = self.start(terminal);
        let library = &self.trees.library;
        let Some(parent) = origin.parent(library) else { return (self.root(terminal, start), start) };
        let Self { compiled, trees, known, .. } = self;
        let ScratchNodes { children, bytes, .. } = &mut **known;
        let child = children.entry((parent.key(), terminal)).or_insert_with(|| {
            *bytes += ENTRY;
            library.child(&parent, trees.reader(compiled, terminal))
        });
        (Arc::clone(child), start)
    }
}
