//! A regular language whose texts have a bounded number of units between two marks: strings of 1 to 500 characters,
//! each of which has several spellings, with a pattern or without one.
//!
//! As an automaton, this language has a copy of the unit, or of the pattern, for each number of units: 5,000
//! characters of `(\S+\s+){0,99}\S+` are half a million states. As a repetition of a terminal, each character would
//! be a terminal of its own, and a token would cross many. So the language is kept as the automaton without bounds
//! and a count. A state is a state of the automaton with the number of units so far. It exists only if the text can
//! still end within the bounds: each state of the automaton knows the fewest units to an end, and whether no unit
//! follows.
//!
//! A token raises the number of units so far plus the fewest units to an end, which is its **cost**, and never lowers
//! it. So the tokens of a state are those of the automaton, up to a cost; they are sorted by it once
//! (`trees/by_count.rs` of `unskew-grammars`), and far from the bounds the trees are those of the automaton.
//!
//! Tried instead: two kinds of terminals, a repetition of the unit and the texts of a pattern up to a length. The
//! first is the second where the pattern is any number of units, and had trees, bounds and states of its own.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashSet;
use unskew_automata::{
    Dfa, Limits, RegexError, StateId,
    dfa::{DfaAlgebra, DfaBuilder},
};
use unskew_core::ids::{Id, number as id};

use super::ScanState;
use crate::terminal::COUNTS;

/// An automaton whose texts are units between two marks.
#[derive(PartialEq, Eq, Debug)]
pub struct Units {
    open: Box<[u8]>,
    unit: Arc<Dfa>,
    close: Box<[u8]>,
    /// Whether the automaton has each text of units between the marks.
    is_all: bool,
    dfa: Arc<Dfa>,
    states: Arc<[UnitState]>,
    /// The greatest number of the fewest units to an end, of all states.
    greatest: u32,
    /// 2^64 over the number of states, rounded up: a walk divides by that number for each byte, and to multiply is
    /// faster. It is exact for numbers of 32 bits (Lemire, Kaser and Kurz 2019).
    reciprocal: u64,
}

/// What a state of the automaton knows of units. The opening mark counts as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnitState {
    /// Whether a unit, or the opening mark, ends where the state is entered.
    ends: bool,
    /// Whether no unit ends after it.
    is_last: bool,
    /// The fewest units to an end.
    fewest: u32,
}

/// The texts of an automaton with a bounded number of units between two marks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedUnits {
    units: Arc<Units>,
    /// The least number of units.
    min: u32,
    /// The greatest number of units.
    max: Option<u32>,
}

/// The least and the greatest cost of what follows in a state, as far as a token can tell them apart: `(0, None)` is
/// no bound.
pub type Bounds = (u32, Option<u32>);

/// No bounds.
pub const FREE: Bounds = (0, None);

impl std::hash::Hash for CountedUnits {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // Equal values hash equal numbers of states. Hashing the automata themselves would be slow.
        let Units { open, unit, close, dfa, .. } = &*self.units;
        (open, close, unit.len(), dfa.len(), self.min, self.max).hash(state);
    }
}

/// The place in a text between the marks, or at one of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// After this many bytes of the opening mark, before its end.
    Open(usize),
    Unit(StateId),
    Closed,
}

