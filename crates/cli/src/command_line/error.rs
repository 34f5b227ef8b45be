//! How a command fails: one line, the line of a text that it is about, and an exit code that tells bad input from
//! other failures.

use std::{
    fmt,
    path::{Path, PathBuf},
};

pub(crate) use crate::chain;
use crate::{
    command_line::{excerpt::Place, help},
    engine::{Error, spec::Limit},
};

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage or bad input: exit code 2.
    Input(String),
    /// Bad input, with its place in the text of a file; no file: in the text of the constraint.
    Placed(String, Option<PathBuf>, Place),
    /// Anything else: exit code 1.
    Other(String),
    /// A text is not accepted, as the output says: exit code 1 without a message.
    Rejected,
    /// A signal asked for the end after this many outputs. Exit code 130.
    Interrupted(usize),
    /// The reader of the output has closed it: no message, exit code 0.
    OutputClosed,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn input(message: impl fmt::Display) -> Self {
        Self::Input(message.to_string())
    }

    pub(crate) fn other(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Other(with_flag(chain(error)))
    }

    /// An input file that could not be used.
    pub(crate) fn file(path: &Path, error: impl fmt::Display) -> Self {
        Self::Input(with_flag(format!("{}: {error}", path.display())))
    }

    /// The same with its place.
    fn placed(self, file: Option<&PathBuf>, place: Option<Place>) -> Self {
        match (self, place) {
            (Self::Input(message), Some(place)) => Self::Placed(message, file.cloned(), place),
            (failure, _) => failure,
        }
    }

    /// A library's error about the user's input.
    pub(crate) fn bad(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Input(with_flag(chain(error)))
    }
}

#[cfg(feature = "http")]
impl Failure {
    /// The error of a server, with options as flags.
    pub(crate) fn endpoint(error: &crate::endpoint::EndpointError) -> Self {
        Self::Input(in_flags(&error.to_string()))
    }
}

/// A message with the flag that raises the limit that it names.
pub(crate) fn with_flag(mut message: String) -> String {
    if let Some(limit) = Limit::in_message(&message) {
        message.push_str("; here that is --limit ");
        message.push_str(limit.name);
        message.push_str("=N");
    }
    message
}

/// The names of options in the facade's messages and in JSON, and their flags where those differ by more than dashes.
/// Options that refine a constraint are in a table of their own, and follow `--with`.
const OPTIONS: &[(&str, &str)] = &[
    ("canonical", ""),
    ("choices", "--choice"),
    ("draft_model", ""),
    ("end", ""),
    ("endpoint", ""),
    ("exclude_set", ""),
    ("grammar", ""),
    ("grammar_file", "--grammar"),
    ("heal", ""),
    ("json_schema", ""),
    ("json_schema_file", "--json-schema"),
    ("max_bytes", ""),
    ("max_tokens", ""),
    ("prompt", ""),
    ("regex", ""),
    ("regex_file", ""),
    ("sampler", ""),
    ("set", ""),
    ("start", ""),
    ("strict", ""),
    ("structural_tag", ""),
    ("structural_tag_file", "--structural-tag"),
    ("subset", ""),
    ("time_limit", ""),
    ("tokenizer", ""),
    ("tool_choice", ""),
    ("tool_style", ""),
    ("tools", ""),
    ("truncate", ""),
];

/// A message of the facade with the names of options as flags: `` `max_tokens` `` is `--max-tokens` here.
pub(crate) fn in_flags(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('`') {
        text.push_str(before);
        let Some((inside, next)) = after.split_once('`') else {
            rest = &rest[before.len()..];
            break;
        };
        rest = next;
        match OPTIONS.iter().find(|(name, _)| *name == inside) {
            Some((name, "")) => {
                text.push_str("--");
                text.push_str(&name.replace('_', "-"));
            }
            Some((_, flag)) => text.push_str(flag),
            None if help::with_options().any(|option| option.name == inside) => {
                text.push_str("--with ");
                text.push_str(&inside.replace('_', "-"));
            }
            None => {
                text.push('`');
                text.push_str(inside);
                text.push('`');
            }
        }
    }
    text.push_str(rest);
    text
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Sample(_) => Self::other(&error),
            crate::Error::Cancelled => Self::Interrupted(0),
            crate::Error::TimeLimit { .. } => Self::Other(in_flags(&error.to_string())),
            #[cfg(feature = "http")]
            crate::Error::Model(error) if error.is::<crate::endpoint::EndpointError>() => {
                Self::Input(in_flags(&error.to_string()))
            }
            crate::Error::Engine(error) => match &*error {
                Error::Combination(_) | Error::Spec(_) => {
                    Self::Input(with_flag(in_flags(&error.to_string())))
                }
                Error::File { path, source } if source.is::<crate::Mismatch>() => {
                    Self::file(path, in_flags(&source.to_string()))
                }
                Error::File { path, source } => Self::bad(&*error).placed(Some(path), Place::of(&**source)),
                Error::Constraint(source) => Self::bad(&*error).placed(None, Place::of(&**source)),
                other => Self::bad(other),
            },
            // The names in others are those of a user's text.
            other => Self::bad(&other),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        crate::Error::from(error).into()
    }
}

/// The message, for libraries that report the error of a function of ours.
impl From<Failure> for Box<dyn std::error::Error + Send + Sync> {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input(message) | Failure::Placed(message, ..) | Failure::Other(message) => {
                message.into()
            }
            Failure::Rejected => "rejected".into(),
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

/// The same text without line breaks and runs of white space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::args::Cli;

    #[test]
    fn names_of_options_are_flags() {
        assert_eq!(in_flags("`canonical` and `max_tokens` 5"), "--canonical and --max-tokens 5");
        assert_eq!(in_flags("`json_schema_file`, not `uniqueItems`"), "--json-schema, not `uniqueItems`");
        assert_eq!(in_flags("`any_order` of a `json_schema`"), "--with any-order of a --json-schema");
        assert_eq!(in_flags("an odd ` alone"), "an odd ` alone");
        let command = Cli::command();
        let commands: Vec<_> = command.get_subcommands().collect();
        for (name, _) in OPTIONS {
            let flag = in_flags(&format!("`{name}`"));
            let is_there = |command: &clap::Command| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long().is_some_and(|long| format!("--{long}") == flag))
            };
            assert!(commands.iter().any(|command| is_there(command)), "{flag}");
        }
    }
}
