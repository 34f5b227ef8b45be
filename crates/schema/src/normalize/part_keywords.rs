//! The keywords of objects and arrays, which constrain their parts.

use std::rc::Rc;

use unskew_grammar::Fate;

use super::{
    keywords::KeywordReader,
    parts::item_schemas,
    shape::{ARRAY, Atom, Count, NameSet, OBJECT, Unevaluated, Witness},
    unevaluated::{self, Scenario},
};
use crate::{
    SchemaError,
    document::{
        json::{NodeId, Value},
        literal::Literal,
    },
    draft::Draft,
    text::pattern::UnsupportedConstruct,
};

impl KeywordReader<'_> {
    pub(crate) fn object(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        let members = self.ex.schemas.document.members(value).map(<[_]>::to_vec);
        let must_be_object = |reader: &Self| reader.invalid(key, "must be an object");
        match key {
            "properties" => {
                let members = members.ok_or_else(|| must_be_object(self))?;
                if self.positive {
                    self.found.atoms.push(Atom::Properties(self.node));
                } else {
                    for (name, schema) in members {
                        let breaks = Atom::Property(name.clone(), self.literal(schema)?.not());
                        self.broken.push(vec![Atom::Types(OBJECT), Atom::Require(name), breaks]);
                    }
                }
            }
            "patternProperties" => {
                let members = members.ok_or_else(|| must_be_object(self))?;
                for (text, _) in &members {
                    let made = self.ex.languages.search(text);
                    if let Err(UnsupportedConstruct { construct, way_out }) = self.located(made)? {
                        self.refuse(key, OBJECT, &format!("{construct} in {text:?}"), way_out);
                        return Ok(true);
                    }
                }
                if self.positive {
                    self.found.atoms.push(Atom::Properties(self.node));
                } else {
                    for (text, schema) in members {
                        let schema = self.literal(schema)?;
                        self.witness(NameSet::Pattern(self.node, text), Some(schema.not()));
                    }
                }
            }
            "additionalProperties" => {
                if self.positive {
                    self.found.atoms.push(Atom::Properties(self.node));
                } else {
                    let schema = self.literal(value)?;
                    self.witness(NameSet::Unknown(Rc::new([self.node])), Some(schema.not()));
                }
            }
            "propertyNames" => {
                let schema = self.literal(value)?;
                if self.positive {
                    self.found.atoms.push(Atom::Names(schema));
                } else {
                    self.witness(NameSet::Schema(schema.not()), None);
                }
            }
            "required" => {
                for name in self.texts(key, value)? {
                    self.condition(OBJECT, Atom::Require(name.clone()), Some(Atom::Forbid(name)));
                }
            }
            "minProperties" => {
                let count = self.count(key, value)?;
                let broken = count.checked_sub(1).map(Atom::MaxProperties);
                self.condition(OBJECT, Atom::MinProperties(count), broken);
            }
            "maxProperties" => {
                let count = self.count(key, value)?;
                self.condition(
                    OBJECT,
                    Atom::MaxProperties(count),
                    Some(Atom::MinProperties(count.saturating_add(1))),
                );
            }
            "unevaluatedProperties" => self.unevaluated(key, value)?,
            _ => {
                for (name, needed) in members.ok_or_else(|| must_be_object(self))? {
                    self.dependency(key, &name, needed)?;
                }
            }
        }
        Ok(true)
    }

    /// If an object has the member `name`, the requirement `needed` holds too.
    fn dependency(&mut self, key: &str, name: &str, needed: NodeId) -> Result<(), SchemaError> {
        let list = self.ex.schemas.document.items(needed).is_some();
        if list != (key == "dependentRequired") && key != "dependencies" {
            return Err(self.invalid(key, "must hold lists of names, or schemas"));
        }
        if !list {
            let schema = self.literal(needed)?;
            if self.positive {
                let with = vec![Atom::Require(name.into()), Atom::Schema(schema)];
                let ways = vec![vec![Atom::Forbid(name.into())], with];
                self.found.choices.push(Rc::new(ways));
            } else {
                let broken =
                    vec![Atom::Types(OBJECT), Atom::Require(name.into()), Atom::Schema(schema.not())];
                self.broken.push(broken);
            }
            return Ok(());
        }
        let names = self.texts(key, needed)?;
        if self.positive {
            let all = [name.into()].into_iter().chain(names).map(Atom::Require).collect();
            self.found.choices.push(Rc::new(vec![vec![Atom::Forbid(name.into())], all]));
        } else {
            for other in names {
                let broken = vec![Atom::Types(OBJECT), Atom::Require(name.into()), Atom::Forbid(other)];
                self.broken.push(broken);
            }
        }
        Ok(())
    }

    /// Adds one way to break the schema: some member with one of these names has a value that satisfies `value`.
    fn witness(&mut self, names: NameSet, value: Option<Literal>) {
        let obvious = value.map(|value| self.ex.schemas.obvious(value));
        if obvious == Some(Some(false)) {
            return;
        }
        let value = if obvious == Some(Some(true)) { None } else { value };
        self.broken.push(vec![Atom::Types(OBJECT), Atom::Witness(Rc::new(Witness { names, value }))]);
    }

    /// Adds one way to break the schema: some item from an index on satisfies `literal`.
    fn some_item(&mut self, mut way: Vec<Atom>, from: u32, literal: Literal) {
        way.push(Atom::Types(ARRAY));
        match self.ex.schemas.obvious(literal) {
            Some(false) => return,
            Some(true) => way.push(Atom::MinItems(from.saturating_add(1))),
            None => way.push(Atom::Count(Count { from, literal, min: 1, max: None })),
        }
        self.broken.push(way);
    }

    /// The parts that no other keyword evaluates satisfy a schema. Each branch of the schema evaluates its own
    /// parts.
    fn unevaluated(&mut self, key: &str, value: NodeId) -> Result<(), SchemaError> {
        let schema = self.literal(value)?;
        if self.ex.schemas.obvious(schema) == Some(true) {
            return Ok(());
        }
        let properties = key == "unevaluatedProperties";
        let types = if properties { OBJECT } else { ARRAY };
        let scenarios = match unevaluated::scenarios(self.ex, self.node)? {
            Ok(scenarios) => scenarios,
            Err(reason) => {
                self.refuse(key, types, reason, "write `additionalProperties` or `items` in each branch");
                return Ok(());
            }
        };
        let mut ways = vec![];
        for Scenario { mut atoms, groups, contains, all_properties, all_items } in scenarios {
            if if properties { all_properties } else { all_items } {
                ways.push(atoms);
                continue;
            }
            let groups: Rc<[NodeId]> = groups.into();
            if self.positive {
                let asked = Rc::new(Unevaluated { schema, groups, contains });
                atoms.push(match properties {
                    true => Atom::UnevaluatedProperties(asked),
                    false => Atom::UnevaluatedItems(asked),
                });
                ways.push(atoms);
            } else if properties {
                let before = self.broken.len();
                self.witness(NameSet::Unknown(groups), Some(schema.not()));
                self.broken[before..].iter_mut().for_each(|way| way.extend(atoms.iter().cloned()));
            } else {
                let first =
                    groups.iter().map(|group| item_schemas(self.ex, *group).first.len()).max().unwrap_or(0);
                let first = u32::try_from(first).unwrap_or(u32::MAX);
                match (&*contains, self.ex.schemas.obvious(schema)) {
                    ([], _) => self.some_item(atoms, first, schema.not()),
                    ([known], Some(false)) => self.some_item(atoms, first, known.not()),
                    _ => {
                        let reason = "under a negation and beside `contains` it requires an item that violates several schemas";
                        self.refuse(
                            key,
                            types,
                            reason,
                            "state the positive condition in place of the negated one",
                        );
                    }
                }
            }
        }
        if self.positive {
            self.found.first.push(Rc::new(ways));
        }
        Ok(())
    }

    pub(crate) fn array(&mut self, key: &str, value: NodeId) -> Result<bool, SchemaError> {
        match key {
            "additionalItems" => {
                let items = self.ex.schemas.document.member(self.node, "items");
                if items.is_none_or(|items| self.ex.schemas.document.items(items).is_none()) {
                    self.fate(key, Fate::Annotation, "`items` is no list");
                    return Ok(false);
                }
                self.parts(value)?;
            }
            "items" | "prefixItems" => self.parts(value)?,
            "minItems" => {
                let count = self.count(key, value)?;
                self.condition(ARRAY, Atom::MinItems(count), count.checked_sub(1).map(Atom::MaxItems));
            }
            "maxItems" => {
                let count = self.count(key, value)?;
                self.condition(ARRAY, Atom::MaxItems(count), Some(Atom::MinItems(count.saturating_add(1))));
            }
            "uniqueItems" => match self.ex.schemas.document.value(value) {
                Value::Bool(false) => {}
                Value::Bool(true) => {
                    let (unique, repeating) = (Atom::Unique(self.node), Atom::Repeating(self.node));
                    self.condition(ARRAY, unique, Some(repeating));
                }
                _ => return Err(self.invalid(key, "must be `true` or `false`")),
            },
            "minContains" | "maxContains"
                if self.ex.schemas.document.member(self.node, "contains").is_none() =>
            {
                self.fate(key, Fate::Annotation, "there is no `contains`");
                return Ok(false);
            }
            "minContains" | "maxContains" => {
                self.count(key, value)?;
            }
            "unevaluatedItems" => self.unevaluated(key, value)?,
            _ => self.contains(value)?,
        }
        Ok(true)
    }

    fn contains(&mut self, value: NodeId) -> Result<(), SchemaError> {
        let literal = self.literal(value)?;
        let bound = |reader: &Self, keyword| {
            let known = reader.ex.schemas.draft_of(reader.node) >= Draft::Draft201909;
            let bound = reader.ex.schemas.keyword(reader.node, keyword).filter(|_| known);
            bound.map(|bound| reader.count(keyword, bound)).transpose()
        };
        let min = bound(self, "minContains")?.unwrap_or(1);
        let max = bound(self, "maxContains")?;
        let count = |min, max| Atom::Count(Count { from: 0, literal, min, max });
        if self.positive {
            if min > 0 || max.is_some() {
                self.found.atoms.push(count(min, max));
            }
            return Ok(());
        }
        if let Some(less) = min.checked_sub(1) {
            self.broken.push(vec![Atom::Types(ARRAY), count(0, Some(less))]);
        }
        if let Some(max) = max {
            self.broken.push(vec![Atom::Types(ARRAY), count(max.saturating_add(1), None)]);
        }
        Ok(())
    }

    fn parts(&mut self, value: NodeId) -> Result<(), SchemaError> {
        if self.positive {
            self.found.atoms.push(Atom::Items(self.node));
            return Ok(());
        }
        let first = self.ex.schemas.document.items(value).map(<[NodeId]>::to_vec);
        let Some(first) = first else {
            let from = u32::try_from(item_schemas(self.ex, self.node).first.len()).unwrap_or(u32::MAX);
            let schema = self.literal(value)?;
            self.some_item(vec![], from, schema.not());
            return Ok(());
        };
        for (index, schema) in (0..).zip(first) {
            let breaks = self.literal(schema)?.not();
            let way = vec![Atom::Types(ARRAY), Atom::MinItems(index + 1), Atom::Item(index, breaks)];
            self.broken.push(way);
        }
        Ok(())
    }
}
