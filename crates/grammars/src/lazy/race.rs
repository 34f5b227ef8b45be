//! A terminal, read beside the lazy ones that are open: on which texts none of them ends first.

use std::collections::{BTreeMap, HashMap, HashSet};

use unskew_automata::{Dfa, DfaEdges, Limits, RegexError, StateId};
use unskew_trie::ByteSet;

use crate::grammar::data::{Grammar, Terminal, TerminalId};

/// Lazy terminals that are open, each with how far it is read; in ascending order.
pub(super) type Open = Vec<(TerminalId, u32)>;

/// How far the terminal is read; what was open before it began; and what began with it.
type Place = (u32, Open, Open);

/// Not yet begun: texts that are read here have at least one byte.
const START: u32 = u32::MAX;

/// A terminal beside what is open.
#[derive(Clone)]
pub(super) struct Race {
    /// By place: stretches of bytes, and the place behind them.
    edges: Vec<Vec<(u8, u8, u32)>>,
    /// By place where a text ends: its part.
    ends: BTreeMap<u32, usize>,
    /// By part: what is open behind its texts.
    pub(super) parts: Vec<Open>,
    /// Whether a text of the terminal is none of any part, as something ended first.
    pub(super) lost: bool,
    /// Whether the parts together are the terminal.
    pub(super) whole: bool,
}

impl Race {
    /// `terminal`, itself lazy or not, beside what was `open` before and the lazy ones that begin with it. `None` if it has
    /// more than `limit` places.
    pub(super) fn new(
        grammar: &Grammar,
        terminal: TerminalId,
        is_lazy: bool,
        open: &Open,
        rivals: &[TerminalId],
        limit: usize,
    ) -> Option<Self> {
        let own = grammar.terminal(terminal);
        if let Terminal::Token(_) = own {
            // A token has no bytes: nothing goes on with it.
            let ends = BTreeMap::new();
            return Some(Self {
                edges: Vec::new(),
                ends,
                parts: vec![Open::new()],
                lost: false,
                whole: true,
            });
        }
        let fresh: Open = rivals.iter().map(|rival| (*rival, start(grammar.terminal(*rival)))).collect();
        let mut machines: Vec<&Terminal> =
            open.iter().chain(&fresh).map(|(rival, _)| grammar.terminal(*rival)).collect();
        machines.push(own);
        let stretches = stretches(&machines);

        let mut race =
            Self { edges: Vec::new(), ends: BTreeMap::new(), parts: Vec::new(), lost: false, whole: false };
        let mut ids: HashMap<Place, u32> = HashMap::new();
        let mut part_of: HashMap<Open, usize> = HashMap::new();
        // What began with a terminal that is not lazy is held against it like all else.
        let first = match is_lazy {
            true => (START, open.clone(), fresh),
            false => (START, sorted(open.iter().chain(&fresh).copied().collect()), Open::new()),
        };
        let mut places = vec![first.clone()];
        ids.insert(first, 0);
        while let Some((state, older, fresh)) = places.get(race.edges.len()).cloned() {
            let at = u32::try_from(race.edges.len()).expect("limited");
            let ends = state != START && accepts(own, state);
            if ends {
                let left = if is_lazy { Open::new() } else { older.clone() };
                let parts = &mut race.parts;
                let part = *part_of.entry(left.clone()).or_insert_with(|| {
                    parts.push(left);
                    parts.len() - 1
                });
                race.ends.insert(at, part);
            }
            let mut edges: Vec<(u8, u8, u32)> = Vec::new();
            // Behind its first end a lazy terminal is over.
            let state = if state == START { start(own) } else { state };
            for (begin, end) in stretches.iter().filter(|_| !(ends && is_lazy)) {
                let Some(next) = step(own, state, *begin) else { continue };
                let (older, older_ends) = step_all(grammar, &older, *begin);
                let (fresh, fresh_ends) = step_all(grammar, &fresh, *begin);
                if older_ends || (fresh_ends && !accepts(own, next)) {
                    race.lost = true;
                    continue;
                }
                let place = (next, older, fresh);
                let to = *ids.entry(place.clone()).or_insert_with(|| {
                    places.push(place);
                    u32::try_from(places.len() - 1).expect("limited")
                });
                edges.push((*begin, *end, to));
            }
            race.edges.push(edges);
            if places.len() > limit {
                return None;
            }
        }
        // Parts have no empty text.
        let may_be_empty = accepts(own, start(own));
        race.whole = !race.lost && !may_be_empty;
        Some(race)
    }

    /// The number of places.
    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    /// The texts of these parts.
    pub(super) fn cut(&self, parts: &[usize], limits: &Limits) -> Result<Terminal, RegexError> {
        let mut dfa = DfaEdges::new(limits);
        for at in 0..self.edges.len() {
            let at = u32::try_from(at).expect("limited");
            dfa.state(self.ends.get(&at).is_some_and(|part| parts.contains(part)))?;
        }
        for (from, edges) in (0u32..).zip(&self.edges) {
            edges.iter().for_each(|(begin, end, to)| dfa.edge(from, *begin..=*end, *to));
        }
        Ok(Terminal::Automaton(dfa.build()?.into()))
    }
}

