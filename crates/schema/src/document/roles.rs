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
pub(crate) enum Role {
    Schema,
    /// A list or a map of schemas.
    Schemas,
    Other,
}

/// The role of `node`, given the roles of all nodes before it. The outermost value of a text is a schema.
pub(crate) fn role(document: &Document, roles: &[Role], node: NodeId, draft: Draft) -> Role {
    let Some(parent) = document.parent(node) else { return Role::Schema };
    let is_list = document.items(node).is_some();
    match (roles[parent.index()], document.key(node)) {
        // An entry of `dependencies` may be a list of names.
        (Role::Schemas, Some(_)) if is_list && document.key(parent) == Some("dependencies") => Role::Other,
        (Role::Schemas, _) => Role::Schema,
        (Role::Schema, Some(key)) => match metaschema::kind(key, draft) {
            Some(Kind::SchemaOrSchemas) if is_list => Role::Schemas,
            Some(Kind::Schema | Kind::SchemaOrSchemas) => Role::Schema,
            Some(Kind::Schemas | Kind::Map | Kind::Definitions | Kind::Dependencies) => Role::Schemas,
            _ => Role::Other,
        },
        _ => Role::Other,
    }
}

/// The subschemas of `node` that apply to the same value or to a part of it, without references.
pub(crate) fn subschemas(document: &Document, node: NodeId, draft: Draft) -> Vec<NodeId> {
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
