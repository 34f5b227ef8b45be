//! Choices of the output that the schema leaves open.

use std::{str::FromStr, sync::Arc};

use unskew_core::Cancel;

use crate::{Draft, ElementStyle, Registry};

/// The form of outputs where the schema leaves it open.
///
/// Two values are equal if they ask for the same outputs; [`cancel`](Self::cancel) is not compared.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SchemaOptions {
    /// White space between the parts of a value.
    pub whitespace: Whitespace,
    /// Which spellings of a number are written.
    pub spelling: Spelling,
    /// Other texts in the place of commas, colons and white space.
    pub separators: Separators,
    /// The largest exponent, positive or negative, of numbers under a condition (`integer`, bounds, `enum`). A
    /// number under `multipleOf` never has an exponent. Zero, the default, allows no exponents, as most programs
    /// that read integers expect. Numbers without a condition may have any exponent.
    ///
    /// Compile time and automata grow with it; for `{"type": "integer", "minimum": 0, "maximum": 100}`:
    ///
    /// | `exponents` | compile time |
    /// |--:|--:|
    /// | 0 | 0.14 ms |
    /// | 3 | 1.6 ms |
    /// | 20 | 99 ms |
    pub exponents: u32,
    /// The draft of a schema without `$schema`; `None`: 2020-12, or 2019-09 where `items` is a list.
    pub dialect: Option<Draft>,
    /// Schemas that the schema may refer to.
    pub registry: Registry,
    /// Whether outputs contain ASCII only, with other characters as `\u` escapes. If false, both spellings are
    /// allowed.
    pub ascii: bool,
    /// The order of the members of an object.
    pub order: MemberOrder,
    /// Whether the outputs are an object whose members are elements, and how these are written.
    pub elements: Option<Arc<ElementStyle>>,
    /// Stops the compilation from another thread with [`SchemaError::Cancelled`](crate::SchemaError::Cancelled). It
    /// is checked wherever work is counted, inside automata too, and once in a thousand values of the text. Clones of
    /// the options share it.
    pub cancel: Cancel,
}

impl PartialEq for SchemaOptions {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            whitespace,
            spelling,
            separators,
            exponents,
            dialect,
            registry,
            ascii,
            order,
            elements,
            cancel: _,
        } = self;
        *whitespace == other.whitespace
            && *spelling == other.spelling
            && *separators == other.separators
            && *exponents == other.exponents
            && *dialect == other.dialect
            && *registry == other.registry
            && *ascii == other.ascii
            && *order == other.order
            && *elements == other.elements
    }
}

impl Eq for SchemaOptions {}

/// Which spellings of a number are written where the schema allows several: `25`, `25.0` and `25.00` are one integer,
/// and `-0` is a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Spelling {
    /// All that JSON and the schema allow.
    #[default]
    Any,
    /// Those of programs, which clients read without surprise: integers without a fraction, and zero without a sign.
    /// No value is lost. With [`SchemaOptions::exponents`] integers have exponents too, as that option says.
    Plain,
}

impl FromStr for Spelling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "any" => Ok(Self::Any),
            "plain" => Ok(Self::Plain),
            _ => Err("it is `plain` (what programs write) or `any` (all that JSON allows)".to_owned()),
        }
    }
}

/// Texts in the place of commas, colons and white space, for programs that read another notation than JSON. Each is a
/// pattern in the syntax of the `regex` crate; `None` is JSON.
///
/// [`Whitespace`] stands around them where it stands around commas and colons. [`Whitespace::Indent`] keeps its line
/// breaks.
///
/// # Example
///
/// ```
/// use unskew_schema::{SchemaLimits, SchemaOptions, Whitespace, grammar};
///
/// let mut options = SchemaOptions::default();
/// options.whitespace = Whitespace::Compact;
/// options.separators.item = Some(" ?; ?".to_owned());
/// let schema = r#"{"type": "array", "items": {"const": 1}, "maxItems": 2}"#;
/// let limits = SchemaLimits::default();
/// let texts = grammar(schema, &options, &limits)?.regular(&limits.grammar.regex)?;
/// assert!(texts.accepts(b"[1; 1]") && texts.accepts(b"[1 ;1]") && !texts.accepts(b"[1,1]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Separators {
    /// In the place of a comma.
    pub item: Option<String>,
    /// In the place of the colon after the name of a member.
    pub name: Option<String>,
    /// In the place of white space. It may be left out at each position, and takes the place of [`Whitespace`].
    pub space: Option<String>,
}

/// The order of the members of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum MemberOrder {
    /// The order of the schema: declared members, then members that are only required, then others. Applications
    /// and models expect this order.
    #[default]
    Declared,
    /// Any order. The grammar does not grow. A mask depends on the members that were already written, so a mask for
    /// another object of the same schema is less often found in a cache.
    Any,
}

/// The largest indent that [`Whitespace::from_str`] accepts, in blanks.
const MAX_INDENT: u32 = 100;

/// White space between the parts of a value. Outputs have no white space at their beginning or end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Whitespace {
    /// No white space.
    Compact,
    /// One blank after each comma and colon: the text that Python's `json.dumps` writes.
    Spaced,
    /// At each position nothing or a blank, so that the value stands on one line.
    Line,
    /// What printers write: at each position nothing, a blank, or a line break with an indentation of at most 32 blanks
    /// or 16 tabs.
    Printed,
    /// At most this many blanks, tabs and line breaks at each position.
    Bounded(u32),
    /// Any amount. A model may write blanks without end.
    Flexible,
    /// One member or item a line, indented by this many blanks for each level, and one blank after a colon: the
    /// text that `serde_json`'s `PrettyFormatter` writes. Each level has its own rules, so values of recursive
    /// schemas nest at most [`SchemaLimits::levels`](crate::SchemaLimits::levels) deep.
    Indent(u32),
}

impl Default for Whitespace {
    /// `Bounded(33)`: enough for an indentation of eight levels by four blanks and a line break, and an end to
    /// blanks.
    fn default() -> Self {
        Self::Bounded(33)
    }
}

impl Whitespace {
    /// The pattern of what stands in one place, where that is the same in each place and not always nothing.
    pub fn pattern(self) -> Option<String> {
        match self {
            Self::Compact | Self::Spaced | Self::Indent(_) | Self::Bounded(0) => None,
            Self::Line => Some(" ?".to_owned()),
            Self::Printed => Some("( |\\r?\\n( {0,32}|\\t{0,16}))?".to_owned()),
            Self::Bounded(most) => Some(format!("[ \\t\\n\\r]{{0,{most}}}")),
            Self::Flexible => Some("[ \\t\\n\\r]*".to_owned()),
        }
    }
}

impl FromStr for Whitespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.split_once(':').map(|(name, number)| (name, number.parse()))) {
            ("compact", _) => Ok(Self::Compact),
            ("spaced", _) => Ok(Self::Spaced),
            ("line", _) => Ok(Self::Line),
            ("printed", _) => Ok(Self::Printed),
            ("flexible", _) => Ok(Self::Flexible),
            (_, Some(("bounded", Ok(most)))) => Ok(Self::Bounded(most)),
            (_, Some(("indent", Ok(blanks)))) if blanks <= MAX_INDENT => Ok(Self::Indent(blanks)),
            (_, Some(("indent", Ok(_)))) => Err(format!("an indent has at most {MAX_INDENT} blanks")),
            _ => Err(
                "it is `compact`, `spaced`, `line`, `printed`, `flexible`, `bounded:N` or `indent:N` with a number"
                    .to_owned(),
            ),
        }
    }
}
