//! The analysis of grammars, on random ones against the definitions. The tests of `unskew-grammar` have hand-written
//! ones.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unskew_grammar::{
    Analysis, Expr, ExprId, FindingKind, Grammar, GrammarError, GrammarLimits, LeftRecursion, MemberChoice,
    MemberWay, RuleId, Terminal,
};

use crate::common::{
    enumeration::short,
    oracle::{Alphabet, Oracle},
    random,
};

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
