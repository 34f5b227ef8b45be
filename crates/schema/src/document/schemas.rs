//! A document as schemas: which draft it is written in, and what its references mean.
//!
//! References are resolved as RFC 3986 says, against the `$id` of the resource that a schema stands in. Inside the document
//! pointers, anchors and names are followed, and outside of it names of the documents of a [`Registry`], which are read behind
//! the first one once something refers to them. Nothing is ever fetched; a reference to anywhere else is an error.

use std::{collections::BTreeMap, hash::Hash};

pub(crate) use crate::draft::Draft;
use hashbrown::{HashMap, HashSet};
use unskew_core::Cancel;

use super::{
    dialect::Dialect,
    dynamic::{self, Anchor, Copies, Outermost},
    json::{Document, NodeId, Value, look},
    metaschema,
    places::{self, Place},
};
use crate::{Registry, SchemaError, SchemaLimits};

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
    /// The outermost value of each text, with its dialect and the URI that it was found by.
    texts: Vec<(NodeId, Dialect, String)>,
    /// By node.
    places: Vec<Place>,
    /// By node: the outermost value of the resource that it stands in.
    resource: Vec<NodeId>,
    /// The URI of each resource that has one of its own.
    uris: HashMap<NodeId, String>,
    /// By URI.
    resources: HashMap<String, NodeId>,
    /// By resource and name.
    anchors: HashMap<(NodeId, String), NodeId>,
    /// Resource and name of each `$dynamicAnchor`, with the schema.
    dynamic: HashMap<(NodeId, String), NodeId>,
    /// The schemas with a dynamic anchor, by anchor.
    anchored: HashMap<Anchor, Vec<NodeId>>,
    /// By anchor: what [`dynamic::outermost`] finds, where a reference asked for it.
    outermost: HashMap<Anchor, HashMap<NodeId, Outermost>>,
    copies: Copies,
    /// Names that stand for two different schemas, and URIs that do, with the outermost value.
    ambiguous: Vec<(NodeId, String)>,
}

