//! The conditions on the parts of a value: on members by name, on items by index, and on the set of names.

use std::{rc::Rc, sync::Arc};

use unskew_automata::RegexError;

use super::{
    expander::Expander,
    shape::{NameSet, STRING, Shape},
};
use crate::{
    SchemaError,
    document::{
        json::{Document, NodeId},
        literal::Literal,
    },
    draft::Draft,
    text::{enumerated, languages::Language, standard::TEXT},
};

/// The schemas of the items of an array by one schema: one for each of the first items, and one for all others.
#[derive(Debug, Default)]
pub(crate) struct ItemSchemas {
    pub(crate) first: Vec<NodeId>,
    pub(crate) others: Option<NodeId>,
}

/// The conditions on the items of an array.
#[derive(Debug)]
pub(crate) struct ItemConditions {
    groups: Vec<ItemSchemas>,
    /// The alternatives for the items from an index on.
    unevaluated: Vec<(u32, Vec<Literal>)>,
    /// From this index on, all items have the same conditions.
    pub(crate) alike: u32,
}

/// The patterns of `patternProperties` in `group`: the names in which each has a match, and its schema.
pub(crate) fn name_patterns(
    ex: &mut Expander,
    group: NodeId,
) -> Result<Vec<(Language, NodeId)>, SchemaError> {
    let Some(list) = ex.schemas.document.member(group, "patternProperties") else { return Ok(vec![]) };
    let members = ex.schemas.document.members(list).unwrap_or_default().to_vec();
    let mut found = vec![];
    for (text, schema) in members {
        let made = ex.languages.search(&text);
        if let Ok(language) = ex.located(Some(group), made)? {
            found.push((language, schema));
        }
    }
    Ok(found)
}

/// The schemas of the items in `group`.
pub(crate) fn item_schemas(ex: &Expander, group: NodeId) -> ItemSchemas {
    let document = &ex.schemas.document;
    let member = |keyword| ex.schemas.keyword(group, keyword);
    if ex.schemas.draft_of(group) == Draft::Draft202012 {
        let first = member("prefixItems").and_then(|list| document.items(list)).unwrap_or_default();
        return ItemSchemas { first: first.to_vec(), others: member("items") };
    }
    match member("items") {
        Some(items) => match document.items(items) {
            Some(first) => ItemSchemas { first: first.to_vec(), others: member("additionalItems") },
            None => ItemSchemas { first: vec![], others: Some(items) },
        },
        None => ItemSchemas::default(),
    }
}

impl Expander {
    /// The schemas that the value of the member `name` must satisfy; `None` if the member is forbidden.
    pub(crate) fn member_conditions(
        &mut self,
        shape: &Shape,
        name: &str,
    ) -> Result<Option<Vec<Literal>>, SchemaError> {
        if shape.forbidden.iter().any(|forbidden| &**forbidden == name) {
            return Ok(None);
        }
        for literal in shape.names.clone() {
            let allowed = self.names(&[literal])?;
            if !allowed.is_some_and(|allowed| allowed.accepts(name.as_bytes())) {
                for shape in self.shapes(&[literal])?.iter().filter(|shape| shape.types & STRING != 0) {
                    self.refuse_possible(shape, name);
                }
                return Ok(None);
            }
        }
        self.carry(shape.properties.len())?;
        let mut set: Vec<Literal> = vec![];
        set.extend(shape.property.iter().filter(|(of, _)| &**of == name).map(|(_, literal)| *literal));
        for group in &shape.properties {
            let declared = self.schemas.document.member(*group, "properties");
            let own = declared.and_then(|declared| self.schemas.document.member(declared, name));
            let mut matched = own.is_some();
            set.extend(own.map(|own| self.schemas.literal(own)).transpose()?);
            for (pattern, schema) in name_patterns(self, *group)? {
                if pattern.is_some_and(|pattern| pattern.accepts(name.as_bytes())) {
                    set.push(self.schemas.literal(schema)?);
                    matched = true;
                }
            }
            if !matched && let Some(additional) = self.schemas.document.member(*group, "additionalProperties")
            {
                set.push(self.schemas.literal(additional)?);
            }
        }
        for unevaluated in &shape.unevaluated_properties {
            if self.is_in(name, &NameSet::Unknown(Rc::clone(&unevaluated.groups)))? {
                set.push(unevaluated.schema);
            }
        }
        Ok(self.normal(set))
    }

