//! Patterns that have no exact automaton or are too large: errors name the cause, for any text of a pattern.

use std::fmt::Write as _;

use unskew_core::PrependScheme;

use super::{
    tests::{Random, cases, regex, with},
    *,
};

fn refusal(splits: &[SplitPattern]) -> String {
    SplitDfa::new(splits, &SplitOptions::default(), &SplitLimits::default()).unwrap_err().to_string()
}

#[test]
fn what_has_no_exact_automaton_is_refused_by_name() {
    let mut report = String::new();
    for pattern in [
        // Constructs.
        "a(?<=b)c",
        "(?<!b)c",
        r"(a)\1",
        r"a\012",
        r"(?<n>a)\k<n>",
        r"(a)\g<1>",
        "(?P<n>a)(?P=n)",
        r"\bfoo",
        r"a\B",
        r"\<a",
        r"a\>",
        r"a\Z",
        r"a\Kb",
        r"\Ga",
        r"\R",
        r"\X",
        "(?>ab|a)c",
        "(?>a+b)",
        "(?:ab)++c",
        "(?:a|bc)?+",
        "(?!ab)c",
        "é(?=a*)b",
        "a(?=)",
        "(a)?(?(1)b)",
        "a(?#note)b",
        "(?m)a$",
        "(?x)a b",
        "(?i:a(?i)b)",
        "a(?i)b|c",
        "a{2}{3}",
        "a**",
        "a+?+",
        "a{3}?",
        "a{,}",
        "^*a",
        "(?!a)+b",
        "$?a",
        "(?:a?)*b",
        "(?:a|(?!b))+c",
        // Syntax.
        "(a",
        "a)",
        "a|*",
        "+a",
        "{2}a",
        "a{3,2}",
        "[a",
        "[z-a]",
        r"a\",
        r"\q",
        r"\é",
        r"[\q]",
        r"\x4",
        r"\x{}",
        r"\x{110000}",
        r"\ud800",
        r"\p{Nope}",
        r"\p{L",
        "(?y:a)",
        "(?<1>a",
        "(?<>a)",
        "(?",
        // Other refusals.
        "",
        "a*",
        "a|$",
        r"\s*(?!\S)",
        "^b*",
    ] {
        let error = refusal(&[SplitPattern::PrefixSpace, regex(pattern)]);
        assert_eq!(error.lines().count(), 1, "{error}");
        writeln!(report, "{pattern:<16} {error}").unwrap();
    }
    insta::assert_snapshot!(report);
}

#[test]
fn steps_that_are_not_exact_are_refused() {
    let mut report = String::new();
    let behind = |split| vec![regex("a"), split];
    let mark =
        SplitPattern::Metaspace { replacement: '\u{2581}', prepend: PrependScheme::Never, split: true };
    for splits in [
        behind(SplitPattern::Other("UnicodeScripts".to_owned())),
        behind(SplitPattern::Literal {
            text: String::new(),
            behavior: SplitBehavior::Isolated,
            invert: false,
        }),
        behind(with("b?", SplitBehavior::Contiguous, false)),
        vec![SplitPattern::ByteLevel, mark],
    ] {
        writeln!(report, "{}", refusal(&splits)).unwrap();
    }
    insta::assert_snapshot!(report, @r"
    split step 2 is not supported: `UnicodeScripts` is not expressed as a pattern
    the pattern of split step 2 can match the empty text
    the pattern of split step 2 can match the empty text
    split step 2 is not supported: it follows a byte-level step
    ");
}

#[test]
fn limits_are_named() {
    let defaults = SplitLimits::default();
    let mut report = String::new();
    let error = |splits: &[SplitPattern], limits: &SplitLimits| {
        SplitDfa::new(splits, &SplitOptions::default(), limits).unwrap_err().to_string()
    };
    // The last number bounds the steps up to the error: if they were more, the error would be `TooCostly`.
    for (pattern, limits, steps) in [
        ("a".repeat(70_000), defaults.clone(), 0),
        ("((a))".to_owned(), SplitLimits { nest: 1, ..defaults.clone() }, 0),
        (
            format!("{}a{}", "(".repeat(600), ")".repeat(600)),
            SplitLimits { nest: 1_000, ..defaults.clone() },
            0,
        ),
        ("[a-c]d".to_owned(), SplitLimits { sets: 1, ..defaults.clone() }, 200),
        ("a{1000}{1000}".replacen("}{", "}b){", 1).replacen('a', "(?:a", 1), defaults.clone(), 10),
        ("a{99999999999}".to_owned(), defaults.clone(), 10),
        ("(?:a?){99999999}b".to_owned(), defaults.clone(), 10),
        ("(?:(?:){9999999})b".to_owned(), defaults.clone(), 10),
        (r"\p{L}+|\p{N}".to_owned(), SplitLimits { states: 50, ..defaults.clone() }, 100_000),
        ("(?:a|b)*a(?:a|b){20}c".to_owned(), defaults.clone(), 50_000_000),
        ("(?:a|b)*a(?:a|b){20}c".to_owned(), defaults.clone(), 10_000),
    ] {
        let limits = SplitLimits { steps, ..limits };
        writeln!(report, "{}", error(&[regex(&pattern)], &limits)).unwrap();
    }
    insta::assert_snapshot!(report, @r"
    the pattern of split step 1 is 70000 bytes long; the limit is 65536 (SplitLimits::pattern_bytes)
    split step 1 nests groups deeper than 1 levels (SplitLimits::nest), at line 1, column 2
    split step 1 nests groups deeper than 250 levels (SplitLimits::nest), at line 1, column 251
    split step 1 brings the sets of characters beyond 1 (SplitLimits::sets), at line 1, column 6
    the NFA of split step 1 has more than 50000 states (SplitLimits::nfa_states)
    the NFA of split step 1 has more than 50000 states (SplitLimits::nfa_states)
    the NFA of split step 1 has more than 50000 states (SplitLimits::nfa_states)
    split step 1: a quantifier after a part that reads nothing is not supported, at line 1, column 8
    the automaton of the split steps has more than 50 states (SplitLimits::states)
    the automaton of the split steps has more than 65536 states (SplitLimits::states)
    the automaton of the split steps takes more than 10000 steps to make (SplitLimits::steps)
    ");
}

/// Every text of a pattern gives an automaton or an error.
#[test]
fn no_text_of_a_pattern_panics() {
    const PARTS: [&str; 40] = [
        "(", ")", "(?", "(?:", "(?!", "(?=", "(?>", "(?i)", "(?i:", "(?<", "(?P<", "'", "[", "]", "[^", "&&",
        "--", "-", "{", "}", "2", ",", "{2,3}", "?", "*", "+", "|", "\\", "\\p", "\\x", "\\d", "$", "^", ".",
        "a", "é", ":", "\n", "#", ">",
    ];
    let mut random = Random(11);
    let limits = SplitLimits { steps: 200_000, states: 500, ..SplitLimits::default() };
    for _ in 0..cases(3_000) {
        let text: String = (0..1 + random.below(10)).map(|_| random.pick(&PARTS)).collect();
        let built = SplitDfa::new(&[regex(&text)], &SplitOptions::default(), &limits);
        if let Some(place) = built.err().as_ref().and_then(SplitError::place) {
            assert!(text.get(place.span.clone()).is_some(), "{text:?}: {place:?}");
        }
    }
}
