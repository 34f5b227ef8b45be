//! Budgets of tokens of rules that recur: random grammars and vocabularies beside an enumeration by the definition,
//! and what is refused.
//!
//! The definition: the part is spelled by at most so many tokens, and these spell nothing else. The tokens of an
//! output are therefore those of its parts one after the other, and the enumeration makes them part by part.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarFormat, GrammarOptions};
use unskew_trie::TokenTrie;

use crate::common::oracle::{Alphabet, Oracle, bytes};

/// A part of an output: a text, or the rule with the budget.
#[derive(Clone, Debug)]
enum Part {
    Text(&'static str),
    Budget,
}

fn pick<T: Clone>(random: &mut ChaCha8Rng, of: &[T]) -> T {
    of[random.next_u32() as usize % of.len()].clone()
}

/// The alternatives of a rule of two, `r` and `q`.
fn body(random: &mut ChaCha8Rng) -> String {
    let items = [
        "r",
        "q",
        "r",
        "q",
        "\"a\"",
        "\"b\"",
        "\"(\"",
        "\")\"",
        "\"ab\"",
        "/[ab]+/",
        "(\"(\" r \")\")",
        "q?",
        "r*",
        "(\"a\" q)",
    ];
    let alternatives = (0..1 + random.next_u32() % 3).map(|_| {
        let parts: Vec<&str> = (0..1 + random.next_u32() % 3).map(|_| pick(random, &items)).collect();
        parts.join(" ")
    });
    let mut alternatives: Vec<String> = alternatives.collect();
    if !random.next_u32().is_multiple_of(3) {
        alternatives.push(pick(random, &["\"a\"", "\"b\"", "\"()\"", "\"\""]).to_owned());
    }
    alternatives.join(" | ")
}

fn vocabulary(random: &mut ChaCha8Rng) -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for text in ["a", "b", "(", ")"] {
        builder.text(text.as_bytes());
    }
    let longer = ["aa", "ab", "ba", "((", "))", "()", "(a", "a)", "a)b", "((a", ")))", "bb", "b)", "(b)"];
    for _ in 0..2 + random.next_u32() % 4 {
        builder.text(pick(random, &longer).as_bytes());
    }
    Arc::new(builder.build().unwrap())
}

/// The tokens that spell a text, in every way.
fn spellings(vocabulary: &Vocabulary, text: &[u8]) -> Vec<Vec<TokenId>> {
    if text.is_empty() {
        return vec![vec![]];
    }
    let tokens = vocabulary.text_tokens().filter(|(_, token)| text.starts_with(token));
    tokens
        .flat_map(|(id, token)| {
            let rest = spellings(vocabulary, &text[token.len()..]);
            rest.into_iter().map(move |rest| [vec![id], rest].concat())
        })
        .collect()
}

/// All sequences of one token to `most` tokens whose text the oracle accepts.
fn inside(oracle: &Oracle, vocabulary: &Vocabulary, most: u32) -> Vec<Vec<TokenId>> {
    let mut known: HashMap<Vec<u8>, bool> = HashMap::new();
    let (mut found, mut open) = (vec![], vec![Vec::<TokenId>::new()]);
    while let Some(tokens) = open.pop() {
        let text = vocabulary.decode(&tokens);
        if !tokens.is_empty() && *known.entry(text.clone()).or_insert_with(|| oracle.accepts(&bytes(&text))) {
            found.push(tokens.clone());
        }
        if tokens.len() < most as usize {
            open.extend(vocabulary.text_tokens().map(|(id, _)| [&tokens[..], &[id]].concat()));
        }
    }
    found
}

/// The outputs of parts.
fn outputs(
    parts: &[Part],
    inside: &[Vec<TokenId>],
    is_nullable: bool,
    vocabulary: &Vocabulary,
    found: &mut HashSet<Vec<TokenId>>,
) {
    let budgets = parts.iter().filter(|part| matches!(part, Part::Budget)).count();
    // Which of the budgets have a text. A token may cross one that has none.
    for filled in 0..1u32 << budgets {
        if !is_nullable && filled.count_ones() as usize != budgets {
            continue;
        }
        let (mut ways, mut text, mut budget): (Vec<Vec<TokenId>>, String, u32) =
            (vec![vec![]], String::new(), 0);
        let after = |ways: &mut Vec<Vec<TokenId>>, more: &[Vec<TokenId>]| {
            *ways =
                ways.iter().flat_map(|way| more.iter().map(move |more| [&way[..], more].concat())).collect();
        };
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Budget => {
                    if filled >> budget & 1 == 1 {
                        after(&mut ways, &spellings(vocabulary, std::mem::take(&mut text).as_bytes()));
                        after(&mut ways, inside);
                    }
                    budget += 1;
                }
            }
        }
        after(&mut ways, &spellings(vocabulary, text.as_bytes()));
        found.extend(ways);
    }
}

