//! Handles: numbers that look like pointers, in tables.
//!
//! A handle is never followed. Numbers are given out once, over all kinds, and begin at 1: so the address of anything
//! is no handle, a handle that was freed stays none, and a handle of one kind is none of another. A look-up takes a
//! lock that readers share, a search in a balanced tree, and a count of who uses it: while one thread uses an entry,
//! another may free its handle.

use std::{
    collections::BTreeMap,
    ptr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::error::{Failure, UnskewStatus};

/// The handles of one kind. `H` is the type that C sees, and `T` the thing that a handle stands for.
pub(crate) struct Handles<T> {
    entries: RwLock<BTreeMap<usize, Arc<T>>>,
    /// In messages.
    kind: &'static str,
}

/// The number of the last handle.
static LAST: AtomicUsize = AtomicUsize::new(0);

impl<T> Handles<T> {
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self { entries: RwLock::new(BTreeMap::new()), kind }
    }

    /// A new handle.
    pub(crate) fn add<H>(&self, entry: Arc<T>) -> Result<*mut H, Failure> {
        // Only on a machine of 32 bits can they run out.
        let next = LAST.try_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1));
        let number = next.map_err(|_| Failure::argument("there are no more handles"))? + 1;
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(number, entry);
        Ok(ptr::without_provenance_mut(number))
    }

    /// The entry of a handle.
    pub(crate) fn get<H>(&self, handle: *const H) -> Result<Arc<T>, Failure> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&handle.addr()).cloned().ok_or_else(|| self.none(handle))
    }

    /// Frees a handle; null is freed already.
    pub(crate) fn remove<H>(&self, handle: *const H) -> Result<(), Failure> {
        if handle.is_null() {
            return Ok(());
        }
        let removed = self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.addr());
        // Dropped here, after the lock was given back.
        removed.map(drop).ok_or_else(|| self.none(handle))
    }

    fn none<H>(&self, handle: *const H) -> Failure {
        let kind = self.kind;
        let message = match handle.is_null() {
            true => format!("the {kind} is null"),
            false => {
                format!(
                    "the {kind} {:#x} is none: it was freed, or is a handle of another kind",
                    handle.addr()
                )
            }
        };
        Failure::new(UnskewStatus::Handle, message)
    }
}
