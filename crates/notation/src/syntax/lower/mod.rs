//! Converts a parsed text to a [`Grammar`].
//!
//! Nodes are stored parts first, so one pass from the first to the last builds every expression, without a
//! stack. A terminal, and each side of a difference, becomes one automaton ([`Regulars`]).

mod budget;
mod ignored;
pub(crate) mod looking;
mod near;
mod regular;
mod reports;
mod uses;

use std::{collections::HashMap, sync::Arc};

use unskew_automata::{
    Dfa, RegexError,
    dfa::{CharSet, InContext},
};
use unskew_trie::ByteSet;

pub(crate) use ignored::Ignored;

use unskew_grammar::{
    Expr, ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId, SyntaxError, SyntaxErrorKind,
    kit::near::Side,
};

use self::{
    budget::Regularity,
    near::{Freed, near},
    regular::{Regular, Regulars, Work},
    uses::{Use, uses},
};
use crate::{
    layout::Layout,
    lazy::Lazy,
    looks::{Condition, Looks},
    syntax::{
        nested::{Nested, Part},
        options::{GrammarOptions, Indenter},
        text::error::{Locations, excerpt, location, token_excerpt},
        tree::{Definition, Node, NodeId, Tree, undefined},
    },
};

/// A grammar with the uses of terminals that are more than a language.
pub(crate) struct Lowered {
    pub(crate) grammar: Grammar,
    pub(crate) lazy: Lazy,
    pub(crate) looks: Looks,
    /// Constructs for [`explain`](crate::explain()): offset, construct and reason.
    pub(crate) notes: Vec<(usize, &'static str, &'static str)>,
    /// The terminals of an indenter.
    pub(crate) layout: Option<Layout>,
    /// An expression for the ignored text between two terminals.
    pub(crate) ignored: Option<ExprId>,
}

/// Builds the grammar of `tree`, with the rule of index `start` as the start rule.
pub(crate) fn lower(
    text: &str,
    tree: &Tree<'_>,
    start: usize,
    ignored: &Ignored,
    limits: &GrammarLimits,
) -> Result<Lowered, GrammarError> {
    let regulars = Regulars::new(text, tree, limits, Work::new(limits));
    Ok(Lowering::new(text, tree, ignored, limits, regulars).whole(start)?.0)
}

/// A grammar as it is made the first time, and the second.
struct Once<'a, 't> {
    made: Lowered,
    regulars: Regulars<'a, 't>,
    extending: Option<ByteSet>,
    conditionals: Vec<(NodeId, ExprId)>,
}

/// From this number on, repetitions of a character are counted by the parser and not written out.
const COUNTED: u32 = 1 << 16;

struct Lowering<'a, 't> {
    text: &'a str,
    tree: &'a Tree<'t>,
    limits: &'a GrammarLimits,
    builder: GrammarBuilder,
    regulars: Regulars<'a, 't>,
    /// By definition; `None` for terminals.
    rules: Vec<Option<RuleId>>,
    /// By definition: the expression for a use of the terminal, once it was built.
    terminals: Vec<Option<ExprId>>,
    /// The expressions of classes.
    sets: HashMap<&'a CharSet, ExprId>,
    /// An expression for the ignored text after each terminal.
    ignored: Option<ExprId>,
    /// The newline terminal of an indenter: its definition and automaton.
    newline: Option<(usize, Arc<Dfa>)>,
    /// The ignored text between brackets.
    inside: Option<ExprId>,
    /// The first bytes with which ignored texts that are to be as long as possible may go on where they have ended.
    extending: Option<ByteSet>,
    /// The first bytes of what may follow an ignored text, where each is to be as long as possible.
    follow: Option<ByteSet>,
    /// The uses of terminals with conditions on the text around them.
    conditionals: Vec<(NodeId, ExprId)>,
    /// By such a use: the last bytes of what may stand before it, and the first bytes of what may stand after it.
    near: HashMap<NodeId, [ByteSet; 2]>,
    /// Conditions that were freed.
    freed: Vec<Freed>,
    /// The terminals that the grammar ignores, and its options.
    source: &'a Ignored,
    /// Which rules are regular.
    regularity: Regularity,
    /// The part of the text of which this is the grammar, if it has a budget of tokens of its own.
    item: Option<NodeId>,
    /// How many nodes were read again for such parts.
    read_again: usize,
    lazy: Lazy,
    looks: Looks,
    /// The notes of grammars inside this one.
    notes: Vec<(usize, &'static str, &'static str)>,
}

