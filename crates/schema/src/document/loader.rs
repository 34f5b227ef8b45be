//! Reads a schema and the documents that it refers to: resources, anchors, dialects, and a check of every keyword.

use std::{cell::RefCell, hash::Hash};

use hashbrown::{HashMap, HashSet};
use unskew_core::Cancel;

use super::{
    copies::{Anchor, Copies},
    dialect::Dialect,
    json::{Document, NodeId, check_cancelled},
    metaschema,
    roles::{self, Role},
    schemas::{Schemas, SourceText},
    wrapper::{Wrapped, wrapped},
};
use crate::{
    Registry, SchemaError, SchemaLimits, SchemaOptions, draft::Draft, text::pattern::UnsupportedConstruct,
};

/// The sources and bounds of one reading.
#[derive(Clone, Copy)]
struct Reading<'a> {
    registry: &'a Registry,
    limits: &'a SchemaLimits,
    cancel: &'a Cancel,
    /// Whether the options say of which dialect a text without `$schema` is.
    is_named: bool,
}

impl Schemas {
    /// Reads `text` and the documents that it refers to. `cancel` is checked once in a thousand values.
    pub(crate) fn read(
        text: &str,
        options: &SchemaOptions,
        limits: &SchemaLimits,
    ) -> Result<Self, SchemaError> {
        let SchemaOptions { registry, cancel, .. } = options;
        let reading = Reading { registry, limits, cancel, is_named: options.dialect.is_some() };
        let mut document = Document::read(text, limits, cancel)?;
        let mut notes = vec![];
        if let Some(Wrapped { schema, note }) = wrapped(&document)? {
            document = document.part(schema);
            notes.push(note);
        }
        let mut schemas = Self {
            notes,
            resource: vec![],
            document,
            texts: vec![],
            roles: vec![],
            uris: HashMap::new(),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
            anchored: HashMap::new(),
            outermost: HashMap::new(),
            copies: Copies::default(),
            ambiguous: vec![],
            followed: RefCell::default(),
            equal: vec![],
        };
        let dialect = Dialect::of_draft(options.dialect.unwrap_or(Draft::Draft202012));
        schemas.add(Document::ROOT, dialect, Registry::BASE.to_owned(), reading)?;
        // Keyed by the address of the text, because a text may have several names.
        let mut added: HashMap<*const u8, NodeId> = HashMap::new();
        let mut scanned = 0;
        loop {
            let nodes: Vec<NodeId> = schemas.document.nodes().skip(scanned).collect();
            if nodes.is_empty() {
                schemas.check_in_place()?;
                schemas.follow_dynamic(limits)?;
                schemas.note_no_constraint();
                return Ok(schemas);
            }
            scanned += nodes.len();
            for node in nodes {
                check_cancelled(cancel, node)?;
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
                schemas.add(root, dialect, uri, reading)?;
            }
        }
    }

    /// Notes that the whole schema constrains nothing, if it says something.
    fn note_no_constraint(&mut self) {
        let dialect = self.dialect_of(Document::ROOT);
        let members = self.document.members(Document::ROOT).unwrap_or_default();
        if members.is_empty() || members.iter().any(|(key, _)| dialect.constrains(key)) {
            return;
        }
        let names: Vec<String> = members.iter().take(8).map(|(key, _)| format!("`{key}`")).collect();
        self.notes.push(format!(
            "any JSON is accepted: none of the keywords of the schema constrains values ({}); give `true` or `{{}}` if that \
             is meant",
            names.join(", ")
        ));
    }

    /// The URI of the resource that the schema `node` refers to, if it is another resource.
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

    /// Adds the schemas of the last text of the document. `dialect` applies if the text has no `$schema`.
    fn add(
        &mut self,
        root: NodeId,
        mut dialect: Dialect,
        uri: String,
        reading: Reading<'_>,
    ) -> Result<(), SchemaError> {
        let Reading { registry, limits, cancel, is_named } = reading;
        if let Some(node) = self.document.member(root, "$schema") {
            let pointer = if root == Document::ROOT { "#".to_owned() } else { format!("{uri}#") };
            let wrong = |reason: String| SchemaError::Unsupported {
                pointer,
                keyword: "$schema".to_owned(),
                reason,
                way_out: "name draft 4, 6, 7, 2019-09 or 2020-12, OpenAPI 3.0 or 3.1, or a metaschema of a registry, or leave it out",
            };
            dialect = match self.document.text(node) {
                Some(name) => Dialect::named(name, registry, limits, cancel).map_err(wrong)?,
                None => return Err(wrong("it is no text".to_owned())),
            };
        } else if root == Document::ROOT && !is_named && self.lists_items(cancel)? {
            dialect = Dialect::of_draft(Draft::Draft201909);
        }
        self.resources.insert(uri.clone(), root);
        self.uris.insert(root, uri.clone());
        self.texts.push(SourceText { root, dialect, uri });
        self.name(root, cancel)?;
        for node in self.document.nodes().skip(root.index()) {
            check_cancelled(cancel, node)?;
            if self.is_schema(node) {
                self.check(node)?;
            }
        }
        Ok(())
    }

