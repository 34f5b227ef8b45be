//! Any text as a grammar in Lark: an error of one line with its place, or a grammar with a finite analysis.
//!
//! The limits are small, so that a run is spent on many grammars and not on a few huge ones.

#![no_main]

use libfuzzer_sys::fuzz_target;
use unskew_automata::Limits;
use unskew_grammars::{Grammar, GrammarError, GrammarFormat, GrammarLimits, explain};

fuzz_target!(|text: &str| {
    let regex = Limits { nfa_size: 20_000, dfa_states: 2_000, dfa_steps: 2_000_000, ..Limits::default() };
    let limits = GrammarLimits { nodes: 20_000, automata_bytes: 1 << 22, regex, ..GrammarLimits::default() };
    assert!(!explain(text, GrammarFormat::Lark, &limits).iter().any(|fate| fate.why.is_empty()));
    match Grammar::parse(text, GrammarFormat::Lark, &limits) {
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
});
