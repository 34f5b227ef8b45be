//! A document as schemas: which draft it is written in, and what its references mean.
//!
//! References inside the document are followed: pointers, anchors, and the `$id` of the resource that a schema stands in.
//! Nothing is ever fetched; a reference to anywhere else is an error.

use std::collections::HashMap;

use crate::{
    SchemaError, SchemaLimits,
    json::{Document, NodeId, Value},
};

/// A version of JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Draft {
    fn of(name: &str) -> Option<Self> {
        let name = name.trim_end_matches('#');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        Some(match name {
            "json-schema.org/draft-04/schema" => Self::Draft4,
            "json-schema.org/draft-06/schema" => Self::Draft6,
            "json-schema.org/draft-07/schema" => Self::Draft7,
            "json-schema.org/draft/2019-09/schema" => Self::Draft201909,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft202012,
            _ => return None,
        })
    }
}

/// A schema that a value satisfies, or one that it does not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Literal {
    pub(crate) node: NodeId,
    pub(crate) positive: bool,
    /// Whether the node is no schema and stands for itself: the value equals it.
    pub(crate) constant: bool,
}

impl Literal {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, positive: true, constant: false }
    }

    /// The value equals the one at `node`.
    pub(crate) fn constant(node: NodeId) -> Self {
        Self { node, positive: true, constant: true }
    }

    pub(crate) fn not(self) -> Self {
        Self { positive: !self.positive, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Schemas {
    pub(crate) document: Document,
    pub(crate) draft: Draft,
    /// By node: the outermost value of the resource that it stands in.
    resource: Vec<NodeId>,
    /// By resource and name; also the names of resources inside of others.
    anchors: HashMap<(NodeId, String), NodeId>,
    /// Resource and name of each `$dynamicAnchor`, with the schema.
    dynamic: Vec<(NodeId, String, NodeId)>,
    /// Names that stand for two different schemas.
    ambiguous: Vec<(NodeId, String)>,
}

impl Schemas {
    pub(crate) fn read(text: &str, limits: &SchemaLimits) -> Result<Self, SchemaError> {
        let document = Document::read(text, limits)?;
        let mut draft = Draft::Draft202012;
        if let Some(node) = document.member(Document::ROOT, "$schema") {
            let wrong = |reason: String| SchemaError::Unsupported {
                pointer: "#".to_owned(),
                keyword: "$schema".to_owned(),
                reason,
                way_out: "name draft 4, 6, 7, 2019-09 or 2020-12, or leave it out",
            };
            let name = document.text(node).ok_or_else(|| wrong("it is no text".to_owned()))?;
            draft = Draft::of(name).ok_or_else(|| wrong(format!("{name:?} is not known")))?;
        }
        let mut schemas = Self {
            resource: vec![Document::ROOT; document.nodes().count()],
            document,
            draft,
            anchors: HashMap::new(),
            dynamic: vec![],
            ambiguous: vec![],
        };
        schemas.name();
        Ok(schemas)
    }

    pub(crate) fn pointer(&self, node: NodeId) -> String {
        self.document.pointer(node)
    }

    /// Finds resources and anchors.
    fn name(&mut self) {
        let id_keyword = if self.draft == Draft::Draft4 { "id" } else { "$id" };
        let nodes = self.document.nodes();
        for node in nodes {
            // Parents come before their parts.
            let outer =
                self.document.parent(node).map_or(Document::ROOT, |parent| self.resource[parent.index()]);
            self.resource[node.index()] = outer;
            let text = |keyword| self.document.member(node, keyword).and_then(|id| self.document.text(id));
            let ignored = self.draft <= Draft::Draft7 && text("$ref").is_some();
            if ignored || self.is_data(node) {
                continue;
            }
            let mut names = vec![];
            if let Some(id) = text(id_keyword) {
                match id.strip_prefix('#') {
                    Some(anchor) if self.draft <= Draft::Draft7 => names.push((outer, format!("#{anchor}"))),
                    _ => {
                        self.resource[node.index()] = node;
                        let id = id.trim_end_matches('#').to_owned();
                        names.extend([(outer, id.clone()), (node, id)]);
                    }
                }
            }
            if self.draft >= Draft::Draft201909 {
                for keyword in ["$anchor", "$dynamicAnchor"] {
                    let anchor =
                        text(keyword).map(|anchor| (self.resource[node.index()], format!("#{anchor}")));
                    if keyword == "$dynamicAnchor" {
                        self.dynamic.extend(anchor.clone().map(|(resource, name)| (resource, name, node)));
                    }
                    names.extend(anchor);
                }
            }
            for name in names {
                if self.anchors.insert(name.clone(), node).is_some_and(|before| before != node) {
                    self.ambiguous.push(name);
                }
            }
        }
    }

    /// Whether the value is one of `enum`, `const` or the like and no schema.
    fn is_data(&self, node: NodeId) -> bool {
        let parent = self.document.parent(node);
        let key = |node| self.document.key(node);
        let data =
            |key: Option<&str>| matches!(key, Some("enum" | "const" | "default" | "examples" | "example"));
        // Below `properties` such a name is one of the instance.
        let below =
            |node: NodeId| data(key(node)) && self.document.parent(node).and_then(key) != Some("properties");
        below(node) || parent.is_some_and(below)
    }

    /// What the `$ref` of the schema `node` means.
    pub(crate) fn target(&self, node: NodeId, reference: &str) -> Result<NodeId, SchemaError> {
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
            let name = (resource, base.to_owned());
            if self.ambiguous.contains(&name) {
                return Err(error("two schemas have this name", "give each its own `$id`"));
            }
            let found = self.anchors.get(&name).copied();
            found.ok_or_else(|| {
                error("it leads out of the document", "put the schema under `$defs` and refer to it there")
            })?
        };
        let fragment =
            percent_decoded(fragment).ok_or_else(|| error("its escapes are no text", "correct it"))?;
        let missing = || error("there is nothing", "correct the reference");
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.resolve(root, &fragment).ok_or_else(missing);
        }
        let name = (root, format!("#{fragment}"));
        if self.ambiguous.contains(&name) {
            return Err(error("two schemas have this name", "rename one"));
        }
        self.anchors.get(&name).copied().ok_or_else(missing)
    }

    /// What the `$dynamicRef` of the schema `node` means; `None` if that depends on who refers to the schema.
    ///
    /// It means what a `$ref` would, but for an anchor that other resources have as well: then the outermost of those that
    /// led there decides. Outermost of all is the whole document, so where that has the anchor, nothing else matters.
    pub(crate) fn dynamic_target(
        &self,
        node: NodeId,
        reference: &str,
    ) -> Result<Option<NodeId>, SchemaError> {
        let target = self.target(node, reference)?;
        let name = reference.split_once('#').map_or(String::new(), |(_, name)| format!("#{name}"));
        let mut candidates = self.dynamic.iter().filter(|(_, of, _)| *of == name);
        if !candidates.clone().any(|(.., schema)| *schema == target) {
            return Ok(Some(target));
        }
        let outermost = candidates.clone().find(|(resource, ..)| *resource == Document::ROOT);
        match outermost {
            Some((.., schema)) => Ok(Some(*schema)),
            None => Ok(candidates.all(|(.., schema)| *schema == target).then_some(target)),
        }
    }

    /// What the `$recursiveRef` of the schema `node` means, which is always `#`; `None` if that depends on who refers to it.
    pub(crate) fn recursive_target(&self, node: NodeId) -> Option<NodeId> {
        let marked = |resource: NodeId| {
            let mark = self.document.member(resource, "$recursiveAnchor");
            mark.is_some_and(|mark| matches!(self.document.value(mark), Value::Bool(true)))
        };
        let target = self.resource[node.index()];
        if !marked(target) {
            return Some(target);
        }
        // Where every resource takes part, it is the outermost.
        self.resource.iter().all(|resource| marked(*resource)).then_some(Document::ROOT)
    }

    /// The schema at `node`, or the one that it does nothing but refer to.
    pub(crate) fn literal(&self, mut node: NodeId) -> Result<Literal, SchemaError> {
        // A reference that leads to itself is left to whoever reads it.
        for _ in 0..16 {
            match self.document.members(node) {
                Some([(key, value)]) if &**key == "$ref" => match self.document.text(*value) {
                    Some(reference) => node = self.target(node, reference)?,
                    None => break,
                },
                _ => break,
            }
        }
        Ok(Literal::new(node))
    }

    /// Whether everything satisfies the literal at a glance; whether nothing does.
    pub(crate) fn obvious(&self, literal: Literal) -> Option<bool> {
        let all = if literal.constant { None } else { self.trivial(literal.node) };
        all.map(|all| all == literal.positive)
    }

    /// Whether everything satisfies the schema at a glance; whether nothing does.
    pub(crate) fn trivial(&self, node: NodeId) -> Option<bool> {
        match self.document.value(node) {
            Value::Bool(all) => Some(*all),
            Value::Object(members) if members.is_empty() => Some(true),
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
