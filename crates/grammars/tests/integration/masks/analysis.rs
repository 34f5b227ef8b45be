//! The analysis of grammars, on hand-written grammars and on random ones against the definitions.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{
    enumeration::short,
    oracle::{Alphabet, Oracle},
    random,
};
use proptest::prelude::*;
use unskew_grammars::{
    Analysis, Expr, ExprId, Fate, FindingKind, Grammar, GrammarError, GrammarFormat, GrammarLimits,
    GrammarOptions, LeftRecursion, MemberChoice, MemberWay, RuleId, Terminal, explain,
};

fn read(text: &str) -> Grammar {
    Grammar::from_gbnf(text, &GrammarLimits::default()).unwrap()
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

#[test]
fn every_construct_has_a_fate() {
    let fates = |text: &str, format| {
        let fates = explain(text, format, &GrammarOptions::default(), &GrammarLimits::default());
        let line = |fate: &unskew_grammars::Explained| {
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

/// A symbol of a body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Symbol {
    Rule(RuleId),
    /// A terminal; whether it is nullable.
    Terminal(bool),
}

type Words = BTreeSet<Vec<Symbol>>;

/// The sequences of symbols to which a body can be written out, with few rounds of each repetition. `None` if
/// there are too many.
fn words(grammar: &Grammar, expr: ExprId) -> Option<Words> {
    let join = |left: &Words, right: &Words| {
        let both = left.iter().flat_map(|left| right.iter().map(|right| [&left[..], right].concat()));
        let both: Words = both.collect();
        (both.len() < 500).then_some(both)
    };
    Some(match grammar.expr(expr) {
        Expr::Empty => Words::from([vec![]]),
        Expr::Rule(rule) => Words::from([vec![Symbol::Rule(rule)]]),
        Expr::Terminal(terminal) => {
            let empty = match grammar.terminal(terminal) {
                Terminal::Automaton(dfa) => dfa.accepts(b""),
                Terminal::Difference(difference) => difference.accepts(b""),
                _ => false,
            };
            Words::from([vec![Symbol::Terminal(empty)]])
        }
        Expr::Choice(parts) => {
            let mut all = Words::new();
            for part in parts {
                all.extend(words(grammar, *part)?);
            }
            all
        }
        Expr::Sequence(parts) => {
            let mut all = Words::from([vec![]]);
            for part in parts {
                all = join(&all, &words(grammar, *part)?)?;
            }
            all
        }
        Expr::Repeat { item, min, max } => {
            let item = words(grammar, item)?;
            let (mut all, mut rounds) = (Words::new(), Words::from([vec![]]));
            let most = max.unwrap_or(u32::MAX).min(min.max(2));
            for round in 0..=most {
                if round >= min {
                    all.extend(rounds.iter().cloned());
                }
                if round < most {
                    rounds = join(&rounds, &item)?;
                }
            }
            all
        }
        // Other tests cover groups.
        Expr::Unordered(_) => return None,
        other => panic!("an expression that the test does not know: {other:?}"),
    })
}

/// The transitive closure of pairs of a rule and a rule that it contains.
fn closed(mut pairs: BTreeSet<(RuleId, RuleId)>) -> BTreeSet<(RuleId, RuleId)> {
    loop {
        let longer: Vec<_> = pairs
            .iter()
            .flat_map(|(from, over)| {
                pairs.iter().filter(move |(next, _)| next == over).map(move |(_, to)| (*from, *to))
            })
            .collect();
        let before = pairs.len();
        pairs.extend(longer);
        if pairs.len() == before {
            return pairs;
        }
    }
}

/// Checks the facts of [`Analysis`] about calls against bodies that are written out.
fn check_calls(grammar: &Grammar, analysis: &Analysis, nullable: &[bool]) -> Result<(), TestCaseError> {
    let [mut calls, mut left, mut plain, mut alone] = [(); 4].map(|()| BTreeSet::new());
    for rule in grammar.rules() {
        let Some(words) = words(grammar, grammar.body(rule)) else { return Ok(()) };
        let empty = |symbol: &Symbol| match symbol {
            Symbol::Rule(rule) => nullable[rule.index()],
            Symbol::Terminal(empty) => *empty,
        };
        for word in words {
            for (at, symbol) in word.iter().enumerate() {
                let Symbol::Rule(to) = symbol else { continue };
                calls.insert((rule, *to));
                if at == 0 {
                    plain.insert((rule, *to));
                }
                if word[..at].iter().all(empty) {
                    left.insert((rule, *to));
                    if word[at + 1..].iter().all(empty) {
                        alone.insert((rule, *to));
                    }
                }
            }
        }
    }
    let direct = plain.clone();
    let [calls, left, plain, alone] = [calls, left, plain, alone].map(closed);
    for rule in grammar.rules() {
        let (facts, itself) = (analysis.rule(rule), (rule, rule));
        prop_assert_eq!(facts.recursive, calls.contains(&itself), "recursive: {}", grammar.rule_name(rule));
        prop_assert_eq!(facts.cyclic, alone.contains(&itself), "cyclic: {}", grammar.rule_name(rule));
        let expected = match (left.contains(&itself), plain.contains(&itself), direct.contains(&itself)) {
            (false, _, _) => None,
            (true, true, true) => Some(LeftRecursion::Direct),
            (true, true, false) => Some(LeftRecursion::Indirect),
            (true, false, _) => Some(LeftRecursion::Hidden),
        };
        prop_assert_eq!(facts.left_recursion, expected, "left recursion: {}", grammar.rule_name(rule));
    }
    Ok(())
}

/// The way that has `b` needs a rule that never ends, so that no output uses `b`, and its rule goes.
#[test]
fn members_of_ways_without_a_text_are_trimmed() {
    let mut builder = Grammar::builder(&GrammarLimits::default());
    let [start, never] = ["start", "never"].map(|name| builder.rule(name));
    let call = builder.call(never);
    builder.define(never, call);
    let [a, b] = ["a", "b"].map(|text| builder.literal(text));
    let ways = [vec![(0, false)], vec![(1, false), (2, true)]].map(MemberWay::new);
    let members = [(a, false), (b, false), (call, false)];
    let body = builder.unordered_with_choices(members, [MemberChoice::new(ways)], None, None);
    builder.define(start, body);
    let trimmed = builder.build(start).unwrap().trimmed().unwrap();
    let analysis = trimmed.analysis();
    let useless = trimmed.rules().filter(|rule| !analysis.rule(*rule).reachable);
    assert_eq!(useless.map(|rule| trimmed.rule_name(rule)).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(short(&trimmed, 2).words, BTreeSet::from([b"a".to_vec()]));
}

proptest! {
    /// Trimming keeps the language, and leaves no useless part.
    #[test]
    fn trimmed_grammars_have_the_same_language(shapes in random::grammar()) {
        let grammar = shapes.build();
        let trimmed = match grammar.trimmed() {
            Err(GrammarError::Empty { .. }) => {
                prop_assert!(Oracle::new(&grammar, &Alphabet::all()).is_empty(), "{shapes}");
                return Ok(());
            }
            trimmed => trimmed.unwrap(),
        };
        prop_assert_eq!(short(&grammar, 4), short(&trimmed, 4), "{}", shapes);
        let analysis = trimmed.analysis();
        for rule in trimmed.rules() {
            prop_assert!(analysis.rule(rule).reachable && analysis.rule(rule).productive);
        }
        let rest = analysis.findings().iter().any(|finding| {
            matches!(finding.kind, FindingKind::DeadAlternatives { .. } | FindingKind::NeverEnds { .. })
        });
        prop_assert!(!rest, "{}", shapes);
        prop_assert_eq!(trimmed.trimmed().unwrap().expressions(), trimmed.expressions());
    }

    /// Facts about rules follow the definitions.
    #[test]
    fn facts_are_those_of_the_definitions(shapes in random::grammar()) {
        let grammar = shapes.build();
        let analysis = grammar.analysis();
        // Least fixpoints by rounds, over bodies that are written out.
        let mut nullable = vec![false; grammar.rules().len()];
        let mut productive = nullable.clone();
        for _ in grammar.rules() {
            for rule in grammar.rules() {
                let Some(words) = words(&grammar, grammar.body(rule)) else { return Ok(()) };
                let all = |facts: &[bool], leaf: fn(bool) -> bool| {
                    words.iter().any(|word| word.iter().all(|symbol| match symbol {
                        Symbol::Rule(rule) => facts[rule.index()],
                        Symbol::Terminal(empty) => leaf(*empty),
                    }))
                };
                nullable[rule.index()] |= all(&nullable, |empty| empty);
                productive[rule.index()] |= all(&productive, |_| true);
            }
        }
        for rule in grammar.rules() {
            let facts = analysis.rule(rule);
            prop_assert_eq!(facts.nullable, nullable[rule.index()]);
            prop_assert_eq!(facts.productive, productive[rule.index()]);
        }
        check_calls(&grammar, &analysis, &nullable)?;
    }
}
