//! `unskew explain`: the fate of every construct of a grammar, JSON Schema or regex.

use std::{io::Write, path::Path};

use serde::Serialize;
use unskew_engine::Compiler;

use crate::{Explained, ModelSource, Spec};

use super::write_json;
use crate::command_line::{
    args::{ExplainArgs, Format, tools},
    error::{Failure, Result, one_line},
};

/// Whether and how the arguments of one tool are enforced.
#[derive(Serialize)]
struct Tool<'a> {
    tool: &'a str,
    /// The worst of its constructs.
    fate: &'static str,
    /// All constructs of its schema.
    constructs: Vec<Explained>,
}

/// A line for each tool of a list.
fn of_tools(args: &ExplainArgs, path: &Path, out: &mut dyn Write) -> Result<()> {
    let mut rejected = Vec::new();
    for tool in tools(path)? {
        let name = &tool.name;
        let spec = args.constraint.spec_of_arguments(Spec::json_schema(&*tool.parameters))?;
        let constructs = spec.explain()?;
        let fate = Explained::worst(&constructs);
        if fate == "rejected" {
            rejected.push(name.to_owned());
        }
        match args.format {
            Format::Jsonl => write_json(&Tool { tool: name, fate, constructs }, out)?,
            Format::Text => {
                let place = |one: &Explained| {
                    let Explained { pointer, construct, why, .. } = one;
                    format!("{} {construct}: {}", pointer.as_deref().unwrap_or("-"), one_line(why))
                };
                let why: Vec<String> = constructs
                    .iter()
                    .filter(|one| one.fate == fate && fate != "enforced")
                    .map(place)
                    .collect();
                let why = match (fate, why.is_empty()) {
                    ("enforced", _) => format!("{} constructs", constructs.len()),
                    _ => why.join("; "),
                };
                writeln!(out, "{fate:<10} {name}: {why}")?;
            }
        }
    }
    out.flush()?;
    match rejected.is_empty() {
        true => Ok(()),
        false => {
            Err(Failure::Input(format!("tools whose arguments are not enforced: {}", rejected.join(", "))))
        }
    }
}

pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<()> {
    if let Some(path) = &args.mcp {
        if args.tokenizer.is_some() {
            return Err(Failure::input(
                "--tokenizer is for one constraint, and --mcp has many; leave one of the two out",
            ));
        }
        return of_tools(args, path, out);
    }
    let spec = args.constraint.spec()?;
    let mut answers = spec.explain()?;
    if let Some(path) = &args.tokenizer {
        let tokens = ModelSource::Tiny.tokens(Some(path))?;
        let compiled =
            Compiler::new(tokens).compile(&spec).map_err(|error| Failure::input(error.to_string()))?;
        answers.extend(compiled.explain_left_out());
        answers.extend(compiled.explain_quoted(&spec).map_err(|error| Failure::bad(&error))?);
    }
    for answer in &answers {
        match args.format {
            Format::Jsonl => write_json(answer, out)?,
            Format::Text => {
                let Explained { pointer, span, construct, fate, why, .. } = answer;
                let span = pointer.as_deref().or(span.as_deref()).unwrap_or("-");
                writeln!(out, "{span:>8} {fate:<10} {construct}: {why}")?;
            }
        }
    }
    out.flush()?;
    // A text that cannot be read has no answers. Another one that cannot be used has them all the same.
    match answers.iter().find(|answer| answer.fate == "rejected") {
        Some(Explained { construct, why, .. }) => {
            Err(Failure::input(format!("{construct}: {}", one_line(why))))
        }
        None => Ok(()),
    }
}
