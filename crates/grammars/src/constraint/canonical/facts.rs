//! What is known of a grammar before any text is read: from where ordinary text leads to the end of a terminal or of a
//! rule, and how many bytes that takes.
//!
//! A state of a grammar is *safe* if ordinary characters lead from it to the end of the output: then no tokenizer can
//! keep a text from being completed, and nothing has to be searched for. A state stands in a terminal, in a rule, and
//! in the rules that have called it. So it is safe if three things hold, and each is a fact of the grammar: the
//! terminal ends by ordinary text from here ([`TerminalFacts`]); the rule ends by such terminals from the position after
//! it ([`GrammarFacts::ends`]); and so do the callers. Of nearly all grammars each position ends so, and then no caller
//! is looked at.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::{
    Dfa, StateId,
    canonical::{CanonicalError, CanonicalIndex, Safety, TextPart},
};
use unskew_grammar::{
    CountedUnits,
    kit::terminal::{ScanState, reading::Scan},
};
use unskew_trie::ByteSet;

use crate::{
    ids::{Id, Table},
    network::{
        rules::{END, Position, Rules},
        terminals::{ScanTerminal, Scanner, Terminals},
        unordered::{GroupId, UnorderedGroup, is_of_group},
    },
    parser::configurations::Compiled,
};

/// The number of sweeps over all positions. What is not decided then counts as unsafe, and as far away.
const SWEEPS: usize = 64;

/// No end is known.
const FAR: u32 = u32::MAX / 4;

/// The facts of a compiled grammar over one tokenizer.
#[derive(Debug)]
pub(super) struct GrammarFacts {
    terminals: Table<ScanTerminal, TerminalFacts>,
    /// By position: whether ordinary text leads to the end of its rule, and the number of bytes to it, at least.
    rest: Table<Position, Rest>,
    groups: Table<GroupId, Rest>,
    /// Whether ordinary text leads to the end of a rule from each position.
    pub(super) all_end: bool,
    /// The bytes of all terminals.
    pub(super) bytes: ByteSet,
    pub(super) has_ids: bool,
}

/// What follows up to the end of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rest {
    /// Whether ordinary text is enough.
    pub(super) is_safe: bool,
    /// The number of bytes, at least.
    pub(super) bytes: u32,
}

impl Rest {
    const NONE: Self = Self { is_safe: true, bytes: 0 };
    const UNKNOWN: Self = Self { is_safe: false, bytes: FAR };

    fn then(self, next: Self) -> Self {
        Self { is_safe: self.is_safe && next.is_safe, bytes: (self.bytes + next.bytes).min(FAR) }
    }

    fn or(self, other: Self) -> Self {
        Self { is_safe: self.is_safe || other.is_safe, bytes: self.bytes.min(other.bytes) }
    }
}

/// The facts of a terminal.
#[derive(Debug)]
pub(super) enum TerminalFacts {
    /// By number of bytes read.
    Literal(Box<[Safety]>),
    Text(Arc<TextPart>),
    Counted(Arc<TextPart>, CountedFacts),
    /// A token that is read by its id, or a set of them.
    Id { is_safe: bool },
    /// The end of the output, or a terminal that no rule has.
    Nothing,
}

/// The facts of an automaton whose units are counted.
#[derive(Debug)]
pub(super) struct CountedFacts {
    /// By state of the automaton: whether ordinary text leads to an end with no more units than it takes.
    safe: Box<[bool]>,
    /// Whether these are the states that are safe without a count.
    pub(super) is_as_uncounted: bool,
    /// Whether a unit is ordinary text, so that more of them may be written where too few are.
    has_more: bool,
}

impl GrammarFacts {
    /// # Errors
    ///
    /// [`CanonicalError::NotUtf8`] and [`CanonicalError::ControlToken`].
    pub(super) fn new(compiled: &Compiled, index: &CanonicalIndex) -> Result<Self, CanonicalError> {
        let Compiled { rules, terminals, .. } = compiled;
        let (literals, others) = terminals.len();
        let used = rules.used_terminals(literals + others);
        let mut facts = Self {
            terminals: Table::default(),
            rest: Table::filled(Rest::UNKNOWN, rules.len()),
            groups: Table::filled(Rest::UNKNOWN, rules.groups.len()),
            all_end: false,
            bytes: ByteSet::default(),
            has_ids: false,
        };
        let all = (0..literals + others).map(ScanTerminal::from_index);
        for terminal in all {
            let made = match used[terminal] {
                true => facts.terminal(terminals, terminal, index)?,
                false => TerminalFacts::Nothing,
            };
            facts.terminals.push(made);
        }
        facts.find_rests(rules, terminals);
        let rests = facts.rest.entries().iter().chain(facts.groups.entries());
        facts.all_end = rests.skip(1).all(|rest| rest.is_safe);
        Ok(facts)
    }

