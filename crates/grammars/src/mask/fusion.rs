//! Fusion: terminals that overlap become one automaton.
//!
//! A terminal **overlaps** the next one where it may end and may also read the first byte of the next one: a name
//! before a name, a comment before a division. A tree cannot tell where the first ends. So the two are replaced by
//! their [concatenation](crate::trees::fused), and the tree continues from that. A terminal that leads to a parser
//! state which simulates the state before it may come again and again: all such terminals are a **loop**, and any
//! number of them is one automaton too.

use std::sync::Arc;

use smallvec::SmallVec;
use unskew_automata::Dfa;
use unskew_grammar::kit::terminal::{ScanState, reading::Scan};
use unskew_trie::ByteSet;

use super::builder::MaskBuilder;
use crate::{
    network::terminals::ScanTerminal,
    parser::states::{ParserState, Target},
    trees::{
        cache::LibraryId,
        fused::Next,
        nodes::{ENTRY, ParentKey, SuffixReader, TreeNode},
        points::{Fused, Loop, OpenNode, Segment, SegmentEnd, SegmentKey},
    },
    tuning::Tuning,
};

/// The origin, if it has a parent.
type OriginKey = Option<ParentKey>;

/// The origin, the segment, and the second part of the fusion.
pub(crate) type FusionKey = (OriginKey, SegmentKey, FusedWith);

/// The second part of a fusion: a terminal, or all terminals of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum FusedWith {
    Terminal(ScanTerminal),
    Loop(Loop),
}

/// An edge that overlaps a segment, and its loop.
type Way = ((ScanTerminal, ParserState), Option<Loop>);

