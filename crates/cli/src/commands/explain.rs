//! `unskew explain`: what becomes of every construct of a grammar or regex.

use std::io::Write;

use serde::Serialize;
use unskew::{
    automata::{Dfa, Limits, RegexError},
    grammars::{FindingKind, Grammar, GrammarLimits, RuleFacts, Terminal},
};

use super::write_json;
use crate::{
    args::{ExplainArgs, Format},
    error::{Failure, Result, chain},
    load,
};

/// What becomes of one construct.
#[derive(Serialize)]
struct Answer {
    /// Where it stands, `line:column`; null where it stands in no one place.
    span: Option<String>,
    construct: String,
    /// `enforced`, `annotation` (it has no effect on what is accepted) or `rejected`.
    fate: &'static str,
    why: String,
}

pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<()> {
    let answers = match (&args.grammar, &args.regex) {
        (Some(path), _) => {
            let grammar = load::grammar(path, args.max_ignored, &GrammarLimits::default())?;
            of_grammar(&grammar)
        }
        (None, Some(pattern)) => vec![of_regex(pattern)],
        (None, None) => unreachable!("one of the two is required"),
    };
    for answer in &answers {
        match args.format {
            Format::Jsonl => write_json(answer, out)?,
            Format::Text => {
                let Answer { span, construct, fate, why } = answer;
                let span = span.as_deref().unwrap_or("-");
                writeln!(out, "{span:>8} {fate:<10} {construct}: {why}")?;
            }
        }
    }
    out.flush()?;
    // A regex that is refused is bad input here as everywhere.
    match answers.iter().find(|answer| answer.fate == "rejected") {
        Some(rejected) => Err(Failure::input(&rejected.why)),
        None => Ok(()),
    }
}

fn of_grammar(grammar: &Grammar) -> Vec<Answer> {
    let analysis = grammar.analysis();
    let span = |place: Option<unskew::grammars::Location>| {
        place.map(|place| format!("{}:{}", place.line, place.column))
    };
    let mut answers = Vec::new();
    for rule in grammar.rules() {
        let facts = analysis.rule(rule);
        let is_used = facts.reachable && facts.productive;
        answers.push(Answer {
            span: span(grammar.rule_place(rule)),
            construct: format!("rule {}", grammar.rule_name(rule)),
            fate: if is_used { "enforced" } else { "annotation" },
            why: describe(facts),
        });
    }
    for finding in analysis.findings() {
        // What the facts of a rule say already is not said twice.
        if matches!(
            finding.kind,
            FindingKind::DeadAlternatives { .. } | FindingKind::RepeatedAlternatives { .. }
        ) {
            answers.push(Answer {
                span: span(finding.location),
                construct: format!("alternatives of {}", finding.name),
                fate: "annotation",
                why: finding.to_string(),
            });
        }
    }
    for terminal in grammar.terminals() {
        let (kind, why) = match grammar.terminal(terminal) {
            Terminal::Literal(text) => ("literal", format!("{} bytes", text.len())),
            Terminal::Automaton(dfa) => ("terminal", format!("an automaton of {} states", dfa.len())),
            Terminal::Token(_) => ("token", "a control token, and not its text".to_owned()),
            _ => ("terminal", String::new()),
        };
        let construct = format!("{kind} {}", grammar.terminal_name(terminal));
        answers.push(Answer { span: None, construct, fate: "enforced", why });
    }
    answers
}

fn describe(facts: &RuleFacts) -> String {
    let mut parts = vec![match facts.places {
        1 => "1 place".to_owned(),
        u64::MAX => "very many places".to_owned(),
        places => format!("{places} places"),
    }];
    let mut say = |condition: bool, text: &str| {
        if condition {
            parts.push(text.to_owned());
        }
    };
    say(!facts.productive, "never ends, so no output uses it");
    say(!facts.reachable, "no output uses it");
    say(facts.nullable, "may be empty");
    say(facts.recursive, "recursive");
    say(facts.left_recursion.is_some(), "may begin with itself");
    say(facts.cyclic, "may stand for itself alone, which adds readings and no text");
    parts.join(", ")
}

fn of_regex(pattern: &str) -> Answer {
    let construct = "regex".to_owned();
    match Dfa::from_pattern(pattern, &Limits::default()) {
        Ok(dfa) => Answer {
            span: Some("1:1".to_owned()),
            construct,
            fate: "enforced",
            why: format!("an automaton of {} states", dfa.len()),
        },
        Err(
            RegexError::TooManyDfaStates { .. }
            | RegexError::DfaTooLarge { .. }
            | RegexError::DfaTooCostly { .. },
        ) => Answer {
            span: Some("1:1".to_owned()),
            construct,
            fate: "enforced",
            why: "its automaton is too large to be made at once; its states are made when they are reached"
                .to_owned(),
        },
        Err(error) => Answer {
            span: error.place().map(|place| format!("{}:{}", place.line, place.column)),
            construct,
            fate: "rejected",
            why: chain(&error),
        },
    }
}
