//! `unskew explain`: what becomes of every construct of a grammar, JSON Schema or regex.

use std::{io::Write, path::Path};

use serde::Serialize;
use unskew::{
    automata::{Dfa, Limits, RegexError},
    grammars::{Fate, Grammar, GrammarError, GrammarLimits, SyntaxErrorKind, explain as explain_text},
    schema::{self, SchemaError, SchemaLimits, SchemaOptions, explain as explain_schema},
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
    /// The schema that it stands in, as a JSON pointer; of a schema only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// Where it stands, `line:column`; null where it stands in no one place.
    span: Option<String>,
    construct: String,
    /// `enforced`, `narrowed` (some values that it allows are not accepted), `annotation` (it has no effect on what is accepted) or
    /// `rejected`.
    fate: &'static str,
    why: String,
}

pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<()> {
    // Not by clap: see `load::constraint`.
    if args.schema_registry.is_some() && args.json_schema.is_none() {
        let about = "--schema-registry is for the references of a --json-schema; give one, or leave it out";
        return Err(Failure::input(about));
    }
    if args.maximal_munch && args.grammar.is_none() {
        let about =
            "--maximal-munch cuts outputs into the terminals of a --grammar; give one, or leave it out";
        return Err(Failure::input(about));
    }
    let answers = match (&args.grammar, &args.json_schema, &args.regex) {
        (Some(path), ..) => of_grammar(path, args.maximal_munch)?,
        (None, Some(path), _) => of_schema(path, args.schema_registry.as_deref())?,
        (None, None, Some(pattern)) => vec![of_regex(pattern)?],
        (None, None, None) => unreachable!("one of them is required"),
    };
    for answer in &answers {
        match args.format {
            Format::Jsonl => write_json(answer, out)?,
            Format::Text => {
                let Answer { pointer, span, construct, fate, why } = answer;
                let span = pointer.as_deref().or(span.as_deref()).unwrap_or("-");
                writeln!(out, "{span:>8} {fate:<10} {construct}: {why}")?;
            }
        }
    }
    // A construct that would be refused elsewhere is an answer here. A text that cannot be read has none.
    Ok(out.flush()?)
}

fn of_grammar(path: &Path, maximal_munch: bool) -> Result<Vec<Answer>> {
    let format = load::grammar_format(path)?;
    let text = load::read_text(path)?;
    let limits = GrammarLimits::default();
    let grammar = Grammar::parse(&text, format, &limits);
    if let Err(GrammarError::Syntax(error)) = &grammar
        && matches!(
            error.kind,
            SyntaxErrorKind::TooLong { .. }
                | SyntaxErrorKind::NestTooDeep { .. }
                | SyntaxErrorKind::Unexpected { .. }
                | SyntaxErrorKind::Unclosed { .. }
        )
    {
        return Err(Failure::file(path, chain(error)));
    }
    let fates = explain_text(&text, format, &limits);
    let answers = fates.into_iter().map(|fate| Answer {
        pointer: None,
        span: fate.location.map(|place| format!("{}:{}", place.line, place.column)),
        construct: fate.construct,
        fate: word(fate.fate),
        why: fate.why,
    });
    let mut answers: Vec<_> = answers.collect();
    // Of a text that is no grammar the answers are there.
    if maximal_munch && let Ok(grammar) = grammar {
        let (fate, why) = match grammar.check_maximal_munch(&limits) {
            Ok(()) => (
                Fate::Enforced,
                "terminals are as long as possible, and no text comes to a dead end".to_owned(),
            ),
            Err(error) => (Fate::Rejected, chain(&error)),
        };
        let construct = "maximal munch".to_owned();
        answers.push(Answer { pointer: None, span: None, construct, fate: word(fate), why });
    }
    Ok(answers)
}

fn of_schema(path: &Path, registry: Option<&Path>) -> Result<Vec<Answer>> {
    let text = load::read_text(path)?;
    let mut options = SchemaOptions::default();
    options.registry = load::registry(registry)?;
    let limits = SchemaLimits::default();
    let fates = explain_schema(&text, &options, &limits);
    // Reading has stopped: at a construct, or because the text is no JSON.
    if let [only] = &fates[..]
        && only.keyword.is_empty()
        && let Err(error @ SchemaError::Json { .. }) = schema::grammar(&text, &options, &limits)
    {
        return Err(Failure::file(path, chain(&error)));
    }
    let answers = fates.into_iter().map(|fate| Answer {
        pointer: Some(fate.pointer),
        span: None,
        construct: if fate.keyword.is_empty() { "schema".to_owned() } else { fate.keyword },
        fate: word(fate.fate),
        why: fate.why,
    });
    Ok(answers.collect())
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Enforced => "enforced",
        Fate::Narrowed => "narrowed",
        Fate::Rejected => "rejected",
        _ => "annotation",
    }
}

fn of_regex(pattern: &str) -> Result<Answer> {
    let construct = "regex".to_owned();
    Ok(match Dfa::from_pattern(pattern, &Limits::default()) {
        Ok(dfa) => Answer {
            pointer: None,
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
            pointer: None,
            span: Some("1:1".to_owned()),
            construct,
            fate: "enforced",
            why: "its automaton is too large to be made at once; its states are made when they are reached"
                .to_owned(),
        },
        Err(
            error @ (RegexError::Syntax { .. }
            | RegexError::PatternTooLong { .. }
            | RegexError::NestTooDeep { .. }
            | RegexError::SyntaxTooCostly { .. }),
        ) => return Err(Failure::bad(&error)),
        Err(error) => Answer {
            pointer: None,
            span: error.place().map(|place| format!("{}:{}", place.line, place.column)),
            construct,
            fate: "rejected",
            why: chain(&error),
        },
    })
}
