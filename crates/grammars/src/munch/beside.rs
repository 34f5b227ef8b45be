//! Computes which terminals may be read beside which: the terminals that the parser allows where another one begins.
//!
//! A **thread** is one reading of a text: a position, and the calls around it. Maximal munch cuts a text in one way
//! only, so all threads of a text have ended their last terminal together. This module finds threads that may be open
//! after the same text, as a least fixpoint over pairs of positions. The result is a superset: pairs overestimate
//! larger sets, and a position does not record the calls around it, so a rule that ends may return to any caller.
//!
//! Two facts are recorded with each pair. Without them, all rules that call `expr` would follow it in parallel:
//!
//! - Whether two threads are **in one call**. Then they return to one set of callers, and these were called
//!   from positions that were open together.
//! - The order of the steps between two terminals: first returns, then calls. If one thread returns and the
//!   other stays in its rule, the other is *held* until both have read a terminal. Otherwise it could return
//!   separately to any caller.
//!
//! Tried instead: with each pair, the lowest call known to enclose both, so that two readings of a statement
//! stay in it. It took twenty times as long and accepted no further grammar: expressions call themselves, and
//! each contains every other.
//!
//! A nullable rule is also skipped, so that no call is left by a return before a terminal was read.

use hashbrown::{HashMap, HashSet};

use super::{Budget, ENTRY, scanned::Scanned};
use crate::{
    GrammarError,
    grammar::data::RuleId,
    ids::{Id, Table},
    network::{
        rules::{END, Position, Rules},
        terminals::ScanTerminal,
    },
};

/// The relation between the two threads of a pair, as one bit, so that all relations of a pair are one number.
type Mode = u16;

/// Both may return; they are in one call.
const SAME: Mode = 1;
/// Both may return, each separately.
const APART: Mode = 2;
/// The first may return, the second is held.
const SECOND_HELD: Mode = 4;
/// The second may return, the first is held.
const FIRST_HELD: Mode = 8;
/// Neither returns any more; they are in one call.
const SAME_HELD: Mode = 16;
/// As [`SAME_HELD`], and the call was made after the last terminal.
const SAME_CALLED: Mode = 32;
/// Neither returns any more, and they are not in one call. There are four such modes, `APART_HELD << n`: bit 0
/// of `n` is set if the first thread is in a call made after the last terminal, and bit 1 if the second one is.
const APART_HELD: Mode = 64;

/// The mode of two threads that do not return and are not in one call.
fn apart_held(called: (bool, bool)) -> Mode {
    APART_HELD << (u16::from(called.0) + 2 * u16::from(called.1))
}

/// For each of the two threads: whether it is in a call made after the last terminal.
fn called(mode: Mode) -> (bool, bool) {
    match mode {
        SAME_CALLED => (true, true),
        mode if mode >= APART_HELD => {
            let which = (mode / APART_HELD).trailing_zeros();
            (which & 1 == 1, which & 2 == 2)
        }
        _ => (false, false),
    }
}

/// The rules of positions, and the callers of rules.
#[derive(Debug)]
pub(super) struct Layout {
    /// By position: its rule. [`END`] has none.
    rule_of: Table<Position, Option<RuleId>>,
    /// By rule: its calls, each with the position after it.
    pub(super) callers: Table<RuleId, Vec<(Position, Position)>>,
    /// By rule: whether it is nullable.
    pub(super) nullable: Table<RuleId, bool>,
}

impl Layout {
    /// `nullable`: by rule, whether it is nullable.
    pub(super) fn new(rules: &Rules, nullable: Table<RuleId, bool>) -> Self {
        let count = nullable.len();
        let mut starts: Vec<(Position, RuleId)> = nullable
            .iter()
            .map(|(rule, _)| rule)
            .filter(|rule| rules.is_reached(*rule))
            .map(|rule| (rules.start(rule), rule))
            .collect();
        starts.sort_unstable();
        let mut layout = Self {
            rule_of: Table::filled(rules.len(), None),
            callers: Table::filled(count, Vec::new()),
            nullable,
        };
        for (index, (start, rule)) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(rules.len(), |(next, _)| next.index());
            let positions = (start.index()..end).map(Position::from_index);
            positions.for_each(|position| layout.rule_of[position] = Some(*rule));
        }
        for position in (0..rules.len()).map(Position::from_index) {
            for (callee, to) in rules.calls(position) {
                layout.callers[*callee].push((position, *to));
            }
        }
        layout
    }

    /// The rule of `position`, if it is not [`END`].
    pub(super) fn rule_of(&self, position: Position) -> Option<RuleId> {
        self.rule_of[position]
    }

    /// The callers of the rule of `position`.
    pub(super) fn callers_around(&self, position: Position) -> &[(Position, Position)] {
        self.rule_of(position).map_or(&[], |rule| &self.callers[rule])
    }
}

