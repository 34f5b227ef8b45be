//! Context-independent fragments of masks: masks in nestings that were never visited, built from fragments
//! that other nestings left, in the same scratch or in an earlier scratch of the same grammar.

use std::sync::Arc;

use unskew_core::{Constraint, TokenId, TokenMask, Vocabulary};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::{GrammarConstraint, TreeLibrary, Tuning};
use unskew_notation::{GrammarOptions, from_lark};
use unskew_trie::TokenTrie;

/// Lists and sums as repetitions.
const LOOPS: &str = r#"
start: statement+
statement: "if" "(" sum ")" statement ["else" statement] | "{" statement* "}" | [NAME "="] sum ";"
sum: term (("+" | "-") term)*
term: "-" term | NAME | NAME "[" sum "]" | NAME "(" [sum ("," sum)*] ")" | "(" sum ")" | NUMBER
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore /[ \n]+/
"#;

/// The same language without blanks, with left recursion in place of repetitions.
const RECURSIVE: &str = r#"
start: statements
statements: statement | statements statement
statement: "if" "(" sum ")" statement | "if" "(" sum ")" statement "else" statement | "{" "}" | "{" statements "}" | assigned ";"
assigned: sum | NAME "=" sum
sum: term | sum "+" term | sum "-" term
term: "-" term | NAME | NAME "[" sum "]" | NAME "(" ")" | NAME "(" arguments ")" | "(" sum ")" | NUMBER
arguments: sum | arguments "," sum
NAME: /[a-z]+/
NUMBER: /[0-9]+/
"#;

/// As [`LOOPS`] with one bracket changed, so that it is another grammar.
const OTHER: &str = r#"
start: statement+
statement: "if" "(" sum ")" statement ["else" statement] | "{" statement* "}" | [NAME "="] sum ";"
sum: term (("+" | "-") term)*
term: "-" term | NAME | NAME "[" sum "]" | NAME "(" [sum ("," sum)*] ")" | "(" sum "]" | NUMBER
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore /[ \n]+/
"#;

const TEXTS: [&str; 5] = [
    "a=f(x,(1+2)-y[3]);if(a)x;else{b=(((a)));}",
    "if(f(g(h(1))))if(-a--b){{c[d[e[1]]]=2;}}else-1;",
    "{{{{(a+(b+(c+(d+e))));}}}if(x)f();else f(a,b,c);}",
    "f(a[b(c[d(1)])]);f(a[b(c[d(2)])]);{f(a[b(c[d(3)])]);}",
    "----a;f(----a);f(a)[----a];if(----a)----a;",
];

fn vocabulary() -> Arc<Vocabulary> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255u8 {
        builder.text(&[byte]);
    }
    for text in [
        "((",
        "))",
        "(((",
        ")))",
        ");",
        "))",
        ")]",
        "])",
        "]);",
        ") {",
        "){",
        "(a",
        "(a)",
        "x)",
        "x,",
        "f(",
        "f(x",
        "f()",
        ");}",
        "};",
        "--",
        "---",
        "----",
        "-1",
        " =",
        "= ",
        "=(",
        "a=f",
        "if",
        "if(",
        "if (",
        "else",
        "else{",
        "else if",
        " a",
        " (a",
        "\n}",
        "}\n",
        "}}",
        "{{",
        "}}}",
        "[1",
        "1]",
        "1+",
        "+(",
        "(1+2)",
        "a,b",
        ", b",
        "12",
        " 12",
        "[d(",
        "(2)",
        ")])",
        ";if(",
        ");if(x)f(",
    ] {
        builder.text(text.as_bytes());
    }
    Arc::new(builder.build().unwrap())
}

/// The tokens of `text`, each as long as possible.
fn tokens(vocabulary: &Vocabulary, text: &str) -> Vec<TokenId> {
    let mut left = text.as_bytes();
    let mut tokens = Vec::new();
    while !left.is_empty() {
        let begins = |(_, token): &(TokenId, &[u8])| left.starts_with(token);
        let (token, found) =
            vocabulary.text_tokens().filter(begins).max_by_key(|(_, text)| text.len()).unwrap();
        tokens.push(token);
        left = &left[found.len()..];
    }
    tokens
}

/// The masks along `texts`, each up to its first rejected token, in a new scratch.
fn masks(constraint: &GrammarConstraint, vocabulary: &Vocabulary, texts: &[&str]) -> Vec<Vec<u32>> {
    let mut scratch = constraint.scratch();
    let mut masks = Vec::new();
    let mut mask = TokenMask::new(constraint.vocab_len());
    for text in texts {
        let mut state = constraint.start();
        for token in tokens(vocabulary, text) {
            constraint.fill_mask(&mut scratch, &state, mask.as_mut());
            masks.push(mask.words().to_vec());
            if constraint.advance(&mut scratch, &mut state, token).is_err() {
                break;
            }
        }
        constraint.fill_mask(&mut scratch, &state, mask.as_mut());
        masks.push(mask.words().to_vec());
    }
    masks
}

