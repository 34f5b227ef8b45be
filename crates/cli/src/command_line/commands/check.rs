//! `unskew check`: does a text, or a sequence of tokens, satisfy the constraint?

use std::{io::Write, sync::Arc, time::Instant};

use crate::{
    CaptureError, Captures, TokenSpace,
    core::{AnyState, Constraint, TokenId, TokenMask},
};
use serde::{Deserialize, Serialize};
use unskew_engine::{Compiled, LastScratch, Rejection};

use super::{Named, answer};
use crate::command_line::{
    args::{CheckArgs, CheckedArgs, Format},
    error::{Failure, Result},
    lines::JsonLines,
    plain::say,
    progress,
};

#[derive(Serialize)]
struct Answer {
    /// Whether every token is allowed and the output may end after the last one.
    accepted: bool,
    /// Whether the tokenizer itself would write these tokens for their text; null without a tokenizer.
    canonical: Option<bool>,
    /// The first token that is not allowed; null when all are, also when the output is then incomplete.
    rejected_at: Option<usize>,
    /// Where the text leaves the constraint, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejection: Option<Rejection>,
    /// The text that was checked, where the tokenizer reads the given one as another.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask_us: Option<Vec<f64>>,
    /// Only where the constraint names parts.
    #[serde(flatten)]
    named: Option<Named>,
}

/// A line of the file: one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    text: Option<String>,
    ids: Option<Vec<u32>>,
}

struct Checker<'a> {
    tokens: &'a TokenSpace,
    compiled: Compiled,
    captures: Option<Arc<Captures>>,
    scratch: LastScratch,
    mask: TokenMask,
    timing: bool,
    /// Whether some answer was that the constraint does not accept.
    has_rejected: bool,
}

pub(crate) fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<()> {
    let spec = args.constraint.spec()?.judging();
    let tokens = Arc::new(args.model.model.tokens(args.model.tokenizer.as_deref())?);
    let compiled = crate::compile(&spec, &tokens, "", &progress::observer())?;
    let mut checker = Checker {
        tokens: &tokens,
        scratch: compiled.scratch(),
        mask: TokenMask::new(compiled.vocab_len()),
        captures: compiled.captures().filter(|captures| captures.has_names()).cloned(),
        compiled,
        timing: args.timing,
        has_rejected: false,
    };
    match &args.checked {
        CheckedArgs { text: Some(text), .. } => {
            let ids = tokens.encode_output(text)?;
            write(args.format, &checker.check_text(text, &ids)?, out)?;
        }
        CheckedArgs { ids: Some(ids), .. } => {
            let ids: Vec<_> = ids.0.iter().copied().map(TokenId).collect();
            write(args.format, &checker.check(&ids)?, out)?;
        }
        CheckedArgs { jsonl: Some(path), .. } => {
            checker.check_lines(JsonLines::open(path)?, args.format, out)?;
        }
        CheckedArgs { text: None, ids: None, jsonl: None } => {
            return Err(Failure::input("give --text, --ids or --jsonl"));
        }
    }
    out.flush()?;
    if checker.has_rejected { Err(Failure::Rejected) } else { Ok(()) }
}

impl Checker<'_> {
    fn check_lines(&mut self, mut lines: JsonLines, format: Format, out: &mut dyn Write) -> Result<()> {
        while let Some(question) = lines.next()? {
            let answer = match question {
                Question { text: Some(text), ids: None } => {
                    let ids = self.tokens.encode_output(&text).map_err(|error| lines.at(&error))?;
                    self.check_text(&text, &ids)?
                }
                Question { text: None, ids: Some(ids) } => {
                    self.check(&ids.into_iter().map(TokenId).collect::<Vec<_>>())?
                }
                _ => return Err(lines.at(&r#"give either "text" or "ids""#)),
            };
            write(format, &answer, out)?;
        }
        Ok(())
    }

    /// Checks the ids of `text`.
    fn check_text(&mut self, text: &str, ids: &[TokenId]) -> Result<Answer> {
        let read_as = self.tokens.read_as(text, ids);
        if let Some(read) = &read_as {
            say(format_args!("note: the tokenizer reads the text as {read:?}, and that is checked"));
        }
        Ok(Answer { read_as, ..self.check(ids)? })
    }

    fn check(&mut self, ids: &[TokenId]) -> Result<Answer> {
        // `accepted` answers for a last id that ends the sequence.
        let ends = ids.last().is_some_and(|id| self.tokens.vocabulary().is_end_of_sequence(*id));
        let output = if ends { &ids[..ids.len() - 1] } else { ids };

        let mut state = self.compiled.start();
        let mut times = Vec::new();
        let mut rejected_at = None;
        for (index, token) in output.iter().enumerate() {
            if self.timing {
                times.push(self.time_mask(&state));
            }
            if let Err(rejected) = self.compiled.advance(&mut self.scratch, &mut state, *token) {
                if rejected.limit.is_some() {
                    // The state has no future that could be told.
                    return Err(Failure::bad(&rejected));
                }
                rejected_at = Some(index);
                break;
            }
        }
        let complete = rejected_at.is_none();
        if complete && self.timing {
            times.push(self.time_mask(&state));
        }
        let accepted = complete && self.compiled.is_accepting(&state);
        if ends && complete && !accepted {
            rejected_at = Some(output.len());
        }
        self.has_rejected |= !accepted;
        let rejection = if accepted { None } else { self.compiled.rejection(output) };
        let named = self.captures.as_ref().map(|captures| match accepted {
            true => captures.read(output),
            false => Err(CaptureError::Unfinished),
        });
        Ok(Answer {
            accepted,
            named: named.map(Named::new),
            canonical: self.tokens.is_canonical(output),
            rejected_at,
            rejection,
            read_as: None,
            mask_us: self.timing.then_some(times),
        })
    }

    /// How long the mask of `state` takes, in microseconds: the time that a server waits at this position.
    fn time_mask(&mut self, state: &AnyState) -> f64 {
        let begin = Instant::now();
        if self.compiled.ready_mask(&self.scratch, state).is_none() {
            self.compiled.fill_mask(&mut self.scratch, state, self.mask.as_mut());
        }
        // Nanoseconds are all that the clock has.
        (begin.elapsed().as_secs_f64() * 1e9).round() / 1e3
    }
}

fn write(format: Format, value: &Answer, out: &mut dyn Write) -> Result<()> {
    answer(format, value, out, |out| {
        let verdict = match (value.accepted, value.rejected_at) {
            (true, _) => "accepted".to_owned(),
            (false, Some(index)) => format!("rejected at token {index}"),
            (false, None) => "incomplete: allowed so far, but it may not end here".to_owned(),
        };
        let canonical = match value.canonical {
            Some(false) => "; not the tokenizer's own tokens for this text",
            Some(true) | None => "",
        };
        writeln!(out, "{verdict}{canonical}")?;
        if let Some(rejection) = &value.rejection {
            writeln!(out, "    {rejection}")?;
        }
        if let Some(times) = &value.mask_us {
            let times: Vec<_> = times.iter().map(|time| format!("{time:.1}")).collect();
            writeln!(out, "    masks, in microseconds: {}", times.join(" "))?;
        }
        value.named.iter().try_for_each(|named| named.write(out))
    })
}
