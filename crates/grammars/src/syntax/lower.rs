//! From a grammar as it was written to a [`Grammar`].
//!
//! Nodes lie parts first, so one pass from the first to the last makes every expression; no stack is needed.

use std::collections::HashMap;

use super::{
    chars::CharSet,
    error::{Locations, SyntaxError, SyntaxErrorKind, location, nearest},
    tree::{Node, NodeId, Tree},
};
use crate::{ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId};

/// The grammar of `tree`, whose rules begin at the definition of index `start`.
pub(super) fn lower(
    text: &str,
    tree: &Tree<'_>,
    start: usize,
    limits: &GrammarLimits,
) -> Result<Grammar, GrammarError> {
    let mut lowering =
        Lowering { text, tree, builder: Grammar::builder(limits), rules: vec![], sets: HashMap::new() };
    let mut locations = Locations::new(text);
    for definition in &tree.definitions {
        let rule = lowering.builder.rule(tree.name(definition.name));
        lowering.builder.place(rule, locations.at(definition.at));
        lowering.rules.push(rule);
    }
    let mut expressions: Vec<ExprId> = Vec::with_capacity(tree.len());
    for node in tree.nodes() {
        let expression = lowering.node(node, &expressions)?;
        expressions.push(expression);
    }
    for (rule, definition) in lowering.rules.iter().zip(&tree.definitions) {
        lowering.builder.define(*rule, expressions[definition.body.index()]);
    }
    lowering.builder.build(lowering.rules[start])
}

struct Lowering<'a, 't> {
    text: &'a str,
    tree: &'a Tree<'t>,
    builder: GrammarBuilder,
    /// By definition.
    rules: Vec<RuleId>,
    /// Classes that have an expression already.
    sets: HashMap<&'a CharSet, ExprId>,
}

impl Lowering<'_, '_> {
    fn node(&mut self, node: NodeId, expressions: &[ExprId]) -> Result<ExprId, GrammarError> {
        let (tree, builder) = (self.tree, &mut self.builder);
        let expression = |node: &NodeId| expressions[node.index()];
        Ok(match tree.node(node) {
            Node::Literal(text) => builder.literal(tree.text(text)),
            Node::Class(set) => match self.sets.get(tree.set(set)) {
                Some(made) => *made,
                None => {
                    let pattern = tree.set(set).pattern();
                    let made = builder.regex(&pattern, &pattern)?;
                    self.sets.insert(tree.set(set), made);
                    made
                }
            },
            Node::Name(name) => {
                let definition = tree
                    .definition_of(name)
                    .ok_or_else(|| undefined(self.text, tree, name, tree.place(node)))?;
                builder.call(self.rules[definition])
            }
            Node::Token(name) => builder.token(tree.name(name)),
            Node::Sequence(parts) => builder.sequence(tree.parts(parts).iter().map(expression)),
            Node::Choice(parts) => builder.choice(tree.parts(parts).iter().map(expression)),
            Node::Repeat(item, min, max) => {
                builder.repeat(expression(&item), min, (max != u32::MAX).then_some(max))
            }
            Node::AnyCase(_) | Node::Pattern(_) | Node::Minus(..) | Node::And(..) | Node::Not(_) => {
                let location = location(self.text, tree.place(node));
                let way_out = "write the alternatives out";
                let kind =
                    SyntaxErrorKind::Unsupported { construct: "the difference of two parts".into(), way_out };
                return Err(SyntaxError { kind, location }.into());
            }
        })
    }
}

/// `name`, at `at`, has no definition.
pub(super) fn undefined(text: &str, tree: &Tree<'_>, name: u32, at: usize) -> SyntaxError {
    let name = tree.name(name);
    let defined = tree.definitions.iter().map(|definition| tree.name(definition.name));
    let kind =
        SyntaxErrorKind::Undefined { what: "rule", name: name.to_owned(), nearest: nearest(name, defined) };
    SyntaxError { kind, location: location(text, at) }
}
