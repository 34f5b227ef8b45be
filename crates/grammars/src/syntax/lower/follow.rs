//! What may follow the ignored text between two terminals, by its first byte.

use unskew_trie::ByteSet;

use crate::{
    Expr, ExprId, Grammar, Terminal,
    grammar::fixpoint::{productive, productive_and_nullable, settle, wholes},
    network::terminals::first_bytes,
};

/// The first bytes of the texts that may follow `ignored`, of which the ignored text itself is none. All bytes where a
/// part without an automaton may follow. O(n) for each step down of n expressions.
pub(super) fn follow(grammar: &Grammar, ignored: ExprId) -> ByteSet {
    let productive = productive(grammar);
    let empty = empty(grammar, ignored);
    let firsts = firsts(grammar, ignored, &empty);
    let mut after: Vec<ByteSet> = vec![ByteSet::default(); grammar.expressions()];
    let mut order: Vec<ExprId> = grammar.expression_ids().collect();
    order.reverse();
    loop {
        let mut has_changed = false;
        let mut add = |part: ExprId, bytes: &ByteSet, after: &mut Vec<ByteSet>| {
            let known = &mut after[part.index()];
            if bytes.iter().any(|byte| !known.contains(byte)) {
                known.union(bytes);
                has_changed = true;
            }
        };
        // Wholes after their parts.
        for expr in &order {
            if !productive[expr.index()] {
                continue;
            }
            let own = after[expr.index()];
            match grammar.expr(*expr) {
                Expr::Empty | Expr::Terminal(_) => {}
                Expr::Rule(rule) => add(grammar.body(rule), &own, &mut after),
                Expr::Choice(parts) => parts.iter().for_each(|part| add(*part, &own, &mut after)),
                Expr::Repeat { item, max, .. } => {
                    let mut bytes = own;
                    if max != Some(1) {
                        bytes.union(&firsts[item.index()]);
                    }
                    add(item, &bytes, &mut after);
                }
                Expr::Sequence(parts) => {
                    let mut bytes = own;
                    for part in parts.iter().rev() {
                        add(*part, &bytes, &mut after);
                        if !empty[part.index()] {
                            bytes = ByteSet::default();
                        }
                        bytes.union(&firsts[part.index()]);
                    }
                }
                Expr::Unordered(group) => {
                    let all = (0..=255).collect();
                    group.rules().for_each(|rule| add(grammar.body(rule), &all, &mut after));
                }
            }
        }
        if !has_changed {
            return after[ignored.index()];
        }
    }
}

/// By expression: the first bytes of its texts, without those of `ignored`.
fn firsts(grammar: &Grammar, ignored: ExprId, empty: &[bool]) -> Vec<ByteSet> {
    let users = wholes(grammar);
    let mut firsts: Vec<ByteSet> = vec![ByteSet::default(); grammar.expressions()];
    settle(grammar, &users, |expr| {
        let mut made = ByteSet::default();
        let mut add = |part: &ExprId| made.union(&firsts[part.index()]);
        match grammar.expr(expr) {
            _ if expr == ignored => {}
            Expr::Empty => {}
            Expr::Terminal(terminal) => {
                made = match grammar.terminal(terminal) {
                    Terminal::Difference(_) | Terminal::Distinct(_) => (0..=255).collect(),
                    // The terminals of an indenter have no text.
                    Terminal::Token(_) => ByteSet::default(),
                    Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) => {
                        (0..=255).collect()
                    }
                    terminal => first_bytes(terminal),
                };
            }
            Expr::Rule(rule) => add(&grammar.body(rule)),
            Expr::Choice(parts) => parts.iter().for_each(add),
            Expr::Repeat { item, .. } => add(&item),
            Expr::Sequence(parts) => {
                for part in parts {
                    add(part);
                    if !empty[part.index()] {
                        break;
                    }
                }
            }
            Expr::Unordered(_) => made = (0..=255).collect(),
        }
        made != std::mem::replace(&mut firsts[expr.index()], made)
    });
    firsts
}

/// By expression: whether it may have no text but those of `ignored`. The terminals of an indenter have none.
fn empty(grammar: &Grammar, ignored: ExprId) -> Vec<bool> {
    let (_, mut empty) = productive_and_nullable(grammar);
    settle(grammar, &wholes(grammar), |expr| {
        let is_empty = |part: &ExprId| empty[part.index()];
        let made = empty[expr.index()]
            || expr == ignored
            || match grammar.expr(expr) {
                Expr::Empty => true,
                Expr::Terminal(terminal) => matches!(grammar.terminal(terminal), Terminal::Token(_)),
                Expr::Rule(rule) => is_empty(&grammar.body(rule)),
                Expr::Choice(parts) => parts.iter().any(is_empty),
                Expr::Sequence(parts) => parts.iter().all(is_empty),
                Expr::Repeat { item, min, .. } => min == 0 || is_empty(&item),
                Expr::Unordered(_) => false,
            };
        made != std::mem::replace(&mut empty[expr.index()], made)
    });
    empty
}
