//! From a set of schemas to its shapes: `allOf` and references join the set, `anyOf`, `oneOf`, `if` and negations branch.
//!
//! Negation is driven inwards until it meets a keyword, where it is a condition of the same kind: what is not longer than five
//! is a string of at least six, what does not require a name forbids it. So `not`, `oneOf` and `if` need no rules of
//! their own. What cannot be turned round is refused, and only if a value of its type could come to it.
//!
//! Branches multiply. Two things keep them few: a branch without types left is dropped at once, and a member of `oneOf` that
//! provably shares no value with another need not be denied in it. A limit takes care of the rest.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

use unskew_automata::RegexError;
use unskew_grammars::Fate;

use crate::{
    SchemaError, SchemaLimits,
    json::{NodeId, Value},
    keywords,
    languages::{Language, Languages, TEXT},
    schemas::{Literal, Schemas},
    shape::{ARRAY, Atom, FALSE, NULL, NUMBER, OBJECT, Refusal, STRING, Shape, TRUE, Types},
};

/// How deep the search for a contradiction goes into required properties and items.
const DEPTH: u32 = 3;

/// How many searches for a contradiction are open at a time, at most: an expansion may ask for one, which may expand.
const OPEN: u32 = 4;

/// Alternatives, any of which will do: each is a list of conditions.
pub(crate) type Choice = Vec<Vec<Atom>>;

/// What a schema asks for: all of the conditions, and one alternative of each choice.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) choices: Vec<Rc<Choice>>,
}

#[derive(Debug)]
pub(crate) struct Expander {
    pub(crate) schemas: Schemas,
    pub(crate) languages: Languages,
    pub(crate) limits: SchemaLimits,
    /// By schema and keyword.
    pub(crate) fates: HashMap<(NodeId, String), (Fate, String)>,
    pub(crate) refused: Vec<SchemaError>,
    shapes: HashMap<Vec<Literal>, Rc<Vec<Shape>>>,
    conditions: HashMap<Literal, Rc<Conditions>>,
    disjoint: HashMap<(Literal, Literal), bool>,
    alternatives: usize,
    /// What was copied from alternative to alternative.
    carried: usize,
    open: u32,
}

#[derive(Clone)]
struct Branch {
    shape: Shape,
    todo: VecDeque<Atom>,
    choices: Vec<Rc<Choice>>,
    seen: Vec<Literal>,
}

impl Branch {
    /// How much a copy of it takes, in parts.
    fn size(&self) -> usize {
        let shape = &self.shape;
        let members =
            shape.properties.len() + shape.property.len() + shape.required.len() + shape.forbidden.len();
        1 + members + self.todo.len() + self.choices.len() + self.seen.len()
    }
}

impl Expander {
    pub(crate) fn new(schemas: Schemas, limits: &SchemaLimits) -> Self {
        Self {
            schemas,
            languages: Languages::new(limits),
            limits: limits.clone(),
            fates: HashMap::new(),
            refused: vec![],
            shapes: HashMap::new(),
            conditions: HashMap::new(),
            disjoint: HashMap::new(),
            alternatives: 0,
            carried: 0,
            open: 0,
        }
    }

    /// The shapes of the values that satisfy all of `set`, which is sorted.
    pub(crate) fn shapes(&mut self, set: &[Literal]) -> Result<Rc<Vec<Shape>>, SchemaError> {
        if let Some(known) = self.shapes.get(set) {
            return Ok(Rc::clone(known));
        }
        let todo = set.iter().copied().map(Atom::Schema).collect();
        let mut branches = vec![Branch { shape: Shape::any(), todo, choices: vec![], seen: vec![] }];
        let mut done = vec![];
        while let Some(mut branch) = branches.pop() {
            self.alternatives += 1;
            if self.alternatives > self.limits.alternatives {
                let pointer =
                    set.first().map_or("#".to_owned(), |literal| self.schemas.pointer(literal.node));
                let limit = self.limits.alternatives;
                return Err(SchemaError::limit(&pointer, "the alternatives", limit, "alternatives"));
            }
            while branch.shape.types != 0 {
                let Some(atom) = branch.todo.pop_front() else { break };
                self.apply(&mut branch, atom)?;
            }
            branch.shape.settle();
            if branch.shape.types == 0 {
                continue;
            }
            match branch.choices.pop() {
                None => done.push(branch.shape),
                Some(choice) => {
                    for alternative in choice.iter().rev() {
                        self.carry(branch.size())?;
                        let mut next = branch.clone();
                        next.todo.extend(alternative.iter().cloned());
                        branches.push(next);
                    }
                }
            }
        }
        let done = Rc::new(done);
        self.shapes.insert(set.to_vec(), Rc::clone(&done));
        Ok(done)
    }

