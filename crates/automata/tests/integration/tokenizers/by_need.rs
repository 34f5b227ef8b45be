//! The times and the contract of constraints that are completed by need, and, with the feature `published`, their masks
//! against the same constraints completed whole. The two share the automata but not the code that finds dead ends, and
//! they must allow the same tokens in every position.

use unskew_automata::CanonicalError;
use unskew_core::{Constraint, TokenMask, conformance};
use unskew_vocab::Tokenizer;

use crate::{
    common::{Random, Subject, built},
    tokenizers::{DEBUG, KNOWN},
};

#[cfg(feature = "published")]
mod whole;

/// If every path is long and no piece ends, a search must not visit all paths.
#[test]
fn long_words_of_few_letters_are_completed_at_once() {
    for subject in KNOWN.iter() {
        for pattern in [
            r"[acgt]{400}",
            r"[ab]{1000}x",
            r"a{3000}",
            r" {700}",
            r"[a-f]{300}",
            r"[a-z]{250}",
            r"\p{Han}{300}",
        ] {
            let constraint = subject.constraint(pattern).unwrap();
            let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
            let mut mask = TokenMask::new(constraint.vocab_len());
            let begin = std::time::Instant::now();
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            let first = begin.elapsed();
            let mut random = Random::new(7);
            while !constraint.is_accepting(&state) {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                let token = subject.choose(&mut random, mask.words()).expect("no dead end");
                constraint.advance(&mut scratch, &mut state, token).unwrap();
            }
            println!("{}, {pattern}: first mask {first:.1?}, all {:.1?}", subject.name, begin.elapsed());
        }
    }
}

#[test]
fn constraints_by_need_keep_the_contract() {
    let built = built::all(3);
    for built in built.iter().step_by(if DEBUG { 18 } else { 2 }) {
        let tokenizer = Tokenizer::from_bytes(built.file.to_string().as_bytes()).unwrap();
        let subject = Subject::new(&built.name, tokenizer, None).unwrap();
        for pattern in [r"(ab|a b|a\n|1{1,3}|é){0,6}", r"[a-c 1]{3,4}>?"] {
            match subject.constraint(pattern) {
                Ok(constraint) => conformance::check_constraint(&constraint, 2)
                    .unwrap_or_else(|error| panic!("{}, {pattern}: {error}", subject.name)),
                Err(CanonicalError::NothingCanonical { .. }) => {}
                Err(error) => panic!("{}, {pattern}: {error}", subject.name),
            }
        }
    }
}
