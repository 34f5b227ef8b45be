//! SIGINT and SIGTERM: the first ends the work at the next safe point, so that nothing is lost; the second ends the
//! program.
//!
//! Only work that has something to lose is asked for its end. Everything before it, such as the compilation of a
//! constraint, is ended by the first signal as by default.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::core::Cancel;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::command_line::error::{Failure, Result};

/// The exit code of a program that was interrupted, as shells have it for SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether a signal has asked for the end.
pub(crate) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// The question of those who work.
    pub(crate) fn cancel(&self) -> Cancel {
        Cancel::from(Arc::clone(&self.0))
    }

    /// Waits for an input. There is nothing to lose meanwhile, so that the first signal is the end.
    pub(crate) fn idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        let before = self.0.swap(true, Ordering::Relaxed);
        let input = wait();
        self.0.store(before, Ordering::Relaxed);
        input
    }
}

/// From now on the first signal asks for the end, and the second one is it.
pub(crate) fn watch() -> Result<Watch> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the flag is looked at before it is set.
        let ends = flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), Arc::clone(&asked));
        ends.and_then(|_| flag::register(signal, Arc::clone(&asked)))
            .map_err(|error| Failure::other(&error))?;
    }
    Ok(Watch(asked))
}