    /// Counts work that is in proportion to what is known of a value.
    fn carry(&mut self, parts: usize) -> Result<(), SchemaError> {
        self.carried += parts;
        let limit = self.limits.carried;
        if self.carried > limit {
            return Err(SchemaError::limit("", "the conditions that alternatives carry", limit, "carried"));
        }
        Ok(())
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
                let node = branch.seen.last().copied();
                let merged = match &shape.strings {
                    None => Ok(language),
                    Some(_) => self.languages.and(&shape.strings, &language),
                };
                shape.strings = self.located(node.map(|literal| literal.node), merged)?;
                if shape.strings.is_none() {
                    shape.types &= !STRING;
                }
            }
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
                        .filter(|old| values.iter().any(|new| self.same(*old, *new)))
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

    fn schema(&mut self, branch: &mut Branch, literal: Literal) -> Result<(), SchemaError> {
        match self.schemas.document.value(literal.node) {
            Value::Bool(all) => {
                if *all != literal.positive {
                    branch.shape.types = 0;
                }
                Ok(())
            }
            Value::Object(_) => {
                let conditions = match self.conditions.get(&literal) {
                    Some(known) => Rc::clone(known),
                    None => {
                        let made = Rc::new(keywords::conditions(self, literal)?);
                        self.conditions.insert(literal, Rc::clone(&made));
                        made
                    }
                };
                // In front, so that members keep the order in which they stand in the text.
                for atom in conditions.atoms.iter().rev() {
                    branch.todo.push_front(atom.clone());
                }
                branch.choices.extend(conditions.choices.iter().cloned());
                Ok(())
            }
            _ => {
                let pointer = self.schemas.pointer(literal.node);
                let key = self.schemas.document.key(literal.node).unwrap_or("schema").to_owned();
                Err(SchemaError::invalid(pointer, &key, "must be a schema: an object, `true` or `false`"))
            }
        }
    }

    /// Whether no value satisfies both, as far as that is easily seen.
    pub(crate) fn disjoint(&mut self, left: Literal, right: Literal) -> Result<bool, SchemaError> {
        let pair = (left.min(right), left.max(right));
        if let Some(known) = self.disjoint.get(&pair) {
            return Ok(*known);
        }
        if self.open >= OPEN {
            return Ok(false);
        }
        self.open += 1;
        // Until it is known, which it may be asked for on the way.
        self.disjoint.insert(pair, false);
        let found = self.is_empty(&[pair.0, pair.1], DEPTH);
        self.open -= 1;
        let found = found?;
        self.disjoint.insert(pair, found);
        Ok(found)
    }

