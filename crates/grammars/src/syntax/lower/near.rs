//! What may stand beside a part of a grammar, by its nearest byte.
//!
//! A condition on the text around a terminal is a language of whole texts, and most of it speaks of texts that never
//! stand there: `\b` of Unicode before a blank. So conditions are freed where the nearest byte is one that the grammar
//! has not there. The conditions of many terminals are equal then, or none at all.

use std::sync::Arc;

use unskew_automata::{Dfa, DfaBuilder, StateId};
use unskew_trie::ByteSet;

use super::Lowering;
use crate::{
    Expr, ExprId, Grammar, GrammarError, Terminal,
    grammar::fixpoint::{productive, productive_and_nullable, settle, wholes},
    ids::number,
    network::terminals::first_bytes,
    syntax::tree::NodeId,
};

/// A side of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Before,
    After,
}

/// By expression: the nearest bytes of the texts that may stand beside it, to which those of `skipped` do not count.
/// All bytes where a part without an automaton may. O(n) for each step down of n expressions.
pub(super) fn near(grammar: &Grammar, side: Side, skipped: Option<ExprId>) -> Vec<ByteSet> {
    let productive = productive(grammar);
    let empty = empty(grammar, skipped);
    let own = own(grammar, side, skipped, &empty);
    let mut near: Vec<ByteSet> = vec![ByteSet::default(); grammar.expressions()];
    let mut order: Vec<ExprId> = grammar.expression_ids().collect();
    order.reverse();
    loop {
        let mut has_changed = false;
        let mut add = |part: ExprId, bytes: &ByteSet, near: &mut Vec<ByteSet>| {
            let known = &mut near[part.index()];
            if bytes.iter().any(|byte| !known.contains(byte)) {
                known.union(bytes);
                has_changed = true;
            }
        };
        // Wholes before their parts.
        for expr in &order {
            if !productive[expr.index()] {
                continue;
            }
            let around = near[expr.index()];
            match grammar.expr(*expr) {
                Expr::Empty | Expr::Terminal(_) => {}
                Expr::Rule(rule) => add(grammar.body(rule), &around, &mut near),
                Expr::Choice(parts) => parts.iter().for_each(|part| add(*part, &around, &mut near)),
                Expr::Repeat { item, max, .. } => {
                    let mut bytes = around;
                    if max != Some(1) {
                        bytes.union(&own[item.index()]);
                    }
                    add(item, &bytes, &mut near);
                }
                Expr::Sequence(parts) => {
                    let mut bytes = around;
                    let mut add = |part: &ExprId| {
                        add(*part, &bytes, &mut near);
                        if !empty[part.index()] {
                            bytes = ByteSet::default();
                        }
                        bytes.union(&own[part.index()]);
                    };
                    match side {
                        Side::After => parts.iter().rev().for_each(&mut add),
                        Side::Before => parts.iter().for_each(&mut add),
                    }
                }
                Expr::Unordered(group) => {
                    let all = (0..=255).collect();
                    group.rules().for_each(|rule| add(grammar.body(rule), &all, &mut near));
                }
            }
        }
        if !has_changed {
            return near;
        }
    }
}

/// By expression: the bytes of its texts that are nearest to a text on the other side of it.
fn own(grammar: &Grammar, side: Side, skipped: Option<ExprId>, empty: &[bool]) -> Vec<ByteSet> {
    let users = wholes(grammar);
    let mut own: Vec<ByteSet> = vec![ByteSet::default(); grammar.expressions()];
    settle(grammar, &users, |expr| {
        let mut made = ByteSet::default();
        let mut add = |part: &ExprId| made.union(&own[part.index()]);
        match grammar.expr(expr) {
            _ if Some(expr) == skipped => {}
            Expr::Empty => {}
            Expr::Terminal(terminal) => made = of_terminal(grammar.terminal(terminal), side),
            Expr::Rule(rule) => add(&grammar.body(rule)),
            Expr::Choice(parts) => parts.iter().for_each(add),
            Expr::Repeat { item, .. } => add(&item),
            Expr::Sequence(parts) => {
                let mut is_open = true;
                let mut next = |part: &ExprId| {
                    if is_open {
                        add(part);
                        is_open = empty[part.index()];
                    }
                };
                match side {
                    Side::After => parts.iter().for_each(&mut next),
                    Side::Before => parts.iter().rev().for_each(&mut next),
                }
            }
            Expr::Unordered(_) => made = (0..=255).collect(),
        }
        made != std::mem::replace(&mut own[expr.index()], made)
    });
    own
}

/// The first bytes of the texts of a terminal that stands after something, or the last ones.
fn of_terminal(terminal: &Terminal, side: Side) -> ByteSet {
    match (terminal, side) {
        // A control token has no text.
        (Terminal::Token(_), _) => ByteSet::default(),
        (Terminal::Automaton(_) | Terminal::Literal(_), Side::After) => first_bytes(terminal),
        (Terminal::Automaton(dfa), Side::Before) => dfa.last_bytes(),
        (Terminal::Literal(text), Side::Before) => text.last().copied().into_iter().collect(),
        _ => (0..=255).collect(),
    }
}

