//! What Lark reads beyond its rules: ignored texts, which are as long as possible, empty alternatives, and the newline of
//! blocks. The verdicts are those of lark 1.3.1 (`parser="lalr"` with both lexers, and `parser="earley"` with the basic
//! one).

use crate::common::texts::{bytes, judge};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarLimits, GrammarOptions};

fn read(text: &str) -> Result<Grammar, String> {
    let limits = GrammarLimits::default();
    Grammar::from_lark(text, &GrammarOptions::default(), &limits).map_err(|error| error.to_string())
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
    check(lines, &["1 # a\n2\n", "1\n2 #\n"], &["1 # a 2\n", "1#2\n2"]);
    // Blanks, which nothing but themselves continues, have no condition.
    check("start: \"a\" \"b\"\n%ignore /[ \\t]+/\n", &["a \t b", "ab", " a b "], &["a c"]);
    check("start: \"a\" /\\s*b/\n%ignore /[ \\t]+/\n", &["a \t b", "ab", "a\nb"], &["a c"]);
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
