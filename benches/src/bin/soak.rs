//! A service in small, for minutes: see `unskew_benches::soak`. `cargo xtask bench soak` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    unskew_benches::soak::run()
}
