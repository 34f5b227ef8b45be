//! The analysis of grammars, on hand-written ones. Random ones are compared with the definitions in the tests of
//! `unskew-grammars`, which have an oracle.

use std::collections::BTreeMap;

use unskew_grammar::{Grammar, GrammarError, GrammarLimits, LeftRecursion, RuleId};
use unskew_notation::from_gbnf;

fn read(text: &str) -> Grammar {
    from_gbnf(text, &GrammarLimits::default()).unwrap()
}

/// The rules by name.
fn rules(grammar: &Grammar) -> BTreeMap<&str, RuleId> {
    grammar.rules().map(|rule| (grammar.rule_name(rule), rule)).collect()
}

#[test]
fn findings_name_what_is_probably_not_meant() {
    let grammar = read(
        r#"root  ::= "a" | b never | "a" | c{2} | root
b     ::= "x" ("y" | "z" | ("y"))
c     ::= b | never | other-never
never ::= "n" other-never
other-never ::= never "m" | "k" never
unused ::= unused? "u" | root
"#,
    );
    let analysis = grammar.analysis();
    let findings: Vec<String> = analysis.findings().iter().map(ToString::to_string).collect();
    let expected = [
        "line 1, column 1: the rule `root`: an alternative can never be completed",
        "line 1, column 1: the rule `root`: an alternative repeats another",
        "line 1, column 1: the rule `root`: it may derive itself alone, which adds readings and no text",
        "line 2, column 1: the rule `b`: an alternative repeats another",
        "line 3, column 1: the rule `c`: 2 alternatives can never be completed",
        "line 4, column 1: the rule `never`: it has no text, since `never` needs `other-never` needs `never`, without end",
        "line 6, column 1: the rule `unused`: no output uses it",
    ];
    assert_eq!(findings, expected);
    let size = grammar.size();
    assert_eq!((size.rules, size.places, size.states), (6, 23, 0));
}

#[test]
fn facts_of_rules() {
    let grammar = read(
        r#"root   ::= direct indirect hidden right middle | ""
direct ::= direct "a" | "b"
indirect ::= other "x" | "y"
other ::= indirect | "z"
hidden ::= empty hidden "a" | "b"
empty ::= "e"?
right ::= "a" right | "b"
middle ::= "(" middle ")" | [0-9]{3,} | ("a"{1000}){4000000000}
"#,
    );
    let (analysis, rules) = (grammar.analysis(), rules(&grammar));
    let facts = |name: &str| analysis.rule(rules[name]);
    let left = |name: &str| facts(name).left_recursion;
    assert_eq!(left("root"), None);
    assert_eq!(left("direct"), Some(LeftRecursion::Direct));
    assert_eq!(
        (left("indirect"), left("other")),
        (Some(LeftRecursion::Indirect), Some(LeftRecursion::Indirect))
    );
    assert_eq!(left("hidden"), Some(LeftRecursion::Hidden));
    assert_eq!((left("right"), left("middle"), left("empty")), (None, None, None));
    assert!(facts("right").recursive && facts("middle").recursive && !facts("root").recursive);
    assert!(facts("root").nullable && facts("empty").nullable && !facts("hidden").nullable);
    assert_eq!(facts("middle").places, 3 + 3 + 4_000_000_000_000);
    assert!(analysis.findings().is_empty());
}

#[test]
fn an_empty_language_names_the_rules_that_never_end() {
    let reason = |text: &str| match read(text).trimmed().unwrap_err() {
        error @ GrammarError::Empty { .. } => error.to_string(),
        error => panic!("{error}"),
    };
    assert_eq!(
        reason("root ::= \"a\" root"),
        "the grammar accepts no text: each alternative of `root` needs `root` itself"
    );
    assert_eq!(
        reason("root ::= \"a\" (x | y) \"b\"\nx ::= y+ | \"c\" y\ny ::= (x | y) \"\" y"),
        "the grammar accepts no text: `x` needs `y` needs `x`, without end"
    );
}

#[test]
fn a_long_chain_is_analysed_without_recursion() {
    let mut text = String::from("root ::= r0\n");
    (0..40_000).for_each(|rule| text += &format!("r{rule} ::= r{} | \"a\" r{rule}\n", rule + 1));
    let grammar = read(&(text + "r40000 ::= r0"));
    assert!(matches!(grammar.trimmed(), Err(GrammarError::Empty { .. })));
    let analysis = grammar.analysis();
    assert!(grammar.rules().skip(1).all(|rule| analysis.rule(rule).cyclic));
}
