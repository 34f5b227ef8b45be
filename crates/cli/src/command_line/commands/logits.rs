//! `unskew logits`: the logits of a model before anything is done to them.

use std::io::Write;

use crate::{
    TokenSpace,
    core::{Extension, LanguageModel, Logits, Rows, TokenId, logprob::log_normalizer},
};
use serde::Serialize;

use super::answer;
use crate::command_line::{
    args::LogitsArgs,
    error::{Failure, Result},
    models,
};

/// The most tokens that are shown to a person, for each position.
const SHOWN: usize = 10;

/// Logits in order of ids; minus infinity is null, since JSON has no such number.
#[derive(Serialize)]
#[serde(untagged)]
enum Values<'a> {
    Last(&'a [f32]),
    All(Vec<&'a [f32]>),
}

#[derive(Serialize)]
struct Answer<'a> {
    logits: Values<'a>,
}

pub(crate) fn logits(args: &LogitsArgs, out: &mut dyn Write) -> Result<()> {
    let opened = models::load(&args.model)?;
    let mut model = opened.any_model().clone();
    let ids: Vec<_> = args.ids.0.iter().copied().map(TokenId).collect();
    let mut sequence = model.start();
    let mut logits = Logits::new();
    let rows = if args.all { Rows::All } else { Rows::Last };
    let extension = Extension { sequence: &mut sequence, tokens: &ids, rows };
    // Every way in which a batch of one can fail is about the ids, but for a device that fails.
    model.extend(&mut [extension], &mut logits).map_err(|error| {
        #[cfg(feature = "http")]
        if let Some(error) = error.downcast_ref() {
            return Failure::endpoint(error);
        }
        Failure::bad(&error)
    })?;

    let values = if args.all { Values::All(logits.rows().collect()) } else { Values::Last(logits.row(0)) };
    answer(args.format, &Answer { logits: values }, out, |out| {
        let positions = if args.all { 1.. } else { ids.len().. };
        logits.rows().zip(positions).try_for_each(|(row, position)| {
            writeln!(out, "after {position} tokens")?;
            show(row, opened.tokens(), out)
        })
    })
}

fn show(row: &[f32], tokens: &TokenSpace, out: &mut dyn Write) -> Result<()> {
    let normalizer = log_normalizer(row);
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|left, right| row[*right].total_cmp(&row[*left]));
    for index in order.into_iter().take(SHOWN) {
        let id = TokenId::from_index(index);
        let probability = (f64::from(row[index]) - normalizer).exp();
        writeln!(
            out,
            "{id:>8} {:<24} {:>10.4} {probability:>10.6}",
            format!("{:?}", tokens.vocabulary().name(id)),
            row[index]
        )?;
    }
    Ok(())
}
