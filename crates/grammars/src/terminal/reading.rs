//! Terminals of text, byte by byte: what is the same for all kinds of them.

use unskew_automata::{Dfa, StateId};

use super::{ReadState, ScanState};
use crate::{Terminal, ids::Id};

/// The automaton of a terminal that is none of the others.
pub(crate) fn automaton(terminal: &Terminal) -> &Dfa {
    match terminal {
        Terminal::Automaton(dfa) => dfa,
        _ => unreachable!("control tokens have no bytes"),
    }
}

/// The state before a text.
pub(crate) fn start(terminal: &Terminal) -> ReadState {
    match terminal {
        Terminal::Literal(_) => ReadState::of(0),
        Terminal::Difference(difference) | Terminal::Distinct(difference) => read_scan(difference.start()),
        Terminal::BoundedRepetition(repetition) => read_scan(repetition.start()),
        Terminal::BoundedLength(length) => read_scan(length.start()),
        terminal => read_state(automaton(terminal).start()),
    }
}

/// The state after one more byte.
pub(crate) fn step(terminal: &Terminal, state: ReadState, byte: u8) -> Option<ReadState> {
    let scan = ScanState::from_index(state.index());
    match terminal {
        Terminal::Literal(text) => {
            (text.get(state.index()) == Some(&byte)).then(|| ReadState::from_index(state.index() + 1))
        }
        Terminal::Difference(difference) | Terminal::Distinct(difference) => {
            difference.step(scan, byte).map(read_scan)
        }
        Terminal::BoundedRepetition(repetition) => repetition.step(scan, byte).map(read_scan),
        Terminal::BoundedLength(length) => length.step(scan, byte).map(read_scan),
        terminal => automaton(terminal).step(StateId::from_index(state.index()), byte).map(read_state),
    }
}

/// Whether a text may end in the state.
pub(crate) fn accepts(terminal: &Terminal, state: ReadState) -> bool {
    let scan = ScanState::from_index(state.index());
    match terminal {
        Terminal::Literal(text) => state.index() == text.len(),
        Terminal::Difference(difference) | Terminal::Distinct(difference) => difference.is_accepting(scan),
        Terminal::BoundedRepetition(repetition) => repetition.is_accepting(scan),
        Terminal::BoundedLength(length) => length.is_accepting(scan),
        terminal => automaton(terminal).is_accepting(StateId::from_index(state.index())),
    }
}

fn read_scan(state: ScanState) -> ReadState {
    ReadState::from_index(state.index())
}

fn read_state(state: StateId) -> ReadState {
    ReadState::from_index(state.index())
}
