//! Files within a limit in bytes, special files too, and texts as UTF-8.
//!
//! The size that the file system names is not the limit: `/dev/zero` and a pipe have none. Tokenizers and checkpoints
//! are read by their crates, which have limits of their own.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// The longest regex, grammar or schema, in bytes: far beyond the engines' own limits, so that their errors can name
/// the size.
pub const MAX_TEXT_BYTES: u64 = 1 << 28;

/// The largest table model, in bytes: what is read of a file without an end stays far below a gigabyte.
pub const MAX_TABLE_BYTES: u64 = 1 << 28;

/// The largest file that is read line by line, in bytes.
pub const MAX_LINES_BYTES: u64 = 1 << 40;

/// The mark that editors put in front of a text in UTF-8, and those of UTF-16.
const BOM: &[u8] = b"\xef\xbb\xbf";
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// A reader that fails where more than its limit is read.
#[derive(Debug)]
pub struct Limited<R> {
    inner: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Limited<R> {
    /// A reader of at most `limit` bytes of `inner`.
    pub fn new(inner: R, limit: u64) -> Self {
        Self { inner, limit, left: limit }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let limit = self.limit;
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("longer than the limit of {limit} bytes; divide it"),
            )
        })?;
        Ok(read)
    }
}

/// A file of at most `limit` bytes.
///
/// # Errors
///
/// [`Error::File`], as for all functions here.
pub fn open(path: &Path, limit: u64) -> Result<Limited<File>> {
    File::open(path).map(|file| Limited::new(file, limit)).map_err(|error| Error::file(path, error))
}

/// The content of a file of at most `limit` bytes.
///
/// # Errors
///
/// [`Error::File`].
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, limit)?.read_to_end(&mut bytes).map_err(|error| Error::file(path, error))?;
    Ok(bytes)
}

/// The same without the byte order mark of UTF-8, if there is one.
///
/// # Errors
///
/// [`Error::File`], also for a text in UTF-16.
pub fn utf8(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = bytes(path, limit)?;
    let mark = mark(&bytes).map_err(|error| Error::file(path, error))?;
    bytes.drain(..mark);
    Ok(bytes)
}

/// A text from a file, without the line break at its end.
///
/// # Errors
///
/// [`Error::File`].
pub fn text(path: &Path) -> Result<String> {
    let mut text =
        String::from_utf8(utf8(path, MAX_TEXT_BYTES)?).map_err(|error| Error::file(path, error))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// The files of a folder, and of those in it, whose names end in one of these ways: in an order of their own.
///
/// # Errors
///
/// [`Error::File`], also beyond 100,000 files and folders.
pub fn files(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    /// The most files and folders.
    const MAX_ENTRIES: usize = 100_000;
    let (mut open, mut files, mut left) = (vec![folder.to_owned()], Vec::new(), MAX_ENTRIES);
    while let Some(at) = open.pop() {
        let entries = fs::read_dir(&at).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| Error::file(&at, error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let many = || format!("more than {MAX_ENTRIES} files and folders; keep those that are read apart");
        left = left.checked_sub(entries.len()).ok_or_else(|| Error::file(folder, many()))?;
        for entry in entries {
            let path = entry.path();
            let ends = |ending: &&str| path.extension().is_some_and(|extension| extension == *ending);
            // A link to a folder is none, so this ends.
            if entry.file_type().map_err(|error| Error::file(&path, error))?.is_dir() {
                open.push(path);
            } else if endings.iter().any(ends) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// How many bytes of the beginning of a text are a byte order mark.
///
/// # Errors
///
/// A message where the text is in UTF-16.
pub fn mark(begin: &[u8]) -> std::result::Result<usize, &'static str> {
    if UTF_16.iter().any(|mark| begin.starts_with(mark)) {
        return Err("the text is in UTF-16; save it in UTF-8");
    }
    Ok(if begin.starts_with(BOM) { BOM.len() } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;

    use super::*;

    #[test]
    fn limits_hold_for_what_has_no_size() {
        let mut bytes = Vec::new();
        let error = Limited::new(io::repeat(0), 1_000_000).read_to_end(&mut bytes).unwrap_err();
        assert!(bytes.len() <= 1_000_000 && error.to_string().contains("limit of 1000000 bytes"), "{error}");
        let exact = Limited::new(&b"abc"[..], 3).read_to_end(&mut Vec::new());
        assert_eq!(exact.unwrap(), 3);
        assert!(Limited::new(&b"abcd"[..], 3).read_to_end(&mut Vec::new()).is_err());
        let lines = io::BufReader::new(Limited::new(io::repeat(b'\n'), 10_000)).lines();
        assert!(lines.take(100_000).any(|line| line.is_err()));
    }

    #[test]
    fn byte_order_marks() {
        assert_eq!((mark(b"\xef\xbb\xbf{}"), mark(b"{}"), mark(b"")), (Ok(3), Ok(0), Ok(0)));
        assert!(mark(b"\xff\xfe{\0").is_err() && mark(b"\xfe\xff\0{").is_err());
    }
}
