//! The fate of each construct of a text.

use unskew_grammar::{Fate, GrammarLimits};
use unskew_notation::{Explained, GrammarFormat, GrammarOptions, explain};

#[test]
fn every_construct_has_a_fate() {
    let fates = |text: &str, format| {
        let fates = explain(text, format, &GrammarOptions::default(), &GrammarLimits::default());
        let line = |fate: &Explained| {
            let place = fate.location.map(|location| location.to_string()).unwrap_or_default();
            format!("{place}: {}: {}: {}\n", fate.construct, fate.fate, fate.why)
        };
        fates.iter().map(line).collect::<String>()
    };
    let lark = r#"%llguidance {}
?start.5[capture]: a "x" | "x" | never -> other
!a: A a*
A: "a"
never: never
unused: "u"
%import common.WS
%ignore WS
"#;
    let mut report = fates(lark, GrammarFormat::Lark);
    report += "\n";
    report += &fates("root ::= root \"a\"\n", GrammarFormat::Gbnf);
    report += "\n";
    report += &fates("a ::= 'a' | b\n", GrammarFormat::Ebnf);
    report += "\n";
    report += &fates("start: \"a\"\n\n| /b^/", GrammarFormat::Lark);
    report += "\n";
    report += &fates("start: A\nA: /a{1000000}/", GrammarFormat::Lark);
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(report) });
    assert!(
        explain("x", GrammarFormat::Gbnf, &GrammarOptions::default(), &GrammarLimits::default())
            .iter()
            .all(|one| one.fate == Fate::Rejected)
    );
}
