//! Fragments of masks, as a library keeps them, and the keys by which it finds them.
//!
//! [Masks](crate::mask::fragments) build and use them.

use std::sync::Arc;

use unskew_core::TokenId;

use super::{
    cache::{LibraryId, hold_node},
    nodes::TreeNode,
    points::{Point, PointKey},
    suffixes::SuffixNode,
};
use crate::network::rules::Placeholder;

/// The tokens from a point on, up to the placeholders.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) ids: Box<[TokenId]>,
    /// With whether a terminal that was begun reads their tokens.
    pub(crate) nodes: Box<[(Arc<TreeNode>, bool)]>,
    pub(crate) to_verify: Box<[TokenId]>,
    /// The points from which tokens reach a placeholder; suffix nodes are in `suffixes`.
    pub(crate) points: Box<[(Point, Placeholder)]>,
    pub(crate) suffixes: Box<[SuffixPoints]>,
    /// The steps that it took to build; see [`meter`](crate::parser::meter).
    pub(crate) steps: u64,
}

/// Suffix nodes of a group, and the placeholders that are reached there.
#[derive(Debug)]
pub(crate) struct SuffixPoints {
    pub(crate) holder: Option<Arc<TreeNode>>,
    pub(crate) index: usize,
    pub(crate) nodes: Box<[(SuffixNode, Placeholder)]>,
}

/// A compiled grammar, spelled out.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct SpelledGrammar(pub(crate) Box<[u32]>);

/// The grammar, the point, and the truncated state, spelled out.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct SharedFragmentKey(pub(crate) LibraryId, pub(crate) PointKey, pub(crate) Box<[u32]>);

impl Fragment {
    /// Calls `each` with every node and automaton that the fragment refers to, and their bytes.
    pub(crate) fn each_held(&self, each: &mut dyn FnMut(LibraryId, usize)) {
        let holders = self.suffixes.iter().filter_map(|points| points.holder.as_ref());
        let nodes = self.nodes.iter().map(|(node, _)| node).chain(holders);
        nodes.for_each(|node| hold_node(node, each));
        for (point, _) in &self.points {
            match point {
                Point::Root | Point::Suffix(None, ..) => {}
                Point::Suffix(Some(node), ..) => hold_node(node, each),
                Point::Open(open) => open.each_held(each),
            }
        }
    }

    pub(crate) fn memory_usage(&self) -> usize {
        let suffixes =
            self.suffixes.iter().map(|points| size_of::<SuffixPoints>() + size_of_val(&points.nodes[..]));
        size_of::<Self>()
            + size_of_val(&self.ids[..])
            + size_of_val(&self.nodes[..])
            + size_of_val(&self.to_verify[..])
            + size_of_val(&self.points[..])
            + suffixes.sum::<usize>()
    }
}
