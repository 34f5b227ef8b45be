//! Automata over marked text at the level of atoms: the product of several steps, and minimisation.

use std::collections::HashMap;

use super::{SplitError, limits::Budget, rules::Rule};
use crate::dfa::{explore::Numbered, table::DEAD};

/// A partial deterministic automaton. A symbol is an atom and whether a mark is before it.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) atoms: usize,
    /// By state: the targets without a mark by atom, then the targets with a mark.
    next: Vec<u32>,
    /// By state: the ways in which the text may end there.
    pub(super) ends: Vec<Ends>,
    /// The starts of texts after each kind of added token.
    pub(super) sections: Vec<u32>,
}

/// The ways in which a text may end in a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Ends(u8);

impl Ends {
    pub(super) const NEVER: Self = Self(0);
    /// The text may end, and an added token may follow.
    pub(super) const ANYHOW: Self = Self(3);
    /// The text may end, but not before an added token that would strip its last character.
    pub(super) const NOT_STRIPPED: Self = Self(1);

    pub(super) fn new(text: bool, stripped: bool) -> Self {
        Self(u8::from(text) | u8::from(stripped) << 1)
    }

    /// Whether the text may end.
    pub(super) fn text(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether an added token that strips the text before it may follow.
    pub(super) fn stripped(self) -> bool {
        self.0 & 2 != 0
    }

    /// The ways that both have in common.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The state in which every automaton starts.
pub(super) const START: u32 = 0;

impl Marked {
    pub(super) fn new(atoms: usize) -> Self {
        Self { atoms, next: vec![], ends: vec![], sections: vec![] }
    }

    /// The automaton of texts of one piece.
    pub(super) fn whole(atoms: usize) -> Self {
        let mut whole = Self::new(atoms);
        whole.push(Ends::ANYHOW);
        whole.next[..atoms].fill(START);
        whole
    }

    /// Adds a state without transitions.
    pub(super) fn push(&mut self, ends: Ends) -> u32 {
        self.next.resize(self.next.len() + 2 * self.atoms, DEAD);
        self.ends.push(ends);
        u32::try_from(self.ends.len() - 1).expect("fewer than 2^32 states")
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn at(&self, state: u32, mark: bool, atom: usize) -> usize {
        (2 * state as usize + usize::from(mark)) * self.atoms + atom
    }

    pub(super) fn next_mut(&mut self, state: u32, mark: bool, atom: usize) -> &mut u32 {
        let at = self.at(state, mark, atom);
        &mut self.next[at]
    }

    /// The targets of `state`, with or without a mark, by atom.
    pub(super) fn targets(&self, state: u32, mark: bool) -> &[u32] {
        &self.next[self.at(state, mark, 0)..][..self.atoms]
    }

    fn row(&self, state: usize) -> &[u32] {
        &self.next[state * 2 * self.atoms..][..2 * self.atoms]
    }

    /// The texts of `self` that `rule` accepts too. A rule ignores marks.
    pub(super) fn under(&self, rule: &Rule, budget: &mut Budget<'_>) -> Result<Self, SplitError> {
        let mut product = Self::new(self.atoms);
        let mut found = Numbered::from_iter([(START, 0u32)]);
        while let Some((state, place)) = found.get_index(product.len()).copied() {
            let row = product.push(self.ends[state as usize].and(rule.ends[place as usize]));
            budget.spend(2 * self.atoms)?;
            for mark in [false, true] {
                for atom in 0..self.atoms {
                    let next = (self.targets(state, mark)[atom], rule.next[place as usize][atom]);
                    if next.0 == DEAD || next.1 == DEAD {
                        continue;
                    }
                    let number = budget.number(&mut found, next)?;
                    *product.next_mut(row, mark, atom) = number;
                }
            }
        }
        Ok(product)
    }

    /// A copy of `state` that reads only the atoms for which `begins` holds, and with `ends` for the ways to end.
    pub(super) fn beginning(&mut self, state: u32, begins: impl Fn(usize) -> bool, ends: Ends) -> u32 {
        let copy = self.push(ends);
        for mark in [false, true] {
            for atom in (0..self.atoms).filter(|atom| begins(*atom)) {
                let target = self.targets(state, mark)[atom];
                *self.next_mut(copy, mark, atom) = target;
            }
        }
        copy
    }

    /// Removes the transitions over `atoms`.
    pub(super) fn forbid(&mut self, atoms: &[bool]) {
        for (at, next) in self.next.iter_mut().enumerate() {
            if atoms[at % self.atoms] {
                *next = DEAD;
            }
        }
    }

    /// The automaton of the steps of `self` followed by the step `later` on each of their pieces.
    ///
    /// The marks are those of `later`; they do not show which of them are boundaries of `self` too. At such a
    /// boundary `later` must accept, and starts again. Each text has one right choice, and the subset construction
    /// tries both.
    pub(super) fn then(&self, later: &Self, budget: &mut Budget<'_>) -> Result<Self, SplitError> {
        let mut product = Self::new(self.atoms);
        let mut found = Numbered::from_iter([vec![(START, START)]]);
        for first in &self.sections {
            let section = match *first {
                DEAD => DEAD,
                first => budget.number(&mut found, vec![(first, START)])?,
            };
            product.sections.push(section);
        }
        while let Some(state) = found.get_index(product.len()).cloned() {
            let ends = |pair: &(u32, u32)| self.ends[pair.0 as usize].and(later.ends[pair.1 as usize]);
            let row = product.push(state.iter().map(ends).fold(Ends::NEVER, Ends::or));
            for mark in [false, true] {
                for atom in 0..self.atoms {
                    let mut next = Vec::new();
                    for (first, second) in &state {
                        let mut add = |first: u32, second: u32| {
                            if first != DEAD && second != DEAD {
                                next.push((first, second));
                            }
                        };
                        add(self.targets(*first, false)[atom], later.targets(*second, mark)[atom]);
                        if mark && later.ends[*second as usize].text() {
                            add(self.targets(*first, true)[atom], later.targets(START, false)[atom]);
                        }
                    }
                    budget.spend(1 + state.len())?;
                    if next.is_empty() {
                        continue;
                    }
                    next.sort_unstable();
                    next.dedup();
                    let number = budget.number(&mut found, next)?;
                    *product.next_mut(row, mark, atom) = number;
                }
            }
        }
        Ok(product)
    }

    /// The minimal automaton of the language: without states that cannot reach acceptance, equal states merged. The
    /// start remains, even if it accepts nothing.
    ///
    /// This is Moore's refinement, since few rounds suffice: the difference of two states is a match or two away.
    pub(super) fn reduced(&self, budget: &mut Budget<'_>) -> Result<Self, SplitError> {
        let mut alive: Vec<bool> = self.ends.iter().map(|ends| *ends != Ends::NEVER).collect();
        // States are numbered in the order of discovery, so one round backwards does most of the work.
        loop {
            budget.spend(self.next.len())?;
            let mut changed = false;
            for state in (0..self.len()).rev() {
                let found = |next: &u32| *next != DEAD && alive[*next as usize];
                if !alive[state] && self.row(state).iter().any(found) {
                    alive[state] = true;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }

        budget.spend(self.next.len())?;
        // Equal columns make the same distinctions, so one of each is enough.
        let mut columns: HashMap<Vec<u32>, usize> = HashMap::new();
        for column in 0..2 * self.atoms {
            let entries = (0..self.len()).map(|state| self.row(state)[column]).collect();
            columns.entry(entries).or_insert(column);
        }
        let mut columns: Vec<usize> = columns.into_values().collect();
        columns.sort_unstable();

        const NONE: u32 = u32::MAX;
        let mut blocks: Vec<u32> = (0..self.len())
            .map(|state| if alive[state] { u32::from(self.ends[state].0) } else { NONE })
            .collect();
        let mut count = 0;
        loop {
            budget.spend(self.len() * columns.len())?;
            let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
            let mut refined = Vec::with_capacity(self.len());
            for state in 0..self.len() {
                if !alive[state] {
                    refined.push(NONE);
                    continue;
                }
                let row = self.row(state);
                let mut signature = Vec::with_capacity(columns.len() + 1);
                signature.push(blocks[state]);
                signature.extend(columns.iter().map(|column| match row[*column] {
                    DEAD => NONE,
                    next => blocks[next as usize],
                }));
                let fresh = u32::try_from(numbers.len()).expect("fewer blocks than states");
                refined.push(*numbers.entry(signature).or_insert(fresh));
            }
            blocks = refined;
            if numbers.len() == count {
                break;
            }
            count = numbers.len();
        }

        let mut reduced = Self::new(self.atoms);
        if blocks[START as usize] == NONE {
            reduced.push(Ends::NEVER);
            reduced.sections = vec![DEAD; self.sections.len()];
            return Ok(reduced);
        }
        let section = |state: &u32| match *state {
            DEAD => DEAD,
            state => blocks[state as usize],
        };
        reduced.sections = self.sections.iter().map(section).collect();
        // Blocks are numbered by their first states, so the start comes first.
        for state in 0..self.len() {
            if blocks[state] == NONE || (blocks[state] as usize) < reduced.len() {
                continue;
            }
            let new = reduced.push(self.ends[state]);
            for (column, next) in self.row(state).iter().enumerate() {
                if *next != DEAD && blocks[*next as usize] != NONE {
                    reduced.next[new as usize * 2 * self.atoms + column] = blocks[*next as usize];
                }
            }
        }
        Ok(reduced)
    }
}
