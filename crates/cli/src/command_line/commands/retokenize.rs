//! `unskew retokenize`: the tokens with which a model itself would have written a text.

use std::io::Write;

use crate::core::TokenId;
use serde::Serialize;

use super::answer;
use crate::command_line::{
    args::RetokenizeArgs,
    error::{Failure, Result},
    models,
};

#[derive(Serialize)]
struct Answer<'a> {
    ids: &'a [u32],
    /// The text of each.
    tokens: &'a [String],
    /// The natural logarithm of the probability that the model gives them after the prompt.
    logprob: f64,
    /// The tokenizer's own tokens; null without a tokenizer.
    canonical: Option<&'a [u32]>,
}

pub(crate) fn retokenize(args: &RetokenizeArgs, out: &mut dyn Write) -> Result<()> {
    let model = models::load(&args.model)?;
    let tokens = model.tokens();
    let prompt = model.encode_prompt(&args.prompt)?;
    let trie = tokens.trie()?;
    let spelling =
        crate::samplers::retokenize(&mut model.any_model().clone(), &trie, &prompt, args.text.as_bytes());
    let spelling = spelling.map_err(|error| Failure::other(&error))?.ok_or_else(|| {
        Failure::input(
            "the model's tokens cannot spell the text: at some place no token begins the rest of it",
        )
    })?;
    let numbers = |ids: &[TokenId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let ids = numbers(&spelling.tokens);
    let canonical = tokens.canonical(&args.text)?.map(|ids| numbers(&ids));
    let names: Vec<String> =
        spelling.tokens.iter().map(|id| tokens.vocabulary().name(*id).into_owned()).collect();
    let value =
        Answer { ids: &ids, tokens: &names, logprob: spelling.log_prob, canonical: canonical.as_deref() };
    answer(args.format, &value, out, |out| {
        for (id, name) in ids.iter().zip(&names) {
            writeln!(out, "{id:>8} {name:?}")?;
        }
        let own = match &canonical {
            Some(canonical) if *canonical == ids => ", as the tokenizer writes it",
            Some(_) => ", not as the tokenizer writes it",
            None => "",
        };
        Ok(writeln!(out, "{} tokens, log-probability {:.3}{own}", ids.len(), spelling.log_prob)?)
    })
}
