//! No dead ends on the grammars of the benchmark: along random outputs, some token may follow or the output may end;
//! and a state that was come to by forks is the one that a replay comes to.
//!
//! `UNSKEW_WALKS` is the number of outputs for each grammar; a million of them take some minutes a grammar in release.

use std::sync::Arc;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_benches::{subject, workloads};
use unskew_core::{Constraint, TokenId, TokenMask};
use unskew_grammar::GrammarLimits;
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarOptions, from_lark};

/// Tokens of an output.
const LENGTH: usize = 24;

/// Every so often an output is read again from the beginning.
const REPLAYED: usize = 50;

fn below(rng: &mut ChaCha8Rng, limit: usize) -> usize {
    rng.next_u32() as usize % limit
}

#[test]
fn random_outputs_of_the_workloads_meet_no_dead_ends() {
    let walks = std::env::var("UNSKEW_WALKS").map_or(40, |walks| walks.parse().expect("a number"));
    let subject = subject("tiny").unwrap().expect("it is embedded");
    let library = Arc::new(TreeLibrary::new(Arc::clone(&subject.trie), 256 << 20));
    let limits = GrammarLimits::default();
    for case in workloads::cases() {
        let grammar = from_lark(&case.pattern, &GrammarOptions::default(), &limits).unwrap();
        let constraint = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
        let (mut scratch, mut rng) = (constraint.scratch(), ChaCha8Rng::seed_from_u64(23));
        let (mut mask, mut again) =
            (TokenMask::new(constraint.vocab_len()), TokenMask::new(constraint.vocab_len()));
        for walk in 0..walks {
            let mut state = constraint.start();
            let mut path: Vec<TokenId> = Vec::new();
            while path.len() < LENGTH {
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                let allowed: Vec<TokenId> = mask.ids().collect();
                if allowed.is_empty() {
                    assert!(constraint.is_accepting(&state), "{}: a dead end after {path:?}", case.name);
                    break;
                }
                let token = allowed[below(&mut rng, allowed.len())];
                let before = state.clone();
                constraint.advance(&mut scratch, &mut state, token).unwrap();
                // A fork that takes another token and is dropped leaves no trace.
                let other = allowed[below(&mut rng, allowed.len())];
                constraint.advance(&mut scratch, &mut before.clone(), other).unwrap();
                path.push(token);
            }
            if walk % REPLAYED == 0 {
                let (mut fresh, mut replayed) = (constraint.scratch(), constraint.start());
                path.iter().for_each(|token| constraint.advance(&mut fresh, &mut replayed, *token).unwrap());
                constraint.fill_mask(&mut scratch, &state, mask.as_mut());
                constraint.fill_mask(&mut fresh, &replayed, again.as_mut());
                assert_eq!(mask.words(), again.words(), "{}: after {path:?}", case.name);
                assert_eq!(constraint.is_accepting(&state), constraint.is_accepting(&replayed));
            }
        }
    }
}
