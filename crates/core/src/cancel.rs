//! A flag by which one thread asks another to stop, and a deadline for work.
//!
//! Work looks at the flag often. Where there is a deadline, each look also reads the clock. The alternative, a thread
//! that waits and sets the flag, would be one more thread for each piece of work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// Ends the work of all holders of a copy, when they look at it next. There is no way back.
///
/// # Example
///
/// ```
/// use unskew_core::Cancel;
///
/// let cancel = Cancel::default();
/// let copy = cancel.clone(); // for another thread, or a signal handler
/// copy.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

/// From an existing flag, such as one that a signal handler sets.
impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self { flag, deadline: None }
    }
}

impl Cancel {
    /// A copy that also ends the work from `deadline` on. The deadline belongs to this copy: other copies, and the
    /// flag that they share, do not have it.
    ///
    /// Cost of each look: that of reading the clock, some 20 ns.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        let earlier = self.deadline.map_or(deadline, |other| other.min(deadline));
        Self { flag: Arc::clone(&self.flag), deadline: Some(earlier) }
    }

    /// Asks all work to end.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether work has to end: the end was asked for, or the deadline is over.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.is_late()
    }

    /// Whether there is a deadline and it is over.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deadline_is_that_of_one_copy() {
        let cancel = Cancel::default();
        let now = Instant::now();
        let (late, early) = (cancel.until(now), cancel.until(now + Duration::from_secs(3600)));
        assert!(late.is_cancelled() && late.is_late() && late.clone().is_cancelled());
        assert!(early.until(now).is_late() && late.until(now + Duration::from_secs(3600)).is_late());
        assert!(!early.is_cancelled() && !cancel.is_cancelled());
        cancel.cancel();
        assert!(early.is_cancelled() && !early.is_late());
    }
}
