//! Structures that hold millions of titles, side by side: see `unskew_benches::run_sets`. `cargo xtask bench sets` runs it.

#![allow(clippy::print_stderr, reason = "a program that talks to its user")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match unskew_benches::run_sets(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
