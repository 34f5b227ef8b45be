//! Budgets of tokens (`max_tokens`): of a regular part of the text as an automaton, and of any other as a grammar of
//! its own.
//!
//! The rules of a text are one tree, so the grammar of a part is that of the rules which it reaches. A use of the
//! part inside of itself has no budget of its own: its tokens are some of those that the part around it has.

use std::sync::Arc;

use unskew_grammar::{ExprId, Grammar, GrammarError, SyntaxError, SyntaxErrorKind};

use super::{Ignored, Lowered, Lowering, excerpt, regular::Regulars};
use crate::syntax::{
    error::location,
    nested::Nested,
    tree::{Node, NodeId, Tree},
};

/// How many times [`GrammarLimits::nodes`](unskew_grammar::GrammarLimits::nodes) may be read for parts that recur.
const READ_AGAIN: usize = 20;

/// By definition: whether it becomes an automaton, because no rule that it reaches reaches itself or names tokens or
/// other grammars.
#[derive(Default)]
pub(super) struct Regularity(Vec<bool>);

impl Regularity {
    /// O(n) for n nodes; nothing where no part has a budget.
    pub(super) fn of(tree: &Tree<'_>) -> Self {
        if !tree.nodes().any(|node| matches!(tree.node(node), Node::Budget(..))) {
            return Self::default();
        }
        let mut regular = vec![false; tree.definitions.len()];
        let mut callers: Vec<Vec<usize>> = vec![vec![]; tree.definitions.len()];
        // By definition: how many of its names are not known to be regular; `None` if it is not regular itself.
        let mut open: Vec<Option<usize>> = Vec::with_capacity(tree.definitions.len());
        for (index, definition) in tree.definitions.iter().enumerate() {
            let (names, is_text) = parts(tree, definition.body);
            let is_regular = definition.terminal || is_text;
            open.push(is_regular.then_some(if definition.terminal { 0 } else { names.len() }));
            names.into_iter().for_each(|name| callers[name].push(index));
        }
        let mut found: Vec<usize> = (0..open.len()).filter(|index| open[*index] == Some(0)).collect();
        while let Some(index) = found.pop() {
            regular[index] = true;
            for caller in &callers[index] {
                if let Some(left @ 1..) = &mut open[*caller] {
                    *left -= 1;
                    if *left == 0 {
                        found.push(*caller);
                    }
                }
            }
        }
        Self(regular)
    }

    pub(super) fn is_regular(&self, tree: &Tree<'_>, item: NodeId) -> bool {
        let (names, is_text) = parts(tree, item);
        is_text && names.into_iter().all(|name| self.0[name])
    }
}

/// The definitions that `node` names, and whether it is text but for them.
fn parts(tree: &Tree<'_>, node: NodeId) -> (Vec<usize>, bool) {
    let (mut names, mut is_text, mut open) = (vec![], true, vec![node]);
    while let Some(node) = open.pop() {
        match tree.node(node) {
            Node::Name(name) => names.extend(tree.definition_of(name)),
            Node::Token(_) | Node::Tokens(_) | Node::Grammar(_) | Node::Budget(..) => is_text = false,
            _ => {}
        }
        open.extend(tree.form(node).1);
    }
    (names, is_text)
}

/// By definition: whether `item` reaches it.
pub(super) fn reached(tree: &Tree<'_>, item: NodeId) -> Vec<bool> {
    let mut reached = vec![false; tree.definitions.len()];
    let mut open = vec![item];
    while let Some(node) = open.pop() {
        for name in parts(tree, node).0 {
            if !std::mem::replace(&mut reached[name], true) {
                open.push(tree.definitions[name].body);
            }
        }
    }
    reached
}

impl Lowering<'_, '_> {
    /// The texts of `item` with at most `tokens` tokens.
    pub(super) fn budget(&mut self, node: NodeId, item: NodeId, tokens: u32) -> Result<ExprId, GrammarError> {
        let name = excerpt(self.text, self.tree.place(node));
        if self.regularity.is_regular(self.tree, item) {
            let value = self.regulars.node(item)?;
            let language = self.regulars.automaton(item, value)?;
            return Ok(self.builder.token_budget(&name, language, tokens));
        }
        let grammar = match self.tree.node(item) {
            Node::Grammar(nested) => match self.tree.nested(nested) {
                Nested::Ready(grammar) => grammar.clone(),
                Nested::Text(part) => {
                    let lowered = self.part(part)?;
                    self.plain(lowered, item)?
                }
            },
            _ => self.of_rules(item)?,
        };
        match grammar.regular(&self.limits.regex) {
            Ok(dfa) => Ok(self.builder.token_budget(&name, Arc::new(dfa), tokens)),
            // That it has no text shows where the grammar is compiled.
            Err(GrammarError::NotRegular { .. } | GrammarError::Empty { .. }) if !grammar.has_readings() => {
                Ok(self.builder.token_budget_of(&name, grammar, tokens))
            }
            Err(GrammarError::NotRegular { .. } | GrammarError::Empty { .. }) => {
                Err(self.unread(item, "captures and temperatures inside of a part that recurs"))
            }
            Err(error) => Err(error),
        }
    }

    /// The grammar of the rules that `item` reaches.
    fn of_rules(&mut self, item: NodeId) -> Result<Grammar, GrammarError> {
        if self.item.is_some() {
            return Err(self.unread(item, "another budget inside of a part that recurs"));
        }
        if self.tree.declared.is_some() {
            return Err(self.unread(item, "blocks by indentation inside of a part that recurs"));
        }
        // Each part reads the whole tree.
        self.read_again += self.tree.len();
        if self.read_again / READ_AGAIN > self.limits.nodes {
            return Err(GrammarError::TooManyNodes { limit: self.limits.nodes });
        }
        let source: &Ignored = self.source;
        let regulars = Regulars::new(self.text, self.tree, self.limits, self.regulars.lend());
        let inner = Lowering::new(self.text, self.tree, source, self.limits, regulars);
        let (lowered, work) = Lowering { item: Some(item), ..inner }.whole(0)?;
        self.regulars.give_back(work);
        self.plain(lowered, item)?.reached(self.limits)
    }

    /// The grammar, if no text around its terminals counts.
    fn plain(&self, lowered: Lowered, item: NodeId) -> Result<Grammar, GrammarError> {
        match (lowered.lazy.is_empty(), lowered.looks.is_empty()) {
            (true, true) => Ok(lowered.grammar),
            (false, _) => Err(self.unread(item, "lazy terminals inside of a part that recurs")),
            _ => Err(self.unread(item, "look-around beyond a terminal inside of a part that recurs")),
        }
    }

    fn unread(&self, item: NodeId, what: &str) -> GrammarError {
        let construct = format!("`max_tokens` with {what}");
        let way_out = "give the budget to a part of it, or leave one of them out";
        let kind = SyntaxErrorKind::Unsupported { construct, way_out };
        SyntaxError { kind, location: location(self.text, self.tree.place(item)) }.into()
    }
}
