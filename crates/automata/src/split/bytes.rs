//! The automaton over atoms becomes an automaton over bytes, in its minimal form.
//!
//! A state over bytes is one of three: a state over atoms at a boundary of characters, the same after a mark, or a
//! node of the decision tree with targets in place of atoms. Each is identified by its transitions, and targets are
//! numbered before their sources; so equal states are shared during the construction, and no minimisation follows.

use std::collections::{HashMap, hash_map::Entry};

use super::{
    SplitDfa, SplitError,
    limits::Budget,
    marked::{Ends, Marked, START},
};
use crate::dfa::{
    CharSet, Cuts,
    atoms::Atoms,
    table::{DEAD, equal_columns},
    utf8::{Edges, Tree, push},
};

/// A state over bytes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct State {
    next: Edges<u32>,
    fallback: Edges<u32>,
    mark: Option<u32>,
    ends: Ends,
}

struct Expander<'a, 'l> {
    tree: &'a Tree,
    states: Vec<State>,
    numbers: HashMap<State, u32>,
    budget: &'a mut Budget<'l>,
}

/// The automaton over bytes. `coarse` maps each atom of `tree` to the atom of `marked` that contains it. `unknown`
/// tells for each atom whether its characters are spelled by fallback tokens; `None` if there are no fallback tokens.
pub(super) fn expand(
    marked: &Marked,
    tree: &Tree,
    coarse: &[Option<usize>],
    unknown: Option<&[bool]>,
    budget: &mut Budget<'_>,
) -> Result<SplitDfa, SplitError> {
    let mut expander = Expander {
        tree,
        // The states at boundaries come first, so that their numbers are known before their targets.
        states: vec![State::default(); marked.len()],
        numbers: HashMap::new(),
        budget,
    };
    let states = 0..u32::try_from(marked.len()).expect("fewer than 2^32 states");
    let row = |state: u32, mark: bool| {
        let targets = marked.targets(state, mark);
        coarse.iter().map(|atom| atom.map_or(DEAD, |atom| targets[atom])).collect::<Vec<u32>>()
    };
    for state in states.clone() {
        expander.boundary(state, &row(state, false), unknown)?;
        expander.states[state as usize].ends = marked.ends[state as usize];
    }
    // A state that neither accepts nor can be marked may equal a state after a mark.
    let can_be_marked: Vec<bool> =
        states.clone().map(|state| row(state, true).iter().any(|target| *target != DEAD)).collect();
    for state in states.clone() {
        let made = &expander.states[state as usize];
        if made.ends == Ends::NEVER && !can_be_marked[state as usize] {
            expander.numbers.insert(made.clone(), state);
        }
    }
    for state in states.filter(|state| can_be_marked[*state as usize]) {
        let made = expander.made(&row(state, true), unknown)?;
        let number = expander.number(made)?;
        expander.states[state as usize].mark = Some(number);
    }
    Ok(assemble(&expander.states, &marked.sections, unknown.is_some()))
}

/// The classes of bytes of `split`, as sets of characters up to U+00FF.
pub(super) fn classes(split: &SplitDfa) -> Vec<CharSet> {
    let of = |class: usize| {
        let bytes = (0..=255u8).filter(|byte| usize::from(split.classes.get(*byte)) == class);
        bytes.map(char::from).collect()
    };
    (0..split.classes.len()).map(of).collect()
}

/// `split` with its bytes as atoms. It has no fallback transitions.
pub(super) fn marked(split: &SplitDfa, atoms: &Atoms) -> Marked {
    let mut marked = Marked::new(atoms.count);
    for (state, accepts) in split.accepting.iter().enumerate() {
        let strips = split.before_strip.get(state).copied().unwrap_or(*accepts);
        let row = marked.push(Ends::new(*accepts, strips));
        for (mark, from) in [(false, state), (true, split.mark[state] as usize)] {
            // A state that cannot be marked has no transitions over marks.
            let Some(targets) = split.next.get(from.saturating_mul(split.classes.len())..) else { continue };
            for byte in 0..=255u8 {
                *marked.next_mut(row, mark, atoms.of_byte(byte)) =
                    targets[usize::from(split.classes.get(byte))];
            }
        }
    }
    marked.sections.clone_from(&split.sections);
    marked
}

/// The automaton over bytes of `marked`, whose atoms are bytes. Equal states are one: `marked` is minimal, so that
/// only a state after a mark may equal another one.
pub(super) fn assembled(marked: &Marked, atoms: &Atoms) -> SplitDfa {
    let edges = |state: u32, mark: bool| {
        let targets = marked.targets(state, mark);
        let mut edges = Edges::new();
        for byte in 0..=255u8 {
            let target = targets[atoms.of_byte(byte)];
            if target != DEAD {
                push(&mut edges, (byte, byte), target);
            }
        }
        edges
    };
    let len = u32::try_from(marked.len()).expect("fewer than 2^32 states");
    let mut states: Vec<State> = (0..len)
        .map(|state| State {
            next: edges(state, false),
            ends: marked.ends[state as usize],
            ..State::default()
        })
        .collect();
    let mut numbers: HashMap<State, u32> = HashMap::new();
    let marks: Vec<Edges<u32>> = (0..len).map(|state| edges(state, true)).collect();
    // Only a state that cannot be marked may equal a state after a mark.
    for (state, _) in (0u32..).zip(&marks).filter(|(_, mark)| mark.is_empty()) {
        if states[state as usize].ends == Ends::NEVER {
            numbers.insert(states[state as usize].clone(), state);
        }
    }
    for (state, mark) in marks.into_iter().enumerate().filter(|(_, mark)| !mark.is_empty()) {
        let behind = State { next: mark, ..State::default() };
        let number = *numbers.entry(behind).or_insert_with_key(|behind| {
            states.push(behind.clone());
            u32::try_from(states.len() - 1).expect("fewer than 2^32 states")
        });
        states[state].mark = Some(number);
    }
    assemble(&states, &marked.sections, false)
}

