//! One file for each command.

mod audit;
mod check;
mod explain;
mod generate;
mod logits;
mod mask;
mod model;
mod retokenize;
mod set;

use std::io::Write;

use serde::Serialize;

use crate::command_line::{
    error::{Failure, Result},
    plain,
};

pub(crate) use audit::audit;
pub(crate) use check::check;
pub(crate) use explain::explain;
pub(crate) use generate::generate;
pub(crate) use logits::logits;
pub(crate) use mask::mask;
pub(crate) use model::model;
pub(crate) use retokenize::retokenize;
pub(crate) use set::set;

/// Writes one JSON value as a line.
fn write_json(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    let line = serde_json::to_string(value).map_err(|error| Failure::other(&error))?;
    Ok(writeln!(out, "{}", plain::json(line))?)
}
