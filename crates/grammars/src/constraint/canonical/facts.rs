//! Facts of a grammar that hold before any text is read: whether ordinary text leads from a place in a terminal or in
//! a rule to its end, and how many bytes that takes.
//!
//! A state of a grammar is *safe* if ordinary characters lead from it to the end of the output: then no tokenizer
//! can keep a text from being completed, and nothing has to be searched for. A state stands in a terminal, in a
//! rule, and in the rules that have called it. So it is safe if three things hold, and each is a fact of the
//! grammar: the terminal ends by ordinary text from here ([`TerminalFacts`]); the rule ends by such terminals from
//! the position after it ([`Rest`]); and so do the callers. Of nearly all grammars each position ends
//! so, and then no caller is looked at.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashMap;
use unskew_automata::{
    Dfa, StateId,
    canonical::{Allowed, CanonicalError, CanonicalIndex, Safety, TextPart},
};
use unskew_grammar::{
    CountedUnits, RuleId,
    kit::terminal::{ScanState, reading::Scan},
};
use unskew_trie::ByteSet;

use crate::{
    ids::{Id, Table},
    network::{
        rules::{END, Position, Rules},
        terminals::{ScanTerminal, Scanner, Terminals},
        unordered::{GroupId, GroupStates, UnorderedGroup, is_of_group},
    },
    parser::configurations::Compiled,
};

/// How often a position is looked at, on average, to find how many bytes it is from an end.
const LOOKS: usize = 16;

/// No end is known.
pub(super) const FAR: u32 = u32::MAX / 4;

/// The facts of a compiled grammar over one tokenizer.
#[derive(Debug)]
pub(super) struct GrammarFacts {
    terminals: Table<ScanTerminal, TerminalFacts>,
    /// By position: whether ordinary text leads to the end of its rule, and the number of bytes to it, at least.
    rest: Table<Position, Rest>,
    /// By group with members in any order: the same at its start, and whether ordinary text is enough at all other
    /// positions.
    groups: Table<GroupId, (Rest, bool)>,
    /// Whether ordinary text leads to the end of a rule from each position.
    pub(super) all_end: bool,
    /// Whether there are keys enough, so that those that are used never decide whether a text goes on where no key
    /// is under way.
    pub(super) keys_are_many: bool,
    /// The bytes of all terminals.
    pub(super) bytes: ByteSet,
    pub(super) has_ids: bool,
}

/// Whether ordinary text is enough for a part of the output, by what is known of the bytes before and after it.
///
/// The last byte of an added token, such as `>` of `<|end|>`, is ordinary where the byte before it is not the last
/// but one. So a part has a way from *any* byte before it, or from a *calm* one alone; and its last byte may be calm
/// too, for the part after it. One bit each, of which calm before and any after are the weakest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ways(u8);

impl Ways {
    pub(super) const NONE: Self = Self(0);
    /// No text.
    pub(super) const EMPTY: Self = Self(0b1101);
    const ANY_TO_ANY: u8 = 0b0001;
    const ANY_TO_CALM: u8 = 0b0010;
    const CALM_TO_ANY: u8 = 0b0100;
    const CALM_TO_CALM: u8 = 0b1000;

    /// The ways of a text of this safety, which has at least one byte. `is_calm`: whether its last byte is.
    pub(super) fn of(safety: Safety, is_calm: bool) -> Self {
        let calm = if is_calm { Self::CALM_TO_ANY | Self::CALM_TO_CALM } else { Self::CALM_TO_ANY };
        let any = if is_calm { Self::ANY_TO_ANY | Self::ANY_TO_CALM } else { Self::ANY_TO_ANY };
        Self(match safety {
            Safety::Always => any | calm,
            Safety::WhenCalm => calm,
            Safety::Unknown => 0,
        })
    }

    fn has(self, way: u8) -> bool {
        self.0 & way != 0
    }

