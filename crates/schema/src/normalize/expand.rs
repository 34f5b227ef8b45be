//! Expands a set of schemas to its shapes: `allOf` and references join the set; `anyOf`, `oneOf`, `if` and
//! negations branch.
//!
//! Negation is driven inwards until it reaches a keyword, and the negation of a keyword is a condition of the same
//! kind: the negation of `maxLength: 5` is `minLength: 6`, and the negation of `required` forbids the member. So
//! `not`, `oneOf` and `if` need no rules of their own. A condition on all members or items is broken by some member
//! or item, which is a condition too.
//!
//! Branches multiply. Four rules keep their number small: a branch without types is dropped at once; a branch with
//! a required member that has no possible value is dropped; a choice is skipped if one of its alternatives already
//! holds, and is no choice if only one alternative is possible; an alternative of `oneOf` excludes another one only
//! for the types whose values they may share. A limit bounds the rest. The searches for these contradictions have a
//! smaller limit of their own. A search that reaches it has found no contradiction, and results that depend on it
//! are used only in other searches.

use std::{rc::Rc, sync::Arc};

use super::{
    expander::{Branch, Expander},
    keywords,
    shape::{ARRAY, Atom, Choice, Conditions, NUMBER, OBJECT, STRING, Shape},
};
use crate::{
    SchemaError,
    document::{
        json::{NodeId, Value},
        literal::Literal,
    },
    text::{
        languages::Language,
        standard::{self, TEXT},
    },
};

/// An alternative of a choice in a branch.
enum Outlook {
    /// The branch already satisfies it.
    Holds,
    /// It leaves no type.
    Impossible,
    Open,
}

impl Expander {
    /// The shapes of the values that satisfy all schemas of `set`, which is sorted.
    pub(crate) fn shapes(&mut self, set: &[Literal]) -> Result<Rc<Vec<Shape>>, SchemaError> {
        if let Some(known) = self.shapes.get(set, self.open_searches > 0) {
            return Ok(Rc::clone(known));
        }
        let cuts = self.cut_searches;
        self.pending.insert(set.to_vec());
        let todo = set.iter().copied().map(Atom::Schema).collect();
        let done = self.expanded(set, Branch { shape: Shape::any(), todo, ..Branch::default() });
        let set = self.pending.take(set).unwrap_or_else(|| set.to_vec());
        let done = Rc::new(done?);
        self.shapes.insert(set, Rc::clone(&done), self.is_rough(cuts));
        Ok(done)
    }

    /// The shapes of a branch.
    pub(super) fn expanded(&mut self, set: &[Literal], first: Branch) -> Result<Vec<Shape>, SchemaError> {
        // Most sets have one shape and no choice.
        let (mut next, mut branches) = (Some(first), vec![]);
        let mut done = Vec::with_capacity(1);
        while let Some(mut branch) = next.take().or_else(|| branches.pop()) {
            self.count(set)?;
            let ways = loop {
                while branch.shape.types != 0 {
                    let Some(atom) = branch.todo.pop_front() else { break };
                    self.apply(&mut branch, atom)?;
                }
                branch.shape.settle();
                if branch.shape.types == 0 {
                    break None;
                }
                if self.factor(set, &mut branch)? {
                    continue;
                }
                match self.choose(&mut branch)? {
                    // A single alternative is no choice.
                    Some(ways) if ways.len() == 1 => branch.todo.extend(ways.into_iter().flatten()),
                    ways => break ways,
                }
            };
            let Some(ways) = ways else { continue };
            if !ways.is_empty() || !branch.shape.refusals.is_empty() {
                self.prune(&mut branch)?;
            }
            if branch.shape.types == 0 {
                continue;
            }
            if ways.is_empty() {
                done.push(branch.shape);
                continue;
            }
            for alternative in ways.into_iter().rev() {
                self.carry(branch.size())?;
                let mut next = branch.clone();
                next.todo.extend(alternative);
                branches.push(next);
            }
        }
        Ok(done)
    }

    /// The outlook of an alternative in a branch, as far as a cheap check can tell.
    fn outlook(&mut self, branch: &Branch, alternative: &[Atom]) -> Result<Outlook, SchemaError> {
        let shape = &branch.shape;
        let (mut types, mut new) = (shape.types, false);
        for (index, atom) in alternative.iter().enumerate() {
            match atom {
                Atom::Schema(literal) if branch.seen.contains(literal) => continue,
                Atom::Schema(literal) if branch.seen.contains(&literal.not()) => types = 0,
                Atom::Types(of) if types & !of == 0 => continue,
                Atom::Types(of) => types &= of,
                Atom::Require(name) if shape.required.contains(name) => continue,
                Atom::Require(name) if shape.forbidden.contains(name) => types &= !OBJECT,
                Atom::Forbid(name) if shape.forbidden.contains(name) => continue,
                Atom::Forbid(name) if shape.required.contains(name) => types &= !OBJECT,
                Atom::Property(name, literal)
                    if shape.property.iter().any(|(of, known)| known == literal && of == name) =>
                {
                    continue;
                }
                Atom::Property(name, literal) if self.is_listed(*literal) => {
                    let asked = alternative[..index].iter();
                    let required = shape.required.contains(name)
                        || asked.clone().any(|atom| matches!(atom, Atom::Require(of) if of == name));
                    let (mut holds, mut breaks) = (false, false);
                    for known in self.listed_conditions(shape, name)? {
                        holds = holds || known == *literal || self.disjoint(known, literal.not())?;
                        breaks = breaks || required && self.disjoint(known, *literal)?;
                    }
                    if breaks {
                        types &= !OBJECT;
                    } else if holds {
                        continue;
                    }
                }
                _ => {}
            }
            new = true;
        }
        Ok(match (types, new) {
            (0, _) => Outlook::Impossible,
            (_, true) => Outlook::Open,
            (_, false) => Outlook::Holds,
        })
    }

