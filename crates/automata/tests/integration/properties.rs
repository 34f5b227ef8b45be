//! Properties over random patterns and vocabularies: the language is the one of the `regex` crate, and masks equal a
//! slow oracle that shares no code with the engine.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use proptest::prelude::*;
use unskew_automata::{Dfa, LazyRegexConstraint, Limits, RegexConstraint, RegexError, StateId, debug};
use unskew_core::{Constraint, TextOrder, TokenId, TokenMask, WithEnd, conformance};
use unskew_testdata::{Token, strategies, vocabulary};
use unskew_trie::TokenTrie;

/// Small, so that a case takes milliseconds in a debug build.
fn limits() -> Limits {
    Limits::default().nfa_size(20_000).dfa_states(500).dfa_bytes(2 << 20).dfa_steps(200_000)
}

/// The pattern's DFA; `None` for the few patterns that exceed the small limits or match nothing.
fn dfa(pattern: &str) -> Option<Dfa> {
    match Dfa::from_pattern(pattern, &limits()) {
        Ok(dfa) => Some(dfa),
        Err(
            RegexError::MatchesNothing
            | RegexError::NfaTooLarge { .. }
            | RegexError::TooManyDfaStates { .. }
            | RegexError::DfaTooLarge { .. }
            | RegexError::DfaTooCostly { .. },
        ) => None,
        Err(error) => panic!("{pattern:?}: {error}"),
    }
}

/// The `regex` crate's matcher for the pattern, as a match of the whole text.
fn peer(pattern: &str) -> regex::bytes::Regex {
    // The newline ends a comment at the end of the pattern, if there is one.
    regex::bytes::RegexBuilder::new(&format!(r"\A(?:{pattern})\z")).size_limit(1 << 24).build().unwrap()
}

/// An accepted text: a walk along the edges that `choices` picks, and then a shortest path to acceptance.
fn accepted_text(dfa: &Dfa, choices: &[prop::sample::Index]) -> Vec<u8> {
    let mut state = dfa.start();
    let mut text = Vec::new();
    for choice in choices {
        let edges: Vec<_> = dfa.edges(state).collect();
        let Some(edge) = edges.get(choice.index(edges.len().max(1))) else { break };
        let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
        text.push(if choice.index(2) == 0 { first } else { last });
        state = edge.target;
    }
    let mut open = VecDeque::from([(state, text)]);
    let mut seen = BTreeSet::new();
    while let Some((state, text)) = open.pop_front() {
        if dfa.is_accepting(state) {
            return text;
        }
        if seen.insert(state) {
            open.extend(
                dfa.edges(state).map(|edge| (edge.target, [&text[..], &[*edge.bytes.start()]].concat())),
            );
        }
    }
    panic!("a dead end")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The texts are random texts, accepted texts, and accepted texts with one changed byte.
    #[test]
    fn the_language_is_that_of_the_regex_crate(
        pattern in strategies::pattern(),
        texts in prop::collection::vec(strategies::text(5), 20),
        walks in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..12), 10),
        change in (any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let pattern = pattern.to_string();
        let peer = peer(&pattern);
        let dfa = dfa(&pattern);
        let accepts = |text: &[u8]| dfa.as_ref().is_some_and(|dfa| dfa.accepts(text));
        if dfa.is_none() && !matches!(Dfa::from_pattern(&pattern, &limits()), Err(RegexError::MatchesNothing)) {
            return Ok(());
        }
        for text in &texts {
            prop_assert_eq!(accepts(text.as_bytes()), peer.is_match(text.as_bytes()), "{:?} on {:?}", pattern, text);
        }
        prop_assert_eq!(accepts(b""), peer.is_match(b""), "{:?} on the empty text", pattern);
        let Some(dfa) = &dfa else { return Ok(()) };
        for walk in &walks {
            let mut text = accepted_text(dfa, walk);
            prop_assert!(peer.is_match(&text), "{:?} on {:?}\n{}", pattern, text, debug::table(dfa));
            prop_assert!(std::str::from_utf8(&text).is_ok());
            if !text.is_empty() {
                let at = change.0.index(text.len());
                text[at] = change.1;
                prop_assert_eq!(dfa.accepts(&text), peer.is_match(&text), "{:?} on {:?}", pattern, text);
            }
        }
    }

    /// The invariants of the type: reachable, without dead ends, minimal by brute force, in canonical form.
    #[test]
    fn dfas_are_trimmed_minimal_and_canonical(pattern in strategies::pattern()) {
        let Some(dfa) = dfa(&pattern.to_string()) else { return Ok(()) };
        // States are in breadth-first order, and every state is found.
        let mut order = vec![dfa.start()];
        let mut at = 0;
        while let Some(state) = order.get(at).copied() {
            at += 1;
            for edge in dfa.edges(state) {
                if !order.contains(&edge.target) {
                    order.push(edge.target);
                }
            }
        }
        prop_assert_eq!(order, dfa.states().collect::<Vec<_>>());
        if dfa.len() > 60 {
            return Ok(());
        }
        for state in dfa.states() {
            prop_assert!(completable_bytes(&dfa, state));
        }
        let different = distinguishable(&dfa);
        for left in dfa.states() {
            for right in dfa.states().filter(|right| *right < left) {
                prop_assert!(different.contains(&(left, right)), "{} and {} are equal", left, right);
            }
        }
        // The classes are the coarsest: some state distinguishes each two of them.
        let representatives: Vec<u8> = dfa.classes().representatives().collect();
        prop_assert_eq!(representatives.len(), dfa.classes().len());
        for (index, left) in representatives.iter().enumerate() {
            for right in &representatives[..index] {
                prop_assert!(dfa.states().any(|state| dfa.step(state, *left) != dfa.step(state, *right)));
            }
        }
    }

    /// Equal languages are equal DFAs: a list of literals, their alternation, and the list in another order.
    #[test]
    fn literals_are_their_alternation(
        literals in prop::collection::vec(strategies::text(4), 1..12).prop_shuffle(),
    ) {
        let literals: Vec<String> = literals.into_iter().filter(|literal| !literal.is_empty()).collect();
        prop_assume!(!literals.is_empty());
        let pattern = literals.iter().map(|literal| regex::escape(literal)).collect::<Vec<_>>().join("|");
        let dfa = Dfa::from_literals(&literals, &Limits::default()).unwrap();
        prop_assert_eq!(&dfa, &Dfa::from_pattern(&pattern, &Limits::default()).unwrap());
        prop_assert_eq!(&dfa, &Dfa::from_literals(literals.iter().rev(), &Limits::default()).unwrap());
    }
}

