//! Tokens by id and name, budgets of tokens, and stops.

use std::{collections::HashSet, sync::Arc};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_automata::Dfa;
use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary, conformance};
use unskew_grammar::{Fate, Grammar, GrammarError, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary};
use unskew_notation::{GrammarFormat, GrammarOptions, explain};
use unskew_trie::TokenTrie;

use crate::common::enumeration::short;

fn read(text: &str, format: GrammarFormat) -> Result<Grammar, GrammarError> {
    unskew_notation::parse(text, format, &GrammarOptions::default(), &GrammarLimits::default())
}

/// `a`, `b`, `ab`, `ba`, an unused id, the control tokens `<x>` and `<y>`, and `<end>`, which ends the sequence.
fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for text in ["a", "b", "ab", "ba"] {
        builder.text(text.as_bytes());
    }
    builder.unused();
    for name in ["<x>", "<y>"] {
        builder.control(name);
    }
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    Arc::new(builder.build().unwrap())
}

fn compile(text: &str, format: GrammarFormat) -> Result<GrammarConstraint, GrammarError> {
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    GrammarConstraint::new(&read(text, format)?, trie, &GrammarLimits::default())
}

fn first(constraint: &GrammarConstraint) -> Vec<u32> {
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(&mut constraint.scratch(), &constraint.start(), mask.as_mut());
    mask.ids().map(|id| id.0).collect()
}

#[test]
fn sets_of_tokens_have_the_tokens_that_they_list() {
    use GrammarFormat::{Gbnf, Lark};
    for (set, expected) in [
        ("<[2]>", vec![2]),
        ("<[0-1,3]>", vec![0, 1, 3]),
        ("<[ 1 - 3 ]>", vec![]),
        ("<[^1,4-6]>", vec![0, 2, 3]),
        ("<[*]>", vec![0, 1, 2, 3, 5, 6]),
        ("<[4-5]>", vec![5]),
        ("<[3-90]>", vec![3, 5, 6]),
        ("!<x>", vec![0, 1, 2, 3, 6]),
        ("!<[0-2]>", vec![3, 5, 6]),
        ("!<[^0-2]>", vec![0, 1, 2]),
        ("<x>", vec![5]),
    ] {
        for (format, text) in [(Lark, format!("start: {set}")), (Gbnf, format!("root ::= {set}"))] {
            match compile(&text, format) {
                Ok(constraint) => {
                    assert_eq!(first(&constraint), expected, "{text}");
                    conformance::check_constraint(&constraint, 4).unwrap();
                }
                Err(error) => assert!(expected.is_empty(), "{text}: {error}"),
            }
        }
    }
    // A token stands for itself, and its text does not: `a`, `b` spell `ab` and are not the token `ab`.
    let constraint = compile("start: <[2]> | \"a\"", Lark).unwrap();
    assert_eq!(first(&constraint), [0, 2]);
    // The one token that ends the sequence is the end of the output.
    let constraint = compile("start: \"a\" <[7]>", Lark).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    constraint.advance(&mut scratch, &mut state, TokenId(0)).unwrap();
    assert!(constraint.is_accepting(&state));
}

#[test]
fn a_name_that_no_control_token_has_is_the_text_of_a_token() {
    let mut builder = Vocabulary::builder();
    for text in ["a", "<tool>", "<", "tool>"] {
        builder.text(text.as_bytes());
    }
    let trie = Arc::new(TokenTrie::new(builder.build().unwrap()).unwrap());
    let limits = GrammarLimits::default();
    for (text, expected) in [("root ::= <tool> \"a\"", vec![1]), ("root ::= !<tool> \"a\"", vec![0, 2, 3])] {
        let grammar = read(text, GrammarFormat::Gbnf).unwrap();
        let constraint = GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap();
        assert_eq!(first(&constraint), expected, "{text}");
        conformance::check_constraint(&constraint, 4).unwrap();
    }
}

#[test]
fn sets_without_a_token_and_wrong_sets_are_errors() {
    use GrammarFormat::{Gbnf, Lark};
    let refusal = |text: &str, format| compile(text, format).unwrap_err().to_string();
    for (text, format, message) in [
        (
            "start: <[90]>",
            Lark,
            "the vocabulary has no token `<[90]>`: give one that it has by its name, text or id, or write a text in quotes",
        ),
        (
            "start: <[4]>",
            Lark,
            "the vocabulary has no token `<[4]>`: give one that it has by its name, text or id, or write a text in quotes",
        ),
        (
            "root ::= !<z>",
            Gbnf,
            "the vocabulary has no token `<z>`: give one that it has by its name, text or id, or write a text in quotes",
        ),
        ("start: <[3-1]>", Lark, "line 1, column 10: the range 3-1 ends before it begins"),
        ("start: <[1>", Lark, "line 1, column 8: the list of tokens is not closed: expected `]>`"),
        ("start: <[x]>", Lark, "line 1, column 10: found `x`, expected the id of a token"),
        (
            "start: A\nA: <[1]>",
            Lark,
            "line 2, column 4: a control token in a terminal is not supported: use it in a rule, next to the terminal",
        ),
        (
            "root ::= !\"a\"",
            Gbnf,
            "line 1, column 11: found `\"`, expected a token such as `<|end|>` or `<[9]>` after `!`",
        ),
    ] {
        assert_eq!(refusal(text, format), message, "{text}");
    }
}

