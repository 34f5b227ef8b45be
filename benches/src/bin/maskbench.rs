//! Engines of JSON Schema side by side on MaskBench's files: see `unskew_benches::maskbench`. `cargo xtask bench maskbench`
//! runs it.

use std::process::ExitCode;

use unskew_benches::{engine, maskbench};

fn main() -> ExitCode {
    #[allow(unused_mut, reason = "without peers nothing is added")]
    let mut builders = engine::ours_for_schemas();
    #[cfg(feature = "peers")]
    builders.extend(unskew_benches::peers::peers_for_schemas());
    maskbench::run(&builders)
}
