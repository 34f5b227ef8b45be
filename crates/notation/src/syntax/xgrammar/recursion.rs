//! Recursion at the ends of a rule as repetition.
//!
//! XGrammar prints `x*` as `r ::= "" | x r`. A rule with `lazy`, `max_chars` or `max_tokens` becomes one automaton,
//! for which recursion is no way to write a repetition, so it is rewritten: the least language with r = A r | r B | C
//! is A* C B*. That holds also if A, B or C contain r.

use crate::syntax::tree::{Node, NodeId, Tree};

/// Rewrites every rule that calls itself first or last in its alternatives.
pub(super) fn unroll(tree: &mut Tree<'_>) {
    for definition in 0..tree.definitions.len() {
        let (name, body) = (tree.definitions[definition].name, tree.definitions[definition].body);
        if let Some(body) = repeated(tree, name, body) {
            tree.definitions[definition].body = body;
        }
    }
}

/// The body of the rule `name` without calls of itself at the ends of alternatives, if it has any.
fn repeated(tree: &mut Tree<'_>, name: u32, body: NodeId) -> Option<NodeId> {
    let parts = |tree: &Tree<'_>, node: NodeId| match tree.node(node) {
        Node::Sequence(parts) => tree.parts(parts).to_vec(),
        _ => vec![node],
    };
    let alternatives = match tree.node(body) {
        Node::Choice(alternatives) => tree.parts(alternatives).to_vec(),
        _ => vec![body],
    };
    let at = tree.place(body);
    let (mut before, mut after, mut others) = (vec![], vec![], vec![]);
    for alternative in alternatives {
        let items = parts(tree, alternative);
        let calls = |item: Option<&NodeId>| item.is_some_and(|item| tree.node(*item) == Node::Name(name));
        match (calls(items.first()), calls(items.last())) {
            (true, true) if items.len() == 1 => {}
            (true, true) => return None,
            (true, false) => after.push(tree.sequence(&items[1..], at)),
            (false, true) => before.push(tree.sequence(&items[..items.len() - 1], at)),
            (false, false) => others.push(alternative),
        }
    }
    if others.is_empty() || (before.is_empty() && after.is_empty()) {
        return None;
    }
    let any = |tree: &mut Tree<'_>, alternatives: &[NodeId]| {
        let one = tree.choice(alternatives, at);
        tree.push(Node::Repeat(one, 0, u32::MAX), at)
    };
    let mut whole = vec![];
    if !before.is_empty() {
        whole.push(any(tree, &before));
    }
    whole.push(tree.choice(&others, at));
    if !after.is_empty() {
        whole.push(any(tree, &after));
    }
    Some(tree.sequence(&whole, at))
}
