//! What a dynamic reference means where it depends on who refers: the outermost resource on the way there that has the anchor.
//!
//! A grammar has a rule for a schema and not for every way to it. So the ways are followed once for each anchor, as data flow:
//! a schema is reached with no such resource so far, with one, or with several. Where it is one or none, the reference means
//! one schema. What another dynamic reference on the way means is not known meanwhile, so that all schemas that it may mean
//! are reached.
//!
//! Where ways differ the whole document is copied, once for each resource that has the anchor. Who enters such a resource goes on in
//! its copy, and so do all references from there, so that a schema of a copy has one outermost resource ([`Copies`]). One
//! anchor is treated so: with several, copies would multiply, and the other ones are refused where ways to them differ.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::{
    json::{Document, NodeId},
    places,
    schemas::Schemas,
};

/// The outermost resource on the ways to a schema that has the anchor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outermost {
    /// None has it.
    None,
    One(NodeId),
    /// Ways differ.
    Several,
}

/// An anchor that resources share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Anchor {
    /// `$dynamicAnchor`, with `#` in front.
    Dynamic(String),
    /// `$recursiveAnchor`.
    Recursive,
}

/// Copies of the whole document, one for each resource that may be the outermost one with an anchor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// Nodes of the original; those of the copies follow.
    nodes: u32,
    pub(crate) anchor: Option<Anchor>,
    /// In the order of the copies.
    pub(crate) resources: Vec<NodeId>,
    /// The copy of each.
    places: HashMap<NodeId, usize>,
}

impl Copies {
    pub(crate) fn new(nodes: u32, anchor: Anchor, resources: Vec<NodeId>) -> Self {
        let places = resources.iter().copied().zip(1..).collect();
        Self { nodes, anchor: Some(anchor), resources, places }
    }

    /// Where a node stands in the original, and in which copy it is, from one on; zero for the original.
    pub(crate) fn original(&self, node: NodeId) -> (NodeId, usize) {
        let (Some(_), Ok(nodes)) = (&self.anchor, usize::try_from(self.nodes)) else { return (node, 0) };
        let copy = node.index() / nodes;
        let before = u32::try_from(copy).map_or(0, |copy| copy * self.nodes);
        (node.unshifted(before), copy)
    }

    /// The place of a node of the original in a copy.
    pub(crate) fn image(&self, node: NodeId, copy: usize) -> NodeId {
        u32::try_from(copy).map_or(node, |copy| node.shifted(copy * self.nodes))
    }

    /// The copy of whoever is in `copy` and enters `resource`.
    pub(crate) fn entered(&self, copy: usize, resource: NodeId) -> usize {
        if copy == 0 { self.places.get(&resource).copied().unwrap_or(0) } else { copy }
    }
}

/// For each schema that a value may meet, the outermost resource with the anchor; `None` if that takes more than the
/// `steps` that are left.
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

/// What the references of the schema `node` may mean.
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
