//! Times of the regex engines side by side: see `unskew_benches::run`. `cargo xtask bench regex` runs it with peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    unskew_benches::run(&unskew_benches::REGEX_SUITE, None)
}
