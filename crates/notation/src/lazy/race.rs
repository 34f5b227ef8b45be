//! Reads a terminal in parallel with the open lazy terminals, and finds the texts on which none of them ends first.
//!
//! It is a product automaton, built edge by edge: difference and intersection of the whole automata would
//! lose track of the lazy terminals that remain open after each text.

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
};

use unskew_automata::{
    Limits, RegexError,
    dfa::{Cuts, Explored, Graph},
};
use unskew_grammar::{
    Grammar, Terminal, TerminalId,
    kit::terminal::{
        ReadState,
        reading::{accepts, automaton, start, step},
    },
};
use unskew_trie::ByteSet;

/// Open lazy terminals, each with its state, in ascending order.
pub(super) type Open = Vec<(TerminalId, ReadState)>;

/// A configuration: the state of the terminal after its first byte, the lazy terminals that were open before it
/// began, and those that began with it.
type Place = (Option<ReadState>, Open, Open);

/// A terminal in parallel with open lazy terminals.
#[derive(Clone)]
pub(super) struct Race {
    /// By configuration.
    graph: Graph,
    /// By configuration: the part of the texts that end there.
    ends: Vec<Option<usize>>,
    /// By part: the lazy terminals that are open after its texts.
    pub(super) parts: Vec<Open>,
    /// Whether some text of the terminal is in no part, because another lazy terminal ended first.
    pub(super) lost: bool,
    /// Whether the parts together have all texts of the terminal.
    pub(super) whole: bool,
}

impl Race {
    /// Reads `terminal`, which may be lazy itself, in parallel with the lazy terminals in `open` and with the
    /// `rivals`, which begin together with it. `None` if there are more than `limit` configurations.
    pub(super) fn new(
        grammar: &Grammar,
        terminal: TerminalId,
        is_lazy: bool,
        open: &Open,
        rivals: &[TerminalId],
        limit: usize,
    ) -> Option<Self> {
        let own = grammar.terminal(terminal);
        if let Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) = own
        {
            // A control token has no bytes, so no lazy terminal advances over it.
            let parts = vec![Open::new()];
            return Some(Self { graph: Graph::default(), ends: vec![], parts, lost: false, whole: true });
        }
        let fresh: Open = rivals.iter().map(|rival| (*rival, start(grammar.terminal(*rival)))).collect();
        let mut machines: Vec<&Terminal> =
            open.iter().chain(&fresh).map(|(rival, _)| grammar.terminal(*rival)).collect();
        machines.push(own);
        let ranges = ranges(&machines);
        let mut race =
            Self { graph: Graph::default(), ends: vec![], parts: vec![], lost: false, whole: false };
        let mut part_of: HashMap<Open, usize> = HashMap::new();
        // For a terminal that is not lazy, the rivals that begin with it count like those that were open before.
        let first = match is_lazy {
            true => (None, open.clone(), fresh),
            false => (None, sorted(open.iter().chain(&fresh).copied().collect()), Open::new()),
        };
        let mut places: Explored<Place> = Explored::new(first);
        while let Some((state, older, fresh)) = places.next_state() {
            let ends = state.is_some_and(|state| accepts(own, state));
            let parts = &mut race.parts;
            race.ends.push(ends.then(|| {
                let left = if is_lazy { Open::new() } else { older.clone() };
                *part_of.entry(left.clone()).or_insert_with(|| {
                    parts.push(left);
                    parts.len() - 1
                })
            }));
            // A lazy terminal stops at its first end.
            let state = state.unwrap_or_else(|| start(own));
            for range in ranges.iter().filter(|_| !(ends && is_lazy)) {
                let byte = *range.start();
                let Some(next) = step(own, state, byte) else { continue };
                let (older, older_ends) = step_all(grammar, &older, byte);
                let (fresh, fresh_ends) = step_all(grammar, &fresh, byte);
                if older_ends || (fresh_ends && !accepts(own, next)) {
                    race.lost = true;
                    continue;
                }
                places.edge(range.clone(), (Some(next), older, fresh));
            }
            if places.len() > limit {
                return None;
            }
        }
        race.graph = places.into_graph();
        // The empty text is in no part.
        let may_be_empty = accepts(own, start(own));
        race.whole = !race.lost && !may_be_empty;
        Some(race)
    }

    /// The number of configurations.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The language of these parts.
    pub(super) fn cut(&self, parts: &[usize], limits: &Limits) -> Result<Terminal, RegexError> {
        let ends = |at: usize| self.ends[at].is_some_and(|part| parts.contains(&part));
        Ok(Terminal::Automaton(self.graph.automaton(ends, limits)?.into()))
    }
}