impl Schemas {
    /// Reads `text` and the documents that it refers to. `cancel` is looked at after every few values.
    pub(crate) fn read(
        text: &str,
        registry: &Registry,
        limits: &SchemaLimits,
        cancel: &Cancel,
    ) -> Result<Self, SchemaError> {
        let document = Document::read(text, limits, cancel)?;
        let mut schemas = Self {
            resource: vec![],
            document,
            texts: vec![],
            places: vec![],
            uris: HashMap::new(),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            anchored: HashMap::new(),
            outermost: HashMap::new(),
            copies: Copies::default(),
            ambiguous: vec![],
        };
        let newest = Dialect::of_draft(Draft::Draft202012);
        schemas.add(Document::ROOT, newest, Registry::BASE.to_owned(), (registry, limits, cancel))?;
        // By where their text lies, because one may have several names.
        let mut added: HashMap<*const u8, NodeId> = HashMap::new();
        let mut scanned = 0;
        loop {
            let nodes: Vec<NodeId> = schemas.document.nodes().skip(scanned).collect();
            if nodes.is_empty() {
                schemas.follow_dynamic(limits)?;
                return Ok(schemas);
            }
            scanned += nodes.len();
            for node in nodes {
                look(cancel, node)?;
                let Some(uri) = schemas.leads_to(node).filter(|uri| !schemas.resources.contains_key(uri))
                else {
                    continue;
                };
                let Some(text) = registry.get(&uri) else { continue };
                if let Some(root) = added.get(&text.as_ptr()) {
                    schemas.resources.insert(uri, *root);
                    continue;
                }
                let dialect = schemas.dialect_of(node);
                let root = schemas.document.append(text, limits, cancel)?;
                added.insert(text.as_ptr(), root);
                schemas.add(root, dialect, uri, (registry, limits, cancel))?;
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

    /// Adds the last text of the document. If it does not name its dialect, that is `dialect`.
    fn add(
        &mut self,
        root: NodeId,
        mut dialect: Dialect,
        uri: String,
        (registry, limits, cancel): (&Registry, &SchemaLimits, &Cancel),
    ) -> Result<(), SchemaError> {
        if let Some(node) = self.document.member(root, "$schema") {
            let pointer = if root == Document::ROOT { "#".to_owned() } else { format!("{uri}#") };
            let wrong = |reason: String| SchemaError::Unsupported {
                pointer,
                keyword: "$schema".to_owned(),
                reason,
                way_out: "name draft 4, 6, 7, 2019-09 or 2020-12, or a metaschema of a registry, or leave it out",
            };
            dialect = match self.document.text(node) {
                Some(name) => Dialect::named(name, registry, limits, cancel).map_err(wrong)?,
                None => return Err(wrong("it is no text".to_owned())),
            };
        }
        self.resources.insert(uri.clone(), root);
        self.uris.insert(root, uri.clone());
        self.texts.push((root, dialect, uri));
        self.name(root, cancel)?;
        for node in self.document.nodes().skip(root.index()) {
            look(cancel, node)?;
            if self.is_schema(node) {
                self.check(node)?;
            }
        }
        Ok(())
    }

    /// That the value at `node` is a schema, and that each of its keywords has a value that it may have. Its parts are left aside.
    /// Where no keyword leads to it, it is one because something refers to it, and keywords that ask nothing may be others' names.
    pub(crate) fn check(&self, node: NodeId) -> Result<(), SchemaError> {
        let dialect = self.dialect_of(node);
        if !metaschema::is_schema(&self.document, node, dialect.draft) {
            let key = self.document.key(node).unwrap_or("schema");
            let message = match dialect.draft {
                Draft::Draft4 => "must be a schema: an object",
                _ => "must be a schema: an object, `true` or `false`",
            };
            return Err(SchemaError::invalid(self.pointer(node), key, message));
        }
        let members = self.document.members(node).unwrap_or_default();
        let all = self.is_schema(node);
        for (key, _) in members.iter().filter(|(key, _)| dialect.has(key) && (all || dialect.asks(key))) {
            if let Some(message) = metaschema::wrong(&self.document, node, key, dialect.draft) {
                return Err(SchemaError::invalid(self.pointer(node), key, message));
            }
            if let Some((text, (construct, way_out))) = metaschema::broken_pattern(&self.document, node, key)
            {
                return Err(SchemaError::Unsupported {
                    pointer: self.pointer(node),
                    keyword: key.to_string(),
                    reason: format!("{construct} in {text:?}"),
                    way_out,
                });
            }
        }
        Ok(())
    }

    /// The text that a value stands in.
    fn text_of(&self, node: NodeId) -> usize {
        let node = self.original(node);
        // At least the first begins there.
        self.texts.partition_point(|(root, ..)| *root <= node) - 1
    }

    pub(crate) fn draft_of(&self, node: NodeId) -> Draft {
        self.dialect_of(node).draft
    }

    pub(crate) fn dialect_of(&self, node: NodeId) -> Dialect {
        self.texts[self.text_of(node)].1
    }

    /// The value of a keyword of the schema `node`, if its dialect has the keyword.
    pub(crate) fn keyword(&self, node: NodeId, keyword: &str) -> Option<NodeId> {
        self.document.member(node, keyword).filter(|_| self.dialect_of(node).has(keyword))
    }

    /// Whether a schema stands there, by the keywords that lead there.
    pub(crate) fn is_schema(&self, node: NodeId) -> bool {
        self.places[node.index()] == Place::Schema
    }

    /// Whether `node` is in a copy, which is not what was read.
    pub(crate) fn is_copy(&self, node: NodeId) -> bool {
        self.original(node) != node
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

    /// Finds resources and anchors in the text from `root` on. Names where no schema stands by the keywords that lead there
    /// count as well, since references may lead there, if there are no others.
    fn name(&mut self, root: NodeId, cancel: &Cancel) -> Result<(), SchemaError> {
        let draft = self.draft_of(root);
        let id_keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
        let nodes = self.document.nodes().skip(root.index());
        // By whether a schema stands there: URIs, and anchors with their resources.
        let (mut uris, mut anchors) = ([vec![], vec![]], [vec![], vec![]]);
        for node in nodes {
            look(cancel, node)?;
            // Parents come before their parts.
            let outer = self.document.parent(node).map_or(root, |parent| self.resource[parent.index()]);
            self.resource.push(outer);
            let place = places::place(&self.document, &self.places, node, draft);
            self.places.push(place);
            let other = usize::from(place == Place::Other);
            let text = |keyword| self.document.member(node, keyword).and_then(|id| self.document.text(id));
            let ignored = draft <= Draft::Draft7 && text("$ref").is_some();
            if ignored || place == Place::Schemas || self.is_data(node) {
                continue;
            }
            if let Some(id) = text(id_keyword) {
                match id.strip_prefix('#') {
                    Some(anchor) if draft <= Draft::Draft7 => {
                        anchors[other].push(((outer, format!("#{anchor}")), node));
                    }
                    _ => {
                        let uri = self.uri(outer, id.split_once('#').map_or(id, |(id, _)| id));
                        self.resource[node.index()] = node;
                        uris[other].push((uri.clone(), node));
                        self.uris.insert(node, uri);
                    }
                }
            }
            if draft >= Draft::Draft201909 {
                let resource = self.resource[node.index()];
                let text =
                    |keyword| self.document.member(node, keyword).and_then(|id| self.document.text(id));
                let named = |keyword| text(keyword).map(|anchor| ((resource, format!("#{anchor}")), node));
                anchors[other].extend(["$anchor", "$dynamicAnchor"].into_iter().filter_map(named));
                if let Some(dynamic) = named("$dynamicAnchor").filter(|_| place == Place::Schema) {
                    let anchor = Anchor::Dynamic(dynamic.0.1.clone());
                    self.anchored.entry(anchor).or_default().push(node);
                    self.dynamic.extend([dynamic]);
                }
                if resource == node && self.anchored(node, &Anchor::Recursive).is_some() {
                    self.anchored.entry(Anchor::Recursive).or_default().push(node);
                }
            }
        }
        let twice = enter(&mut self.resources, uris).into_iter().map(|uri| (Document::ROOT, uri));
        self.ambiguous.extend(twice);
        self.ambiguous.extend(enter(&mut self.anchors, anchors));
        Ok(())
    }

    /// Whether the value is one of `enum`, `const` or the like and no schema.
    fn is_data(&self, node: NodeId) -> bool {
        if self.is_schema(node) {
            return false;
        }
        let data = |node: NodeId| {
            matches!(self.document.key(node), Some("enum" | "const" | "default" | "examples" | "example"))
        };
        data(node) || self.document.parent(node).is_some_and(data)
    }

    /// What the `$ref` of the schema `node` means.
    pub(crate) fn target(&self, node: NodeId, reference: &str) -> Result<NodeId, SchemaError> {
        Ok(self.in_copy_of(node, self.original_target(node, reference)?))
    }

    /// Where `target`, a schema of the original, is found from the schema `node`, which may be in a copy.
    fn in_copy_of(&self, node: NodeId, target: NodeId) -> NodeId {
        let (_, copy) = self.copies.original(self.entered(node));
        self.copies.image(target, self.copies.entered(copy, self.resource[target.index()]))
    }

    /// The same, of the original.
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

    /// Where a dynamic reference of the schema `node` begins, which is what a `$ref` would mean, and the anchor that others may
    /// have as well, if it leads to one.
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

    /// What a `$dynamicRef` or `$recursiveRef` of the schema `node` means; `None` if that depends on who refers to the schema.
    ///
    /// It means what a `$ref` would, but for an anchor that other resources have as well: then the outermost of those that
    /// led there decides. Outermost of all is the whole document, so where that has the anchor, nothing else matters.
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
        let copied = self.copies.anchor.as_ref() == Some(&anchor);
        let outermost = match (copied, copy.checked_sub(1)) {
            (true, None) => Outermost::None,
            (true, Some(copy)) => Outermost::One(self.copies.resources[copy]),
            (false, _) => found.copied().unwrap_or(Outermost::Several),
        };
        let target = match outermost {
            Outermost::None => Some(first),
            Outermost::One(resource) => self.anchored(resource, &anchor),
            Outermost::Several => None,
        };
        Ok(target.map(|target| self.in_copy_of(node, target)))
    }

    /// Follows the ways to all dynamic references that depend on them, in at most `limit` steps.
    fn follow_dynamic(&mut self, limits: &SchemaLimits) -> Result<(), SchemaError> {
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
            let found = dynamic::outermost(self, &anchor, &mut steps);
            let found = found
                .ok_or_else(|| SchemaError::limit("", "the ways to dynamic references", limit, "carried"))?;
            let differ = nodes.iter().any(|node| found.get(node) == Some(&Outermost::Several));
            if differ && self.copies.anchor.is_none() {
                self.copy(&anchor, limits);
            }
            self.outermost.insert(anchor, found);
        }
        Ok(())
    }

    /// Copies the document for each resource with the anchor, if that is within the limits.
    fn copy(&mut self, anchor: &Anchor, limits: &SchemaLimits) {
        let schemas = self.all_anchored(anchor);
        let resources: Vec<NodeId> = schemas.iter().map(|schema| self.resource[schema.index()]).collect();
        if let Some(nodes) = self.document.copy(resources.len(), limits) {
            // Of a copy, they are those of the original.
            self.resource = self.resource.repeat(resources.len() + 1);
            self.places = self.places.repeat(resources.len() + 1);
            self.copies = Copies::new(nodes, anchor.clone(), resources);
        }
    }

    /// The schema that `node` is, or is a copy of.
    pub(crate) fn original(&self, node: NodeId) -> NodeId {
        self.copies.original(node).0
    }

    /// The same schema in the copy that it is read in: where a resource of its own is entered, in that one's.
    fn entered(&self, node: NodeId) -> NodeId {
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

    /// The schema at `node`, or the one that it does nothing but refer to.
    pub(crate) fn literal(&self, node: NodeId) -> Result<Literal, SchemaError> {
        let mut node = self.entered(node);
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

/// Enters names, the doubtful ones where there are no others, and answers with those that stand for two schemas.
fn enter<K: Clone + Eq + Hash>(
    known: &mut HashMap<K, NodeId>,
    [sure, mut doubtful]: [Vec<(K, NodeId)>; 2],
) -> Vec<K> {
    let mut twice = vec![];
    let names: HashSet<K> = sure.iter().map(|(name, _)| name.clone()).collect();
    doubtful.retain(|(name, _)| !names.contains(name) && !known.contains_key(name));
    for (name, node) in sure.into_iter().chain(doubtful) {
        if known.insert(name.clone(), node).is_some_and(|before| before != node) {
            twice.push(name);
        }
    }
    twice
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
