//! Masks out of subterminal trees: the union of the tokens of all paths that the parser can take.
//!
//! For each hypothesis of a configuration the tree of its terminal's state is walked down as far as the parser
//! follows. The tokens that stay inside the terminal are one ready set. The suffixes of the tokens that leave it are
//! read on: literals are met with them byte by byte, the next node of an automaton is ready or built from them, and
//! the parser is asked only for the followers of terminals that have ended. Where a terminal may end and may also
//! read the first byte of the next one, the two are [fused](crate::trees::fused). Where all this becomes too large, the
//! mask is built by a [walk](super::walks) over the vocabulary through configurations.
//!
//! Tried instead: to walk for the incomplete paths alone, over the suffixes of their tokens, and to build a mask
//! without fragments where these become too large. That took 190 lines, and changed no figure of MaskBench or of nine
//! grammars by more than three percent.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use hashbrown::HashMap;
use unskew_core::{TokenId, TokenMask};
use unskew_grammar::{
    Difference,
    kit::terminal::{ScanState, difference::Below},
};
use unskew_trie::{ByteSet, TokenTrie};

use super::{
    fragments::Fragments, fusion::FusionKey, grammar_trees::GrammarTrees, union::MaskUnion,
    walks::ConfigurationWalk,
};
use crate::{
    network::terminals::ScanTerminal,
    parser::{
        configurations::{Compiled, Configuration, Configurations},
        hypotheses::Hypothesis,
        states::{ParserState, Target},
    },
    trees::{
        library::TreeLibrary,
        nodes::{ENTRY, ParentKey, TreeNode},
        points::{Fused, OpenNode, Origin, Segment, SegmentEnd},
        suffixes::{Exits, SuffixNode, SuffixTrie},
    },
};

/// The nodes that a scratch refers to.
#[derive(Debug, Default)]
pub(crate) struct ScratchNodes {
    /// By terminal and state.
    roots: HashMap<(ScanTerminal, ScanState), Arc<TreeNode>>,
    /// By parent and terminal.
    pub(crate) children: HashMap<(ParentKey, ScanTerminal), Arc<TreeNode>>,
    /// `None` where the fused automaton is too large.
    pub(crate) fused: HashMap<FusionKey, Option<Fused>>,
    /// By terminal: the bytes that extend its texts.
    pub(crate) extending: HashMap<ScanTerminal, ByteSet>,
    /// By terminal and literal: whether a text of the terminal may go on over the literal.
    pub(crate) going_over: HashMap<(ScanTerminal, ScanTerminal), bool>,
    /// By terminal, the state after it, and the [end](SegmentEnd) of the segment: whether more terminals overlap than
    /// are fused. Of the mask at hand: its price may not depend on the masks before it.
    pub(crate) crowded: HashMap<(ScanTerminal, ParserState, SegmentEnd), bool>,
    pub(crate) bytes: usize,
}

impl ScratchNodes {
    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes
    }
}

/// Buffers, empty but while they are in use.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// For [`SuffixTrie::meet`].
    pub(crate) literals: Vec<(u32, u32, u32, u32)>,
    /// The nodes of the suffix trie at hand in which literals have ended, with what comes after them; the first node
    /// first.
    pub(crate) ended: BinaryHeap<Reverse<(SuffixNode, Target)>>,
    pub(crate) open: Vec<OpenNode>,
    /// For [`SuffixTrie::walk`].
    pub(crate) scan_states: Vec<ScanState>,
}

/// Builds one mask.
pub(crate) struct MaskBuilder<'a> {
    pub(crate) union: &'a mut MaskUnion,
    /// A buffer for walks, empty.
    pub(crate) buffer: &'a mut TokenMask,
    pub(crate) compiled: &'a Compiled,
    pub(crate) trees: &'a GrammarTrees,
    pub(crate) trie: &'a TokenTrie,
    pub(crate) configurations: &'a mut Configurations,
    pub(crate) known: &'a mut ScratchNodes,
    pub(crate) buffers: &'a mut Buffers,
    /// Tokens to be read one by one: they may have been added though a terminal leaves their text out. Empty between
    /// masks.
    pub(crate) to_verify: &'a mut Vec<TokenId>,
    pub(crate) fragments: &'a mut Fragments,
    /// How many walks over the vocabulary there were.
    pub(crate) walks: &'a mut u64,
}