impl Units {
    /// Any number of units.
    ///
    /// # Errors
    ///
    /// The violated condition, in words.
    pub(crate) fn all(open: &[u8], unit: &Arc<Dfa>, close: &[u8]) -> Result<Self, &'static str> {
        if close.is_empty() {
            return Err("there is no closing mark");
        }
        check(unit, close)?;
        let dfa = Arc::new(any_number(open, unit, close));
        // All units lead to one state.
        let between = dfa.run(dfa.start(), open);
        let ends: Vec<bool> = dfa.states().map(|state| Some(state) == between).collect();
        Ok(Self::new(open, unit, close, dfa, &ends, true))
    }

    /// The texts of `dfa`, which are units between `open` and `close`. Without `close`, no text goes on where one
    /// ends.
    ///
    /// # Errors
    ///
    /// The violated condition, in words.
    pub(crate) fn of(
        dfa: &Arc<Dfa>,
        open: &[u8],
        unit: &Arc<Dfa>,
        close: Option<u8>,
    ) -> Result<Self, &'static str> {
        if open.is_empty() {
            return Err("there is no opening mark");
        }
        check(unit, close.as_slice())?;
        let ends = ends(dfa, open, unit, close)?;
        Ok(Self::new(open, unit, close.as_slice(), Arc::clone(dfa), &ends, false))
    }

    fn new(open: &[u8], unit: &Arc<Dfa>, close: &[u8], dfa: Arc<Dfa>, ends: &[bool], is_all: bool) -> Self {
        let states = states(&dfa, ends);
        let greatest = states.iter().map(|state| state.fewest).max().unwrap_or(0);
        // There are two states at least, because a mark has a byte.
        let reciprocal = u64::MAX / dfa.len() as u64 + 1;
        let (open, unit, close) = (open.into(), Arc::clone(unit), close.into());
        Self { open, unit, close, is_all, dfa, states, greatest, reciprocal }
    }

    /// Whether these are any number of texts of `unit` between the marks.
    pub(crate) fn are(&self, open: &[u8], unit: &Arc<Dfa>, close: &[u8]) -> bool {
        self.is_all && (&*self.open, &*self.close) == (open, close) && Arc::ptr_eq(&self.unit, unit)
    }

    /// The units that end in `text`, read from `at` on as far as it is read, plus the fewest units to an end after
    /// it: its cost; and whether no unit ends after it. `single` are the bytes that are units and lead back to `at`.
    #[inline]
    pub fn cost(&self, at: StateId, text: &[u8], single: &[bool; 256]) -> (u32, bool) {
        let (mut count, mut state) = (0, at);
        for byte in text {
            if state == at && single[usize::from(*byte)] {
                count += 1;
                continue;
            }
            let Some(next) = self.dfa.step(state, *byte) else { break };
            state = next;
            count += u32::from(self.states[state.index()].ends);
        }
        let UnitState { fewest, is_last, .. } = self.states[state.index()];
        (count + fewest, is_last)
    }

    /// The units that end in `text`, read from `at` on, all of it; and the fewest to an end after it.
    #[doc(hidden)]
    pub fn ended(&self, at: StateId, text: &[u8]) -> (u32, u32) {
        let (mut count, mut state) = (0, at);
        for byte in text {
            let Some(next) = self.dfa.step(state, *byte) else { return (count, u32::MAX) };
            state = next;
            count += u32::from(self.states[state.index()].ends);
        }
        (count, self.states[state.index()].fewest)
    }

    /// The greatest number of the fewest units to an end, of all states.
    #[doc(hidden)]
    pub fn greatest(&self) -> u32 {
        self.greatest
    }

    /// The closing mark; empty where no text goes on where one ends.
    #[doc(hidden)]
    pub fn close(&self) -> &[u8] {
        &self.close
    }

    /// The automaton of the texts.
    pub fn dfa(&self) -> &Dfa {
        &self.dfa
    }

    /// Whether a unit ends where the state is entered.
    pub fn ends(&self, state: StateId) -> bool {
        self.states[state.index()].ends
    }

    /// The bytes that are units and lead back to `at`.
    pub fn single(&self, at: StateId) -> [bool; 256] {
        let ends = self.states[at.index()].ends;
        std::array::from_fn(|byte| ends && self.dfa.step(at, byte as u8) == Some(at))
    }
}

