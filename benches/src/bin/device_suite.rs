//! A step where the model runs on wgpu: see `unskew_benches::run_device`. `cargo xtask bench device` runs it.

#![allow(clippy::print_stderr, reason = "a program that talks to its user")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match unskew_benches::run_device(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