fn read(text: &str) -> Result<Grammar, GrammarError> {
    unskew_notation::parse(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default())
}

/// Compares masks and ends after every prefix of an output. Returns how many outputs there are.
fn compare(random: &mut ChaCha8Rng) -> usize {
    let most = random.next_u32() % 4;
    let (vocabulary, rules) = (vocabulary(random), format!("q: {}\n", body(random)));
    let of_rule = body(random);
    let texts = ["a", "b", "(", ")", "ab", "()"];
    let paths: Vec<Vec<Part>> = (0..1 + random.next_u32() % 2)
        .map(|_| {
            let mut parts: Vec<Part> =
                (0..random.next_u32() % 3).map(|_| Part::Text(pick(random, &texts))).collect();
            for _ in 0..1 + u32::from(most < 3 && random.next_u32().is_multiple_of(4)) {
                parts.insert(random.next_u32() as usize % (parts.len() + 1), Part::Budget);
            }
            parts
        })
        .collect();
    let path = |parts: &Vec<Part>| {
        let parts = parts.iter().map(|part| match part {
            Part::Text(text) => format!("{text:?}"),
            Part::Budget => "r".to_owned(),
        });
        parts.collect::<Vec<_>>().join(" ")
    };
    let start = paths.iter().map(path).collect::<Vec<_>>().join(" | ");
    let text = format!("start: {start}\nr[max_tokens={most}]: {of_rule}\n{rules}");
    let limits = GrammarLimits::default();
    let oracle =
        Oracle::new(&read(&format!("start: r\nr: {of_rule}\n{rules}")).unwrap(), &Alphabet::of(&vocabulary));
    let (inside, is_nullable) = (inside(&oracle, &vocabulary, most), oracle.accepts(&[]));
    let mut expected = HashSet::new();
    for parts in &paths {
        outputs(parts, &inside, is_nullable, &vocabulary, &mut expected);
    }
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let grammar = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let constraint = match random.next_u32() % 2 {
        0 => GrammarConstraint::new(&grammar, trie, &limits),
        _ => GrammarConstraint::with_library(&grammar, &Arc::new(TreeLibrary::new(trie, 1 << 20)), &limits),
    };
    let constraint = match constraint {
        Err(GrammarError::Empty { .. }) => {
            assert!(expected.is_empty(), "{text}: {expected:?}");
            return 0;
        }
        made => made.unwrap_or_else(|error| panic!("{text}: {error}")),
    };
    assert!(!expected.is_empty(), "{text}");
    let mut prefixes: HashMap<Vec<TokenId>, HashSet<TokenId>> = HashMap::new();
    for output in &expected {
        for at in 0..output.len() {
            prefixes.entry(output[..at].to_vec()).or_default().insert(output[at]);
        }
        prefixes.entry(output.clone()).or_default();
    }
    let (mut scratch, mut mask) = (constraint.scratch(), TokenMask::new(constraint.vocab_len()));
    let mut compared = 0;
    for (tokens, next) in prefixes.iter().take(400) {
        let mut state = constraint.start();
        for token in tokens {
            constraint
                .advance(&mut scratch, &mut state, *token)
                .unwrap_or_else(|_| panic!("{text}\n{tokens:?}"));
        }
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        assert_eq!(mask.ids().collect::<HashSet<_>>(), *next, "{text}\n{tokens:?}");
        assert_eq!(constraint.is_accepting(&state), expected.contains(tokens), "{text}\n{tokens:?}");
        compared += 1;
    }
    compared
}

/// `UNSKEW_CASES`: how many grammars.
#[test]
fn random_budgets_of_rules_that_recur() {
    let cases = unskew_testdata::random_cases(300, 300) as usize;
    let mut random = ChaCha8Rng::seed_from_u64(71);
    let with_outputs = (0..cases).filter(|_| compare(&mut random) > 1).count();
    assert!(with_outputs * 2 > cases, "{with_outputs} of {cases}");
}

