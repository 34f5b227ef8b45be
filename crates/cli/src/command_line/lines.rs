//! Files with one JSON value a line, each read as it is needed; `-` is standard input.

use std::{
    fmt::Display,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;

use crate::{
    command_line::error::{Failure, Result, one_line},
    read::{self, MAX_LINES_BYTES},
};

/// The longest line that is read, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// The values of a file.
pub(crate) struct JsonLines {
    path: PathBuf,
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
}

impl JsonLines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let input: Box<dyn BufRead> = match is_input(path) {
            true => Box::new(BufReader::new(std::io::stdin())),
            false => Box::new(BufReader::new(read::open(path, MAX_LINES_BYTES)?)),
        };
        Ok(Self { path: path.to_owned(), input, line: Vec::new(), number: 0 })
    }

    /// A fault in the line that was read last.
    pub(crate) fn at(&self, error: &dyn Display) -> Failure {
        let Self { path, number, .. } = self;
        Failure::Input(format!("{}: line {number}: {}", path.display(), one_line(&error.to_string())))
    }

    /// The value of the next line that is not empty; `None` behind the last one.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.input.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut self.line);
            read.map_err(|error| self.at(&error))?;
            if self.line.is_empty() {
                return Ok(None);
            }
            if self.line.len() as u64 > MAX_LINE_BYTES {
                return Err(self.at(&format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            if self.number == 1 {
                let mark = read::mark(&self.line).map_err(|error| self.at(&error))?;
                self.line.drain(..mark);
            }
            if !self.line.trim_ascii().is_empty() {
                let value = serde_json::from_slice(self.line.trim_ascii_end());
                return value.map(Some).map_err(|error| self.at(&json_error(&error)));
            }
        }
    }
}

/// Whether a path is that of standard input.
pub(crate) fn is_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// A JSON error without its line number, which is always 1 here.
fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cut = text.rfind(" at line ").unwrap_or(text.len());
    format!("{}, column {}", &text[..cut], error.column())
}