/// By position: the terminals that may begin together with those of the position, as a bit set.
pub(super) struct Beside {
    words: usize,
    sets: Vec<u64>,
}

impl Beside {
    /// Computes the sets for a grammar with the start rule `start`.
    pub(super) fn new(
        rules: &Rules,
        layout: &Layout,
        scanned: &mut Scanned<'_>,
        start: RuleId,
        budget: &mut Budget,
    ) -> Result<Self, GrammarError> {
        let mut pairs = Pairs {
            rules,
            layout,
            modes: HashMap::new(),
            open: Vec::new(),
            calls: HashSet::new(),
            returns: Table::filled(layout.callers.len(), Vec::new()),
            ended: Table::filled(layout.callers.len(), false),
        };
        pairs.add(rules.start(start), rules.start(start), SAME, budget)?;
        while let Some((first, second, mode)) = pairs.open.pop() {
            pairs.step(first, second, mode, scanned, budget)?;
        }
        let words = scanned.len().div_ceil(64);
        budget.spend((words * rules.len()) as u64 * 8)?;
        let mut beside = Self { words, sets: vec![0; words * rules.len()] };
        for (first, second) in pairs.modes.keys() {
            for (position, other) in [(*first, *second), (*second, *first)] {
                let terminals = rules.terminals(other);
                budget.spend(terminals.len() as u64)?;
                if rules.terminals(position).is_empty() {
                    continue;
                }
                let set = &mut beside.sets[position.index() * words..][..words];
                terminals.iter().for_each(|(terminal, _)| {
                    set[terminal.index() / 64] |= 1 << (terminal.index() % 64);
                });
            }
        }
        Ok(beside)
    }

    /// The terminals that may begin together with those of `position`, in ascending order.
    pub(super) fn of(&self, position: Position) -> impl Iterator<Item = ScanTerminal> {
        let set = &self.sets[position.index() * self.words..][..self.words];
        set.iter().zip(0u32..).flat_map(|(word, at)| {
            let (mut rest, base) = (*word, at * 64);
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(ScanTerminal::of(base + bit))
            })
        })
    }
}

struct Pairs<'a> {
    rules: &'a Rules,
    layout: &'a Layout,
    /// By pair, the lower position first: the set of its modes.
    modes: HashMap<(Position, Position), Mode>,
    open: Vec<(Position, Position, Mode)>,
    /// Rules that two threads called together, with the positions of the calls and the mode.
    calls: HashSet<(RuleId, Position, Position, Mode)>,
    /// By rule: the pairs that two threads in one call of it reach if both return.
    returns: Table<RuleId, Vec<(Position, Position, Mode)>>,
    /// By rule: whether two threads in one call of it may end together.
    ended: Table<RuleId, bool>,
}

