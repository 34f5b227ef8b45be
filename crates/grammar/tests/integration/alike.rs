//! Grammars with the same rules, whatever the rules are called.

use unskew_grammar::GrammarLimits;
use unskew_notation::from_gbnf;

#[test]
fn names_of_rules_are_no_difference() {
    let read = |text: &str| from_gbnf(text, &GrammarLimits::default()).unwrap().trimmed().unwrap();
    let base = read("root ::= a \"x\"\na ::= \"(\" a? \")\" | [0-9]+");
    assert!(base.has_text());
    assert!(base.is_alike(&read("b ::= \"(\" b? \")\" | [0-9]+\nroot ::= b \"x\"")));
    for other in [
        "root ::= a \"y\"\na ::= \"(\" a? \")\" | [0-9]+",
        "root ::= a \"x\"\na ::= \"(\" b? \")\" | [0-9]+\nb ::= \"z\"",
        "root ::= a \"x\"\na ::= \"(\" a? \")\" | [0-8]+",
        "root ::= a \"x\"\na ::= \"(\" a \")\" | [0-9]+",
    ] {
        assert!(!base.is_alike(&read(other)), "{other}");
    }
}