    pub(super) fn then(self, next: Self) -> Self {
        let via = |to_any, to_calm| {
            let mut after = 0;
            if self.has(to_any) {
                after |= next.0 & 0b11;
            }
            if self.has(to_calm) {
                after |= next.0 >> 2;
            }
            after
        };
        let (any, calm) =
            (via(Self::ANY_TO_ANY, Self::ANY_TO_CALM), via(Self::CALM_TO_ANY, Self::CALM_TO_CALM));
        Self(any | calm << 2)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `rest` may follow a text whose last byte is calm, or any.
    pub(super) fn leads(ends_calm: EndsCalm, rest: Self) -> bool {
        rest.has(if ends_calm { Self::CALM_TO_ANY } else { Self::ANY_TO_ANY })
    }

    /// Whether the end of the output follows after any byte, or after a calm one.
    pub(super) fn safety(self) -> Safety {
        match self {
            _ if self.has(Self::ANY_TO_ANY) => Safety::Always,
            _ if self.has(Self::CALM_TO_ANY) => Safety::WhenCalm,
            _ => Safety::Unknown,
        }
    }
}

/// The rest of a rule, from a position to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rest {
    pub(super) ways: Ways,
    /// The number of bytes, at least.
    pub(super) bytes: u32,
}

impl Rest {
    const NOTHING: Self = Self { ways: Ways::EMPTY, bytes: 0 };
    const UNKNOWN: Self = Self { ways: Ways::NONE, bytes: FAR };

    fn is_safe(self) -> bool {
        self.ways.has(Ways::ANY_TO_ANY)
    }

    fn then(self, next: Self) -> Self {
        Self { ways: self.ways.then(next.ways), bytes: (self.bytes + next.bytes).min(FAR) }
    }

    fn or(self, other: Self) -> Self {
        Self { ways: self.ways.or(other.ways), bytes: self.bytes.min(other.bytes) }
    }
}

/// The facts of a terminal.
#[derive(Debug)]
pub(super) enum TerminalFacts {
    /// By number of bytes read.
    Literal(Box<[Safety]>, EndsCalm),
    Text(Arc<TextPart>, EndsCalm),
    Counted(Arc<TextPart>, EndsCalm, CountedFacts),
    /// A token that is read by its id, or a set of them.
    Id {
        is_safe: bool,
    },
    /// The end of the output, or a terminal that no rule has.
    Nothing,
}

/// Whether each last byte of a terminal is calm: not the last but one of an added token.
type EndsCalm = bool;

