//! The limits on the cost of a grammar, in one struct.
//!
//! Grammars are untrusted input, read from a text or built by a program. Each stage stops at a limit, and its
//! error names the value, the limit and the field to raise. Work is counted in steps and not in time, so that
//! a grammar that compiles on one machine compiles on every other.

use unskew_automata::Limits;

/// The limits of reading, compiling and using a grammar. Begin with the default and set fields.
///
/// ```
/// let mut limits = unskew_grammar::GrammarLimits::default();
/// limits.scratch_bytes = 16 << 20;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GrammarLimits {
    /// The length of the text of a grammar, in bytes. Default: 8 MiB.
    pub grammar_bytes: usize,
    /// The depth to which groups may nest in the text of a grammar. Default: 1,000,000. Nothing recurses, so
    /// the depth costs memory alone.
    pub nest: usize,
    /// The sum of rules, terminals and expression nodes. Default: 500,000. Each takes about 100 bytes while a
    /// text is read.
    pub nodes: usize,
    /// The number of positions in rules once repetitions are written out, as `x{3}` to `x x x`. It also
    /// bounds the states of the automata that compute the effect of lazy terminals. Default: 2^20.
    pub positions: usize,
    /// The greatest column at which a block may begin, in a grammar whose blocks are indented (`%declare`). Rules are
    /// written once for each. Default: 100.
    pub columns: u32,
    /// The size of the tables of one scratch, in bytes. A scratch that exceeds it drops its tables, except
    /// masks in recent use, and rebuilds them as needed. Default: 64 MiB.
    pub scratch_bytes: usize,
    /// The items of one parser state, including the items to which their rules return. They grow with the
    /// text only if a grammar is ambiguous and its readings cannot be merged, as for palindromes: by one or
    /// two items a token. A state beyond the limit has no continuation: its mask is empty, it does not
    /// accept, and [`advance`](unskew_core::Constraint::advance) names this limit in
    /// [`Rejected::limit`](unskew_core::Rejected::limit). Default: 2^16.
    pub state_items: usize,
    /// The work of one mask, and of one token, in steps: the items, frames and terminals of the parser states that
    /// it comes to, whether a scratch has them or not. A million take up to about 100 milliseconds; masks of
    /// programming languages take less than 30,000. A mask beyond the limit is empty, and
    /// [`advance`](unskew_core::Constraint::advance) names this limit in
    /// [`Rejected::limit`](unskew_core::Rejected::limit), as it does for a token beyond it. Default: 2^20.
    pub mask_steps: u64,
    /// The size of the tables of all terminal automata together, including the automata of their parts, in
    /// bytes. Default: 32 MiB.
    pub automata_bytes: usize,
    /// The size of the sets of tokens of all terminals with a budget of tokens, in bytes. Where the rules of one
    /// recur, each token that is read in one of its states counts as four bytes too. Default: 64 MiB.
    pub budget_bytes: usize,
    /// The partial readings of one output in the search for its captures. Each takes about 100 bytes. Default: 2
    /// million.
    pub capture_items: usize,
    /// The number of files that a grammar imports. Default: 1,000.
    pub files: usize,
    /// The limits of the terminals that are regular expressions.
    ///
    /// In a grammar that is read from a text, [`dfa_steps`](Limits::dfa_steps) bounds the work for all terminals
    /// together, and every automaton counts as at least 1,000 steps. Its [`cancel`](Limits::cancel) stops the
    /// reading of a text while an automaton is built. The other fields have the defaults of a single regex.
    ///
    /// | field | default |
    /// |---|--:|
    /// | `nfa_size` of one automaton | 1,000,000 |
    /// | `dfa_states` of one automaton | 2^17 |
    /// | `dfa_bytes` of one automaton | 48 MiB |
    /// | `dfa_steps` | 30,000,000 |
    pub regex: Limits,
}

impl Default for GrammarLimits {
    fn default() -> Self {
        Self {
            grammar_bytes: 8 << 20,
            nest: 1_000_000,
            nodes: 500_000,
            positions: 1 << 20,
            columns: 100,
            scratch_bytes: 64 << 20,
            state_items: 1 << 16,
            mask_steps: 1 << 20,
            automata_bytes: 32 << 20,
            budget_bytes: 64 << 20,
            capture_items: 2_000_000,
            files: 1_000,
            regex: Limits::default()
                .nfa_size(1_000_000)
                .dfa_states(1 << 17)
                .dfa_bytes(48 << 20)
                .dfa_steps(30_000_000),
        }
    }
}
