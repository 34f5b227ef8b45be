//! What a dynamic reference means where it depends on who refers: the outermost resource on the way there that has the anchor.
//!
//! A grammar has a rule for a schema and not for every way to it. So the ways are followed once for each anchor, as data flow:
//! a schema is reached with no such resource so far, with one, or with several. Where it is one or none, the reference means
//! one schema; where ways differ, it is refused. What another dynamic reference on the way means is not known meanwhile,
//! so that all schemas that it may mean are reached.

use std::collections::{BTreeSet, HashMap};

use crate::{
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
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Anchor {
    /// `$dynamicAnchor`, with `#` in front.
    Dynamic(String),
    /// `$recursiveAnchor`.
    Recursive,
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
        let parts = places::parts(&schemas.document, node);
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
    targets.extend(text("$ref").and_then(|text| schemas.target(node, text).ok()));
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
