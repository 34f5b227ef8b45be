//! A document as schemas: which draft it is written in, and what its references mean.
//!
//! References are resolved as RFC 3986 says, against the `$id` of the resource that a schema stands in. Inside the document
//! pointers, anchors and names are followed, and outside of it names of the documents of a [`Registry`], which are read behind
//! the first one once something refers to them. Nothing is ever fetched; a reference to anywhere else is an error.

use std::collections::HashMap;

use crate::{
    Registry, SchemaError, SchemaLimits,
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
    /// The outermost value of each text, with its draft and the URI that it was found by.
    texts: Vec<(NodeId, Draft, String)>,
    /// By node: the outermost value of the resource that it stands in.
    resource: Vec<NodeId>,
    /// The URI of each resource that has one of its own.
    uris: HashMap<NodeId, String>,
    /// By URI.
    resources: HashMap<String, NodeId>,
    /// By resource and name.
    anchors: HashMap<(NodeId, String), NodeId>,
    /// Resource and name of each `$dynamicAnchor`, with the schema.
    dynamic: Vec<(NodeId, String, NodeId)>,
    /// Names that stand for two different schemas, and URIs that do, with the outermost value.
    ambiguous: Vec<(NodeId, String)>,
}

impl Schemas {
    pub(crate) fn read(text: &str, registry: &Registry, limits: &SchemaLimits) -> Result<Self, SchemaError> {
        let document = Document::read(text, limits)?;
        let mut schemas = Self {
            resource: vec![],
            document,
            texts: vec![],
            uris: HashMap::new(),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: vec![],
            ambiguous: vec![],
        };
        schemas.add(Document::ROOT, Draft::Draft202012, Registry::BASE.to_owned())?;
        // By where their text lies, because one may have several names.
        let mut added: HashMap<*const u8, NodeId> = HashMap::new();
        let mut scanned = 0;
        loop {
            let nodes: Vec<NodeId> = schemas.document.nodes().skip(scanned).collect();
            if nodes.is_empty() {
                return Ok(schemas);
            }
            scanned += nodes.len();
            for node in nodes {
                let Some(uri) = schemas.leads_to(node).filter(|uri| !schemas.resources.contains_key(uri))
                else {
                    continue;
                };
                let Some(text) = registry.get(&uri) else { continue };
                if let Some(root) = added.get(&text.as_ptr()) {
                    schemas.resources.insert(uri, *root);
                    continue;
                }
                let draft = schemas.draft_of(node);
                let root = schemas.document.append(text, limits)?;
                added.insert(text.as_ptr(), root);
                schemas.add(root, draft, uri)?;
            }
        }
    }

    /// The URI of the resource that the schema `node` refers to, if it refers to another one.
    fn leads_to(&self, node: NodeId) -> Option<String> {
        let reference =
            ["$ref", "$dynamicRef"].into_iter().find_map(|key| self.document.member(node, key))?;
        let (base, _) =
            self.document.text(reference).map(|text| text.split_once('#').unwrap_or((text, "")))?;
        if base.is_empty() || self.is_data(node) {
            return None;
        }
        Some(self.uri(self.resource[node.index()], base))
    }

    /// Adds the last text of the document. If it does not name its draft, that is `draft`.
    fn add(&mut self, root: NodeId, mut draft: Draft, uri: String) -> Result<(), SchemaError> {
        if let Some(node) = self.document.member(root, "$schema") {
            let pointer = if root == Document::ROOT { "#".to_owned() } else { format!("{uri}#") };
            let wrong = |reason: String| SchemaError::Unsupported {
                pointer,
                keyword: "$schema".to_owned(),
                reason,
                way_out: "name draft 4, 6, 7, 2019-09 or 2020-12, or leave it out",
            };
            draft = match self.document.text(node) {
                Some(name) => Draft::of(name).ok_or_else(|| wrong(format!("{name:?} is not known")))?,
                None => return Err(wrong("it is no text".to_owned())),
            };
        }
        self.resources.insert(uri.clone(), root);
        self.uris.insert(root, uri.clone());
        self.texts.push((root, draft, uri));
        self.name(root);
        Ok(())
    }

    /// The text that a value stands in.
    fn text_of(&self, node: NodeId) -> usize {
        // At least the first begins there.
        self.texts.partition_point(|(root, ..)| *root <= node) - 1
    }

    pub(crate) fn draft_of(&self, node: NodeId) -> Draft {
        self.texts[self.text_of(node)].1
    }

    /// The JSON pointer of `node`, behind the URI of its text unless that is the first.
    pub(crate) fn pointer(&self, node: NodeId) -> String {
        let pointer = self.document.pointer(node);
        match self.text_of(node) {
            0 => pointer,
            text => self.texts[text].2.clone() + &pointer,
        }
    }

    /// The URI that `reference`, which has no fragment, is in a resource.
    fn uri(&self, resource: NodeId, reference: &str) -> String {
        let base = self.uris.get(&resource).map_or(Registry::BASE, String::as_str);
        Registry::resolve(base, reference)
    }

    /// Finds resources and anchors in the text from `root` on.
    fn name(&mut self, root: NodeId) {
        let draft = self.draft_of(root);
        let id_keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
        let nodes = self.document.nodes().skip(root.index());
        for node in nodes {
            // Parents come before their parts.
            let outer = self.document.parent(node).map_or(root, |parent| self.resource[parent.index()]);
            self.resource.push(outer);
            let text = |keyword| self.document.member(node, keyword).and_then(|id| self.document.text(id));
            let ignored = draft <= Draft::Draft7 && text("$ref").is_some();
            if ignored || self.is_data(node) {
                continue;
            }
            let mut names = vec![];
            if let Some(id) = text(id_keyword) {
                match id.strip_prefix('#') {
                    Some(anchor) if draft <= Draft::Draft7 => names.push((outer, format!("#{anchor}"))),
                    _ => {
                        let uri = self.uri(outer, id.split_once('#').map_or(id, |(id, _)| id));
                        self.resource[node.index()] = node;
                        let before = self.resources.insert(uri.clone(), node);
                        if before.is_some_and(|before| before != node) {
                            self.ambiguous.push((Document::ROOT, uri.clone()));
                        }
                        self.uris.insert(node, uri);
                    }
                }
            }
            let text = |keyword| self.document.member(node, keyword).and_then(|id| self.document.text(id));
            if draft >= Draft::Draft201909 {
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
            let uri = self.uri(resource, base);
            let found = self.resources.get(&uri).copied();
            if self.ambiguous.contains(&(Document::ROOT, uri.clone())) {
                return Err(error("two schemas have this name", "give each its own `$id`"));
            }
            found.ok_or_else(|| {
                let what = if uri == base { String::new() } else { format!(", which is {uri:?}") };
                error(
                    &format!("it leads out of the document and is not supplied{what}"),
                    "put the schema under `$defs` and refer to it there, or supply it in a registry",
                )
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
