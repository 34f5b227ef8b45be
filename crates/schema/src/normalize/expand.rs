//! From a set of schemas to its shapes: `allOf` and references join the set, `anyOf`, `oneOf`, `if` and negations branch.
//!
//! Negation is driven inwards until it meets a keyword, where it is a condition of the same kind: what is not longer than five
//! is a string of at least six, what does not require a name forbids it. So `not`, `oneOf` and `if` need no rules of
//! their own. What is said of all members or items is broken by some of them, which is a condition too.
//!
//! Branches multiply. Four things keep them few: a branch without types left is dropped at once, and so is one with a
//! required member that no value fits; a choice with an alternative that holds as it is need not be made, and one with
//! a single alternative left is none; a member of `oneOf` is denied only for the types of which it may share values with
//! another. A limit takes care of the rest. Searches for such contradictions have a smaller one of their own: one that is cut short
//! has found nothing, and what was made of that is not used outside of searches.

use std::{borrow::Borrow, collections::VecDeque, hash::Hash, rc::Rc, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::RegexError;
use unskew_core::Cancel;
use unskew_grammars::Fate;

use super::{
    finite::Finite,
    keywords,
    shape::{ALL, ARRAY, Atom, Choice, NUMBER, Names, OBJECT, STRING, Shape, Types},
};
use crate::{
    SchemaError, SchemaLimits, SchemaOptions,
    document::{
        json::{NodeId, Value},
        schemas::{Literal, Schemas},
    },
    text::{
        languages::{Language, Languages, TEXT},
        standard,
    },
};

/// How deep the search for a contradiction goes into required properties and items.
const DEPTH: u32 = 3;

/// How many searches for a contradiction are open at a time, at most: an expansion may ask for one, which may expand.
const OPEN: u32 = 4;

/// Alternatives that one search for a contradiction looks at, at most, and as many times those of the limit that all do.
const GUESS: usize = 1_000;
const GUESSES: usize = 4;

/// Comparisons that are counted as an alternative.
const GLANCES: usize = 256;

/// What a schema asks for: all of the conditions, and one alternative of each choice.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) choices: Vec<Rc<Choice>>,
    /// Choices that decide others, and are therefore made before them.
    pub(crate) first: Vec<Rc<Choice>>,
}

#[derive(Debug)]
pub(crate) struct Expander {
    pub(crate) schemas: Schemas,
    pub(crate) languages: Languages,
    pub(crate) limits: SchemaLimits,
    cancel: Cancel,
    /// By schema and keyword.
    pub(crate) fates: HashMap<(NodeId, String), (Fate, String)>,
    pub(crate) refused: Vec<SchemaError>,
    /// What leaves out values that the schema allows: the schema, the keyword, or nothing where the schema as a whole is meant, and why.
    pub(crate) narrowed: Vec<(NodeId, String, String)>,
    shapes: Kept<Vec<Literal>, Rc<Vec<Shape>>>,
    conditions: Kept<Literal, Rc<Conditions>>,
    overlaps: Kept<(Literal, Literal), Types>,
    /// Sets whose shapes are being looked for.
    pending: HashSet<Vec<Literal>>,
    pub(crate) name_sets: HashMap<Names, Language>,
    pub(crate) finite: HashMap<Vec<Literal>, Option<Rc<Vec<Finite>>>>,
    alternatives: usize,
    /// What was copied from alternative to alternative.
    carried: usize,
    /// Searches for a contradiction that are open. In one nothing is refused.
    open: u32,
    /// Alternatives that searches have looked at, and where the one that is open has to stop.
    guessed: usize,
    guess_end: usize,
    glances: usize,
    /// Searches that were cut short. What was found meanwhile is right, and maybe not the best.
    cuts: usize,
}

/// Results, and those that are only good enough for a search.
#[derive(Debug)]
struct Kept<K, V> {
    best: HashMap<K, V>,
    rough: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Kept<K, V> {
    fn new() -> Self {
        Self { best: HashMap::new(), rough: HashMap::new() }
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q, rough: bool) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.best.get(key).or_else(|| self.rough.get(key).filter(|_| rough))
    }

    fn insert(&mut self, key: K, value: V, rough: bool) {
        if rough { &mut self.rough } else { &mut self.best }.insert(key, value);
    }

    fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.best.remove(key);
        self.rough.remove(key);
    }
}

/// What it costs to compare two schemas, in parts of what alternatives carry: `oneOf` compares each with each.
const PAIR: usize = 16;

#[derive(Clone, Default)]
struct Branch {
    shape: Shape,
    todo: VecDeque<Atom>,
    choices: Vec<Rc<Choice>>,
    first: Vec<Rc<Choice>>,
    seen: Vec<Literal>,
    /// How much the shape said of members when they were last looked at.
    looked: usize,
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
    pub(crate) fn new(schemas: Schemas, options: &SchemaOptions, limits: &SchemaLimits) -> Self {
        Self {
            schemas,
            languages: Languages::new(options, limits),
            limits: limits.clone(),
            cancel: options.cancel.clone(),
            fates: HashMap::new(),
            refused: vec![],
            narrowed: vec![],
            shapes: Kept::new(),
            conditions: Kept::new(),
            overlaps: Kept::new(),
            pending: HashSet::new(),
            name_sets: HashMap::new(),
            finite: HashMap::new(),
            alternatives: 0,
            carried: 0,
            open: 0,
            guessed: 0,
            guess_end: 0,
            glances: 0,
            cuts: 0,
        }
    }

    /// The shapes of the values that satisfy all of `set`, which is sorted.
    pub(crate) fn shapes(&mut self, set: &[Literal]) -> Result<Rc<Vec<Shape>>, SchemaError> {
        if let Some(known) = self.shapes.get(set, self.open > 0) {
            return Ok(Rc::clone(known));
        }
        let cuts = self.cuts;
        self.pending.insert(set.to_vec());
        let done = self.expanded(set);
        self.pending.remove(set);
        let done = Rc::new(done?);
        self.shapes.insert(set.to_vec(), Rc::clone(&done), self.is_rough(cuts));
        Ok(done)
    }

    /// Whether a search was cut short since there were so many cuts, so that another may find more.
    fn is_rough(&self, cuts: usize) -> bool {
        self.open > 0 && self.cuts != cuts
    }

    /// An error if the end was asked for.
    pub(crate) fn cancelled(&self) -> Result<(), SchemaError> {
        if self.cancel.is_cancelled() { Err(SchemaError::Cancelled) } else { Ok(()) }
    }

    /// Counts an alternative.
    fn count(&mut self, set: &[Literal]) -> Result<(), SchemaError> {
        self.cancelled()?;
        let (count, limit) = match self.open {
            0 => (&mut self.alternatives, self.limits.alternatives),
            _ => (&mut self.guessed, self.guess_end),
        };
        *count += 1;
        if *count <= limit {
            return Ok(());
        }
        let pointer = set.first().map_or("#".to_owned(), |literal| self.schemas.pointer(literal.node));
        let limit = self.limits.alternatives;
        Err(SchemaError::limit(&pointer, "the alternatives", limit, "alternatives"))
    }

    /// Counts how long it takes to see which alternatives are left: so many comparisons are as good as an alternative.
    fn glance(&mut self, branch: &Branch, choice: &Choice) -> Result<(), SchemaError> {
        self.cancelled()?;
        let shape = &branch.shape;
        let known = branch.seen.len() + shape.property.len() + shape.properties.len() + shape.required.len();
        let atoms = choice.iter().map(Vec::len).sum::<usize>();
        self.glances += atoms.saturating_mul(1 + known);
        let whole = self.glances / GLANCES;
        self.glances %= GLANCES;
        let (count, limit) = match self.open {
            0 => (&mut self.alternatives, self.limits.alternatives),
            _ => (&mut self.guessed, self.guess_end),
        };
        *count = count.saturating_add(whole);
        if *count <= limit {
            return Ok(());
        }
        Err(SchemaError::limit("", "the alternatives", self.limits.alternatives, "alternatives"))
    }

    /// Looks for a contradiction: what `find` finds, or `false` where that takes too long.
    fn search(
        &mut self,
        find: impl FnOnce(&mut Self) -> Result<bool, SchemaError>,
    ) -> Result<bool, SchemaError> {
        if self.open == 0 {
            let all = self.limits.alternatives.saturating_mul(GUESSES);
            self.guess_end = all.min(self.guessed.saturating_add(GUESS));
        }
        if self.open >= OPEN || self.guessed >= self.guess_end {
            self.cuts += 1;
            return Ok(false);
        }
        self.open += 1;
        let found = find(self);
        self.open -= 1;
        match found {
            Err(SchemaError::Limit { .. } | SchemaError::Automaton { .. }) => {
                self.cuts += 1;
                Ok(false)
            }
            found => found,
        }
    }

