//! Bounded repetition: a number of units between two marks, for example a string of at most 500 characters,
//! each of which has several spellings.
//!
//! As an automaton, this language has a copy of the unit for each repetition, which is ten thousand states for the
//! string. As a repetition of a terminal, each character would be a terminal of its own, and a token would cross
//! many. So the language is kept as the automaton of the unit and a count. Its size does not depend on the bounds.
//!
//! A token has few bytes, so most counts make no difference to it. If more units are allowed than a token can hold,
//! the subterminal trees are those of the unbounded language ([`horizon`](BoundedRepetition::horizon)). Otherwise
//! tokens are selected from these trees by their [number of units](BoundedRepetition::count). So all bounds share
//! their trees.

use std::sync::Arc;

use unskew_automata::{Dfa, DfaAlgebra, Limits, RegexError, StateId};
use unskew_trie::ByteSet;

use super::ScanState;
use crate::ids::{COUNTS, Id, number as id};

/// A bounded repetition of a unit between two marks.
#[derive(Clone, Debug)]
pub struct BoundedRepetition {
    open: Box<[u8]>,
    unit: Arc<Dfa>,
    close: Box<[u8]>,
    min: u32,
    max: Option<u32>,
    /// By state of the unit: a text that leads to it.
    reach: Arc<[Box<[u8]>]>,
}

impl PartialEq for BoundedRepetition {
    fn eq(&self, other: &Self) -> bool {
        (&self.open, &self.close, self.min, self.max) == (&other.open, &other.close, other.min, other.max)
            && (Arc::ptr_eq(&self.unit, &other.unit) || self.unit == other.unit)
    }
}

impl Eq for BoundedRepetition {}

impl std::hash::Hash for BoundedRepetition {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // Equal values hash equal numbers of states. Hashing the automaton itself would be slow.
        (&self.open, &self.close, self.min, self.max, self.unit.len()).hash(state);
    }
}

/// A state of the repetition, unpacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stand {
    /// After this many bytes of the opening mark, before its end.
    Open(u32),
    /// After this many units, in a state of the next unit.
    Inside(u32, StateId),
    /// After this many bytes of the closing mark, at least one.
    Close(u32),
}

/// The bit of the states in the closing mark.
const CLOSE: u32 = 1 << 31;

/// A state up to differences that no token can detect, with the bounds of the remaining units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Horizon {
    /// In a mark.
    Mark { min: u32, max: Option<u32> },
    /// In this state of a unit.
    Inside { min: u32, max: Option<u32>, at: StateId },
}

impl BoundedRepetition {
    /// The memory of the marks and texts, in bytes, without the automaton of the unit.
    pub(crate) fn memory_usage(&self) -> usize {
        let reach = self.reach.iter().map(|text| size_of_val(text) + text.len());
        size_of::<Self>() + COUNTS + self.open.len() + self.close.len() + reach.sum::<usize>()
    }