    /// The conditions on the items of the shape, for [`item_sets`](Self::item_sets).
    pub(crate) fn item_conditions(&self, shape: &Shape) -> ItemConditions {
        let groups: Vec<_> = shape.items.iter().map(|group| item_schemas(self, *group)).collect();
        let unevaluated = shape.unevaluated_items.iter().filter_map(|unevaluated| {
            let known: Vec<_> = unevaluated.groups.iter().map(|group| item_schemas(self, *group)).collect();
            if known.iter().any(|group| group.others.is_some()) {
                return None;
            }
            let first = known.iter().map(|group| group.first.len()).max().unwrap_or(0);
            let ways = unevaluated.contains.iter().copied().chain([unevaluated.schema]).collect();
            Some((u32::try_from(first).unwrap_or(u32::MAX), ways))
        });
        let unevaluated: Vec<(u32, Vec<Literal>)> = unevaluated.collect();
        let alike = groups.iter().map(|group| u32::try_from(group.first.len()).unwrap_or(u32::MAX));
        let alike = alike.chain(shape.item.iter().map(|(index, _)| index.saturating_add(1)));
        let alike = alike.chain(shape.counts.iter().map(|count| count.from));
        let alike = alike.chain(unevaluated.iter().map(|(first, _)| *first)).max().unwrap_or(0);
        ItemConditions { groups, unevaluated, alike }
    }

    /// The alternatives for the item at an index; the item must satisfy all schemas of one alternative.
    pub(crate) fn item_sets(
        &self,
        shape: &Shape,
        items: &ItemConditions,
        index: u32,
    ) -> Result<Vec<Vec<Literal>>, SchemaError> {
        let mut set = vec![];
        for group in &items.groups {
            let schema = group.first.get(index as usize).copied().or(group.others);
            set.extend(schema.map(|schema| self.schemas.literal(schema)).transpose()?);
        }
        set.extend(shape.item.iter().filter(|(of, _)| *of == index).map(|(_, literal)| *literal));
        let none = shape.counts.iter().filter(|count| count.max == Some(0) && count.from <= index);
        set.extend(none.map(|count| count.literal.not()));
        let mut sets = vec![set];
        for (_, ways) in items.unevaluated.iter().filter(|(first, _)| *first <= index) {
            let each = |set: &Vec<Literal>| {
                let set = set.clone();
                ways.iter().map(move |way| set.iter().copied().chain([*way]).collect()).collect::<Vec<_>>()
            };
            sets = sets.iter().flat_map(each).collect();
        }
        let mut sets: Vec<_> = sets.into_iter().filter_map(|set| self.normal(set)).collect();
        sets.sort_unstable();
        sets.dedup();
        Ok(sets)
    }

    /// Refuses a text that is not written although a partly known format of the shape may allow it.
    pub(crate) fn refuse_possible(&mut self, shape: &Shape, text: &str) {
        if let Some((possible, refusal)) = &shape.possible
            && possible.accepts(text.as_bytes())
        {
            let refused = Shape { types: STRING, refusals: vec![refusal.clone()], ..Shape::any() };
            self.refuse(&refused, STRING);
        }
    }

    /// The texts of the strings that satisfy the set.
    pub(crate) fn names(&mut self, set: &[Literal]) -> Result<Language, SchemaError> {
        let shapes = self.shapes(set)?;
        let node = set.first().map(|literal| literal.node);
        let mut parts = vec![];
        for shape in shapes.iter().filter(|shape| shape.types & STRING != 0) {
            self.refuse(shape, STRING);
            let language = self.texts(shape);
            parts.extend(self.located(node, language)?);
        }
        let union = self.languages.any(parts);
        self.located(node, union)
    }

