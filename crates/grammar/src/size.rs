//! The size of a grammar.

use crate::{Grammar, Terminal, analysis::places};

/// The size of a grammar, as a summary for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GrammarSize {
    /// The number of rules.
    pub rules: usize,
    /// The number of distinct terminals.
    pub terminals: usize,
    /// The number of uses of terminals and rules in all bodies once repetitions are written out.
    pub places: u64,
    /// The number of states of the terminal automata together.
    pub states: usize,
}

impl Grammar {
    /// The size of this grammar. O(n) for n expressions, rules and terminals.
    pub fn size(&self) -> GrammarSize {
        let places = places(self);
        let states = self.terminals().map(|terminal| match self.terminal(terminal) {
            Terminal::Automaton(dfa) => dfa.len(),
            Terminal::Difference(difference) | Terminal::Distinct(difference) => difference.base().len(),
            Terminal::Counted(counted) if counted.is_all() => counted.unit().len(),
            Terminal::Counted(counted) => counted.dfa().len(),
            Terminal::Literal(_)
            | Terminal::Token(_)
            | Terminal::Tokens(_)
            | Terminal::OneOf(_)
            | Terminal::TokenBudget(_) => 0,
        });
        GrammarSize {
            rules: self.rules().len(),
            terminals: self.terminals().len(),
            places: self.rules().fold(0, |sum, rule| sum.saturating_add(places[self.body(rule).index()])),
            states: states.sum(),
        }
    }
}
