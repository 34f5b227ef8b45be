//! Walks and searches over the bytes against a look at every token.

use proptest::prelude::*;

use super::*;
use crate::{
    automaton::{DEAD, DenseTable},
    testing::{tuning, vocabulary},
};

proptest! {
    /// A walk visits exactly the tokens whose bytes a per-token run of the automaton reads, with the same state.
    #[test]
    fn a_walk_is_a_run_over_every_token(
        texts in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..60),
        refused in prop::collection::vec((0u32..50, 0u8..4), 0..20),
        tuning in tuning(),
    ) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        let vocabulary = trie.vocabulary();
        let step = |state: u32, byte: u8| {
            (!refused.contains(&(state % 50, byte)))
                .then(|| state.wrapping_mul(7).wrapping_add(u32::from(byte) + 1))
        };

        let mut visited = Vec::new();
        trie.walk(1, step, |token, state| visited.push((token, state)));
        let mut reading = Vec::new();
        let reads = |asked: &mut u32, state: u32| {
            *asked += 1;
            (0u8..5).filter(|byte| *byte == 4 || step(state, *byte).is_some()).collect()
        };
        let ends = trie.any_reading(&mut 0, 1, reads, step, |asked, token, state| {
            assert!(*asked > 0);
            reading.push((token, state));
            reading.len() == 20
        });
        prop_assert_eq!(ends, reading.len() == 20);
        prop_assert_eq!(&reading[..], &visited[..visited.len().min(20)]);
        visited.sort();

        let expected: Vec<_> = vocabulary
            .text_tokens()
            .filter(|(_, text)| !text.is_empty())
            .filter_map(|(id, text)| Some((id, text.iter().try_fold(1, |state, byte| step(state, *byte))?)))
            .collect();
        prop_assert_eq!(visited, expected);

        let prefixes = texts.iter().flat_map(|text| (0..=text.len()).map(|len| &text[..len]));
        for prefix in prefixes.chain([&[3, 3, 9][..], &[4]]) {
            let mut found: Vec<_> = trie.beginning_with(prefix).to_vec();
            found.sort();
            let begins = |(_, text): &(TokenId, &[u8])| !text.is_empty() && text.starts_with(prefix);
            prop_assert_eq!(found, vocabulary.text_tokens().filter(begins).map(|(id, _)| id).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_trie_of_nothing_fills_nothing() {
    let trie = TokenTrie::new(vocabulary(&[])).unwrap();
    let mut mask = unskew_core::TokenMask::new(1);
    let mut table = DenseTable { classes: &[0; 256], width: 1, next: &[0] };
    trie.fill(&mut table, 0, mask.as_mut());
    assert!(mask.none() && trie.is_empty() && trie.beginning_with(b"a").is_empty());
}

/// One long run of a letter: the nesting of quotients is bounded, and so is the recursion through them.
#[test]
fn a_chain_of_tokens_is_no_danger() {
    let texts: Vec<Vec<u8>> = (1..3_000).map(|len| vec![b'a'; len]).collect();
    let trie = TokenTrie::new(vocabulary(&texts)).unwrap();
    let mut classes = [0; 256];
    classes[usize::from(b'a')] = 1;
    let mut table = DenseTable { classes: &classes, width: 2, next: &[DEAD, 0] };
    let mut mask = unskew_core::TokenMask::new(trie.vocab_len());
    trie.fill(&mut table, 0, mask.as_mut());
    assert_eq!(mask.count(), texts.len());
}

#[test]
fn a_token_beyond_the_limit_is_an_error() {
    let error = TokenTrie::new(vocabulary(&[vec![0; TokenTrie::MAX_TOKEN_LEN + 1]])).unwrap_err();
    assert_eq!(error.to_string(), "token 0 is 65537 bytes long; the limit is 65536");
}
