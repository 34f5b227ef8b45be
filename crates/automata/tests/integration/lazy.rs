//! The lazy constraint equals the full one: the same masks in every state that tokens reach, with memory and without.
//! Where no full one exists, it is compared with the definition of the language.

use std::{collections::HashSet, sync::Arc};

use proptest::prelude::*;
use unskew_automata::{
    Dfa, LazyRegexConstraint, Limits, RegexConstraint, RegexError, StateId, regex, tokens::LazyState,
};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary, conformance};
use unskew_testdata::{Token, strategies, vocabulary};
use unskew_trie::TokenTrie;

fn small() -> Limits {
    Limits::default().nfa_size(20_000).dfa_states(500).dfa_bytes(2 << 20).dfa_steps(200_000)
}

fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Arc<TokenTrie> {
    let mut builder = Vocabulary::builder();
    for text in texts {
        builder.text(text.as_ref());
    }
    Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap())
}

fn mask<C: Constraint>(constraint: &C, scratch: &mut C::Scratch, state: &C::State) -> TokenMask {
    let mut mask = TokenMask::new(constraint.vocab_len());
    mask.as_mut().fill();
    constraint.fill_mask(scratch, state, mask.as_mut());
    mask
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 300 }))]

    /// Every pair of states that the same tokens reach. The memory is ample, small or zero, so that caches are
    /// dropped during a walk.
    #[test]
    fn masks_are_those_of_the_full_constraint(
        pattern in strategies::pattern(),
        mut tokens in strategies::tokens(),
        room in prop::sample::select(vec![0usize, 300, 3_000, 1 << 20]),
    ) {
        tokens.extend((0..=255).map(|byte| Token::Text(vec![byte])));
        let pattern = pattern.to_string();
        let trie = Arc::new(TokenTrie::new(vocabulary(&tokens)).unwrap());
        let limits = small().lazy_bytes(room);
        let lazy = LazyRegexConstraint::new(&pattern, Arc::clone(&trie), &limits);
        let full = match RegexConstraint::new(&pattern, trie, &limits) {
            Ok(full) => full,
            Err(RegexError::MatchesNothing) => {
                prop_assert_eq!(lazy.unwrap_err(), RegexError::MatchesNothing);
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let lazy = lazy.unwrap();
        let mut scratch = lazy.scratch();
        let mut seen: HashSet<(StateId, LazyState)> = HashSet::new();
        let mut open = vec![(full.start(), lazy.start())];
        while let Some((full_state, lazy_state)) = open.pop() {
            if seen.len() > 60 || !seen.insert((full_state, lazy_state.clone())) {
                continue;
            }
            let expected = mask(&full, &mut full.scratch(), &full_state);
            for _ in 0..2 {
                prop_assert_eq!(&mask(&lazy, &mut scratch, &lazy_state), &expected, "{:?}", pattern);
            }
            prop_assert_eq!(lazy.is_accepting(&lazy_state), full.is_accepting(&full_state));
            prop_assert_eq!(
                lazy.forced(&mut scratch, &lazy_state),
                full.forced(&mut full.scratch(), &full_state)
            );
            for id in (0..tokens.len() + 1).map(TokenId::from_index) {
                prop_assert_eq!(lazy.allows(&mut scratch, &lazy_state, id), expected.contains(id));
                let (mut full_after, mut lazy_after) = (full_state, lazy_state.clone());
                let result = lazy.advance(&mut scratch, &mut lazy_after, id);
                prop_assert_eq!(result.is_ok(), expected.contains(id));
                if result.is_ok() {
                    full.advance(&mut full.scratch(), &mut full_after, id).unwrap();
                    open.push((full_after, lazy_after));
                } else {
                    prop_assert_eq!(&lazy_after, &lazy_state);
                }
            }
        }
    }

    /// The conformance test of the trait.
    #[test]
    fn the_contract_holds(pattern in strategies::pattern(), mut tokens in strategies::tokens()) {
        tokens.extend((0..=255).map(|byte| Token::Text(vec![byte])));
        let trie = Arc::new(TokenTrie::new(vocabulary(&tokens)).unwrap());
        if let Ok(lazy) = LazyRegexConstraint::new(&pattern.to_string(), trie, &small()) {
            let checked = conformance::check_constraint(&lazy, 1);
            prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        }
    }
}

/// The state is the set of `a`s among the last 21 letters: 2^21 states, each reachable by a walk. The oracle is the
/// definition.
#[test]
fn a_million_states_are_exact() {
    let trie = texts(["a", "b", "ab", "ba", "bbbbb", "abc", "c"]);
    let constraint =
        LazyRegexConstraint::new("(a|b)*a(a|b){20}c", Arc::clone(&trie), &Limits::default()).unwrap();
    let mut scratch = constraint.scratch();
    let mut random = 12_345u32;
    for _ in 0..200 {
        let (mut state, mut text) = (constraint.start(), Vec::new());
        for _ in 0..40 {
            // A prefix is live if it consists of letters, or of letters and a final `c` with `a` as the 21st letter
            // from the end.
            let allowed = |more: &[u8]| {
                let text = [&text[..], more].concat();
                let letters = text.strip_suffix(b"c").unwrap_or(&text);
                let ends = letters.len() < text.len();
                let whole = letters.len() >= 21 && letters[letters.len() - 21] == b'a';
                letters.iter().all(|byte| b"ab".contains(byte)) && (!ends || whole)
            };
            let expected: Vec<TokenId> = trie
                .vocabulary()
                .text_tokens()
                .filter(|(_, more)| !text.ends_with(b"c") && allowed(more))
                .map(|(id, _)| id)
                .collect();
            let mask = mask(&constraint, &mut scratch, &state);
            assert_eq!(mask.ids().collect::<Vec<_>>(), expected);
            assert_eq!(constraint.is_accepting(&state), text.ends_with(b"c"));
            if expected.is_empty() {
                break;
            }
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let token = expected[(random >> 16) as usize % expected.len()];
            constraint.advance(&mut scratch, &mut state, token).unwrap();
            text.extend_from_slice(trie.vocabulary().text(token).unwrap());
        }
    }
}

/// Any text that contains one of 2,000 words: masks allow everything but newlines, and acceptance begins at the end
/// of the first word.
#[test]
fn a_word_somewhere_in_a_text() {
    let bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let words: Vec<String> = (0..2_000u32).map(|n| format!("w{:04}x", n * 4_099 % 10_000)).collect();
    let trie =
        texts(bytes.into_iter().chain(["w0000", "0x ", " any", "\n"].map(|text| text.as_bytes().to_vec())));
    let pattern = format!(".*({}).*", words.join("|"));
    let limits = Limits::default();
    let constraint = LazyRegexConstraint::new(&pattern, trie, &limits).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let newline = TokenId(259);
    let mut text = String::new();
    for piece in ["any", " w000", "0x", " w"] {
        for byte in piece.bytes() {
            let mask = mask(&constraint, &mut scratch, &state);
            assert!(mask.contains(TokenId(256)) && !mask.contains(newline) && !mask.contains(TokenId(10)));
            constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).unwrap();
            text.push(char::from(byte));
            assert_eq!(constraint.is_accepting(&state), words.iter().any(|word| text.contains(word)));
        }
    }
    assert!(text.contains("w0000x"));
}