impl Expander<'_, '_> {
    fn boundary(&mut self, state: u32, row: &[u32], unknown: Option<&[bool]>) -> Result<(), SplitError> {
        self.states[state as usize] = self.made(row, unknown)?;
        Ok(())
    }

    /// The state at a boundary of characters with the targets `row`.
    fn made(&mut self, row: &[u32], unknown: Option<&[bool]>) -> Result<State, SplitError> {
        let next = self.edges(row, false)?;
        let fallback = match unknown {
            None => vec![],
            Some(unknown) => {
                let row: Vec<u32> = row
                    .iter()
                    .zip(unknown)
                    .map(|(target, unknown)| if *unknown { *target } else { DEAD })
                    .collect();
                self.edges(&row, true)?
            }
        };
        Ok(State { next, fallback, ..State::default() })
    }

    /// The edges of the root of the tree with `row` in place of the atoms.
    fn edges(&mut self, row: &[u32], fallback: bool) -> Result<Edges<u32>, SplitError> {
        let tree = self.tree;
        self.budget.spend(tree.edge_count())?;
        tree.edges(row, |edges| {
            self.number(match fallback {
                true => State { fallback: edges, ..State::default() },
                false => State { next: edges, ..State::default() },
            })
        })
    }

    fn number(&mut self, state: State) -> Result<u32, SplitError> {
        match self.numbers.entry(state) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                self.budget.states(self.states.len() + 1)?;
                let number = u32::try_from(self.states.len()).expect("the limit is below 2^32");
                self.states.push(entry.key().clone());
                Ok(*entry.insert(number))
            }
        }
    }
}

/// The tables, with states numbered breadth-first over the coarsest classes: targets by class, the mark, fallback
/// targets by class.
fn assemble(states: &[State], sections: &[u32], has_fallback: bool) -> SplitDfa {
    let mut reached = vec![false; states.len()];
    let mut open: Vec<u32> = [START].iter().chain(sections).copied().filter(|state| *state != DEAD).collect();
    open.iter().for_each(|state| reached[*state as usize] = true);
    let mut cuts = Cuts::default();
    while let Some(state) = open.pop() {
        let State { next, fallback, mark, .. } = &states[state as usize];
        let mut reach = |target: u32| {
            if !std::mem::replace(&mut reached[target as usize], true) {
                open.push(target);
            }
        };
        for (low, high, target) in next.iter().chain(fallback) {
            cuts.around(*low, *high);
            reach(*target);
        }
        if let Some(mark) = mark {
            reach(*mark);
        }
    }

    // Dense rows over intervals of bytes that no edge distinguishes; equal columns are then merged.
    let fine = cuts.to_classes();
    let width = fine.len();
    let lists = 1 + usize::from(has_fallback);
    let mut rows = Vec::new();
    let mut row_of = vec![usize::MAX; states.len()];
    for (state, made) in states.iter().enumerate().filter(|(state, _)| reached[*state]) {
        row_of[state] = rows.len();
        for edges in [&made.next, &made.fallback].into_iter().take(lists) {
            let at = rows.len();
            rows.resize(at + width, DEAD);
            for (low, high, target) in edges {
                rows[at + usize::from(fine.get(*low))..=at + usize::from(fine.get(*high))].fill(*target);
            }
        }
    }
    let (classes, columns) = fine.merged(&equal_columns(&rows, width));

    let mut dfa = SplitDfa {
        classes,
        next: vec![],
        fallback: vec![],
        mark: vec![],
        accepting: vec![],
        before_strip: vec![],
        start: 0,
        sections: vec![],
    };
    let tells_strip = states.iter().any(|state| state.ends.text() != state.ends.stripped());
    let mut numbers = vec![DEAD; states.len()];
    let mut order: Vec<u32> = Vec::new();
    for start in [START].iter().chain(sections).filter(|start| **start != DEAD) {
        if numbers[*start as usize] == DEAD {
            numbers[*start as usize] = u32::try_from(order.len()).expect("few starts");
            order.push(*start);
        }
    }
    let section = |start: &u32| numbers.get(*start as usize).copied().unwrap_or(DEAD);
    dfa.sections = sections.iter().map(section).collect();
    let mut at = 0;
    while let Some(state) = order.get(at).copied() {
        at += 1;
        let State { mark, ends, .. } = &states[state as usize];
        let mut number = |target: u32| {
            if target == DEAD {
                return DEAD;
            }
            if numbers[target as usize] == DEAD {
                numbers[target as usize] = u32::try_from(order.len()).expect("fewer than 2^32 states");
                order.push(target);
            }
            numbers[target as usize]
        };
        let row = &rows[row_of[state as usize]..][..width * lists];
        dfa.next.extend(columns.iter().map(|column| number(row[usize::from(*column)])));
        dfa.mark.push(number(mark.unwrap_or(DEAD)));
        if has_fallback {
            let row = &row[width..];
            dfa.fallback.extend(columns.iter().map(|column| number(row[usize::from(*column)])));
        }
        dfa.accepting.push(ends.text());
        if tells_strip {
            dfa.before_strip.push(ends.stripped());
        }
    }
    dfa
}
