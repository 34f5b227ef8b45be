//! A regular language of bounded length: the texts of an automaton that have at most a number of units between two
//! marks, or from a mark on, for example the strings of a pattern with at most 500 characters, each of which has
//! several spellings.
//!
//! As an automaton, this language has a copy of the pattern for each unit, and 5,000 characters of `(\S+\s+){0,99}\S+`
//! are half a million of them. So the language is kept as the automaton of the pattern and a count. A state is a state
//! of the automaton with the number of units so far, and it exists only if the text can still end in time: each state
//! of the automaton knows the fewest units to an end.
//!
//! A token raises the number of units so far plus the fewest units to an end, which is its *cost*, and never lowers
//! it. So the tokens of a state are those of the automaton, up to a cost; they are sorted by it once
//! ([`by_count`](crate::trees::by_count)), and far from the bound the trees are those of the automaton.
//!
//! Tried instead: grammars with a rule for each number of units. Each character is a terminal then, and a token crosses
//! many.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashSet;
use unskew_automata::{Dfa, DfaAlgebra, RegexError, StateId};

use super::{ScanState, bounded::BoundedRepetition};
use crate::ids::{COUNTS, Id, number as id};

/// The texts of an automaton with at most a number of units between two marks.
#[derive(Clone, Debug)]
pub struct BoundedLength {
    /// All texts of that length.
    repetition: BoundedRepetition,
    dfa: Arc<Dfa>,
    /// By state of the automaton: whether a unit or the opening mark ends where it is entered.
    ends: Arc<[bool]>,
    /// By state: the fewest units to an end.
    shortest: Arc<[u32]>,
    /// The greatest number of units, and one more for the opening mark.
    max: u32,
}

impl PartialEq for BoundedLength {
    fn eq(&self, other: &Self) -> bool {
        self.repetition == other.repetition && (Arc::ptr_eq(&self.dfa, &other.dfa) || self.dfa == other.dfa)
    }
}

impl Eq for BoundedLength {}

impl std::hash::Hash for BoundedLength {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.repetition, self.dfa.len()).hash(state);
    }
}

/// The place in a text between the marks, or at one of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Open(usize),
    Unit(StateId),
    Closed,
}

impl BoundedLength {
    /// # Errors
    ///
    /// The violated condition, in words.
    pub(crate) fn new(
        dfa: &Arc<Dfa>,
        open: &[u8],
        unit: &Arc<Dfa>,
        close: Option<u8>,
        max: u32,
    ) -> Result<Self, &'static str> {
        if open.is_empty() {
            return Err("there is no opening mark");
        }
        let repetition = BoundedRepetition::new(open, unit, close.as_slice(), (0, Some(max)))?;
        let max = max.checked_add(1).ok_or("it is counted too far")?;
        if (u64::from(max) + 1) * dfa.len() as u64 >= u64::from(u32::MAX) {
            return Err("it is counted too far");
        }
        let ends = ends(dfa, &repetition)?;
        let shortest = shortest(dfa, &ends);
        let made = Self { repetition, dfa: Arc::clone(dfa), ends, shortest: shortest.into(), max };
        if made.shortest[made.dfa.start().index()] > max {
            return Err("every text is longer");
        }
        Ok(made)
    }

    /// The automaton.
    pub fn dfa(&self) -> &Arc<Dfa> {
        &self.dfa
    }

    /// All texts with at most that number of units.
    pub fn repetition(&self) -> &BoundedRepetition {
        &self.repetition
    }

    /// By state of the automaton: whether a unit or the opening mark ends where it is entered.
    pub(crate) fn ends(&self) -> &Arc<[bool]> {
        &self.ends
    }

    /// The memory in bytes, without the automata.
    pub(crate) fn memory_usage(&self) -> usize {
        self.repetition.memory_usage() + self.ends.len() + size_of_val(&*self.shortest) + 3 * COUNTS
    }

    /// The automaton of the language, within the limits of `builder`.
    pub(crate) fn made(&self, builder: &mut DfaAlgebra) -> Result<Dfa, RegexError> {
        let (min, max) = self.repetition.bounds();
        let short = self.repetition.made(builder, min, max)?;
        builder.intersection(&self.dfa, &short)
    }

    pub(crate) fn start(&self) -> ScanState {
        ScanState::from_index(self.dfa.start().index())
    }

    /// The state after `byte`, if a text of the length goes on with it.
    #[inline]
    pub(crate) fn step(&self, state: ScanState, byte: u8) -> Option<ScanState> {
        let (count, at) = self.parts(state);
        let next = self.dfa.step(at, byte)?;
        let count = count + u32::from(self.ends[next.index()]);
        let is_in_time = self.max.checked_sub(count).is_some_and(|left| self.shortest[next.index()] <= left);
        is_in_time.then(|| ScanState::of(count * id(self.dfa.len()) + id(next.index())))
    }

    /// Whether `state` is accepting. No byte follows it then.
    #[inline]
    pub(crate) fn is_accepting(&self, state: ScanState) -> bool {
        self.dfa.is_accepting(self.parts(state).1)
    }

    /// Calls `each` with every byte that may follow in `state`.
    pub(crate) fn next_bytes(&self, state: ScanState, mut each: impl FnMut(u8)) {
        for edge in self.dfa.edges(self.parts(state).1) {
            edge.bytes.filter(|byte| self.step(state, *byte).is_some()).for_each(&mut each);
        }
    }

    /// The state of the automaton, and the greatest cost of what follows.
    pub(crate) fn left(&self, state: ScanState) -> (StateId, u32) {
        let (count, at) = self.parts(state);
        (at, self.max - count)
    }

    /// The units that end in `text`, read from `at` on, plus the fewest units to an end after it.
    pub(crate) fn cost(&self, mut at: StateId, text: &[u8]) -> u32 {
        let mut count = 0;
        for byte in text {
            let Some(next) = self.dfa.step(at, *byte) else { break };
            at = next;
            count += u32::from(self.ends[at.index()]);
        }
        count + self.shortest[at.index()]
    }

    /// A bound on the cost of a text of `len` bytes.
    pub(crate) fn greatest_cost(&self, len: u32) -> u32 {
        self.shortest.iter().max().map_or(len, |most| most.saturating_add(len))
    }

    #[inline]
    fn parts(&self, state: ScanState) -> (u32, StateId) {
        let len = id(self.dfa.len());
        (state.raw() / len, StateId::from_index((state.raw() % len) as usize))
    }
}