impl<'a, 't> Lowering<'a, 't> {
    fn new(
        text: &'a str,
        tree: &'a Tree<'t>,
        source: &'a Ignored,
        limits: &'a GrammarLimits,
        regulars: Regulars<'a, 't>,
    ) -> Self {
        Self {
            text,
            tree,
            limits,
            builder: Grammar::builder(limits),
            regulars,
            rules: vec![],
            terminals: vec![None; tree.definitions.len()],
            sets: HashMap::new(),
            ignored: None,
            newline: None,
            inside: None,
            extending: None,
            follow: None,
            conditionals: vec![],
            near: HashMap::new(),
            freed: vec![],
            source,
            regularity: Regularity::of(tree),
            item: None,
            read_again: 0,
            lazy: Lazy::new(),
            looks: Looks::new(),
            notes: vec![],
        }
    }

    /// The grammar. What may stand beside a terminal is known once the grammar is: so where a terminal has a
    /// condition on the text around it, or where an ignored text is to be as long as possible and something may
    /// follow with which it would be longer, the grammar is made a second time.
    fn whole(self, start: usize) -> Result<(Lowered, Work), GrammarError> {
        let Self { text, tree, source, limits, item, .. } = self;
        let Once { mut made, mut regulars, extending, conditionals } = self.once(start)?;
        // Other text stands around a part, and around a block stands its indentation.
        let is_whole = item.is_none() && made.layout.is_none() && made.lazy.is_empty();
        let mut follow = None;
        if let (Some(ignored), Some(extending), true) = (made.ignored, extending, is_whole) {
            let after = near(&made.grammar, Side::After, Some(ignored))[ignored.index()];
            follow = extending.iter().any(|byte| after.contains(byte)).then_some(after);
        }
        let conditionals = if is_whole { conditionals } else { vec![] };
        if follow.is_none() && conditionals.is_empty() {
            return Ok((made, regulars.lend()));
        }
        let sides = [Side::Before, Side::After].map(|side| near(&made.grammar, side, None));
        let of = |expr: ExprId| [0, 1].map(|side: usize| sides[side][expr.index()]);
        let near = conditionals.into_iter().map(|(node, expr)| (node, of(expr))).collect();
        let again = Lowering { follow, near, ..Lowering::new(text, tree, source, limits, regulars) };
        let notes = made.notes;
        Once { made, regulars, .. } = again.once(start)?;
        made.notes = notes;
        Ok((made, regulars.lend()))
    }

    fn once(mut self, start: usize) -> Result<Once<'a, 't>, GrammarError> {
        let ignored = self.source;
        self.rules();
        self.newline = self.newline(&ignored.options)?;
        self.ignored = self.ignored(ignored, None)?;
        if let Some((_, newline)) = self.newline.clone() {
            let inside = self.ignored(ignored, Some(newline))?;
            let builder = &mut self.builder;
            self.inside = Some(inside.unwrap_or_else(|| builder.empty()));
            self.ignored = Some(self.ignored.unwrap_or_else(|| builder.empty()));
        }
        let uses = uses(self.tree, &self.regularity, self.item);
        let mut expressions: Vec<Option<ExprId>> = Vec::with_capacity(self.tree.len());
        for node in self.tree.nodes() {
            let expression = match uses[node.index()] {
                Use::Rule => Some(self.node(node, &expressions)?),
                Use::None | Use::Regular => None,
            };
            expressions.push(expression);
            if self.builder.size() > self.limits.nodes {
                return Err(GrammarError::TooManyNodes { limit: self.limits.nodes });
            }
        }
        self.finish(start, &expressions, &ignored.options)
    }

