//! Speculation, measured: the solver of mentored decoding beside the published algorithm, and the speed that a budget
//! buys.

#![allow(clippy::print_stdout, reason = "the body of a program that talks to its user")]

mod frontier;
mod pairs;
mod solver;
#[allow(dead_code, reason = "the tests of the samplers use all of it")]
#[path = "../../../crates/samplers/tests/published/textbook.rs"]
mod textbook;

use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::{
    clock,
    options::{EmbeddedOptions, RecordOptions},
    record,
};

/// Speculative and mentored decoding.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these parts
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Fewer repetitions
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    embedded: EmbeddedOptions,
    #[command(flatten)]
    record: RecordOptions,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The solver beside the published algorithm
    Solver,
    /// The speed that a budget buys
    Frontier,
}

/// Measures and reports.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (quick, unskew) = (options.quick, options.embedded.program()?);
    // Solving takes microseconds, on one core; interruptions are no part of it.
    clock::use_cpu_time();
    let begin = Instant::now();
    let mut out = format!("# Speculative and mentored decoding, {}\n\n", record::today());
    out += &record::host();
    out += &format!("{}.\n\n", record::command());
    let wanted = |part: Part| options.parts.is_empty() || options.parts.contains(&part);
    if wanted(Part::Solver) {
        out += &solver::report(if quick { 5 } else { 40 });
    }
    if wanted(Part::Frontier) {
        out += &frontier::report(if quick { 20 } else { 200 });
    }
    if let Some(unskew) = unskew {
        out += &frontier::embedded(&unskew, if quick { 10 } else { 100 })?;
    }
    out += &format!("\nThe run took {:.0} s.\n", begin.elapsed().as_secs_f64());
    print!("{out}");
    let name = if options.parts == [Part::Solver] { "speculation-solver" } else { "speculation" };
    options.record.write(name, &out)
}
