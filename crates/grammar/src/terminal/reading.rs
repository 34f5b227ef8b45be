//! Terminals of text, byte by byte.
//!
//! All of them but literals are one thing: an automaton, perhaps with a [count](super::counted) of units, perhaps
//! [without some texts](super::difference). Their subterminal trees are those of the automaton, selected by the count;
//! tokens that end a text which is left out are found and removed.

use std::sync::Arc;

use unskew_automata::{Dfa, StateId};
use unskew_core::ids::Id;
use unskew_trie::ByteSet;

use super::{ReadState, ScanState, counted::CountedUnits, difference::Difference};
use crate::Terminal;

/// How a terminal of text is scanned that is no literal.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'t> {
    /// Its automaton.
    pub dfa: &'t Arc<Dfa>,
    /// The bounds on its units, if it has any.
    pub count: Option<&'t CountedUnits>,
    /// The same automaton, without some texts.
    pub except: Option<&'t Difference>,
}

impl<'t> Scan<'t> {
    /// `None` for literals and tokens.
    #[inline]
    pub fn of(terminal: &'t Terminal) -> Option<Self> {
        Some(match terminal {
            Terminal::Automaton(dfa) => Self { dfa, count: None, except: None },
            Terminal::Counted(count) => Self { dfa: count.dfa(), count: Some(count), except: None },
            Terminal::Difference(except) | Terminal::Distinct(except) => {
                Self { dfa: except.base(), count: None, except: Some(except) }
            }
            Terminal::Literal(_)
            | Terminal::Token(_)
            | Terminal::TokenBudget(_)
            | Terminal::Tokens(_)
            | Terminal::OneOf(_) => return None,
        })
    }

    /// The state before a text.
    #[inline]
    pub fn start(self) -> ScanState {
        match self {
            Self { count: Some(count), .. } => count.start(),
            Self { except: Some(except), .. } => except.start(),
            Self { dfa, .. } => ScanState::from_index(dfa.start().index()),
        }
    }

    /// The state after `byte`, if there is one.
    #[inline]
    pub fn step(self, state: ScanState, byte: u8) -> Option<ScanState> {
        match self {
            Self { count: Some(count), .. } => count.step(state, byte),
            Self { except: Some(except), .. } => except.step(state, byte),
            Self { dfa, .. } => {
                let next = dfa.step(StateId::from_index(state.index()), byte)?;
                Some(ScanState::from_index(next.index()))
            }
        }
    }

    /// The state of the automaton.
    #[inline]
    pub fn at(self, state: ScanState) -> StateId {
        match self {
            Self { count: Some(count), .. } => count.at(state),
            Self { except: Some(except), .. } => except.state(state),
            Self { .. } => StateId::from_index(state.index()),
        }
    }

    /// Whether a text may end in the state.
    #[inline]
    pub fn accepts(self, state: ScanState) -> bool {
        match self.except {
            Some(except) => except.is_accepting(state),
            None => self.dfa.is_accepting(self.at(state)),
        }
    }

    /// Calls `each` with the bytes that may be read in the state; with more of them where texts are left out.
    pub fn next_bytes(self, state: ScanState, mut each: impl FnMut(u8)) {
        let goes_on = |byte: &u8| self.count.is_none_or(|count| count.step(state, *byte).is_some());
        for edge in self.dfa.edges(self.at(state)) {
            edge.bytes.filter(goes_on).for_each(&mut each);
        }
    }
}

/// The first bytes of texts of `terminal`; more of them if it is a difference.
pub fn first_bytes(terminal: &Terminal) -> ByteSet {
    let mut first = ByteSet::default();
    if let Terminal::Literal(text) = terminal {
        first.insert(text[0]);
    } else if let Some(scan) = Scan::of(terminal) {
        scan.next_bytes(scan.start(), |byte| first.insert(byte));
    }
    first
}

/// The automaton of a terminal that has no other part.
#[inline]
pub fn automaton(terminal: &Terminal) -> &Dfa {
    scan(terminal).dfa
}

/// The state before a text.
pub fn start(terminal: &Terminal) -> ReadState {
    match terminal {
        Terminal::Literal(_) => ReadState::of(0),
        terminal => scan(terminal).start().into(),
    }
}

/// The state after one more byte.
#[inline]
pub fn step(terminal: &Terminal, state: ReadState, byte: u8) -> Option<ReadState> {
    match terminal {
        Terminal::Literal(text) => {
            (text.get(state.index()) == Some(&byte)).then(|| ReadState::from_index(state.index() + 1))
        }
        terminal => scan(terminal).step(ScanState::of(state.raw()), byte).map(ReadState::from),
    }
}

/// Whether a text may end in the state.
#[inline]
pub fn accepts(terminal: &Terminal, state: ReadState) -> bool {
    match terminal {
        Terminal::Literal(text) => state.index() == text.len(),
        terminal => scan(terminal).accepts(ScanState::of(state.raw())),
    }
}

fn scan(terminal: &Terminal) -> Scan<'_> {
    Scan::of(terminal).expect("control tokens have no bytes")
}
