//! Objects around a schema: a response format of OpenAI, a tool of OpenAI, Anthropic or MCP.
//!
//! Read as schemas they constrain nothing, since all of their keys are unknown keywords. Where every key is one of such
//! an object, the schema in it is read in its place. Where another key beside them leaves a doubt, that is an error.

use super::{
    dialect::Dialect,
    json::{Document, NodeId},
};
use crate::{SchemaError, draft::Draft};

/// The way to a schema in an object, and the keys that may stand beside it.
struct Form {
    what: &'static str,
    path: [&'static str; 2],
    /// The values of `type` that are those of the object, and no types of JSON Schema.
    types: &'static [&'static str],
    keys: &'static [&'static str],
    way_out: &'static str,
}

const FORMS: [Form; 6] = [
    Form {
        what: "a response format of OpenAI",
        path: ["json_schema", "schema"],
        types: &["json_schema"],
        keys: &["name", "strict", "description"],
        way_out: "give the value at `#/json_schema/schema` as the schema",
    },
    Form {
        what: "a response format of OpenAI",
        path: ["", "schema"],
        types: &["json_schema"],
        keys: &["name", "strict", "description"],
        way_out: "give the value at `#/schema` as the schema",
    },
    Form {
        what: "a tool of OpenAI",
        path: ["function", "parameters"],
        types: &["function"],
        keys: &["name", "strict", "description"],
        way_out: "give the value at `#/function/parameters` as the schema",
    },
    Form {
        what: "a tool of OpenAI",
        path: ["", "parameters"],
        types: &["function"],
        keys: &["name", "strict", "description"],
        way_out: "give the value at `#/parameters` as the schema",
    },
    Form {
        what: "a tool of Anthropic",
        path: ["", "input_schema"],
        types: &["custom"],
        keys: &["name", "strict", "description", "cache_control", "input_examples", "eager_input_streaming"],
        way_out: "give the value at `#/input_schema` as the schema",
    },
    Form {
        what: "a tool of MCP",
        path: ["", "inputSchema"],
        types: &[],
        keys: &["name", "title", "description", "outputSchema", "annotations", "icons", "execution", "_meta"],
        way_out: "give the value at `#/inputSchema` as the schema",
    },
];

/// A schema inside of an object that is no schema.
#[derive(Clone, Debug)]
pub(crate) struct Wrapped {
    pub(crate) schema: NodeId,
    /// The note about it.
    pub(crate) note: String,
}

/// The schema inside of the document, if the document is no schema itself.
///
/// # Errors
///
/// [`SchemaError::Unsupported`] if the document has no keyword that constrains values, and a schema inside, and keys
/// that leave open what it is.
pub(crate) fn wrapped(document: &Document) -> Result<Option<Wrapped>, SchemaError> {
    let root = Document::ROOT;
    let dialect = Dialect::of_draft(Draft::Draft202012);
    let constrains = |node: NodeId, but_for: &[&str]| {
        document.members(node).unwrap_or_default().iter().any(|(key, value)| {
            let is_own = &**key == "type" && document.text(*value).is_some_and(|of| but_for.contains(&of));
            !is_own && (dialect.constrains(key) || &**key == "definitions")
        })
    };
    for Form { what, path: [outer, inner], types, keys, way_out } in FORMS {
        let holder = if outer.is_empty() { Some(root) } else { document.member(root, outer) };
        let Some(holder) = holder else { continue };
        let Some(schema) = document.member(holder, inner) else { continue };
        if document.members(schema).is_none() || constrains(root, types) || constrains(holder, types) {
            continue;
        }
        let is_key = |key: &str| key == inner || key == "type" || keys.contains(&key);
        let of_root = |key: &str| if outer.is_empty() { is_key(key) } else { key == outer || key == "type" };
        let all = |node: NodeId, fits: &dyn Fn(&str) -> bool| {
            document.members(node).unwrap_or_default().iter().all(|(key, _)| fits(key))
        };
        let is_named = document.member(holder, "name").is_some_and(|name| document.text(name).is_some());
        let says_type = document.member(root, "type").is_some();
        if (is_named || says_type) && all(root, &of_root) && all(holder, &is_key) {
            let pointer = document.pointer(schema);
            let note =
                format!("the text is {what}: its schema at {pointer} is read, and pointers begin there");
            return Ok(Some(Wrapped { schema, note }));
        }
        if constrains(schema, &[]) {
            return Err(SchemaError::Unsupported {
                pointer: document.pointer(holder),
                keyword: inner.to_owned(),
                reason: "no keyword around it constrains values, and it is a schema itself".to_owned(),
                way_out,
            });
        }
    }
    Ok(None)
}