    /// The conditions on the member `name` that are lists of values.
    fn listed_conditions(&self, shape: &Shape, name: &str) -> Result<Vec<Literal>, SchemaError> {
        let mut found = vec![];
        found.extend(shape.property.iter().filter(|(of, _)| &**of == name).map(|(_, literal)| *literal));
        for group in &shape.properties {
            let declared = self.schemas.document.member(*group, "properties");
            let own = declared.and_then(|declared| self.schemas.document.member(declared, name));
            found.extend(own.map(|own| self.schemas.literal(own)).transpose()?);
        }
        found.retain(|literal| self.is_listed(*literal));
        Ok(found)
    }

    /// The alternatives of the next choice: of a choice that is already decided, or else of the last one; an empty
    /// list if no choice is left. `None` if some choice has no possible alternative.
    fn choose(&mut self, branch: &mut Branch) -> Result<Option<Choice>, SchemaError> {
        let mut index = branch.choices.len();
        while let Some(before) = index.checked_sub(1) {
            index = before;
            let choice = Rc::clone(&branch.choices[index]);
            self.count_comparisons(branch, &choice)?;
            let mut open = vec![];
            let mut holds = false;
            for alternative in choice.iter() {
                match self.outlook(branch, alternative)? {
                    Outlook::Open => open.push(alternative),
                    Outlook::Impossible => {}
                    Outlook::Holds => holds = true,
                }
            }
            if holds {
                // One alternative already holds.
                branch.choices.remove(index);
            } else if open.is_empty() {
                return Ok(None);
            } else if open.len() == 1 {
                branch.choices.remove(index);
                return Ok(Some(open.into_iter().cloned().collect()));
            } else if open.len() < choice.len() && index + 1 == branch.choices.len() {
                branch.choices[index] = Rc::new(open.into_iter().cloned().collect());
            }
        }
        let next = branch.first.pop().or_else(|| branch.choices.pop());
        Ok(Some(next.map_or_else(Vec::new, |choice| choice.to_vec())))
    }

