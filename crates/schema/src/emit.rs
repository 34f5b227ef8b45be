//! From shapes to rules of a grammar.
//!
//! A set of schemas that a value must satisfy is a rule. Sets repeat, so recursion ends: there are finitely many. Members of
//! objects come in the order of the schema, then those that it only requires, then all others; so an object of n properties is
//! a chain of 2n rules and not n! orders.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use unskew_automata::Dfa;
use unskew_grammars::{ExprId, Grammar, GrammarBuilder, RuleId};

use crate::{
    MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace,
    expand::Expander,
    json::{Document, NodeId, Value},
    keywords,
    languages::{Language, TEXT},
    number,
    schemas::Literal,
    shape::{ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, Shape, TRUE},
    string,
};

/// Longer bounds on strings are repetitions in the grammar: an automaton has about twenty states for each character.
const LONG: u32 = 1_000;

pub(crate) struct Emitter {
    pub(crate) ex: Expander,
    builder: GrammarBuilder,
    rules: HashMap<Rc<[Literal]>, RuleId>,
    todo: Vec<(RuleId, Rc<[Literal]>)>,
    /// What may stand between the parts of a value; `None` for nothing.
    space: Option<ExprId>,
    order: MemberOrder,
    /// The expression of each automaton, by its address: those of the languages live as long.
    terminals: HashMap<*const Dfa, ExprId>,
    kept: Vec<Arc<Dfa>>,
}

/// A member of an object that has a name of its own.
struct Member {
    expr: ExprId,
    required: bool,
}

impl Emitter {
    pub(crate) fn new(
        ex: Expander,
        options: &SchemaOptions,
        limits: &SchemaLimits,
    ) -> Result<Self, SchemaError> {
        let mut builder = Grammar::builder(&limits.grammar);
        let space = match options.whitespace {
            Whitespace::Compact | Whitespace::Bounded(0) => None,
            Whitespace::Bounded(most) => Some(builder.regex("space", &format!("[ \\t\\n\\r]{{0,{most}}}"))?),
            Whitespace::Flexible => Some(builder.regex("space", "[ \\t\\n\\r]*")?),
        };
        let (rules, todo) = (HashMap::new(), vec![]);
        Ok(Self {
            ex,
            builder,
            rules,
            todo,
            space,
            order: options.order,
            terminals: HashMap::new(),
            kept: vec![],
        })
    }

    /// The grammar of the values that satisfy the whole document, or the first thing that is not enforced.
    pub(crate) fn grammar(&mut self) -> Result<Grammar, SchemaError> {
        let root = self.ex.schemas.literal(Document::ROOT)?;
        let start = self.rule(&[root])?;
        while let Some((rule, set)) = self.todo.pop() {
            let body = self.value(&set)?;
            if body.is_none() && rule == start && self.ex.refused.is_empty() {
                return Err(SchemaError::Unsatisfiable);
            }
            // A rule that only calls itself has no text, and the engine drops what leads to it.
            let body = body.unwrap_or_else(|| self.builder.call(rule));
            self.builder.define(rule, body);
            self.check()?;
        }
        if let Some(error) = self.ex.refused.first() {
            return Err(error.clone());
        }
        let empty = Grammar::builder(&self.ex.limits.grammar);
        Ok(std::mem::replace(&mut self.builder, empty).build(start)?)
    }

    /// Stops before the grammar takes more memory than it may.
    fn check(&self) -> Result<(), SchemaError> {
        let limit = self.ex.limits.grammar.nodes;
        if self.builder.size() > limit {
            return Err(SchemaError::limit("", "the nodes of the grammar", limit, "grammar.nodes"));
        }
        Ok(())
    }

    /// The rule of the values that satisfy `set`.
    fn rule(&mut self, set: &[Literal]) -> Result<RuleId, SchemaError> {
        if let Some(rule) = self.rules.get(set) {
            return Ok(*rule);
        }
        let name = match set.first() {
            Some(literal) => self.ex.schemas.pointer(literal.node),
            None => "value".to_owned(),
        };
        let limit = self.ex.limits.rules;
        if self.rules.len() >= limit {
            return Err(SchemaError::limit(&name, "the sets of schemas", limit, "rules"));
        }
        let rule = self.builder.rule(&name);
        let set: Rc<[Literal]> = set.into();
        self.rules.insert(Rc::clone(&set), rule);
        self.todo.push((rule, set));
        Ok(rule)
    }

