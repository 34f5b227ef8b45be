//! Tests of operations on automata.

use proptest::prelude::*;
use unskew_testdata::strategies;

use super::*;

fn limits() -> Limits {
    Limits { nfa_size: 20_000, dfa_states: 500, dfa_steps: 200_000, ..Limits::default() }
}

fn dfa(pattern: &str) -> Dfa {
    Dfa::from_pattern(pattern, &Limits::default()).unwrap()
}

#[test]
fn operations_are_those_of_patterns() {
    let make = || DfaAlgebra::new(&Limits::default());
    let (ab, word) = (dfa("a|b?c"), dfa(r"\w*"));
    assert_eq!(make().concatenation([]).unwrap(), dfa(""));
    assert_eq!(make().concatenation([&ab, &word, &ab]).unwrap(), dfa(r"(a|b?c)\w*(a|b?c)"));
    assert_eq!(make().union([&ab, &word, &dfa("-+")]).unwrap(), dfa(r"\w*|-+"));
    assert_eq!(make().union([&ab]).unwrap(), ab);
    assert_eq!(make().union([]), Err(RegexError::NoChoices));
    let (any, word) = (dfa("(?s).*"), dfa("(?i)if|else"));
    let not = make().difference(&any, &word).unwrap();
    assert!(not.accepts(b"") && not.accepts("é".as_bytes()) && !not.accepts(b"IF") && !not.accepts(b"\xff"));
    assert_eq!(make().difference(&any, &not).unwrap(), word);
    assert_eq!(make().difference(&word, &any), Err(RegexError::MatchesNothing));
    assert_eq!(make().intersection(&not, &word), Err(RegexError::MatchesNothing));
}

#[test]
fn searches_with_anchors_are_those_of_whole_patterns() {
    let search = |pattern: &str| DfaAlgebra::new(&Limits::default()).search(pattern).unwrap();
    for pattern in [
        "^a|^b+",
        "^ab?$",
        "a+$|b$",
        "^(a|b$)",
        "^$|^(a b)+$",
        "^a|b",
        "^|a$",
        "a*$",
        "^a*",
        "^(^a|^b)c",
        "(^a)+",
        "^",
        "a^b|c",
        "^a{2,3}",
        "a{2,3}$",
        "(a|^)b{2,}",
    ] {
        let whole = Dfa::from_pattern(&*format!("(?s:.*)(?:{pattern})(?s:.*)"), &Limits::default()).unwrap();
        assert_eq!(search(pattern), whole, "{pattern}");
    }
}

/// After the boundary the loop reads whatever the rest of the pattern does, and no set of states tells both apart.
#[test]
fn a_loop_at_the_end_hides_what_it_reads_too() {
    let limits = Limits { dfa_states: 2_000, ..Limits::default() };
    let made = DfaAlgebra::new(&limits).search(r"^[a.]{1,200}\.[ab]{1,6}\b[ab.]*$").unwrap();
    assert_eq!(made, dfa(r"[a.]{1,200}\.[ab]{1,6}(\.[ab.]*)?"));
    // The loop reads no `c`.
    let made = DfaAlgebra::new(&limits).search(r"^(a+\b[ab ]*|[abc ]*)$").unwrap();
    assert_eq!(made, dfa("[abc ]*"));
}

#[test]
fn repetitions_are_those_of_patterns() {
    let make = || DfaAlgebra::new(&Limits::default());
    for pattern in ["a", "ab|", "[ab]*c?", "é"] {
        let once = dfa(pattern);
        for (min, max) in
            [(0, None), (1, None), (3, None), (0, Some(0)), (1, Some(1)), (0, Some(3)), (2, Some(4))]
        {
            let max_text = max.map(|max: u32| max.to_string()).unwrap_or_default();
            let expected = dfa(&format!("(?:{pattern}){{{min},{max_text}}}"));
            assert_eq!(make().repetition(&once, min, max).unwrap(), expected, "{pattern} {min} {max:?}");
        }
    }
}

#[test]
fn factors_are_the_concatenations_of_adjacent_parts() {
    let mut make = DfaAlgebra::new(&Limits::default());
    let parts = ["foo", " ", "bar", " ", "foo"];
    let made = make.factors(parts).unwrap();
    let wanted = (0..=5).flat_map(|first| (first..=5).map(move |end| parts[first..end].concat()));
    let wanted: std::collections::BTreeSet<String> = wanted.collect();
    for text in &wanted {
        assert!(made.accepts(text.as_bytes()), "{text}");
    }
    for text in ["fo", "foobar", "oo ", "foo  bar", "barfoo"] {
        assert!(!made.accepts(text.as_bytes()), "{text}");
    }
    assert_eq!(make.factors([""; 0]).unwrap(), dfa(""));
    assert_eq!(make.factors(["a", ""]), Err(RegexError::EmptyChoice { index: 1 }));
}

#[test]
fn work_adds_up() {
    let limits = Limits { dfa_steps: 100_000, ..Limits::default() };
    let mut make = DfaAlgebra::new(&limits);
    let made = (0..).take_while(|_| make.pattern("(a|b)*a(a|b){6}").is_ok()).count();
    assert!((5..50).contains(&made), "{made}");
    let error = make.literals(["a"]).unwrap_err();
    assert_eq!(error, RegexError::DfaTooCostly { limit: 100_000, states: 0 });
}

