//! Times of the grammar engines side by side: see `unskew_benches::run`. `cargo xtask bench grammars` runs it with peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    unskew_benches::run(&unskew_benches::GRAMMAR_SUITE, None)
}