    fn rules(&mut self) {
        let mut locations = Locations::new(self.text);
        for definition in &self.tree.definitions {
            let rule = (!definition.terminal).then(|| {
                let rule = self.builder.rule(self.tree.name(definition.name));
                if let Some(name) = self.tree.captures.get(&definition.at) {
                    self.builder.capture(rule, &**name);
                }
                if let Some(temperature) = self.tree.temperatures.get(&definition.at) {
                    self.builder.temperature(rule, *temperature);
                }
                let location = locations.at(definition.at);
                // A location is one in the text itself.
                if location.file == 0 {
                    self.builder.locate(rule, location);
                }
                rule
            });
            self.rules.push(rule);
        }
    }

    /// The newline terminal, if a grammar declares the terminals of an indenter.
    fn newline(&mut self, options: &GrammarOptions) -> Result<Option<(usize, Arc<Dfa>)>, GrammarError> {
        let Some((at, file)) = self.tree.declared else { return Ok(None) };
        let name = &options.indenter.newline;
        let find =
            |name: &str| self.tree.find_in(file, name).filter(|found| self.tree.definitions[*found].terminal);
        // The documentation of Lark's `Indenter` has `_NL` where its `PythonIndenter` has `_NEWLINE`.
        let other = (*name == Indenter::default().newline).then_some("_NL");
        let Some(definition) = find(name).or_else(|| other.and_then(find)) else {
            let what = "newline terminal of `%declare`";
            let (name, nearest) = (name.clone(), None);
            let way_out = Some(
                "define it or `_NL`, or name another, as in `%grammar_options {\"indenter\": {\"newline\": \"BREAK\"}}`",
            );
            let kind = SyntaxErrorKind::Undefined { what, name, nearest, way_out };
            return Err(SyntaxError { kind, location: location(self.text, at) }.into());
        };
        let body = self.tree.definitions[definition].body;
        let value = self.regulars.definition(definition)?;
        Ok(Some((definition, self.regulars.automaton(body, value)?)))
    }

    fn finish(
        mut self,
        start: usize,
        expressions: &[Option<ExprId>],
        ignored_options: &GrammarOptions,
    ) -> Result<Once<'a, 't>, GrammarError> {
        for (rule, definition) in self.rules.iter().zip(&self.tree.definitions) {
            if let Some(rule) = rule {
                // Rules that a part of the text does not reach have none.
                let body = expressions[definition.body.index()];
                let body = body.unwrap_or_else(|| self.builder.empty());
                self.builder.define(*rule, body);
            }
        }
        // Terminals that no rule uses are checked too.
        for definition in 0..self.rules.len() {
            let body = self.tree.definitions[definition].body;
            if self.rules[definition].is_none() && !matches!(self.tree.node(body), Node::Declared) {
                match self.regulars.definition(definition) {
                    Err(error) if !has_no_text(&error) => return Err(error),
                    _ => {}
                }
            }
        }
        let item = self.item.map(|item| {
            let whole = self.builder.rule(&excerpt(self.text, self.tree.place(item)));
            self.builder.define(whole, expressions[item.index()].expect("it is used"));
            whole
        });
        let start = match (self.rules[start], self.ignored.filter(|_| !self.source.only_after)) {
            _ if item.is_some() => item.expect("it is some"),
            (Some(rule), None) => rule,
            (rule, ignored) => {
                // Ignored text may also precede the first terminal.
                let whole = self.builder.rule(self.tree.name(self.tree.definitions[start].name));
                let body = match rule {
                    Some(rule) => self.builder.call(rule),
                    None => self.terminal(start)?,
                };
                let body = self.builder.sequence(ignored.into_iter().chain([body]));
                self.builder.define(whole, body);
                whole
            }
        };
        let mut notes = std::mem::take(&mut self.regulars.looking.notes);
        notes.append(&mut self.notes);
        let marks = self.marks(&ignored_options.indenter);
        let (ignored, inside) = (self.ignored, self.inside);
        let grammar = self.builder.build(start)?;
        let layout = marks.zip(ignored).zip(inside).map(|((marks, ignored), inside)| {
            let [newline, indent, dedent] = marks.map(|mark| match grammar.expr(mark) {
                Expr::Terminal(terminal) => terminal,
                _ => unreachable!("a mark is a terminal"),
            });
            let Indenter { open, close, tab, .. } = &ignored_options.indenter;
            let texts = |texts: &[String]| texts.iter().map(|text| text.as_bytes().into()).collect();
            let (open, close, tab) = (texts(open), texts(close), *tab);
            let at = self.tree.declared.map_or(0, |(at, _)| at);
            Layout { newline, indent, dedent, ignored, inside, open, close, tab, at }
        });
        let (lazy, looks) = (std::mem::take(&mut self.lazy), std::mem::take(&mut self.looks));
        let made = Lowered { grammar, lazy, looks, notes, layout, ignored };
        let Self { regulars, extending, conditionals, .. } = self;
        Ok(Once { made, regulars, extending, conditionals })
    }

