//! `LiftedDfa` against `TokenDfa`, which computes its edges on request: state by state and token by token.

use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;
use unskew_automata::{
    Dfa, Limits, RegexError, StateId, TokenDfa,
    published::{LiftedDfa, PublishedError, PublishedLimits},
};
use unskew_core::{TokenId, Vocabulary, conformance};
use unskew_testdata::{strategies, vocabulary};
use unskew_trie::TokenTrie;

fn limits() -> Limits {
    Limits::default().nfa_size(20_000).dfa_states(500).dfa_bytes(2 << 20).dfa_steps(200_000)
}

fn read(pattern: &str, vocabulary: Vocabulary, limits: &Limits) -> Result<TokenDfa, RegexError> {
    let dfa = Arc::new(Dfa::from_pattern(pattern, limits)?);
    let trie = Arc::new(TokenTrie::new(vocabulary).unwrap());
    TokenDfa::new(dfa, trie, limits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    /// The vocabularies have holes, control tokens, repeated texts, and bytes that no token spells.
    #[test]
    fn edges_are_those_of_the_walk(pattern in strategies::pattern(), tokens in strategies::tokens()) {
        // Patterns that exceed the small limits, match nothing, or cannot be spelled have no automaton.
        let Ok(walked) = read(&pattern.to_string(), vocabulary(&tokens), &limits()) else { return Ok(()) };
        let lifted = LiftedDfa::new(&walked, &PublishedLimits::default()).unwrap();

        let ids = walked.vocabulary().len();
        let mut reached = BTreeSet::from([walked.start()]);
        let mut open = vec![walked.start()];
        let mut edge_count = 0;
        while let Some(state) = open.pop() {
            let mut expected: Vec<(TokenId, StateId)> = Vec::new();
            for token in (0..ids + 3).map(TokenId::from_index) {
                let target = walked.step(state, token);
                prop_assert_eq!(lifted.step(state, token), target, "state {}, token {}", state, token);
                expected.extend(target.map(|target| (token, target)));
            }
            let mut edges: Vec<_> = lifted.edges(state).collect();
            edges.sort_unstable();
            prop_assert_eq!(&edges, &expected);
            prop_assert_eq!(lifted.is_accepting(state), walked.is_accepting(state));
            let forced = (edges.len() == 1 && !walked.is_accepting(state)).then(|| edges[0].0);
            prop_assert_eq!(lifted.forced_token(state), forced);
            edge_count += edges.len() as u64;
            open.extend(edges.into_iter().map(|(_, target)| target).filter(|target| reached.insert(*target)));
        }
        prop_assert_eq!(lifted.states().collect::<Vec<_>>(), reached.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(lifted.edge_count(), edge_count);
        prop_assert!(lifted.transition_count() as u64 <= edge_count);
        // States that no sequence of tokens reaches have no edges.
        for state in walked.dfa().states().filter(|state| lifted.states().all(|other| other != *state)) {
            prop_assert_eq!(lifted.edges(state).count(), 0);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_contract_holds(pattern in strategies::pattern(), tokens in strategies::tokens()) {
        let Ok(walked) = read(&pattern.to_string(), vocabulary(&tokens), &limits()) else { return Ok(()) };
        let checked = conformance::check_constraint(&LiftedDfa::new(&walked, &PublishedLimits::default()).unwrap(), 2);
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
    }
}

/// All 17,576 words of three letters, and all shorter ones: one class for each length.
fn words() -> Vocabulary {
    let mut builder = Vocabulary::builder();
    let letters = || b'a'..=b'z';
    for first in letters() {
        builder.text(&[first]);
        for second in letters() {
            builder.text(&[first, second]);
            letters().for_each(|third| _ = builder.text(&[first, second, third]));
        }
    }
    builder.build().unwrap()
}

#[test]
fn tokens_that_behave_alike_are_walked_once() {
    let tokens = read("[a-z ]{1,40}", words(), &Limits::default()).unwrap();
    let lifted = LiftedDfa::new(&tokens, &PublishedLimits::default()).unwrap();
    assert_eq!((lifted.len(), lifted.token_classes(), lifted.transition_count()), (41, 3, 40 + 39 + 38));
    assert_eq!(lifted.edge_count(), 40 * 26 + 39 * 26 * 26 + 38 * 26 * 26 * 26);
    assert!(lifted.memory_usage() < 300_000);
    // The automaton distinguishes one letter: a class for each set of positions at which it may occur.
    let tokens = read("[a-z]{1,40}x?[a-wyz]", words(), &Limits::default()).unwrap();
    assert_eq!(LiftedDfa::new(&tokens, &PublishedLimits::default()).unwrap().token_classes(), 2 + 4 + 8);
}

#[test]
fn limits_are_kept_and_named() {
    let tokens = read("[a-z]{1,40}", words(), &Limits::default()).unwrap();
    let error = |limits: PublishedLimits| LiftedDfa::new(&tokens, &limits).unwrap_err();
    let large = error(PublishedLimits::default().lift_transitions(50));
    assert!(matches!(large, PublishedError::LiftTooLarge { limit: 50, states: 16, .. }), "{large}");
    let costly = error(PublishedLimits::default().lift_steps(30));
    assert!(matches!(costly, PublishedError::LiftTooCostly { limit: 30, states: 10, .. }), "{costly}");
    assert_eq!(
        costly.to_string(),
        "making the automaton of all spellings takes more than 30 steps (PublishedLimits::lift_steps), 10 states into it: \
         use a RegexConstraint, which computes transitions as they are needed, or raise the limit"
    );
}
