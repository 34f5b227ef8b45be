//! The result of parsing in all three languages: definitions over one flat list of nodes, parts before the whole.
//!
//! A name may be used before its definition, so a second pass builds the grammar ([`lower`](crate::syntax::lower)).

pub(crate) mod assembler;
pub(crate) mod escape;
pub(crate) mod expand;
pub(crate) mod parameters;
pub(crate) mod reader;
pub(crate) mod tokens;

use std::collections::HashMap;

use unskew_automata::{Dialect, dfa::CharSet};
use unskew_grammar::{Fate, SyntaxError, SyntaxErrorKind, TokenSet};

use crate::syntax::{
    nested::Nested,
    text::error::{foreign_name, location, nearest},
    tree::{
        expand::{Arguments, Call, Parameters},
        parameters::Condition,
    },
};

/// A node of a tree, or the mark of an operator between two nodes while a body is assembled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// A mark of an operator, which is no node of a tree.
    pub(crate) const fn mark(operator: u32) -> Self {
        Self(u32::MAX - operator)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A range of one of the tree's lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    first: u32,
    end: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    /// Exactly this text, possibly empty.
    Literal(Span),
    /// This text in any mixture of upper and lower case.
    AnyCase(Span),
    /// One character of a set: an index of `sets`.
    Class(u32),
    /// A regular expression: an index of `patterns`.
    Pattern(u32),
    /// The concatenation of adjacent texts of a list: an index of `lists`.
    Neighbours(u32),
    /// A rule or terminal: an index of `names`.
    Name(u32),
    /// A control token: an index of `names`.
    Token(u32),
    /// One token of a set: an index of `token_sets`.
    Tokens(u32),
    /// The body of a terminal without a text, which an indenter supplies.
    Declared,
    /// A use of a rule with parameters: an index of `calls`.
    Call(u32),
    /// The empty text, if a condition on the parameter holds: an index of `conditions`.
    Guard(u32),
    /// A grammar inside this one: an index of `nested`.
    Grammar(u32),
    Sequence(Span),
    Choice(Span),
    /// A repetition with a least and a greatest number; [`u32::MAX`] is unbounded.
    Repeat(NodeId, u32, u32),
    /// The texts of the first operand that are not texts of the second.
    Minus(NodeId, NodeId),
    /// The texts of both operands.
    And(NodeId, NodeId),
    /// All texts that are not texts of the operand.
    Not(NodeId),
    /// The texts of the operand that have no shorter text of it as a prefix.
    Shortest(NodeId),
    /// The texts of the first operand up to the first end of a text of the second one after them.
    Before(NodeId, NodeId),
    /// The texts of the operand that end at the first place after this number of characters, or before.
    Within(NodeId, u32),
    /// The texts of the operand that at most this number of tokens spell.
    Budget(NodeId, u32),
}

/// A rule or terminal with its body.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: u32,
    /// The offset of its name.
    pub(crate) at: usize,
    pub(crate) body: NodeId,
    /// Whether it is a terminal, which becomes one automaton.
    pub(crate) terminal: bool,
    pub(crate) parameters: Parameters,
}

