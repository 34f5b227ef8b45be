//! The drafts of JSON Schema.

/// A version of JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Draft {
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.trim_end_matches('#');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        Some(match name {
            "json-schema.org/draft-04/schema" => Self::Draft4,
            "json-schema.org/draft-06/schema" => Self::Draft6,
            "json-schema.org/draft-07/schema" => Self::Draft7,
            "json-schema.org/draft/2019-09/schema" => Self::Draft201909,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft202012,
            _ => return None,
        })
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
