//! Points of paths through subterminal trees: where a path stands, how it came there, and the segment read since its
//! origin.
//!
//! The [paths](crate::mask::paths) of a mask are made of them, and so are the [fragments](super::fragments) that a
//! library keeps.

use std::sync::Arc;

use unskew_automata::Dfa;
use unskew_grammar::kit::terminal::ScanState;

use super::{
    cache::{LibraryId, hold_automaton, hold_node},
    library::TreeLibrary,
    nodes::{Parent, TreeNode},
    suffixes::{SuffixGroup, SuffixNode},
};
use crate::{network::terminals::ScanTerminal, parser::states::ParserState};

/// A node that is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct OpenNode {
    pub(crate) node: Arc<TreeNode>,
    pub(crate) segment: Segment,
    /// The parser state after the segment.
    pub(crate) parser_state: ParserState,
    pub(crate) origin: Origin,
    /// Whether the tokens inside were added before.
    pub(crate) is_added: bool,
}

/// The part of a path since its origin.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// A terminal, from a state on.
    Terminal(ScanTerminal, ScanState),
    Fused {
        fused: Fused,
        /// The number of terminals and loops.
        parts: u32,
        /// The loop at its end, whose terminals occur any number of times.
        loops: Option<Loop>,
    },
}

/// How many terminals and loops a segment has, and the loop at its end.
pub(crate) type SegmentEnd = (u32, Option<Loop>);

/// A segment: a terminal and a state, or an automaton of the library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SegmentKey {
    Terminal(ScanTerminal, ScanState),
    Fused(LibraryId),
}

/// The origin of a node.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The node is the root of a terminal at the beginning of the token.
    Root,
    /// The node is the root of a terminal that was begun before the token.
    Begun,
    /// The exits of a node.
    Exits(Arc<TreeNode>),
    /// A suffix node among the exits of a node, or among all tokens, in the group at this index.
    Suffix(Option<Arc<TreeNode>>, usize, SuffixNode),
}

/// Terminals that are one automaton.
#[derive(Clone, Debug)]
pub(crate) struct Fused {
    /// The node after the origin.
    pub(crate) node: Arc<TreeNode>,
    pub(crate) dfa: Arc<Dfa>,
    /// The number of the automaton in the library.
    pub(crate) number: LibraryId,
}

/// Terminals that form a loop: after one of them, every terminal that was possible before is still possible, with the
/// same target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Loop {
    pub(crate) from: ParserState,
    pub(crate) to: ParserState,
}

/// A point from which tokens continue with the followers of a parser state.
#[derive(Clone, Debug)]
pub(crate) enum Point {
    /// The beginning of tokens.
    Root,
    /// Where they leave a node; the node's own parser state is not part of the point.
    Open(OpenNode),
    /// A suffix node among the exits of a node, or among all tokens, in the group at this index.
    Suffix(Option<Arc<TreeNode>>, usize, SuffixNode),
}

/// A point, in a scratch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PointKey {
    Root,
    /// The node, its segment, whether that was begun before the token, and whether the tokens inside are left out.
    Open(LibraryId, SegmentKey, bool, bool),
    Suffix(LibraryId, SuffixNode),
}

impl OpenNode {
    /// Calls `each` with every node and automaton that it refers to, and their bytes.
    pub(crate) fn each_held(&self, each: &mut dyn FnMut(LibraryId, usize)) {
        hold_node(&self.node, each);
        if let Segment::Fused { fused, .. } = &self.segment {
            hold_node(&fused.node, each);
            hold_automaton((fused.number, &fused.dfa), each);
        }
        if let Origin::Exits(node) | Origin::Suffix(Some(node), ..) = &self.origin {
            hold_node(node, each);
        }
    }
}

impl Segment {
    pub(crate) fn key(&self) -> SegmentKey {
        match self {
            Self::Terminal(terminal, state) => SegmentKey::Terminal(*terminal, *state),
            Self::Fused { fused, .. } => SegmentKey::Fused(fused.number),
        }
    }

    pub(crate) fn end(&self) -> SegmentEnd {
        match self {
            Self::Terminal(..) => (1, None),
            Self::Fused { parts, loops, .. } => (*parts, *loops),
        }
    }
}

impl Origin {
    /// The parent of nodes that are no roots.
    pub(crate) fn parent<'o>(&'o self, library: &'o TreeLibrary) -> Option<Parent<'o>> {
        match self {
            Self::Root | Self::Begun => None,
            Self::Exits(node) => Some(Parent::Exits(node)),
            Self::Suffix(Some(node), group, at) => Some(Parent::Suffix(&node.exits.groups[*group], *at)),
            Self::Suffix(None, group, at) => Some(Parent::Suffix(&library.all().groups[*group], *at)),
        }
    }
}

impl Point {
    /// The group of a suffix node.
    pub(crate) fn group<'p>(&'p self, library: &'p TreeLibrary) -> Option<&'p SuffixGroup> {
        let Self::Suffix(holder, index, _) = self else { return None };
        let exits = holder.as_ref().map_or(library.all(), |holder| &holder.exits);
        Some(&exits.groups[*index])
    }
}