fn completable_bytes(dfa: &Dfa, state: StateId) -> bool {
    let mut seen = BTreeSet::from([state]);
    let mut open = vec![state];
    while let Some(state) = open.pop() {
        if dfa.is_accepting(state) {
            return true;
        }
        open.extend(dfa.edges(state).map(|edge| edge.target).filter(|target| seen.insert(*target)));
    }
    false
}

/// Pairs of states that some text distinguishes, by filling in the table of pairs until nothing changes.
fn distinguishable(dfa: &Dfa) -> BTreeSet<(StateId, StateId)> {
    let bytes: Vec<u8> = dfa.classes().representatives().collect();
    let mut different = BTreeSet::new();
    loop {
        let before = different.len();
        for left in dfa.states() {
            for right in dfa.states() {
                let by_byte = |byte: &u8| match (dfa.step(left, *byte), dfa.step(right, *byte)) {
                    // There is no dead state, so if only one of the two has an edge over the byte, they differ.
                    (Some(left), Some(right)) => different.contains(&(left, right)),
                    (left, right) => left.is_some() != right.is_some(),
                };
                if dfa.is_accepting(left) != dfa.is_accepting(right) || bytes.iter().any(by_byte) {
                    different.insert((left, right));
                }
            }
        }
        if different.len() == before {
            return different;
        }
    }
}

/// The oracle: the graph of the states that tokens reach, and the subset from which tokens reach acceptance.
struct Oracle {
    /// By state: the target of each token with text.
    steps: BTreeMap<StateId, Vec<(TokenId, StateId)>>,
    completable: BTreeSet<StateId>,
}

impl Oracle {
    fn new(dfa: &Dfa, tokens: &[Token]) -> Self {
        let mut steps = BTreeMap::new();
        let mut open = vec![dfa.start()];
        while let Some(state) = open.pop() {
            if steps.contains_key(&state) {
                continue;
            }
            let mut out = Vec::new();
            for (id, token) in tokens.iter().enumerate() {
                let Token::Text(text) = token else { continue };
                let mut after = (!text.is_empty()).then_some(state);
                for byte in text {
                    after = after.and_then(|state| dfa.step(state, *byte));
                }
                out.extend(after.map(|after| (TokenId::from_index(id), after)));
            }
            open.extend(out.iter().map(|(_, after)| *after));
            steps.insert(state, out);
        }
        let mut completable: BTreeSet<StateId> =
            steps.keys().copied().filter(|state| dfa.is_accepting(*state)).collect();
        loop {
            let more: Vec<StateId> = steps
                .iter()
                .filter(|(state, out)| {
                    !completable.contains(state) && out.iter().any(|(_, after)| completable.contains(after))
                })
                .map(|(state, _)| *state)
                .collect();
            if more.is_empty() {
                return Self { steps, completable };
            }
            completable.extend(more);
        }
    }

