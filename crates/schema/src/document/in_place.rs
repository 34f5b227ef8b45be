//! References in a circle for the same value: `{"oneOf": [{"type": "null"}, {"$ref": "#"}]}`.
//!
//! To know whether a value satisfies such a schema, one must know it already. The specification leaves the meaning
//! open (2020-12, core, section 9.4.1), and validators do not end. So it is an error. A circle through a member or an
//! item is none: the value there is smaller. An alternative of `anyOf` that is the schema itself adds nothing, and is
//! left out.
//!
//! Dynamic references are not followed.
//!
//! Tried instead: each value satisfies a reference that is met again, which is the greatest of the possible meanings.
//! Then any text
//! satisfied the schema above.

use super::{json::NodeId, metaschema, schemas::Schemas};
use crate::{SchemaError, draft::Draft};

/// The state of a schema in the search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// The search is below it.
    Open,
    Done,
}

impl Schemas {
    /// Checks that no schema refers to itself for the same value.
    ///
    /// Cost: O(n) for n values of the document, if it has references.
    ///
    /// # Errors
    ///
    /// [`SchemaError::Unsupported`] at a reference of the circle.
    pub(super) fn check_in_place(&self) -> Result<(), SchemaError> {
        let refers = |node: &NodeId| self.is_schema(*node) && self.reference(*node).is_some();
        let mut marks = Vec::new();
        for start in self.document.nodes().filter(refers) {
            if marks.is_empty() {
                marks = vec![Mark::New; self.document.nodes().count()];
            }
            if marks[start.index()] != Mark::New {
                continue;
            }
            marks[start.index()] = Mark::Open;
            let mut open = vec![(start, self.in_place(start))];
            while let Some((node, left)) = open.last_mut() {
                let Some(next) = left.pop() else {
                    marks[node.index()] = Mark::Done;
                    open.pop();
                    continue;
                };
                match marks[next.index()] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[next.index()] = Mark::Open;
                        open.push((next, self.in_place(next)));
                    }
                    Mark::Open => {
                        let circle = open.iter().rev().map(|(node, _)| *node);
                        let reference = circle.clone().find(refers).unwrap_or(next);
                        return Err(SchemaError::Unsupported {
                            pointer: self.pointer(reference),
                            keyword: "$ref".to_owned(),
                            reason: "it leads back to itself without a member or an item between".to_owned(),
                            way_out: "write what it means in its place",
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// The text of the `$ref` of a schema.
    fn reference(&self, node: NodeId) -> Option<&str> {
        self.document.text(self.document.member(node, "$ref")?)
    }

    /// The schemas that apply to the same value as `node`. A reference without a target has its error elsewhere.
    fn in_place(&self, node: NodeId) -> Vec<NodeId> {
        let Self { document, .. } = self;
        let draft = self.draft_of(node);
        let target = self.reference(node).and_then(|reference| self.original_target(node, reference).ok());
        let mut found: Vec<NodeId> = target.into_iter().collect();
        // In these drafts, nothing applies beside a reference.
        if draft <= Draft::Draft7 && !found.is_empty() {
            return found;
        }
        for (key, value) in document.members(node).unwrap_or_default() {
            if metaschema::kind(key, draft).is_none() || !self.dialect_of(node).has(key) {
                continue;
            }
            match &**key {
                "allOf" | "oneOf" => found.extend(document.items(*value).unwrap_or_default()),
                "anyOf" => {
                    let is_own = |part: &NodeId| self.literal(*part).is_ok_and(|part| part.node == node);
                    let parts = document.items(*value).unwrap_or_default().iter().copied();
                    found.extend(parts.filter(|part| !is_own(part)));
                }
                "not" | "if" | "then" | "else" => found.push(*value),
                "dependentSchemas" | "dependencies" => {
                    found.extend(document.members(*value).unwrap_or_default().iter().map(|(_, part)| *part));
                }
                _ => {}
            }
        }
        found.retain(|part| self.is_schema(*part) && document.members(*part).is_some());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SchemaLimits, SchemaOptions};

    fn is_circle(schema: &str) -> bool {
        match Schemas::read(schema, &SchemaOptions::default(), &SchemaLimits::default()) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.keyword(), Some("$ref"), "{error}");
                true
            }
        }
    }

    #[test]
    fn circles_for_one_value_are_found() {
        for schema in [
            r##"{"$ref": "#"}"##,
            r##"{"not": {"$ref": "#"}}"##,
            r##"{"oneOf": [{"const": 1}, {"$ref": "#"}]}"##,
            r##"{"anyOf": [{"const": 1}, {"allOf": [{"$ref": "#"}]}]}"##,
            r##"{"$defs": {"a": {"oneOf": [{"$ref": "#/$defs/b"}]}, "b": {"if": {"$ref": "#/$defs/a"}}}}"##,
            r##"{"dependentSchemas": {"x": {"$ref": "#"}}}"##,
            r##"{"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"x": {"$ref": "#"}}}"##,
        ] {
            assert!(is_circle(schema), "{schema}");
        }
    }

    #[test]
    fn other_references_are_no_circles() {
        for schema in [
            r##"{"properties": {"next": {"$ref": "#"}}}"##,
            r##"{"anyOf": [{"const": 1}, {"$ref": "#"}]}"##,
            r##"{"anyOf": [{"const": 1}, {"items": {"$ref": "#"}}]}"##,
            r##"{"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}}"##,
            r##"{"const": {"$ref": "#"}, "enum": [{"$ref": "#"}]}"##,
            r##"{"properties": {"$ref": {"type": "string"}}}"##,
            // Beside a reference nothing counts there.
            r##"{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "allOf": [{"$ref": "#"}],
                "definitions": {"a": {"type": "null"}}}"##,
        ] {
            assert!(!is_circle(schema), "{schema}");
        }
    }
}