/// All sequences of `longest` tokens of text, in which each spells the text of `dfa` with at most `most` tokens after
/// a `b` and before an `a`.
fn expected(vocabulary: &Vocabulary, dfa: &Dfa, most: usize, longest: usize) -> HashSet<Vec<u32>> {
    let texts: Vec<(u32, Vec<u8>)> = vocabulary
        .text_tokens()
        .map(|(id, text)| (id.0, text.to_vec()))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let spelled = |tokens: &[u32]| -> Vec<u8> {
        tokens.iter().flat_map(|id| texts.iter().find(|(known, _)| known == id).unwrap().1.clone()).collect()
    };
    let mut all: Vec<Vec<u32>> = vec![vec![]];
    let mut found = HashSet::new();
    for _ in 0..longest {
        all = all
            .iter()
            .flat_map(|tokens| texts.iter().map(|(id, _)| [&tokens[..], &[*id]].concat()))
            .collect();
        for tokens in &all {
            let is_inside = |range: std::ops::Range<usize>| {
                range.len() <= most
                    && dfa
                        .run(dfa.start(), &spelled(&tokens[range]))
                        .is_some_and(|state| dfa.is_accepting(state))
            };
            let splits =
                (0..=tokens.len()).flat_map(|begin| (begin..=tokens.len()).map(move |end| (begin, end)));
            let mut splits = splits.filter(|(begin, end)| {
                spelled(&tokens[..*begin]) == b"b" && spelled(&tokens[*end..]) == b"a"
            });
            // A token may cross a text that is empty.
            let crosses = dfa.is_accepting(dfa.start()) && spelled(tokens) == b"ba";
            if crosses || splits.any(|(begin, end)| is_inside(begin..end)) {
                found.insert(tokens.clone());
            }
        }
    }
    found
}

#[test]
fn budgets_count_whole_tokens() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let mut random = ChaCha8Rng::seed_from_u64(33);
    let library = Arc::new(TreeLibrary::new(Arc::clone(&trie), 1 << 20));
    let patterns = ["[ab]*", "a*", "(ab)*", "b?(ab|a)*", "a{2,4}", "(a|bb)+", "", "ab", "[ab]{0,5}b"];
    let mut cases = 0;
    for pattern in patterns {
        let dfa = Dfa::from_pattern(pattern, &limits.regex).unwrap();
        for most in 0..4 {
            let text = format!("start: \"b\" middle \"a\"\nmiddle[max_tokens={most}]: /{pattern}/");
            let text = if pattern.is_empty() { text.replace("//", "\"\"") } else { text };
            let expected = expected(&vocabulary, &dfa, most, 5);
            let grammar = read(&text, GrammarFormat::Lark).unwrap();
            let compiled = match random.next_u32() % 2 {
                0 => GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits),
                _ => GrammarConstraint::with_library(&grammar, &library, &limits),
            };
            let constraint = match compiled {
                Ok(constraint) => constraint,
                Err(error) => {
                    assert!(expected.is_empty(), "{text}: {error}");
                    continue;
                }
            };
            conformance::check_constraint(&constraint, 4).unwrap();
            let mut open = vec![(Vec::new(), constraint.start())];
            let mut scratch = constraint.scratch();
            let mut found = HashSet::new();
            while let Some((tokens, state)) = open.pop() {
                if constraint.is_accepting(&state) {
                    found.insert(tokens.clone());
                }
                for token in (0..4).filter(|_| tokens.len() < 5) {
                    let mut next = state.clone();
                    if constraint.advance(&mut scratch, &mut next, TokenId(token)).is_ok() {
                        open.push(([&tokens[..], &[token]].concat(), next));
                    }
                }
            }
            assert_eq!(found, expected, "{text}");
            cases += found.len();
        }
    }
    assert!(cases > 200, "{cases} sequences");
}

#[test]
fn a_stop_ends_a_text_before_its_first_occurrence() {
    let texts = |text: &str| -> Vec<String> {
        let words = short(&read(text, GrammarFormat::Lark).unwrap(), 4).words;
        words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    };
    // `ab` begins nowhere in the text and the rest.
    assert_eq!(texts("start: s \"c\"\ns[stop=\"b\"]: /[ab]{0,3}/"), ["aaac", "aac", "ac", "c"]);
    assert_eq!(texts("start: s\ns[stop=/b+/]: /a+b?/"), ["a", "aa", "aaa", "aaaa"]);
    // A text that the body cannot have before a stop is left out.
    assert_eq!(texts("start: s\ns[stop=STOP]: /ab|abb|c/\nSTOP: \"b\""), ["ab", "c"]);
    // An empty stop is the end of the sequence.
    assert_eq!(texts("start: s \"c\"\ns[stop=\"\"]: /[ab]/"), ["ac", "bc"]);
}

