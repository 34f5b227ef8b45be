//! Structural tags beside XGrammar's Python package, as a process of its own: whether both accept the same token
//! sequences.
//!
//! Tags and sequences are random. A sequence is one that a tag has or nearly has: it is made along the tag, and now
//! and then a piece of it is taken away. Where the two differ, the difference is counted under the reason that the
//! documentation of `unskew_engine::tag` gives for it, and a difference without a reason is an error.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

mod make;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use unskew_core::{TokenId, Vocabulary};
use unskew_engine::{Compiler, Spec, TokenSpace};

use self::make::{Maker, reason};
use crate::{options::RecordOptions, process::Process, record};

/// Structural tags beside XGrammar
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A Python with the package xgrammar (`cargo xtask bench` makes one)
    #[arg(long, value_name = "FILE")]
    python: PathBuf,
    /// How many tags
    #[arg(long, value_name = "N", default_value_t = 5000)]
    tags: usize,
    /// Sequences of tokens for each tag
    #[arg(long, value_name = "N", default_value_t = 12)]
    sequences: usize,
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many differences without a reason are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    show: usize,
    #[command(flatten)]
    record: RecordOptions,
}

/// How long an answer may take, and the memory of the peer.
const LIMIT: (Duration, u64) = (Duration::from_secs(60), 4_000_000_000);

/// The longer tokens.
const TOKENS: &[&str] = &[
    "ab", "aba", "<a", "a>", "><", "b<", "</", "1,", "\":", "{\"", "\"}", "e>", "<p", "]<", "12", "é", ", ",
    "ax",
];

#[derive(Deserialize)]
struct Ready {
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Accepted(Vec<bool>),
    Error(String),
}

/// The outcome of the comparison.
#[derive(Default)]
struct Counts {
    tags: usize,
    sequences: usize,
    accepted: usize,
    refused_by_both: usize,
    refused_here: BTreeMap<String, usize>,
    refused_there: BTreeMap<String, usize>,
    differ: BTreeMap<&'static str, usize>,
    shown: usize,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (vocabulary, end) = vocabulary()?;
    let (mut peer, version) = start(&options.python, &vocabulary, end)?;
    let space = Arc::new(TokenSpace::from_vocabulary(Arc::clone(&vocabulary)));
    let compiler = Compiler::new(space);
    let mut maker = Maker::new(options.seed, &vocabulary);
    let mut counts = Counts::default();
    for _ in 0..options.tags {
        let format = maker.format();
        let sequences: Vec<Vec<TokenId>> = (0..options.sequences).map(|_| maker.sequence(&format)).collect();
        let tag = json!({"type": "structural_tag", "format": format});
        let ids: Vec<Vec<u32>> =
            sequences.iter().map(|tokens| tokens.iter().map(|token| token.0).collect()).collect();
        let request = json!({"tag": tag, "sequences": ids}).to_string();
        let there = match peer.send(&request).and_then(|()| peer.answer(LIMIT.0, LIMIT.1)) {
            Ok(answer) => answer,
            Err(error) => {
                // A tag may crash the peer.
                println!("{error}, there:\n    {format}\n");
                (peer, _) = start(&options.python, &vocabulary, end)?;
                Answer::Error(error)
            }
        };
        let here = compiler.compile(&Spec::structural_tag(tag.to_string()));
        counts.tags += 1;
        let (compiled, there) = match (here, there) {
            (Ok(compiled), Answer::Accepted(there)) => (compiled, there),
            (Err(_), Answer::Error(_)) => {
                counts.refused_by_both += 1;
                continue;
            }
            (Err(error), Answer::Accepted(_)) => {
                *counts.refused_here.entry(kind(&error.to_string())).or_default() += 1;
                continue;
            }
            (Ok(_), Answer::Error(error)) => {
                *counts.refused_there.entry(kind(&error)).or_default() += 1;
                continue;
            }
        };
        let mut matcher = compiled.matcher();
        for (tokens, there) in sequences.iter().zip(there) {
            matcher.reset();
            let read = matcher.accept_all(tokens).map_err(|error| error.to_string())?;
            let here = read == tokens.len() && matcher.is_accepting();
            counts.sequences += 1;
            counts.accepted += usize::from(here && there);
            if here == there {
                continue;
            }
            let why = reason(&format, here);
            *counts.differ.entry(why.unwrap_or("without a reason")).or_default() += 1;
            if why.is_none() && counts.shown < options.show {
                counts.shown += 1;
                let text = String::from_utf8_lossy(&vocabulary.decode(tokens)).into_owned();
                let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
                println!("differs: here {here}, there {there}: {text:?} {ids:?}\n    {format}\n");
            }
        }
    }
    let report = format!(
        "# Structural tags beside XGrammar, {}\n\n{}{}.\n\n\
         Random tags with {} sequences each, seed {}, beside the Python package xgrammar {version}. A tag that one of the two refuses has no \
         sequences here.\n\n{}",
        record::today(),
        record::host(),
        record::command(),
        options.sequences,
        options.seed,
        counts.lines(),
    );
    print!("{report}");
    options.record.write("tags", &report)?;
    match counts.differ.get("without a reason") {
        None => Ok(()),
        Some(count) => Err(format!("{count} differences without a reason")),
    }
}

/// The peer as a process, and its version.
fn start(python: &Path, vocabulary: &Vocabulary, end: TokenId) -> Result<(Process, String), String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/xgrammar_tags.py");
    let mut peer = Process::start(python, &[script])?;
    let texts: Vec<&[u8]> = (0..vocabulary.len())
        .map(|id| vocabulary.text(TokenId::from_index(id)).unwrap_or(b"<end>"))
        .collect();
    peer.send(&json!({"vocabulary": texts, "end": end.0}).to_string())?;
    let Ready { version } = peer.answer(LIMIT.0, LIMIT.1)?;
    Ok((peer, version))
}

impl Counts {
    /// As a list.
    fn lines(&self) -> String {
        let mut out = format!(
            "- {} tags, {} refused by both; {} sequences, {} accepted by both\n",
            self.tags, self.refused_by_both, self.sequences, self.accepted
        );
        for (title, counts) in [("refused here", &self.refused_here), ("refused there", &self.refused_there)]
        {
            for (why, count) in counts {
                let _ = writeln!(out, "- {title}: {count} tags: {why}");
            }
        }
        for (why, count) in &self.differ {
            let _ = writeln!(out, "- differ: {count} sequences: {why}");
        }
        out
    }
}

/// An error without its place and without the texts that it quotes.
fn kind(error: &str) -> String {
    let message = match error.strip_prefix("structural tag, ") {
        Some(rest) => rest.split_once(": ").map_or(rest, |(_, message)| message),
        // XGrammar puts a time and a line of its source in front.
        None => error.split_once("] ").map_or(error, |(_, message)| message),
    };
    message.split('"').step_by(2).collect::<Vec<_>>().join("...").trim().chars().take(160).collect()
}

/// All bytes, longer tokens, and the end.
fn vocabulary() -> Result<(Arc<Vocabulary>, TokenId), String> {
    let mut builder = Vocabulary::builder();
    for byte in 0..=255 {
        builder.text(&[byte]);
    }
    for text in TOKENS {
        builder.text(text.as_bytes());
    }
    let end = builder.control("<end>");
    builder.end_of_sequence(end);
    Ok((Arc::new(builder.build().map_err(|error| error.to_string())?), end))
}
