//! Each system call that changes a folder or a file is a step, so that tests can end a process in front of any of them.
//!
//! A test runs the program with `UNSKEW_ABORT_AT_STEP=k`, for k = 0, 1, .. until it succeeds, and looks at the folder
//! after each run. Only debug builds count: a release build has no code for it. Tried instead: a tracer, which not
//! every machine allows, and a limit on the sizes of files, which ends a process in a write and never in a rename.

/// Comes in front of each system call that changes a folder or a file.
#[cfg(debug_assertions)]
pub(crate) fn step() {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    static LAST: OnceLock<Option<u64>> = OnceLock::new();
    static STEPS: AtomicU64 = AtomicU64::new(0);

    let last = LAST.get_or_init(|| std::env::var("UNSKEW_ABORT_AT_STEP").ok()?.parse().ok());
    if last.is_some_and(|last| STEPS.fetch_add(1, Ordering::Relaxed) == last) {
        std::process::abort();
    }
}

/// Nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn step() {}
