//! Where in a text schemas stand, by the keywords that lead there from the outermost one.
//!
//! What stands elsewhere is a value (of `enum`, say) or belongs to a keyword that nobody knows; what looks like a name
//! there names nothing that has this name elsewhere.

use crate::json::{Document, NodeId, Value};

/// What the value of a keyword is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Schema,
    /// A list or a map of schemas.
    Several,
    /// As before, of such as a value meets only where something refers to them.
    Kept,
}

fn kind(document: &Document, keyword: &str, value: NodeId) -> Option<Kind> {
    let list = matches!(document.value(value), Value::Array(_));
    Some(match keyword {
        "items" if list => Kind::Several,
        "items"
        | "not"
        | "if"
        | "then"
        | "else"
        | "additionalProperties"
        | "propertyNames"
        | "additionalItems"
        | "contains"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Kind::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" if list => Kind::Several,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" if !list => Kind::Several,
        "$defs" | "definitions" if !list => Kind::Kept,
        _ => return None,
    })
}

/// What stands in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Schema,
    /// A list or a map of schemas.
    Schemas,
    Other,
}

/// The place of `node`, if those of what stands before it are known; the outermost of a text is a schema.
pub(crate) fn place(document: &Document, places: &[Place], node: NodeId) -> Place {
    let Some(parent) = document.parent(node) else { return Place::Schema };
    match (places[parent.index()], document.key(node)) {
        (Place::Schemas, _) => Place::Schema,
        (Place::Schema, Some(key)) => match kind(document, key, node) {
            Some(Kind::Schema) => Place::Schema,
            Some(_) => Place::Schemas,
            None => Place::Other,
        },
        _ => Place::Other,
    }
}

/// The schemas that a value, or a part of it, meets from the schema `node` on, without references.
pub(crate) fn parts(document: &Document, node: NodeId) -> Vec<NodeId> {
    let mut parts = vec![];
    for (key, value) in document.members(node).unwrap_or_default() {
        match kind(document, key, *value) {
            Some(Kind::Schema) => parts.push(*value),
            Some(Kind::Several) => {
                parts.extend(document.items(*value).unwrap_or_default());
                parts.extend(document.members(*value).unwrap_or_default().iter().map(|(_, part)| *part));
            }
            Some(Kind::Kept) | None => {}
        }
    }
    parts
}
