//! Samplers side by side: how far each is from the exact law for what cost; what each adds to a token's time where the
//! vocabulary is large; the memory of a visited prefix; the design of the research code beside ours; and the embedded model.
//! `cargo xtask bench samplers` runs it, with `--embedded` also on the embedded model.
//!
//! Times are those of the process on its processor. `--record` writes the report to `benches/record`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

mod cases;
mod embedded;
mod research;
mod tokens;

use std::{fmt, process::Command};

const TRIES: u64 = 10_000_000;

/// What was found, as it comes: the whole takes minutes.
#[derive(Debug, Default)]
struct Report(String);

impl Report {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        println!("{text}");
        self.0.push_str(&text.to_string());
        self.0.push('\n');
    }
}

/// Measures what the arguments name (`cases`, `tokens`, `research`; everything without), with `--unskew PROGRAM` the embedded model too, and
/// records it where they say `--record`.
///
/// # Panics
///
/// If the record cannot be written.
pub fn run() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let program = args.iter().position(|arg| arg == "--unskew").and_then(|at| args.get(at + 1));
    let named: Vec<&str> = args
        .iter()
        .filter(|arg| !arg.starts_with("--") && Some(*arg) != program)
        .map(String::as_str)
        .collect();
    let wanted = |part: &str| named.is_empty() || named.contains(&part);
    let mut report = Report::default();
    if wanted("cases") {
        cases::report(&mut report);
    }
    if wanted("tokens") {
        tokens::report(&mut report);
    }
    if wanted("research") {
        research::report(&mut report);
    }
    if let Some(program) = program {
        embedded::report(&mut report, std::path::Path::new(program));
    }
    if args.iter().any(|arg| arg == "--record") {
        let embedded = program.map(|_| "--embedded");
        record(&report.0, &named.iter().copied().chain(embedded).chain(["--record"]).collect::<Vec<_>>());
    }
}

fn record(report: &str, asked: &[&str]) {
    let line = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let date = line("date", &["+%Y-%m-%d"]).unwrap_or_default();
    let commit = line("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let rustc = line("rustc", &["--version"]).unwrap_or_default();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let text = format!(
        "# Samplers, {date}\n\nMachine{}, load at the end {load}; {rustc}, release profile. Commit: {commit}.\n\
         Command: `cargo xtask bench samplers {}`. Times are those of the process on its processor.\n\n{report}",
        cpu.trim_start_matches([' ', '\t']),
        asked.join(" ")
    );
    let path = format!("benches/record/{date}-samplers.md");
    std::fs::write(&path, text).expect("benches/record can be written from the repository's root");
    eprintln!("written to {path}");
}