impl CountedUnits {
    /// # Errors
    ///
    /// The violated condition, in words.
    pub(crate) fn new(units: Arc<Units>, min: u32, max: Option<u32>) -> Result<Self, &'static str> {
        debug_assert!(units.is_all || min == 0, "an automaton may have gaps between its numbers of units");
        if max.is_some_and(|max| max < min) {
            return Err("the greatest number is less than the least");
        }
        // One more for the opening mark, and the numbers up to it with that of no units.
        let counts = u64::from(max.unwrap_or(min)) + 2;
        if counts * units.dfa.len() as u64 >= u64::from(u32::MAX) {
            return Err("it is counted too far");
        }
        let made = Self { units, min, max };
        let (count, at) = made.parts(made.start());
        if count + made.units.states[at.index()].fewest > made.most() {
            return Err("every text is longer");
        }
        Ok(made)
    }

    /// The automaton of the texts with any number of units.
    #[inline]
    pub fn dfa(&self) -> &Arc<Dfa> {
        &self.units.dfa
    }

    /// Whether that automaton has all texts of units between the marks.
    pub fn is_all(&self) -> bool {
        self.units.is_all
    }

    /// The automaton of a unit.
    pub fn unit(&self) -> &Arc<Dfa> {
        &self.units.unit
    }

    /// The opening and the closing mark.
    pub fn marks(&self) -> (&[u8], &[u8]) {
        (&self.units.open, &self.units.close)
    }

    /// The least and the greatest number of units.
    pub fn bounds(&self) -> (u32, Option<u32>) {
        (self.min, self.max)
    }

    /// The automaton and its units, without bounds.
    #[doc(hidden)]
    #[inline]
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// What the states of the automaton know of units.
    #[doc(hidden)]
    #[inline]
    pub fn unit_states(&self) -> &Arc<[UnitState]> {
        &self.units.states
    }

    /// The memory in bytes, without the automata.
    #[doc(hidden)]
    pub fn memory_usage(&self) -> usize {
        let Units { open, close, states, .. } = &*self.units;
        size_of::<Self>()
            + size_of::<Units>()
            + open.len()
            + close.len()
            + size_of_val(&**states)
            + 3 * COUNTS
    }

    /// The automaton of the language, within the limits of `builder`.
    #[doc(hidden)]
    pub fn made(&self, builder: &mut DfaAlgebra) -> Result<Dfa, RegexError> {
        let Units { open, unit, close, is_all, dfa, .. } = &*self.units;
        let mut parts = Vec::new();
        if !open.is_empty() {
            parts.push(builder.literals([open])?);
        }
        if self.max != Some(0) {
            parts.push(builder.repetition(unit, self.min, self.max)?);
        }
        if !close.is_empty() {
            parts.push(builder.literals([close])?);
        }
        let short = builder.concatenation(&parts)?;
        if *is_all { Ok(short) } else { builder.intersection(dfa, &short) }
    }

    /// The state before a text. Where there is no opening mark, it is as if it were read.
    #[doc(hidden)]
    #[inline]
    pub fn start(&self) -> ScanState {
        self.state(u32::from(self.units.open.is_empty()), self.units.dfa.start())
    }

    /// The state after `byte`, if a text goes on with it.
    #[doc(hidden)]
    #[inline]
    pub fn step(&self, state: ScanState, byte: u8) -> Option<ScanState> {
        let (mut count, at) = self.parts(state);
        let next = self.units.dfa.step(at, byte)?;
        let UnitState { ends, is_last, fewest } = self.units.states[next.index()];
        count += u32::from(ends);
        match self.max {
            Some(_) if count + fewest > self.most() => return None,
            // More make no difference.
            None => count = count.min(self.min + 1),
            Some(_) => {}
        }
        (!is_last || count > self.min).then(|| self.state(count, next))
    }

    /// The state of the automaton at `state`.
    #[doc(hidden)]
    #[inline]
    pub fn at(&self, state: ScanState) -> StateId {
        self.parts(state).1
    }

    /// Whether a step from one state of the automaton to another is one of those that take the fewest units to an
    /// end.
    #[doc(hidden)]
    pub fn is_nearest(&self, from: StateId, to: StateId) -> bool {
        let [from, to] = [from, to].map(|state| self.units.states[state.index()]);
        from.fewest == u32::from(to.ends) + to.fewest
    }

    /// Whether no unit ends after the state of the automaton.
    #[doc(hidden)]
    pub fn is_last(&self, state: StateId) -> bool {
        self.units.states[state.index()].is_last
    }

    /// Whether the least number of units was read.
    #[doc(hidden)]
    #[inline]
    pub fn has_enough(&self, state: ScanState) -> bool {
        self.min == 0 || self.parts(state).0 > self.min
    }

    /// The bounds on the cost of what follows in `state`. `longest` is a length of tokens; where none as long can
    /// pass a bound, there is none.
    #[doc(hidden)]
    #[inline]
    pub fn left(&self, state: ScanState, longest: u32) -> Bounds {
        let (count, _) = self.parts(state);
        // A text without units has its opening mark.
        let least = if self.min == 0 { 0 } else { self.min + 1 };
        let min = least.saturating_sub(count).min(longest.saturating_add(1));
        let far = longest.saturating_add(self.units.greatest);
        (min, self.max.map(|max| max + 1 - count).filter(|max| *max < far))
    }

    /// The greatest number of units, and one more for the opening mark.
    #[inline]
    fn most(&self) -> u32 {
        self.max.map_or(u32::MAX, |max| max + 1)
    }

    #[inline]
    fn parts(&self, state: ScanState) -> (u32, StateId) {
        let count = ((u128::from(state.raw()) * u128::from(self.units.reciprocal)) >> 64) as u32;
        (count, StateId::from_index((state.raw() - count * id(self.units.dfa.len())) as usize))
    }

    #[inline]
    fn state(&self, count: u32, at: StateId) -> ScanState {
        ScanState::of(count * id(self.units.dfa.len()) + id(at.index()))
    }
}