    fn terminal(
        &mut self,
        terminals: &Terminals,
        terminal: ScanTerminal,
        index: &CanonicalIndex,
    ) -> Result<TerminalFacts, CanonicalError> {
        if terminals.is_literal(terminal) {
            let text = terminals.literal(terminal);
            text.iter().for_each(|byte| self.bytes.insert(*byte));
            let safety = index.text_safety(text).ok_or(CanonicalError::NotUtf8)?;
            return Ok(TerminalFacts::Literal(safety.into()));
        }
        Ok(match terminals.scanner(terminal) {
            Scanner::Token(token) => {
                self.has_ids = true;
                TerminalFacts::Id { is_safe: index.begins_anew(*token)? }
            }
            Scanner::OneOf(tokens) => {
                self.has_ids = true;
                let mut is_safe = false;
                for token in tokens.ids() {
                    is_safe |= index.begins_anew(token)?;
                }
                TerminalFacts::Id { is_safe }
            }
            Scanner::End => TerminalFacts::Nothing,
            Scanner::Text(..) => {
                let scan = terminals.scan(terminal).expect("it is text");
                scan.dfa.bytes().for_each(|byte| self.bytes.insert(byte));
                let part = index.part(scan.dfa).ok_or(CanonicalError::NotUtf8)?;
                match scan.count {
                    None => TerminalFacts::Text(part),
                    Some(count) => {
                        let unit = index.part(count.unit()).ok_or(CanonicalError::NotUtf8)?;
                        let facts = CountedFacts::new(count, &part, &unit, index);
                        TerminalFacts::Counted(part, facts)
                    }
                }
            }
        })
    }

    /// Finds the rests of all positions and groups: sweeps, until nothing changes.
    fn find_rests(&mut self, rules: &Rules, terminals: &Terminals) {
        let groups: HashMap<Position, GroupId> =
            rules.groups.iter().map(|(id, group)| (group.start(), id)).collect();
        // Before each rule is known, its end is far.
        self.rest[END] = Rest::NONE;
        let of_terminal = (0..self.terminals.len()).map(ScanTerminal::from_index);
        let of_terminal: Table<ScanTerminal, Rest> =
            of_terminal.map(|terminal| self.whole(terminals, terminal)).collect();
        for _ in 0..SWEEPS {
            let mut changed = false;
            let of_rule = |facts: &Self, start: Position| match is_of_group(start) {
                true => facts.groups[groups[&start]],
                false => facts.rest[start],
            };
            for position in (1..rules.len()).rev().map(Position::from_index) {
                let mut rest = match rules.is_accepting(position) {
                    true => Rest::NONE,
                    false => Rest::UNKNOWN,
                };
                for (terminal, after) in rules.terminals(position) {
                    rest = rest.or(of_terminal[*terminal].then(self.rest[*after]));
                }
                for (callee, after) in rules.calls(position) {
                    rest = rest.or(of_rule(self, rules.start(*callee)).then(self.rest[*after]));
                }
                changed |= std::mem::replace(&mut self.rest[position], rest) != rest;
            }
            for (id, group) in rules.groups.iter() {
                let rest = of_group(group, |rule| of_rule(self, rules.start(rule)));
                changed |= std::mem::replace(&mut self.groups[id], rest) != rest;
            }
            if !changed {
                return;
            }
        }
    }

