//! The drafts of JSON Schema, and the dialects that are made of them.

use std::{fmt, str::FromStr};

/// A version of JSON Schema, or a dialect that is made of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Draft {
    /// Draft 4.
    Draft4,
    /// The Schema Object of OpenAPI 3.0: draft 4 with `nullable`, without `id`.
    OpenApi30,
    /// Draft 6.
    Draft6,
    /// Draft 7.
    Draft7,
    /// Draft 2019-09.
    Draft201909,
    /// Draft 2020-12, which OpenAPI 3.1 takes with annotations of its own.
    Draft202012,
}

/// The names of [`Draft::from_str`]. The last name of a draft is not written.
const NAMES: [(&str, Draft); 7] = [
    ("draft-04", Draft::Draft4),
    ("openapi-3.0", Draft::OpenApi30),
    ("draft-06", Draft::Draft6),
    ("draft-07", Draft::Draft7),
    ("2019-09", Draft::Draft201909),
    ("2020-12", Draft::Draft202012),
    ("openapi-3.1", Draft::Draft202012),
];

impl Draft {
    /// The draft that `$schema` names.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.trim_end_matches('#');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        if let Some(name) = name.strip_prefix("spec.openapis.org/oas/") {
            return match name.split('/').next()? {
                "3.0" => Some(Self::OpenApi30),
                "3.1" | "3.2" if name.contains("/dialect/") => Some(Self::Draft202012),
                _ => None,
            };
        }
        Some(match name {
            "json-schema.org/draft-04/schema" => Self::Draft4,
            "json-schema.org/draft-06/schema" => Self::Draft6,
            "json-schema.org/draft-07/schema" => Self::Draft7,
            "json-schema.org/draft/2019-09/schema" => Self::Draft201909,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft202012,
            _ => return None,
        })
    }

    /// Whether it has the keywords of draft 4: bounds that a boolean makes exclusive, and schemas that are objects.
    pub(crate) fn is_draft4(self) -> bool {
        matches!(self, Self::Draft4 | Self::OpenApi30)
    }

    /// The last part of the URI of a vocabulary of this draft.
    pub(crate) fn vocabulary(self, uri: &str) -> Option<&str> {
        let year = match self {
            Self::Draft201909 => "2019-09",
            Self::Draft202012 => "2020-12",
            _ => return None,
        };
        uri.strip_prefix("https://json-schema.org/draft/")?.strip_prefix(year)?.strip_prefix("/vocab/")
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, draft)| draft == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Draft {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|(_, draft)| *draft);
        found.ok_or_else(|| {
            let names: Vec<String> = NAMES.iter().map(|(name, _)| format!("`{name}`")).collect();
            format!("it is one of {}", names.join(", "))
        })
    }
}
