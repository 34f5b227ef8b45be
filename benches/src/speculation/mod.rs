//! Speculation, measured: the speed that a budget of mentored decoding buys.

#![allow(clippy::print_stdout, reason = "the body of a program that talks to its user")]

mod frontier;
mod pairs;

use std::time::Instant;

use clap::Args;

use crate::{
    clock,
    options::{EmbeddedOptions, RecordOptions},
    record,
};

/// Speculative and mentored decoding.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Fewer repetitions
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    embedded: EmbeddedOptions,
    #[command(flatten)]
    record: RecordOptions,
}

/// Measures and reports.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (quick, unskew) = (options.quick, options.embedded.program()?);
    // Interruptions are no part of it.
    clock::use_cpu_time();
    let begin = Instant::now();
    let mut out = format!("# Speculative and mentored decoding, {}\n\n", record::today());
    out += &record::host();
    out += &format!("{}.\n\n", record::command());
    out += &frontier::report(if quick { 20 } else { 200 });
    if let Some(unskew) = unskew {
        out += &frontier::embedded(&unskew, if quick { 10 } else { 100 })?;
    }
    out += &format!("\nThe run took {:.0} s.\n", begin.elapsed().as_secs_f64());
    print!("{out}");
    options.record.write("speculation", &out)
}