    /// Builds the repetition. Without a closing mark, it is the language of a length, and no terminal by itself: no
    /// byte shows its end.
    ///
    /// # Errors
    ///
    /// The violated condition, in words.
    pub(crate) fn new(
        open: &[u8],
        unit: &Arc<Dfa>,
        close: &[u8],
        (min, max): (u32, Option<u32>),
    ) -> Result<Self, &'static str> {
        /// The greatest number of states of a unit. The states of all bounds that a token can tell apart are
        /// a few hundred times as many.
        const MOST: usize = 256;
        if max.is_some_and(|max| max < min) {
            return Err("the greatest number is less than the least");
        }
        if unit.is_accepting(unit.start()) {
            return Err("a unit may be empty");
        }
        if unit.states().any(|state| unit.is_accepting(state) && unit.edges(state).next().is_some()) {
            return Err("a unit may continue where it may end");
        }
        if unit.states().any(|state| unit.edges(state).any(|edge| edge.target == unit.start())) {
            return Err("a unit returns to its start state");
        }
        match close.first() {
            Some(first) if unit.step(unit.start(), *first).is_none() => {}
            Some(_) => return Err("the closing mark begins like a unit"),
            None => {}
        }
        if unit.len() > MOST {
            return Err("a unit has more than 256 states");
        }
        let states = (u64::from(max.unwrap_or(min)) + 1) * unit.len() as u64 + open.len() as u64;
        if states >= u64::from(CLOSE) {
            return Err("it is counted too far");
        }
        let mut reach: Vec<Option<Box<[u8]>>> = vec![None; unit.len()];
        reach[unit.start().index()] = Some([].into());
        let mut open_states = vec![unit.start()];
        while let Some(state) = open_states.pop() {
            for edge in unit.edges(state) {
                if reach[edge.target.index()].is_none() {
                    let before = reach[state.index()].as_deref().unwrap_or_default();
                    reach[edge.target.index()] = Some([before, &[*edge.bytes.start()]].concat().into());
                    open_states.push(edge.target);
                }
            }
        }
        let reach = reach.into_iter().map(Option::unwrap_or_default).collect();
        Ok(Self { open: open.into(), unit: Arc::clone(unit), close: close.into(), min, max, reach })
    }

    /// The automaton of a unit.
    pub fn unit(&self) -> &Arc<Dfa> {
        &self.unit
    }

    /// The opening and the closing mark.
    pub fn marks(&self) -> (&[u8], &[u8]) {
        (&self.open, &self.close)
    }

    /// The least and the greatest number of units.
    pub fn bounds(&self) -> (u32, Option<u32>) {
        (self.min, self.max)
    }

    /// The start state.
    pub(crate) fn start(&self) -> ScanState {
        self.state(Stand::Open(0))
    }

    /// The state after `byte`, if there is one.
    #[inline]
    pub(crate) fn step(&self, state: ScanState, byte: u8) -> Option<ScanState> {
        let next = match self.stand(state) {
            Stand::Open(at) if self.open[at as usize] == byte => Stand::Open(at + 1),
            Stand::Inside(count, at) => match self.unit.step(at, byte) {
                Some(_) if self.max.is_some_and(|max| count >= max) => return None,
                Some(next) if self.unit.is_accepting(next) => {
                    let more = if self.max.is_some() { count + 1 } else { (count + 1).min(self.min) };
                    Stand::Inside(more, self.unit.start())
                }
                Some(next) => Stand::Inside(count, next),
                None if at == self.unit.start() && count >= self.min && self.close[0] == byte => {
                    Stand::Close(1)
                }
                None => return None,
            },
            Stand::Close(at) if self.close.get(at as usize) == Some(&byte) => Stand::Close(at + 1),
            Stand::Open(_) | Stand::Close(_) => return None,
        };
        Some(self.state(next))
    }

    /// Whether `state` is the accepting state. No byte follows it.
    #[inline]
    pub(crate) fn is_accepting(&self, state: ScanState) -> bool {
        state.raw() == CLOSE | id(self.close.len())
    }

    /// Calls `each` with every byte that may follow in `state`.
    pub(crate) fn next_bytes(&self, state: ScanState, mut each: impl FnMut(u8)) {
        for byte in 0..=255 {
            if self.step(state, byte).is_some() {
                each(byte);
            }
        }
    }

    /// The state up to differences that no token of at most `longest` bytes can detect. Every repetition with
    /// the bounds of the result has an equivalent state.
    pub(crate) fn horizon(&self, state: ScanState, longest: u32) -> Horizon {
        match self.stand(state) {
            Stand::Open(_) => {
                let (min, max) = self.left(0, longest);
                Horizon::Mark { min, max }
            }
            Stand::Inside(count, at) => {
                let (min, max) = self.left(count, longest);
                Horizon::Inside { min, max, at }
            }
            Stand::Close(_) => Horizon::Mark { min: 0, max: None },
        }
    }

    /// A text that leads to the state `at` of the first unit.
    pub(crate) fn text_to(&self, at: StateId) -> Vec<u8> {
        [&self.open[..], &self.reach[at.index()]].concat()
    }

    /// The bytes that are complete units.
    pub(crate) fn single_units(&self) -> ByteSet {
        let start = self.unit.start();
        let is_unit =
            |byte: &u8| self.unit.step(start, *byte).is_some_and(|behind| self.unit.is_accepting(behind));
        (0..=u8::MAX).filter(is_unit).collect()
    }

    /// The number of units of which `text` contains the end, read from the state `at` of a unit, plus one if
    /// a further unit has begun; and whether the closing mark begins after them. `single` are the bytes that
    /// are complete units.
    pub(crate) fn count(&self, at: StateId, text: &[u8], single: &ByteSet) -> (u32, bool) {
        let (mut count, mut state) = (0, at);
        for byte in text {
            if state == self.unit.start() && single.contains(*byte) {
                count += 1;
                continue;
            }
            match self.unit.step(state, *byte) {
                Some(next) if self.unit.is_accepting(next) => {
                    count += 1;
                    state = self.unit.start();
                }
                Some(next) => state = next,
                None => return (count, true),
            }
        }
        (count + u32::from(state != self.unit.start()), false)
    }

    /// The bounds of the units that remain after `count` units, up to differences that no token of at most
    /// `longest` bytes can detect.
    pub(crate) fn left(&self, count: u32, longest: u32) -> (u32, Option<u32>) {
        let min = self.min.saturating_sub(count).min(longest + 1);
        (min, self.max.map(|max| max - count).filter(|max| *max < longest))
    }

    /// The automaton of the language without bounds.
    pub(crate) fn unbounded(&self) -> Dfa {
        let limits = Limits::default()
            .nfa_size(u64::MAX)
            .dfa_states(usize::MAX)
            .dfa_bytes(usize::MAX)
            .dfa_steps(u64::MAX);
        self.made(&mut DfaAlgebra::new(&limits), 0, None).expect("no limits")
    }

    /// The automaton of the language with these bounds, within the limits of `builder`.
    pub(crate) fn made(
        &self,
        builder: &mut DfaAlgebra,
        min: u32,
        max: Option<u32>,
    ) -> Result<Dfa, RegexError> {
        let mut parts = Vec::new();
        if !self.open.is_empty() {
            parts.push(builder.literals([&self.open])?);
        }
        if max != Some(0) {
            parts.push(builder.repetition(&self.unit, min, max)?);
        }
        if !self.close.is_empty() {
            parts.push(builder.literals([&self.close])?);
        }
        builder.concatenation(&parts)
    }

    #[inline]
    fn stand(&self, state: ScanState) -> Stand {
        let state = state.raw();
        if state & CLOSE != 0 {
            return Stand::Close(state & !CLOSE);
        }
        match state.checked_sub(id(self.open.len())) {
            None => Stand::Open(state),
            Some(inside) => {
                let states = id(self.unit.len());
                Stand::Inside(inside / states, StateId::from_index((inside % states) as usize))
            }
        }
    }

    #[inline]
    fn state(&self, stand: Stand) -> ScanState {
        let opened = id(self.open.len());
        ScanState::of(match stand {
            Stand::Open(at) if at < opened => at,
            Stand::Open(_) => opened + id(self.unit.start().index()),
            Stand::Inside(count, at) => opened + count * id(self.unit.len()) + id(at.index()),
            Stand::Close(at) => CLOSE | at,
        })
    }
}