    /// The expression of a node of a rule. The expressions of its parts are in `expressions`.
    fn node(&mut self, node: NodeId, expressions: &[Option<ExprId>]) -> Result<ExprId, GrammarError> {
        let tree = self.tree;
        let expression = |node: &NodeId| expressions[node.index()].expect("the parts of rules were made");
        Ok(match tree.node(node) {
            Node::Literal(text) if tree.text(text).is_empty() => self.builder.empty(),
            Node::Literal(text) => {
                let literal = self.builder.literal(tree.text(text));
                self.followed(literal)
            }
            Node::Class(set) => {
                let literal = self.class(node, tree.set(set))?;
                self.followed(literal)
            }
            Node::Name(name) => {
                let definition = tree
                    .definition_of(name)
                    .ok_or_else(|| undefined(self.text, tree, name, tree.place(node)))?;
                match self.rules[definition] {
                    Some(rule) => self.builder.call(rule),
                    None => self.terminal(definition)?,
                }
            }
            Node::Token(name) => {
                let token = self.builder.token(tree.name(name));
                self.followed(token)
            }
            Node::Tokens(set) => {
                let name = token_excerpt(self.text, tree.place(node));
                let tokens = self.builder.tokens(&name, tree.token_set(set).clone());
                self.followed(tokens)
            }
            Node::Grammar(nested) => {
                let whole = self.nested(tree.nested(nested))?;
                self.followed(whole)
            }
            Node::Sequence(parts) => self.builder.sequence(tree.parts(parts).iter().map(expression)),
            Node::Choice(parts) => self.builder.choice(tree.parts(parts).iter().map(expression)),
            // The parser counts that many characters, which would be as many positions.
            Node::Repeat(item, min, max) if (COUNTED..u32::MAX).contains(&max) && tree.is_char(item) => {
                self.builder.unordered([], Some(expression(&item)), None, min, Some(max))
            }
            Node::Repeat(item, min, max) => {
                self.builder.repeat(expression(&item), min, (max != u32::MAX).then_some(max))
            }
            Node::AnyCase(_)
            | Node::Pattern(_)
            | Node::Neighbours(_)
            | Node::Minus(..)
            | Node::And(..)
            | Node::Before(..)
            | Node::Within(..)
            | Node::Not(_) => {
                let value = self.regulars.node(node)?;
                let name = excerpt(self.text, tree.place(node));
                let made = match self.conditional(node, &name, &value)? {
                    Some(made) => made,
                    None => {
                        let value = self.regulars.automaton(node, value)?;
                        self.builder.shared_automaton(&name, &value)
                    }
                };
                self.followed(made)
            }
            // This grammar is that of the budget.
            Node::Budget(item, _) if self.item == Some(item) => expression(&item),
            Node::Budget(item, tokens) => {
                let made = self.budget(node, item, tokens)?;
                self.followed(made)
            }
            Node::Declared => unreachable!("it is the body of a terminal"),
            Node::Call(_) | Node::Guard(_) => unreachable!("rules with parameters are written out"),
            Node::Shortest(_) => {
                let value = self.regulars.node(node)?;
                let made = self.lazy(tree.place(node), &excerpt(self.text, tree.place(node)), value);
                self.followed(made)
            }
        })
    }