    fn apply(&mut self, branch: &mut Branch, atom: Atom) -> Result<(), SchemaError> {
        let shape = &mut branch.shape;
        match atom {
            Atom::Schema(literal) => {
                if branch.seen.contains(&literal) {
                    return Ok(());
                }
                if branch.seen.contains(&literal.not()) {
                    shape.types = 0;
                    return Ok(());
                }
                branch.seen.push(literal);
                return self.schema(branch, literal);
            }
            Atom::Types(types) => shape.types &= types,
            Atom::Strings(language) => {
                let node = branch.seen.last().map(|literal| literal.node);
                self.narrow(shape, node, language.clone(), language)?;
            }
            Atom::SomeStrings { lower, upper, refusal } => {
                let node = branch.seen.last().map(|literal| literal.node);
                if shape.possible.is_none() && lower != upper {
                    let all = match &shape.strings {
                        Some(strings) => Ok(Some(Arc::clone(strings))),
                        None => self.languages.pattern(TEXT),
                    };
                    let all = self.located(node, all)?;
                    shape.possible = all.map(|all| (all, refusal));
                }
                self.narrow(shape, node, lower, upper)?;
            }
            Atom::Integer => shape.is_integer = true,
            Atom::Numbers(language) => {
                let node = branch.seen.last().copied();
                let merged = match &shape.numbers {
                    None => Ok(language),
                    Some(_) => self.languages.and(&shape.numbers, &language),
                };
                shape.numbers = self.located(node.map(|literal| literal.node), merged)?;
                if shape.numbers.is_none() {
                    shape.types &= !NUMBER;
                }
            }
            Atom::OneOf(values) => {
                let merged: Vec<NodeId> = match &shape.one_of {
                    None => values,
                    Some(old) => old
                        .iter()
                        .copied()
                        .filter(|old| values.iter().any(|new| self.equal_values(*old, *new)))
                        .collect(),
                };
                let document = &self.schemas.document;
                if !merged.iter().any(|node| matches!(document.value(*node), Value::Object(_))) {
                    shape.types &= !OBJECT;
                }
                if !merged.iter().any(|node| matches!(document.value(*node), Value::Array(_))) {
                    shape.types &= !ARRAY;
                }
                shape.one_of = Some(merged);
            }
            Atom::Properties(node) if shape.properties.contains(&node) => {}
            Atom::Items(node) if shape.items.contains(&node) => {}
            Atom::Properties(node) => shape.properties.push(node),
            Atom::Property(name, literal) => shape.property.push((name, literal)),
            Atom::Require(name) => {
                if !shape.required.contains(&name) {
                    shape.required.push(name);
                }
            }
            Atom::Forbid(name) => {
                if !shape.forbidden.contains(&name) {
                    shape.forbidden.push(name);
                }
            }
            Atom::Names(literal) => shape.names.push(literal),
            Atom::Any(choice) => branch.choices.push(choice),
            Atom::Witness(witness) => {
                if !shape.witnesses.contains(&witness) {
                    shape.witnesses.push(witness);
                }
            }
            Atom::UnevaluatedProperties(unevaluated) => shape.unevaluated_properties.push(unevaluated),
            Atom::Item(index, literal) => shape.item.push((index, literal)),
            Atom::Count(count) => {
                if !shape.counts.contains(&count) {
                    shape.counts.push(count);
                }
            }
            Atom::UnevaluatedItems(unevaluated) => shape.unevaluated_items.push(unevaluated),
            Atom::Unique(node) => shape.unique = Some(node),
            Atom::Repeating(node) => shape.repeating = Some(node),
            Atom::MinProperties(count) => shape.min_properties = shape.min_properties.max(count),
            Atom::MaxProperties(count) => {
                shape.max_properties = Some(shape.max_properties.map_or(count, |max| max.min(count)));
            }
            Atom::Items(node) => shape.items.push(node),
            Atom::MinLength(count) => shape.min_length = shape.min_length.max(count),
            Atom::MaxLength(count) => {
                shape.max_length = Some(shape.max_length.map_or(count, |max| max.min(count)));
            }
            Atom::MinItems(count) => shape.min_items = shape.min_items.max(count),
            Atom::MaxItems(count) => {
                shape.max_items = Some(shape.max_items.map_or(count, |max| max.min(count)));
            }
            Atom::Refuse(refusal) => shape.refusals.push(refusal),
        }
        Ok(())
    }

    /// Narrows the strings of a shape to `lower`, and its possible strings to `upper`.
    fn narrow(
        &mut self,
        shape: &mut Shape,
        node: Option<NodeId>,
        lower: Language,
        upper: Language,
    ) -> Result<(), SchemaError> {
        if shape.types & STRING == 0 {
            return Ok(());
        }
        let lower = match &shape.strings {
            None => Ok(lower),
            Some(_) => self.languages.and(&shape.strings, &lower),
        };
        let lower = self.located(node, lower)?;
        if let Some((possible, refusal)) = shape.possible.take() {
            let upper = self.languages.and(&Some(possible), &upper);
            shape.possible = self.located(node, upper)?.map(|possible| (possible, refusal));
        }
        match (lower, &shape.possible) {
            // Any text is no condition, and then a bound on the length alone can be counted.
            (Some(lower), None) if standard::is_all(&lower) => shape.strings = None,
            (Some(lower), _) => shape.strings = Some(lower),
            (None, None) => shape.types &= !STRING,
            // `strings` stays as it is, because the shape is refused as a whole.
            (None, Some((_, refusal))) => shape.refusals.push(refusal.clone()),
        }
        Ok(())
    }

    /// The conditions of a constant, or of a schema that is an object.
    pub(super) fn conditions_of(&mut self, literal: Literal) -> Result<Rc<Conditions>, SchemaError> {
        if let Some(known) = self.conditions.get(&literal, self.open_searches > 0) {
            return Ok(Rc::clone(known));
        }
        let cuts = self.cut_searches;
        let made = Rc::new(keywords::conditions(self, literal)?);
        self.conditions.insert(literal, Rc::clone(&made), self.is_rough(cuts));
        Ok(made)
    }

    fn schema(&mut self, branch: &mut Branch, literal: Literal) -> Result<(), SchemaError> {
        match self.schemas.document.value(literal.node) {
            Value::Bool(all) if !literal.constant => {
                if *all != literal.positive {
                    branch.shape.types = 0;
                }
                Ok(())
            }
            value if literal.constant || matches!(value, Value::Object(_)) => {
                let conditions = self.conditions_of(literal)?;
                // Conditions go to the front, so that members keep the order of the text.
                for atom in conditions.atoms.iter().rev() {
                    branch.todo.push_front(atom.clone());
                }
                branch.choices.extend(conditions.choices.iter().cloned());
                branch.first.extend(conditions.first.iter().cloned());
                Ok(())
            }
            _ => {
                let pointer = self.schemas.pointer(literal.node);
                let key = self.schemas.document.key(literal.node).unwrap_or("schema").to_owned();
                Err(SchemaError::invalid(pointer, &key, "must be a schema: an object, `true` or `false`"))
            }
        }
    }
}
