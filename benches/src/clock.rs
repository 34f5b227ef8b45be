//! The clock of all measurements: the one on the wall, or the time that this process has run.
//!
//! On a machine that does other things too, a mask of a microsecond is now and then interrupted for milliseconds.
//! Those are the largest times on the wall, and say nothing of the engine. The time of the process leaves them out,
//! and counts the work of other threads for an engine, but takes longer to read: some tenths of a microsecond.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

static CPU_TIME: AtomicBool = AtomicBool::new(false);

/// From now on, the time that the process has run.
pub(crate) fn use_cpu_time() {
    CPU_TIME.store(true, Ordering::Relaxed);
}

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    Wall(Instant),
    /// In nanoseconds of this process.
    Cpu(u64),
}

impl Moment {
    pub(crate) fn now() -> Self {
        if CPU_TIME.load(Ordering::Relaxed) { Self::Cpu(cpu_time()) } else { Self::Wall(Instant::now()) }
    }

    /// The nanoseconds since then.
    pub(crate) fn ns(self) -> u64 {
        match self {
            Self::Wall(begin) => u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Self::Cpu(begin) => cpu_time() - begin,
        }
    }
}

/// The average time between two reads, in nanoseconds. Each time includes so much.
pub(crate) fn cost() -> u64 {
    const TIMES: u64 = 10_000;
    (0..TIMES).map(|_| Moment::now().ns()).sum::<u64>() / TIMES
}

#[cfg(unix)]
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The nanoseconds that this thread has run: others of the process, and other programs, do not count.
#[cfg(unix)]
pub(crate) fn thread_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// There is no such clock: the wall's.
#[cfg(not(unix))]
pub(crate) fn thread_time() -> u64 {
    cpu_time()
}

/// There is no such clock: the wall's.
#[cfg(not(unix))]
fn cpu_time() -> u64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_while_something_runs() {
        let before = cpu_time();
        let sum = (0..2_000_000u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(cpu_time() > before, "{sum}");
        let of_thread = thread_time();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(thread_time() - of_thread < 10_000_000, "sleep does not count");
    }
}
