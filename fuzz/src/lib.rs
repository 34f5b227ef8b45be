//! Parts that several targets share: choices, and the body of the targets that read grammars.
//!
//! This is a library and not a file next to the targets, because `cargo xtask fuzz` treats every file there
//! as a target.

use unskew_automata::Limits;
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_notation::{GrammarFormat, GrammarOptions, explain};

/// A list of choices, followed by infinitely many zeros.
#[derive(Debug)]
pub struct Choices<'a>(std::slice::Iter<'a, u8>);

impl<'a> Choices<'a> {
    /// Uses the bytes as choices.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    /// The next choice, unchanged; `None` at the end of the list.
    pub fn byte(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    /// The remaining choices.
    pub fn rest(&self) -> &'a [u8] {
        self.0.as_slice()
    }

    /// A number less than `below`, which must be at least 1.
    pub fn next(&mut self, below: usize) -> usize {
        usize::from(self.byte().unwrap_or(0)) % below
    }

    /// An element of `list`.
    pub fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.next(list.len())]
    }
}

/// Reads any text as a grammar. The result is an error of one line with a location, or a grammar that can be
/// analysed.
///
/// The limits are small, so that a run covers many grammars and not a few huge ones.
pub fn read_grammar(text: &str, format: GrammarFormat) {
    let regex = Limits::default().nfa_size(20_000).dfa_states(2_000).dfa_steps(2_000_000);
    let mut limits = GrammarLimits::default();
    (limits.nodes, limits.automata_bytes, limits.regex) = (20_000, 1 << 22, regex);
    let options = GrammarOptions::default();
    assert!(!explain(text, format, &options, &limits).iter().any(|fate| fate.why.is_empty()));
    match unskew_notation::parse(text, format, &options, &limits) {
        Ok(grammar) => {
            let analysis = grammar.analysis();
            match grammar.trimmed() {
                Ok(trimmed) => assert!(trimmed.expressions() <= grammar.expressions()),
                Err(GrammarError::Empty { .. }) => assert!(!analysis.rule(grammar.start()).productive),
                Err(error) => panic!("{error}"),
            }
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            if let Some(location) = error.location() {
                assert!(text.is_char_boundary(location.offset));
            }
        }
    }
}
