//! The cases of the grammar engines: nine grammars in Lark, each with documents.
//!
//! The grammars (`benches/grammars/*.lark`) keep to the part of Lark that llguidance, glrmask and ours read alike, so
//! that one text serves all engines. The documents are made by programs from a fixed seed: they are meant to look
//! like answers of a model (names, prose in strings, plausible code), 200 to 2,500 bytes long, and every run has the
//! same ones. They are no sample of a model's outputs.

mod arithmetic;
mod c;
mod calls;
mod json;
mod lark;
pub(crate) mod published;
mod python;
mod random;
mod smt;
mod sql;
mod words;
mod xml;

use random::Random;

use crate::suite::Case;

/// How many documents each grammar has.
const DOCUMENTS: usize = 24;

/// The grammars with their documents.
pub fn cases() -> Vec<Case> {
    let make = |name, grammar: &'static str, document: fn(&mut Random) -> String| {
        let mut random = Random::new(name);
        let samples = (0..DOCUMENTS).map(|_| document(&mut random).into()).collect();
        Case { name, pattern: grammar.into(), samples, json: matches!(name, "json" | "calls") }
    };
    vec![
        make("json", include_str!("../../grammars/json.lark"), json::document),
        make("calls", include_str!("../../grammars/calls.lark"), calls::document),
        make("c", include_str!("../../grammars/c.lark"), c::document),
        make("xml", include_str!("../../grammars/xml.lark"), xml::document),
        make("sql", include_str!("../../grammars/sql.lark"), sql::document),
        make("arithmetic", include_str!("../../grammars/arithmetic.lark"), arithmetic::document),
        make("smt", include_str!("../../grammars/smt.lark"), smt::document),
        make("python", include_str!("../../grammars/python.lark"), python::document),
        make("lark", include_str!("../../grammars/lark.lark"), lark::document),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unskew_core::{Constraint, TokenId, Vocabulary};
    use unskew_grammar::GrammarLimits;
    use unskew_grammars::GrammarConstraint;
    use unskew_notation::{GrammarOptions, from_lark};
    use unskew_trie::TokenTrie;

    use super::*;

    #[test]
    fn documents_are_of_their_grammars() {
        let mut vocabulary = Vocabulary::builder();
        for byte in 0..=255u8 {
            vocabulary.text(&[byte]);
        }
        let trie = Arc::new(TokenTrie::new(vocabulary.build().unwrap()).unwrap());
        let limits = GrammarLimits::default();
        for case in cases() {
            let grammar = from_lark(&case.pattern, &GrammarOptions::default(), &limits)
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let constraint = GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap();
            let mut scratch = constraint.scratch();
            for text in &case.samples {
                let mut state = constraint.start();
                let read = text
                    .bytes()
                    .take_while(|byte| {
                        constraint.advance(&mut scratch, &mut state, TokenId(u32::from(*byte))).is_ok()
                    })
                    .count();
                assert!(read == text.len(), "{}: {}<!>{}", case.name, &text[..read], &text[read..]);
                assert!(constraint.is_accepting(&state), "{}: {text}", case.name);
            }
        }
    }

    #[test]
    fn documents_have_the_lengths_that_are_promised() {
        for case in cases() {
            assert!(case.samples.len() >= 20);
            for (index, text) in case.samples.iter().enumerate() {
                assert!((200..=2_500).contains(&text.len()), "{}: {} bytes:\n{text}", case.name, text.len());
                assert!(!case.samples[..index].contains(text), "{}: twice:\n{text}", case.name);
            }
        }
    }
}
