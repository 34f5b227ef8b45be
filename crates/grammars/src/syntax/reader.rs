//! The state of a parse, shared by the three front ends: the cursor, the tree so far, and the open body.
//!
//! It exists because the front ends share the operations on items, groups and definitions, with the same errors.

use super::{
    assembler::{Assembler, Group},
    chars::CharSet,
    cursor::Cursor,
    error::{SyntaxError, SyntaxErrorKind, location},
    expand::Parameters,
    lark::imports::File,
    nested::Resolver,
    tree::{Definition, Node, NodeId, Tree},
};
use crate::GrammarLimits;

/// A definition that replaces or extends another one.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: u32,
    pub(super) at: usize,
    pub(super) body: NodeId,
    pub(super) terminal: bool,
    pub(super) extend: bool,
}

/// The cursor in the text, and the tree built so far.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) cursor: Cursor<'t>,
    pub(super) tree: Tree<'t>,
    pub(super) body: Assembler,
    pub(super) limits: &'t GrammarLimits,
    pub(super) resolver: Resolver,
    /// Changes of definitions, which are applied at the end.
    pub(super) changes: Vec<Change>,
    /// The files of the text.
    pub(super) files: &'t [File],
    /// The number of grammars around this one in the text.
    pub(super) depth: u32,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, limits: &'t GrammarLimits) -> Self {
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
    pub(super) fn check_size(&self) -> Result<(), SyntaxError> {
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
    pub(super) fn reference(&mut self, name: &'t str, at: usize) {
        let name = self.tree.intern(name);
        let node = self.tree.push(Node::Name(name), at);
        self.body.item(&mut self.tree, node);
    }

    pub(super) fn literal(&mut self, text: &str, at: usize) {
        let node = self.tree.literal(text.as_bytes(), at);
        self.body.item(&mut self.tree, node);
    }

    pub(super) fn class(&mut self, set: CharSet, at: usize) {
        let node = match set.single() {
            Some(char) => self.tree.literal(char.encode_utf8(&mut [0; 4]).as_bytes(), at),
            None => self.tree.class(set, at),
        };
        self.body.item(&mut self.tree, node);
    }

    /// Closes a group at `)`, or at `]` where that closes a group.
    pub(super) fn close(&mut self, group: Group) -> Result<(), SyntaxError> {
        let expected = match self.body.group().0 {
            open if open == group => None,
            Group::Round => Some("`)`, which closes the group that is open"),
            Group::Square => Some("`]`, which closes the group that is open"),
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
    pub(super) fn end(&mut self, name: &'t str, at: usize, terminal: bool) -> Result<(), SyntaxError> {
        let body = self.end_body()?;
        self.define(name, at, body, terminal)
    }

    /// Ends the open body.
    pub(super) fn end_body(&mut self) -> Result<NodeId, SyntaxError> {
        match self.body.group() {
            (Group::Body, _) => {}
            (Group::Round, open) => return Err(self.cursor.unclosed(open, "the group", "`)`")),
            (Group::Square, open) => return Err(self.cursor.unclosed(open, "the group", "`]`")),
        }
        if self.body.waits() {
            return Err(self.cursor.unexpected("something after the operator"));
        }
        Ok(self.body.end(&mut self.tree))
    }

    /// Defines `name`, found at `at`.
    pub(super) fn define(
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

    pub(super) fn define_as(&mut self, definition: Definition) -> Result<(), SyntaxError> {
        let (name, at) = (self.tree.name(definition.name), definition.at);
        self.tree.define(definition).map_err(|first| {
            let first = location(self.text, self.tree.definitions[first].at);
            self.cursor.error(at, SyntaxErrorKind::Redefined { name: name.to_owned(), first })
        })
    }
}
