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

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::{
    copies::{Anchor, Copies, Outermost},
    json::{Document, NodeId},
    roles,
    schemas::Schemas,
};
use crate::{SchemaError, SchemaLimits};

impl Schemas {
    /// The first target of a dynamic reference of the schema `node`, which is the target of a `$ref` with the same
    /// text, and the anchor that other resources may have too, if the reference leads to one.
    pub(crate) fn dynamic_start(
        &self,
        node: NodeId,
        keyword: &str,
        reference: &str,
    ) -> Result<(NodeId, Option<Anchor>), SchemaError> {
        if keyword == "$recursiveRef" {
            let target = self.resource[node.index()];
            let anchor = self.anchored(target, &Anchor::Recursive).map(|_| Anchor::Recursive);
            return Ok((target, anchor));
        }
        let target = self.original_target(node, reference)?;
        let name = reference.split_once('#').map_or(String::new(), |(_, name)| format!("#{name}"));
        let resource = self.resource[target.index()];
        let is_dynamic = self.dynamic.get(&(resource, name.clone())) == Some(&target);
        Ok((target, is_dynamic.then_some(Anchor::Dynamic(name))))
    }

    /// The target of a `$dynamicRef` or `$recursiveRef` of the schema `node`; `None` if it depends on the path to
    /// the schema.
    ///
    /// The target is the target of a `$ref` with the same text, unless it is an anchor that other resources may
    /// have too. Then the outermost resource with the anchor on the path decides. The whole document is the
    /// outermost resource of all, so if it has the anchor, no other resource matters.
    pub(crate) fn dynamic_target(
        &self,
        node: NodeId,
        keyword: &str,
        reference: &str,
    ) -> Result<Option<NodeId>, SchemaError> {
        let (first, anchor) = self.dynamic_start(node, keyword, reference)?;
        let Some(anchor) = anchor else { return Ok(Some(self.in_copy_of(node, first))) };
        if let Some(whole) = self.anchored(Document::ROOT, &anchor) {
            return Ok(Some(self.in_copy_of(node, whole)));
        }
        let found = self.outermost.get(&anchor).and_then(|found| found.get(&self.original(node)));
        let (_, copy) = self.copies.original(self.entered(node));
        let outermost = match self.copies.anchor() == Some(&anchor) {
            true => self.copies.outermost(copy),
            false => found.copied().unwrap_or(Outermost::Several),
        };
        let target = match outermost {
            Outermost::None => Some(first),
            Outermost::One(resource) => self.anchored(resource, &anchor),
            Outermost::Several => None,
        };
        Ok(target.map(|target| self.in_copy_of(node, target)))
    }

    /// Follows the paths to all dynamic references that depend on them, within the limit on steps.
    pub(super) fn follow_dynamic(&mut self, limits: &SchemaLimits) -> Result<(), SchemaError> {
        let limit = limits.carried;
        let mut steps = limit;
        let mut asked: BTreeMap<Anchor, Vec<NodeId>> = BTreeMap::new();
        for node in self.document.nodes() {
            for keyword in ["$dynamicRef", "$recursiveRef"] {
                let text = self.document.member(node, keyword).and_then(|text| self.document.text(text));
                let start = text.and_then(|text| self.dynamic_start(node, keyword, text).ok());
                let anchor = start.and_then(|(_, anchor)| anchor);
                if let Some(anchor) = anchor.filter(|of| self.anchored(Document::ROOT, of).is_none()) {
                    asked.entry(anchor).or_default().push(node);
                }
            }
        }
        for (anchor, nodes) in asked {
            let found = outermost(self, &anchor, &mut steps);
            let found = found
                .ok_or_else(|| SchemaError::limit("", "the ways to dynamic references", limit, "carried"))?;
            let differ = nodes.iter().any(|node| found.get(node) == Some(&Outermost::Several));
            if differ && self.copies.anchor().is_none() {
                self.copy(&anchor, limits);
            }
            self.outermost.insert(anchor, found);
        }
        Ok(())
    }

    /// Copies the document for each resource that has the anchor, if the limits allow it.
    fn copy(&mut self, anchor: &Anchor, limits: &SchemaLimits) {
        let schemas = self.all_anchored(anchor);
        let resources: Vec<NodeId> = schemas.iter().map(|schema| self.resource[schema.index()]).collect();
        if let Some(nodes) = self.document.copy(resources.len(), limits) {
            // In a copy, these entries are nodes of the original.
            self.resource = self.resource.repeat(resources.len() + 1);
            self.roles = self.roles.repeat(resources.len() + 1);
            self.copies = Copies::new(nodes, anchor.clone(), resources);
        }
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
        let parts = roles::subschemas(&schemas.document, node, schemas.draft_of(node));
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
