//! From shapes to rules of a grammar.
//!
//! A set of schemas that a value must satisfy is a rule. Sets repeat, so recursion ends: there are finitely many. Arrays
//! and objects have files of their own.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use unskew_automata::Dfa;
use unskew_grammars::{ExprId, Grammar, GrammarBuilder, RuleId};

use crate::{
    MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace,
    expand::Expander,
    json::{Document, NodeId, Value},
    languages::Language,
    number,
    schemas::Literal,
    shape::{ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, Shape, TRUE},
    string,
};

/// Longer bounds on strings are repetitions in the grammar: an automaton has about twenty states for each character.
const LONG: u32 = 1_000;

pub(crate) struct Emitter {
    pub(crate) ex: Expander,
    pub(crate) builder: GrammarBuilder,
    rules: HashMap<Rc<[Literal]>, RuleId>,
    todo: Vec<(RuleId, Rc<[Literal]>)>,
    /// What may stand between the parts of a value; `None` for nothing.
    space: Option<ExprId>,
    pub(crate) order: MemberOrder,
    /// The expression of each automaton, by its address: those of the languages live as long.
    terminals: HashMap<*const Dfa, ExprId>,
    kept: Vec<Arc<Dfa>>,
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
    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        let limit = self.ex.limits.grammar.nodes;
        if self.builder.size() > limit {
            return Err(SchemaError::limit("", "the nodes of the grammar", limit, "grammar.nodes"));
        }
        Ok(())
    }

    /// The rule of the values that satisfy `set`.
    pub(crate) fn rule(&mut self, set: &[Literal]) -> Result<RuleId, SchemaError> {
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
                ways.extend(self.array(set, shape)?);
            }
            if shape.types & OBJECT != 0 {
                ways.extend(self.object(set, shape)?);
            }
        }
        Ok(if ways.is_empty() { None } else { Some(self.builder.choice(ways)) })
    }

    /// Something that no single keyword is to blame for.
    pub(crate) fn refuse(&mut self, set: &[Literal], keyword: &str, reason: &str) {
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

    pub(crate) fn terminal(&mut self, name: &str, dfa: &Arc<Dfa>) -> ExprId {
        if let Some(known) = self.terminals.get(&Arc::as_ptr(dfa)) {
            return *known;
        }
        let expr = self.builder.automaton(name, Arc::clone(dfa));
        self.kept.push(Arc::clone(dfa));
        self.terminals.insert(Arc::as_ptr(dfa), expr);
        expr
    }

    /// A string of JSON with one of these texts.
    pub(crate) fn string(&mut self, node: Option<NodeId>, texts: &Arc<Dfa>) -> Result<ExprId, SchemaError> {
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
    pub(crate) fn spaced(&mut self, parts: &[ExprId]) -> ExprId {
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
    pub(crate) fn comma(&mut self, next: ExprId) -> ExprId {
        let comma = self.builder.literal(",");
        let parts: Vec<ExprId> =
            [self.space, Some(comma), self.space, Some(next)].into_iter().flatten().collect();
        self.builder.sequence(parts)
    }

    /// `inner`, or nothing, in brackets, with white space around it. `None` if neither may be.
    pub(crate) fn enclosed(
        &mut self,
        open: &str,
        close: &str,
        inner: Option<ExprId>,
        empty: bool,
    ) -> Option<ExprId> {
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
    pub(crate) fn in_any_order(
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
    pub(crate) fn shared(&mut self, name: &str, ways: Vec<ExprId>) -> Option<ExprId> {
        if ways.is_empty() {
            return None;
        }
        let rule = self.builder.rule(name);
        let body = self.builder.choice(ways);
        self.builder.define(rule, body);
        Some(self.builder.call(rule))
    }

    pub(crate) fn repeated(
        &mut self,
        item: ExprId,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, SchemaError> {
        let limit = self.ex.limits.count;
        if min > limit || max.is_some_and(|max| max > limit) {
            return Err(SchemaError::limit("", "the items that are counted out", limit as usize, "count"));
        }
        Ok(self.builder.repeat(item, min, max))
    }

    /// Exactly the value at `node`: its members in their order, numbers and texts in every spelling.
    pub(crate) fn constant(&mut self, node: NodeId) -> Result<ExprId, SchemaError> {
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
                let texts = self.ex.languages.text(&text);
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

    pub(crate) fn member(&mut self, name: &str, value: ExprId) -> ExprId {
        let name = string::written(name);
        if self.space.is_none() {
            let name = self.builder.literal(name + ":");
            return self.builder.sequence([name, value]);
        }
        let (name, colon) = (self.builder.literal(name), self.builder.literal(":"));
        self.spaced(&[name, colon, value])
    }
}