impl MaskBuilder<'_> {
    /// Adds the tokens that may follow in `configuration`, but for control tokens.
    pub(crate) fn add(&mut self, configuration: Configuration) {
        let (_, before) = self.union.added();
        self.fragments.begin();
        self.known.crowded.clear();
        self.add_all(configuration);
        if self.gives_up() {
            let mut ids = std::mem::take(&mut self.union.ids);
            ids.truncate(before);
            *self.union = MaskUnion::new(ids);
            self.to_verify.clear();
            self.buffers.open.clear();
            self.add_by_walk(configuration);
        }
    }

    fn add_all(&mut self, configuration: Configuration) {
        // The tokens that one hypothesis rejects though its automaton reads them are removed from the tokens that it
        // adds, if it comes last.
        let mut to_reject: Vec<TokenId> = Vec::new();
        let mut last = None;
        for index in 0..self.configurations.hypotheses(configuration).len() {
            let hypothesis = self.configurations.hypotheses(configuration)[index];
            let first = to_reject.len();
            self.find_left_out(hypothesis, &mut to_reject);
            if first > 0 && to_reject.len() > first {
                self.to_verify.append(&mut to_reject);
                last = None;
                continue;
            }
            if to_reject.len() > first {
                last = Some(index);
            }
        }
        for index in 0..self.configurations.hypotheses(configuration).len() {
            if Some(index) != last {
                self.add_hypothesis(self.configurations.hypotheses(configuration)[index]);
            }
            if self.fragments.has_failed() {
                return;
            }
        }
        if let Some(last) = last {
            let others = self.union.added();
            self.add_hypothesis(self.configurations.hypotheses(configuration)[last]);
            if self.fragments.has_failed() {
                return;
            }
            self.union.take_away(&to_reject, others, self.buffer);
        }
        self.to_verify.sort_unstable();
        self.to_verify.dedup();
        // Each of them may be in the mask for another reason.
        for token in self.union.added_among(self.to_verify, self.buffer) {
            let text = self.trees.library.vocabulary().text(token).unwrap_or_default();
            if self.configurations.run(self.compiled, configuration, text).is_none() {
                self.union.remove(token);
            }
        }
        self.to_verify.clear();
    }

    fn add_hypothesis(&mut self, hypothesis: Hypothesis) {
        let Hypothesis { terminal, progress, parser_state, .. } = hypothesis;
        let terminals = &self.compiled.terminals;
        let Some(terminal) = terminal else {
            self.add_followers(parser_state);
            return;
        };
        let ended = if terminals.is_literal(terminal) {
            self.open_literals(terminal, progress.depth(), parser_state)
        } else {
            if self.is_crowded((terminal, parser_state)) {
                self.fragments.fail();
                return;
            }
            let state = progress.state();
            let node = self.root(terminal, state);
            self.buffers.open.push(OpenNode {
                node,
                segment: Segment::Terminal(terminal, state),
                parser_state,
                origin: Origin::Begun,
                is_added: false,
            });
            terminals.is_accepting(terminal, state).then_some(parser_state)
        };
        self.add_paths();
        if let Some(state) = ended {
            self.add_followers(state);
        }
    }

    /// Adds the tokens that may follow in `configuration` by a walk over the vocabulary.
    fn add_by_walk(&mut self, configuration: Configuration) {
        *self.walks += 1;
        self.configurations.parser.meter.begin_again();
        let mut walk = ConfigurationWalk { compiled: self.compiled, configurations: self.configurations };
        self.trie.fill(&mut walk, ConfigurationWalk::state(configuration), self.buffer.as_mut());
        self.union.add_mask(self.buffer.as_ref());
        self.buffer.as_mut().clear();
    }

    /// Adds the tokens inside `node`; `continues` if they are those that a terminal which was begun reads.
    pub(crate) fn add_node(&mut self, node: &Arc<TreeNode>, continues: bool) {
        self.fragments.note_node(node, continues);
        self.union.add_node(node, continues);
    }

    /// Adds the tokens that are read by the literals of a parser state that agree with `terminal` in their first
    /// `depth` bytes, which were read, and opens the nodes after them. Answers the parser state after the literal
    /// that ends here, if one does.
    fn open_literals(
        &mut self,
        terminal: ScanTerminal,
        depth: usize,
        state: ParserState,
    ) -> Option<ParserState> {
        let terminals = &self.compiled.terminals;
        let followers = self.configurations.parser.followers(state, &self.compiled.rules);
        let literals = terminals.literals(self.configurations.parser.edges(followers));
        let mut first = literals.partition_point(|(other, _)| *other < terminal);
        let end = first + terminals.sharing(literals, terminal, depth).len();
        let ended = literals.get(first).filter(|(literal, _)| terminals.literal_len(*literal) == depth);
        let ended = ended.map(|(_, target)| *target);
        let ended = ended.map(|target| self.configurations.parser.made(target, &self.compiled.rules));
        first += usize::from(ended.is_some());
        let trees = self.trees;
        while first < end {
            let literals = &self.configurations.parser.edges(followers)[first..end];
            let next = |literal: ScanTerminal| terminals.literal(literal)[depth];
            let byte = next(literals[0].0);
            let len = literals.partition_point(|(literal, _)| next(*literal) == byte);
            let sharing = first..first + len;
            first = sharing.end;
            if let Some((index, group)) = trees.library.all().group(byte) {
                self.add_literals((group, index), None, followers, sharing, depth + 1);
            }
        }
        ended
    }

    /// Adds the tokens that begin in a parser state.
    fn add_followers(&mut self, state: ParserState) {
        self.add_from_root(state);
        self.add_paths();
    }

    /// Marks for verification the tokens in which a text of `terminal` may begin and end as one that it leaves out.
    pub(crate) fn verify_inside(&mut self, terminal: ScanTerminal) {
        if let Some(difference) = self.compiled.terminals.difference(terminal) {
            let tokens = self.trees.containing(self.compiled, terminal, difference);
            self.to_verify.extend_from_slice(tokens);
        }
    }

    /// Marks for verification the tokens that continue after `origin` with a text that `terminal` leaves out, or that
    /// none of its texts begins with.
    ///
    /// Tried instead: all tokens in which such a text occurs, once for each terminal. Every object of a schema has a
    /// terminal of its own, and the search was half of the median first mask.
    pub(crate) fn verify_after(&mut self, origin: &Origin, terminal: ScanTerminal) {
        let Some(difference) = self.compiled.terminals.difference(terminal) else { return };
        let library = &self.trees.library;
        let suffixes = match origin {
            Origin::Root | Origin::Begun => Suffixes::Exits(library.all()),
            Origin::Exits(node) => Suffixes::Exits(&node.exits),
            Origin::Suffix(holder, index, at) => {
                let exits = holder.as_ref().map_or(library.all(), |holder| &holder.exits);
                Suffixes::After(exits.groups[*index].trie(library), *at)
            }
        };
        let begin = difference.start();
        each_left_out(library, difference, begin, suffixes, |_, tokens| {
            self.to_verify.extend_from_slice(tokens);
        });
    }

    /// Finds the tokens with which the terminal of a hypothesis may end as a text that it leaves out. Those that it
    /// cannot read in any way are added to `to_reject`; the others are marked for verification.
    fn find_left_out(&mut self, hypothesis: Hypothesis, to_reject: &mut Vec<TokenId>) {
        let Hypothesis { terminal, progress, .. } = hypothesis;
        let terminals = &self.compiled.terminals;
        let Some(terminal) = terminal.filter(|terminal| !terminals.is_literal(*terminal)) else { return };
        let Some(difference) = self.compiled.terminals.difference(terminal) else { return };
        let library = &self.trees.library;
        let all = Suffixes::Exits(library.all());
        each_left_out(library, difference, progress.state(), all, |is_rejected, tokens| {
            let list = if is_rejected { &mut *to_reject } else { &mut *self.to_verify };
            list.extend_from_slice(tokens);
        });
    }

    /// The root of the tree of a terminal in a state.
    pub(crate) fn root(&mut self, terminal: ScanTerminal, state: ScanState) -> Arc<TreeNode> {
        let Self { compiled, trees, known, .. } = self;
        let ScratchNodes { roots, bytes, .. } = &mut **known;
        let node = roots.entry((terminal, state)).or_insert_with(|| {
            *bytes += ENTRY;
            trees.root(compiled, terminal, state)
        });
        Arc::clone(node)
    }

    /// The state in which `terminal` begins.
    pub(crate) fn start(&self, terminal: ScanTerminal) -> ScanState {
        self.compiled.terminals.scan(terminal).expect("it reads bytes").start()
    }
}

