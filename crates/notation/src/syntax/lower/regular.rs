//! Builds automata for the regular parts of a grammar: terminals of Lark, character classes, and both sides
//! of a difference.
//!
//! Parts are built one by one, and each definition once, however often it is used. Literal texts remain texts
//! as long as possible, so that ten thousand alternatives become one automaton at once, and not through ten
//! thousand unions. Nothing recurses.

use std::{collections::HashMap, sync::Arc};

use unskew_automata::{
    Dfa, Dialect, Pattern, RegexError,
    dfa::{DfaAlgebra, PatternId},
};
use unskew_grammar::{GrammarError, GrammarLimits, Location, SyntaxError, SyntaxErrorKind};

use crate::syntax::{
    lower::looking::Looking,
    text::error::{excerpt, location},
    tree::{Node, NodeId, Tree, undefined},
};

/// A regular language.
#[derive(Clone, Debug)]
pub(crate) enum Regular {
    /// Exactly this text, possibly empty.
    Text(Arc<[u8]>),
    Automaton(Arc<Dfa>),
    /// A pattern that looks around or has lazy repetitions, and depends on the texts around it.
    Pattern(PatternId),
}

/// The state of a definition.
#[derive(Clone, Debug)]
enum Made {
    No,
    /// Its parts are in work. Visiting it again would never end.
    Begun,
    Yes(Regular),
}

enum Task {
    Visit(NodeId),
    /// Builds a node from its parts, which are on the stack of values.
    Combine(NodeId),
    /// Records a definition. Its body is on the stack of values.
    Define(usize),
}

/// The work on automata so far, which a grammar and those inside of it share.
pub(crate) struct Work {
    builder: DfaAlgebra,
    bytes: usize,
}

impl Work {
    pub(crate) fn new(limits: &GrammarLimits) -> Self {
        Self { builder: DfaAlgebra::new(&limits.regex), bytes: 0 }
    }
}

/// Builds the languages of nodes.
pub(crate) struct Regulars<'a, 't> {
    text: &'a str,
    pub(crate) tree: &'a Tree<'t>,
    limits: &'a GrammarLimits,
    /// By definition.
    made: Vec<Made>,
    by_pattern: HashMap<(String, Dialect), Arc<Dfa>>,
    pub(crate) builder: DfaAlgebra,
    /// The size of the tables of all automata built, including those of parts, in bytes.
    bytes: usize,
    /// The definitions in work, innermost last.
    open: Vec<usize>,
    pub(crate) looking: Looking,
}

impl<'a, 't> Regulars<'a, 't> {
    pub(crate) fn new(text: &'a str, tree: &'a Tree<'t>, limits: &'a GrammarLimits, work: Work) -> Self {
        let Work { builder, bytes } = work;
        let made = vec![Made::No; tree.definitions.len()];
        let looking = Looking::new(&limits.regex);
        Self { text, tree, limits, made, by_pattern: HashMap::new(), builder, bytes, open: vec![], looking }
    }

    /// Lends the work to a grammar inside this one, until it is given back.
    pub(crate) fn lend(&mut self) -> Work {
        let builder = std::mem::replace(&mut self.builder, DfaAlgebra::new(&self.limits.regex));
        Work { builder, bytes: self.bytes }
    }

    pub(crate) fn give_back(&mut self, work: Work) {
        (self.builder, self.bytes) = (work.builder, work.bytes);
    }

    /// The language of the definition of this index.
    pub(crate) fn definition(&mut self, definition: usize) -> Result<Regular, GrammarError> {
        if let Made::Yes(made) = &self.made[definition] {
            return Ok(made.clone());
        }
        self.made[definition] = Made::Begun;
        let open = self.open.len();
        self.open.push(definition);
        let body = self.tree.definitions[definition].body;
        let made = self.run(vec![Task::Define(definition), Task::Visit(body)]);
        if made.is_err() {
            // Those that have no text are asked for again.
            for begun in self.open.drain(open..) {
                self.made[begun] = Made::No;
            }
        }
        made
    }

