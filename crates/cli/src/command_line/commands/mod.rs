//! One file for each command.

mod audit;
mod check;
mod convert;
mod explain;
mod generate;
mod logits;
mod mask;
mod model;
mod retokenize;
mod set;

use std::io::Write;

use serde::Serialize;

use crate::{
    Capture, CaptureError,
    command_line::{
        args::Format,
        error::{Failure, Result, with_flag},
        plain,
    },
};

pub(crate) use audit::audit;
pub(crate) use check::check;
pub(crate) use convert::convert;
pub(crate) use explain::explain;
pub(crate) use generate::generate;
pub(crate) use logits::logits;
pub(crate) use mask::mask;
pub(crate) use model::model;
pub(crate) use retokenize::retokenize;
pub(crate) use set::set;

/// The parts of an output that the constraint names.
#[derive(Serialize)]
struct Named {
    /// Null where they are not known, or the output is not whole.
    captures: Option<Vec<NamedPart>>,
    /// Why the captures of a whole output are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    captures_error: Option<String>,
}

#[derive(Serialize)]
struct NamedPart {
    name: String,
    /// With replacement characters where it is not UTF-8.
    text: String,
    /// The first byte in the output, and the one after the last.
    bytes: [usize; 2],
    /// The first token that has a byte of it, and the one after the last.
    tokens: [usize; 2],
}

impl Named {
    fn new(captures: Result<Vec<Capture>, CaptureError>) -> Self {
        let part = |capture: Capture| NamedPart {
            name: capture.name.to_string(),
            text: String::from_utf8_lossy(&capture.text).into_owned(),
            bytes: [capture.bytes.start, capture.bytes.end],
            tokens: [capture.tokens.start, capture.tokens.end],
        };
        match captures {
            Ok(captures) => {
                Self { captures: Some(captures.into_iter().map(part).collect()), captures_error: None }
            }
            Err(CaptureError::Unfinished) => Self { captures: None, captures_error: None },
            Err(error) => Self { captures: None, captures_error: Some(with_flag(error.to_string())) },
        }
    }

    /// A line for each part.
    fn write(&self, out: &mut dyn Write) -> Result<()> {
        for NamedPart { name, text, bytes: [first, end], tokens: [from, to] } in
            self.captures.iter().flatten()
        {
            writeln!(out, "    {name}: {text:?}, bytes {first}..{end}, tokens {from}..{to}")?;
        }
        if let Some(error) = &self.captures_error {
            writeln!(out, "    captures: {error}")?;
        }
        Ok(())
    }
}

/// Writes an answer: as a line of JSON, or as `text` does for people.
fn answer(
    format: Format,
    value: &impl Serialize,
    out: &mut dyn Write,
    text: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    match format {
        Format::Jsonl => write_json(value, out)?,
        Format::Text => text(out)?,
    }
    Ok(out.flush()?)
}

/// Writes one JSON value as a line.
fn write_json(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    let line = serde_json::to_string(value).map_err(|error| Failure::other(&error))?;
    Ok(writeln!(out, "{}", plain::json(line))?)
}
