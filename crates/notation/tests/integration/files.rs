//! Which notation a file is in, and where its rules stand.

use unskew_grammar::GrammarLimits;
use unskew_notation::{GrammarFormat, GrammarOptions};

#[test]
fn rules_know_their_place() {
    let grammar = unskew_notation::parse(
        "root ::= a\n  a ::= \"é\" b\nb ::= a?",
        GrammarFormat::Gbnf,
        &GrammarOptions::default(),
        &GrammarLimits::default(),
    )
    .unwrap();
    let places: Vec<_> = grammar
        .rules()
        .map(|rule| (grammar.rule_name(rule), grammar.rule_location(rule).unwrap().to_string()))
        .collect();
    let expected = [("root", "line 1, column 1"), ("a", "line 2, column 3"), ("b", "line 3, column 1")];
    assert_eq!(places, expected.map(|(name, place)| (name, place.to_owned())));
}

#[test]
fn extensions_name_formats() {
    for (extension, format) in [
        ("gbnf", Some(GrammarFormat::Gbnf)),
        ("EBNF", Some(GrammarFormat::Ebnf)),
        ("lark", Some(GrammarFormat::Lark)),
        ("Abnf", Some(GrammarFormat::Abnf)),
        ("xgrammar", Some(GrammarFormat::Xgrammar)),
        ("bnf", Some(GrammarFormat::Ebnf)),
        ("txt", None),
    ] {
        assert_eq!(GrammarFormat::from_extension(extension), format);
    }
}
