//! Tests in the format of the official JSON-Schema-Test-Suite: see `unskew_benches::schema_suite`. `cargo xtask bench suite` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    unskew_benches::schema_suite::run()
}