#[test]
fn limits_hold() {
    let make = |limits: &Limits| DfaAlgebra::new(limits);
    let limits = limits();
    let word = dfa(r"\w");
    let error = make(&limits).repetition(&word, u32::MAX, None).unwrap_err();
    assert!(matches!(error, RegexError::NfaTooLarge { limit: 20_000, .. }), "{error}");
    let error = make(&limits).concatenation(std::iter::repeat_n(&word, 1_000_000)).unwrap_err();
    assert!(matches!(error, RegexError::NfaTooLarge { .. }), "{error}");
    let counts = [dfa("(a{31})*"), dfa("(a{37})*")];
    let error = make(&limits).intersection(&counts[0], &counts[1]).unwrap_err();
    assert_eq!(error, RegexError::TooManyDfaStates { limit: 500 });
    let limits = Limits { dfa_steps: 1_500, ..limits };
    let error = make(&limits).difference(&counts[0], &counts[1]).unwrap_err();
    assert!(matches!(error, RegexError::DfaTooCostly { limit: 1_500, .. }), "{error}");
}

/// Every operation checks the flag, and two limits that differ in the flag alone are equal.
#[test]
fn work_is_cancelled() {
    let limits = Limits::default();
    let (left, right) = (dfa("(a{31})*"), dfa("(a{37})*"));
    let mut make = DfaAlgebra::new(&limits);
    assert!(make.intersection(&left, &right).is_ok());
    limits.cancel.cancel();
    for made in [
        make.intersection(&left, &right),
        make.difference(&left, &right),
        make.union([&left, &right]),
        make.repetition(&left, 2, Some(3)),
        make.prefix_free(&left),
        make.pattern("(a|b)*a(a|b){60}"),
        make.literals(["a"]),
        Dfa::from_pattern("a", &limits),
    ] {
        assert_eq!(made, Err(RegexError::Cancelled));
    }
    assert_eq!(crate::dfa::DfaBuilder::new(&limits).state(true), Err(RegexError::Cancelled));
    assert_eq!(limits, Limits::default());
    assert_ne!(limits, Limits { lazy_bytes: 1, ..Limits::default() });
}

/// Whether `text` is a sequence of `least` or more texts of `dfa`, by trying every way to cut it.
fn repeats(dfa: &Dfa, text: &[u8], least: usize) -> bool {
    // `ends[n]` holds the ends of n texts. After more texts than `text` has bytes, further ones repeat the empty
    // text.
    let mut ends = vec![std::collections::BTreeSet::from([0])];
    for _ in 0..least + text.len() {
        let last = ends.last().expect("there is one");
        let next = last
            .iter()
            .flat_map(|begin| (*begin..=text.len()).filter(|end| dfa.accepts(&text[*begin..*end])));
        let next = next.collect();
        ends.push(next);
    }
    ends[least..].iter().any(|ends| ends.contains(&text.len()))
}

proptest! {
    /// The language of a result agrees with the languages of the parts, by the definition of the operation.
    #[test]
    fn operations_are_those_of_sets_of_texts(
        left in strategies::pattern(),
        right in strategies::pattern(),
        least in 0..3u32,
        more in 0..3u32,
        texts in prop::collection::vec(strategies::text(4), 16),
        before in strategies::text(2),
    ) {
        let limits = limits();
        let pattern = |pattern: &str| Dfa::from_pattern(pattern, &limits).ok();
        let (Some(a), Some(b)) = (pattern(&left.to_string()), pattern(&right.to_string())) else { return Ok(()) };
        let make = || DfaAlgebra::new(&limits);
        let both = make().intersection(&a, &b);
        let only = make().difference(&a, &b);
        let any = make().union([&a, &b]);
        let row = make().concatenation([&a, &b]);
        let often = make().repetition(&a, least, None);
        let some = make().repetition(&a, least, Some(least + more));
        let shortest = make().prefix_free(&a);
        let behind = a.run(a.start(), before.as_bytes());
        let rest = behind.and_then(|state| make().left_quotient(&a, state).ok());
        for text in &texts {
            let whole = [before.as_bytes(), text.as_bytes()].concat();
            prop_assert!(rest.as_ref().is_none_or(|rest| rest.accepts(text.as_bytes()) == a.accepts(&whole)));
            let text = text.as_bytes();
            let (in_a, in_b) = (a.accepts(text), b.accepts(text));
            // `None` if a limit was exceeded.
            let accepts = |dfa: &Result<Dfa, RegexError>| match dfa {
                Ok(dfa) => Some(dfa.accepts(text)),
                Err(RegexError::MatchesNothing) => Some(false),
                Err(_) => None,
            };
            prop_assert!(accepts(&both).is_none_or(|both| both == (in_a && in_b)));
            prop_assert!(accepts(&only).is_none_or(|only| only == (in_a && !in_b)));
            prop_assert!(accepts(&any).is_none_or(|any| any == (in_a || in_b)));
            let cut = (0..=text.len()).any(|cut| a.accepts(&text[..cut]) && b.accepts(&text[cut..]));
            prop_assert!(accepts(&row).is_none_or(|row| row == cut));
            prop_assert!(accepts(&often).is_none_or(|often| often == repeats(&a, text, least as usize)));
            let at_most = (least..=least + more).any(|count| exactly(&a, text, count));
            let begins = (0..text.len()).any(|end| a.accepts(&text[..end]));
            prop_assert!(accepts(&shortest).is_none_or(|shortest| shortest == (in_a && !begins)));
            prop_assert!(accepts(&some).is_none_or(|some| some == at_most));
        }
    }
}

/// Whether `text` is a sequence of exactly `count` texts of `dfa`.
fn exactly(dfa: &Dfa, text: &[u8], count: u32) -> bool {
    match count {
        0 => text.is_empty(),
        _ => (0..=text.len()).any(|cut| dfa.accepts(&text[..cut]) && exactly(dfa, &text[cut..], count - 1)),
    }
}
