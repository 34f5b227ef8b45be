//! The terminals that may come after a use of a terminal: the FOLLOW set of grammars, for one expression at a time.
//!
//! ```text
//! start: "show" NAME ";"
//! NAME: /(?!(show|when)\b)[a-z]+/
//! ```
//!
//! After the name `sho` the text may not go on with `w` and no letter. Only `;` follows a name here, and it begins with
//! neither, so nothing is pending after `sho`. Without this, each beginning of each keyword would be a state of its
//! own.

use std::collections::{BTreeSet, HashSet};

use crate::{Expr, ExprId, Grammar, TerminalId};

/// What may come after an expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Follow {
    /// The terminals.
    pub(super) terminals: BTreeSet<TerminalId>,
    /// Whether the output may end.
    pub(super) may_end: bool,
    /// Whether members in any order are around it, whose followers are not listed.
    pub(super) is_unknown: bool,
}

/// The facts about a grammar from which followers are found.
pub(super) struct Facts<'a> {
    pub(super) grammar: &'a Grammar,
    /// By expression: those that contain it.
    pub(super) wholes: &'a [Vec<ExprId>],
    pub(super) nullable: &'a [bool],
    pub(super) productive: &'a [bool],
}

impl Facts<'_> {
    /// What may come after `expr`, and how many expressions were looked at.
    pub(super) fn follow(&self, expr: ExprId) -> (Follow, usize) {
        let mut found = Follow::default();
        let body = self.grammar.body(self.grammar.start());
        let (mut ended, mut open) = (HashSet::from([expr]), vec![expr]);
        let mut first = vec![];
        while let Some(part) = open.pop() {
            found.may_end |= part == body;
            for whole in self.wholes[part.index()].iter().filter(|whole| self.productive[whole.index()]) {
                let ends = match self.grammar.expr(*whole) {
                    Expr::Sequence(parts) => {
                        let mut ends = false;
                        for at in (0..parts.len()).filter(|at| parts[*at] == part) {
                            ends |= self.add_first(&parts[at + 1..], &mut first);
                        }
                        ends
                    }
                    Expr::Repeat { item, max, .. } => {
                        first.extend((max != Some(1)).then_some(item));
                        true
                    }
                    Expr::Unordered(_) => {
                        found.is_unknown = true;
                        false
                    }
                    _ => true,
                };
                if ends && ended.insert(*whole) {
                    open.push(*whole);
                }
            }
        }
        let mut begun: HashSet<ExprId> = first.iter().copied().collect();
        while let Some(part) = first.pop() {
            let mut inner = vec![];
            match self.grammar.expr(part) {
                _ if !self.productive[part.index()] => {}
                Expr::Empty => {}
                Expr::Terminal(terminal) => {
                    found.terminals.insert(terminal);
                }
                Expr::Rule(rule) => inner.push(self.grammar.body(rule)),
                Expr::Sequence(parts) => {
                    self.add_first(parts, &mut inner);
                }
                Expr::Choice(parts) => inner.extend(parts),
                Expr::Repeat { item, .. } => inner.push(item),
                Expr::Unordered(_) => found.is_unknown = true,
            }
            first.extend(inner.into_iter().filter(|part| begun.insert(*part)));
        }
        (found, ended.len() + begun.len())
    }

    /// Adds the parts with which a text of a sequence may begin; answers whether all may be empty.
    fn add_first(&self, parts: &[ExprId], first: &mut Vec<ExprId>) -> bool {
        let empty = parts.iter().take_while(|part| self.nullable[part.index()]).count();
        first.extend(&parts[..parts.len().min(empty + 1)]);
        empty == parts.len()
    }
}