    /// Whether the text is of an older draft than it would be without `$schema`: it has a list in `items`, and no
    /// keyword that the newest draft added.
    fn lists_items(&self, cancel: &Cancel) -> Result<bool, SchemaError> {
        let (mut roles, mut found): (Vec<Role>, bool) = (vec![], false);
        for node in self.document.nodes() {
            check_cancelled(cancel, node)?;
            let role = roles::role(&self.document, &roles, node, Draft::Draft201909);
            roles.push(role);
            if role == Role::Schema {
                let has = |keyword| self.document.member(node, keyword).is_some();
                if ["prefixItems", "$dynamicRef", "$dynamicAnchor"].into_iter().any(has) {
                    return Ok(false);
                }
                let items = self.document.member(node, "items");
                found |= items.is_some_and(|items| self.document.items(items).is_some());
            }
        }
        Ok(found)
    }

    /// Checks that the value at `node` is a schema and that each of its keywords has an allowed value. Subschemas
    /// are not checked. If no keyword leads to `node`, it is a schema only because a reference leads to it; then
    /// keywords without constraints are not checked, since they may be names of another format.
    pub(crate) fn check(&self, node: NodeId) -> Result<(), SchemaError> {
        let dialect = self.dialect_of(node);
        if !metaschema::is_schema(&self.document, node, dialect.draft) {
            let key = self.document.key(node).unwrap_or("schema");
            let message = match dialect.draft {
                draft if draft.is_draft4() => "must be a schema: an object",
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
            if let Some((text, UnsupportedConstruct { construct, way_out })) =
                metaschema::broken_pattern(&self.document, node, key)
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

    /// Finds resources and anchors in the text that begins at `root`. A name in a value that is no schema counts
    /// only if no schema has the same name, because references may lead to such values.
    fn name(&mut self, root: NodeId, cancel: &Cancel) -> Result<(), SchemaError> {
        let draft = self.draft_of(root);
        let id_keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
        let nodes = self.document.nodes().skip(root.index());
        // The first entry is for schemas, the second for other values: URIs, and anchors with their resources.
        let (mut uris, mut anchors) = ([vec![], vec![]], [vec![], vec![]]);
        for node in nodes {
            check_cancelled(cancel, node)?;
            // A parent comes before its parts.
            let outer = self.document.parent(node).map_or(root, |parent| self.resource[parent.index()]);
            self.resource.push(outer);
            let role = roles::role(&self.document, &self.roles, node, draft);
            self.roles.push(role);
            let other = usize::from(role == Role::Other);
            let text = |keyword| self.document.member(node, keyword).and_then(|id| self.document.text(id));
            let ignored = draft <= Draft::Draft7 && text("$ref").is_some();
            if ignored || role == Role::Schemas || self.is_data(node) {
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
                if let Some(dynamic) = named("$dynamicAnchor").filter(|_| role == Role::Schema) {
                    let anchor = Anchor::Dynamic(dynamic.0.1.clone());
                    self.anchored.entry(anchor).or_default().push(node);
                    self.dynamic.extend([dynamic]);
                }
                if resource == node && self.anchored(node, &Anchor::Recursive).is_some() {
                    self.anchored.entry(Anchor::Recursive).or_default().push(node);
                }
            }
        }
        // Programs write a type again at each use, with its name.
        let is_same = |left, right| self.document.is_equal(left, right);
        let twice = enter(&mut self.resources, uris, is_same).into_iter().map(|uri| (Document::ROOT, uri));
        self.ambiguous.extend(twice);
        self.ambiguous.extend(enter(&mut self.anchors, anchors, is_same));
        Ok(())
    }
}

/// Adds names to the known ones, doubtful ones only if no certain one has the same name. Returns the names of two
/// different schemas. The first one of a name has it.
fn enter<K: Clone + Eq + Hash>(
    known: &mut HashMap<K, NodeId>,
    [sure, mut doubtful]: [Vec<(K, NodeId)>; 2],
    is_same: impl Fn(NodeId, NodeId) -> bool,
) -> Vec<K> {
    let mut twice = vec![];
    let names: HashSet<K> = sure.iter().map(|(name, _)| name.clone()).collect();
    doubtful.retain(|(name, _)| !names.contains(name) && !known.contains_key(name));
    for (name, node) in sure.into_iter().chain(doubtful) {
        let first = *known.entry(name.clone()).or_insert(node);
        if first != node && !is_same(first, node) {
            twice.push(name);
        }
    }
    twice
}