/// A regular expression in a grammar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pattern {
    /// The pattern.
    pub(crate) regex: String,
    pub(crate) dialect: Dialect,
    /// The number of bytes at the beginning of `regex` that are not in the text of the grammar, such as
    /// `(?i)`. The next byte of a regex in the text follows the opening slash, at which the node begins.
    /// `None`: `regex` is made of the text and not a part of it.
    pub(crate) added: Option<usize>,
}

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Tree<'t> {
    nodes: Vec<Node>,
    /// By node: its offset in the text.
    places: Vec<u32>,
    parts: Vec<NodeId>,
    text: Vec<u8>,
    sets: Vec<CharSet>,
    patterns: Vec<Pattern>,
    lists: Vec<Vec<String>>,
    token_sets: Vec<TokenSet>,
    nested: Vec<Nested<'t>>,
    calls: Vec<Call>,
    conditions: Vec<Condition>,
    names: Vec<&'t str>,
    /// By the file of a name, and the name.
    ids: HashMap<(u32, &'t str), u32>,
    /// The file that is being read.
    file: u32,
    /// By name.
    definition_of: Vec<Option<u32>>,
    pub(crate) definitions: Vec<Definition>,
    /// Notes for [`explain`](crate::explain()) about constructs other than rules: offset, construct, fate and reason.
    pub(crate) notes: Vec<(usize, &'static str, Fate, &'static str)>,
    /// Definitions whose texts are named in reports, by their offsets.
    pub(crate) captures: HashMap<usize, String>,
    /// Definitions whose texts have a temperature, by their offsets.
    pub(crate) temperatures: HashMap<usize, f64>,
    /// Attributes that determine where a text ends: offset and attribute.
    pub(crate) ends: Vec<(usize, &'static str)>,
    /// Where `%declare` is, and the file.
    pub(crate) declared: Option<(usize, u32)>,
}

impl<'t> Tree<'t> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: vec![],
            places: vec![],
            parts: vec![],
            text: vec![],
            sets: vec![],
            patterns: vec![],
            lists: vec![],
            token_sets: vec![],
            nested: vec![],
            calls: vec![],
            conditions: vec![],
            names: vec![],
            ids: HashMap::new(),
            file: 0,
            definition_of: vec![],
            definitions: vec![],
            notes: vec![],
            captures: HashMap::new(),
            temperatures: HashMap::new(),
            ends: vec![],
            declared: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: NodeId) -> Node {
        self.nodes[id.index()]
    }

    /// Puts `node` in the place of another one, whose parts are its parts.
    pub(crate) fn replace(&mut self, id: NodeId, node: Node) {
        self.nodes[id.index()] = node;
    }

    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..index(self.nodes.len())).map(NodeId)
    }

    /// The offset at which the node begins in the text.
    pub(crate) fn place(&self, id: NodeId) -> usize {
        self.places[id.index()] as usize
    }

    pub(crate) fn parts(&self, span: Span) -> &[NodeId] {
        &self.parts[span.first as usize..span.end as usize]
    }

    pub(crate) fn text(&self, span: Span) -> &[u8] {
        &self.text[span.first as usize..span.end as usize]
    }

    pub(crate) fn set(&self, set: u32) -> &CharSet {
        &self.sets[set as usize]
    }

    pub(crate) fn pattern(&self, pattern: u32) -> &Pattern {
        &self.patterns[pattern as usize]
    }

    pub(crate) fn texts(&self, list: u32) -> &[String] {
        &self.lists[list as usize]
    }

    pub(crate) fn token_set(&self, set: u32) -> &TokenSet {
        &self.token_sets[set as usize]
    }

    pub(crate) fn nested(&self, nested: u32) -> &Nested<'t> {
        &self.nested[nested as usize]
    }

    pub(crate) fn call(&self, call: u32) -> &Call {
        &self.calls[call as usize]
    }

    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty() || !self.conditions.is_empty()
    }

    pub(crate) fn condition(&self, condition: u32) -> &Condition {
        &self.conditions[condition as usize]
    }

    /// The node without its parts, and its parts.
    pub(crate) fn form(&self, node: NodeId) -> (String, Vec<NodeId>) {
        match self.node(node) {
            Node::Literal(text) => (format!("text {:?}", self.text(text)), vec![]),
            Node::AnyCase(text) => (format!("any case {:?}", self.text(text)), vec![]),
            Node::Class(set) => (format!("class {:?}", self.set(set)), vec![]),
            Node::Pattern(pattern) => (format!("pattern {}", self.pattern(pattern).regex), vec![]),
            Node::Neighbours(list) => (format!("list {:?}", self.texts(list)), vec![]),
            Node::Tokens(set) => (format!("{:?}", self.token_set(set)), vec![]),
            node @ (Node::Declared | Node::Name(_) | Node::Token(_) | Node::Grammar(_) | Node::Guard(_)) => {
                (format!("{node:?}"), vec![])
            }
            Node::Sequence(parts) => ("sequence".to_owned(), self.parts(parts).to_vec()),
            Node::Choice(parts) => ("choice".to_owned(), self.parts(parts).to_vec()),
            Node::Repeat(item, min, max) => (format!("repeat {min} {max}"), vec![item]),
            Node::Minus(left, right) => ("minus".to_owned(), vec![left, right]),
            Node::And(left, right) => ("and".to_owned(), vec![left, right]),
            Node::Before(left, right) => ("before".to_owned(), vec![left, right]),
            Node::Not(item) => ("not".to_owned(), vec![item]),
            Node::Shortest(item) => ("shortest".to_owned(), vec![item]),
            Node::Within(item, most) => (format!("within {most}"), vec![item]),
            Node::Budget(item, most) => (format!("budget {most}"), vec![item]),
            Node::Call(call) => {
                let Call { name, arguments } = self.call(call);
                match arguments {
                    Arguments::Nodes(arguments) => (format!("call {name}"), arguments.clone()),
                    Arguments::Number(parameter) => (format!("call {name} {parameter:?}"), vec![]),
                }
            }
        }
    }

    /// The texts of `body` that end at the first place after `most` characters, or before.
    pub(crate) fn within(&mut self, body: NodeId, most: u32, at: usize) -> NodeId {
        let made = match self.node(body) {
            // Each repetition is one character, and repetitions are counted without an automaton of the whole.
            Node::Repeat(item, min, max) if self.is_char(item) => {
                Node::Repeat(item, min, max.min(most.max(min)))
            }
            _ => Node::Within(body, most),
        };
        self.push(made, at)
    }

    /// Whether each text of the node is one character.
    pub(crate) fn is_char(&self, node: NodeId) -> bool {
        match self.node(node) {
            Node::Class(_) => true,
            Node::Literal(text) => {
                std::str::from_utf8(self.text(text)).is_ok_and(|text| text.chars().count() == 1)
            }
            _ => false,
        }
    }

    pub(crate) fn name(&self, name: u32) -> &'t str {
        self.names[name as usize]
    }

    pub(crate) fn definition_of(&self, name: u32) -> Option<usize> {
        self.definition_of[name as usize].map(|definition| definition as usize)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.ids.get(&(self.file, name)).and_then(|id| self.definition_of(*id))
    }

    /// The definition of `name` in another file.
    pub(super) fn find_in(&self, file: u32, name: &str) -> Option<usize> {
        self.ids.get(&(file, name)).and_then(|id| self.definition_of(*id))
    }

    /// The number of `name`, a new one if necessary.
    pub(crate) fn intern(&mut self, name: &'t str) -> u32 {
        *self.ids.entry((self.file, name)).or_insert_with(|| {
            self.names.push(name);
            self.definition_of.push(None);
            index(self.names.len() - 1)
        })
    }

    /// The number of the file that is being read. Names are those of one file.
    pub(crate) fn file(&self) -> u32 {
        self.file
    }

    pub(crate) fn enter(&mut self, file: u32) {
        self.file = file;
    }

    /// Makes `name` of `file` the name `own`. If it is another name already, that one is returned.
    pub(crate) fn import(&mut self, file: u32, name: &'t str, own: u32) -> Option<u32> {
        let known = *self.ids.entry((file, name)).or_insert(own);
        (known != own).then_some(known)
    }

    /// Removes the definitions from `first` on, in the order of the text, that no definition before it reaches.
    pub(crate) fn remove_unreached(&mut self, end: usize) {
        let mut open: Vec<NodeId> = Vec::new();
        let mut is_reached: Vec<bool> =
            self.definitions.iter().map(|definition| definition.at < end).collect();
        open.extend(
            self.definitions
                .iter()
                .filter(|definition| definition.at < end)
                .map(|definition| definition.body),
        );
        let mut seen: Vec<bool> = vec![false; self.len()];
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node.index()], true) {
                continue;
            }
            let (name, parts) = match self.node(node) {
                Node::Name(name) => (Some(name), vec![]),
                Node::Call(call) => (Some(self.call(call).name), self.form(node).1),
                _ => (None, self.form(node).1),
            };
            open.extend(parts);
            if let Some(definition) = name.and_then(|name| self.definition_of(name))
                && !std::mem::replace(&mut is_reached[definition], true)
            {
                open.push(self.definitions[definition].body);
            }
        }
        let mut reached = is_reached.into_iter();
        self.definitions.retain(|_| reached.next() == Some(true));
        self.index_definitions();
    }

    /// Another name that reads like `name`.
    pub(crate) fn fresh(&mut self, name: u32) -> u32 {
        self.names.push(self.names[name as usize]);
        self.definition_of.push(None);
        index(self.names.len() - 1)
    }

    /// A use of `name`, in the place of `node`.
    pub(crate) fn push_name(&mut self, name: u32, node: NodeId) -> NodeId {
        self.push(Node::Name(name), self.place(node))
    }

    pub(crate) fn called(&mut self, call: Call, at: usize) -> NodeId {
        self.calls.push(call);
        self.push(Node::Call(index(self.calls.len() - 1)), at)
    }

    pub(crate) fn guard(&mut self, condition: Condition, at: usize) -> NodeId {
        self.conditions.push(condition);
        self.push(Node::Guard(index(self.conditions.len() - 1)), at)
    }

    /// Removes the definitions with parameters, which were written out.
    pub(crate) fn remove_parametric(&mut self) {
        self.definitions.retain(|definition| definition.parameters == Parameters::None);
        self.index_definitions();
    }

    fn index_definitions(&mut self) {
        self.definition_of.iter_mut().for_each(|definition| *definition = None);
        for (at, definition) in self.definitions.iter().enumerate() {
            self.definition_of[definition.name as usize] = Some(index(at));
        }
    }

    pub(crate) fn push(&mut self, node: Node, at: usize) -> NodeId {
        self.nodes.push(node);
        self.places.push(index(at));
        NodeId(index(self.nodes.len() - 1))
    }

    pub(crate) fn literal(&mut self, text: &[u8], at: usize) -> NodeId {
        let span = self.text_span(text);
        self.push(Node::Literal(span), at)
    }

    /// Stores a text for a node.
    pub(crate) fn text_span(&mut self, text: &[u8]) -> Span {
        let first = index(self.text.len());
        self.text.extend_from_slice(text);
        Span { first, end: index(self.text.len()) }
    }

    pub(crate) fn class(&mut self, set: CharSet, at: usize) -> NodeId {
        self.sets.push(set);
        self.push(Node::Class(index(self.sets.len() - 1)), at)
    }

    pub(crate) fn regex(&mut self, pattern: Pattern, at: usize) -> NodeId {
        self.patterns.push(pattern);
        self.push(Node::Pattern(index(self.patterns.len() - 1)), at)
    }

    pub(crate) fn neighbours(&mut self, texts: Vec<String>, at: usize) -> NodeId {
        self.lists.push(texts);
        self.push(Node::Neighbours(index(self.lists.len() - 1)), at)
    }

    pub(crate) fn tokens(&mut self, set: TokenSet, at: usize) -> NodeId {
        self.token_sets.push(set);
        self.push(Node::Tokens(index(self.token_sets.len() - 1)), at)
    }

    pub(crate) fn grammar(&mut self, nested: Nested<'t>, at: usize) -> NodeId {
        self.nested.push(nested);
        self.push(Node::Grammar(index(self.nested.len() - 1)), at)
    }

    pub(crate) fn choice(&mut self, alternatives: &[NodeId], at: usize) -> NodeId {
        if let [only] = alternatives {
            return *only;
        }
        let span = self.list(alternatives);
        self.push(Node::Choice(span), at)
    }

    pub(crate) fn sequence(&mut self, parts: &[NodeId], at: usize) -> NodeId {
        if let [only] = parts {
            return *only;
        }
        let span = self.list(parts);
        self.push(Node::Sequence(span), at)
    }

    fn list(&mut self, parts: &[NodeId]) -> Span {
        let first = index(self.parts.len());
        self.parts.extend_from_slice(parts);
        Span { first, end: index(self.parts.len()) }
    }

    /// The number of definitions, names, nodes and parts, as
    /// [`GrammarLimits::nodes`](unskew_grammar::GrammarLimits::nodes) counts them.
    pub(crate) fn size(&self) -> usize {
        self.definitions.len() + self.names.len() + self.nodes.len() + self.parts.len()
    }

    /// Defines a name. If the name has a definition already, returns the index of that definition as an error.
    pub(crate) fn define(&mut self, definition: Definition) -> Result<(), usize> {
        let slot = &mut self.definition_of[definition.name as usize];
        if let Some(first) = *slot {
            return Err(first as usize);
        }
        *slot = Some(index(self.definitions.len()));
        self.definitions.push(definition);
        Ok(())
    }
}

/// Converts an offset or index to four bytes. Texts are shorter than 4 GiB, because
/// [`GrammarLimits::grammar_bytes`](unskew_grammar::GrammarLimits::grammar_bytes) is clamped below that.
pub(crate) fn index(value: usize) -> u32 {
    u32::try_from(value).expect("texts of grammars are shorter than 4 GiB")
}

/// The error for `name`, used at `at` without a definition.
pub(crate) fn undefined(text: &str, tree: &Tree<'_>, name: u32, at: usize) -> SyntaxError {
    let name = tree.name(name);
    let defined = tree.definitions.iter().map(|definition| tree.name(definition.name));
    let is_terminal = tree.definitions.iter().any(|definition| definition.terminal)
        && !name.chars().any(|char| char.is_ascii_lowercase());
    let what = if is_terminal { "terminal" } else { "rule" };
    let nearest = nearest(name, defined);
    let way_out = foreign_name(text, at, name);
    SyntaxError {
        kind: SyntaxErrorKind::Undefined { what, name: name.to_owned(), nearest, way_out },
        location: location(text, at),
    }
}
