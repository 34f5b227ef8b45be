//! The option `--format` of the commands that answer.
//!
//! An alias of a `ValueEnum` is hidden in help and completions, and people write `json`. So the names are a list.

use clap::builder::{
    MapValueParser, PossibleValue, PossibleValuesParser, TypedValueParser as _, ValueParserFactory,
};

/// How answers are written: for people, or as one JSON value a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Jsonl,
}

impl Format {
    fn named(name: String) -> Self {
        if name == "text" { Self::Text } else { Self::Jsonl }
    }
}

impl ValueParserFactory for Format {
    type Parser = MapValueParser<PossibleValuesParser, fn(String) -> Self>;

    fn value_parser() -> Self::Parser {
        let value = |name, help| PossibleValue::new(name).help(help);
        let values = [
            value("text", "For people"),
            value("jsonl", "One JSON value a line"),
            value("json", "The same as jsonl"),
        ];
        PossibleValuesParser::new(values).map(Self::named)
    }
}