/// Checks that the ends of units show byte by byte.
fn check(unit: &Dfa, close: &[u8]) -> Result<(), &'static str> {
    /// The greatest number of states of a unit. The states of all bounds that a token can tell apart are a few
    /// hundred times as many.
    const MOST: usize = 256;
    if unit.is_accepting(unit.start()) {
        return Err("a unit may be empty");
    }
    if unit.states().any(|state| unit.is_accepting(state) && unit.edges(state).next().is_some()) {
        return Err("a unit may continue where it may end");
    }
    if unit.states().any(|state| unit.edges(state).any(|edge| edge.target == unit.start())) {
        return Err("a unit returns to its start state");
    }
    if close.first().is_some_and(|first| unit.step(unit.start(), *first).is_some()) {
        return Err("the closing mark begins like a unit");
    }
    if unit.len() > MOST { Err("a unit has more than 256 states") } else { Ok(()) }
}

/// The automaton of any number of units between two marks.
fn any_number(open: &[u8], unit: &Dfa, close: &[u8]) -> Dfa {
    let mut builder = DfaBuilder::new(&Limits::default().dfa_states(usize::MAX).dfa_bytes(usize::MAX));
    let (between, closed) = (id(open.len()), id(open.len() + unit.len()));
    let states = open.len() + unit.len() + close.len();
    for state in 0..states {
        builder.state(state + 1 == states).expect("no limits");
    }
    for (at, byte) in (0..).zip(open) {
        builder.edge(at, *byte..=*byte, at + 1);
    }
    // The start of a unit is the first of its states here.
    let start = unit.start().index();
    let inside = |state: StateId| match state.index() {
        at if at == start => between,
        at => between + id(if at < start { at + 1 } else { at }),
    };
    for state in unit.states() {
        for edge in unit.edges(state) {
            let is_end = unit.is_accepting(edge.target);
            builder.edge(inside(state), edge.bytes, if is_end { between } else { inside(edge.target) });
        }
    }
    for (at, byte) in (closed..).zip(close) {
        let from = if at == closed { between } else { at - 1 };
        builder.edge(from, *byte..=*byte, at);
    }
    builder.build().expect("the marks alone are a text")
}

