//! Assembles the body of a definition from left to right: items, groups, alternatives, and the operators between them.
//!
//! Open groups are kept on an explicit stack: sixty thousand brackets are sixty thousand entries of a vector.
//! Recursive descent would overflow the call stack.

use unskew_grammar::{GrammarLimits, SyntaxError, SyntaxErrorKind};

use crate::syntax::{
    text::cursor::Cursor,
    tree::{Node, NodeId, Tree, index},
};

/// `-`, between its two operands.
const MINUS: NodeId = NodeId::mark(0);
/// `&`, between two sequences.
const AND: NodeId = NodeId::mark(1);

/// The brackets of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// The whole body of a definition.
    Body,
    /// `( … )`.
    Round,
    /// `[ … ]`: optional.
    Square,
    /// `{ … }`, which the front end repeats.
    Curly,
}

#[derive(Debug)]
struct Frame {
    group: Group,
    at: u32,
    /// The number of alternatives on the stack when the group began.
    alternatives: u32,
    /// The number of items on the stack when the current alternative began.
    items: u32,
    /// Whether `~` precedes the group.
    negated: bool,
}

/// Assembles the body of a definition from left to right.
#[derive(Debug)]
pub(crate) struct Assembler {
    frames: Vec<Frame>,
    alternatives: Vec<NodeId>,
    items: Vec<NodeId>,
    /// Whether `~` precedes the next item.
    negated: bool,
    nest: usize,
}

impl Assembler {
    pub(crate) fn new(limits: &GrammarLimits) -> Self {
        let nest = limits.nest;
        Self { frames: vec![], alternatives: vec![], items: vec![], negated: false, nest }
    }

    /// Begins a body at `at`.
    pub(crate) fn begin(&mut self, at: usize) {
        self.frame(Group::Body, at);
    }

    /// The number of open groups.
    pub(crate) fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    /// The number of nodes that wait to become parts of other nodes.
    pub(crate) fn pending(&self) -> usize {
        self.items.len() + self.alternatives.len()
    }

    /// The innermost open group and its offset.
    pub(crate) fn group(&self) -> (Group, usize) {
        let frame = self.top();
        (frame.group, frame.at as usize)
    }

    pub(crate) fn open(&mut self, group: Group, cursor: &Cursor<'_>) -> Result<(), SyntaxError> {
        if self.depth() >= self.nest {
            return Err(cursor.error(cursor.at(), SyntaxErrorKind::NestTooDeep { limit: self.nest }));
        }
        self.frame(group, cursor.at());
        Ok(())
    }

    fn frame(&mut self, group: Group, at: usize) {
        let (alternatives, items) = (index(self.alternatives.len()), index(self.items.len()));
        let negated = std::mem::take(&mut self.negated);
        self.frames.push(Frame { group, at: index(at), alternatives, items, negated });
    }

    fn top(&self) -> &Frame {
        self.frames.last().expect("a body has begun")
    }

    pub(crate) fn item(&mut self, tree: &mut Tree<'_>, item: NodeId) {
        let negated = std::mem::take(&mut self.negated);
        let item = if negated { tree.push(Node::Not(item), tree.place(item)) } else { item };
        self.items.push(item);
    }

    /// The item to which a postfix operator would apply.
    pub(crate) fn last(&self) -> Option<NodeId> {
        let items = &self.items[self.top().items as usize..];
        items.last().copied().filter(|item| !self.negated && *item != MINUS && *item != AND)
    }

    /// Whether an operator waits for its operand, so that an item must follow.
    pub(crate) fn waits(&self) -> bool {
        let items = &self.items[self.top().items as usize..];
        self.negated || matches!(items.last(), Some(&MINUS | &AND))
    }

    /// Whether `~` waits for its operand.
    pub(crate) fn negates(&self) -> bool {
        self.negated
    }

    /// Repeats the last item. The caller has checked that there is one.
    pub(crate) fn repeat(&mut self, tree: &mut Tree<'_>, min: u32, max: u32) {
        let item = self.items.last_mut().expect("the caller has looked");
        if (min, max) != (1, 1) {
            *item = tree.push(Node::Repeat(*item, min, max), tree.place(*item));
        }
    }

    /// Adds `-`. The caller has checked that an operand precedes it.
    pub(crate) fn minus(&mut self) {
        self.items.push(MINUS);
    }

    /// Adds `&`. The caller has checked that an operand precedes it.
    pub(crate) fn and(&mut self) {
        self.items.push(AND);
    }

    /// Adds `~`.
    pub(crate) fn not(&mut self) {
        self.negated = true;
    }

    /// Ends an alternative.
    pub(crate) fn bar(&mut self, tree: &mut Tree<'_>) {
        let frame = self.frames.last().expect("a body has begun");
        let (begin, at) = (frame.items as usize, frame.at as usize);
        let at = self.items.get(begin).map_or(at, |first| tree.place(*first));
        let alternative = conjunction(tree, &self.items[begin..], at);
        self.items.truncate(begin);
        self.alternatives.push(alternative);
    }

    /// Ends the innermost group and makes it an item of the enclosing one.
    pub(crate) fn close(&mut self, tree: &mut Tree<'_>) {
        let (node, frame) = self.finish(tree);
        self.negated = frame.negated;
        self.item(tree, node);
        if frame.group == Group::Square {
            self.repeat(tree, 0, 1);
        }
    }

    /// Ends the body.
    pub(crate) fn end(&mut self, tree: &mut Tree<'_>) -> NodeId {
        self.finish(tree).0
    }

    fn finish(&mut self, tree: &mut Tree<'_>) -> (NodeId, Frame) {
        self.bar(tree);
        let frame = self.frames.pop().expect("a body has begun");
        let first = frame.alternatives as usize;
        let node = tree.choice(&self.alternatives[first..], frame.at as usize);
        self.alternatives.truncate(first);
        (node, frame)
    }
}

/// Builds the intersection of the sequences between the `&` marks.
fn conjunction(tree: &mut Tree<'_>, items: &[NodeId], at: usize) -> NodeId {
    let mut sequences = items.split(|item| *item == AND);
    let first = sequences.next().unwrap_or_default();
    let first = differences(tree, first, at);
    sequences.fold(first, |both, next| {
        let next = differences(tree, next, at);
        tree.push(Node::And(both, next), at)
    })
}

/// Builds a sequence of items, with differences between those that `-` marks separate. `-` binds tighter than
/// the sequence and associates to the left.
fn differences(tree: &mut Tree<'_>, items: &[NodeId], at: usize) -> NodeId {
    if !items.contains(&MINUS) {
        return tree.sequence(items, at);
    }
    let mut parts: Vec<NodeId> = vec![];
    let mut minus = false;
    for item in items {
        match (*item, minus) {
            (MINUS, _) => minus = true,
            (item, true) => {
                let left = parts.pop().expect("something stands before `-`");
                let place = tree.place(left);
                parts.push(tree.push(Node::Minus(left, item), place));
                minus = false;
            }
            (item, false) => parts.push(item),
        }
    }
    tree.sequence(&parts, at)
}
