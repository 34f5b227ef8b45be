//! A document as schemas: its drafts, and the targets of its references.
//!
//! References are resolved by RFC 3986 against the `$id` of the resource that contains the schema. Pointers,
//! anchors and names are followed inside the document; other names are looked up in a [`Registry`], and their
//! documents are appended to the first at the first reference. Nothing is ever fetched; a reference to any other
//! document is an error.

use std::cell::RefCell;

use hashbrown::{HashMap, HashSet};

use super::{
    copies::{Anchor, Copies, Outermost},
    dialect::Dialect,
    json::{Document, NodeId, Value},
    literal::Literal,
    roles::Role,
};
use crate::{Registry, SchemaError, draft::Draft};

/// A text of the document.
#[derive(Clone, Debug)]
pub(super) struct SourceText {
    /// The outermost value.
    pub(super) root: NodeId,
    pub(super) dialect: Dialect,
    /// The URI under which the text was found.
    pub(super) uri: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Schemas {
    pub(crate) document: Document,
    pub(super) texts: Vec<SourceText>,
    /// Indexed by node.
    pub(super) roles: Vec<Role>,
    /// Indexed by node: the outermost value of the resource that contains it.
    pub(super) resource: Vec<NodeId>,
    /// The URI of each resource that has its own.
    pub(super) uris: HashMap<NodeId, String>,
    /// The outermost value of each resource, by URI.
    pub(super) resources: HashMap<String, NodeId>,
    /// The schema of each anchor, by resource and name.
    pub(super) anchors: HashMap<(NodeId, String), NodeId>,
    /// The schema of each `$dynamicAnchor`, by resource and name.
    pub(super) dynamic: HashMap<(NodeId, String), NodeId>,
    /// All schemas with a dynamic anchor, by anchor.
    pub(super) anchored: HashMap<Anchor, Vec<NodeId>>,
    /// The result of [`dynamic::outermost`](super::dynamic::outermost) for each anchor of a dynamic reference.
    pub(super) outermost: HashMap<Anchor, HashMap<NodeId, Outermost>>,
    pub(super) copies: Copies,
    /// Names of two different schemas, by resource; URIs of two different schemas have the resource
    /// [`Document::ROOT`].
    pub(super) ambiguous: Vec<(NodeId, String)>,
    /// What a user should know of the reading, one sentence each.
    pub(crate) notes: Vec<String>,
    /// Schemas with nothing but a `$ref`, in whose place the target was read.
    pub(super) followed: RefCell<HashSet<NodeId>>,
    /// Indexed by node, unless it is empty: the schema that stands for it.
    pub(crate) equal: Vec<NodeId>,
}

impl Schemas {
    /// The index of the text that contains a value.
    pub(super) fn text_of(&self, node: NodeId) -> usize {
        let node = self.original(node);
        // The first text begins at the first node, so the partition point is at least one.
        self.texts.partition_point(|text| text.root <= node) - 1
    }

    pub(crate) fn draft_of(&self, node: NodeId) -> Draft {
        self.dialect_of(node).draft
    }

    pub(crate) fn dialect_of(&self, node: NodeId) -> Dialect {
        self.texts[self.text_of(node)].dialect
    }

    /// The value of a keyword of the schema `node`, if its dialect has the keyword.
    pub(crate) fn keyword(&self, node: NodeId, keyword: &str) -> Option<NodeId> {
        self.document.member(node, keyword).filter(|_| self.dialect_of(node).has(keyword))
    }

    /// Whether the keywords that lead to `node` make it a schema.
    pub(crate) fn is_schema(&self, node: NodeId) -> bool {
        self.roles[node.index()] == Role::Schema
    }

    /// Whether `node` is in a copy and not in the texts themselves.
    pub(crate) fn is_copy(&self, node: NodeId) -> bool {
        self.original(node) != node
    }

    /// The JSON pointer of `node`, after the URI of its text if the text is not the first.
    pub(crate) fn pointer(&self, node: NodeId) -> String {
        let pointer = self.document.pointer(node);
        match self.text_of(node) {
            0 => pointer,
            text => self.texts[text].uri.clone() + &pointer,
        }
    }

    /// The URI of `reference`, which has no fragment, in a resource.
    pub(super) fn uri(&self, resource: NodeId, reference: &str) -> String {
        let base = self.uris.get(&resource).map_or(Registry::BASE, String::as_str);
        Registry::resolve(base, reference)
    }

    /// Whether the value is data of `enum`, `const` or a similar keyword, and no schema.
    pub(super) fn is_data(&self, node: NodeId) -> bool {
        if self.is_schema(node) {
            return false;
        }
        let data = |node: NodeId| {
            matches!(self.document.key(node), Some("enum" | "const" | "default" | "examples" | "example"))
        };
        data(node) || self.document.parent(node).is_some_and(data)
    }

    /// The target of the `$ref` of the schema `node`.
    pub(crate) fn target(&self, node: NodeId, reference: &str) -> Result<NodeId, SchemaError> {
        Ok(self.in_copy_of(node, self.original_target(node, reference)?))
    }

    /// The node to follow from the schema `node`, which may be in a copy, to `target`, a schema of the original.
    pub(super) fn in_copy_of(&self, node: NodeId, target: NodeId) -> NodeId {
        let (_, copy) = self.copies.original(self.entered(node));
        self.copies.image(target, self.copies.entered(copy, self.resource[target.index()]))
    }