    /// The texts of the strings of a shape.
    pub(crate) fn texts(&mut self, shape: &Shape) -> Result<Language, RegexError> {
        let language = match &shape.strings {
            Some(language) => Some(Arc::clone(language)),
            None => self.languages.pattern(TEXT)?,
        };
        if shape.min_length == 0 && shape.max_length.is_none() {
            return Ok(language);
        }
        // If all texts satisfy the bounds already, an intersection would only add states.
        if let Some(language) = shape.strings.as_ref()
            && enumerated::lengths_within(language, shape.min_length, shape.max_length)
        {
            return Ok(Some(Arc::clone(language)));
        }
        let max = shape.max_length.map_or_else(String::new, |max| max.to_string());
        let length = self.languages.pattern(&format!("(?s:.){{{},{max}}}", shape.min_length))?;
        if shape.strings.is_none() { Ok(length) } else { self.languages.and(&language, &length) }
    }

    /// Whether `name` is in the set of names.
    pub(crate) fn is_in(&mut self, name: &str, names: &NameSet) -> Result<bool, SchemaError> {
        let declared = |ex: &Self, node: NodeId| {
            let declared = ex.schemas.document.member(node, "properties");
            declared.is_some_and(|declared| ex.schemas.document.member(declared, name).is_some())
        };
        Ok(match names {
            NameSet::Except(node) => self.schemas.document.member(*node, name).is_none(),
            NameSet::Unknown(groups) => {
                for group in groups.iter() {
                    if declared(self, *group) {
                        return Ok(false);
                    }
                    for (pattern, _) in name_patterns(self, *group)? {
                        if pattern.is_some_and(|pattern| pattern.accepts(name.as_bytes())) {
                            return Ok(false);
                        }
                    }
                }
                true
            }
            NameSet::Pattern(..) | NameSet::Schema(_) => {
                let language = self.name_language(names)?;
                language.is_some_and(|language| language.accepts(name.as_bytes()))
            }
        })
    }

    /// The set of names as an automaton over their texts.
    pub(crate) fn name_language(&mut self, names: &NameSet) -> Result<Language, SchemaError> {
        if let Some(known) = self.name_languages.get(names) {
            return Ok(known.clone());
        }
        let keys = |ex: &Self, node: Option<NodeId>| -> Vec<Rc<str>> {
            let members = node.and_then(|node| ex.schemas.document.members(node)).unwrap_or_default();
            members.iter().map(|(name, _)| name.clone()).collect()
        };
        let language = match names {
            // Not memoized, because each call must report its refusals.
            NameSet::Schema(literal) => return self.names(&[*literal]),
            NameSet::Pattern(node, text) => {
                let list = self.schemas.document.member(*node, "patternProperties");
                let schema = list.and_then(|list| self.schemas.document.member(list, text));
                let all = name_patterns(self, *node)?;
                all.into_iter().find(|(_, of)| Some(*of) == schema).and_then(|(language, _)| language)
            }
            NameSet::Except(node) => {
                let keys = keys(self, Some(*node));
                self.all_but(*node, &keys, vec![])?
            }
            NameSet::Unknown(groups) => {
                let (mut declared, mut patterns) = (vec![], vec![]);
                for group in groups.iter() {
                    declared.extend(keys(self, self.schemas.document.member(*group, "properties")));
                    patterns.extend(name_patterns(self, *group)?.into_iter().map(|(pattern, _)| pattern));
                }
                let node = groups.first().copied().unwrap_or(Document::ROOT);
                self.all_but(node, &declared, patterns)?
            }
        };
        self.name_languages.insert(names.clone(), language.clone());
        Ok(language)
    }

    fn all_but(
        &mut self,
        node: NodeId,
        texts: &[Rc<str>],
        patterns: Vec<Language>,
    ) -> Result<Language, SchemaError> {
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        let all = self.languages.pattern(TEXT);
        let texts = self.languages.texts(&texts);
        let mut rest = all.and_then(|all| self.languages.minus(&all, &texts?));
        for pattern in patterns {
            rest = rest.and_then(|rest| self.languages.minus(&rest, &pattern));
        }
        self.located(Some(node), rest)
    }
}
