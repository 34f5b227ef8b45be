//! Facts about expressions that are least fixpoints: productive (some text matches) and nullable (the empty
//! text matches).
//!
//! Both are the same question with different leaves. A sequence holds if all its parts hold, a choice if one
//! part holds, a rule if its body holds. Each expression is visited once for each of its parts (Dowling and
//! Gallier's algorithm for Horn clauses). A chain of a hundred thousand rules therefore takes the same time
//! in any order. Repeated passes until nothing changes would be quadratic in the wrong order.

use std::collections::VecDeque;

use unskew_core::ids::Id;

use crate::{
    budget::BudgetLanguage,
    data::{Expr, ExprId, Grammar, RuleId, Terminal, Unordered},
};

/// By expression: whether some text matches, and whether the empty text matches. A choice may have
/// unproductive alternatives.
pub fn productive_and_nullable(grammar: &Grammar) -> (Vec<bool>, Vec<bool>) {
    let parts = Parts::new(grammar);
    (parts.least(|_| true), parts.least(has_empty_text))
}

/// By expression: whether some text matches.
pub fn productive(grammar: &Grammar) -> Vec<bool> {
    Parts::new(grammar).least(|_| true)
}

/// By expression: the expressions that contain it directly, and those that call a rule of which it is the body.
pub fn wholes(grammar: &Grammar) -> Vec<Vec<ExprId>> {
    let mut wholes: Vec<Vec<ExprId>> = vec![vec![]; grammar.expressions()];
    for expr in grammar.expression_ids() {
        let mut call = |rule: RuleId| wholes[grammar.body(rule).index()].push(expr);
        match grammar.expr(expr) {
            Expr::Sequence(parts) | Expr::Choice(parts) => {
                parts.iter().for_each(|part| wholes[part.index()].push(expr));
            }
            Expr::Repeat { item, .. } => wholes[item.index()].push(expr),
            Expr::Rule(rule) => call(rule),
            Expr::Unordered(group) => group.rules().for_each(call),
            Expr::Empty | Expr::Terminal(_) => {}
        }
    }
    wholes
}

/// By expression, of which `wholes` has the [`wholes`]: whether it is one of `seeds`, or one is in it or in a rule that
/// it calls. The same of rules and their callers, and of the nodes of a graph and those before them.
pub fn containing<I: Id>(wholes: &[Vec<I>], seeds: impl IntoIterator<Item = I>) -> Vec<bool> {
    let mut found = vec![false; wholes.len()];
    let mut open: Vec<I> = seeds.into_iter().collect();
    while let Some(part) = open.pop() {
        if !std::mem::replace(&mut found[part.index()], true) {
            open.extend(wholes[part.index()].iter().copied());
        }
    }
    found
}

/// Calls `refresh` for each expression, and again for each of its `users` when it answers that the fact of the
/// expression has changed. Facts that only grow become a least fixpoint.
pub fn settle(grammar: &Grammar, users: &[Vec<ExprId>], mut refresh: impl FnMut(ExprId) -> bool) {
    // Parts precede their wholes.
    let mut open: VecDeque<ExprId> = grammar.expression_ids().collect();
    let mut waits = vec![true; grammar.expressions()];
    while let Some(expr) = open.pop_front() {
        waits[expr.index()] = false;
        if refresh(expr) {
            for user in &users[expr.index()] {
                if !std::mem::replace(&mut waits[user.index()], true) {
                    open.push_back(*user);
                }
            }
        }
    }
}

fn has_empty_text(terminal: &Terminal) -> bool {
    match terminal {
        Terminal::Automaton(dfa) => dfa.is_accepting(dfa.start()),
        Terminal::TokenBudget(budget) => match &budget.language {
            BudgetLanguage::Automaton(dfa) => dfa.is_accepting(dfa.start()),
            BudgetLanguage::Grammar(grammar) => {
                let (_, nullable) = productive_and_nullable(grammar);
                nullable[grammar.body(grammar.start()).index()]
            }
        },
        Terminal::Difference(difference) | Terminal::Distinct(difference) => difference.accepts(b""),
        Terminal::Literal(_)
        | Terminal::Counted(_)
        | Terminal::Token(_)
        | Terminal::Tokens(_)
        | Terminal::OneOf(_) => false,
    }
}