/// By expression: whether it may have no text but those of `skipped`.
fn empty(grammar: &Grammar, skipped: Option<ExprId>) -> Vec<bool> {
    let (_, mut empty) = productive_and_nullable(grammar);
    settle(grammar, &wholes(grammar), |expr| {
        let is_empty = |part: &ExprId| empty[part.index()];
        let made = empty[expr.index()]
            || Some(expr) == skipped
            || match grammar.expr(expr) {
                Expr::Empty => true,
                Expr::Terminal(terminal) => matches!(grammar.terminal(terminal), Terminal::Token(_)),
                Expr::Rule(rule) => is_empty(&grammar.body(rule)),
                Expr::Choice(parts) => parts.iter().any(is_empty),
                Expr::Sequence(parts) => parts.iter().all(is_empty),
                Expr::Repeat { item, min, .. } => min == 0 || is_empty(&item),
                Expr::Unordered(_) => false,
            };
        // What is reported as new is refreshed at once, because nothing becomes false again.
        made != std::mem::replace(&mut empty[expr.index()], made)
    });
    empty
}

/// A condition before and after it was freed.
pub(super) type Freed = (Side, ByteSet, Arc<Dfa>, Option<Arc<Dfa>>);

impl Lowering<'_, '_> {
    /// `condition` of the terminal at `node`, and every text beside it whose nearest byte is not in `bytes`. `None` if
    /// that is every text.
    pub(super) fn freed(
        &mut self,
        node: NodeId,
        condition: &Arc<Dfa>,
        side: Side,
        bytes: &ByteSet,
    ) -> Result<Option<Arc<Dfa>>, GrammarError> {
        let known = self.freed.iter().find(|(known, near, dfa, _)| {
            *known == side && near == bytes && (Arc::ptr_eq(dfa, condition) || **dfa == **condition)
        });
        if let Some((.., made)) = known {
            return Ok(made.clone());
        }
        let made = match side {
            Side::After => freed_after(condition, bytes, &self.limits.regex),
            Side::Before => {
                let mut others = DfaBuilder::new(&self.limits.regex);
                let made = ends_in_others(&mut others, bytes).and_then(|()| others.build());
                match made {
                    Err(unskew_automata::RegexError::MatchesNothing) => Ok((**condition).clone()),
                    made => made.and_then(|others| self.regulars.builder.union([&**condition, &others])),
                }
            }
        };
        let made = self.regulars.make(node, made)?;
        let made = self.regulars.automaton(node, made)?;
        let is_free = |state: StateId| {
            made.is_accepting(state) && (0..=255).all(|byte| made.step(state, byte) == Some(state))
        };
        let made = (!is_free(made.start())).then_some(made);
        self.freed.push((side, *bytes, Arc::clone(condition), made.clone()));
        Ok(made)
    }
}

/// The texts that end in a byte that is not in `bytes`.
fn ends_in_others(made: &mut DfaBuilder, bytes: &ByteSet) -> Result<(), unskew_automata::RegexError> {
    let (inside, other) = (made.state(false)?, made.state(true)?);
    for byte in 0..=u8::MAX {
        let to = if bytes.contains(byte) { inside } else { other };
        made.edge(inside, byte..=byte, to);
        made.edge(other, byte..=byte, to);
    }
    Ok(())
}

/// The texts of `condition`, and those that begin with a byte that is not in `bytes`.
fn freed_after(
    condition: &Dfa,
    bytes: &ByteSet,
    limits: &unskew_automata::Limits,
) -> Result<Dfa, unskew_automata::RegexError> {
    let mut made = DfaBuilder::new(limits);
    let start = made.state(condition.is_accepting(condition.start()))?;
    let free = made.state(true)?;
    made.edge(free, 0..=u8::MAX, free);
    let mut ids: std::collections::HashMap<StateId, u32> = std::collections::HashMap::new();
    let mut states: Vec<StateId> = vec![];
    let mut edge = |made: &mut DfaBuilder,
                    from: u32,
                    byte: std::ops::RangeInclusive<u8>,
                    to: StateId,
                    states: &mut Vec<StateId>| {
        let to = match ids.get(&to) {
            Some(known) => *known,
            None => {
                let new = made.state(condition.is_accepting(to))?;
                ids.insert(to, new);
                states.push(to);
                new
            }
        };
        made.edge(from, byte, to);
        Ok::<(), unskew_automata::RegexError>(())
    };
    for byte in 0..=u8::MAX {
        match condition.step(condition.start(), byte) {
            _ if !bytes.contains(byte) => made.edge(start, byte..=byte, free),
            Some(next) => edge(&mut made, start, byte..=byte, next, &mut states)?,
            None => {}
        }
    }
    let mut at = 0;
    while let Some(state) = states.get(at).copied() {
        // The first two states are none of the condition.
        let from = number(at + 2);
        at += 1;
        for next in condition.edges(state) {
            edge(&mut made, from, next.bytes, next.target, &mut states)?;
        }
    }
    made.build()
}