    fn value(&mut self, set: &[Literal]) -> Result<Option<ExprId>, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        let shapes = self.ex.shapes(set)?;
        let mut ways = vec![];
        for (types, word) in [(NULL, "null"), (FALSE, "false"), (TRUE, "true")] {
            if shapes.iter().any(|shape| shape.types & types != 0) {
                ways.push(self.builder.literal(word));
            }
        }
        let (mut texts, mut numbers): (Language, Language) = (None, None);
        for shape in shapes.iter() {
            self.ex.refuse(shape, shape.types);
            if shape.types & STRING != 0 {
                if shape.strings.is_none() && shape.max_length.unwrap_or(shape.min_length) > LONG {
                    ways.push(self.long_string(node, shape)?);
                } else {
                    let own = self.ex.texts(shape);
                    let both = own.and_then(|own| self.ex.languages.or(&texts, &own));
                    texts = self.ex.located(node, both)?;
                }
            }
            if shape.types & NUMBER != 0 {
                let own = match &shape.numbers {
                    Some(own) => Ok(Some(Arc::clone(own))),
                    None => self.ex.languages.pattern(number::ANY),
                };
                let both = own.and_then(|own| self.ex.languages.or(&numbers, &own));
                numbers = self.ex.located(node, both)?;
            }
        }
        if let Some(texts) = texts {
            ways.push(self.string(node, &texts)?);
        }
        if let Some(numbers) = numbers {
            ways.push(self.terminal("number", &numbers));
        }
        for shape in shapes.iter().filter(|shape| shape.types & (ARRAY | OBJECT) != 0) {
            if let Some(values) = &shape.one_of {
                for value in values {
                    if self.ex.fits(*value, shape)? {
                        ways.push(self.constant(*value)?);
                    }
                }
                continue;
            }
            if shape.types & ARRAY != 0 {
                ways.extend(self.array(shape)?);
            }
            if shape.types & OBJECT != 0 {
                ways.extend(self.object(set, shape)?);
            }
        }
        Ok(if ways.is_empty() { None } else { Some(self.builder.choice(ways)) })
    }

    /// Something that no single keyword is to blame for.
    fn refuse(&mut self, set: &[Literal], keyword: &str, reason: &str) {
        let error = SchemaError::Unsupported {
            pointer: set
                .first()
                .map_or_else(|| "#".to_owned(), |literal| self.ex.schemas.pointer(literal.node)),
            keyword: keyword.to_owned(),
            reason: reason.to_owned(),
            way_out: "say it in one place, in another way",
        };
        if !self.ex.refused.contains(&error) {
            self.ex.refused.push(error);
        }
    }

    fn terminal(&mut self, name: &str, dfa: &Arc<Dfa>) -> ExprId {
        if let Some(known) = self.terminals.get(&Arc::as_ptr(dfa)) {
            return *known;
        }
        let expr = self.builder.automaton(name, Arc::clone(dfa));
        self.kept.push(Arc::clone(dfa));
        self.terminals.insert(Arc::as_ptr(dfa), expr);
        expr
    }

    /// A string of JSON with one of these texts.
    fn string(&mut self, node: Option<NodeId>, texts: &Arc<Dfa>) -> Result<ExprId, SchemaError> {
        let spelled = self.ex.languages.spelled(texts);
        let spelled = self.ex.located(node, spelled)?;
        Ok(self.terminal("string", &spelled))
    }

    /// A string of JSON that is bounded in its length alone, and may be long.
    fn long_string(&mut self, node: Option<NodeId>, shape: &Shape) -> Result<ExprId, SchemaError> {
        let limit = self.ex.limits.characters;
        if shape.max_length.unwrap_or(shape.min_length) > limit {
            let pointer = node.map_or_else(String::new, |node| self.ex.schemas.pointer(node));
            return Err(SchemaError::limit(&pointer, "the characters", limit as usize, "characters"));
        }
        let character = self.ex.languages.character();
        let Some(character) = self.ex.located(node, character)? else {
            return Err(SchemaError::Unsatisfiable);
        };
        let character = self.terminal("character", &character);
        let text = self.builder.repeat(character, shape.min_length, shape.max_length);
        let quote = self.builder.literal("\"");
        Ok(self.builder.sequence([quote, text, quote]))
    }

    /// `parts` with white space between them.
    fn spaced(&mut self, parts: &[ExprId]) -> ExprId {
        let mut all = vec![];
        for part in parts {
            if !all.is_empty() {
                all.extend(self.space);
            }
            all.push(*part);
        }
        self.builder.sequence(all)
    }

    /// White space, a comma, white space, `next`.
    fn comma(&mut self, next: ExprId) -> ExprId {
        let comma = self.builder.literal(",");
        let parts: Vec<ExprId> =
            [self.space, Some(comma), self.space, Some(next)].into_iter().flatten().collect();
        self.builder.sequence(parts)
    }

    /// `inner`, or nothing, in brackets, with white space around it. `None` if neither may be.
    fn enclosed(&mut self, open: &str, close: &str, inner: Option<ExprId>, empty: bool) -> Option<ExprId> {
        let inner = match (inner, empty) {
            (None, false) => return None,
            (None, true) => None,
            (Some(inner), empty) => {
                let parts: Vec<ExprId> = [Some(inner), self.space].into_iter().flatten().collect();
                let inner = self.builder.sequence(parts);
                Some(if empty { self.builder.optional(inner) } else { inner })
            }
        };
        let (open, close) = (self.builder.literal(open), self.builder.literal(close));
        let parts: Vec<ExprId> = [Some(open), self.space, inner, Some(close)].into_iter().flatten().collect();
        Some(self.builder.sequence(parts))
    }

    /// These with commas between them, in any order, and `others` among them.
    fn in_any_order(
        &mut self,
        members: Vec<(ExprId, bool)>,
        others: Option<ExprId>,
        min: u32,
        max: Option<u32>,
    ) -> ExprId {
        let comma = self.builder.literal(",");
        let parts: Vec<ExprId> = [self.space, Some(comma), self.space].into_iter().flatten().collect();
        let comma = self.builder.sequence(parts);
        self.builder.unordered(members, others, Some(comma), min, max)
    }

    /// Any of `ways` as a rule, so that it can be used often; `None` of none.
    fn shared(&mut self, name: &str, ways: Vec<ExprId>) -> Option<ExprId> {
        if ways.is_empty() {
            return None;
        }
        let rule = self.builder.rule(name);
        let body = self.builder.choice(ways);
        self.builder.define(rule, body);
        Some(self.builder.call(rule))
    }

    fn repeated(&mut self, item: ExprId, min: u32, max: Option<u32>) -> Result<ExprId, SchemaError> {
        let limit = self.ex.limits.count;
        if min > limit || max.is_some_and(|max| max > limit) {
            return Err(SchemaError::limit("", "the items that are counted out", limit as usize, "count"));
        }
        Ok(self.builder.repeat(item, min, max))
    }

    /// Exactly the value at `node`: its members in their order, numbers and texts in every spelling.
    fn constant(&mut self, node: NodeId) -> Result<ExprId, SchemaError> {
        // As deep as the limit on nesting.
        let value = self.ex.schemas.document.value(node).clone();
        Ok(match value {
            Value::Null => self.builder.literal("null"),
            Value::Bool(value) => self.builder.literal(if value { "true" } else { "false" }),
            Value::Number(value) => match number::equal(&value) {
                Some(pattern) => {
                    let made = self.ex.languages.pattern(&pattern);
                    match self.ex.located(Some(node), made)? {
                        Some(dfa) => self.terminal("number", &dfa),
                        None => return Err(SchemaError::Unsatisfiable),
                    }
                }
                None => {
                    let pointer = self.ex.schemas.pointer(node);
                    return Err(SchemaError::invalid(
                        pointer,
                        "enum",
                        "must have numbers of at most 400 digits",
                    ));
                }
            },
            Value::String(text) => {
                let texts = self.ex.languages.texts(&[&text]);
                match self.ex.located(Some(node), texts)? {
                    Some(texts) => self.string(Some(node), &texts)?,
                    None => return Err(SchemaError::Unsatisfiable),
                }
            }
            Value::Array(items) => {
                let items =
                    items.into_iter().map(|item| self.constant(item)).collect::<Result<Vec<_>, _>>()?;
                self.listed("[", "]", items)
            }
            Value::Object(members) => {
                let mut parts = vec![];
                for (name, value) in members {
                    let value = self.constant(value)?;
                    parts.push(self.member(&name, value));
                }
                if self.order == MemberOrder::Any && parts.len() > 1 {
                    let parts: Vec<_> = parts.into_iter().map(|part| (part, true)).collect();
                    let inner = self.in_any_order(parts, None, 0, None);
                    return Ok(self.enclosed("{", "}", Some(inner), false).expect("it has something in it"));
                }
                self.listed("{", "}", parts)
            }
        })
    }

    fn listed(&mut self, open: &str, close: &str, parts: Vec<ExprId>) -> ExprId {
        let mut all = vec![self.builder.literal(open)];
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                all.push(self.builder.literal(","));
            }
            all.push(part);
        }
        all.push(self.builder.literal(close));
        self.spaced(&all)
    }

    fn member(&mut self, name: &str, value: ExprId) -> ExprId {
        let name = string::written(name);
        if self.space.is_none() {
            let name = self.builder.literal(name + ":");
            return self.builder.sequence([name, value]);
        }
        let (name, colon) = (self.builder.literal(name), self.builder.literal(":"));
        self.spaced(&[name, colon, value])
    }

    fn array(&mut self, shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let groups: Vec<_> = shape.items.iter().map(|group| keywords::items(&self.ex, *group)).collect();
        let first = groups.iter().map(|(first, _)| first.len()).max().unwrap_or(0);
        let min = shape.min_items;
        let mut max = shape.max_items;
        let mut items = vec![];
        // The last is that of all others.
        for place in 0..=first {
            let schemas = groups.iter().filter_map(|(own, others)| own.get(place).copied().or(*others));
            let set = schemas.map(|schema| self.ex.schemas.literal(schema)).collect::<Result<_, _>>()?;
            match self.ex.normal(set) {
                Some(set) => {
                    let rule = self.rule(&set)?;
                    items.push(self.builder.call(rule));
                }
                None => {
                    let place = u32::try_from(place).unwrap_or(u32::MAX);
                    max = Some(max.map_or(place, |max| max.min(place)));
                    break;
                }
            }
        }
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        let others = if items.len() > first { items.pop() } else { None };
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let more = |so_far: u32| max.is_none_or(|max| so_far < max);
        // What follows when so many items were written, from the last on.
        let mut rest = match others.filter(|_| more(count)) {
            Some(item) if count == 0 => {
                let next = self.comma(item);
                let next = self.repeated(next, min.saturating_sub(1), max.map(|max| max - 1))?;
                let inner = self.builder.sequence([item, next]);
                return Ok(self.enclosed("[", "]", Some(inner), min == 0));
            }
            Some(item) => {
                let next = self.comma(item);
                Some(self.repeated(next, min.saturating_sub(count), max.map(|max| max - count))?)
            }
            None if min <= count => Some(self.builder.empty()),
            None => None,
        };
        for (place, item) in (0..count).zip(items).rev() {
            let behind = rest.filter(|_| more(place)).map(|rest| self.builder.sequence([item, rest]));
            if place == 0 {
                return Ok(self.enclosed("[", "]", behind, min == 0));
            }
            let next = behind.map(|behind| self.comma(behind));
            let end = (min <= place).then(|| self.builder.empty());
            rest = self.shared("items", next.into_iter().chain(end).collect());
        }
        Ok(self.enclosed("[", "]", None, min == 0))
    }

    fn object(&mut self, set: &[Literal], shape: &Shape) -> Result<Option<ExprId>, SchemaError> {
        let mut names: Vec<Box<str>> = vec![];
        let mut known: std::collections::HashSet<Box<str>> = std::collections::HashSet::new();
        for group in &shape.properties {
            let declared = self.ex.schemas.document.member(*group, "properties");
            let declared = declared.and_then(|declared| self.ex.schemas.document.members(declared));
            names.extend(declared.unwrap_or_default().iter().map(|(name, _)| name.clone()));
        }
        names.extend(shape.property.iter().map(|(name, _)| name.clone()));
        names.extend(shape.required.iter().cloned());
        names.retain(|name| known.insert(name.clone()));
        let mut members = vec![];
        for name in &names {
            let required = shape.required.contains(name);
            match self.ex.property(shape, name)? {
                Some(set) => {
                    let rule = self.rule(&set)?;
                    let value = self.builder.call(rule);
                    members.push(Member { expr: self.member(name, value), required });
                }
                None if required => return Ok(None),
                None => {}
            }
        }
        names.extend(shape.forbidden.iter().cloned());
        let others = self.others(set, shape, &names)?;
        self.members(set, shape, &members, others)
    }

    /// Members with names that are none of these.
    fn others(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        names: &[Box<str>],
    ) -> Result<Option<ExprId>, SchemaError> {
        let node = set.first().map(|literal| literal.node);
        let mut groups = vec![];
        for group in &shape.properties {
            let additional = self.ex.schemas.document.member(*group, "additionalProperties");
            groups.push((keywords::patterns(&mut self.ex, *group)?, additional));
        }
        let closed = groups.iter().any(|(patterns, additional)| {
            let closed =
                additional.is_some_and(|additional| self.ex.schemas.trivial(additional) == Some(false));
            closed && patterns.is_empty()
        });
        if closed {
            return Ok(None);
        }
        let mut all = self.ex.languages.pattern(TEXT);
        for literal in &shape.names {
            let allowed = self.ex.names(&[*literal])?;
            all = all.and_then(|all| self.ex.languages.and(&all, &allowed));
        }
        let texts: Vec<&str> = names.iter().map(|name| &**name).collect();
        let declared = self.ex.languages.texts(&texts);
        let all = all.and_then(|all| self.ex.languages.minus(&all, &declared?));
        let all = self.ex.located(node, all)?;
        // Names by the patterns that they match: of each kind the schemas, and which groups have matched.
        let mut kinds: Vec<(Language, Vec<NodeId>, Vec<bool>)> =
            vec![(all, vec![], vec![false; groups.len()])];
        let patterns = groups.iter().map(|(patterns, _)| patterns.len()).sum::<usize>();
        let limit = self.ex.limits.name_patterns;
        if patterns > limit {
            let pointer = node.map_or_else(String::new, |node| self.ex.schemas.pointer(node));
            return Err(SchemaError::limit(&pointer, "the patterns of names", limit, "name_patterns"));
        }
        for (index, (patterns, _)) in groups.iter().enumerate() {
            for (pattern, schema) in patterns {
                let mut split = vec![];
                for (language, schemas, matched) in kinds {
                    let within = self.ex.languages.and(&language, pattern);
                    let within = self.ex.located(node, within)?;
                    let without = self.ex.languages.minus(&language, pattern);
                    let without = self.ex.located(node, without)?;
                    if within.is_some() {
                        let (mut schemas, mut matched) = (schemas.clone(), matched.clone());
                        schemas.push(*schema);
                        matched[index] = true;
                        split.push((within, schemas, matched));
                    }
                    if without.is_some() {
                        split.push((without, schemas, matched));
                    }
                }
                kinds = split;
            }
        }
        let mut ways = vec![];
        for (language, mut schemas, matched) in kinds {
            let additional = groups.iter().zip(matched).filter(|(_, matched)| !matched);
            schemas.extend(additional.filter_map(|((_, additional), _)| *additional));
            let set = schemas
                .into_iter()
                .map(|schema| self.ex.schemas.literal(schema))
                .collect::<Result<_, _>>()?;
            if let (Some(language), Some(set)) = (language, self.ex.normal(set)) {
                let name = self.string(node, &language)?;
                let rule = self.rule(&set)?;
                let (colon, value) = (self.builder.literal(":"), self.builder.call(rule));
                ways.push(self.spaced(&[name, colon, value]));
            }
        }
        Ok(self.shared("other members", ways))
    }

    /// An object of these members in this order, and others behind them.
    fn members(
        &mut self,
        set: &[Literal],
        shape: &Shape,
        members: &[Member],
        others: Option<ExprId>,
    ) -> Result<Option<ExprId>, SchemaError> {
        let required =
            u32::try_from(members.iter().filter(|member| member.required).count()).unwrap_or(u32::MAX);
        let total = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let min = if shape.min_properties <= required { 0 } else { shape.min_properties };
        let max = shape.max_properties.filter(|max| others.is_some() || *max < total);
        if others.is_some() && min > 1 {
            // The same name twice would count as two.
            let reason = "names that the schema does not declare may repeat, and a grammar cannot tell";
            self.refuse(set, "minProperties", reason);
            return Ok(None);
        }
        if self.order == MemberOrder::Any {
            let parts: Vec<_> = members.iter().map(|member| (member.expr, member.required)).collect();
            let some = (!parts.is_empty() || others.is_some()) && max != Some(0);
            let inner = some.then(|| self.in_any_order(parts, others, min.max(1), max));
            return Ok(self.enclosed("{", "}", inner, required == 0 && min == 0));
        }
        // Counted only where it matters, and then no further than there are members.
        let counting = min > 0 || max.is_some();
        let next = |count: u32| if counting { count + 1 } else { 0 };
        let more = |count: u32| max.is_none_or(|max| count < max);
        let most = |place: u32| if counting { place } else { 0 };
        // By the number of members written so far: what follows the last of all members that have names; and what must
        // be written next if something is.
        let (mut rest, mut from) = (vec![], vec![]);
        for count in 0..=most(total) {
            let repeated = match others {
                Some(others) if more(count) => {
                    let item = self.comma(others);
                    Some(self.repeated(item, min.saturating_sub(count), max.map(|max| max - count))?)
                }
                _ => (count >= min).then(|| self.builder.empty()),
            };
            rest.push(repeated);
        }
        for count in 0..=most(total) {
            let behind = match others {
                Some(others) if more(count) => {
                    let item = self.comma(others);
                    let so_far = count + 1;
                    let repeated = self.repeated(
                        item,
                        min.saturating_sub(so_far),
                        max.map(|max| max.saturating_sub(so_far)),
                    )?;
                    Some(self.builder.sequence([others, repeated]))
                }
                _ => None,
            };
            from.push(behind);
        }
        let mut all_optional = true;
        for (place, member) in (0..total).zip(members).rev() {
            self.check()?;
            let (mut rest_here, mut from_here) = (vec![], vec![]);
            all_optional &= !member.required;
            for count in 0..=most(place) {
                let at = |list: &[Option<ExprId>], count: u32| list.get(count as usize).copied().flatten();
                let behind = at(&rest, next(count)).filter(|_| more(count));
                let mut ways = vec![];
                ways.extend(behind.map(|behind| self.builder.sequence([member.expr, behind])));
                ways.extend(at(&from, count).filter(|_| !member.required));
                let next = self.shared("members", ways);
                from_here.push(next);
                let mut ways = vec![];
                ways.extend(next.map(|next| self.comma(next)));
                ways.extend((all_optional && count >= min).then(|| self.builder.empty()));
                rest_here.push(self.shared("more members", ways));
            }
            (rest, from) = (rest_here, from_here);
        }
        let empty = all_optional && min == 0;
        Ok(self.enclosed("{", "}", from.first().copied().flatten(), empty))
    }
}