impl Pairs<'_> {
    fn add(
        &mut self,
        first: Position,
        second: Position,
        mode: Mode,
        budget: &mut Budget,
    ) -> Result<(), GrammarError> {
        if first == END || second == END {
            return Ok(());
        }
        let (pair, mode) = match first <= second {
            true => ((first, second), mode),
            false => ((second, first), turned(mode)),
        };
        let modes = self.modes.entry(pair).or_insert(0);
        if *modes == 0 {
            budget.spend(ENTRY)?;
        }
        if *modes & mode == 0 {
            *modes |= mode;
            self.open.push((pair.0, pair.1, mode));
        }
        Ok(())
    }

    fn step(
        &mut self,
        first: Position,
        second: Position,
        mode: Mode,
        scanned: &mut Scanned<'_>,
        budget: &mut Budget,
    ) -> Result<(), GrammarError> {
        let (rules, layout) = (self.rules, self.layout);
        budget.spend(1 + (rules.calls(first).len() + rules.calls(second).len()) as u64)?;
        // Nullable rules are skipped.
        for (_, to) in rules.calls(first).iter().filter(|(callee, _)| layout.nullable[*callee]) {
            self.add(*to, second, mode, budget)?;
        }
        for (_, to) in rules.calls(second).iter().filter(|(callee, _)| layout.nullable[*callee]) {
            self.add(first, *to, mode, budget)?;
        }
        match mode {
            SAME => {
                self.add(first, second, SAME_HELD, budget)?;
                if let Some(rule) = layout.rule_of(first)
                    && rules.is_accepting(first)
                    && rules.is_accepting(second)
                    && !std::mem::replace(&mut self.ended[rule], true)
                {
                    for at in 0..self.returns[rule].len() {
                        let (first, second, mode) = self.returns[rule][at];
                        self.add(first, second, mode, budget)?;
                    }
                }
                self.leave(first, second, (SECOND_HELD, FIRST_HELD), budget)
            }
            APART => {
                self.add(first, second, apart_held((false, false)), budget)?;
                self.leave(first, second, (APART, APART), budget)
            }
            SECOND_HELD => {
                self.add(first, second, apart_held((false, false)), budget)?;
                self.leave(first, second, (SECOND_HELD, 0), budget)
            }
            FIRST_HELD => {
                self.add(first, second, apart_held((false, false)), budget)?;
                self.leave(first, second, (0, FIRST_HELD), budget)
            }
            _ => {
                self.call(first, second, mode, budget)?;
                let mode = if mode == SAME_HELD || mode == SAME_CALLED { SAME } else { APART };
                self.read(first, second, mode, scanned, budget)
            }
        }
    }

    /// One thread returns to any caller: the first one into a pair of the mode `as_first`, the second one
    /// into a pair of the mode `as_second`. A thread with mode 0 does not return.
    fn leave(
        &mut self,
        first: Position,
        second: Position,
        (as_first, as_second): (Mode, Mode),
        budget: &mut Budget,
    ) -> Result<(), GrammarError> {
        let (rules, layout) = (self.rules, self.layout);
        if as_first != 0 && rules.is_accepting(first) {
            let callers = layout.callers_around(first);
            budget.spend(callers.len() as u64)?;
            for (_, back) in callers {
                self.add(*back, second, as_first, budget)?;
            }
        }
        if as_second != 0 && rules.is_accepting(second) {
            let callers = layout.callers_around(second);
            budget.spend(callers.len() as u64)?;
            for (_, back) in callers {
                self.add(first, *back, as_second, budget)?;
            }
        }
        Ok(())
    }

    /// One thread calls a rule, or both call the same rule. Two calls of a rule from one position are one call.
    fn call(
        &mut self,
        first: Position,
        second: Position,
        mode: Mode,
        budget: &mut Budget,
    ) -> Result<(), GrammarError> {
        let rules = self.rules;
        let called = called(mode);
        for (callee, _) in rules.calls(first) {
            // If the other thread is already at the start of the rule, it called the rule from the same position.
            if rules.start(*callee) != second || !called.1 {
                self.add(rules.start(*callee), second, apart_held((true, called.1)), budget)?;
            }
        }
        for (callee, _) in rules.calls(second) {
            if rules.start(*callee) != first || !called.0 {
                self.add(first, rules.start(*callee), apart_held((called.0, true)), budget)?;
            }
        }
        let (left, right) = (rules.calls(first), rules.calls(second));
        let mode = if mode == SAME_HELD || mode == SAME_CALLED { SAME } else { APART };
        for (callee, left) in left {
            let Ok(found) = right.binary_search_by_key(callee, |(callee, _)| *callee) else { continue };
            let right = right[found].1;
            if self.calls.insert((*callee, first, second, mode)) {
                budget.spend(ENTRY)?;
                self.returns[*callee].push((*left, right, mode));
                if self.ended[*callee] {
                    self.add(*left, right, mode, budget)?;
                }
                self.add(rules.start(*callee), rules.start(*callee), SAME_CALLED, budget)?;
            }
        }
        Ok(())
    }

    /// Both threads read a terminal, if the two terminals have a common text.
    fn read(
        &mut self,
        first: Position,
        second: Position,
        mode: Mode,
        scanned: &mut Scanned<'_>,
        budget: &mut Budget,
    ) -> Result<(), GrammarError> {
        let (left, right) = (self.rules.terminals(first), self.rules.terminals(second));
        let terminals = scanned.terminals;
        let others = (terminals.others(left), terminals.others(right));
        let literals = (terminals.literals(left), terminals.literals(right));
        budget.spend(
            (left.len().min(right.len()) + others.0.len() * right.len() + others.1.len() * left.len()) as u64,
        )?;
        // Two literals have a common text only if they are equal.
        let (few, many, is_first) = match literals.0.len() <= literals.1.len() {
            true => (literals.0, literals.1, true),
            false => (literals.1, literals.0, false),
        };
        for (terminal, to) in few {
            if let Ok(found) = many.binary_search_by_key(terminal, |(other, _)| *other) {
                let (first, second) = if is_first { (*to, many[found].1) } else { (many[found].1, *to) };
                self.add(first, second, mode, budget)?;
            }
        }
        for (terminal, to) in others.0 {
            for (other, other_to) in right {
                if scanned.together(*terminal, *other, budget)? {
                    self.add(*to, *other_to, mode, budget)?;
                }
            }
        }
        for (other, other_to) in others.1 {
            for (terminal, to) in literals.0 {
                if scanned.together(*terminal, *other, budget)? {
                    self.add(*to, *other_to, mode, budget)?;
                }
            }
        }
        Ok(())
    }
}

/// The mode of the pair with its threads exchanged.
fn turned(mode: Mode) -> Mode {
    match mode {
        FIRST_HELD => SECOND_HELD,
        SECOND_HELD => FIRST_HELD,
        mode if mode >= APART_HELD => {
            let (first, second) = called(mode);
            apart_held((second, first))
        }
        mode => mode,
    }
}
