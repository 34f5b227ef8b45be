//! `unskew set`: sets of items as files.

use std::{io::Write, time::Instant};

use serde::Serialize;
use unskew::sets::ItemSet;

use super::write_json;
use crate::{
    args::{Format, SetBuildArgs, SetCommand, SetInfoArgs},
    error::{Failure, Result, chain},
    load, sets,
};

/// What is in a set.
#[derive(Serialize)]
struct Answer {
    items: u64,
    /// Of the file.
    bytes: u64,
    /// Tokens of the longest item.
    max_len: usize,
    /// How long building took; null where a set was only looked at.
    build_ms: Option<u64>,
    /// Tokens of all items.
    tokens: u64,
    /// Bytes of a token in the file.
    token_bytes: usize,
    /// What tells vocabularies apart, in hexadecimal digits.
    vocabulary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsets: Option<Vec<String>>,
    /// Lines that were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blank: Option<u64>,
}

impl Answer {
    fn new(set: &ItemSet) -> Self {
        Self {
            items: set.len() as u64,
            bytes: set.as_bytes().len() as u64,
            max_len: set.longest(),
            build_ms: None,
            tokens: set.tokens(),
            token_bytes: set.token_bytes(),
            vocabulary: format!("{:016x}", set.fingerprint()),
            subsets: None,
            duplicates: None,
            blank: None,
        }
    }

    fn write(&self, format: Format, out: &mut dyn Write) -> Result<()> {
        match format {
            Format::Jsonl => write_json(self, out)?,
            Format::Text => {
                let Self { items, bytes, max_len, tokens, token_bytes, vocabulary, .. } = self;
                writeln!(out, "{items} items of up to {max_len} tokens, {tokens} tokens in all")?;
                writeln!(out, "{bytes} bytes, {token_bytes} a token; vocabulary {vocabulary}")?;
                if let Some(ms) = self.build_ms {
                    writeln!(out, "built in {:.1} s", ms as f64 / 1e3)?;
                }
                for name in self.subsets.iter().flatten() {
                    writeln!(out, "subset {name}")?;
                }
            }
        }
        Ok(out.flush()?)
    }
}

pub(crate) fn set(command: &SetCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        SetCommand::Build(args) => build(args, out),
        SetCommand::Info(args) => info(args, out),
    }
}

fn build(args: &SetBuildArgs, out: &mut dyn Write) -> Result<()> {
    let tokens = load::tokens(&args.model)?;
    let begin = Instant::now();
    let memory = args.memory.get().saturating_mul(1_000_000);
    let (set, report) = sets::build(&args.file, &args.output, memory, &tokens)?;
    let build_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let answer = Answer {
        build_ms: Some(build_ms),
        duplicates: Some(report.duplicates),
        blank: Some(report.blank),
        ..Answer::new(&set)
    };
    answer.write(args.format, out)
}

fn info(args: &SetInfoArgs, out: &mut dyn Write) -> Result<()> {
    let set = sets::opened(&args.file)?;
    let subsets = set.subset_names().map_err(|error| Failure::file(&args.file, chain(&error)))?;
    Answer { subsets: Some(subsets), ..Answer::new(&set) }.write(args.format, out)
}
