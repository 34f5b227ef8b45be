//! Parameters of methods: their types and limits, and how a text of them is read.

use std::{num::NonZeroUsize, str::FromStr};

use unskew_samplers::{MAX_DRAFT, speculative::DraftLength};

use super::{Method, MethodError, TRIES};

/// A row of the table of methods.
#[derive(Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The name.
    pub name: &'static str,
    /// Its outputs, in one line.
    pub help: &'static str,
    /// The distribution of its outputs, in a few words.
    pub distribution: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Whether a file can keep its bounds.
    pub learns: bool,
    pub(super) read: fn(&Given<'_>) -> Result<Method, MethodError>,
}

/// A parameter of a method.
#[derive(Debug)]
#[non_exhaustive]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// The values that it takes.
    pub kind: ParameterKind,
    /// The value where none is given; empty where there is no such value.
    pub default: &'static str,
    /// The meaning, in one line.
    pub help: &'static str,
}

/// The values that a parameter takes.
#[derive(Debug)]
pub enum ParameterKind {
    /// Given or not.
    Switch,
    /// A whole number between two limits, and the reason for the upper one.
    Whole(u64, u64, &'static str),
    /// A number with a point between two limits.
    Number(f64, f64),
    /// One of some words, each with its meaning.
    Words(&'static [(&'static str, &'static str)]),
    /// `auto`, or a number of drafted tokens.
    Length,
}

impl ParameterKind {
    /// Whether the parameter takes `value`.
    ///
    /// # Errors
    ///
    /// The values that it takes.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self {
            Self::Switch => match value {
                "true" | "false" => Ok(()),
                _ => Err("it is given without a value, or is `true` or `false`".to_owned()),
            },
            Self::Whole(least, most, why) => match value.parse::<u64>() {
                Ok(number) if (*least..=*most).contains(&number) => Ok(()),
                _ => Err(format!("give a whole number from {least} to {most}: {why}")),
            },
            Self::Number(least, most) => match value.parse::<f64>() {
                Ok(number) if (*least..=*most).contains(&number) => Ok(()),
                _ if most.is_finite() => Err(format!("it must lie between {least} and {most}")),
                _ => Err(format!("give a number from {least} on")),
            },
            Self::Words(words) if words.iter().any(|(word, _)| *word == value) => Ok(()),
            Self::Words(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(format!("it is {}", words.join(", ")))
            }
            Self::Length => match value.parse::<usize>() {
                Ok(length) if length <= MAX_DRAFT => Ok(()),
                _ if value == "auto" => Ok(()),
                _ => Err(format!("give `auto`, or a number of tokens up to {MAX_DRAFT}")),
            },
        }
    }
}

/// The name and the value of `name=value`, or a name alone.
pub(crate) fn named_value(text: &str) -> (&str, Option<&str>) {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.trim())));
    (name.trim(), value)
}

/// Names and values that are joined by commas.
pub(crate) fn named_values(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    text.split(',').filter(|part| !part.trim().is_empty()).map(named_value)
}

/// The parameters that are given to a method: checked against its row, each once.
pub(super) struct Given<'a> {
    pub(super) row: &'static MethodInfo,
    values: Vec<(&'static Parameter, &'a str)>,
}

impl<'a> Given<'a> {
    /// Reads `text`, parameters that are joined by commas.
    pub(super) fn new(row: &'static MethodInfo, text: &'a str) -> Result<Self, MethodError> {
        let mut given = Self { row, values: Vec::new() };
        for (name, value) in named_values(text) {
            let parameter = row.parameters.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| MethodError::NoSuchParameter {
                method: row.name,
                parameter: name.to_owned(),
                known: row.known(),
            })?;
            if given.text(parameter.name).is_some() {
                return Err(MethodError::Twice { method: row.name, parameter: parameter.name });
            }
            let value = match (value, &parameter.kind) {
                (None, ParameterKind::Switch) => "true",
                (value, _) => value.unwrap_or_default(),
            };
            parameter.kind.check(value).map_err(|why| MethodError::Value {
                method: row.name,
                parameter: parameter.name,
                value: value.to_owned(),
                why,
            })?;
            given.values.push((parameter, value));
        }
        Ok(given)
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.values.iter().find(|(parameter, _)| parameter.name == name).map(|(_, value)| *value)
    }

    /// A value that is given; its row has checked it.
    pub(super) fn value<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).and_then(|value| value.parse().ok())
    }

    pub(super) fn tries(&self) -> u64 {
        self.value("tries").unwrap_or(TRIES)
    }

    /// A number of at least one.
    pub(super) fn count(&self, name: &str, default: usize) -> NonZeroUsize {
        let least = NonZeroUsize::MIN;
        self.value(name).unwrap_or_else(|| NonZeroUsize::new(default).unwrap_or(least))
    }

    pub(super) fn length(&self) -> Option<DraftLength> {
        self.text("length").map(|value| value.parse().map_or(DraftLength::default(), DraftLength::Fixed))
    }
}

impl MethodInfo {
    /// The parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The names of the parameters.
    fn known(&self) -> String {
        if self.parameters.is_empty() {
            return "none".to_owned();
        }
        self.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ")
    }
}