/// By state: whether a unit or the opening mark ends where it is entered. Reads all texts side by side with the
/// units.
fn ends(dfa: &Dfa, open: &[u8], unit: &Dfa, close: Option<u8>) -> Result<Vec<bool>, &'static str> {
    let between = Place::Unit(unit.start());
    let mut ends: Vec<Option<bool>> = vec![None; dfa.len()];
    ends[dfa.start().index()] = Some(false);
    // By byte: the last one of those after it between which neither the unit nor the closing mark distinguishes.
    let mut runs = [u8::MAX; 256];
    for byte in (0..u8::MAX).rev() {
        let is_same = unit.classes().get(byte) == unit.classes().get(byte + 1);
        let is_apart = !is_same || close.is_some_and(|close| close == byte || close == byte + 1);
        runs[usize::from(byte)] = if is_apart { byte } else { runs[usize::from(byte + 1)] };
    }
    let mut seen: HashSet<(StateId, Place)> = HashSet::new();
    let mut todo = vec![(dfa.start(), Place::Open(0))];
    while let Some((state, place)) = todo.pop() {
        let is_end = match close {
            None => place == between && dfa.edges(state).next().is_none(),
            Some(_) => place == Place::Closed,
        };
        if dfa.is_accepting(state) != is_end {
            return Err("a text does not end with the closing mark, or goes on after it");
        }
        for edge in dfa.edges(state) {
            let mut last = None;
            let mut rest = Some(*edge.bytes.start());
            while let Some(byte) = rest {
                let run = if let Place::Unit(_) = place { runs[usize::from(byte)] } else { byte };
                rest = if run < *edge.bytes.end() { run.checked_add(1) } else { None };
                let next = match place {
                    Place::Open(at) if open[at] == byte && at + 1 == open.len() => between,
                    Place::Open(at) if open[at] == byte => Place::Open(at + 1),
                    Place::Unit(at) => match unit.step(at, byte) {
                        Some(next) if unit.is_accepting(next) => between,
                        Some(next) => Place::Unit(next),
                        None if at == unit.start() && close == Some(byte) => Place::Closed,
                        None => return Err("a text has something else than units between its marks"),
                    },
                    Place::Closed | Place::Open(_) => {
                        return Err("a text has something else around its marks");
                    }
                };
                if last == Some(next) {
                    continue;
                }
                last = Some(next);
                let is_end = next == between;
                if ends[edge.target.index()].is_some_and(|known| known != is_end) {
                    return Err("a state is inside of units and between them");
                }
                ends[edge.target.index()] = Some(is_end);
                if seen.insert((edge.target, next)) {
                    todo.push((edge.target, next));
                }
            }
        }
    }
    Ok(ends.into_iter().map(|end| end.unwrap_or(false)).collect())
}