    /// A whole text of `terminal`.
    fn whole(&self, terminals: &Terminals, terminal: ScanTerminal) -> Rest {
        let is_distinct = terminals.is_distinct(terminal);
        match &self.terminals[terminal] {
            TerminalFacts::Literal(safety) => {
                let bytes = terminals.literal_len(terminal);
                Rest { is_safe: safety[0] == Safety::Always, bytes: u32::try_from(bytes).unwrap_or(FAR) }
            }
            TerminalFacts::Text(part) | TerminalFacts::Counted(part, _) => {
                let scan = terminals.scan(terminal).expect("it is text");
                let start = scan.start();
                let is_safe = match scan.except {
                    // Some text of many is left: an ordinary one leaves all those that are excluded or used.
                    Some(_) => part.is_endless() && part.safety(scan.at(start)) == Safety::Always,
                    None => self.safety(terminal, scan, start) == Safety::Always,
                };
                let bytes = part.to_end(scan.at(start)).min(FAR);
                Rest { is_safe: is_safe && (!is_distinct || part.is_endless()), bytes }
            }
            TerminalFacts::Id { is_safe } => Rest { is_safe: *is_safe, bytes: 1 },
            TerminalFacts::Nothing => Rest::NONE,
        }
    }

    /// The facts of `terminal`.
    #[inline]
    pub(super) fn of(&self, terminal: ScanTerminal) -> &TerminalFacts {
        &self.terminals[terminal]
    }

    /// Whether ordinary text leads from the state of `terminal`, no literal, to its end, whatever keys are used.
    #[inline]
    pub(super) fn safety(&self, terminal: ScanTerminal, scan: Scan<'_>, state: ScanState) -> Safety {
        match &self.terminals[terminal] {
            TerminalFacts::Text(part) => match scan.except {
                Some(except) if except.is_excluding(state) => Safety::Unknown,
                _ => part.safety(scan.at(state)),
            },
            TerminalFacts::Counted(_, facts) => match scan.count {
                Some(count) if facts.is_safe(count, state) => Safety::Always,
                _ => Safety::Unknown,
            },
            _ => Safety::Unknown,
        }
    }

    /// What follows `position` in its rule; `group` is its group, if it is a position of one.
    #[inline]
    pub(super) fn rest(&self, position: Position, group: impl FnOnce() -> GroupId) -> Rest {
        if is_of_group(position) { self.groups[group()] } else { self.rest[position] }
    }
}

/// The members of a group that have to come, with separators; safe if all are.
fn of_group(group: &UnorderedGroup, of_rule: impl Fn(unskew_grammar::RuleId) -> Rest) -> Rest {
    let separator = group.separator.map_or(Rest::NONE, &of_rule);
    let others = group.others.map_or(Rest::NONE, &of_rule);
    let mut rest = Rest { is_safe: separator.is_safe && others.is_safe, bytes: 0 };
    for (member, is_required) in &group.members {
        let member = of_rule(*member);
        rest.is_safe &= member.is_safe;
        if *is_required {
            rest.bytes = (rest.bytes + member.bytes + separator.bytes).min(FAR);
        }
    }
    rest
}

impl CountedFacts {
    fn new(count: &CountedUnits, part: &TextPart, unit: &TextPart, index: &CanonicalIndex) -> Self {
        let dfa: &Dfa = count.dfa();
        let is_ordinary = |byte: &u8| index.is_live(*byte, Safety::Always) && index.is_ordinary(*byte);
        let bytes: Vec<u8> = (0..0x80).filter(is_ordinary).collect();
        let mut safe: Box<[bool]> = dfa.states().map(|state| dfa.is_accepting(state)).collect();
        loop {
            let mut changed = false;
            for state in dfa.states().rev() {
                let leads = |next: StateId| safe[next.index()] && count.is_nearest(state, next);
                if !safe[state.index()] && bytes.iter().any(|byte| dfa.step(state, *byte).is_some_and(leads)) {
                    safe[state.index()] = true;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let is_as_uncounted = dfa
            .states()
            .filter(|state| part.safety(*state) != Safety::Unknown)
            .all(|state| safe[state.index()]);
        let (min, _) = count.bounds();
        let has_more = min == 0 || count.is_all() && unit.safety(count.unit().start()) == Safety::Always;
        Self { safe, is_as_uncounted, has_more }
    }

    #[inline]
    fn is_safe(&self, count: &CountedUnits, state: ScanState) -> bool {
        self.safe[count.at(state).index()] && (self.has_more || count.has_enough(state))
    }
}
