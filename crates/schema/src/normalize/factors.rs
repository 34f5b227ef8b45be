//! Choices about different members, which are not multiplied out.
//!
//! Eight independent conditions of the kind "if `kind` is `x`, then `size` is required" have 6,561 branches. No
//! member is in two of them, so whether one holds says nothing about the others. Such choices become **factors** of
//! one shape: lists of shapes, one of which the object has for each factor. A factor speaks of its own members alone,
//! and the shape itself of everything else.
//!
//! Choices about a common member are one factor, in which they are multiplied out. A choice about anything but listed
//! members, such as the number of members or names by patterns, is made before.

use std::{collections::BTreeSet, rc::Rc};

use hashbrown::HashSet;

use super::{
    expander::{Branch, Expander},
    shape::{Atom, Choice, OBJECT, Shape},
};
use crate::{
    MemberOrder, SchemaError,
    document::{
        json::{NodeId, Value},
        literal::Literal,
        metaschema,
    },
};

/// The number of combinations from which on choices are factors, in any order and in that of the schema. Fewer
/// branches cost less when they are multiplied out, and each then has its members in an order of its own.
const MANY: [usize; 2] = [16, 128];

/// The largest number of schemas that are looked at to find the members of one choice.
const LOOKED_AT: usize = 1_000;

/// The members of a choice.
#[derive(Default)]
struct Members {
    names: BTreeSet<Rc<str>>,
    seen: HashSet<NodeId>,
}

impl Expander {
    /// Turns the choices of a branch that concern different members into factors of its shape, if they are many.
    /// Answers whether it did.
    pub(super) fn factor(&mut self, set: &[Literal], branch: &mut Branch) -> Result<bool, SchemaError> {
        let shape = &branch.shape;
        let many = MANY[usize::from(self.order == MemberOrder::Declared)];
        if branch.is_factor
            || branch.choices.len() < 2
            || !branch.first.is_empty()
            || !may_have_factors(shape)
            || combinations(&branch.choices) < many
        {
            return Ok(false);
        }
        // Sets of choices with common members.
        let mut parts: Vec<(BTreeSet<Rc<str>>, Vec<usize>)> = vec![];
        for (index, choice) in branch.choices.iter().enumerate() {
            let mut members = Members::default();
            if !self.members_of(choice, &mut members) {
                continue;
            }
            let (mut names, mut choices) = (members.names, vec![index]);
            parts.retain_mut(|(known, others)| {
                let is_apart = known.is_disjoint(&names);
                if !is_apart {
                    names.append(known);
                    choices.append(others);
                }
                is_apart
            });
            parts.push((names, choices));
        }
        parts.iter_mut().for_each(|(_, part)| part.sort_unstable());
        parts.sort_unstable_by_key(|(_, part)| part[0]);
        let chosen: Vec<Rc<Choice>> = parts
            .iter()
            .flat_map(|(_, part)| part.iter().map(|index| Rc::clone(&branch.choices[*index])))
            .collect();
        if parts.len() < 2 || combinations(&chosen) < many {
            return Ok(false);
        }
        let mut factors = vec![];
        for (_, part) in &parts {
            let choices = part.iter().map(|index| Rc::clone(&branch.choices[*index])).collect();
            let shape = Shape { types: OBJECT, ..Shape::any() };
            let seen = branch.seen.clone();
            let alone = Branch { shape, choices, seen, is_factor: true, ..Branch::default() };
            let shapes = self.expanded(set, alone)?;
            if !shapes.iter().all(is_about_members) {
                return Ok(false);
            }
            factors.push(shapes);
        }
        let mut index = 0;
        branch.choices.retain(|_| {
            index += 1;
            !parts.iter().any(|(_, part)| part.contains(&(index - 1)))
        });
        for shapes in factors {
            match &shapes[..] {
                [] => branch.shape.types = 0,
                [only] => branch.shape = branch.shape.with(only),
                _ => branch.shape.factors.push(shapes.into()),
            }
        }
        Ok(true)
    }

    /// Adds the members that a choice is about; `false` if it is about anything else.
    fn members_of(&self, choice: &Choice, members: &mut Members) -> bool {
        let mut open: Vec<NodeId> = vec![];
        let mut choices = vec![choice];
        while let Some(choice) = choices.pop() {
            for atom in choice.iter().flatten() {
                match atom {
                    Atom::Schema(literal) if literal.constant => return false,
                    Atom::Schema(literal) => open.push(literal.node),
                    Atom::Property(name, _) | Atom::Require(name) | Atom::Forbid(name) => {
                        members.names.insert(name.clone());
                    }
                    Atom::Properties(node) => open.push(*node),
                    Atom::Types(_) => {}
                    Atom::Any(inner) => choices.push(inner),
                    _ => return false,
                }
            }
        }
        while let Some(node) = open.pop() {
            if !members.seen.insert(node) {
                continue;
            }
            if members.seen.len() > LOOKED_AT || !self.members_of_schema(node, members, &mut open) {
                return false;
            }
        }
        true
    }