/// By state: whether a unit or the opening mark ends where it is entered. Reads all texts side by side with the units.
fn ends(dfa: &Dfa, repetition: &BoundedRepetition) -> Result<Arc<[bool]>, &'static str> {
    let ((open, close), unit) = (repetition.marks(), repetition.unit());
    let mut ends: Vec<Option<bool>> = vec![None; dfa.len()];
    ends[dfa.start().index()] = Some(false);
    let first = (dfa.start(), Place::Open(0));
    let mut seen: HashSet<(StateId, Place)> = HashSet::new();
    let mut todo = vec![first];
    while let Some((state, place)) = todo.pop() {
        let is_end = match close {
            [] => place == Place::Unit(unit.start()) && dfa.edges(state).next().is_none(),
            _ => place == Place::Closed,
        };
        if dfa.is_accepting(state) != is_end {
            return Err("a text does not end with the closing mark, or goes on after it");
        }
        for edge in dfa.edges(state) {
            let mut last = None;
            for byte in edge.bytes.clone() {
                let next = match place {
                    Place::Open(at) if open[at] == byte && at + 1 == open.len() => Place::Unit(unit.start()),
                    Place::Open(at) if open[at] == byte => Place::Open(at + 1),
                    Place::Unit(at) => match unit.step(at, byte) {
                        Some(next) if unit.is_accepting(next) => Place::Unit(unit.start()),
                        Some(next) => Place::Unit(next),
                        None if at == unit.start() && close.first() == Some(&byte) => Place::Closed,
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
                let is_end = next == Place::Unit(unit.start());
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

/// By state: the fewest units to an end.
fn shortest(dfa: &Dfa, ends: &[bool]) -> Vec<u32> {
    let mut before: Vec<Vec<StateId>> = vec![vec![]; dfa.len()];
    for state in dfa.states() {
        for edge in dfa.edges(state) {
            if before[edge.target.index()].last() != Some(&state) {
                before[edge.target.index()].push(state);
            }
        }
    }
    let mut shortest = vec![u32::MAX; dfa.len()];
    let mut todo: VecDeque<StateId> = dfa.states().filter(|state| dfa.is_accepting(*state)).collect();
    todo.iter().for_each(|state| shortest[state.index()] = 0);
    // A unit costs one, and its inner bytes nothing.
    while let Some(state) = todo.pop_front() {
        let own = ends[state.index()];
        let cost = shortest[state.index()].saturating_add(u32::from(own));
        for other in &before[state.index()] {
            if cost < shortest[other.index()] {
                shortest[other.index()] = cost;
                if own { todo.push_back(*other) } else { todo.push_front(*other) }
            }
        }
    }
    shortest
}