/// The demands of a group on its members: the number of optional members that are required in addition, and
/// whether a separator is required. `None` if the bounds of the group exclude every number of members.
fn asked(group: &Unordered) -> Option<(u32, bool)> {
    let required = group.required();
    let least = group.min.max(required);
    let separated = least > 1 || !group.choices.is_empty();
    group.max.is_none_or(|max| least <= max).then_some((least - required, separated))
}

/// The number of auxiliary nodes of a group.
fn auxiliary(group: &Unordered) -> usize {
    2 + group.choices.iter().map(|choice| 1 + choice.ways.len()).sum::<usize>()
}

/// The reversed edges: for each expression, the expressions that contain it directly.
struct Parts<'g> {
    grammar: &'g Grammar,
    /// The groups, each with the index of the first of its auxiliary nodes. The indices follow those of expressions
    /// and rules. The first node holds if enough optional members hold. The second node holds if the first one or the
    /// `others` of the group hold. Then comes, for each choice, a node that holds if one of its ways does, and a node
    /// for each way, which holds if all members do that it requires.
    groups: Vec<((ExprId, &'g Unordered), usize)>,
    /// Offsets into `wholes`, by expression, then by rule, then by auxiliary node of a group: the list of the
    /// direct containers.
    first: Vec<u32>,
    wholes: Vec<u32>,
    /// Rules by body, as linked lists: by expression the first rule with this body, and by rule the next rule
    /// with the same body.
    first_rule: Vec<Option<RuleId>>,
    next_rule: Vec<Option<RuleId>>,
}

impl<'g> Parts<'g> {
    fn new(grammar: &'g Grammar) -> Self {
        let len = grammar.expressions();
        let groups = grammar.expression_ids().filter_map(|expr| match grammar.expr(expr) {
            Expr::Unordered(group) => Some((expr, group)),
            _ => None,
        });
        let of_groups = len + grammar.rules().len();
        let mut end = of_groups;
        let groups: Vec<_> = groups
            .map(|(expr, group)| {
                let first = end;
                end += auxiliary(group);
                ((expr, group), first)
            })
            .collect();
        let mut first = vec![0u32; end + 1];
        let each = |visit: &mut dyn FnMut(usize, usize)| {
            for expr in grammar.expression_ids() {
                match grammar.expr(expr) {
                    Expr::Empty | Expr::Terminal(_) => {}
                    Expr::Rule(rule) => visit(len + rule.index(), expr.index()),
                    Expr::Sequence(parts) | Expr::Choice(parts) => {
                        parts.iter().for_each(|part| visit(part.index(), expr.index()));
                    }
                    Expr::Repeat { item, .. } => visit(item.index(), expr.index()),
                    Expr::Unordered(_) => {}
                }
            }
            for ((expr, group), optional) in &groups {
                let Some((more, separated)) = asked(group) else { continue };
                let rule = |member: u32| len + group.members[member as usize].0.index();
                let mut of_choices = vec![false; group.members.len()];
                let mut node = optional + 2;
                for choice in &group.choices {
                    let this = node;
                    visit(this, expr.index());
                    for way in &choice.ways {
                        node += 1;
                        visit(node, this);
                        way.required.iter().for_each(|member| visit(rule(*member), node));
                        match way.required.is_empty() {
                            true => way.allowed.iter().for_each(|member| visit(rule(*member), *optional)),
                            false => visit(node, *optional),
                        }
                    }
                    node += 1;
                    choice.members().for_each(|member| of_choices[member as usize] = true);
                }
                for ((rule, required), _) in group.members.iter().zip(of_choices).filter(|(_, of)| !of) {
                    visit(len + rule.index(), if *required { expr.index() } else { *optional });
                }
                group.others.iter().for_each(|others| visit(len + others.index(), optional + 1));
                visit(*optional, optional + 1);
                if more > 0 {
                    visit(optional + 1, expr.index());
                }
                group
                    .separator
                    .iter()
                    .filter(|_| separated)
                    .for_each(|separator| visit(len + separator.index(), expr.index()));
            }
        };
        each(&mut |part, _| first[part + 1] += 1);
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut filled = first.clone();
        let mut wholes = vec![0u32; first[first.len() - 1] as usize];
        each(&mut |part, whole| {
            wholes[filled[part] as usize] = u32::try_from(whole).expect("limited");
            filled[part] += 1;
        });
        let (mut first_rule, mut next_rule) = (vec![None; len], vec![None; grammar.rules().len()]);
        for rule in grammar.rules() {
            next_rule[rule.index()] = first_rule[grammar.body(rule).index()].replace(rule);
        }
        Self { grammar, groups, first, wholes, first_rule, next_rule }
    }

    /// By expression: whether it holds, if the empty text and the terminals accepted by `leaf` hold.
    fn least(&self, leaf: impl Fn(&Terminal) -> bool) -> Vec<bool> {
        let grammar = self.grammar;
        let len = grammar.expressions();
        let all = self.first.len() - 1;
        // By expression: the number of parts that are not yet known to hold.
        let mut missing: Vec<u32> = Vec::with_capacity(all);
        let mut holds = vec![false; all];
        let mut open = Vec::new();
        for expr in grammar.expression_ids() {
            let (parts, at_once) = match grammar.expr(expr) {
                Expr::Empty => (0, true),
                Expr::Terminal(terminal) => (1, leaf(grammar.terminal(terminal))),
                Expr::Rule(_) | Expr::Choice(_) => (1, false),
                Expr::Sequence(parts) => (parts.len(), false),
                Expr::Repeat { min, .. } => (1, min == 0),
                Expr::Unordered(group) => match asked(group) {
                    Some((more, separated)) => {
                        let parts = group.required()
                            + u32::from(more > 0)
                            + u32::from(separated && group.separator.is_some());
                        let parts = parts as usize + group.choices.len();
                        (parts, parts == 0)
                    }
                    None => (u32::MAX as usize, false),
                },
            };
            missing.push(u32::try_from(parts).expect("limited"));
            if at_once {
                holds[expr.index()] = true;
                open.push(expr.index());
            }
        }
        missing.resize(len + grammar.rules().len(), 1);
        for ((_, group), _) in &self.groups {
            let more = asked(group).map_or(0, |(more, _)| more);
            missing.extend([if more == 0 { u32::MAX } else { more }, 1]);
            for choice in &group.choices {
                missing.push(1);
                for way in &choice.ways {
                    if way.required.is_empty() {
                        holds[missing.len()] = true;
                        open.push(missing.len());
                    }
                    missing.push(u32::try_from(way.required.len()).expect("limited"));
                }
            }
        }
        while let Some(found) = open.pop() {
            let first = self.first_rule.get(found).copied().flatten();
            let rules = std::iter::successors(first, |rule| self.next_rule[rule.index()]);
            for list in std::iter::once(found).chain(rules.map(|rule| len + rule.index())) {
                for whole in &self.wholes[self.first[list] as usize..self.first[list + 1] as usize] {
                    let whole = *whole as usize;
                    missing[whole] = missing[whole].saturating_sub(1);
                    if missing[whole] == 0 && !std::mem::replace(&mut holds[whole], true) {
                        open.push(whole);
                    }
                }
            }
        }
        holds.truncate(len);
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GrammarLimits;

    #[test]
    fn empty_texts_and_endless_rules() {
        let mut builder = Grammar::builder(&GrammarLimits::default());
        let [a, b, c] = ["a", "b", "c"].map(|name| builder.rule(name));
        // a = b | "x" a; b = "y"* b?; c = c "z".
        let (x, z) = (builder.literal("x"), builder.literal("z"));
        let (call_a, call_b, call_c) = (builder.call(a), builder.call(b), builder.call(c));
        let tail = builder.sequence([x, call_a]);
        let body = builder.choice([call_b, tail]);
        builder.define(a, body);
        let y = builder.regex("y", "y*").unwrap();
        let maybe_b = builder.optional(call_b);
        let body = builder.sequence([y, maybe_b]);
        builder.define(b, body);
        let body = builder.sequence([call_c, z]);
        builder.define(c, body);
        let grammar = builder.build(a).unwrap();
        let of = |facts: &[bool]| [a, b, c].map(|rule| facts[grammar.body(rule).index()]);
        assert_eq!(of(&productive_and_nullable(&grammar).1), [true, true, false]);
        assert_eq!(of(&productive(&grammar)), [true, true, false]);
    }
}