    /// The language of `node`.
    pub(crate) fn node(&mut self, node: NodeId) -> Result<Regular, GrammarError> {
        self.run(vec![Task::Visit(node)])
    }

    fn run(&mut self, mut tasks: Vec<Task>) -> Result<Regular, GrammarError> {
        let mut values: Vec<Regular> = vec![];
        while let Some(task) = tasks.pop() {
            match task {
                Task::Visit(node) => {
                    if let Some(value) = self.visit(node, &mut tasks)? {
                        values.push(value);
                    }
                }
                Task::Combine(node) => {
                    let value = self.combine(node, &mut values)?;
                    values.push(value);
                }
                Task::Define(definition) => {
                    let value = values.last().expect("the body was made");
                    self.made[definition] = Made::Yes(value.clone());
                    self.open.pop();
                }
            }
        }
        Ok(values.pop().expect("the first task makes a value"))
    }

    /// The language of a node without parts. For other nodes, schedules the parts first.
    fn visit(&mut self, node: NodeId, tasks: &mut Vec<Task>) -> Result<Option<Regular>, GrammarError> {
        let tree = self.tree;
        let part = |part: &NodeId| Task::Visit(*part);
        match tree.node(node) {
            Node::Literal(text) => return Ok(Some(Regular::Text(tree.text(text).into()))),
            Node::AnyCase(text) => {
                let text = String::from_utf8_lossy(tree.text(text));
                let pattern = format!("(?i){}", regex_syntax::escape(&text));
                return self.pattern(node, Dialect::Python.pattern(&pattern)).map(Some);
            }
            Node::Class(set) => return self.pattern(node, &tree.set(set).pattern()).map(Some),
            Node::Pattern(pattern) => {
                let pattern = tree.pattern(pattern);
                let pattern = pattern.dialect.pattern(&pattern.regex);
                return match self.looking(node, pattern)? {
                    Some(looking) => Ok(Some(looking)),
                    None => self.pattern(node, pattern).map(Some),
                };
            }
            Node::Neighbours(texts) => {
                let made = self.builder.factors(tree.texts(texts));
                return self.make(node, made).map(Some);
            }
            Node::Name(name) => return self.name(node, name, tasks),
            Node::Token(name) => {
                let construct = format!(
                    "the control token `{}` inside a terminal, a lazy or limited rule or an operand of `-`",
                    tree.name(name)
                );
                return Err(self.unsupported(node, construct, "use it in a rule, next to the terminal"));
            }
            Node::Grammar(_) => {
                let construct =
                    "a grammar inside a terminal, a lazy or limited rule or an operand of `-`".to_owned();
                return Err(self.unsupported(node, construct, "use it in a rule, next to the terminal"));
            }
            Node::Tokens(_) => {
                let construct =
                    "a token by its id inside a terminal, a lazy or limited rule or an operand of `-`"
                        .to_owned();
                return Err(self.unsupported(node, construct, "use it in a rule, next to the terminal"));
            }
            Node::Sequence(parts) | Node::Choice(parts) => {
                tasks.push(Task::Combine(node));
                tasks.extend(tree.parts(parts).iter().rev().map(part));
            }
            Node::Repeat(item, ..) | Node::Not(item) | Node::Shortest(item) | Node::Within(item, _) => {
                tasks.extend([Task::Combine(node), Task::Visit(item)]);
            }
            Node::Declared => {
                let construct = "a declared terminal, which has no text, inside a terminal".to_owned();
                return Err(self.unsupported(node, construct, "use it in a rule"));
            }
            Node::Call(_) | Node::Guard(_) => unreachable!("rules with parameters are written out"),
            Node::Budget(..) => {
                let construct = "a budget of tokens inside a terminal".to_owned();
                return Err(self.unsupported(node, construct, "give it to the whole rule"));
            }
            Node::Minus(left, right) | Node::And(left, right) | Node::Before(left, right) => {
                tasks.extend([Task::Combine(node), Task::Visit(right), Task::Visit(left)]);
            }
        }
        Ok(None)
    }

