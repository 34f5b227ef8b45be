//! Terminals as the scanner reads them: automata over bytes, and the classes of bytes that none of them tells apart.
//!
//! Nothing is copied and nothing determinised anew: a terminal's automaton is minimal already and shared, and a literal is
//! its own bytes. One automaton over all terminals at once, as lexers have it, would be made of sets of terminals that never
//! follow the same place; the sets that do occur come out of the parser's states.

use std::{collections::HashMap, sync::Arc};

use unskew_automata::{Dfa, StateId};
use unskew_core::{TokenId, TokenTrie, Vocabulary};

use crate::{
    GrammarError,
    grammar::{Grammar, Terminal},
    rules::NONE,
};

/// A terminal that reads bytes, or a control token.
#[derive(Debug)]
enum Scanner {
    /// The state is the number of bytes read.
    Literal(Box<[u8]>),
    /// The automaton, and by state whether a text must end there.
    Automaton(Arc<Dfa>, Box<[bool]>),
    Token(TokenId),
}

/// The terminals of a grammar over a vocabulary.
#[derive(Debug)]
pub(crate) struct Terminals {
    scanners: Vec<Scanner>,
    /// The class of each byte.
    classes: Box<[u8; 256]>,
    /// A byte of each class.
    bytes: Vec<u8>,
}

impl Terminals {
    /// # Errors
    ///
    /// [`GrammarError::UnknownToken`] and [`GrammarError::UnspelledByte`].
    pub(crate) fn new(
        grammar: &Grammar,
        is_used: impl Fn(u32) -> bool,
        vocabulary: &Vocabulary,
        trie: &TokenTrie,
    ) -> Result<Self, GrammarError> {
        let mut controls: Option<HashMap<String, TokenId>> = None;
        let mut used = [false; 256];
        let mut scanners = Vec::with_capacity(grammar.terminals().len());
        let mut begins = [false; 257];
        for terminal in grammar.terminals() {
            let is_used = is_used(terminal.0);
            scanners.push(match grammar.terminal(terminal) {
                Terminal::Literal(text) => {
                    for byte in text.iter().filter(|_| is_used) {
                        used[usize::from(*byte)] = true;
                        begins[usize::from(*byte)] = true;
                        begins[usize::from(*byte) + 1] = true;
                    }
                    Scanner::Literal(text.clone())
                }
                Terminal::Automaton(dfa) => {
                    if is_used {
                        dfa.bytes().for_each(|byte| used[usize::from(byte)] = true);
                        let classes = dfa.classes();
                        for byte in 1..=255u8 {
                            begins[usize::from(byte)] |= classes.get(byte) != classes.get(byte - 1);
                        }
                    }
                    Scanner::Automaton(Arc::clone(dfa), ends(dfa))
                }
                Terminal::Token(name) => {
                    let controls = controls.get_or_insert_with(|| {
                        let names = vocabulary.control_tokens();
                        names.map(|(token, name)| (name.into_owned(), token)).collect()
                    });
                    let Some(token) = controls.get(&**name) else {
                        return Err(GrammarError::UnknownToken { name: name.to_string() });
                    };
                    Scanner::Token(*token)
                }
            });
        }
        // Where every byte is a token by itself, every text is spelled by tokens.
        if let Some(byte) = (0..=255).find(|byte| used[usize::from(*byte)] && !trie.spells(*byte)) {
            return Err(GrammarError::UnspelledByte { byte });
        }
        let mut terminals = Self { scanners, classes: Box::new([0; 256]), bytes: vec![0] };
        for byte in 1..=255u8 {
            if begins[usize::from(byte)] {
                terminals.bytes.push(byte);
            }
            let class = terminals.bytes.len() - 1;
            terminals.classes[usize::from(byte)] = u8::try_from(class).expect("256 bytes, 256 classes");
        }
        Ok(terminals)
    }

    /// The number of classes.
    pub(crate) fn width(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    /// The state of `terminal` behind the first byte of a text, or [`NONE`].
    #[inline]
    pub(crate) fn first(&self, terminal: u32, class: u8) -> u32 {
        let start = match &self.scanners[terminal as usize] {
            Scanner::Literal(_) | Scanner::Token(_) => 0,
            Scanner::Automaton(dfa, _) => dfa.start().index(),
        };
        self.step(terminal, u32::try_from(start).expect("limited"), class)
    }

    /// The state of `terminal` behind one more byte, or [`NONE`].
    #[inline]
    pub(crate) fn step(&self, terminal: u32, state: u32, class: u8) -> u32 {
        let byte = self.bytes[usize::from(class)];
        match &self.scanners[terminal as usize] {
            Scanner::Literal(text) => match text.get(state as usize) {
                Some(next) if *next == byte => state + 1,
                _ => NONE,
            },
            Scanner::Automaton(dfa, _) => match dfa.step(StateId::from_index(state as usize), byte) {
                Some(next) => u32::try_from(next.index()).expect("limited"),
                None => NONE,
            },
            Scanner::Token(_) => NONE,
        }
    }

    /// Whether a text of `terminal` may end in `state`, which is behind at least one byte.
    #[inline]
    pub(crate) fn is_accepting(&self, terminal: u32, state: u32) -> bool {
        match &self.scanners[terminal as usize] {
            Scanner::Literal(text) => state as usize == text.len(),
            Scanner::Automaton(dfa, _) => dfa.is_accepting(StateId::from_index(state as usize)),
            Scanner::Token(_) => false,
        }
    }

    /// Whether a text of `terminal` must end in `state`.
    #[inline]
    pub(crate) fn is_final(&self, terminal: u32, state: u32) -> bool {
        match &self.scanners[terminal as usize] {
            Scanner::Literal(text) => state as usize == text.len(),
            Scanner::Automaton(_, ends) => ends[state as usize],
            Scanner::Token(_) => false,
        }
    }

    /// The control token that `terminal` is.
    #[inline]
    pub(crate) fn token(&self, terminal: u32) -> Option<TokenId> {
        match &self.scanners[terminal as usize] {
            Scanner::Token(token) => Some(*token),
            Scanner::Literal(_) | Scanner::Automaton(..) => None,
        }
    }
}

/// By state: whether nothing follows it.
fn ends(dfa: &Dfa) -> Box<[bool]> {
    let bytes: Vec<u8> = dfa.classes().representatives().collect();
    let ends = |state| dfa.is_accepting(state) && bytes.iter().all(|byte| dfa.step(state, *byte).is_none());
    dfa.states().map(ends).collect()
}