/// Whether two terminals have a common text that is not empty, and the work spent. A control token has a
/// common text with itself alone. `None` if the work exceeds `limit` pairs of states.
pub(super) fn share_a_text(
    grammar: &Grammar,
    left: TerminalId,
    right: TerminalId,
    limit: usize,
) -> Option<(bool, usize)> {
    let (left, right) = (grammar.terminal(left), grammar.terminal(right));
    let is_token = |terminal: &Terminal| {
        matches!(
            terminal,
            Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_)
        )
    };
    if is_token(left) || is_token(right) {
        return Some((left == right, 1));
    }
    let ranges = ranges(&[left, right]);
    let mut seen: HashSet<(ReadState, ReadState)> = HashSet::new();
    let mut open = vec![(start(left), start(right))];
    while let Some((first, second)) = open.pop() {
        for byte in ranges.iter().map(RangeInclusive::start) {
            let (Some(first), Some(second)) = (step(left, first, *byte), step(right, second, *byte)) else {
                continue;
            };
            if accepts(left, first) && accepts(right, second) {
                return Some((true, seen.len() + 1));
            }
            if seen.insert((first, second)) {
                open.push((first, second));
            }
        }
        if seen.len() > limit {
            return None;
        }
    }
    Some((false, seen.len() + 1))
}

/// Whether `lazy`, begun with a text of `own`, is still open after every such text that it does not end in,
/// and from there ends no later than a `lazy` begun there. Also returns the work spent. `None` if the work
/// exceeds `limit` pairs of states.
pub(super) fn stays_open(own: &Terminal, lazy: &Terminal, limit: usize) -> Option<(bool, usize)> {
    if let Terminal::Token(_) | Terminal::Tokens(_) | Terminal::OneOf(_) | Terminal::TokenBudget(_) = own {
        return Some((false, 1));
    }
    let both = ranges(&[own, lazy]);
    let first = (start(own), start(lazy));
    let mut seen: HashSet<(ReadState, ReadState)> = [first].into();
    let mut open = vec![first];
    // Pairs of states of `lazy`: begun at an end of `own`, and begun with `own`.
    let mut pairs: HashSet<(ReadState, ReadState)> = HashSet::new();
    while let Some((state, of_lazy)) = open.pop() {
        for byte in both.iter().map(RangeInclusive::start) {
            let Some(state) = step(own, state, *byte) else { continue };
            match step(lazy, of_lazy, *byte) {
                Some(of_lazy) if accepts(lazy, of_lazy) => {}
                Some(of_lazy) => {
                    if accepts(own, state) {
                        pairs.insert((start(lazy), of_lazy));
                    }
                    if seen.insert((state, of_lazy)) {
                        open.push((state, of_lazy));
                    }
                }
                // Every state of `own` can reach an end, at which `lazy` would be closed.
                None => return Some((false, seen.len())),
            }
        }
        if seen.len() > limit {
            return None;
        }
    }
    let own = ranges(&[lazy]);
    let mut open: Vec<(ReadState, ReadState)> = pairs.iter().copied().collect();
    while let Some((anew, before)) = open.pop() {
        for byte in own.iter().map(RangeInclusive::start) {
            let Some(anew) = step(lazy, anew, *byte) else { continue };
            match step(lazy, before, *byte) {
                Some(before) if accepts(lazy, before) => {}
                Some(before) if !accepts(lazy, anew) => {
                    if pairs.insert((anew, before)) {
                        open.push((anew, before));
                    }
                }
                _ => return Some((false, seen.len() + pairs.len())),
            }
        }
        if seen.len() + pairs.len() > limit {
            return None;
        }
    }
    Some((true, seen.len() + pairs.len()))
}

/// The bytes that may follow in `state` of a lazy terminal.
pub(super) fn next_bytes(terminal: &Terminal, state: ReadState) -> ByteSet {
    let mut bytes = ByteSet::default();
    (0..=255u8).filter(|byte| step(terminal, state, *byte).is_some()).for_each(|byte| bytes.insert(byte));
    bytes
}

fn sorted(mut open: Open) -> Open {
    open.sort_unstable();
    open.dedup();
    open
}

/// The lazy terminals that are still open after `byte`, and whether any of them ends there.
fn step_all(grammar: &Grammar, open: &Open, byte: u8) -> (Open, bool) {
    let mut ends = false;
    let behind = open.iter().filter_map(|(rival, state)| {
        let terminal = grammar.terminal(*rival);
        let next = step(terminal, *state, byte)?;
        ends |= accepts(terminal, next);
        Some((*rival, next))
    });
    let behind = sorted(behind.collect());
    (behind, ends)
}

/// Ranges of bytes that none of `terminals` distinguishes.
fn ranges(terminals: &[&Terminal]) -> Vec<RangeInclusive<u8>> {
    let mut cuts = Cuts::default();
    for terminal in terminals {
        match terminal {
            Terminal::Literal(text) => cuts.bytes(text),
            // Their bytes are in no classes.
            Terminal::Difference(_) | Terminal::Distinct(_) | Terminal::Counted(_) => {
                (0..=255).for_each(|byte| cuts.around(byte, byte));
            }
            terminal => cuts.classes(automaton(terminal).classes()),
        }
    }
    cuts.ranges()
}
