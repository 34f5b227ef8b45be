//! From shapes to rules of a grammar.
//!
//! A set of schemas that a value must satisfy is a rule. Sets repeat, so recursion ends: there are finitely many. Arrays
//! and objects have files of their own.

use std::{rc::Rc, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::Dfa;
use unskew_grammars::{ExprId, Grammar, GrammarBuilder, GrammarError, RuleId};

use crate::{
    MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Whitespace,
    document::{
        json::{Document, NodeId, Value},
        schemas::Literal,
    },
    normalize::{
        expand::Expander,
        shape::{ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, Shape, TRUE},
    },
    text::{
        characters::Run,
        enumerated::{Plain, plain_texts},
        languages::Language,
        number, standard, string,
    },
};

pub(crate) struct Emitter {
    pub(crate) ex: Expander,
    pub(crate) builder: GrammarBuilder,
    /// By set, and by level where output is indented.
    rules: HashMap<(Rc<[Literal]>, u32), RuleId>,
    todo: Vec<(RuleId, Rc<[Literal]>, u32)>,
    /// Sets, with their levels, that no value satisfies, as far as a grammar that was made before has shown.
    empty: HashSet<(Rc<[Literal]>, u32)>,
    /// Rules that have a text, or else there are fewer names than were counted.
    counted_on: Vec<RuleId>,
    /// Sets that have rules, where output is indented.
    indented: HashSet<Rc<[Literal]>>,
    /// Whether there are values that nest too deep to be written.
    is_cut: bool,
    whitespace: Whitespace,
    /// What may stand between the parts of a value; `None` for nothing.
    space: Option<ExprId>,
    /// Blanks for each level, where output is indented.
    indent: Option<u32>,
    /// The level of the value in work, in indented output; else zero.
    pub(crate) level: u32,
    /// Without raw characters beyond ASCII.
    pub(crate) ascii: bool,
    pub(crate) order: MemberOrder,
    /// The expression of each automaton, by its address: those of the languages live as long.
    terminals: HashMap<*const Dfa, ExprId>,
    /// The strings of the texts of each automaton, by its address.
    strings: HashMap<*const Dfa, ExprId>,
    /// The same, none of which may come twice, and how many of them an object may have.
    pub(crate) distinct: HashMap<*const Dfa, Once>,
    /// By set of schemas: items that satisfy it, none of which may come twice.
    pub(crate) new_items: HashMap<Rc<[Literal]>, Option<NewItem>>,
    kept: Vec<Arc<Dfa>>,
}

/// A terminal none of whose texts comes twice in an object or array.
#[derive(Clone, Copy)]
pub(crate) struct Once {
    pub(crate) expr: ExprId,
    /// How many texts there are; `None` where nothing uses them up.
    pub(crate) most: Option<u32>,
}

/// An item that the array does not have, and all that it may be.
#[derive(Clone)]
pub(crate) struct NewItem {
    pub(crate) once: Once,
    pub(crate) texts: Arc<Dfa>,
}

/// How many times something may be repeated in rules of its own; from there on it is counted where it is read.
pub(crate) const WRITTEN_OUT: u32 = 64;

impl Emitter {
    pub(crate) fn new(
        ex: Expander,
        options: &SchemaOptions,
        limits: &SchemaLimits,
    ) -> Result<Self, SchemaError> {
        let builder = Grammar::builder(&limits.grammar);
        let indent = match options.whitespace {
            Whitespace::Indent(blanks) => Some(blanks),
            _ => None,
        };
        let (rules, todo) = (HashMap::new(), vec![]);
        let mut emitter = Self {
            ex,
            builder,
            rules,
            todo,
            empty: HashSet::new(),
            counted_on: vec![],
            indented: HashSet::new(),
            is_cut: false,
            whitespace: options.whitespace,
            space: None,
            indent,
            level: 0,
            ascii: options.ascii,
            order: options.order,
            terminals: HashMap::new(),
            strings: HashMap::new(),
            distinct: HashMap::new(),
            new_items: HashMap::new(),
            kept: vec![],
        };
        emitter.begin()?;
        Ok(emitter)
    }

    /// Makes what stands between the parts of a value.
    fn begin(&mut self) -> Result<(), SchemaError> {
        let most = match self.whitespace {
            Whitespace::Compact | Whitespace::Bounded(0) | Whitespace::Spaced | Whitespace::Indent(_) => {
                Some(0)
            }
            Whitespace::Bounded(most) => Some(most),
            Whitespace::Flexible => None,
        };
        self.space = match (most, standard::space(most)) {
            (Some(0), _) => None,
            (_, Some(space)) => Some(self.builder.automaton("space", self.ex.located(None, space)?)),
            (most, None) => {
                let most = most.unwrap_or_default();
                Some(self.builder.regex("space", &format!("[ \\t\\n\\r]{{0,{most}}}"))?)
            }
        };
        Ok(())
    }

    /// The grammar of the values that satisfy the whole document, or the first thing that is not enforced.
    pub(crate) fn grammar(&mut self) -> Result<Grammar, SchemaError> {
        loop {
            let (grammar, start) = self.attempt()?;
            if self.counted_on.is_empty() && !self.is_cut {
                return Ok(grammar);
            }
            // Which sets have values is only known of the whole, and how many names there are depends on it.
            let analysis = grammar.analysis();
            let has_text = |rule: &RuleId| analysis.rule(*rule).productive;
            let empty: HashSet<RuleId> =
                self.counted_on.iter().copied().filter(|rule| !has_text(rule)).collect();
            if empty.is_empty() {
                if self.is_cut && !has_text(&start) {
                    return Err(self.too_deep());
                }
                return Ok(grammar);
            }
            let found =
                self.rules.iter().filter(|(_, rule)| empty.contains(*rule)).map(|(key, _)| key.clone());
            self.empty.extend(found.collect::<Vec<_>>());
            self.forget()?;
        }
    }

    /// Begins anew, with what is known of the schema and of sets without values.
    fn forget(&mut self) -> Result<(), SchemaError> {
        self.builder = Grammar::builder(&self.ex.limits.grammar);
        self.rules.clear();
        self.counted_on.clear();
        self.indented.clear();
        self.terminals.clear();
        self.strings.clear();
        self.distinct.clear();
        self.new_items.clear();
        self.ex.narrowed.retain(|(_, keyword, _)| keyword == "format" || keyword == "contentEncoding");
        self.is_cut = false;
        self.begin()
    }

    fn too_deep(&self) -> SchemaError {
        let limit = self.ex.limits.levels as usize;
        SchemaError::limit("#", "the levels of indented values", limit, "levels")
    }

    fn attempt(&mut self) -> Result<(Grammar, RuleId), SchemaError> {
        let root = self.ex.schemas.literal(Document::ROOT)?;
        let start = self.rule_at(&[root], 0)?;
        while let Some((rule, set, level)) = self.todo.pop() {
            self.level = level;
            let body = self.value(&set)?;
            if body.is_none() && rule == start && self.ex.refused.is_empty() {
                return Err(if self.is_cut { self.too_deep() } else { SchemaError::Unsatisfiable });
            }
            // A rule that only calls itself has no text, and the engine drops what leads to it.
            let body = body.unwrap_or_else(|| self.builder.call(rule));
            self.builder.define(rule, body);
            self.check()?;
        }
        if let Some(error) = self.ex.refused.first() {
            return Err(error.clone());
        }
        if self.is_cut {
            let levels = self.ex.limits.levels;
            let why = format!(
                "indented values nest at most {levels} levels deep (`SchemaLimits::levels`) where schemas repeat"
            );
            self.ex.narrow_down(Document::ROOT, "", why);
        }
        let empty = Grammar::builder(&self.ex.limits.grammar);
        Ok((std::mem::replace(&mut self.builder, empty).build(start)?, start))
    }

    /// Stops before the grammar takes more memory than it may, and where the end was asked for.
    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        self.ex.cancelled()?;
        let limit = self.ex.limits.grammar.nodes;
        if self.builder.size() > limit {
            return Err(SchemaError::limit("", "the nodes of the grammar", limit, "grammar.nodes"));
        }
        Ok(())
    }

    /// The rule of the values that satisfy `set` as parts of the value in work; `None` if there are none, or none that is written.
    pub(crate) fn rule(&mut self, set: &[Literal]) -> Result<Option<RuleId>, SchemaError> {
        let level = if self.indent.is_some() { self.level + 1 } else { 0 };
        let key: (Rc<[Literal]>, u32) = (set.into(), level);
        if self.empty.contains(&key) {
            return Ok(None);
        }
        // Deeper than that those only that are not met again and again.
        if level > self.ex.limits.levels && !self.rules.contains_key(&key) && self.indented.contains(set) {
            self.is_cut = true;
            return Ok(None);
        }
        self.rule_at(set, level).map(Some)
    }

    /// Takes it that `rules` have texts: if one has not, the grammar is made again without it.
    pub(crate) fn count_on(&mut self, rules: impl IntoIterator<Item = RuleId>) {
        self.counted_on.extend(rules);
    }

    fn rule_at(&mut self, set: &[Literal], level: u32) -> Result<RuleId, SchemaError> {
        let set: Rc<[Literal]> = set.into();
        if let Some(rule) = self.rules.get(&(Rc::clone(&set), level)) {
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
        self.rules.insert((Rc::clone(&set), level), rule);
        if self.indent.is_some() {
            self.indented.insert(Rc::clone(&set));
        }
        self.todo.push((rule, set, level));
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
        let strings = shapes.iter().filter(|shape| shape.types & STRING != 0).count();
        for shape in shapes.iter() {
            self.ex.refuse(shape, shape.types);
            if shape.types & STRING != 0 {
                let is_bounded = shape.min_length > 0 || shape.max_length.is_some();
                if shape.strings.is_none() && is_bounded {
                    ways.push(self.bounded_string(node, shape)?);
                } else if let Some(run) = run(shape).filter(|_| strings == 1)
                    && let Some(string) = self.run(node, &run)?
                {
                    ways.push(string);
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

    pub(crate) fn terminal(&mut self, name: &str, dfa: &Arc<Dfa>) -> ExprId {
        if let Some(known) = self.terminals.get(&Arc::as_ptr(dfa)) {
            return *known;
        }
        let expr = self.builder.automaton(name, Arc::clone(dfa));
        self.kept.push(Arc::clone(dfa));
        self.terminals.insert(Arc::as_ptr(dfa), expr);
        expr
    }

    /// Keeps `dfa`, whose address is a key.
    pub(crate) fn keep(&mut self, dfa: &Arc<Dfa>) {
        self.kept.push(Arc::clone(dfa));
    }

    /// `inner` as a scope of texts that may not come twice.
    pub(crate) fn scope(&mut self, name: &str, inner: ExprId) -> ExprId {
        let rule = self.builder.rule(name);
        self.builder.define(rule, inner);
        self.builder.scope(rule);
        self.builder.call(rule)
    }

    /// How a name or a value that stands in the schema is written.
    pub(crate) fn written(&self, text: &str) -> String {
        string::written(text, self.ascii)
    }

    /// A string of JSON with one of these texts.
    pub(crate) fn string(&mut self, node: Option<NodeId>, texts: &Arc<Dfa>) -> Result<ExprId, SchemaError> {
        if let Some(known) = self.strings.get(&Arc::as_ptr(texts)) {
            return Ok(*known);
        }
        let made = match plain_texts(texts) {
            Some(Plain::Listed(list)) => {
                let list: Vec<ExprId> = list
                    .into_iter()
                    .map(|text| {
                        let written = self.written(&text);
                        self.builder.literal(written)
                    })
                    .collect();
                self.shared("strings", list).ok_or(SchemaError::Unsatisfiable)?
            }
            Some(Plain::Dense) => {
                let written = self.ex.languages.written(texts);
                let written = self.ex.located(node, written)?.ok_or(SchemaError::Unsatisfiable)?;
                self.terminal("string", &written)
            }
            None => {
                let spelled = self.ex.languages.spelled(texts);
                let spelled = self.ex.located(node, spelled)?;
                self.terminal("string", &spelled)
            }
        };
        self.kept.push(Arc::clone(texts));
        self.strings.insert(Arc::as_ptr(texts), made);
        Ok(made)
    }

    /// A string of JSON that is bounded in its length alone.
    fn bounded_string(&mut self, node: Option<NodeId>, shape: &Shape) -> Result<ExprId, SchemaError> {
        let character = standard::character(self.ascii);
        let character = self.ex.located(node, character)?;
        self.counted(node, &character, shape.min_length, shape.max_length)
    }

    /// A string of JSON of characters of one class. `None` if the class is too large to be counted.
    fn run(&mut self, node: Option<NodeId>, run: &Run) -> Result<Option<ExprId>, SchemaError> {
        let character = self.ex.languages.character(&run.pattern());
        let character = self.ex.located(node, character)?;
        match self.counted(node, &character, run.min, run.max) {
            Err(SchemaError::Grammar(GrammarError::Uncountable { .. })) => Ok(None),
            made => made.map(Some),
        }
    }

    fn counted(
        &mut self,
        node: Option<NodeId>,
        character: &Arc<Dfa>,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, SchemaError> {
        let limit = self.ex.limits.characters;
        if max.unwrap_or(min) > limit {
            let pointer = node.map_or_else(String::new, |node| self.ex.schemas.pointer(node));
            return Err(SchemaError::limit(&pointer, "the characters", limit as usize, "characters"));
        }
        Ok(self.builder.bounded_repetition("string", "\"", character, "\"", min, max)?)
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

    /// A line break and the blanks of a level, in indented output.
    fn line(&mut self, level: u32) -> Option<ExprId> {
        let blanks = self.indent? as usize * level as usize;
        Some(self.builder.literal(format!("\n{}", " ".repeat(blanks))))
    }

    /// A comma and what stands around it.
    fn separator(&mut self) -> ExprId {
        let comma = if self.whitespace == Whitespace::Spaced { ", " } else { "," };
        let (comma, line) = (self.builder.literal(comma), self.line(self.level + 1));
        let parts: Vec<ExprId> = [self.space, Some(comma), self.space, line].into_iter().flatten().collect();
        self.builder.sequence(parts)
    }

    /// A separator and `next`.
    pub(crate) fn comma(&mut self, next: ExprId) -> ExprId {
        let separator = self.separator();
        self.builder.sequence([separator, next])
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
                let (before, behind) = (self.line(self.level + 1), self.line(self.level));
                let parts: Vec<ExprId> =
                    [before, Some(inner), self.space, behind].into_iter().flatten().collect();
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
        let separator = self.separator();
        self.builder.unordered(members, others, Some(separator), min, max)
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

    /// From `min` on and, where there is a `max`, at most so many of `item`, each behind a separator: in rules of their own up to
    /// `written_out`, and counted where they are read beyond.
    pub(crate) fn more(
        &mut self,
        item: ExprId,
        min: u32,
        max: Option<u32>,
        written_out: u32,
    ) -> Result<Option<ExprId>, SchemaError> {
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        if max == Some(0) {
            return Ok(Some(self.builder.empty()));
        }
        if max.unwrap_or(min) <= written_out {
            let item = self.comma(item);
            return self.repeated(item, min, max).map(Some);
        }
        // As members in any order.
        let items = self.in_any_order(vec![], Some(item), min.max(1), max);
        let items = self.comma(items);
        Ok(Some(if min == 0 { self.builder.optional(items) } else { items }))
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
            Value::Number(value) => {
                let made = self.ex.languages.equal(&value);
                match self.ex.located(Some(node), made)? {
                    Some(Some(dfa)) => self.terminal("number", &dfa),
                    Some(None) => return Err(SchemaError::Unsatisfiable),
                    None => return Err(self.ex.too_long(node, &value)),
                }
            }
            Value::String(text) => {
                let texts = self.ex.languages.text(&text);
                match self.ex.located(Some(node), texts)? {
                    Some(texts) => self.string(Some(node), &texts)?,
                    None => return Err(SchemaError::Unsatisfiable),
                }
            }
            Value::Array(items) => {
                self.level += 1;
                let items =
                    items.into_iter().map(|item| self.constant(item)).collect::<Result<Vec<_>, _>>()?;
                self.level -= 1;
                self.listed("[", "]", items)
            }
            Value::Object(members) => {
                let mut parts = vec![];
                self.level += 1;
                for (name, value) in members {
                    let value = self.constant(value)?;
                    parts.push(self.member(&name, value));
                }
                self.level -= 1;
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
        let mut all = vec![];
        for part in parts {
            all.push(if all.is_empty() { part } else { self.comma(part) });
        }
        let inner = (!all.is_empty()).then(|| self.builder.sequence(all));
        let empty = inner.is_none();
        let brackets = self.enclosed(open, close, inner, empty);
        brackets.unwrap_or_else(|| self.builder.empty())
    }

    pub(crate) fn member(&mut self, name: &str, value: ExprId) -> ExprId {
        let name = self.written(name);
        if self.space.is_none() {
            let name = self.builder.literal(name + self.colon());
            return self.builder.sequence([name, value]);
        }
        let name = self.builder.literal(name);
        self.named(name, value)
    }

    /// Between a name and its value.
    fn colon(&self) -> &'static str {
        match self.whitespace {
            Whitespace::Spaced | Whitespace::Indent(_) => ": ",
            _ => ":",
        }
    }

    pub(crate) fn named(&mut self, name: ExprId, value: ExprId) -> ExprId {
        let colon = self.builder.literal(self.colon());
        self.spaced(&[name, colon, value])
    }
}

/// From how many characters on runs are counted: the automata of shorter ones are small, and nothing is saved.
const LONG_RUN: u32 = 16;

/// The texts of a string as a run of one class of characters, if they are one and it is long.
fn run(shape: &Shape) -> Option<Run> {
    let mut run = Run::of(shape.strings.as_ref()?)?;
    run.min = run.min.max(shape.min_length);
    run.max = match (run.max, shape.max_length) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    };
    let is_empty = run.max.is_some_and(|max| max < run.min);
    (!is_empty && run.max.unwrap_or(run.min) >= LONG_RUN).then_some(run)
}
