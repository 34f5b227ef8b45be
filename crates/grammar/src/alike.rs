//! Whether two grammars have the same rules, whatever the rules are called.
//!
//! Equality of languages is undecidable. Equal rules are enough for a front end that makes one grammar of two texts and
//! asks whether the difference of the texts means anything.

use hashbrown::{HashMap, HashSet};

use crate::{
    data::{Expr, ExprId, Grammar, RuleId, Unordered},
    fixpoint::productive,
};

impl Grammar {
    /// Whether the grammar has a text. O(n) for n expressions and rules.
    pub fn has_text(&self) -> bool {
        productive(self)[self.body(self.start()).index()]
    }

    /// Whether both grammars have the same rules but for their names, so that they have the same language. Two grammars
    /// of one language may differ. Compare [trimmed](Self::trimmed) grammars.
    ///
    /// Cost: O(n) for n pairs of expressions that stand in the same place.
    pub fn is_alike(&self, other: &Self) -> bool {
        let mut rules: HashMap<RuleId, RuleId> = HashMap::new();
        let mut seen: HashSet<(ExprId, ExprId)> = HashSet::new();
        let mut open = vec![];
        let mut pair = |left: RuleId, right: RuleId, open: &mut Vec<(ExprId, ExprId)>| {
            if let Some(known) = rules.get(&left) {
                return *known == right;
            }
            rules.insert(left, right);
            open.push((self.body(left), other.body(right)));
            self.is_scope(left) == other.is_scope(right)
        };
        if self.ignored().is_some()
            || other.ignored().is_some()
            || !pair(self.start(), other.start(), &mut open)
        {
            return false;
        }
        while let Some((left, right)) = open.pop() {
            if !seen.insert((left, right)) {
                continue;
            }
            let same = match (self.expr(left), other.expr(right)) {
                (Expr::Empty, Expr::Empty) => true,
                (Expr::Terminal(left), Expr::Terminal(right)) => self.terminal(left) == other.terminal(right),
                (Expr::Rule(left), Expr::Rule(right)) => pair(left, right, &mut open),
                (Expr::Sequence(left), Expr::Sequence(right)) | (Expr::Choice(left), Expr::Choice(right)) => {
                    open.extend(left.iter().copied().zip(right.iter().copied()));
                    left.len() == right.len()
                }
                (
                    Expr::Repeat { item, min, max },
                    Expr::Repeat { item: other_item, min: other_min, max: other_max },
                ) => {
                    open.push((item, other_item));
                    (min, max) == (other_min, other_max)
                }
                (Expr::Unordered(left), Expr::Unordered(right)) => {
                    let flags = |group: &Unordered| {
                        group.members.iter().map(|(_, required)| *required).collect::<Vec<_>>()
                    };
                    (left.min, left.max, &left.choices) == (right.min, right.max, &right.choices)
                        && flags(left) == flags(right)
                        && left.others.is_some() == right.others.is_some()
                        && left.separator.is_some() == right.separator.is_some()
                        && left.rules().zip(right.rules()).all(|(left, right)| pair(left, right, &mut open))
                }
                _ => false,
            };
            if !same {
                return false;
            }
        }
        true
    }
}
