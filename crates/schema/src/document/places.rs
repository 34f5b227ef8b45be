//! Where in a text schemas stand, by the keywords of its draft that lead there from the outermost one.
//!
//! What stands elsewhere is a value (of `enum`, say) or belongs to a keyword that nobody knows; what looks like a name
//! there names nothing that has this name elsewhere.

use super::{
    json::{Document, NodeId},
    metaschema::{self, Kind},
};
use crate::draft::Draft;

/// What stands in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Schema,
    /// A list or a map of schemas.
    Schemas,
    Other,
}

/// The place of `node`, if those of what stands before it are known; the outermost of a text is a schema.
pub(crate) fn place(document: &Document, places: &[Place], node: NodeId, draft: Draft) -> Place {
    let Some(parent) = document.parent(node) else { return Place::Schema };
    let is_list = document.items(node).is_some();
    match (places[parent.index()], document.key(node)) {
        // A list of names, of `dependencies`.
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

/// The schemas that a value, or a part of it, meets from the schema `node` on, without references.
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
