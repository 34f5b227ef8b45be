//! Control tokens that end the sequence. They are the end of the output, so nothing may follow them.
//!
//! A grammar that names one (`start: answer <|endoftext|>`) states the end of the output, as the end of the grammar
//! does. Both are treated alike: the output may end before the token
//! ([`Configurations::may_end`](crate::parser::configurations::Configurations::may_end)). The token is no part of the
//! output, because masks do not hold tokens that end a sequence. If a vocabulary has several ids that end a sequence,
//! the grammar does not choose among them.
//!
//! A word with a text after such a token could not be written. A grammar that has one is refused here, by a walk over
//! the positions after the token and after the calls of its rule. Every position can be reached and completed, so the
//! walk is exact for rules. For members in any order it assumes that another member follows each. Ignored terminals
//! may follow the token in the grammar: they are not written, and change nothing.
//!
//! Tried instead: a token that masks hold. Samplers then write the end twice, once as a token and once as the end,
//! and the probability of an output is not the model's own.

use hashbrown::HashSet;
use unskew_grammar::{Grammar, GrammarError, RuleId, TerminalId};

use super::{
    rules::{END, Position, Rules},
    terminals::{Numbering, ScanTerminal, Terminals},
    unordered::is_of_group,
};
use crate::ids::{Id, Table};

/// Checks that nothing may follow the tokens of `terminals` that end the sequence. O(n) for n positions and edges,
/// for each rule that names one.
///
/// # Errors
///
/// [`GrammarError::EndInside`].
pub(crate) fn check(
    grammar: &Grammar,
    numbering: &Numbering,
    rules: &Rules,
    terminals: &Terminals,
) -> Result<(), GrammarError> {
    if !terminals.has_end() {
        return Ok(());
    }
    let callers = Callers::new(rules);
    let is_end = |terminal: ScanTerminal| !terminals.is_literal(terminal) && terminals.is_end(terminal);
    let walk = FollowWalk { grammar, numbering, rules, callers: &callers };
    for rule in &callers.rules {
        for position in callers.positions(rule) {
            for (terminal, after) in
                rules.terminals(position).iter().filter(|(terminal, _)| is_end(*terminal))
            {
                let Some(next) = walk.follower(*after, rule.1) else { continue };
                let named = rule.1;
                return Err(GrammarError::EndInside {
                    rule: grammar.rule_name(named).to_owned(),
                    location: grammar.rule_location(named),
                    name: grammar.terminal_name(walk.terminal(*terminal)).to_owned(),
                    next,
                });
            }
        }
    }
    Ok(())
}

/// The built rules and their callers.
struct Callers {
    /// The first position of each rule, the rule, and the position after its last one, in ascending order.
    rules: Vec<(Position, RuleId, Position)>,
    /// By rule: the positions after its calls, and the rules that call it there.
    after: Table<RuleId, Vec<(Position, RuleId)>>,
    /// By rule: whether it is a member in any order, or a separator.
    in_group: Table<RuleId, bool>,
}

impl Callers {
    fn new(rules: &Rules) -> Self {
        let mut built: Vec<(Position, RuleId, Position)> =
            rules.built().map(|(rule, start)| (start, rule, END)).collect();
        built.sort_unstable();
        let ends: Vec<Position> = built.iter().skip(1).map(|(start, ..)| *start).collect();
        let last = Position::from_index(rules.len());
        for (rule, end) in built.iter_mut().zip(ends.into_iter().chain([last])) {
            rule.2 = end;
        }
        let mut callers = Self {
            rules: Vec::new(),
            after: Table::filled(Vec::new(), rules.all()),
            in_group: Table::filled(false, rules.all()),
        };
        for rule in &built {
            for position in callers.positions(rule) {
                for (callee, after) in rules.calls(position) {
                    callers.after[*callee].push((*after, rule.1));
                }
            }
        }
        for group in rules.groups.entries() {
            let members = group.members.iter().map(|(member, _)| *member);
            members.chain(group.others).chain(group.separator).for_each(|rule| callers.in_group[rule] = true);
        }
        callers.rules = built;
        callers
    }

    fn positions(&self, rule: &(Position, RuleId, Position)) -> impl Iterator<Item = Position> + use<> {
        (rule.0.raw()..rule.2.raw()).map(Position::of)
    }
}

struct FollowWalk<'a> {
    grammar: &'a Grammar,
    numbering: &'a Numbering,
    rules: &'a Rules,
    callers: &'a Callers,
}

impl FollowWalk<'_> {
    /// The terminal that has this number in the rules.
    fn terminal(&self, name: ScanTerminal) -> TerminalId {
        let found = self.grammar.terminals().find(|terminal| self.numbering[*terminal] == name);
        found.expect("rules read terminals of their grammar")
    }

    /// A symbol that may follow `position` of `rule` and is not ignored, if there is one.
    fn follower(&self, position: Position, rule: RuleId) -> Option<String> {
        let ignored = self.grammar.ignored().map(|terminal| self.numbering[terminal]);
        let mut open = vec![(position, rule)];
        let mut seen: HashSet<Position> = open.iter().map(|(position, _)| *position).collect();
        while let Some((position, rule)) = open.pop() {
            let mut after: Vec<(Position, RuleId)> = Vec::new();
            for (terminal, next) in self.rules.terminals(position) {
                if Some(*terminal) != ignored {
                    return Some(format!("`{}`", self.grammar.terminal_name(self.terminal(*terminal))));
                }
                after.push((*next, rule));
            }
            for (callee, next) in self.rules.calls(position) {
                if !self.is_blank(*callee, ignored) {
                    return Some(format!("rule `{}`", self.grammar.rule_name(*callee)));
                }
                after.push((*next, rule));
            }
            if self.rules.is_accepting(position) {
                if self.callers.in_group[rule] {
                    return Some("another member in any order".to_owned());
                }
                after.extend(&self.callers.after[rule]);
            }
            open.extend(after.into_iter().filter(|(position, _)| seen.insert(*position)));
        }
        None
    }

    /// Whether `rule` reads nothing but ignored terminals.
    fn is_blank(&self, rule: RuleId, ignored: Option<ScanTerminal>) -> bool {
        let mut open = vec![rule];
        let mut seen: HashSet<RuleId> = [rule].into();
        while let Some(rule) = open.pop() {
            let Ok(built) =
                self.callers.rules.binary_search_by_key(&self.rules.start(rule), |(start, ..)| *start)
            else {
                // Members in any order, none of which is empty.
                debug_assert!(is_of_group(self.rules.start(rule)));
                return false;
            };
            for position in self.callers.positions(&self.callers.rules[built]) {
                if self.rules.terminals(position).iter().any(|(terminal, _)| Some(*terminal) != ignored) {
                    return false;
                }
                open.extend(
                    self.rules
                        .calls(position)
                        .iter()
                        .map(|(callee, _)| *callee)
                        .filter(|callee| seen.insert(*callee)),
                );
            }
        }
        true
    }
}
