//! Any regex followed by any tokens: no panic, no hang, and masks that agree with `advance`.
//!
//! The limits are small, so that a run covers many regexes and not a few huge ones.

#![no_main]

use std::{fmt, sync::Arc};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use unskew_automata::{Limits, RegexConstraint};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_trie::TokenTrie;

#[derive(Arbitrary)]
struct Case {
    pattern: String,
    tokens: Vec<Vec<u8>>,
    /// Whether all bytes are tokens. If not, masks must also exclude the tokens that no sequence completes.
    all_bytes: bool,
    prefix: Vec<u16>,
}

/// Prints a case as a test that repeats it.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, tokens, all_bytes, prefix } = self;
        write!(
            f,
            "Case {{ pattern: {pattern:?}.into(), tokens: vec!{tokens:?}, all_bytes: {all_bytes}, prefix: vec!{prefix:?} }}"
        )
    }
}

fuzz_target!(|case: Case| {
    let mut builder = Vocabulary::builder();
    for token in case.tokens.iter().take(64) {
        builder.text(token);
    }
    if case.all_bytes {
        for byte in 0..=255 {
            builder.text(&[byte]);
        }
    }
    let vocabulary = Arc::new(builder.build().unwrap());
    let Ok(trie) = TokenTrie::new(Arc::clone(&vocabulary)) else { return };
    let limits = Limits::default().nfa_size(20_000).dfa_states(2_000);
    let Ok(constraint) = RegexConstraint::new(&case.pattern, Arc::new(trie), &limits) else { return };

    let mut scratch = constraint.scratch();
    let mut state = constraint.start();
    let mut mask = TokenMask::new(constraint.vocab_len());
    for choice in std::iter::once(&0).chain(case.prefix.iter().take(64)) {
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        assert!(!mask.none() || constraint.is_accepting(&state), "a dead end");
        for index in 0..vocabulary.len() {
            let id = TokenId::from_index(index);
            let taken = constraint.advance(&mut scratch, &mut state.clone(), id).is_ok();
            assert_eq!(mask.contains(id), taken, "token {id}");
        }
        let allowed: Vec<_> = mask.ids().collect();
        let Some(token) = allowed.get(*choice as usize % allowed.len().max(1)) else { break };
        constraint.advance(&mut scratch, &mut state, *token).unwrap();
    }
});