#[test]
fn the_kind_is_chosen_by_the_limits() {
    let limits = Limits::default().dfa_states(100);
    let trie = texts(["a", "b"]);
    for pattern in ["a*b", "(a|b)*a(a|b){10}"] {
        let any = regex(pattern, Arc::clone(&trie), &limits).unwrap().into_any();
        conformance::check_constraint(&any, 4).unwrap();
    }
    // Without a token for `b` alone, the full DFA would be needed.
    let trie = texts(["a", "bb"]);
    let error = regex("(a|b)*a(a|b){10}", trie, &limits).unwrap_err();
    assert!(matches!(error, RegexError::TooManyDfaStates { limit: 100, .. }), "{error}");
    let error = Dfa::from_pattern("(a|b)*a(a|b){10}", &limits).unwrap_err();
    assert!(matches!(error, RegexError::TooManyDfaStates { limit: 100, .. }), "{error}");
}

/// The size of the largest set along a text of the pattern, and the memory of the constraint for each byte of the
/// pattern.
fn chain(pattern: &str, text: &str) -> (usize, usize) {
    let trie = texts((0..=255u8).map(|byte| [byte]).collect::<Vec<_>>());
    let limits = Limits::default();
    let constraint = LazyRegexConstraint::new(pattern, trie, &limits).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut most = state.members();
    for byte in text.bytes() {
        let expected = mask(&constraint, &mut scratch, &state);
        assert!(expected.contains(TokenId(u32::from(byte))));
        constraint.advance(&mut scratch, &mut state, TokenId(u32::from(byte))).unwrap();
        assert!(constraint.is_accepting(&state));
        most = most.max(state.members());
    }
    (most, constraint.memory_usage() / pattern.len())
}

