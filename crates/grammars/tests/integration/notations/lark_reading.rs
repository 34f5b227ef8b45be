//! What Lark reads beyond its rules: ignored texts, which are as long as possible, empty alternatives, and the
//! newline of blocks. The verdicts are those of lark 1.3.1 (`parser="lalr"` with both lexers, and `parser="earley"`
//! with the basic one).

use proptest::{prelude::*, sample::select};
use unskew_automata::{Dfa, Limits};
use unskew_grammar::{Grammar, GrammarLimits};
use unskew_grammars::GrammarConstraint;
use unskew_notation::{GrammarOptions, from_lark};

use crate::common::texts::{bytes, judge};

fn read(text: &str) -> Result<Grammar, String> {
    let limits = GrammarLimits::default();
    from_lark(text, &GrammarOptions::default(), &limits).map_err(|error| error.to_string())
}

#[track_caller]
fn check(grammar: &str, accepted: &[&str], rejected: &[&str]) {
    let read = read(grammar).unwrap_or_else(|error| panic!("{grammar}\n{error}"));
    let constraint = GrammarConstraint::new(&read, bytes(), &GrammarLimits::default()).unwrap();
    let mut judge = judge(&constraint);
    for (texts, wanted) in [(accepted, true), (rejected, false)] {
        for text in texts {
            assert_eq!(judge(text).1, wanted, "{text:?} of {grammar}");
        }
    }
}

#[test]
fn an_ignored_text_is_as_long_as_possible() {
    let function =
        "start: \"func\" NAME \"(\" \")\"\nNAME: /[a-z]+/\n%ignore /\\/\\/[^\\n]*/\n%ignore /[ \\n]/\n";
    check(
        function,
        &["func // c\nx()", "funcx()", "func x () // the end", "// a\n//b\nfunc x()//"],
        &["func// x ()", "func x // ()", "func // c x()"],
    );
    // A division is no comment, and a comment that is not closed is a division.
    let division = "start: N (\"/\" N)*\nN: /[0-9]+/\n%ignore / +(\\/\\*[^*]*\\*\\/)?/\n";
    check(division, &["1 / 2", "1 /* a */ /2", "1 /2"], &["1 /* 2", "1 /* a */ b"]);
    // The newline of a comment is a terminal, too.
    let lines = "start: (N _NL)+\nN: /[0-9]+/\n_NL: /\\n+/\n%ignore /#[^\\n]*/\n%ignore / /\n";
    check(lines, &["1 # a\n2\n", "1\n2 #\n", "1 # a 2\n"], &["1#2\n2", "#1\n"]);
    // Blanks, which nothing but themselves continues, have no condition.
    check("start: \"a\" \"b\"\n%ignore /[ \\t]+/\n", &["a \t b", "ab", " a b "], &["a c"]);
    check("start: \"a\" /\\s*b/\n%ignore /[ \\t]+/\n", &["a \t b", "ab", "a\nb"], &["a c"]);
    // Between two ignored texts the first is the longest, too: `c #` is one, so that no ` #b` follows `c`.
    let two = "start: \"a\" \"b\"\n%ignore /[ c]+#?/\n%ignore / (#b)?/\n";
    check(two, &["ab", "a c # #bb", "ac#c #b"], &["ac #bb", "a #bc #bb"]);
    // The text ` #b` is one ignored text. Its division into ` ` and `#` is wrong, although an ignored text may come
    // before `b`.
    check(
        "start: \"a\" (\"b\" \"a\")*\n%ignore /##|#/\n%ignore / (#b)?/\n",
        &["a # ba", "a #bba"],
        &["a #ba"],
    );
    // `_` is ignored alone, and a terminal begins with it.
    check("start: A B\nA: \"a\"\nB: /_?b/\n%ignore /_+/\n", &["ab", "a_b", "a__b"], &["a_"]);
}

#[test]
fn other_engines_have_ignored_texts_of_any_length() {
    // A token has no text after which an ignored one could be longer, and a lazy terminal has its own border.
    let lazy = "start: call \"!\"\ncall[lazy]: /[a-z]+;/\n%ignore /#[^\\n]*/\n";
    check(lazy, &["ab;#x!", "ab;#!"], &["ab"]);
}

#[test]
fn the_last_alternative_may_be_empty() {
    let shape = "start: shape \"!\" name\nshape: \"(\" name \")\"\n     |\nname: /[a-z]+/\n";
    check(shape, &["(a)!b", "!b"], &["b"]);
    check("start: a \"x\"\na: \"b\" |\n%ignore / /", &["x", "bx"], &["a"]);
    check("start: a b\na: \"a\" |\n?b.2: \"b\" |\n\n// end\n", &["", "a", "b", "ab"], &["ba"]);
    check("start: A \"x\" |\nA: \"a\" |\n", &["", "ax", "x"], &["a"]);
    // An alternative goes on in the next line.
    check("start: \"a\" |\n  \"b\" | // c\n\n b\nb: \"c\"", &["a", "b", "c"], &[""]);
    check("start: p{\"a\"} |\np{x}: x |\n", &["", "a"], &["aa"]);
}

