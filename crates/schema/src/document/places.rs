//! The positions of a text at which schemas are, found by following the keywords of its draft from the outermost
//! schema.
//!
//! A value at any other position is data (of `enum`, say) or belongs to an unknown keyword. An `$id` or `$anchor`
//! in such a value names nothing if a schema has the same name.

use super::{
    json::{Document, NodeId},
    metaschema::{self, Kind},
};
use crate::draft::Draft;

/// The role of a value in a schema document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Schema,
    /// A list or a map of schemas.
    Schemas,
    Other,
}

/// The role of `node`, given the roles of all nodes before it. The outermost value of a text is a schema.
pub(crate) fn place(document: &Document, places: &[Place], node: NodeId, draft: Draft) -> Place {
    let Some(parent) = document.parent(node) else { return Place::Schema };
    let is_list = document.items(node).is_some();
    match (places[parent.index()], document.key(node)) {
        // An entry of `dependencies` may be a list of names.
        (Place::Schemas, Some(_)) if is_list && document.key(parent) == Some("dependencies") => Place::Other,
        (Place::Schemas, _) => Place::Schema,
        (Place::Schema, Some(key)) => match metaschema::kind(key, draft) {
            Some(Kind::SchemaOrSchemas) if is_list => Place::Schemas,
            Some(Kind::Schema | Kind::SchemaOrSchemas) => Place::Schema,
            Some(Kind::Schemas | Kind::Map | Kind::Kept | Kind::Dependencies) => Place::Schemas,
            _ => Place::Other,
        },
        _ => Place::Other,
    }
}

/// The subschemas of `node` that apply to the same value or to a part of it, without references.
pub(crate) fn parts(document: &Document, node: NodeId, draft: Draft) -> Vec<NodeId> {
    let mut parts = vec![];
    for (key, value) in document.members(node).unwrap_or_default() {
        match metaschema::kind(key, draft) {
            Some(Kind::SchemaOrSchemas) if document.items(*value).is_none() => parts.push(*value),
            Some(Kind::Schema) => parts.push(*value),
            Some(Kind::Schemas | Kind::SchemaOrSchemas | Kind::Map | Kind::Dependencies) => {
                parts.extend(document.items(*value).unwrap_or_default());
                parts.extend(document.members(*value).unwrap_or_default().iter().map(|(_, part)| *part));
            }
            _ => {}
        }
    }
    parts
}