    fn name(
        &mut self,
        node: NodeId,
        name: u32,
        tasks: &mut Vec<Task>,
    ) -> Result<Option<Regular>, GrammarError> {
        let tree = self.tree;
        let place = tree.place(node);
        let definition = tree.definition_of(name).ok_or_else(|| undefined(self.text, tree, name, place))?;
        match &self.made[definition] {
            Made::Yes(made) => return Ok(Some(made.clone())),
            Made::Begun => {
                let kind = SyntaxErrorKind::Recursive {
                    name: tree.name(name).to_owned(),
                    place: "a terminal, a lazy or limited rule or an operand of `-`",
                    way_out: "use a rule, or write the repetition with `*` or `+`",
                };
                return Err(SyntaxError { kind, location: location(self.text, place) }.into());
            }
            Made::No => {}
        }
        self.made[definition] = Made::Begun;
        self.open.push(definition);
        tasks.extend([Task::Define(definition), Task::Visit(tree.definitions[definition].body)]);
        Ok(None)
    }

    fn combine(&mut self, node: NodeId, values: &mut Vec<Regular>) -> Result<Regular, GrammarError> {
        let mut pop = || values.pop().expect("the parts were made");
        match self.tree.node(node) {
            Node::Sequence(parts) => {
                let parts = values.split_off(values.len() - self.tree.parts(parts).len());
                self.sequence(node, parts)
            }
            Node::Choice(parts) => {
                let parts = values.split_off(values.len() - self.tree.parts(parts).len());
                self.choice(node, parts)
            }
            Node::Repeat(_, min, max) => {
                let item = pop();
                self.repeat(node, item, min, max)
            }
            Node::Minus(..) => {
                let (right, left) = (pop(), pop());
                let (left, right) = (self.automaton(node, left)?, self.automaton(node, right)?);
                let made = self.builder.difference(&left, &right);
                self.make(node, made)
            }
            Node::And(..) => {
                let (right, left) = (pop(), pop());
                let (left, right) = (self.automaton(node, left)?, self.automaton(node, right)?);
                let made = self.builder.intersection(&left, &right);
                self.make(node, made)
            }
            Node::Before(..) => {
                let (stop, body) = (pop(), pop());
                let (body, stop) = (self.automaton(node, body)?, self.automaton(node, stop)?);
                let whole = self.builder.concatenation([&*body, &*stop]);
                let whole = self.make(node, whole)?;
                let whole = self.automaton(node, whole)?;
                let first = self.builder.prefix_free(&whole);
                let first = self.make(node, first)?;
                let first = self.automaton(node, first)?;
                let before = self.builder.right_quotient(&first, &stop);
                let before = self.make(node, before)?;
                let before = self.automaton(node, before)?;
                let made = self.builder.intersection(&body, &before);
                self.make(node, made)
            }
            Node::Within(_, most) => {
                let item = pop();
                let item = self.automaton(node, item)?;
                self.within(node, &item, most)
            }
            Node::Not(_) => {
                let item = pop();
                let item = self.automaton(node, item)?;
                let all = self.pattern(node, "(?s).*")?;
                let all = self.automaton(node, all)?;
                let made = self.builder.difference(&all, &item);
                self.make(node, made)
            }
            Node::Shortest(_) => {
                let item = pop();
                let item = self.automaton(node, item)?;
                let made = self.builder.prefix_free(&item);
                self.make(node, made)
            }
            _ => unreachable!("it has no parts"),
        }
    }

