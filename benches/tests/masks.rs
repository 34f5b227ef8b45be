//! Along the documents of the workloads, masks are those of the slow oracle: Earley's algorithm over single bytes,
//! which the tests of the grammars were written with, asked for every token of the vocabulary.
//!
//! Over the embedded vocabulary, and over cl100k if `UNSKEW_DATA` has it. There the oracle takes seconds for a mask;
//! `UNSKEW_MASKS` is the number of masks for each grammar and vocabulary.

use std::sync::Arc;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_benches::{Subject, subject, workloads};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_grammar::GrammarLimits;
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarOptions, from_lark};

#[allow(dead_code, reason = "the tests of the grammars use all of it")]
#[path = "../../crates/grammars/tests/integration/common/oracle.rs"]
mod oracle;

use oracle::{Alphabet, Oracle, bytes};

#[test]
fn masks_along_documents_are_those_of_the_oracle() {
    let masks: usize = std::env::var("UNSKEW_MASKS").map_or(2, |masks| masks.parse().expect("a number"));
    for name in ["tiny", "cl100k"] {
        let Some(subject) = subject(name).unwrap() else { continue };
        let trie = Arc::clone(&subject.trie);
        let library = Arc::new(TreeLibrary::new(trie, 256 << 20));
        let limits = GrammarLimits::default();
        let mut rng = ChaCha8Rng::seed_from_u64(31);
        for case in workloads::cases() {
            let grammar = from_lark(&case.pattern, &GrammarOptions::default(), &limits).unwrap();
            let constraint = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
            let oracle = Oracle::new(&grammar, &Alphabet::of(&subject.vocabulary));
            for _ in 0..masks {
                let text = &case.samples[rng.next_u32() as usize % case.samples.len()];
                let ids = subject.tokenizer.encode_continuation(text).unwrap();
                let read = &ids[..rng.next_u32() as usize % (ids.len() + 1)];
                compare(&constraint, &oracle, &subject, read, case.name);
            }
        }
    }
}

/// Compares the mask after `read`.
fn compare(
    constraint: &GrammarConstraint,
    oracle: &Oracle,
    subject: &Subject,
    read: &[TokenId],
    grammar: &str,
) {
    let vocabulary = &subject.vocabulary;
    let (mut scratch, mut state, mut chart) = (constraint.scratch(), constraint.start(), oracle.chart());
    for token in read {
        constraint.advance(&mut scratch, &mut state, *token).unwrap();
        let text = vocabulary.text(*token).expect("documents are text");
        assert!(bytes(text).iter().all(|input| chart.push(input)), "{grammar}: the oracle refuses {read:?}");
    }
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(&mut scratch, &state, mask.as_mut());
    let place = || format!("{grammar}, {}, after {:?}", subject.name, vocabulary.decode(read).escape_ascii());
    assert_eq!(constraint.is_accepting(&state), chart.is_accepting(), "{}", place());
    let ours: Vec<TokenId> = mask.ids().filter(|id| !vocabulary.is_end_of_sequence(*id)).collect();
    let expected = chart.mask(vocabulary);
    let differs = |id: &&TokenId| ours.binary_search(id).is_err() || expected.binary_search(id).is_err();
    let wrong: Vec<_> = ours.iter().chain(&expected).filter(differs).map(|id| vocabulary.name(*id)).collect();
    assert!(wrong.is_empty(), "{}: {wrong:?}", place());
}
