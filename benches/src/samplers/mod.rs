//! Samplers side by side: how far each is from the exact distribution for which cost; the time that each adds to a
//! token where the vocabulary is large; the memory of a visited prefix; and, with `--embedded`, the embedded model.
//!
//! Times are those of the process on its processor. The design of published research code, a child for each allowed
//! token and a call of the model for each token, was measured beside ours once: `samplers-embedded.md` of the records
//! has it.
#![allow(clippy::print_stdout, reason = "a program that reports")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

mod cases;
mod embedded;
mod frontier;
mod tokens;

use std::{fmt, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    options::{EmbeddedOptions, RecordOptions},
    record,
};

const TRIES: u64 = 10_000_000;

/// The findings, printed as they come: the whole takes minutes.
#[derive(Debug, Default)]
struct Report(String);

impl Report {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        println!("{text}");
        self.0.push_str(&text.to_string());
        self.0.push('\n');
    }
}

/// Samplers side by side.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these parts
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Write the frontier over the embedded model as SVG
    #[arg(long, value_name = "OUT", requires = "embedded")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    embedded: EmbeddedOptions,
    #[command(flatten)]
    record: RecordOptions,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The distance from exact distributions, and its cost
    Cases,
    /// The time for a token, and memory
    Tokens,
    /// Divergence against positions over a session; the tasks over the embedded model with `--embedded`
    Frontier,
}

/// Measures the parts that the options name, and all of them where they name none.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let program = options.embedded.program()?;
    let wanted = |part: Part| options.parts.is_empty() || options.parts.contains(&part);
    let mut report = Report::default();
    report.line(format_args!(
        "# Samplers, {}\n\n{}{}. Times are those of the process on its processor.\n",
        record::today(),
        record::host(),
        record::command()
    ));
    if wanted(Part::Cases) {
        cases::report(&mut report);
    }
    if wanted(Part::Tokens) {
        tokens::report(&mut report);
    }
    if wanted(Part::Frontier) {
        frontier::report(&mut report, program.as_deref(), options.plot.as_deref())?;
    }
    if let Some(program) = program.filter(|_| options.parts.is_empty()) {
        embedded::report(&mut report, &program);
    }
    // A part is no newer record of the whole.
    let name = match options.parts[..] {
        [Part::Tokens] => "samplers-tokens",
        [Part::Frontier] => "samplers-frontier",
        _ => "samplers",
    };
    options.record.write(name, &report.0)
}