/// The facts of an automaton whose units are counted.
#[derive(Debug)]
pub(super) struct CountedFacts {
    /// By state of the automaton: whether ordinary text leads to an end with no more units than it takes.
    safe: Box<[bool]>,
    /// Whether these are the states that are safe without a count.
    pub(super) is_as_uncounted: bool,
    /// Whether a unit is ordinary text, so that more of them may be written where too few are.
    has_more: bool,
    /// The automaton where too few units are written, so that no text ends.
    pub(super) early: Option<Arc<TextPart>>,
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
            groups: Table::filled((Rest::UNKNOWN, false), rules.groups.len()),
            all_end: false,
            keys_are_many: true,
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
        let groups = facts.groups.entries().iter();
        facts.all_end = facts.rest.entries().iter().all(|rest| rest.is_safe())
            && groups.copied().all(|(start, is_safe_inside)| start.is_safe() && is_safe_inside);
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
            let ends_calm = text.last().is_some_and(|byte| index.is_calm(*byte));
            return Ok(TerminalFacts::Literal(safety.into(), ends_calm));
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
                // A key may be used already, which is one more text that is left out.
                let allowed = if scan.except.is_some() { Allowed::AllButSome } else { Allowed::All };
                let part = index.part(scan.dfa, allowed).ok_or(CanonicalError::NotUtf8)?;
                let ends_calm = scan.dfa.last_bytes().iter().all(|byte| index.is_calm(byte));
                self.keys_are_many &=
                    !terminals.is_distinct(terminal) || part.safety(scan.dfa.start()) == Safety::Always;
                match scan.count {
                    None => TerminalFacts::Text(part, ends_calm),
                    Some(count) => {
                        let unit = index.part(count.unit(), Allowed::All).ok_or(CanonicalError::NotUtf8)?;
                        let facts = CountedFacts::new(count, &part, &unit, index);
                        TerminalFacts::Counted(part, ends_calm, facts)
                    }
                }
            }
        })
    }

    /// Finds the rests of all positions and groups. A position or group that changes is followed by those that lead
    /// to it.
    fn find_rests(&mut self, rules: &Rules, terminals: &Terminals) {
        let groups: HashMap<Position, GroupId> =
            rules.groups.iter().map(|(id, group)| (group.start(), id)).collect();
        let of_terminal: Table<ScanTerminal, Rest> = (0..self.terminals.len())
            .map(|terminal| self.whole(terminals, ScanTerminal::from_index(terminal)))
            .collect();
        // Positions, and then groups.
        let len = rules.len();
        let node = |position: Position| match groups.get(&position) {
            Some(group) => len + group.index(),
            None => position.index(),
        };
        let start = |rule: RuleId| node(rules.start(rule));
        let mut leading: Vec<Vec<usize>> = vec![Vec::new(); len + rules.groups.len()];
        for position in (1..len).map(Position::from_index) {
            let after_terminals = rules.terminals(position).iter().map(|(_, after)| after.index());
            let of_calls = rules.calls(position).iter();
            let calls = of_calls.flat_map(|(callee, after)| [start(*callee), after.index()]);
            after_terminals.chain(calls).for_each(|next| leading[next].push(position.index()));
        }
        for (id, group) in rules.groups.iter() {
            let members = group.members.iter().map(|(member, _)| *member);
            members
                .chain(group.others)
                .chain(group.separator)
                .for_each(|rule| leading[start(rule)].push(len + id.index()));
        }
        self.rest[END] = Rest::NOTHING;
        // Later positions are mostly nearer to an end.
        let mut open: VecDeque<usize> = (1..leading.len()).rev().collect();
        let mut is_open = vec![true; leading.len()];
        // Beyond that only safety counts, which changes a few times for each.
        let mut left = LOOKS * leading.len();
        while let Some(at) = open.pop_front() {
            is_open[at] = false;
            left = left.saturating_sub(1);
            let of_rule = |facts: &Self, rule: RuleId| match start(rule).checked_sub(len) {
                Some(group) => facts.groups[GroupId::from_index(group)].0,
                None => facts.rest[rules.start(rule)],
            };
            let is_changed = if let Some(group) = at.checked_sub(len).map(GroupId::from_index) {
                let new = of_group(&rules.groups[group], |rule| of_rule(self, rule));
                let old = std::mem::replace(&mut self.groups[group], new);
                old.0.ways != new.0.ways || old.1 != new.1 || left > 0 && old.0.bytes != new.0.bytes
            } else {
                let position = Position::from_index(at);
                let mut rest = match rules.is_accepting(position) {
                    true => Rest::NOTHING,
                    false => Rest::UNKNOWN,
                };
                for (terminal, after) in rules.terminals(position) {
                    rest = rest.or(of_terminal[*terminal].then(self.rest[*after]));
                }
                for (callee, after) in rules.calls(position) {
                    rest = rest.or(of_rule(self, *callee).then(self.rest[*after]));
                }
                let old = std::mem::replace(&mut self.rest[position], rest);
                old.ways != rest.ways || left > 0 && old.bytes != rest.bytes
            };
            if is_changed {
                for before in &leading[at] {
                    if !std::mem::replace(&mut is_open[*before], true) {
                        open.push_back(*before);
                    }
                }
            }
        }
    }

    /// A whole text of `terminal`.
    fn whole(&self, terminals: &Terminals, terminal: ScanTerminal) -> Rest {
        match &self.terminals[terminal] {
            TerminalFacts::Literal(safety, ends_calm) => {
                let bytes = u32::try_from(terminals.literal_len(terminal)).unwrap_or(FAR);
                Rest { ways: Ways::of(safety[0], *ends_calm), bytes }
            }
            TerminalFacts::Text(part, ends_calm) | TerminalFacts::Counted(part, ends_calm, _) => {
                let scan = terminals.scan(terminal).expect("it is text");
                let start = scan.start();
                let safety = self.safety(terminal, scan, start);
                // The way may be the empty text.
                let ways = match scan.dfa.is_accepting(scan.dfa.start()) {
                    true => Ways::of(safety, false).or(Ways::EMPTY),
                    false => Ways::of(safety, *ends_calm),
                };
                Rest { ways, bytes: part.to_end(scan.at(start)).min(FAR) }
            }
            TerminalFacts::Id { is_safe: true } => Rest { ways: Ways::of(Safety::Always, true), bytes: 1 },
            TerminalFacts::Id { is_safe: false } => Rest { bytes: 1, ..Rest::UNKNOWN },
            TerminalFacts::Nothing => Rest::NOTHING,
        }
    }

    /// The ways from a state of `terminal`, no literal, to its end, whatever keys are used.
    #[inline]
    pub(super) fn ways(&self, terminal: ScanTerminal, scan: Scan<'_>, state: ScanState) -> Ways {
        let ends_calm = match &self.terminals[terminal] {
            TerminalFacts::Text(_, ends_calm) | TerminalFacts::Counted(_, ends_calm, _) => *ends_calm,
            _ => false,
        };
        Ways::of(self.safety(terminal, scan, state), ends_calm)
    }

    /// In bytes, without the parts that grammars share.
    pub(super) fn memory_usage(&self) -> usize {
        let of_terminal = |facts: &TerminalFacts| match facts {
            TerminalFacts::Literal(safety, _) => size_of_val(&safety[..]),
            TerminalFacts::Counted(_, _, facts) => size_of_val(&facts.safe[..]),
            _ => 0,
        };
        self.terminals.memory_usage()
            + self.terminals.entries().iter().map(of_terminal).sum::<usize>()
            + self.rest.memory_usage()
            + self.groups.memory_usage()
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
            TerminalFacts::Text(part, _) => part.safety(scan.at(state)),
            TerminalFacts::Counted(_, _, facts) => match scan.count {
                Some(count) if facts.is_safe(count, state) => Safety::Always,
                _ => Safety::Unknown,
            },
            _ => Safety::Unknown,
        }
    }

    /// The rest of a rule behind `position`. `groups` are the states of groups of the parser that has the position.
    #[inline]
    pub(super) fn rest(&self, rules: &Rules, groups: &GroupStates, position: Position) -> Rest {
        if !is_of_group(position) {
            return self.rest[position];
        }
        let group = groups.group(position);
        let (start, is_safe_inside) = self.groups[group];
        let (missing, is_start) = groups.missing(&rules.groups, position);
        if is_start {
            return start;
        }
        let required = rules.groups[group].members.iter().filter(|(_, is_required)| *is_required).count();
        let each = start.bytes.div_ceil(u32::try_from(required.max(1)).unwrap_or(FAR));
        let ways = if is_safe_inside { start.ways } else { Ways::NONE };
        Rest { ways, bytes: missing.saturating_mul(each).min(start.bytes) }
    }
}

