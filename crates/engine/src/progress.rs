//! A callback for long work and for findings that are no errors.
//!
//! A set of millions of items is read for seconds, and lines of a text file may be left out. A trait with empty
//! methods lets a program hear of it with a type of its own; `&()` hears nothing.

use std::path::Path;

/// Hears of work that takes long and of findings that are no errors. `()` hears nothing.
pub trait Progress {
    /// A finding that is no error.
    fn note(&self, text: &str) {
        let _ = text;
    }

    /// The items of the text file `path` are read: `bytes` so far, `of` in all (0 for a pipe).
    fn reading(&self, path: &Path, bytes: u64, of: u64) {
        let _ = (path, bytes, of);
    }

    /// All items of `path` are read and sorted.
    fn read(&self, path: &Path) {
        let _ = path;
    }
}

impl Progress for () {}
