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

use unskew_grammar::{Expr, ExprId, TerminalId, kit::near::Begins};

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
    pub(super) begins: Begins<'a>,
    /// By expression: those that contain it.
    pub(super) wholes: &'a [Vec<ExprId>],
}

impl Facts<'_> {
    /// What may come after `expr`, and how many expressions were looked at.
    pub(super) fn follow(&self, expr: ExprId) -> (Follow, usize) {
        let Begins { grammar, productive, .. } = self.begins;
        let mut found = Follow::default();
        let body = grammar.body(grammar.start());
        let (mut ended, mut open) = (HashSet::from([expr]), vec![expr]);
        let mut first = vec![];
        while let Some(part) = open.pop() {
            found.may_end |= part == body;
            for whole in self.wholes[part.index()].iter().filter(|whole| productive[whole.index()]) {
                let ends = match grammar.expr(*whole) {
                    Expr::Sequence(parts) => {
                        let mut ends = false;
                        for at in (0..parts.len()).filter(|at| parts[*at] == part) {
                            let (next, all_empty) = self.begins.of_sequence(&parts[at + 1..]);
                            first.extend(next);
                            ends |= all_empty;
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
        let (leaves, begun) = self.begins.leaves(first);
        for leaf in leaves {
            match grammar.expr(leaf) {
                Expr::Terminal(terminal) => _ = found.terminals.insert(terminal),
                _ => found.is_unknown = true,
            }
        }
        (found, ended.len() + begun)
    }
}