    fn expanded(&mut self, set: &[Literal]) -> Result<Vec<Shape>, SchemaError> {
        let todo = set.iter().copied().map(Atom::Schema).collect();
        let mut branches = vec![Branch { shape: Shape::any(), todo, ..Branch::default() }];
        let mut done = vec![];
        while let Some(mut branch) = branches.pop() {
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
                match self.choose(&mut branch)? {
                    // What is left to do without a choice.
                    Some(ways) if ways.len() == 1 => branch.todo.extend(ways.into_iter().flatten()),
                    ways => break ways,
                }
            };
            let Some(ways) = ways else { continue };
            if !ways.is_empty() || !branch.shape.refusals.is_empty() {
                self.look(&mut branch)?;
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

    /// Counts work that is in proportion to what is known of a value. Searches have bounds of their own.
    pub(crate) fn carry(&mut self, parts: usize) -> Result<(), SchemaError> {
        self.cancelled()?;
        if self.open > 0 {
            return Ok(());
        }
        self.carried += parts;
        let limit = self.limits.carried;
        if self.carried > limit {
            return Err(SchemaError::limit("", "the conditions that alternatives carry", limit, "carried"));
        }
        Ok(())
    }

    /// Drops objects from a shape with a required member that no value fits: what is chosen by a member (`kind`, say) is
    /// thereby chosen once, and not in every combination.
    fn look(&mut self, branch: &mut Branch) -> Result<(), SchemaError> {
        let shape = &branch.shape;
        let known = shape.properties.len() + shape.property.len() + shape.names.len();
        let said = known + shape.required.len();
        if shape.types & OBJECT == 0 || known < 2 || said == branch.looked {
            return Ok(());
        }
        branch.looked = said;
        let shape = &branch.shape;
        if self.search(|ex| ex.lacks_member(shape, 1))? {
            branch.shape.types &= !OBJECT;
        }
        Ok(())
    }

    /// Whether the alternative has something to say, and leaves a type to the value, as far as that is seen at a glance.
    fn open(&mut self, branch: &Branch, alternative: &[Atom]) -> Result<Option<bool>, SchemaError> {
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
                Atom::Property(name, literal) if self.lists(*literal) => {
                    let asked = alternative[..index].iter();
                    let required = shape.required.contains(name)
                        || asked.clone().any(|atom| matches!(atom, Atom::Require(of) if of == name));
                    let (mut holds, mut breaks) = (false, false);
                    for known in self.listed(shape, name)? {
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
        Ok(if types == 0 { Some(false) } else { new.then_some(true) })
    }

    /// Whether the literal is about values that are listed, which are soon compared.
    pub(crate) fn lists(&self, literal: Literal) -> bool {
        let member = |keyword| self.schemas.document.member(literal.node, keyword).is_some();
        literal.constant || member("const") || member("enum")
    }

    /// What is known of the member `name` by lists of values.
    fn listed(&self, shape: &Shape, name: &str) -> Result<Vec<Literal>, SchemaError> {
        let mut found = vec![];
        found.extend(shape.property.iter().filter(|(of, _)| &**of == name).map(|(_, literal)| *literal));
        for group in &shape.properties {
            let declared = self.schemas.document.member(*group, "properties");
            let own = declared.and_then(|declared| self.schemas.document.member(declared, name));
            found.extend(own.map(|own| self.schemas.literal(own)).transpose()?);
        }
        found.retain(|literal| self.lists(*literal));
        Ok(found)
    }

    /// The alternatives of the next choice: of one that is decided already, or else of the last; none if nothing is left to
    /// choose. `None` if some choice has no alternative left.
    fn choose(&mut self, branch: &mut Branch) -> Result<Option<Choice>, SchemaError> {
        let mut index = branch.choices.len();
        while let Some(before) = index.checked_sub(1) {
            index = before;
            let choice = Rc::clone(&branch.choices[index]);
            self.glance(branch, &choice)?;
            let mut open = vec![];
            let mut holds = false;
            for alternative in choice.iter() {
                match self.open(branch, alternative)? {
                    Some(true) => open.push(alternative),
                    Some(false) => {}
                    None => holds = true,
                }
            }
            if holds {
                // One of them holds as it is.
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
            Atom::Any(choice) => branch.choices.push(choice),
            Atom::Witness(witness) => {
                if !shape.witnesses.contains(&witness) {
                    shape.witnesses.push(witness);
                }
            }
            Atom::UnevaluatedProperties(unevaluated) => shape.unevaluated_properties.push(unevaluated),
            Atom::Item(place, literal) => shape.item.push((place, literal)),
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

    /// Narrows the strings of a shape to `lower`, and what would do to `upper`.
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
            // Any text is no condition: a length alone is counted.
            (Some(lower), None) if standard::is_all(&lower) => shape.strings = None,
            (Some(lower), _) => shape.strings = Some(lower),
            (None, None) => shape.types &= !STRING,
            // Not narrowed: what is left is refused as a whole.
            (None, Some((_, refusal))) => shape.refusals.push(refusal.clone()),
        }
        Ok(())
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
                let conditions = match self.conditions.get(&literal, self.open > 0) {
                    Some(known) => Rc::clone(known),
                    None => {
                        let cuts = self.cuts;
                        let made = Rc::new(keywords::conditions(self, literal)?);
                        self.conditions.insert(literal, Rc::clone(&made), self.is_rough(cuts));
                        made
                    }
                };
                // In front, so that members keep the order in which they stand in the text.
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

    /// Whether no value satisfies both, as far as that is easily seen.
    pub(crate) fn disjoint(&mut self, left: Literal, right: Literal) -> Result<bool, SchemaError> {
        Ok(left == right.not() || self.overlap(left, right)? == 0)
    }

    /// The types of which values may satisfy both, as far as that is easily seen.
    pub(crate) fn overlap(&mut self, left: Literal, right: Literal) -> Result<Types, SchemaError> {
        let pair = (left.min(right), left.max(right));
        if let Some(known) = self.overlaps.get(&pair, self.open > 0) {
            return Ok(*known);
        }
        self.carry(PAIR)?;
        let cuts = self.cuts;
        // Until it is known, which it may be asked for on the way.
        self.overlaps.insert(pair, ALL, true);
        let mut types = ALL;
        let set = [pair.0, pair.1];
        let known = self.shapes.get(&set[..], true).is_some();
        self.search(|ex| {
            types = ex.types_of(&set, DEPTH)?;
            Ok(true)
        })?;
        if !known {
            // Few pairs are ever asked for again, and there may be very many.
            self.shapes.remove(&set[..]);
        }
        self.overlaps.insert(pair, types, self.is_rough(cuts));
        Ok(types)
    }

    /// Whether no value satisfies all of the set, as far as that is seen within `depth` levels.
    fn is_empty(&mut self, set: &[Literal], depth: u32) -> Result<bool, SchemaError> {
        Ok(self.types_of(set, depth)? == 0)
    }

    /// The types of the values that satisfy all of the set, as far as that is seen within `depth` levels.
    fn types_of(&mut self, set: &[Literal], depth: u32) -> Result<Types, SchemaError> {
        if self.pending.contains(set) {
            self.cuts += 1;
            return Ok(ALL);
        }
        let shapes = self.shapes(set)?;
        let mut all = 0;
        for shape in shapes.iter() {
            let mut types: Types = shape.types;
            if let Some(values) = &shape.one_of
                && types & (ARRAY | OBJECT) & !all != 0
            {
                let mut fitting = false;
                for value in values {
                    fitting = fitting || self.fits(*value, shape)?;
                }
                types &= if fitting { ALL } else { !(ARRAY | OBJECT) };
            }
            if types & OBJECT & !all != 0 && depth > 0 && self.lacks_member(shape, depth)? {
                types &= !OBJECT;
            }
            if types & ARRAY & !all != 0 && depth > 0 && self.lacks_item(shape, depth)? {
                types &= !ARRAY;
            }
            all |= types;
        }
        Ok(all)
    }

    /// Whether an object of the shape must have a member that it cannot have, as far as that is seen.
    fn lacks_member(&mut self, shape: &Shape, depth: u32) -> Result<bool, SchemaError> {
        for name in &shape.required {
            let Some(parts) = self.property(shape, name)? else { return Ok(true) };
            if !parts.is_empty() && self.is_empty(&parts, depth - 1)? {
                return Ok(true);
            }
        }
        if shape.witnesses.is_empty() {
            return Ok(false);
        }
        let Some(names) = self.all_names(shape) else { return Ok(false) };
        for witness in &shape.witnesses {
            let mut found = false;
            for name in &names {
                if !found
                    && self.is_in(name, &witness.names)?
                    && let Some(mut parts) = self.property(shape, name)?
                {
                    parts.extend(witness.value);
                    found = match self.normal(parts) {
                        Some(parts) => parts.is_empty() || !self.is_empty(&parts, depth - 1)?,
                        None => false,
                    };
                }
            }
            if !found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an array of the shape must have an item that it cannot have, as far as that is seen.
    fn lacks_item(&mut self, shape: &Shape, depth: u32) -> Result<bool, SchemaError> {
        let fewest = shape.min_items.max(shape.counts.iter().map(|count| count.min).max().unwrap_or(0));
        if fewest == 0 {
            return Ok(false);
        }
        let items = self.items(shape);
        for place in 0..=items.alike.min(fewest - 1) {
            let mut found = false;
            for set in self.item_sets(shape, &items, place)? {
                found = found || set.is_empty() || !self.is_empty(&set, depth - 1)?;
            }
            if !found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All names that members of the shape may have at most, if a schema lists them.
    fn all_names(&self, shape: &Shape) -> Option<Vec<Box<str>>> {
        let document = &self.schemas.document;
        let closed = shape.properties.iter().find(|group| {
            let additional = document.member(**group, "additionalProperties");
            additional.is_some_and(|additional| self.schemas.trivial(additional) == Some(false))
                && document.member(**group, "patternProperties").is_none()
        })?;
        let declared = document.member(*closed, "properties").and_then(|declared| document.members(declared));
        Some(declared.unwrap_or_default().iter().map(|(name, _)| name.clone()).collect())
    }

    /// Keeps what a shape does not enforce, of values of these types.
    pub(crate) fn refuse(&mut self, shape: &Shape, types: Types) {
        if self.open > 0 {
            return;
        }
        for refusal in shape.refusals.iter().filter(|refusal| refusal.types & types & shape.types != 0) {
            self.reject(refusal.node, &refusal.keyword, &refusal.reason, refusal.way_out);
        }
    }

    /// Keeps that a keyword is not enforced.
    pub(crate) fn reject(&mut self, node: NodeId, keyword: &str, reason: &str, way_out: &'static str) {
        let error = SchemaError::Unsupported {
            pointer: self.schemas.pointer(node),
            keyword: keyword.to_owned(),
            reason: reason.to_owned(),
            way_out,
        };
        let fate = (Fate::Rejected, format!("{reason}; {way_out}"));
        self.fates.insert((self.schemas.original(node), keyword.to_owned()), fate);
        if !self.refused.contains(&error) {
            self.refused.push(error);
        }
    }

    /// Keeps that some values that a keyword allows are no outputs.
    pub(crate) fn narrow_down(&mut self, node: NodeId, keyword: &str, why: String) {
        let narrowed = (self.schemas.original(node), keyword.to_owned(), why);
        if !self.narrowed.contains(&narrowed) {
            self.narrowed.push(narrowed);
        }
    }

    /// The set in its normal form, sorted and without what always holds; `None` if nothing satisfies it at a glance.
    pub(crate) fn normal(&self, mut set: Vec<Literal>) -> Option<Vec<Literal>> {
        set.sort_unstable();
        set.dedup();
        let trivial = |literal: &Literal| self.schemas.obvious(*literal);
        if set.iter().any(|literal| trivial(literal) == Some(false)) {
            return None;
        }
        set.retain(|literal| trivial(literal).is_none());
        Some(set)
    }

    pub(crate) fn located<T>(
        &self,
        node: Option<NodeId>,
        made: Result<T, RegexError>,
    ) -> Result<T, SchemaError> {
        self.cancelled()?;
        made.map_err(|source| {
            let pointer = node.map_or_else(|| "#".to_owned(), |node| self.schemas.pointer(node));
            SchemaError::Automaton { pointer, source }
        })
    }
}
