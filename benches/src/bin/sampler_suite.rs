//! Samplers side by side: see `unskew_benches::samplers`. `cargo xtask bench samplers` runs it.

fn main() {
    unskew_benches::samplers::run();
}
