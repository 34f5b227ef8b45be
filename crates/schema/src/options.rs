//! What the schema leaves open.

use std::str::FromStr;

/// How outputs are written where the schema leaves it open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SchemaOptions {
    /// White space between the parts of a value.
    pub whitespace: Whitespace,
    /// The order of the members of an object.
    pub order: MemberOrder,
}

/// The order of the members of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MemberOrder {
    /// That of the schema: declared members, then those that are only required, then others. What a model needs to read,
    /// and what applications expect.
    #[default]
    Declared,
    /// Any. Nothing is larger for it when the schema is compiled; a mask knows which members were written, so masks of other
    /// objects of the same schema are found again less often.
    Any,
}

/// White space between the parts of a value. There is none in front of it and behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Whitespace {
    /// None at all.
    Compact,
    /// At most so many blanks, tabs and line breaks in each place.
    Bounded(u32),
    /// Any number. A model may write blanks for ever.
    Flexible,
}

impl Default for Whitespace {
    /// Enough for an indentation of eight levels, and an end to blanks.
    fn default() -> Self {
        Self::Bounded(33)
    }
}

impl FromStr for Whitespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("bounded:").map(str::parse)) {
            ("compact", _) => Ok(Self::Compact),
            ("flexible", _) => Ok(Self::Flexible),
            (_, Some(Ok(most))) => Ok(Self::Bounded(most)),
            _ => Err("it is `compact`, `flexible`, or `bounded:N` with a number".to_owned()),
        }
    }
}
