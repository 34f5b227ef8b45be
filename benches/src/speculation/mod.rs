//! Speculation, measured: the solver of mentored decoding beside the published algorithm, and what a budget buys.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the body of a program that talks to its user")]

mod frontier;
mod pairs;
mod solver;
pub mod textbook;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use crate::{clock, report};

const USAGE: &str = "\
[PART]... [OPTIONS]

  PART              solver or frontier; without, both
  --quick           fewer repetitions
  --unskew PROGRAM  the command line, with which the embedded models are measured; without, they are not
  --record          write the report to benches/record too
";

/// The suite as a program.
pub fn run() -> ExitCode {
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn program() -> Result<(), String> {
    let (mut quick, mut record, mut unskew) = (false, false, None);
    let mut parts = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => quick = true,
            "--record" => record = true,
            "--unskew" => unskew = Some(PathBuf::from(args.next().ok_or(USAGE)?)),
            "solver" | "frontier" => parts.push(arg),
            _ => return Err(USAGE.to_owned()),
        }
    }
    // Solving takes microseconds, on one core: what interrupts it is none of its business.
    clock::use_cpu_time();
    let begin = Instant::now();
    let mut out = format!("# Speculative and mentored decoding, {}\n\n", report::today());
    out += &report::host();
    let options = [(unskew.is_some(), " --embedded"), (quick, " --quick"), (record, " --record")];
    let options: String = options.iter().filter(|(is_on, _)| *is_on).map(|(_, option)| *option).collect();
    let named: String = parts.iter().map(|part| format!(" {part}")).collect();
    out += &format!("Command: `cargo xtask bench speculation{named}{options}`.\n\n");
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    if wanted("solver") {
        out += &solver::report(if quick { 5 } else { 40 });
    }
    if wanted("frontier") {
        out += &frontier::report(if quick { 20 } else { 200 });
    }
    if let Some(unskew) = unskew {
        out += &frontier::embedded(&unskew, if quick { 10 } else { 100 })?;
    }
    out += &format!("\nThe run took {:.0} s.\n", begin.elapsed().as_secs_f64());
    print!("{out}");
    if record {
        let file = report::record_as("speculation", &out)?;
        eprintln!("written to benches/record/{file}");
    }
    Ok(())
}