    /// The grammar of a part of the text.
    fn part(&mut self, part: &Part<'_>) -> Result<Lowered, GrammarError> {
        let Part { tree, ignored, start } = part;
        let regulars = Regulars::new(self.text, tree, self.limits, self.regulars.lend());
        let inner = Lowering::new(self.text, tree, ignored, self.limits, regulars);
        // What stands around it is not known there.
        let Once { made: mut lowered, mut regulars, .. } = inner.once(*start)?;
        self.regulars.give_back(regulars.lend());
        self.notes.append(&mut lowered.notes);
        Ok(lowered)
    }

    /// A grammar inside this one. Its lazy terminals are lazy among the terminals around it too.
    fn nested(&mut self, nested: &Nested<'_>) -> Result<ExprId, GrammarError> {
        let Lowered { grammar, lazy, looks, .. } = match nested {
            Nested::Ready(grammar) => return Ok(self.builder.import(grammar)),
            Nested::Text(part) => self.part(part)?,
        };
        let (whole, made) = self.builder.import_parts(&grammar);
        self.lazy.extend(lazy.iter().map(|(terminal, at)| (made[terminal.index()], *at)));
        self.looks.extend(looks.into_iter().map(|(terminal, condition)| (made[terminal.index()], condition)));
        Ok(whole)
    }

    /// A lazy terminal, defined at `at`.
    fn lazy(&mut self, at: usize, name: &str, value: Regular) -> ExprId {
        let made = match value {
            Regular::Text(text) if text.is_empty() => return self.builder.empty(),
            // If one of its texts is empty, it has no other.
            Regular::Automaton(automaton) if automaton.is_accepting(automaton.start()) => {
                return self.builder.empty();
            }
            Regular::Text(text) => self.builder.literal(text),
            Regular::Automaton(automaton) => self.builder.shared_automaton(name, &automaton),
            Regular::Pattern(_) => unreachable!("a lazy terminal is an automaton"),
        };
        self.lazy.insert(made, at);
        made
    }

    /// A terminal with conditions on the text around it; `None` if `value` has none.
    fn conditional(
        &mut self,
        node: NodeId,
        name: &str,
        value: &Regular,
    ) -> Result<Option<ExprId>, GrammarError> {
        let Regular::Pattern(pattern) = value else { return Ok(None) };
        let found = self.regulars.in_context(node, *pattern)?;
        let is_empty =
            |one: &InContext| one.text.accepts(b"") && one.text.edges(one.text.start()).next().is_none();
        if self.regulars.looking.is_lazy(*pattern) && found.iter().all(is_empty) {
            let message = format!(
                "the lazy repetition of `{name}` ends at once, so the terminal has no text but the empty one: write the text that \
                 ends it into the same terminal"
            );
            let kind = SyntaxErrorKind::Invalid { message };
            return Err(SyntaxError { kind, location: location(self.text, self.tree.place(node)) }.into());
        }
        if let [InContext { before: None, after: None, .. }] = &found[..] {
            return Ok(None);
        }
        let at = self.tree.place(node);
        // Texts with the same conditions are one terminal.
        type Conditions = [Option<Arc<Dfa>>; 2];
        let mut texts: Vec<(Conditions, Vec<Arc<Dfa>>)> = vec![];
        for InContext { before, text, after, .. } in found.iter() {
            let mut conditions = [before.clone(), after.clone()];
            if let Some(near) = self.near.get(&node).copied() {
                for (at, side) in [Side::Before, Side::After].into_iter().enumerate() {
                    if let Some(condition) = conditions[at].take() {
                        conditions[at] = self.freed(node, &condition, side, &near[at])?;
                    }
                }
            }
            match texts.iter_mut().find(|(known, _)| *known == conditions) {
                Some((_, texts)) => texts.push(Arc::clone(text)),
                None => texts.push((conditions, vec![Arc::clone(text)])),
            }
        }
        let mut ways = vec![];
        for (conditions, texts) in texts {
            let text = match &texts[..] {
                [only] => Arc::clone(only),
                texts => {
                    let made = self.regulars.builder.union(texts.iter().map(|text| &**text));
                    let made = self.regulars.make(node, made)?;
                    self.regulars.automaton(node, made)?
                }
            };
            let made = self.builder.shared_automaton(name, &text);
            if conditions != [None, None] {
                let [before, after] = conditions;
                self.looks.insert(made, Condition { before, after, at });
            }
            ways.push(made);
        }
        let made = self.builder.choice(ways);
        self.conditionals.push((node, made));
        Ok(Some(made))
    }

