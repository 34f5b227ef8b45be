//! What may stand beside a part of a grammar, by its nearest byte.
//!
//! A condition on the text around a terminal is a language of whole texts, and most of it speaks of texts that never
//! stand there: `\b` of Unicode before a blank. So conditions are freed where the nearest byte is one that the grammar
//! has not there. The conditions of many terminals are equal then, or none at all.

use std::sync::Arc;

use unskew_automata::{Dfa, StateId, dfa::Cuts};
use unskew_grammar::{
    Expr, ExprId, Grammar, GrammarError, Terminal,
    kit::{
        fixpoint::{productive_and_nullable, settle, wholes},
        near::{self, Side},
        terminal::reading::first_bytes,
    },
};
use unskew_trie::ByteSet;

use super::Lowering;
use crate::syntax::tree::NodeId;

/// By expression: the [nearest bytes](near::near) of the texts that may stand beside it, to which those of
/// `skipped` do not count. All bytes where a part without an automaton may.
pub(super) fn near(grammar: &Grammar, side: Side, skipped: Option<ExprId>) -> Vec<ByteSet> {
    near::near(grammar, side, &empty(grammar, skipped), |expr| match grammar.expr(expr) {
        _ if Some(expr) == skipped => Some(ByteSet::default()),
        Expr::Terminal(terminal) => Some(of_terminal(grammar.terminal(terminal), side)),
        _ => None,
    })
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
                // The texts that end in another byte.
                let ends = |_: &bool, byte| Some(!bytes.contains(byte));
                match Dfa::explored(&ranges(bytes, &[]), false, ends, |ends| *ends, &self.limits.regex) {
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

/// The texts of `condition`, and those that begin with a byte that is not in `bytes`.
fn freed_after(
    condition: &Dfa,
    bytes: &ByteSet,
    limits: &unskew_automata::Limits,
) -> Result<Dfa, unskew_automata::RegexError> {
    // A state, and whether the text begins there; `None` after another byte.
    let step = |place: &Option<(StateId, bool)>, byte| match *place {
        None => Some(None),
        Some((_, true)) if !bytes.contains(byte) => Some(None),
        Some((state, _)) => condition.step(state, byte).map(|next| Some((next, false))),
    };
    let accepts = |place: &Option<(StateId, bool)>| place.is_none_or(|(at, _)| condition.is_accepting(at));
    let ranges = ranges(bytes, &[condition]);
    Dfa::explored(&ranges, Some((condition.start(), true)), step, accepts, limits)
}

/// Ranges of bytes that neither `bytes` nor one of `dfas` tells apart.
fn ranges(bytes: &ByteSet, dfas: &[&Dfa]) -> Vec<std::ops::RangeInclusive<u8>> {
    let mut cuts = Cuts::default();
    bytes.iter().for_each(|byte| cuts.around(byte, byte));
    dfas.iter().for_each(|dfa| cuts.classes(dfa.classes()));
    cuts.ranges()
}