fn accepts(text: &str, format: GrammarFormat, tokens: &[&str], output: &[&str]) -> bool {
    let mut builder = Vocabulary::builder();
    tokens.iter().for_each(|token| _ = builder.text(token.as_bytes()));
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
    let limits = GrammarLimits::default();
    let grammar = unskew_notation::parse(text, format, &GrammarOptions::default(), &limits).unwrap();
    let constraint = GrammarConstraint::new(&grammar, trie, &limits).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    output.iter().all(|token| {
        let at = tokens.iter().position(|other| other == token).unwrap();
        constraint.advance(&mut scratch, &mut state, TokenId(u32::try_from(at).unwrap())).is_ok()
    }) && constraint.is_accepting(&state)
}

#[test]
fn a_list_in_a_list_has_few_tokens() {
    use GrammarFormat::{Lark, Xgrammar};
    let tokens = ["[", "]", "[]", "]]", "1", ",", "END", " ", "E", "N", "D"];
    let lark = "start: list \"END\"\nlist[max_tokens=4]: \"[\" [item (\",\" item)*] \"]\"\nitem: list | \"1\"\n%ignore \" \"";
    let xgrammar = "root ::= list \"END\"\nlist[max_tokens=4] ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= list | \"1\"";
    let nested = "start: l \"END\"\nl[max_tokens=4]: %lark {\nstart: \"[\" [item (\",\" item)*] \"]\"\nitem: start | \"1\"\n}";
    for (text, format) in [(lark, Lark), (xgrammar, Xgrammar), (nested, Lark)] {
        let accepts = |output: &[&str]| accepts(text, format, &tokens, output);
        assert!(accepts(&["[", "]", "END"]) && accepts(&["[", "[", "1", "]]", "END"]), "{text}");
        assert!(accepts(&["[", "[", "[]", "]]", "END"]), "{text}");
        assert!(accepts(&["[", "[", "]", "]", "END"]), "{text}");
        assert!(!accepts(&["[", "1", ",", "1", "]", "END"]), "five tokens: {text}");
        assert!(!accepts(&["[", "1", "END"]), "no text is cut: {text}");
    }
    // Ignored text inside counts.
    assert!(accepts(lark, Lark, &tokens, &["[", " ", "1", "]", " ", "END"]));
    assert!(!accepts(lark, Lark, &tokens, &["[", " ", "1", " ", "]", "END"]));
}

#[test]
fn what_a_budget_of_a_part_that_recurs_does_not_read() {
    for (text, expected) in [
        (
            "start: r\nr[max_tokens=3]: \"(\" r \")\" | b\nb[capture]: \"b\"",
            "captures and temperatures inside",
        ),
        (
            "start: r\nr[max_tokens=3]: \"(\" r \")\" | q\nq[max_tokens=2]: \"b\" q | \"a\"",
            "another budget inside",
        ),
        ("start: r\nr[max_tokens=3]: \"(\" r \")\" | b \"a\"\nb[lazy]: /b+/", "lazy terminals inside"),
        ("start: r\nr[max_tokens=3]: \"(\" r \")\" | /b(?!a)/", "look-around beyond a terminal inside"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    // Each part with a budget is read by itself.
    let many: String =
        (0..8000).map(|at| format!("r{at}[max_tokens=1]: \"(\" r{at} \")\" | \"a\"\n")).collect();
    let refused = read(&format!("start: r0\n{many}")).unwrap_err();
    assert!(matches!(refused, GrammarError::TooManyNodes { .. }), "{refused}");
    // A limit ends the search for states: each token opens or closes one of two brackets.
    let text = "start: r\nr[max_tokens=40]: (\"(\" r \")\" | \"[\" r \"]\")*";
    let mut builder = Vocabulary::builder();
    ["(", ")", "[", "]"].iter().for_each(|token| _ = builder.text(token.as_bytes()));
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
    let mut limits = GrammarLimits::default();
    limits.budget_bytes = 1 << 16;
    let refused = GrammarConstraint::new(&read(text).unwrap(), trie, &limits).unwrap_err();
    assert!(matches!(refused, GrammarError::BudgetTooLarge { limit: 65536, .. }), "{refused}");
}
