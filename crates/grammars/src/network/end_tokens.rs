//! Control tokens that end the sequence: the end of the output, so that nothing may follow them.
//!
//! A grammar that names one (`start: answer <|endoftext|>`) says where the output ends, and so does the end of the grammar. Both
//! are the same: the output may end in front of the token ([`Places::may_end`](crate::parser::places::Places::may_end)). The token is no
//! part of the output, for the end of a sequence is no token of a mask. Where a vocabulary has several ids that end a sequence, the
//! grammar does not choose among them.
//!
//! A word with something behind such a token could not be written. A grammar that has one is refused here, by a walk over the
//! positions behind the token and behind the calls of its rule. Every position that is built can be completed and reached, so it is
//! right about rules. Of members in any order it takes each to be followed by another one. What is ignored between terminals may
//! stand behind the token in the grammar: it is not written, and changes nothing.
//!
//! Tried instead: the token as one that masks hold. Samplers then write the end twice, once as a token and once as the end, and the
//! probability of an output is not the model's own.

use hashbrown::HashSet;

use super::{
    rules::{Position, Rules},
    terminals::Terminals,
    unordered::is_of_group,
};
use crate::GrammarError;
use crate::grammar::data::{Grammar, RuleId, TerminalId};

/// Checks that nothing may follow the tokens of `terminals` that end the sequence. O(n) for n positions and edges, for each rule that
/// names one.
///
/// # Errors
///
/// [`GrammarError::EndInside`].
pub(crate) fn check(
    grammar: &Grammar,
    names: &[u32],
    rules: &Rules,
    terminals: &Terminals,
) -> Result<(), GrammarError> {
    if !terminals.has_end() {
        return Ok(());
    }
    let callers = Callers::new(rules);
    let is_end = |terminal: u32| !terminals.is_literal(terminal) && terminals.is_end(terminal);
    let walk = Walk { grammar, names, rules, callers: &callers };
    for rule in &callers.rules {
        for position in callers.positions(rule) {
            for (terminal, behind) in
                rules.terminals(position).iter().filter(|(terminal, _)| is_end(*terminal))
            {
                let Some(next) = walk.follower(*behind, rule.1) else { continue };
                let named = RuleId(rule.1);
                return Err(GrammarError::EndInside {
                    rule: grammar.rule_name(named).to_owned(),
                    location: grammar.rule_place(named),
                    name: grammar.terminal_name(walk.terminal(*terminal)).to_owned(),
                    next,
                });
            }
        }
    }
    Ok(())
}

/// The rules that are built, and where they are called.
struct Callers {
    /// The first position of each, the rule, and the position behind its last, in ascending order.
    rules: Vec<(Position, u32, Position)>,
    /// By rule: the positions behind its calls, and the rules that call it there.
    behind: Vec<Vec<(Position, u32)>>,
    /// By rule: whether it is a member in any order, or stands between members.
    in_group: Vec<bool>,
}

impl Callers {
    fn new(rules: &Rules) -> Self {
        let mut built: Vec<(Position, u32, Position)> =
            rules.built().map(|(rule, start)| (start, rule, 0)).collect();
        built.sort_unstable();
        let ends: Vec<Position> = built.iter().skip(1).map(|(start, ..)| *start).collect();
        let last = u32::try_from(rules.len()).expect("limited");
        for (rule, end) in built.iter_mut().zip(ends.into_iter().chain([last])) {
            rule.2 = end;
        }
        let mut callers = Self {
            rules: Vec::new(),
            behind: vec![Vec::new(); rules.all()],
            in_group: vec![false; rules.all()],
        };
        for rule in &built {
            for position in callers.positions(rule) {
                for (callee, behind) in rules.calls(position) {
                    callers.behind[*callee as usize].push((*behind, rule.1));
                }
            }
        }
        for group in &rules.groups {
            let members = group.members.iter().map(|(member, _)| *member);
            members
                .chain(group.others)
                .chain(group.separator)
                .for_each(|rule| callers.in_group[rule as usize] = true);
        }
        callers.rules = built;
        callers
    }

    fn positions(&self, rule: &(Position, u32, Position)) -> std::ops::Range<Position> {
        rule.0..rule.2
    }
}

struct Walk<'a> {
    grammar: &'a Grammar,
    names: &'a [u32],
    rules: &'a Rules,
    callers: &'a Callers,
}

impl Walk<'_> {
    /// The terminal that has this number in the rules.
    fn terminal(&self, name: u32) -> TerminalId {
        let found = self.grammar.terminals().find(|terminal| self.names[terminal.index()] == name);
        found.expect("rules read terminals of their grammar")
    }

    /// What may be read from `position` of `rule` on, but for what is ignored; `None` if there is nothing.
    fn follower(&self, position: Position, rule: u32) -> Option<String> {
        let ignored = self.grammar.ignored().map(|terminal| self.names[terminal.index()]);
        let mut open = vec![(position, rule)];
        let mut seen: HashSet<Position> = open.iter().map(|(position, _)| *position).collect();
        while let Some((position, rule)) = open.pop() {
            let mut behind: Vec<(Position, u32)> = Vec::new();
            for (terminal, next) in self.rules.terminals(position) {
                if Some(*terminal) != ignored {
                    return Some(format!("`{}`", self.grammar.terminal_name(self.terminal(*terminal))));
                }
                behind.push((*next, rule));
            }
            for (callee, next) in self.rules.calls(position) {
                if !self.is_blank(*callee, ignored) {
                    return Some(format!("rule `{}`", self.grammar.rule_name(RuleId(*callee))));
                }
                behind.push((*next, rule));
            }
            if self.rules.is_accepting(position) {
                if self.callers.in_group[rule as usize] {
                    return Some("another member in any order".to_owned());
                }
                behind.extend(&self.callers.behind[rule as usize]);
            }
            open.extend(behind.into_iter().filter(|(position, _)| seen.insert(*position)));
        }
        None
    }

    /// Whether `rule` reads nothing but what is ignored.
    fn is_blank(&self, rule: u32, ignored: Option<u32>) -> bool {
        let mut open = vec![rule];
        let mut seen: HashSet<u32> = [rule].into();
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