#[test]
fn a_bound_on_characters() {
    let texts = |text: &str| -> Vec<String> {
        let words = short(&read(text, GrammarFormat::Lark).unwrap(), 4).words;
        words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    };
    assert_eq!(texts("start: s \"c\"\ns[max_chars=2]: /a*/"), ["aac", "ac", "c"]);
    // A text that cannot end there goes on to the first place where it can.
    assert_eq!(texts("start: s\ns[max_chars=1]: /a*b/"), ["aaab", "aab", "ab", "b"]);
    assert_eq!(texts("start: s\ns[max_chars=3, suffix=\"b\"]: /a*/"), ["aaab", "aab", "ab", "b"]);
    let found = read("start: S\nS[max_chars=3]: /a/", GrammarFormat::Lark).unwrap_err().to_string();
    assert!(found.contains("`max_chars` of a terminal is not supported"), "{found}");
    // A large bound is counted and takes no position for each character.
    for text in ["root[max_chars=4000000000] ::= [ab]*", "root[max_chars=1000001] ::= [ab]*"] {
        let constraint = compile(text, GrammarFormat::Xgrammar);
        assert!(constraint.is_ok(), "{text}: {:?}", constraint.err());
    }
}

/// The characters beyond which repetitions are counted are those of the bound.
#[test]
fn counted_characters_end_where_they_are_used_up() {
    let most = (1 << 16) + 1;
    let text = format!("root ::= [ab]{{2,{most}}}");
    let constraint = compile(&text, GrammarFormat::Xgrammar).unwrap();
    let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    let mut mask = TokenMask::new(constraint.vocab_len());
    let mut allowed = |scratch: &mut _, state: &_| {
        constraint.fill_mask(scratch, state, mask.as_mut());
        mask.ids().map(|id| id.0).collect::<Vec<_>>()
    };
    for read in 0..most {
        assert_eq!(constraint.is_accepting(&state), read >= 2);
        if read < 3 || read + 3 > most {
            let expected: &[u32] = if read + 1 < most { &[0, 1, 2, 3] } else { &[0, 1] };
            assert_eq!(allowed(&mut scratch, &state), expected, "{read}");
        }
        constraint.advance(&mut scratch, &mut state, TokenId(read % 2)).unwrap();
    }
    assert!(constraint.is_accepting(&state) && allowed(&mut scratch, &state).is_empty());
}

/// Ignored texts stand before the first terminal too, unless the grammar says otherwise.
#[test]
fn ignored_texts_at_the_beginning() {
    let texts = |options: &str| -> Vec<String> {
        let text = format!("{options}\nstart: \"a\"\n%ignore \"b\"");
        let words = short(&read(&text, GrammarFormat::Lark).unwrap(), 3).words;
        words.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    };
    let anywhere = ["a", "ab", "abb", "ba", "bab", "bba"];
    assert_eq!(texts(""), anywhere);
    assert_eq!(texts("%llguidance {\"allow_initial_skip\": true}"), anywhere);
    assert_eq!(texts("%llguidance {\"allow_initial_skip\": false}"), ["a", "ab", "abb"]);
    let merged = "%grammar_options {\"allow_initial_skip\": false}\n%grammar_options {\"no_forcing\": false}";
    assert_eq!(texts(merged), ["a", "ab", "abb"]);
}

#[test]
fn explain_and_errors_of_attributes() {
    let fates = |text: &str| {
        explain(text, GrammarFormat::Lark, &GrammarOptions::default(), &GrammarLimits::default())
    };
    let found = fates("start: s <[1-2]>\ns[stop=\"b\", max_tokens=4, temperature=0.5, capture]: /a+/");
    for (construct, fate) in [
        ("`stop`", Fate::Enforced),
        ("`max_tokens`", Fate::Enforced),
        ("`temperature`", Fate::Annotation),
        ("`capture`", Fate::Enforced),
        ("tokens `<[1-2]>`", Fate::Enforced),
    ] {
        assert!(
            found.iter().any(|one| one.construct == construct && one.fate == fate),
            "{construct}: {found:?}"
        );
    }
    let refusal = |text: &str| read(text, GrammarFormat::Lark).unwrap_err().to_string();
    assert!(refusal("start: s\ns[lazy, stop=\"b\"]: /a/").contains("and only once"));
    assert!(
        refusal("start: A\nA[max_tokens=3]: /a/").contains("`max_tokens` of a terminal is not supported")
    );
    assert!(refusal("start: s\ns[max_tokens]: /a/").contains("`max_tokens` needs one value"));
    // The sets of a large automaton.
    let many = read("start: s\ns[max_tokens=3]: /(a|b){1,40}/", GrammarFormat::Lark).unwrap();
    let trie = Arc::new(TokenTrie::new(vocabulary()).unwrap());
    assert!(GrammarConstraint::new(&many, trie, &GrammarLimits::default()).is_ok());
}
