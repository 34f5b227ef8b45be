//! The state of a parse, shared by the three front ends: the cursor, the tree so far, and the open body.
//!
//! It exists because the front ends share the operations on items, groups and definitions, with the same errors.

use unskew_automata::dfa::CharSet;
use unskew_grammar::{GrammarLimits, SyntaxError, SyntaxErrorKind};

use crate::syntax::{
    nested::Resolver,
    text::{File, cursor::Cursor, error::location},
    tree::{
        Definition, Node, NodeId, Tree,
        assembler::{Assembler, Group},
        expand::Parameters,
    },
};

/// A definition that replaces or extends another one.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) name: u32,
    pub(crate) at: usize,
    pub(crate) body: NodeId,
    pub(crate) terminal: bool,
    pub(crate) extend: bool,
}

/// The cursor in the text, and the tree built so far.
#[derive(Debug)]
pub(crate) struct Reader<'t> {
    pub(crate) text: &'t str,
    pub(crate) cursor: Cursor<'t>,
    pub(crate) tree: Tree<'t>,
    pub(crate) body: Assembler,
    pub(crate) limits: &'t GrammarLimits,
    pub(crate) resolver: Resolver,
    /// Changes of definitions, which are applied at the end.
    pub(crate) changes: Vec<Change>,
    /// The files of the text.
    pub(crate) files: &'t [File],
    /// The number of grammars around this one in the text.
    pub(crate) depth: u32,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(text: &'t str, limits: &'t GrammarLimits) -> Self {
        let (cursor, body) = (Cursor::new(text), Assembler::new(limits));
        Self {
            text,
            cursor,
            tree: Tree::new(),
            body,
            limits,
            resolver: Resolver::default(),
            changes: vec![],
            files: &[],
            depth: 0,
        }
    }

    /// Checks the limit of nodes. A front end calls it once per item.
    pub(crate) fn check_size(&self) -> Result<(), SyntaxError> {
        if self.tree.size() + self.body.pending() > self.limits.nodes {
            let message = format!(
                "the grammar has more than {} nodes (GrammarLimits::nodes): split it, or raise the limit",
                self.limits.nodes
            );
            return Err(self.cursor.invalid(self.cursor.at(), message));
        }
        Ok(())
    }

    /// Adds a use of a name as an item.
    pub(crate) fn reference(&mut self, name: &'t str, at: usize) {
        let name = self.tree.intern(name);
        let node = self.tree.push(Node::Name(name), at);
        self.body.item(&mut self.tree, node);
    }

    pub(crate) fn literal(&mut self, text: &str, at: usize) {
        let node = self.tree.literal(text.as_bytes(), at);
        self.body.item(&mut self.tree, node);
    }

    pub(crate) fn class(&mut self, set: CharSet, at: usize) {
        let node = match set.single() {
            Some(char) => self.tree.literal(char.encode_utf8(&mut [0; 4]).as_bytes(), at),
            None => self.tree.class(set, at),
        };
        self.body.item(&mut self.tree, node);
    }

    /// Closes a group at `)`, or at `]` where that closes a group.
    pub(crate) fn close(&mut self, group: Group) -> Result<(), SyntaxError> {
        let expected = match self.body.group().0 {
            open if open == group => None,
            Group::Round => Some("`)`, which closes the group that is open"),
            Group::Square => Some("`]`, which closes the group that is open"),
            Group::Curly => Some("`}`, which closes the group that is open"),
            Group::Body => Some("an item, as no group is open here"),
        };
        if let Some(expected) = expected {
            return Err(self.cursor.unexpected(expected));
        }
        if self.body.waits() {
            return Err(self.cursor.unexpected("something after the operator"));
        }
        self.cursor.next();
        self.body.close(&mut self.tree);
        Ok(())
    }

    /// Ends the open body and defines `name` by it. `at` is the offset of the name.
    pub(crate) fn end(&mut self, name: &'t str, at: usize, terminal: bool) -> Result<(), SyntaxError> {
        let body = self.end_body()?;
        self.define(name, at, body, terminal)
    }

    /// Ends the open body.
    pub(crate) fn end_body(&mut self) -> Result<NodeId, SyntaxError> {
        match self.body.group() {
            (Group::Body, _) => {}
            (Group::Round, open) => return Err(self.cursor.unclosed(open, "the group", "`)`")),
            (Group::Curly, open) => return Err(self.cursor.unclosed(open, "the group", "`}`")),
            (Group::Square, open) => return Err(self.cursor.unclosed(open, "the group", "`]`")),
        }
        if self.body.waits() {
            return Err(self.cursor.unexpected("something after the operator"));
        }
        Ok(self.body.end(&mut self.tree))
    }

    /// Defines `name`, found at `at`.
    pub(crate) fn define(
        &mut self,
        name: &'t str,
        at: usize,
        body: NodeId,
        terminal: bool,
    ) -> Result<(), SyntaxError> {
        let parameters = Parameters::None;
        let name = self.tree.intern(name);
        self.define_as(Definition { name, at, body, terminal, parameters })
    }

    pub(crate) fn define_as(&mut self, definition: Definition) -> Result<(), SyntaxError> {
        let (name, at) = (self.tree.name(definition.name), definition.at);
        self.tree.define(definition).map_err(|first| {
            let first = location(self.text, self.tree.definitions[first].at);
            self.cursor.error(at, SyntaxErrorKind::Redefined { name: name.to_owned(), first })
        })
    }
}
