//! `unskew mask`: the tokens that may come next.

use std::{io::Write, sync::Arc};

use crate::{
    Language,
    core::{Constraint, TokenId, TokenMask},
};
use serde::Serialize;

use super::answer;
use crate::command_line::{
    args::MaskArgs,
    error::{Failure, Result},
    progress,
};

/// The most forced tokens that are followed: a constraint may force tokens without end only if it never accepts, which
/// it must not, but a bound costs nothing.
const MAX_FORCED: usize = 10_000;

/// The most tokens that are shown to a person.
const SHOWN: usize = 20;

/// The most forced tokens that are shown to a person.
const SHOWN_FORCED: usize = 100;

#[derive(Serialize)]
struct Answer {
    /// How many tokens may come next; the end of the sequence is not counted.
    allowed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<u32>>,
    /// Whether the output may end here.
    accepting: bool,
    /// The tokens that must follow, one after the other.
    forced: Vec<u32>,
}

pub(crate) fn mask(args: &MaskArgs, out: &mut dyn Write) -> Result<()> {
    let spec = args.constraint.spec()?;
    if matches!(args.model.model, crate::ModelSource::Endpoint(_)) && args.model.tokenizer.is_none() {
        return Err(Failure::input(
            "a mask is of tokens, and a server does not send its own: give its --tokenizer FILE",
        ));
    }
    let tokens = Arc::new(args.model.model.tokens(args.model.tokenizer.as_deref())?);
    let constraint = crate::compile(&spec, &tokens, "", &progress::observer())?;
    let prefix = match (&args.prefix, &args.prefix_ids) {
        (Some(text), _) => tokens.encode_output(text)?,
        (None, Some(ids)) => ids.0.iter().copied().map(TokenId).collect(),
        (None, None) => Vec::new(),
    };

    let mut scratch = constraint.scratch();
    let mut state = constraint.start();
    for (index, token) in prefix.iter().enumerate() {
        constraint.advance(&mut scratch, &mut state, *token).map_err(|_| {
            let name = tokens.vocabulary().name(*token);
            let one_spelling = spec.canonical || matches!(spec.language, Language::Set(_));
            let hint = if tokens.vocabulary().is_end_of_sequence(*token) {
                ": it ends the sequence, and so is no token of an output"
            } else if one_spelling && args.prefix.is_some() {
                "; the tokens of a text need not begin those of a longer one: give --prefix-ids"
            } else {
                ""
            };
            Failure::input(format!(
                "the prefix is not allowed: its token {index}, {token} {name:?}, is rejected{hint}"
            ))
        })?;
    }
    let mut mask = TokenMask::new(constraint.vocab_len());
    constraint.fill_mask(&mut scratch, &state, mask.as_mut());
    let accepting = constraint.is_accepting(&state);
    let mut forced = Vec::new();
    while let Some(token) = constraint.forced(&mut scratch, &state).filter(|_| forced.len() < MAX_FORCED) {
        constraint.advance(&mut scratch, &mut state, token).map_err(|error| Failure::other(&error))?;
        forced.push(token);
    }

    let value = Answer {
        allowed: mask.count(),
        ids: args.list.then(|| mask.ids().map(|id| id.0).collect()),
        accepting,
        forced: forced.iter().map(|id| id.0).collect(),
    };
    answer(args.format, &value, out, |out| {
        let end = if accepting { "the output may end here" } else { "the output may not end here" };
        writeln!(out, "{} of {} tokens allowed; {end}", mask.count(), mask.len())?;
        let shown = if args.list { usize::MAX } else { SHOWN };
        for id in mask.ids().take(shown) {
            writeln!(out, "{id:>8} {:?}", tokens.vocabulary().name(id))?;
        }
        if mask.count() > shown {
            writeln!(out, "         ... and {} more (--list shows all)", mask.count() - shown)?;
        }
        if !forced.is_empty() {
            let shown = forced.len().min(if args.list { usize::MAX } else { SHOWN_FORCED });
            write!(out, "forced: {:?}", tokens.decode(&forced[..shown]))?;
            match forced.len() - shown {
                0 => writeln!(out)?,
                more => writeln!(out, " and {more} more tokens")?,
            }
        }
        Ok(())
    })
}