#[test]
fn parts_change_no_mask() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let library = |tuning| Arc::new(TreeLibrary::with_tuning(Arc::clone(&trie), 64 << 20, tuning));
    let libraries = [library(Tuning::with_all_fragments()), library(Tuning::default())];
    for text in [LOOPS, OTHER, RECURSIVE] {
        let grammar = from_lark(text, &GrammarOptions::default(), &limits).unwrap();
        let plain = GrammarConstraint::new(&grammar, Arc::clone(&trie), &limits).unwrap();
        let expected = masks(&plain, &vocabulary, &TEXTS);
        // In reverse order the texts begin with other nestings.
        let backwards: Vec<&str> = TEXTS.iter().rev().copied().collect();
        let expected_backwards = masks(&plain, &vocabulary, &backwards);
        for library in &libraries {
            for _ in 0..2 {
                let with = GrammarConstraint::with_library(&grammar, library, &limits).unwrap();
                assert!(masks(&with, &vocabulary, &TEXTS) == expected, "{text}");
                assert!(masks(&with, &vocabulary, &backwards) == expected_backwards, "{text}");
            }
        }
    }
}

#[test]
fn a_library_keeps_parts_for_the_same_grammar_alone() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let library = TreeLibrary::with_tuning(trie, 64 << 20, Tuning::with_all_fragments());
    let library = Arc::new(library);
    let size = |text: &str| {
        let grammar = from_lark(text, &GrammarOptions::default(), &limits).unwrap();
        let with = GrammarConstraint::with_library(&grammar, &library, &limits).unwrap();
        masks(&with, &vocabulary, &TEXTS);
        library.stats().entries
    };
    let first = size(LOOPS);
    assert_eq!(size(LOOPS), first, "all is there already");
    assert!(size(OTHER) > first, "nothing of this is");
    let all = size(OTHER);
    assert_eq!((size(LOOPS), size(OTHER)), (all, all));
}

#[test]
fn what_a_nesting_left_serves_another() {
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let limits = GrammarLimits::default();
    let grammar = from_lark(LOOPS, &GrammarOptions::default(), &limits).unwrap();
    let library = TreeLibrary::with_tuning(trie, 64 << 20, Tuning::with_all_fragments());
    let with = GrammarConstraint::with_library(&grammar, &Arc::new(library), &limits).unwrap();
    let mut scratch = with.scratch();
    let mut mask = TokenMask::new(with.vocab_len());
    let mut made = |text: &str| {
        let before = scratch.sizes().1;
        let mut state = with.start();
        for token in tokens(&vocabulary, text) {
            with.advance(&mut scratch, &mut state, token).unwrap();
        }
        let read = scratch.sizes().1;
        with.fill_mask(&mut scratch, &state, mask.as_mut());
        (read - before, scratch.sizes().1 - read)
    };
    let (_, first) = made("if(f(a");
    let (read, second) = made("{{g[(b");
    // Reading the text creates parser states, and so does the part of the mask after the brackets. The part
    // between the brackets is reused.
    assert!(read > 0 && second * 3 < first, "{first} states for the first mask, {second} for the second");
}

/// A text reads one of the members that may come next, and the states after the names of the others are not made.
#[test]
fn members_that_are_not_read_take_no_states() {
    const MEMBERS: usize = 60;
    let limits = GrammarLimits::default();
    let mut builder = Grammar::builder(&limits);
    let values = ["1", "2"].map(|text| builder.literal(text));
    let (value, separator) = (builder.rule("value"), builder.literal(","));
    let body = builder.choice(values);
    builder.define(value, body);
    let members = (0..MEMBERS).map(|at| {
        let parts = [builder.literal(format!("m{at:02}=")), builder.call(value)];
        (builder.sequence(parts), false)
    });
    let members: Vec<_> = members.collect();
    let body = builder.unordered(members, None, Some(separator), 0, None);
    let start = builder.rule("start");
    builder.define(start, body);
    let vocabulary = vocabulary();
    let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary)).unwrap());
    let grammar = builder.build(start).unwrap();
    let with = GrammarConstraint::new(&grammar, trie, &limits).unwrap();
    let (mut scratch, mut state) = (with.scratch(), with.start());
    let mut mask = TokenMask::new(with.vocab_len());
    for token in tokens(&vocabulary, "m07=1,m31=2,m59=1,") {
        with.fill_mask(&mut scratch, &state, mask.as_mut());
        assert!(TokenMask::as_ref(&mask).contains(token));
        with.advance(&mut scratch, &mut state, token).unwrap();
    }
    let (_, states, continuations) = scratch.sizes();
    assert!(states < MEMBERS && continuations < MEMBERS, "{states} states, {continuations} continuations");
}