impl MaskBuilder<'_> {
    /// Opens the nodes of the segment of `open` fused with each terminal that it overlaps. Answers false if some of
    /// them are missing.
    pub(crate) fn open_fused(&mut self, open: &OpenNode) -> bool {
        let end = open.segment.end();
        let Some(ways) = self.ways(&open.node.extending, end, open.parser_state) else { return false };
        for ((terminal, after), in_loop) in ways {
            let with = in_loop.map_or(FusedWith::Terminal(terminal), FusedWith::Loop);
            let Some(fused) = self.fuse(open, with) else { return false };
            self.buffers.open.push(OpenNode {
                node: Arc::clone(&fused.node),
                segment: Segment::Fused { fused, parts: end.0 + 1, loops: in_loop },
                parser_state: after,
                origin: open.origin.clone(),
                is_added: false,
            });
        }
        true
    }

    /// The edges of a parser state that overlap a segment with these extending bytes and this [end](SegmentEnd), one
    /// for each loop, without those of the loop at its end. `None` if they are more than are fused.
    fn ways(
        &mut self,
        extending: &ByteSet,
        (parts, last_loop): SegmentEnd,
        state: ParserState,
    ) -> Option<SmallVec<[Way; 8]>> {
        let Tuning { fused_ways, fused_parts, .. } = self.compiled.tuning;
        let followers = self.configurations.parser.followers(state, &self.compiled.rules);
        let mut ways: SmallVec<[Way; 8]> = SmallVec::new();
        for index in 0..self.configurations.parser.edges(followers).len() {
            let (terminal, target) = self.configurations.parser.edges(followers)[index];
            if !self.begins_in(extending, terminal) {
                continue;
            }
            let edge = (terminal, self.configurations.parser.made(target, &self.compiled.rules));
            if self.is_in_loop(last_loop, edge) {
                continue;
            }
            let in_loop = self.loop_of(state, edge);
            if in_loop.is_some() && ways.iter().any(|(_, known)| *known == in_loop) {
                continue;
            }
            if ways.len() == fused_ways || parts >= fused_parts {
                return None;
            }
            ways.push((edge, in_loop));
        }
        Some(ways)
    }

    /// Whether the mask is one of a walk as soon as the node of `terminal` is opened, with `after` after it.
    ///
    /// It is asked before any node on the way is made. In Python without a scanner, `xinyorz` is `x in y or z`: a name
    /// overlaps `in`, which overlaps the next name. Automata for that took 15 ms, and no mask had them.
    pub(crate) fn is_crowded(&mut self, (terminal, after): (ScanTerminal, ParserState)) -> bool {
        self.overlaps_on((terminal, after), (1, None))
    }

    /// Whether more terminals overlap than are fused: the last one of a segment with this [end](SegmentEnd) is
    /// `terminal`, and `after` comes next.
    fn overlaps_on(&mut self, (terminal, after): (ScanTerminal, ParserState), end: SegmentEnd) -> bool {
        let (trees, compiled) = (self.trees, self.compiled);
        let extending = self.known.extending.entry(terminal);
        let extending = *extending.or_insert_with(|| trees.extending(compiled, terminal));
        if !self.configurations.first_bytes(self.compiled, after).meets(&extending) {
            return false;
        }
        let key = (terminal, after, end);
        if let Some(known) = self.known.crowded.get(&key) {
            return *known;
        }
        let is_crowded = self.ways(&extending, end, after).is_none_or(|ways| {
            ways.into_iter().any(|((other, next), in_loop)| {
                // The name goes on where a literal ends: it overlaps what follows the literal too.
                let last = match self.compiled.terminals.is_literal(other) {
                    true if self.goes_over(terminal, other) => terminal,
                    true => return false,
                    false => other,
                };
                self.overlaps_on((last, next), (end.0 + 1, in_loop))
            })
        });
        self.known.crowded.insert(key, is_crowded);
        is_crowded
    }

    /// Whether a text of `terminal` may go on with `literal` and be a text again.
    fn goes_over(&mut self, terminal: ScanTerminal, literal: ScanTerminal) -> bool {
        let terminals = &self.compiled.terminals;
        *self.known.going_over.entry((terminal, literal)).or_insert_with(|| {
            let Some(scan) = terminals.scan(terminal) else { return false };
            let mut ends = scan.dfa.states().filter(|state| scan.dfa.is_accepting(*state));
            ends.any(|end| {
                let mut bytes = terminals.literal(literal).iter();
                let last = bytes.try_fold(end, |state, byte| scan.dfa.step(state, *byte));
                last.is_some_and(|last| scan.dfa.is_accepting(last))
            })
        })
    }

    /// Whether `terminal` begins with a byte that the last terminal of `node` may read where it may also end.
    pub(crate) fn overlaps(&self, node: &TreeNode, terminal: ScanTerminal) -> bool {
        self.begins_in(&node.extending, terminal)
    }

    /// Whether `terminal` begins with one of `bytes`.
    fn begins_in(&self, bytes: &ByteSet, terminal: ScanTerminal) -> bool {
        let terminals = &self.compiled.terminals;
        if terminals.is_literal(terminal) {
            bytes.contains(terminals.literal(terminal)[0])
        } else {
            terminals.first_bytes(terminal).meets(bytes)
        }
    }

    /// The loop of an edge from a parser state, if there is one.
    pub(crate) fn loop_of(
        &mut self,
        state: ParserState,
        (terminal, after): (ScanTerminal, ParserState),
    ) -> Option<Loop> {
        let is_loop = self.may_loop(terminal)
            && self.configurations.parser.simulates(after, state, &self.compiled.rules);
        is_loop.then_some(Loop { from: state, to: after })
    }

    /// Whether `terminal` is an automaton that can be fused into a loop.
    fn may_loop(&self, terminal: ScanTerminal) -> bool {
        !self.compiled.terminals.is_literal(terminal) && self.automaton(terminal).is_some()
    }

    /// The automaton of `terminal`, no literal, with its number. `None` for tokens, and where a token can pass the
    /// bounds of counted units.
    fn automaton(&self, terminal: ScanTerminal) -> Option<(LibraryId, &Dfa)> {
        let Scan { dfa, .. } = self.compiled.terminals.scan(terminal)?;
        Some((self.trees.reader(self.compiled, terminal).free()?, &**dfa))
    }

    /// Whether the loop at the end of a segment has the edge: it reads the terminal already, any number of times.
    pub(crate) fn is_in_loop(
        &mut self,
        last_loop: Option<Loop>,
        (terminal, after): (ScanTerminal, ParserState),
    ) -> bool {
        let Some(Loop { from, to }) = last_loop else { return false };
        after == to && self.may_loop(terminal) && {
            let followers = self.configurations.parser.followers(from, &self.compiled.rules);
            let others = self.compiled.terminals.others(self.configurations.parser.edges(followers));
            others.binary_search(&(terminal, Target::from(after))).is_ok()
        }
    }

    /// The segment of `open` fused `with` more. `None` where that is too large.
    fn fuse(&mut self, open: &OpenNode, with: FusedWith) -> Option<Fused> {
        let terminals = &self.compiled.terminals;
        let others: SmallVec<[ScanTerminal; 4]> = match with {
            FusedWith::Terminal(terminal) => SmallVec::from_slice(&[terminal]),
            FusedWith::Loop(Loop { from, to }) => {
                let followers = self.configurations.parser.followers(from, &self.compiled.rules);
                let edges = terminals.others(self.configurations.parser.edges(followers)).iter();
                let in_loop = edges
                    .filter(|(terminal, target)| *target == Target::from(to) && self.may_loop(*terminal));
                in_loop.map(|(terminal, _)| *terminal).collect()
            }
        };
        for other in others.iter().filter(|other| !terminals.is_literal(**other)) {
            self.verify_inside(*other);
        }
        let origin = open.origin.parent(&self.trees.library).map(|parent| parent.key());
        let key = (origin, open.segment.key(), with);
        if let Some(known) = self.known.fused.get(&key) {
            return known.clone();
        }
        let fused = self.build_fused(open, with, &others);
        self.known.bytes += size_of::<(FusionKey, Option<Fused>)>() + fused.as_ref().map_or(0, |_| ENTRY);
        self.known.fused.insert(key, fused.clone());
        fused
    }

    /// As [`fuse`](Self::fuse); `others` are the terminals of the second part.
    fn build_fused(&self, open: &OpenNode, with: FusedWith, others: &[ScanTerminal]) -> Option<Fused> {
        let terminals = &self.compiled.terminals;
        // A text that is left out does not end, though its automaton may. Tokens in which one ends are verified, but
        // not tokens that begin at its end.
        let hides_end = |terminal: ScanTerminal, state: ScanState| {
            let difference = terminals.difference(terminal);
            difference.is_some_and(|difference| {
                difference.base().is_accepting(difference.state(state)) && !difference.is_accepting(state)
            })
        };
        let (number, dfa, state) = match &open.segment {
            Segment::Terminal(terminal, state) if hides_end(*terminal, *state) => return None,
            Segment::Terminal(terminal, state) => {
                // Counted units end where they may end, and overlap nothing.
                let scan = terminals.scan(*terminal).filter(|scan| scan.count.is_none())?;
                (self.trees.numbers(self.compiled, *terminal).0, &**scan.dfa, scan.at(*state))
            }
            Segment::Fused { fused, .. } => (fused.number, &*fused.dfa, fused.dfa.start()),
        };
        let next = match with {
            FusedWith::Terminal(terminal) if terminals.is_literal(terminal) => {
                Next::Literal(terminals.literal(terminal))
            }
            FusedWith::Terminal(terminal) if hides_end(terminal, self.start(terminal)) => return None,
            FusedWith::Terminal(terminal) => {
                let (number, dfa) = self.automaton(terminal)?;
                Next::Once(number, dfa)
            }
            FusedWith::Loop(_) => {
                Next::Many(others.iter().filter_map(|terminal| self.automaton(*terminal)).collect())
            }
        };
        let library = &self.trees.library;
        let (number, dfa) = library.fused((number, dfa), state, &next)?;
        let node = match open.origin.parent(library) {
            None => library.root(number, &dfa, dfa.start()),
            Some(parent) => library.child(&parent, SuffixReader::automaton(number, &dfa)),
        };
        Some(Fused { node, dfa, number })
    }
}
