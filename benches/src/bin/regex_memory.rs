//! Memory of the regex engines side by side, on the same regexes and samples as their times.
//!
//! The heap is counted by the allocator, exactly and in the same way for all engines. That slows allocations down, so it
//! is a program of its own. `cargo xtask bench regex-memory` runs it with peers.

use std::process::ExitCode;

use peak_alloc::PeakAlloc;
use unskew_benches::measure::Meter;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() -> ExitCode {
    unskew_benches::run(
        &unskew_benches::REGEX_SUITE,
        Some(Meter {
            current: || HEAP.current_usage(),
            peak: || HEAP.peak_usage(),
            reset: || HEAP.reset_peak_usage(),
        }),
    )
}