/// Whether two terminals, none of them a control token or both, have a text in common that is not empty, and the work to find out.
/// `None` if that takes more than `limit` pairs of states.
pub(super) fn share_a_text(
    grammar: &Grammar,
    left: TerminalId,
    right: TerminalId,
    limit: usize,
) -> Option<(bool, usize)> {
    let (left, right) = (grammar.terminal(left), grammar.terminal(right));
    if let (Terminal::Token(_), _) | (_, Terminal::Token(_)) = (left, right) {
        return Some((left == right, 1));
    }
    let stretches = stretches(&[left, right]);
    let mut seen: HashSet<(u32, u32)> = HashSet::new();
    let mut open = vec![(start(left), start(right))];
    while let Some((first, second)) = open.pop() {
        for (byte, _) in &stretches {
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

/// Whether `lazy`, open since a text of `own` began, is open behind each that it does not end in, and ends no later there than if it
/// were begun anew; and the work to find out. `None` if that takes more than `limit` pairs of states.
pub(super) fn stays_open(own: &Terminal, lazy: &Terminal, limit: usize) -> Option<(bool, usize)> {
    if let Terminal::Token(_) = own {
        return Some((false, 1));
    }
    let both = stretches(&[own, lazy]);
    let first = (start(own), start(lazy));
    let mut seen: HashSet<(u32, u32)> = [first].into();
    let mut open = vec![first];
    // The beginning, and what is open at an end.
    let mut pairs: HashSet<(u32, u32)> = HashSet::new();
    while let Some((state, of_lazy)) = open.pop() {
        for (byte, _) in &both {
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
                // Every state of a terminal leads to an end.
                None => return Some((false, seen.len())),
            }
        }
        if seen.len() > limit {
            return None;
        }
    }
    let own = stretches(&[lazy]);
    let mut open: Vec<(u32, u32)> = pairs.iter().copied().collect();
    while let Some((anew, before)) = open.pop() {
        for (byte, _) in &own {
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

/// The bytes with which a lazy terminal goes on.
pub(super) fn next_bytes(terminal: &Terminal, state: u32) -> ByteSet {
    let mut bytes = ByteSet::default();
    (0..=255u8).filter(|byte| step(terminal, state, *byte).is_some()).for_each(|byte| bytes.insert(byte));
    bytes
}

fn sorted(mut open: Open) -> Open {
    open.sort_unstable();
    open.dedup();
    open
}

/// What is still open behind `byte`, and whether any of it ends there.
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

/// Stretches of bytes that none of `terminals` tells apart.
fn stretches(terminals: &[&Terminal]) -> Vec<(u8, u8)> {
    let mut begins = [false; 256];
    begins[0] = true;
    let mut begin = |byte: u8| {
        begins[usize::from(byte)] = true;
        if let Some(next) = byte.checked_add(1) {
            begins[usize::from(next)] = true;
        }
    };
    for terminal in terminals {
        match terminal {
            Terminal::Literal(text) => text.iter().for_each(|byte| begin(*byte)),
            terminal => {
                let classes = automaton(terminal).classes();
                (1..=255u8).filter(|byte| classes.get(*byte) != classes.get(byte - 1)).for_each(&mut begin);
            }
        }
    }
    let firsts: Vec<u8> = (0..=255u8).filter(|byte| begins[usize::from(*byte)]).collect();
    let ends = firsts.iter().skip(1).map(|next| next - 1).chain([255]);
    firsts.iter().copied().zip(ends).collect()
}

fn automaton(terminal: &Terminal) -> &Dfa {
    match terminal {
        Terminal::Automaton(dfa) => dfa,
        _ => unreachable!("terminals of a text are literals, automata and control tokens"),
    }
}

fn start(terminal: &Terminal) -> u32 {
    match terminal {
        Terminal::Literal(_) => 0,
        terminal => id(automaton(terminal).start()),
    }
}

fn step(terminal: &Terminal, state: u32, byte: u8) -> Option<u32> {
    match terminal {
        Terminal::Literal(text) => (text.get(state as usize) == Some(&byte)).then_some(state + 1),
        terminal => automaton(terminal).step(StateId::from_index(state as usize), byte).map(id),
    }
}

fn accepts(terminal: &Terminal, state: u32) -> bool {
    match terminal {
        Terminal::Literal(text) => state as usize == text.len(),
        terminal => automaton(terminal).is_accepting(StateId::from_index(state as usize)),
    }
}

fn id(state: StateId) -> u32 {
    u32::try_from(state.index()).expect("limited")
}