#[test]
fn the_newline_of_blocks_is_named_by_the_grammar() {
    let blocks = "start: (NAME _NL [_INDENT start _DEDENT])+\nNAME: /[a-z]{1,3}/\n_NL: /(\\r?\\n[\\t ]*)+/\n\
                  %declare _INDENT _DEDENT\n";
    check(blocks, &["a\n  b\nc\n", "a\n"], &["a\n  b\n c\n", "a"]);
    let option = "%grammar_options {\"indenter\": {\"newline\": \"BREAK\", \"indent\": \"IN\", \"dedent\": \"OUT\", \"tab\": 2}}\n";
    let blocks = format!(
        "{option}start: item+\nitem: /[a-z]/ BREAK [IN item+ OUT]\nBREAK: /(\\n[ \\t]*)+/\n%declare IN OUT\n"
    );
    check(&blocks, &["a\n  b\n\tc\n"], &["a\n  b\n   c\n d\n"]);
    let error = read("start: \"a\" _INDENT \"b\" _DEDENT\n%declare _INDENT _DEDENT\n").unwrap_err();
    assert!(error.contains("define it or `_NL`, or name another, as in `%grammar_options"), "{error}");
    let late = "%declare _INDENT _DEDENT\n%llguidance {\"indenter\": {\"newline\": \"X\"}}\nstart: \"a\"";
    assert!(read(late).unwrap_err().contains("write it before `%declare`"));
    let wrong = "%llguidance {\"indenter\": {\"newlines\": \"X\"}}\nstart: \"a\"";
    assert!(read(wrong).unwrap_err().contains("`newlines` of the option `indenter`"));
}

#[test]
fn refusals_say_what_to_do() {
    for (grammar, wanted) in [
        (
            "start: \"a\" (item (\",\" item)* \"b\"\nitem: /[0-9]+/",
            "line 1, column 12: the group is not closed: expected `)`",
        ),
        (
            "start: \"a\" [item\n\n%ignore / /\nitem: \"b\"",
            "line 1, column 12: the group is not closed: expected `]`",
        ),
        (
            "// c\nexpr: term\nterm: \"a\"",
            "line 2, column 1: start rule `start` is not defined: `--start` (`start` in a spec) names another rule, such as `expr`, `term`",
        ),
        ("start: \"a\"\u{a0}\"b\"", "U+00A0, which looks like a blank"),
        ("start: “a”", "found `“` (U+201C): a text is written in double quotes"),
    ] {
        let error = read(grammar).unwrap_err();
        assert!(error.contains(wanted), "{error}\n{wanted}");
    }
}

/// Ignored terminals over the letters of the texts.
const IGNORED: [&str; 9] = ["#[^c]*", " +", " ", "#(a*b)?", " (#b)?", "##|#", "aa", " *c", "[ c]+#?"];
/// Operators, some of which begin like ignored terminals.
const OPERATORS: [&str; 4] = ["b", "#a", "c", "ab"];

/// Whether `text` is a list of `aab` or `a` with operators between, and each ignored text in it as long as possible: by
/// trying all divisions.
fn is_list(text: &[u8], operator: &str, ignored: &Dfa) -> bool {
    // By offset: whether an item, an operator, or the first item comes next.
    let mut reached = vec![[false; 3]; text.len() + 1];
    reached[0][2] = true;
    for at in 0..=text.len() {
        let mut state = Some(ignored.start());
        let mut longest = None;
        for (read, byte) in (at + 1..).zip(&text[at..]) {
            state = state.and_then(|state| ignored.step(state, *byte));
            if state.is_some_and(|state| ignored.is_accepting(state)) {
                longest = Some(read);
            }
        }
        for next in 0..3 {
            if !reached[at][next] {
                continue;
            }
            if let Some(end) = longest {
                reached[end][next] = true;
            }
            let words: &[&str] = if next == 1 { &[operator] } else { &["aab", "a"] };
            for word in words {
                if text[at..].starts_with(word.as_bytes()) {
                    reached[at + word.len()][usize::from(next != 1)] = true;
                }
            }
        }
    }
    reached[text.len()][1]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_000 } else { 3_000 }))]

    /// Ignored texts are the longest ones, by their definition.
    #[test]
    fn random_ignored_texts_are_as_long_as_possible(
        patterns in prop::collection::vec(select(&IGNORED[..]), 1..=3),
        operator in select(&OPERATORS[..]),
        texts in prop::collection::vec(prop::collection::vec(select(&["a", "b", "c", " ", "#", "aab", "#a", "c ", " #"][..]), 0..9), 40),
    ) {
        let union = patterns.iter().map(|pattern| format!("({pattern})")).collect::<Vec<_>>().join("|");
        let ignored = Dfa::from_pattern(&union, &Limits::default()).unwrap();
        let mut grammar = format!("start: ITEM (\"{operator}\" ITEM)*\nITEM: \"aab\" | \"a\"\n");
        patterns.iter().for_each(|pattern| grammar.push_str(&format!("%ignore /{pattern}/\n")));
        let read = read(&grammar).unwrap();
        let constraint = GrammarConstraint::new(&read, bytes(), &GrammarLimits::default()).unwrap();
        let mut judge = judge(&constraint);
        for text in texts {
            let text = text.concat();
            prop_assert_eq!(judge(&text).1, is_list(text.as_bytes(), operator, &ignored), "{:?} of {}", text, grammar);
        }
    }
}