    fn allowed(&self, state: StateId) -> Vec<TokenId> {
        let steps = self.steps[&state].iter();
        steps.filter(|(_, after)| self.completable.contains(after)).map(|(token, _)| *token).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 300 }))]

    /// Every mask of every state that tokens reach, bit by bit; the cache has room for all masks, for one, or for
    /// none.
    #[test]
    fn masks_are_exact(pattern in strategies::pattern(), tokens in strategies::tokens(), room in 0usize..3) {
        let Some(dfa) = dfa(&pattern.to_string()) else { return Ok(()) };
        let trie = Arc::new(TokenTrie::new(vocabulary(&tokens)).unwrap());
        let oracle = Oracle::new(&dfa, &tokens);
        let limits = limits().mask_cache_bytes([0, 4 * trie.vocab_len().div_ceil(32), 1 << 20][room]);
        let constraint = match RegexConstraint::from_dfa(Arc::new(dfa), trie, &limits) {
            Err(RegexError::Unspellable { missing, .. }) => {
                prop_assert!(!oracle.completable.contains(&StateId::from_index(0)));
                prop_assert!(!missing.is_empty());
                return Ok(());
            }
            other => other.unwrap(),
        };
        prop_assert!(oracle.completable.contains(&constraint.start()));
        for state in oracle.steps.keys().filter(|state| oracle.completable.contains(state)) {
            let allowed = oracle.allowed(*state);
            let mut mask = TokenMask::new(constraint.vocab_len());
            for _ in 0..2 {
                mask.as_mut().fill();
                constraint.fill_mask(&mut (), state, mask.as_mut());
                prop_assert_eq!(mask.ids().collect::<Vec<_>>(), &allowed[..], "state {}", state);
            }
            if let Some(ready) = constraint.ready_mask(&(), state) {
                prop_assert_eq!(ready, mask.as_ref());
            }
            for id in (0..constraint.vocab_len() + 40).map(TokenId::from_index) {
                prop_assert_eq!(constraint.allows(&mut (), state, id), mask.contains(id));
                let mut after = *state;
                let result = constraint.advance(&mut (), &mut after, id);
                prop_assert_eq!(result.is_ok(), mask.contains(id));
                match oracle.steps[state].iter().find(|(token, _)| *token == id) {
                    Some((_, target)) if result.is_ok() => prop_assert_eq!(after, *target),
                    _ => prop_assert_eq!(after, *state),
                }
            }
            let forced = (allowed.len() == 1 && !constraint.is_accepting(state)).then(|| allowed[0]);
            prop_assert_eq!(constraint.forced(&mut (), state), forced);
            // No dead ends.
            prop_assert!(!allowed.is_empty() || constraint.is_accepting(state));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 40 } else { 100 }))]

    /// The conformance test of the trait.
    #[test]
    fn the_contract_holds(pattern in strategies::pattern(), tokens in strategies::tokens(), room in 0usize..2) {
        let Some(dfa) = dfa(&pattern.to_string()) else { return Ok(()) };
        let trie = Arc::new(TokenTrie::new(vocabulary(&tokens)).unwrap());
        let limits = limits().mask_cache_bytes([0, 1 << 20][room]);
        match RegexConstraint::from_dfa(Arc::new(dfa), trie, &limits) {
            Err(RegexError::Unspellable { .. }) => {}
            other => {
                let checked = conformance::check_constraint(&other.unwrap(), 3);
                prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
            }
        }
    }

    /// How far texts go on, where tokens spell all of them.
    #[test]
    fn texts_go_on_as_tokens_do(pattern in strategies::pattern(), mut tokens in strategies::tokens()) {
        tokens.extend((0..=255).map(|byte| Token::Text(vec![byte])));
        let trie = Arc::new(TokenTrie::new(vocabulary(&tokens)).unwrap());
        let order = Arc::new(TextOrder::new(Arc::clone(trie.vocabulary())));
        let pattern = pattern.to_string();
        if let Some(dfa) = dfa(&pattern) {
            let regex = RegexConstraint::from_dfa(Arc::new(dfa), Arc::clone(&trie), &limits()).unwrap();
            prop_assert_eq!(conformance::check_reach(&regex, &order, 2), Ok(()));
            prop_assert_eq!(conformance::check_constraint(&WithEnd::free(&regex, Arc::clone(&order)), 1), Ok(()));
        }
        if let Ok(lazy) = LazyRegexConstraint::new(&pattern, trie, &limits()) {
            prop_assert_eq!(conformance::check_reach(&lazy, &order, 2), Ok(()));
        }
    }
}
