//! A text while it is read: the cursor, and its errors.

pub(crate) mod cursor;
pub(crate) mod error;

/// A file in a text that has been put together of several: path, and where the file begins and ends.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}