/// If sets kept members that others include, each set would have a member for each remaining part.
#[test]
fn chains_of_optional_parts_have_small_sets() {
    for (piece, text) in [
        ("a?", "aaaa"),
        ("(a|)", "aaaa"),
        ("a?b?", "abbaab"),
        ("a*b*", "abbaab"),
        ("[a-m]?[f-z]?", "amfza"),
        ("(hello )?", ""),
        ("(?:a?b?){0,3}", "abbaab"),
    ] {
        let (most, bytes) = chain(&piece.repeat(100_000 / piece.len()), text);
        assert!(most <= 4, "{piece}: {most}");
        assert!(bytes < 200, "{piece}: {bytes}");
    }
}

/// If sets kept members that later copies include, there would be a set for each choice of the pattern's `x`.
#[test]
fn a_word_with_a_letter_inside_has_small_sets() {
    let trie = texts((0..=255u8).map(|byte| vec![byte]).chain([b"xxaxxbxx".to_vec()]).collect::<Vec<_>>());
    let pattern = r"\w{0,300}x\w{0,300}";
    let constraint = LazyRegexConstraint::new(pattern, trie, &Limits::default()).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    for length in 1..=40 {
        assert!(mask(&constraint, &mut scratch, &state).contains(TokenId(256)), "{length}");
        constraint.advance(&mut scratch, &mut state, TokenId(256)).unwrap();
        assert!(state.members() <= 4, "{length}: {}", state.members());
        assert!(constraint.is_accepting(&state));
    }
}

/// Optional parts that each read another character have sets as large as the pattern, and too many of them.
#[test]
fn chains_of_parts_that_all_differ_are_refused() {
    let trie = texts((0..=255u8).map(|byte| [byte]).collect::<Vec<_>>());
    let pattern: String = ('\u{4e00}'..'\u{9000}').flat_map(|char| [char, '?']).collect();
    let limits = Limits::default().dfa_steps(1_000_000);
    let error = LazyRegexConstraint::new(&pattern, trie, &limits).unwrap_err();
    assert!(matches!(error, RegexError::ClosuresTooCostly { limit: 1_000_000, states: 1.., .. }), "{error}");
    assert!(error.to_string().contains("Limits::dfa_steps"));
}

/// Chains of repetitions that read one letter out of step: comparisons of their members count as work. When they did
/// not, a chain of 3,600 took ten seconds, and a chain of 10,000 was refused after twelve.
#[test]
fn chains_out_of_step_are_refused_while_that_is_cheap() {
    let trie = texts([b"a".to_vec()]);
    let chain = |times: usize, limits: &Limits| {
        let trie = Arc::clone(&trie);
        LazyRegexConstraint::new(&"a{0,3}".repeat(times), trie, limits)
    };
    let limits = Limits::default().dfa_steps(1_000_000);
    let error = chain(1_000, &limits).unwrap_err();
    assert!(matches!(error, RegexError::ClosuresTooCostly { limit: 1_000_000, states: 1.., .. }), "{error}");
    chain(100, &limits).unwrap();
    // Under the default limits, a long chain gets an answer or that error.
    let _ = chain(10_000, &Limits::default())
        .map_err(|error| assert!(matches!(error, RegexError::ClosuresTooCostly { .. }), "{error}"));
}