/// What the states know of units, from where units end.
fn states(dfa: &Dfa, ends: &[bool]) -> Arc<[UnitState]> {
    let mut before: Vec<Vec<StateId>> = vec![vec![]; dfa.len()];
    for state in dfa.states() {
        for edge in dfa.edges(state) {
            if before[edge.target.index()].last() != Some(&state) {
                before[edge.target.index()].push(state);
            }
        }
    }
    let mut states: Vec<UnitState> =
        ends.iter().map(|ends| UnitState { ends: *ends, is_last: true, fewest: u32::MAX }).collect();
    let mut todo: VecDeque<StateId> = dfa.states().filter(|state| dfa.is_accepting(*state)).collect();
    todo.iter().for_each(|state| states[state.index()].fewest = 0);
    // A unit costs one, and its inner bytes nothing.
    while let Some(state) = todo.pop_front() {
        let UnitState { ends, fewest, .. } = states[state.index()];
        let cost = fewest.saturating_add(u32::from(ends));
        for other in &before[state.index()] {
            if cost < states[other.index()].fewest {
                states[other.index()].fewest = cost;
                if ends { todo.push_back(*other) } else { todo.push_front(*other) }
            }
        }
    }
    let mut todo: Vec<StateId> = dfa.states().filter(|state| ends[state.index()]).collect();
    while let Some(state) = todo.pop() {
        for other in &before[state.index()] {
            if std::mem::replace(&mut states[other.index()].is_last, false) {
                todo.push(*other);
            }
        }
    }
    states.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is the automaton of the same texts without a bound, so that both have the same subterminal trees.
    #[test]
    fn any_number_of_units_is_a_language_as_any_other() {
        let dfa = |pattern: &str| Arc::new(Dfa::from_pattern(pattern, &Limits::default()).unwrap());
        for (open, unit, close) in [
            ("\"", r#"[^"\\]|\\["\\nt]|\\u[0-9a-f]{4}"#, "\""),
            ("", "a|bb|bc", "c"),
            ("ab", "ab|c", "b"),
            ("", "a", "bc"),
            ("<<", "[^<>]|<[a-z]>", ">>"),
        ] {
            let units = Units::all(open.as_bytes(), &dfa(unit), close.as_bytes()).unwrap();
            assert_eq!(*units.dfa, *dfa(&format!("{open}({unit})*{close}")), "{unit}");
        }
    }

    #[test]
    fn a_state_knows_the_units_that_may_follow() {
        let limits = Limits::default();
        let dfa = |pattern: &str| Arc::new(Dfa::from_pattern(pattern, &limits).unwrap());
        let of = |pattern: &str, close: Option<u8>| {
            Arc::new(Units::of(&dfa(pattern), b"<", &dfa("[a-z]|[A-Z][a-z]"), close).unwrap())
        };
        let left = |counted: &CountedUnits, text: &str| {
            let read = |state, byte: &u8| counted.step(state, *byte);
            text.as_bytes().iter().try_fold(counted.start(), read).map(|state| counted.left(state, 100))
        };
        let counted = CountedUnits::new(of("<([a-z]|[A-Z][a-z])*xyz>", Some(b'>')), 0, Some(5)).unwrap();
        for (text, most) in [
            ("", Some(6)),
            ("<", Some(5)),
            ("<ab", Some(3)),
            ("<Ab", Some(4)),
            ("<aA", Some(4)),
            ("<abA", None),
            ("<abc", None),
            ("<abx", Some(2)),
            ("<abxyz", Some(0)),
            ("<abxyz>", Some(0)),
            ("<abxyzz", None),
        ] {
            assert_eq!(left(&counted, text), most.map(|most| (0, Some(most))), "{text}");
        }
        assert!(CountedUnits::new(of("<([a-z]|[A-Z][a-z])*xyz>", Some(b'>')), 0, Some(2)).is_err());
        let units = Arc::new(Units::all(b"<", &dfa("[a-z]|[A-Z][a-z]"), b">").unwrap());
        let far = CountedUnits::new(Arc::clone(&units), 0, Some(1_000_000_000)).unwrap();
        for count in [0, 1, 2, 3, 65_535, 1_000_000, 999_999_999, 1_000_000_001] {
            for at in units.dfa.states() {
                assert_eq!(far.parts(far.state(count, at)), (count, at));
            }
        }
        let counted = CountedUnits::new(units, 2, Some(3)).unwrap();
        for (text, bounds) in [
            ("<", Some((2, Some(3)))),
            ("<a", Some((1, Some(2)))),
            ("<a>", None),
            ("<aBc", Some((0, Some(1)))),
            ("<aBc>", Some((0, Some(1)))),
            ("<aBcd>", Some((0, Some(0)))),
            ("<aBcde", None),
        ] {
            assert_eq!(left(&counted, text), bounds, "{text}");
        }
    }
}
