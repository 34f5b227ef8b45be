//! How a command fails: one line, and the exit code that says whose fault it is.

use std::{fmt, path::Path};

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage or bad input: exit code 2.
    Input(String),
    /// Anything else: exit code 1.
    Other(String),
    /// A signal asked for the end; so many outputs were written. Exit code 130.
    Interrupted(usize),
    /// Whoever read our output has had enough: no message, exit code 0.
    OutputClosed,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn input(message: impl fmt::Display) -> Self {
        Self::Input(message.to_string())
    }

    pub(crate) fn other(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Other(chain(error))
    }

    /// An input file that could not be used.
    pub(crate) fn file(path: &Path, error: impl fmt::Display) -> Self {
        Self::Input(format!("{}: {error}", path.display()))
    }

    /// A library's error about what the user gave.
    pub(crate) fn bad(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Input(chain(error))
    }
}

/// The message, for libraries that report what a function of ours says.
impl From<Failure> for Box<dyn std::error::Error + Send + Sync> {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input(message) | Failure::Other(message) => message.into(),
            Failure::Interrupted(_) => "interrupted".into(),
            Failure::OutputClosed => "the output was closed".into(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// An error and its sources on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        // A transparent error repeats its source.
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    one_line(&text)
}

/// The same text without line breaks and runs of white space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