    /// The target of a reference, as a schema of the original.
    pub(crate) fn original_target(&self, node: NodeId, reference: &str) -> Result<NodeId, SchemaError> {
        let error = |reason: &str, way_out| SchemaError::Unsupported {
            pointer: self.pointer(node),
            keyword: "$ref".to_owned(),
            reason: format!("{reason} ({reference:?})"),
            way_out,
        };
        let resource = self.resource[node.index()];
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root = if base.is_empty() {
            resource
        } else {
            let uri = self.uri(resource, base);
            let found = self.resources.get(&uri).copied();
            if self.ambiguous.contains(&(Document::ROOT, uri.clone())) {
                return Err(error("two schemas have this name", "give each its own `$id`"));
            }
            found.ok_or_else(|| {
                let inside = format!("/{}", base.trim_start_matches('/'));
                if fragment.is_empty() && self.document.resolve(resource, &inside).is_some() {
                    let meant = format!("it names another document, and \"#{inside}\" is in this one");
                    return error(&meant, "write the `#`");
                }
                let what = if uri == base { String::new() } else { format!(", which is {uri:?}") };
                error(
                    &format!("it leads out of the document and is not supplied{what}"),
                    "put the schema under `$defs` and refer to it there, or supply it in a registry",
                )
            })?
        };
        let fragment =
            percent_decoded(fragment).ok_or_else(|| error("its escapes are not UTF-8", "correct it"))?;
        let missing = || error("the target does not exist", "correct the reference");
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.resolve(root, &fragment).ok_or_else(missing);
        }
        let name = (root, format!("#{fragment}"));
        if self.ambiguous.contains(&name) {
            return Err(error("two schemas have this name", "rename one"));
        }
        self.anchors.get(&name).copied().ok_or_else(|| {
            match self.document.resolve(root, &format!("/{fragment}")) {
                Some(_) => error(
                    "it names an anchor, and there is a schema at this path",
                    "write `#/` in place of `#`",
                ),
                None => missing(),
            }
        })
    }

    /// The schema of the original that `node` is a copy of, or `node` itself.
    pub(crate) fn original(&self, node: NodeId) -> NodeId {
        self.copies.original(node).0
    }

    /// The same schema in the copy that applies to it: a schema of a resource with a copy of its own is read in
    /// that copy.
    pub(super) fn entered(&self, node: NodeId) -> NodeId {
        let (original, copy) = self.copies.original(node);
        self.copies.image(original, self.copies.entered(copy, self.resource[node.index()]))
    }

    pub(crate) fn resource_of(&self, node: NodeId) -> NodeId {
        self.resource[node.index()]
    }

    /// The schema of the resource that has the anchor.
    pub(crate) fn anchored(&self, resource: NodeId, anchor: &Anchor) -> Option<NodeId> {
        match anchor {
            Anchor::Dynamic(name) => self.dynamic.get(&(resource, name.clone())).copied(),
            Anchor::Recursive => {
                let mark = self.document.member(resource, "$recursiveAnchor")?;
                matches!(self.document.value(mark), Value::Bool(true)).then_some(resource)
            }
        }
    }

    /// The schemas of all resources that have the anchor.
    pub(crate) fn all_anchored(&self, anchor: &Anchor) -> &[NodeId] {
        self.anchored.get(anchor).map_or(&[], |schemas| schemas)
    }

    /// The literal of `node`. A schema with nothing but a `$ref` is replaced by its target.
    pub(crate) fn literal(&self, node: NodeId) -> Result<Literal, SchemaError> {
        let mut node = self.entered(node);
        // A reference to itself is kept; the expander reports it.
        for _ in 0..16 {
            match self.document.members(node) {
                Some([(key, value)]) if &**key == "$ref" => match self.document.text(*value) {
                    Some(reference) => {
                        let target = self.target(node, reference)?;
                        self.followed.borrow_mut().insert(self.original(node));
                        node = target;
                    }
                    None => break,
                },
                _ => break,
            }
        }
        Ok(Literal::new(self.equal.get(node.index()).copied().unwrap_or(node)))
    }

    /// The largest `minLength` or `maxLength`.
    pub(crate) fn longest_string(&self) -> u64 {
        let of = |keyword| {
            let lengths = self.document.nodes().filter_map(move |node| self.document.member(node, keyword));
            lengths.filter_map(|length| match self.document.value(length) {
                Value::Number(length) => length.count(),
                _ => None,
            })
        };
        of("maxLength").chain(of("minLength")).max().unwrap_or(0)
    }

    /// Whether a value came to the schema, which has nothing but a `$ref`.
    pub(crate) fn is_followed(&self, node: NodeId) -> bool {
        self.followed.borrow().contains(&node)
    }

    /// Whether every value satisfies the literal, or no value does, if that is obvious.
    pub(crate) fn obvious(&self, literal: Literal) -> Option<bool> {
        let all = if literal.constant { None } else { self.trivial(literal.node) };
        all.map(|all| all == literal.positive)
    }

    /// Whether every value satisfies the schema, or no value does, if that is obvious.
    pub(crate) fn trivial(&self, node: NodeId) -> Option<bool> {
        match self.document.value(node) {
            Value::Bool(all) => Some(*all),
            // A keyword that constrains nothing must not change how the others are written.
            Value::Object(members) => {
                let dialect = self.dialect_of(node);
                (!members.iter().any(|(name, _)| dialect.constrains(name))).then_some(true)
            }
            _ => None,
        }
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(rest.next()?)? << 4 | digit(rest.next()?)?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}