/// The rests of tokens.
#[derive(Clone, Copy)]
enum Suffixes<'t> {
    Exits(&'t Exits),
    After(&'t SuffixTrie, SuffixNode),
}

/// Calls `found` with the tokens that go on among `suffixes` from `state` to a text that `difference` leaves out, or
/// to one that none of its texts begins with; and with whether no text of it has ended before, and none will.
fn each_left_out<'t>(
    library: &'t TreeLibrary,
    difference: &Difference,
    state: ScanState,
    suffixes: Suffixes<'t>,
    mut found: impl FnMut(bool, &'t [TokenId]),
) {
    // With whether another text may have ended before.
    let mut open = vec![(suffixes, state, false)];
    while let Some((suffixes, state, has_ended)) = open.pop() {
        let has_ended = has_ended || difference.is_accepting(state);
        let mut visit = |trie: &'t SuffixTrie, at: SuffixNode, next: ScanState, below: Below| match below {
            Below::Inner => open.push((Suffixes::After(trie, at), next, has_ended)),
            Below::Dead => found(!has_ended, trie.below(at)),
            Below::LeftOut => found(false, trie.below(at)),
        };
        let below = difference.all_below(state);
        match suffixes {
            Suffixes::Exits(exits) => {
                for (byte, next, below) in below {
                    if let Some((_, group)) = exits.group(byte) {
                        visit(group.trie(library), SuffixTrie::FIRST, next, below);
                    }
                }
            }
            Suffixes::After(trie, at) => {
                let below = below.map(|(byte, next, below)| (byte, (next, below)));
                for (child, (next, below)) in trie.children_of(at, below) {
                    visit(trie, child, next, below);
                }
            }
        }
    }
}
