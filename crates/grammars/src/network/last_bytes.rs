//! The bytes with which the words of a grammar end, and perhaps more of them.
//!
//! `list: "[" item ("," item)* "]"` ends with `]`, whatever an item is. Where outputs end by what the model writes
//! behind them, only tokens with such a byte inside can hold an end: 700 of 128,000 for JSON.

use unskew_grammar::RuleId;
use unskew_trie::ByteSet;

use super::{
    rules::{Position, Rules},
    terminals::{ScanTerminal, Terminals},
    unordered::is_of_group,
};
use crate::ids::{Id, Table};

pub(crate) fn last_bytes(rules: &Rules, terminals: &Terminals, start: RuleId) -> ByteSet {
    let may_end = may_end(rules, terminals);
    let mut bytes = ByteSet::default();
    let mut called = Table::filled(false, rules.all());
    let mut seen = Table::filled(false, rules.len());
    let mut open = vec![start];
    while let Some(rule) = open.pop() {
        if std::mem::replace(&mut called[rule], true) {
            continue;
        }
        let start = rules.start(rule);
        if is_of_group(start) {
            // Any of its members may come last.
            let group = rules.groups.entries().iter().find(|group| group.start() == start);
            let group = group.expect("the rule is a group");
            open.extend(group.members.iter().map(|(member, _)| *member));
            open.extend(group.others.iter().chain(&group.separator));
            continue;
        }
        let mut positions = vec![start];
        while let Some(position) = positions.pop() {
            if std::mem::replace(&mut seen[position], true) {
                continue;
            }
            for (terminal, target) in rules.terminals(position) {
                positions.push(*target);
                if may_end[*target] {
                    bytes.union(&last_bytes_of(terminals, *terminal));
                }
            }
            for (callee, target) in rules.calls(position) {
                positions.push(*target);
                if may_end[*target] {
                    open.push(*callee);
                }
            }
        }
    }
    bytes
}

/// By position: whether the rest of its rule may have no text. Groups may, as far as is known here.
fn may_end(rules: &Rules, terminals: &Terminals) -> Table<Position, bool> {
    let positions = || (0..rules.len()).map(Position::from_index);
    let mut may_end: Table<Position, bool> =
        positions().map(|position| rules.is_accepting(position)).collect();
    let is_empty = |may_end: &Table<Position, bool>, rule: RuleId| {
        let start = rules.start(rule);
        is_of_group(start) || may_end[start]
    };
    let is_end = |terminal: ScanTerminal| !terminals.is_literal(terminal) && terminals.is_end(terminal);
    loop {
        let mut changed = false;
        for position in positions().rev() {
            let ends = may_end[position]
                || rules
                    .terminals(position)
                    .iter()
                    .any(|(terminal, target)| is_end(*terminal) && may_end[*target])
                || rules
                    .calls(position)
                    .iter()
                    .any(|(rule, target)| may_end[*target] && is_empty(&may_end, *rule));
            changed |= std::mem::replace(&mut may_end[position], ends) != ends;
        }
        if !changed {
            return may_end;
        }
    }
}

fn last_bytes_of(terminals: &Terminals, terminal: ScanTerminal) -> ByteSet {
    if terminals.is_literal(terminal) {
        return terminals.literal(terminal).last().copied().into_iter().collect();
    }
    match terminals.scan(terminal) {
        Some(scan) => scan.dfa.last_bytes(),
        None if terminals.is_end(terminal) => ByteSet::default(),
        None => (0..=u8::MAX).collect(),
    }
}
