//! Speculative and mentored decoding, measured: see `unskew_benches::speculation`. `cargo xtask bench speculation` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    unskew_benches::speculation::run()
}
