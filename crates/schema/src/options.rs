//! What the schema leaves open.

use std::str::FromStr;

use unskew_core::Cancel;

use crate::Registry;

/// How outputs are written where the schema leaves it open.
///
/// Two of them are equal if they ask for the same outputs: who may cancel does not matter.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SchemaOptions {
    /// White space between the parts of a value.
    pub whitespace: Whitespace,
    /// The largest exponent, up or down, of numbers under a condition (`integer`, bounds, `enum`, but not `multipleOf`, which
    /// is always written plainly); zero for none: then such numbers are digits and a point, as most programs that read whole
    /// numbers expect. Numbers without a condition have any exponent. Automata grow with it: bounds of 0 and 100 take 0.14 ms
    /// without, 1.6 ms up to three and 99 ms up to twenty.
    pub exponents: u32,
    /// Schemas that the schema may refer to.
    pub registry: Registry,
    /// Whether outputs are of ASCII alone: other characters are written as `\u` escapes. Else both ways are open.
    pub ascii: bool,
    /// The order of the members of an object.
    pub order: MemberOrder,
    /// Ends the compilation from another thread: it then answers [`SchemaError::Cancelled`](crate::SchemaError::Cancelled).
    /// It is looked at wherever work is counted, inside automata too, and after every thousand values of the text. Clones of the options
    /// share it.
    pub cancel: Cancel,
}

impl PartialEq for SchemaOptions {
    fn eq(&self, other: &Self) -> bool {
        let Self { whitespace, exponents, registry, ascii, order, cancel: _ } = self;
        *whitespace == other.whitespace
            && *exponents == other.exponents
            && *registry == other.registry
            && *ascii == other.ascii
            && *order == other.order
    }
}

impl Eq for SchemaOptions {}

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

/// Blanks of a level that are read from a text.
const MAX_INDENT: u32 = 100;

/// White space between the parts of a value. There is none in front of it and behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Whitespace {
    /// None at all.
    Compact,
    /// One blank behind each comma and colon, and none elsewhere: the text that Python's `json.dumps` writes.
    Spaced,
    /// At most so many blanks, tabs and line breaks in each place.
    Bounded(u32),
    /// Any number. A model may write blanks for ever.
    Flexible,
    /// One member or item a line, indented by so many blanks for each level, and one blank behind a colon: the text that
    /// `serde_json`'s `PrettyFormatter` writes. Each level has rules of its own, so values of schemas that repeat nest no deeper than
    /// [`SchemaLimits::levels`](crate::SchemaLimits::levels) says.
    Indent(u32),
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
        match (text, text.split_once(':').map(|(name, number)| (name, number.parse()))) {
            ("compact", _) => Ok(Self::Compact),
            ("spaced", _) => Ok(Self::Spaced),
            ("flexible", _) => Ok(Self::Flexible),
            (_, Some(("bounded", Ok(most)))) => Ok(Self::Bounded(most)),
            (_, Some(("indent", Ok(blanks)))) if blanks <= MAX_INDENT => Ok(Self::Indent(blanks)),
            (_, Some(("indent", Ok(_)))) => Err(format!("an indent has at most {MAX_INDENT} blanks")),
            _ => {
                Err("it is `compact`, `flexible`, `spaced`, `bounded:N` or `indent:N` with a number"
                    .to_owned())
            }
        }
    }
}
