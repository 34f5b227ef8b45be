//! A flag by which one thread asks another to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Ends the work of whoever has a copy of it, at the next place where that looks. There is no way back.
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
pub struct Cancel(Arc<AtomicBool>);

/// A flag that exists already, such as the one that a signal handler sets.
impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

impl Cancel {
    /// Asks for the end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
