//! `unskew explain`: the fate of every construct of a grammar, JSON Schema or regex.

use std::io::Write;

use unskew_engine::Compiler;

use crate::{Explained, ModelSource};

use super::write_json;
use crate::command_line::{
    args::{ExplainArgs, Format},
    error::{Failure, Result, one_line},
};

pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<()> {
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
