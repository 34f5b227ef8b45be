//! The use of each node of a text: a part of a rule, or of an automaton.

use super::budget::{Regularity, reached};
use crate::syntax::tree::{Node, NodeId, Tree};

/// The use of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Unused: the body was replaced.
    None,
    /// Part of a rule.
    Rule,
    /// Part of an automaton.
    Regular,
}

/// The uses, by node: for all rules, or for `item` and the rules that it reaches. Parts precede their whole, so one
/// pass from the last node to the first suffices.
pub(super) fn uses(tree: &Tree<'_>, regularity: &Regularity, item: Option<NodeId>) -> Vec<Use> {
    let mut uses = vec![Use::None; tree.len()];
    let reached = item.map(|item| reached(tree, item));
    for (index, definition) in tree.definitions.iter().enumerate() {
        uses[definition.body.index()] = match &reached {
            _ if definition.terminal => Use::Regular,
            Some(reached) if !reached[index] => Use::None,
            _ => Use::Rule,
        };
    }
    if let Some(item) = item {
        uses[item.index()] = Use::Rule;
    }
    for node in tree.nodes().rev() {
        let of_whole = uses[node.index()];
        if of_whole == Use::None {
            continue;
        }
        match tree.node(node) {
            Node::Sequence(parts) | Node::Choice(parts) => {
                tree.parts(parts).iter().for_each(|part| uses[part.index()] = of_whole);
            }
            Node::Repeat(item, ..) => uses[item.index()] = of_whole,
            Node::Budget(part, _) if item == Some(part) => uses[part.index()] = Use::Rule,
            Node::Budget(part, _) if !regularity.is_regular(tree, part) => {}
            Node::Not(item) | Node::Shortest(item) | Node::Within(item, _) | Node::Budget(item, _) => {
                uses[item.index()] = Use::Regular;
            }
            Node::Minus(left, right) | Node::And(left, right) | Node::Before(left, right) => {
                uses[left.index()] = Use::Regular;
                uses[right.index()] = Use::Regular;
            }
            _ => {}
        }
    }
    uses
}
