//! Every bound on what a grammar may cost, in one place.
//!
//! A grammar comes from outside, as text or built by a program. Each stage stops at a limit, and its error names the
//! value, the limit and the field to raise. Work is counted in steps and not in time, so that a grammar that compiles on
//! one machine compiles on every other.

use unskew_automata::Limits;

/// What reading, compiling and using a grammar may cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrammarLimits {
    /// The length of a grammar's text, in bytes. Default: 8 MiB.
    pub grammar_bytes: usize,
    /// How deep groups may nest in a grammar's text. Default: 1,000,000: nothing recurses, so it bounds memory alone.
    pub nest: usize,
    /// Rules, terminals and nodes of expressions together. Default: 500,000. While a
    /// text is read they take about 100 bytes each.
    pub nodes: usize,
    /// Places inside rules once repetitions are written out, as `x{3}` to `x x x`; and states of the automata that find out what
    /// lazy terminals take away. Default: 2^20.
    pub positions: usize,
    /// What the tables of one scratch may take, in bytes; beyond it they are built again. Default: 64 MiB.
    pub scratch_bytes: usize,
    /// The items of one state of the parser, with those that their rules return to. They grow with the text only where a grammar is
    /// ambiguous in such a way that they cannot be merged, as palindromes are: by one or two a token. Nothing follows a state
    /// that has more: masks are empty, it does not accept, and [`advance`](unskew_core::Constraint::advance) names this limit in
    /// [`Rejected::limit`](unskew_core::Rejected::limit). Default: 2^20.
    pub state_items: usize,
    /// What the tables of the automata of terminals take together, those of their parts included, in bytes. Default: 32
    /// MiB.
    pub automata_bytes: usize,
    /// The work to find out that a grammar has no dead ends under maximal munch, in steps; it bounds the memory for that too.
    /// Default: 100 million.
    pub munch_steps: u64,
    /// For the terminals that are regular expressions. In a grammar that is read from a text,
    /// [`dfa_steps`](Limits::dfa_steps) bounds the work for all terminals together, and every automaton counts as at least
    /// 1,000 steps. Default: 2^17 states, 24 MiB and an NFA of a million for each automaton, 30 million steps; else as for
    /// a single regex. Its [`cancel`](Limits::cancel) ends the reading of a text while such an automaton is made.
    pub regex: Limits,
}

impl Default for GrammarLimits {
    fn default() -> Self {
        Self {
            grammar_bytes: 8 << 20,
            nest: 1_000_000,
            nodes: 500_000,
            positions: 1 << 20,
            scratch_bytes: 64 << 20,
            state_items: 1 << 20,
            automata_bytes: 32 << 20,
            munch_steps: 100_000_000,
            regex: Limits {
                nfa_size: 1_000_000,
                dfa_states: 1 << 17,
                dfa_bytes: 24 << 20,
                dfa_steps: 30_000_000,
                ..Limits::default()
            },
        }
    }
}