/// The rest of a group at its start, for the members that have to come, with separators. And whether each of its
/// members is safe.
fn of_group(group: &UnorderedGroup, of_rule: impl Fn(RuleId) -> Rest) -> (Rest, bool) {
    let separator = group.separator.map_or(Rest::NOTHING, &of_rule);
    let others = group.others.map(&of_rule);
    let members: Vec<Rest> = group.members.iter().map(|(member, _)| of_rule(*member)).collect();
    let by = |way: u8| {
        let has = |rest: Rest| rest.ways.has(way);
        separator.is_safe() && group.has_way(|member| has(members[member]), others.is_some_and(has))
    };
    let mut ways = Ways::NONE;
    if by(Ways::ANY_TO_ANY) {
        ways = ways.or(Ways(Ways::ANY_TO_ANY | Ways::CALM_TO_ANY));
    }
    if by(Ways::ANY_TO_CALM) {
        // If no member comes, the byte before is the last one.
        let has_member = group.min > 0 || group.members.iter().any(|(_, is_required)| *is_required);
        ways = ways.or(Ways(Ways::CALM_TO_CALM | if has_member { Ways::ANY_TO_CALM } else { 0 }));
    }
    let mut start = Rest { ways, bytes: 0 };
    for (member, _) in members.iter().zip(&group.members).filter(|(_, (_, is_required))| *is_required) {
        start.bytes = (start.bytes + member.bytes + separator.bytes).min(FAR);
    }
    // From inside, the byte before is that of a member, and whatever comes leads to what the start leads to.
    let is_fine =
        |rest: Rest| rest.is_safe() && rest.ways.has(Ways::ANY_TO_CALM) >= start.ways.has(Ways::CALM_TO_CALM);
    let is_safe_inside =
        separator.is_safe() && others.is_none_or(is_fine) && members.iter().copied().all(is_fine);
    (start, is_safe_inside)
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
                if !safe[state.index()] && bytes.iter().any(|byte| dfa.step(state, *byte).is_some_and(leads))
                {
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
        let early = (min > 0 && has_more).then(|| {
            let kept = dfa.states().map(|state| !count.is_last(state)).collect();
            index.part(count.dfa(), Allowed::Later(kept))
        });
        Self { safe, is_as_uncounted, has_more, early: early.flatten() }
    }

    #[inline]
    fn is_safe(&self, count: &CountedUnits, state: ScanState) -> bool {
        self.safe[count.at(state).index()] && (self.has_more || count.has_enough(state))
    }
}
