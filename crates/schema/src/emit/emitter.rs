//! The state of a grammar under construction, and the loop that builds one rule for each set of schemas.
//!
//! Each set of schemas that a value must satisfy is a rule. There are finitely many sets, so recursive schemas end.
//! Arrays and objects have files of their own.

use std::{rc::Rc, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::Dfa;
use unskew_grammar::{ExprId, Grammar, GrammarBuilder, RuleId, kit::fixpoint::productive};

use super::{elements::Form, one_text::OneTexts};
use crate::{
    ElementStyle, MemberOrder, SchemaError, SchemaLimits, SchemaOptions, Separators, Whitespace,
    document::{
        json::{Document, NodeId},
        literal::Literal,
    },
    normalize::{
        expander::Expander,
        shape::{ALL, OBJECT, Types},
    },
};

/// A rule: a set of schemas, the types of its values, how these are written and, if output is indented, a level.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RuleKey {
    set: Rc<[Literal]>,
    types: Types,
    form: Form,
    level: u32,
}

pub(crate) struct Emitter {
    pub(crate) ex: Expander,
    pub(crate) builder: GrammarBuilder,
    /// The schema of whole outputs.
    root: NodeId,
    rules: HashMap<RuleKey, RuleId>,
    todo: Vec<(RuleId, RuleKey)>,
    /// Sets and levels that no value satisfies, as the analysis of an earlier grammar has shown.
    empty: HashSet<RuleKey>,
    /// Rules that must have a text; without one, there are fewer names than were counted.
    counted_on: Vec<RuleId>,
    /// Sets that have rules, if output is indented.
    indented: HashSet<Rc<[Literal]>>,
    /// Whether some values nest too deep to be written.
    is_cut: bool,
    pub(super) whitespace: Whitespace,
    /// The patterns in the place of commas, colons and white space.
    pub(super) separators: Separators,
    /// White space between the parts of a value; `None` if there is none.
    pub(super) space: Option<ExprId>,
    /// In the place of a comma, and of a colon.
    pub(super) item_separator: Option<ExprId>,
    pub(super) name_separator: Option<ExprId>,
    /// Blanks for each level, if output is indented.
    pub(super) indent: Option<u32>,
    /// The level of the current value, if output is indented; otherwise zero.
    pub(crate) level: u32,
    /// How members are written that are elements, and how the current value is.
    pub(super) style: Option<Arc<ElementStyle>>,
    pub(super) form: Form,
    /// Whether the current array or object is told apart from a string by its parts, so that it has some.
    pub(super) has_parts: bool,
    /// Whether characters beyond ASCII are escaped.
    pub(crate) ascii: bool,
    pub(crate) order: MemberOrder,
    /// The expression of each automaton, keyed by its address. `kept` keeps the automata alive.
    pub(super) terminals: HashMap<*const Dfa, ExprId>,
    /// The string expression of each automaton over text, keyed by its address.
    pub(super) strings: HashMap<*const Dfa, ExprId>,
    /// The written names of each automaton over text, keyed by its address and by whether they are of JSON.
    pub(crate) distinct_names: HashMap<(*const Dfa, bool), Arc<Dfa>>,
    /// The expression of unique items that satisfy a set of schemas; `None` if there are none.
    pub(crate) distinct_items: HashMap<Rc<[Literal]>, Option<DistinctItem>>,
    /// The texts of values in items that `uniqueItems` compares.
    pub(super) one_texts: OneTexts,
    pub(super) kept: Vec<Arc<Dfa>>,
    /// By rule, by text and by list of parts: the call, the literal and the concatenation.
    pub(super) calls: HashMap<RuleId, ExprId>,
    pub(super) literals: HashMap<String, ExprId>,
    pub(super) sequences: HashMap<Vec<ExprId>, ExprId>,
    /// By name and list of alternatives: their rule.
    pub(super) choices: HashMap<(&'static str, Vec<ExprId>), ExprId>,
    /// How many items of a parser state the groups with members in any order may take, if all are read side by side.
    pub(super) side_by_side: usize,
    /// The order of members where objects have one text: that in which their names were first met.
    pub(super) name_ranks: HashMap<Rc<str>, usize>,
}

/// A terminal without repeated texts in one object or array.
#[derive(Clone, Copy)]
pub(crate) struct Distinct {
    pub(crate) expr: ExprId,
    /// The number of texts; `None` if there are so many that nothing uses them up.
    pub(crate) most: Option<u32>,
}

/// A unique item, and the language of its texts.
#[derive(Clone)]
pub(crate) struct DistinctItem {
    pub(crate) distinct: Distinct,
    pub(crate) texts: Arc<Dfa>,
    /// Whether objects or arrays are among them.
    pub(crate) is_composed: bool,
}

/// The largest repetition that is written as rules; larger ones are counted by the parser.
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
            root: Document::ROOT,
            rules,
            todo,
            empty: HashSet::new(),
            counted_on: vec![],
            indented: HashSet::new(),
            is_cut: false,
            whitespace: options.whitespace,
            separators: options.separators.clone(),
            space: None,
            item_separator: None,
            name_separator: None,
            indent,
            level: 0,
            style: options.elements.clone(),
            form: Form::Json,
            has_parts: false,
            ascii: options.ascii,
            order: options.order,
            terminals: HashMap::new(),
            strings: HashMap::new(),
            distinct_names: HashMap::new(),
            distinct_items: HashMap::new(),
            one_texts: HashMap::new(),
            kept: vec![],
            calls: HashMap::new(),
            literals: HashMap::new(),
            sequences: HashMap::new(),
            choices: HashMap::new(),
            side_by_side: 0,
            name_ranks: HashMap::new(),
        };
        emitter.begin()?;
        Ok(emitter)
    }

    /// Makes the schema `root` that of whole outputs. A part of a document is JSON in any style.
    pub(crate) fn begin_at(&mut self, root: NodeId) {
        self.root = root;
        if root != Document::ROOT {
            self.style = None;
        }
    }

    /// The grammar of the values that satisfy the whole document, or the first keyword that is not enforced. It has a
    /// text.
    pub(crate) fn grammar(&mut self) -> Result<Grammar, SchemaError> {
        loop {
            let (grammar, start) = self.attempt()?;
            let productive = productive(&grammar);
            let has_text = |rule: &RuleId| productive[grammar.body(*rule).index()];
            // Whether a set has values is only known from the whole grammar, and the number of names depends on it.
            let empty: HashSet<RuleId> =
                self.counted_on.iter().copied().filter(|rule| !has_text(rule)).collect();
            if empty.is_empty() {
                return match has_text(&start) {
                    true => Ok(grammar),
                    false if self.is_cut => Err(self.too_deep()),
                    false => Err(SchemaError::unsatisfiable()),
                };
            }
            let found =
                self.rules.iter().filter(|(_, rule)| empty.contains(*rule)).map(|(key, _)| key.clone());
            self.empty.extend(found.collect::<Vec<_>>());
            self.forget()?;
        }
    }

    /// Starts over, keeping the facts about the schema and about sets without values.
    fn forget(&mut self) -> Result<(), SchemaError> {
        self.builder = Grammar::builder(&self.ex.limits.grammar);
        self.rules.clear();
        self.counted_on.clear();
        self.indented.clear();
        self.terminals.clear();
        self.strings.clear();
        self.distinct_names.clear();
        self.distinct_items.clear();
        self.one_texts.clear();
        self.calls.clear();
        self.literals.clear();
        self.sequences.clear();
        self.choices.clear();
        self.ex.narrowed.retain(|one| one.keyword == "format" || one.keyword == "contentEncoding");
        self.is_cut = false;
        self.side_by_side = 0;
        self.begin()
    }

    fn too_deep(&self) -> SchemaError {
        let limit = self.ex.limits.levels as usize;
        SchemaError::limit("#", "the levels of indented values", limit, "levels")
    }

    fn attempt(&mut self) -> Result<(Grammar, RuleId), SchemaError> {
        let root = self.ex.schemas.literal(self.root)?;
        let (types, form) = if self.style.is_some() { (OBJECT, Form::Root) } else { (ALL, Form::Json) };
        self.narrowed_by_style()?;
        let start = self.rule_at(RuleKey { set: [root].into(), types, form, level: 0 })?;
        while let Some((rule, key)) = self.todo.pop() {
            self.level = key.level;
            let body = self.value(&key.set, key.types, key.form)?;
            // Before the first member, a parser state holds all branches of a value, and of each other value that
            // branches of an enclosing object have in its place. Which values these are depends on the text, and
            // all values are an upper bound.
            let limit = self.ex.limits.grammar.state_items;
            if self.side_by_side > limit {
                let pointer =
                    key.set.first().map_or_else(String::new, |one| self.ex.schemas.pointer(one.node));
                let what = "the members in any order of all branches of values, which are read side by side,";
                return Err(SchemaError::limit(&pointer, what, limit, "grammar.state_items"));
            }
            if body.is_none() && rule == start && self.ex.refused.is_empty() {
                return Err(if self.is_cut { self.too_deep() } else { SchemaError::unsatisfiable() });
            }
            // A rule that only calls itself has no text, and the engine drops everything that leads to it.
            let body = body.unwrap_or_else(|| self.call(rule));
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

    /// An error if the grammar exceeds its limit or the compilation was cancelled.
    pub(crate) fn check(&self) -> Result<(), SchemaError> {
        self.ex.cancelled()?;
        let limit = self.ex.limits.grammar.nodes;
        if self.builder.size() > limit {
            return Err(SchemaError::limit("", "the nodes of the grammar", limit, "grammar.nodes"));
        }
        Ok(())
    }

    /// The rule of the values that satisfy `set` as parts of the current value; `None` if there are none, or none
    /// that is written.
    pub(crate) fn rule(&mut self, set: &[Literal]) -> Result<Option<RuleId>, SchemaError> {
        self.rule_of(set, ALL, Form::Json)
    }

    /// The same of some types, written in this way.
    pub(super) fn rule_of(
        &mut self,
        set: &[Literal],
        types: Types,
        form: Form,
    ) -> Result<Option<RuleId>, SchemaError> {
        let level = if self.indent.is_some() { self.level + 1 } else { 0 };
        let key = RuleKey { set: set.into(), types, form, level };
        if self.empty.contains(&key) {
            return Ok(None);
        }
        // Beyond the limit on levels, only sets that do not repeat get rules.
        if level > self.ex.limits.levels && !self.rules.contains_key(&key) && self.indented.contains(set) {
            self.is_cut = true;
            return Ok(None);
        }
        self.rule_at(key).map(Some)
    }

    /// Assumes that `rules` have texts; if one has none, the grammar is built again without it.
    pub(crate) fn count_on(&mut self, rules: impl IntoIterator<Item = RuleId>) {
        self.counted_on.extend(rules);
    }

    fn rule_at(&mut self, key: RuleKey) -> Result<RuleId, SchemaError> {
        if let Some(rule) = self.rules.get(&key) {
            return Ok(*rule);
        }
        let name = match key.set.first() {
            Some(literal) => self.ex.schemas.pointer(literal.node),
            None => "value".to_owned(),
        };
        let limit = self.ex.limits.rules;
        if self.rules.len() >= limit {
            return Err(SchemaError::limit(&name, "the sets of schemas", limit, "rules"));
        }
        let rule = self.builder.rule(&name);
        self.rules.insert(key.clone(), rule);
        if self.indent.is_some() {
            self.indented.insert(Rc::clone(&key.set));
        }
        self.todo.push((rule, key));
        Ok(rule)
    }
}