    fn sequence(&mut self, node: NodeId, parts: Vec<Regular>) -> Result<Regular, GrammarError> {
        if let Some(looking) = self.looking_sequence(&parts) {
            return Ok(looking);
        }
        let mut joined: Vec<Arc<Dfa>> = vec![];
        let mut text: Vec<u8> = vec![];
        for part in parts {
            match part {
                Regular::Text(part) => {
                    self.check_text(node, text.len() + part.len())?;
                    text.extend_from_slice(&part);
                }
                Regular::Automaton(part) => {
                    if !text.is_empty() {
                        joined.push(self.literal(node, &std::mem::take(&mut text))?);
                    }
                    joined.push(part);
                }
                Regular::Pattern(_) => unreachable!("such a sequence is a pattern"),
            }
        }
        if joined.is_empty() {
            return self.text(node, text);
        }
        if !text.is_empty() {
            joined.push(self.literal(node, &text)?);
        }
        if let [only] = &joined[..] {
            return Ok(Regular::Automaton(only.clone()));
        }
        let made = self.builder.concatenation(joined.iter().map(|part| &**part));
        self.make(node, made)
    }

    fn choice(&mut self, node: NodeId, parts: Vec<Regular>) -> Result<Regular, GrammarError> {
        if let Some(looking) = self.looking_choice(&parts) {
            return Ok(looking);
        }
        let mut texts: Vec<Arc<[u8]>> = vec![];
        let mut joined: Vec<Arc<Dfa>> = vec![];
        let mut with_empty = false;
        for part in parts {
            match part {
                Regular::Text(text) if text.is_empty() => with_empty = true,
                Regular::Text(text) => texts.push(text),
                Regular::Automaton(part) => joined.push(part),
                Regular::Pattern(_) => unreachable!("such a choice is a pattern"),
            }
        }
        if !texts.is_empty() {
            let made = self.builder.literals(texts);
            let made = self.make(node, made)?;
            joined.push(self.automaton(node, made)?);
        }
        if with_empty {
            joined.push(self.literal(node, b"")?);
        }
        if let [only] = &joined[..] {
            return Ok(Regular::Automaton(only.clone()));
        }
        let made = self.builder.union(joined.iter().map(|part| &**part));
        self.make(node, made)
    }

    fn repeat(&mut self, node: NodeId, item: Regular, min: u32, max: u32) -> Result<Regular, GrammarError> {
        match item {
            Regular::Text(text) if text.is_empty() => return Ok(Regular::Text(text)),
            Regular::Text(text) if min == max => {
                self.check_text(node, text.len().saturating_mul(min as usize))?;
                return self.text(node, text.repeat(min as usize));
            }
            Regular::Pattern(item) => return Ok(self.looking.repeat(item, min, max)),
            Regular::Text(_) | Regular::Automaton(_) => {}
        }
        let item = self.automaton(node, item)?;
        let max = (max != u32::MAX).then_some(max);
        let made = self.builder.repetition(&item, min, max);
        self.make(node, made)
    }

    /// The texts of `item` of which no shorter beginning of at least `most` characters is a text of it.
    fn within(&mut self, node: NodeId, item: &Dfa, most: u32) -> Result<Regular, GrammarError> {
        let least = self.pattern(node, &format!("(?s).{{{most},}}"))?;
        let least = self.automaton(node, least)?;
        let ends = match self.builder.intersection(item, &least) {
            // Every text is shorter.
            Err(RegexError::MatchesNothing) => return Ok(Regular::Automaton(Arc::new(item.clone()))),
            ends => self.make(node, ends)?,
        };
        let ends = self.automaton(node, ends)?;
        let more = self.pattern(node, "(?s).+")?;
        let more = self.automaton(node, more)?;
        let longer = self.builder.concatenation([&*ends, &*more]);
        let longer = self.make(node, longer)?;
        let longer = self.automaton(node, longer)?;
        let made = self.builder.difference(item, &longer);
        self.make(node, made)
    }