    fn members_of_schema(&self, node: NodeId, members: &mut Members, open: &mut Vec<NodeId>) -> bool {
        let document = &self.schemas.document;
        let keywords = match document.value(node) {
            Value::Bool(_) => return true,
            Value::Object(keywords) => keywords,
            _ => return false,
        };
        let draft = self.schemas.draft_of(node);
        for (key, value) in keywords {
            if metaschema::kind(key, draft).is_none() || !self.schemas.dialect_of(node).has(key) {
                continue;
            }
            match &**key {
                "allOf" | "anyOf" | "oneOf" => open.extend(document.items(*value).unwrap_or_default()),
                "not" | "if" | "then" | "else" => open.push(*value),
                "$ref" => {
                    let target = document.text(*value).map(|text| self.schemas.target(node, text));
                    let Some(Ok(target)) = target else { return false };
                    open.push(target);
                }
                "properties" => {
                    let declared = document.members(*value).unwrap_or_default();
                    members.names.extend(declared.iter().map(|(name, _)| name.clone()));
                }
                "required" => self.add_names(*value, members),
                "dependentRequired" | "dependentSchemas" | "dependencies" => {
                    for (name, needed) in document.members(*value).unwrap_or_default() {
                        members.names.insert(name.clone());
                        match document.items(*needed) {
                            Some(_) => self.add_names(*needed, members),
                            None => open.push(*needed),
                        }
                    }
                }
                "$dynamicRef"
                | "$recursiveRef"
                | "const"
                | "enum"
                | "patternProperties"
                | "additionalProperties"
                | "propertyNames"
                | "minProperties"
                | "maxProperties"
                | "unevaluatedProperties" => return false,
                // Types, and keywords of values that are no objects.
                _ => {}
            }
        }
        true
    }

    fn add_names(&self, list: NodeId, members: &mut Members) {
        let document = &self.schemas.document;
        let names = document.items(list).unwrap_or_default().iter();
        members.names.extend(names.filter_map(|name| document.text(*name)).map(Rc::from));
    }

    /// The shapes without factors that a shape stands for.
    pub(crate) fn multiplied(&mut self, set: &[Literal], shape: &Shape) -> Result<Vec<Shape>, SchemaError> {
        let mut all = vec![Shape { factors: vec![], ..shape.clone() }];
        for factor in &shape.factors {
            let mut longer = vec![];
            for shape in &all {
                for one in factor.iter() {
                    self.count(set)?;
                    let mut both = shape.with(one);
                    self.carry(both.properties.len() + both.property.len() + both.required.len())?;
                    both.settle();
                    longer.extend((both.types != 0).then_some(both));
                }
            }
            all = longer;
        }
        Ok(all)
    }
}

/// The number of combinations of alternatives.
fn combinations(choices: &[Rc<Choice>]) -> usize {
    choices.iter().fold(1, |all, choice| all.saturating_mul(choice.len()))
}

/// Whether the members of an object of the shape are not counted, and are under no condition that names none.
pub(crate) fn may_have_factors(shape: &Shape) -> bool {
    shape.types == OBJECT
        && shape.one_of.is_none()
        && shape.witnesses.is_empty()
        && shape.unevaluated_properties.is_empty()
        && shape.min_properties <= 1
        && shape.max_properties.is_none()
}

/// Whether a shape has no conditions but those on listed members.
fn is_about_members(shape: &Shape) -> bool {
    may_have_factors(shape)
        && shape.min_properties == 0
        && shape.names.is_empty()
        && shape.factors.is_empty()
        && shape.refusals.iter().all(|refusal| refusal.types & OBJECT == 0)
}

impl Shape {
    /// The shape with the conditions on members of another one, too.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        let new = other.properties.iter().filter(|group| !self.properties.contains(group));
        both.properties.extend(new);
        both.property.extend(other.property.iter().cloned());
        both.required.extend(other.required.iter().filter(|name| !self.required.contains(name)).cloned());
        both.forbidden.extend(other.forbidden.iter().filter(|name| !self.forbidden.contains(name)).cloned());
        both
    }
}