    /// The newline terminal and the declared ones.
    fn marks(&mut self, indenter: &Indenter) -> Option<[ExprId; 3]> {
        let (definition, newline) = self.newline.clone()?;
        let newline =
            self.builder.shared_automaton(self.tree.name(self.tree.definitions[definition].name), &newline);
        let [indent, dedent] = [&indenter.indent, &indenter.dedent].map(|name| self.mark(name));
        Some([newline, indent, dedent])
    }

    /// The declared terminal of this name. No token of a text is named so.
    fn mark(&mut self, name: &str) -> ExprId {
        self.builder.token(&format!("%declare {name}"))
    }

    fn class(&mut self, node: NodeId, set: &'a CharSet) -> Result<ExprId, GrammarError> {
        if let Some(made) = self.sets.get(set) {
            return Ok(*made);
        }
        let value = self.regulars.node(node)?;
        let value = self.regulars.automaton(node, value)?;
        let made = self.builder.shared_automaton(&excerpt(self.text, self.tree.place(node)), &value);
        self.sets.insert(set, made);
        Ok(made)
    }

    /// A use of the terminal with the definition of this index.
    fn terminal(&mut self, definition: usize) -> Result<ExprId, GrammarError> {
        if let Some(made) = self.terminals[definition] {
            return Ok(made);
        }
        let Definition { name, at, body, .. } = self.tree.definitions[definition];
        let name = self.tree.name(name);
        if matches!(self.tree.node(body), Node::Declared) {
            let mark = self.mark(name);
            let made = self.followed(mark);
            return Ok(*self.terminals[definition].insert(made));
        }
        let value = match self.regulars.definition(definition) {
            Err(error) if has_no_text(&error) => {
                // A rule that is itself alone has no text, and the engine drops all that leads to it.
                let rule = self.builder.rule(name);
                let nothing = self.builder.call(rule);
                self.builder.define(rule, nothing);
                return Ok(*self.terminals[definition].insert(nothing));
            }
            value => value?,
        };
        let made = match value {
            _ if self.newline.as_ref().is_some_and(|(newline, _)| *newline == definition) => {
                let (_, newline) = self.newline.clone().expect("it is this one");
                self.builder.shared_automaton(name, &newline)
            }
            value if matches!(self.tree.node(body), Node::Shortest(_)) => self.lazy(at, name, value),
            Regular::Text(text) if text.is_empty() => self.builder.empty(),
            Regular::Text(text) => self.builder.literal(text),
            Regular::Automaton(automaton) => self.builder.shared_automaton(name, &automaton),
            Regular::Pattern(_) => match self.conditional(body, name, &value)? {
                Some(made) => made,
                None => {
                    let automaton = self.regulars.automaton(body, value)?;
                    self.builder.shared_automaton(name, &automaton)
                }
            },
        };
        let made = self.reported(definition, made);
        let made = self.followed(made);
        Ok(*self.terminals[definition].insert(made))
    }

    /// `terminal`, followed by optional ignored text.
    fn followed(&mut self, terminal: ExprId) -> ExprId {
        self.builder.sequence([terminal].into_iter().chain(self.ignored))
    }
}

/// Whether the error is that a terminal has no text.
fn has_no_text(error: &GrammarError) -> bool {
    matches!(error, GrammarError::Terminal { source: RegexError::MatchesNothing, .. })
}
