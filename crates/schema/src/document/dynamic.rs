//! The targets of dynamic references. A dynamic reference leads to the outermost resource with the anchor on the
//! path of references to it.
//!
//! A grammar has one rule for a schema, and not one for each path to it. So the paths are followed once for each
//! anchor, as data flow: each schema is reached with no resource that has the anchor, with exactly one, or with
//! several. With none or one, the reference has a single target. Dynamic references to other anchors on the paths
//! are not resolved during this search; all their possible targets are reached.
//!
//! If the paths to a reference differ, the whole document is copied, once for each resource that has the anchor. A
//! path that enters such a resource continues in the copy of the resource, and so do all references from there. So
//! every schema of a copy has one outermost resource ([`Copies`]). Only one anchor is resolved by copies, because
//! the copies of several anchors would multiply; references to other anchors with differing paths are refused.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::{
    json::{Document, NodeId},
    places,
    schemas::Schemas,
};

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
    pub(crate) anchor: Option<Anchor>,
    /// The resource of each copy.
    pub(crate) resources: Vec<NodeId>,
    /// The number of the copy of each resource, from 1 on.
    places: HashMap<NodeId, usize>,
}

impl Copies {
    pub(crate) fn new(nodes: u32, anchor: Anchor, resources: Vec<NodeId>) -> Self {
        let places = resources.iter().copied().zip(1..).collect();
        Self { nodes, anchor: Some(anchor), resources, places }
    }

    /// The node of the original, and the number of the copy that contains `node`: 0 for the original itself.
    pub(crate) fn original(&self, node: NodeId) -> (NodeId, usize) {
        let (Some(_), Ok(nodes)) = (&self.anchor, usize::try_from(self.nodes)) else { return (node, 0) };
        let copy = node.index() / nodes;
        let before = u32::try_from(copy).map_or(0, |copy| copy * self.nodes);
        (node.unshifted(before), copy)
    }

    /// The node of a copy that corresponds to a node of the original.
    pub(crate) fn image(&self, node: NodeId, copy: usize) -> NodeId {
        u32::try_from(copy).map_or(node, |copy| node.shifted(copy * self.nodes))
    }

    /// The copy after a path in `copy` enters `resource`.
    pub(crate) fn entered(&self, copy: usize, resource: NodeId) -> usize {
        if copy == 0 { self.places.get(&resource).copied().unwrap_or(0) } else { copy }
    }
}

/// The outermost resource with the anchor for each schema that a value may reach; `None` if the search takes more
/// than the remaining `steps`.
pub(crate) fn outermost(
    schemas: &Schemas,
    anchor: &Anchor,
    steps: &mut usize,
) -> Option<HashMap<NodeId, Outermost>> {
    let mut found: HashMap<NodeId, Outermost> = HashMap::new();
    let mut todo = vec![(Document::ROOT, Outermost::None)];
    while let Some((node, before)) = todo.pop() {
        *steps = steps.checked_sub(1)?;
        let resource = schemas.resource_of(node);
        let here = match before {
            Outermost::None if schemas.anchored(resource, anchor).is_some() => Outermost::One(resource),
            before => before,
        };
        let known = found.get(&node).copied();
        let merged = match known {
            Some(known) if known == here || known == Outermost::Several => continue,
            Some(_) => Outermost::Several,
            None => here,
        };
        found.insert(node, merged);
        let parts = places::parts(&schemas.document, node, schemas.draft_of(node));
        let targets = targets(schemas, node, anchor, merged);
        *steps = steps.checked_sub(parts.len() + targets.len())?;
        todo.extend(parts.into_iter().chain(targets).map(|part| (part, merged)));
    }
    Some(found)
}

/// The possible targets of the references of the schema `node`.
fn targets(schemas: &Schemas, node: NodeId, anchor: &Anchor, outermost: Outermost) -> BTreeSet<NodeId> {
    let mut targets = BTreeSet::new();
    let text = |keyword| schemas.document.member(node, keyword).and_then(|text| schemas.document.text(text));
    targets.extend(text("$ref").and_then(|text| schemas.original_target(node, text).ok()));
    for (keyword, text) in ["$dynamicRef", "$recursiveRef"].map(|keyword| (keyword, text(keyword))) {
        let Some(text) = text else { continue };
        let Ok((first, of)) = schemas.dynamic_start(node, keyword, text) else { continue };
        match (of, outermost) {
            (Some(of), Outermost::One(resource)) if of == *anchor => {
                targets.extend(schemas.anchored(resource, anchor));
            }
            (Some(of), Outermost::None) if of == *anchor => {
                targets.insert(first);
            }
            (None, _) => {
                targets.insert(first);
            }
            (Some(of), _) => {
                targets.insert(first);
                targets.extend(schemas.all_anchored(&of).iter().copied());
            }
        }
    }
    targets
}
