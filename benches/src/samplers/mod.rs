//! Samplers side by side: how far each is from the exact distribution for what cost; what each adds to a token's time where the
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

use std::{fmt, path::Path};

use crate::report::{host, record_as, today};

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
    let pictures = wanted("cases").then(|| cases::report(&mut report));
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
        let asked = named.iter().copied().chain(embedded).chain(["--record"]).collect::<Vec<_>>();
        record(&report.0, &asked, pictures.as_ref().map_or(&[], |pictures| &pictures[..]));
    }
}

fn record(report: &str, asked: &[&str], pictures: &[(&str, String)]) {
    let text = format!(
        "# Samplers, {}\n\n{}Command: `cargo xtask bench samplers {}`. Times are those of the process on its processor.\n\n{report}",
        today(),
        host(),
        asked.join(" ")
    );
    let file = record_as("samplers", &text).expect("benches/record can be written");
    for (name, picture) in pictures {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("record")
            .join(file.replace(".md", &format!("-{name}.svg")));
        std::fs::write(path, picture).expect("benches/record can be written");
    }
    eprintln!("written to benches/record/{file}");
}
