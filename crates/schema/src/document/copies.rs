//! Copies of a document for dynamic references.
//!
//! If the paths to a dynamic reference differ, it has one target for each outermost resource with the anchor. The
//! whole document is copied once for each such resource, so that every schema of a copy has one outermost resource.

use hashbrown::HashMap;

use super::json::NodeId;

/// A copy of the document, by number from 1 on. Number 0 is the original.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopyId(usize);

impl CopyId {
    const ORIGINAL: Self = Self(0);
}

/// The outermost resource that has the anchor, over all paths to a schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outermost {
    /// No resource on any path has it.
    None,
    One(NodeId),
    /// The paths differ.
    Several,
}

/// An anchor that several resources may have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Anchor {
    /// A `$dynamicAnchor`, with `#` before its name.
    Dynamic(String),
    /// `$recursiveAnchor`.
    Recursive,
}

/// Copies of the whole document, one for each resource that may be the outermost one with an anchor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// The number of nodes of the original; the nodes of the copies follow.
    nodes: u32,
    anchor: Option<Anchor>,
    /// The resource of each copy.
    resources: Vec<NodeId>,
    /// The copy of each resource.
    of_resource: HashMap<NodeId, CopyId>,
}

impl Copies {
    pub(crate) fn new(nodes: u32, anchor: Anchor, resources: Vec<NodeId>) -> Self {
        let of_resource = resources.iter().copied().zip((1..).map(CopyId)).collect();
        Self { nodes, anchor: Some(anchor), resources, of_resource }
    }

    /// The node of the original, and the copy that contains `node`.
    pub(crate) fn original(&self, node: NodeId) -> (NodeId, CopyId) {
        let (Some(_), Ok(nodes)) = (&self.anchor, usize::try_from(self.nodes)) else {
            return (node, CopyId::ORIGINAL);
        };
        let copy = node.index() / nodes;
        let before = u32::try_from(copy).map_or(0, |copy| copy * self.nodes);
        (node.unshifted(before), CopyId(copy))
    }

    /// The node of a copy that corresponds to a node of the original.
    pub(crate) fn image(&self, node: NodeId, copy: CopyId) -> NodeId {
        u32::try_from(copy.0).map_or(node, |copy| node.shifted(copy * self.nodes))
    }

    /// The copy after a path in `copy` enters `resource`.
    pub(crate) fn entered(&self, copy: CopyId, resource: NodeId) -> CopyId {
        match copy {
            CopyId::ORIGINAL => self.of_resource.get(&resource).copied().unwrap_or(CopyId::ORIGINAL),
            copy => copy,
        }
    }

    /// The anchor with copies, if there are any.
    pub(crate) fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_ref()
    }

    /// The outermost resource with the anchor in a copy.
    pub(crate) fn outermost(&self, copy: CopyId) -> Outermost {
        match copy.0.checked_sub(1) {
            None => Outermost::None,
            Some(index) => Outermost::One(self.resources[index]),
        }
    }
}