    /// The automaton of `pattern`, which is built once.
    pub(crate) fn pattern<'p>(
        &mut self,
        node: NodeId,
        pattern: impl Into<Pattern<'p>>,
    ) -> Result<Regular, GrammarError> {
        let pattern = pattern.into();
        let key = (pattern.text.to_owned(), pattern.dialect);
        if let Some(made) = self.by_pattern.get(&key) {
            return Ok(Regular::Automaton(made.clone()));
        }
        let made = self.builder.pattern(pattern);
        let made = self.make(node, made)?;
        let automaton = self.automaton(node, made)?;
        self.by_pattern.insert(key, automaton.clone());
        Ok(Regular::Automaton(automaton))
    }

    fn literal(&mut self, node: NodeId, text: &[u8]) -> Result<Arc<Dfa>, GrammarError> {
        let made = match text {
            [] => self.builder.pattern(""),
            text => self.builder.literals([text]),
        };
        let made = self.make(node, made)?;
        self.automaton(node, made)
    }

    /// The automaton of a language at `node`.
    pub(crate) fn automaton(&mut self, node: NodeId, value: Regular) -> Result<Arc<Dfa>, GrammarError> {
        match value {
            Regular::Automaton(automaton) => Ok(automaton),
            Regular::Text(text) => self.literal(node, &text),
            Regular::Pattern(pattern) => self.without_context(node, pattern),
        }
    }

    /// Checks the length of a composed text. It is bounded by the number of states that an automaton may have.
    fn check_text(&self, node: NodeId, bytes: usize) -> Result<(), GrammarError> {
        let limit = self.limits.regex.dfa_states;
        if bytes > limit { Err(self.error(node, RegexError::too_many_dfa_states(limit))) } else { Ok(()) }
    }

    /// Counts a text composed at `node`.
    fn text(&mut self, node: NodeId, text: Vec<u8>) -> Result<Regular, GrammarError> {
        self.count(node, text.len())?;
        Ok(Regular::Text(text.into()))
    }

    /// Counts an automaton built at `node`.
    pub(crate) fn make(
        &mut self,
        node: NodeId,
        made: Result<Dfa, RegexError>,
    ) -> Result<Regular, GrammarError> {
        let automaton = made.map_err(|source| self.error(node, source))?;
        self.count(node, automaton.memory_usage())?;
        Ok(Regular::Automaton(Arc::new(automaton)))
    }

    pub(crate) fn count(&mut self, node: NodeId, bytes: usize) -> Result<(), GrammarError> {
        self.bytes += bytes;
        let limit = self.limits.automata_bytes;
        if self.bytes > limit {
            return Err(GrammarError::AutomataTooLarge { location: self.place(node), limit });
        }
        Ok(())
    }

    fn place(&self, node: NodeId) -> Location {
        location(self.text, self.tree.place(node))
    }

    /// An error of the automata at `node`. A location in the pattern is converted to one in the text of the grammar.
    pub(crate) fn error(&self, node: NodeId, mut source: RegexError) -> GrammarError {
        let begin = self.place(node);
        let added = match self.tree.node(node) {
            Node::Pattern(pattern) => self.tree.pattern(pattern).added,
            _ => None,
        };
        if let (
            Some(added),
            RegexError::Syntax { place, .. }
            | RegexError::Unsupported { place, .. }
            | RegexError::NestTooDeep { place, .. }
            | RegexError::SyntaxTooCostly { place, .. },
        ) = (added, &mut source)
        {
            let shift = |offset: usize| (begin.offset + 1 + offset).saturating_sub(added);
            place.span = shift(place.span.start)..shift(place.span.end);
            if place.line == 1 {
                place.column = (begin.column + place.column).saturating_sub(added);
            }
            place.line += begin.line - 1;
        }
        let name = match self.open.last() {
            Some(definition) => self.tree.name(self.tree.definitions[*definition].name).to_owned(),
            None => excerpt(self.text, begin.offset),
        };
        GrammarError::Terminal { name, location: Some(begin), source }
    }

    pub(crate) fn unsupported(&self, node: NodeId, construct: String, way_out: &'static str) -> GrammarError {
        let kind = SyntaxErrorKind::Unsupported { construct, way_out };
        SyntaxError { kind, location: self.place(node) }.into()
    }
}