    /// Whether no value satisfies all of the set, as far as that is seen within `depth` levels.
    fn is_empty(&mut self, set: &[Literal], depth: u32) -> Result<bool, SchemaError> {
        let shapes = self.shapes(set)?;
        for shape in shapes.iter() {
            let mut types: Types = shape.types;
            if types & OBJECT != 0 && depth > 0 {
                for name in &shape.required {
                    let Some(parts) = self.property(shape, name)? else {
                        types &= !OBJECT;
                        break;
                    };
                    if !parts.is_empty() && self.is_empty(&parts, depth - 1)? {
                        types &= !OBJECT;
                        break;
                    }
                }
            }
            if types != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the value at `name` must satisfy; `None` if there must be none.
    pub(crate) fn property(
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
            for (pattern, schema) in keywords::patterns(self, *group)? {
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
        Ok(self.normal(set))
    }

    /// The texts of strings that satisfy the set: names.
    pub(crate) fn names(&mut self, set: &[Literal]) -> Result<Language, SchemaError> {
        let shapes = self.shapes(set)?;
        let mut union = None;
        for shape in shapes.iter().filter(|shape| shape.types & STRING != 0) {
            self.refuse(shape, STRING);
            let node = set.first().map(|literal| literal.node);
            let language = self.texts(shape);
            let language = self.located(node, language)?;
            let merged = self.languages.or(&union, &language);
            union = self.located(node, merged)?;
        }
        Ok(union)
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
        let max = shape.max_length.map_or_else(String::new, |max| max.to_string());
        let length = self.languages.pattern(&format!("(?s:.){{{},{max}}}", shape.min_length))?;
        if shape.strings.is_none() { Ok(length) } else { self.languages.and(&language, &length) }
    }

    /// Whether the value at `node` satisfies all of the set.
    fn satisfies(&mut self, node: NodeId, set: &[Literal]) -> Result<bool, SchemaError> {
        let shapes = self.shapes(set)?;
        for shape in shapes.iter() {
            if self.fits(node, shape)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the value at `node` has the shape. As deep as the value, the nesting of which is limited.
    pub(crate) fn fits(&mut self, node: NodeId, shape: &Shape) -> Result<bool, SchemaError> {
        let value = self.schemas.document.value(node).clone();
        let types = match &value {
            Value::Null => NULL,
            Value::Bool(false) => FALSE,
            Value::Bool(true) => TRUE,
            Value::Number(_) => NUMBER,
            Value::String(_) => STRING,
            Value::Array(_) => ARRAY,
            Value::Object(_) => OBJECT,
        };
        if shape.types & types == 0 {
            return Ok(false);
        }
        self.refuse(shape, types);
        let within = |count: usize, min: u32, max: Option<u32>| {
            count >= min as usize && max.is_none_or(|max| count <= max as usize)
        };
        if let Some(values) = &shape.one_of
            && types & (ARRAY | OBJECT) != 0
            && !values.iter().any(|value| self.same(*value, node))
        {
            return Ok(false);
        }
        match value {
            Value::Null | Value::Bool(_) => Ok(true),
            Value::Number(number) => {
                let Some(numbers) = &shape.numbers else { return Ok(true) };
                let written = number.written().ok_or_else(|| {
                    let pointer = self.schemas.pointer(node);
                    SchemaError::invalid(pointer, "enum", "must have numbers of at most 400 digits")
                })?;
                Ok(numbers.accepts(written.as_bytes()))
            }
            Value::String(text) => {
                let matches = shape.strings.as_ref().is_none_or(|strings| strings.accepts(text.as_bytes()));
                Ok(matches && within(text.chars().count(), shape.min_length, shape.max_length))
            }
            Value::Array(items) => {
                if !within(items.len(), shape.min_items, shape.max_items) {
                    return Ok(false);
                }
                let groups: Vec<_> = shape.items.iter().map(|group| keywords::items(self, *group)).collect();
                for (place, item) in items.into_iter().enumerate() {
                    for (first, others) in &groups {
                        if let Some(schema) = first.get(place).copied().or(*others) {
                            let literal = self.schemas.literal(schema)?;
                            if !self.satisfies(item, &[literal])? {
                                return Ok(false);
                            }
                        }
                    }
                }
                Ok(true)
            }
            Value::Object(members) => {
                let has = |name: &str| members.iter().any(|(key, _)| &**key == name);
                if !within(members.len(), shape.min_properties, shape.max_properties)
                    || !shape.required.iter().all(|name| has(name))
                {
                    return Ok(false);
                }
                for (name, value) in &members {
                    match self.property(shape, name)? {
                        Some(set) if self.satisfies(*value, &set)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }

    /// Keeps what a shape does not enforce, of values of these types.
    pub(crate) fn refuse(&mut self, shape: &Shape, types: Types) {
        for refusal in shape.refusals.iter().filter(|refusal| refusal.types & types & shape.types != 0) {
            let Refusal { node, keyword, reason, way_out, .. } = refusal;
            let error = SchemaError::Unsupported {
                pointer: self.schemas.pointer(*node),
                keyword: keyword.clone(),
                reason: reason.clone(),
                way_out,
            };
            let fate = (Fate::Rejected, format!("{reason}; {way_out}"));
            self.fates.insert((*node, keyword.clone()), fate);
            if !self.refused.contains(&error) {
                self.refused.push(error);
            }
        }
    }

    /// The set in its normal form, sorted and without what always holds; `None` if nothing satisfies it at a glance.
    pub(crate) fn normal(&self, mut set: Vec<Literal>) -> Option<Vec<Literal>> {
        set.sort_unstable();
        set.dedup();
        let trivial =
            |literal: &Literal| self.schemas.trivial(literal.node).map(|all| all == literal.positive);
        if set.iter().any(|literal| trivial(literal) == Some(false)) {
            return None;
        }
        set.retain(|literal| trivial(literal).is_none());
        Some(set)
    }

    /// Whether two values are equal, as JSON Schema has it.
    pub(crate) fn same(&self, left: NodeId, right: NodeId) -> bool {
        let document = &self.schemas.document;
        // The nesting of a document is limited; a list in place of the stack all the same.
        let mut pairs = vec![(left, right)];
        while let Some((left, right)) = pairs.pop() {
            let equal = match (document.value(left), document.value(right)) {
                (Value::Null, Value::Null) => true,
                (Value::Bool(left), Value::Bool(right)) => left == right,
                (Value::Number(left), Value::Number(right)) => left == right,
                (Value::String(left), Value::String(right)) => left == right,
                (Value::Array(left), Value::Array(right)) => {
                    pairs.extend(left.iter().copied().zip(right.iter().copied()));
                    left.len() == right.len()
                }
                (Value::Object(left), Value::Object(other)) => {
                    let found: Vec<_> =
                        left.iter().map(|(key, value)| (*value, document.member(right, key))).collect();
                    let all = left.len() == other.len() && found.iter().all(|(_, found)| found.is_some());
                    pairs.extend(found.into_iter().filter_map(|(left, right)| Some((left, right?))));
                    all
                }
                _ => false,
            };
            if !equal {
                return false;
            }
        }
        true
    }

    pub(crate) fn located<T>(
        &self,
        node: Option<NodeId>,
        made: Result<T, RegexError>,
    ) -> Result<T, SchemaError> {
        made.map_err(|source| {
            let pointer = node.map_or_else(|| "#".to_owned(), |node| self.schemas.pointer(node));
            SchemaError::Automaton { pointer, source }
        })
    }
}
