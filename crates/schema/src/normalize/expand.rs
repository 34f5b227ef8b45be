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

/// The depth of the search for a contradiction, in required members and items.
const DEPTH: u32 = 3;

/// The largest number of nested searches for a contradiction; an expansion may start a search, and a search may
/// expand.
const OPEN: u32 = 4;

/// The largest number of alternatives in one search for a contradiction, and in all searches, as a multiple of the
/// limit.
const GUESS: usize = 1_000;
const GUESSES: usize = 4;

/// The number of comparisons that count as one alternative.
const GLANCES: usize = 256;

/// The conditions of a schema: all `atoms`, and one alternative of each choice.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) choices: Vec<Rc<Choice>>,
    /// Choices that decide others and are therefore made first.
    pub(crate) first: Vec<Rc<Choice>>,
}

#[derive(Debug)]
pub(crate) struct Expander {
    pub(crate) schemas: Schemas,
    pub(crate) languages: Languages,
    pub(crate) limits: SchemaLimits,
    cancel: Cancel,
    /// Keyed by schema and keyword.
    pub(crate) fates: HashMap<(NodeId, String), (Fate, String)>,
    pub(crate) refused: Vec<SchemaError>,
    /// The keywords that exclude values which the schema allows: the schema, the keyword (empty for the schema as a
    /// whole), and the reason.
    pub(crate) narrowed: Vec<(NodeId, String, String)>,
    shapes: Kept<Vec<Literal>, Rc<Vec<Shape>>>,
    conditions: Kept<Literal, Rc<Conditions>>,
    overlaps: Kept<(Literal, Literal), Types>,
    /// Sets whose shapes are being computed.
    pending: HashSet<Vec<Literal>>,
    pub(crate) name_sets: HashMap<Names, Language>,
    pub(crate) finite: HashMap<Vec<Literal>, Option<Rc<Vec<Finite>>>>,
    alternatives: usize,
    /// The number of conditions that were copied from alternative to alternative.
    carried: usize,
    /// The number of open searches for a contradiction. During a search nothing is refused.
    open: u32,
    /// The number of alternatives in all searches so far, and the number at which the open search stops.
    guessed: usize,
    guess_end: usize,
    glances: usize,
    /// The number of searches that reached a limit. Results that were computed meanwhile are correct, but possibly
    /// weaker.
    cuts: usize,
}

/// Memoized results, and weaker results that are only used during a search.
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

/// The cost of comparing two schemas, in units of `SchemaLimits::carried`; `oneOf` compares each pair.
const PAIR: usize = 16;

#[derive(Clone, Default)]
struct Branch {
    shape: Shape,
    todo: VecDeque<Atom>,
    choices: Vec<Rc<Choice>>,
    first: Vec<Rc<Choice>>,
    seen: Vec<Literal>,
    /// The number of conditions on members at the last search for a contradiction.
    looked: usize,
}

impl Branch {
    /// The cost of a copy, in units of `SchemaLimits::carried`.
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

    /// The shapes of the values that satisfy all schemas of `set`, which is sorted.
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

    /// Whether a search has reached a limit since the number of cuts was `cuts`, so that another search may find
    /// more.
    fn is_rough(&self, cuts: usize) -> bool {
        self.open > 0 && self.cuts != cuts
    }

    /// An error if the compilation was cancelled.
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

    /// Counts the comparisons that select the possible alternatives of a choice.
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

    /// Runs a search for a contradiction: the result of `find`, or `false` if the search takes too long.
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
                    // A single alternative is no choice.
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

    /// Counts work in proportion to the conditions on a value. Searches have limits of their own.
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

    /// Removes objects from a shape with a required member that has no possible value. A choice that a member
    /// decides (`kind`, say) is thereby made once, and not in every combination.
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

    /// Whether the alternative is possible, as far as a cheap check can tell: `None` if it already holds,
    /// `Some(false)` if it leaves no type.
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

    /// Whether the literal is about a list of values, which are cheap to compare.
    pub(crate) fn lists(&self, literal: Literal) -> bool {
        let member = |keyword| self.schemas.document.member(literal.node, keyword).is_some();
        literal.constant || member("const") || member("enum")
    }

    /// The conditions on the member `name` that are lists of values.
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

    /// The alternatives of the next choice: of a choice that is already decided, or else of the last one; an empty
    /// list if no choice is left. `None` if some choice has no possible alternative.
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

    /// Whether no value satisfies both, as far as a cheap search can tell.
    pub(crate) fn disjoint(&mut self, left: Literal, right: Literal) -> Result<bool, SchemaError> {
        Ok(left == right.not() || self.overlap(left, right)? == 0)
    }

    /// The types whose values may satisfy both, as far as a cheap search can tell.
    pub(crate) fn overlap(&mut self, left: Literal, right: Literal) -> Result<Types, SchemaError> {
        let pair = (left.min(right), left.max(right));
        if let Some(known) = self.overlaps.get(&pair, self.open > 0) {
            return Ok(*known);
        }
        self.carry(PAIR)?;
        let cuts = self.cuts;
        // A provisional result, because the search may ask for the same pair.
        self.overlaps.insert(pair, ALL, true);
        let mut types = ALL;
        let set = [pair.0, pair.1];
        let known = self.shapes.get(&set[..], true).is_some();
        self.search(|ex| {
            types = ex.types_of(&set, DEPTH)?;
            Ok(true)
        })?;
        if !known {
            // Few pairs are asked for again, and there may be very many.
            self.shapes.remove(&set[..]);
        }
        self.overlaps.insert(pair, types, self.is_rough(cuts));
        Ok(types)
    }

    /// Whether no value satisfies all of the set, as far as a search of `depth` levels can tell.
    fn is_empty(&mut self, set: &[Literal], depth: u32) -> Result<bool, SchemaError> {
        Ok(self.types_of(set, depth)? == 0)
    }

    /// The types of the values that satisfy all of the set, as far as a search of `depth` levels can tell.
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

    /// Whether an object of the shape needs a member that has no possible value, as far as the search can tell.
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

    /// Whether an array of the shape needs an item that has no possible value, as far as the search can tell.
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

    /// A superset of the member names of the shape, if a schema lists them.
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

    /// Records the refusals of a shape for values of these types.
    pub(crate) fn refuse(&mut self, shape: &Shape, types: Types) {
        if self.open > 0 {
            return;
        }
        for refusal in shape.refusals.iter().filter(|refusal| refusal.types & types & shape.types != 0) {
            self.reject(refusal.node, &refusal.keyword, &refusal.reason, refusal.way_out);
        }
    }

    /// Records that a keyword is not enforced.
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

    /// Records that some values that a keyword allows are no outputs.
    pub(crate) fn narrow_down(&mut self, node: NodeId, keyword: &str, why: String) {
        let narrowed = (self.schemas.original(node), keyword.to_owned(), why);
        if !self.narrowed.contains(&narrowed) {
            self.narrowed.push(narrowed);
        }
    }

    /// The set in normal form, sorted and without literals that always hold; `None` if it is obvious that no value
    /// satisfies it.
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
