//! Attributes of a definition in Lark: `name[capture, lazy, max_tokens=10]: …`.

use unskew_grammar::{Fate, SyntaxError};

use super::{Attributes, End, body};
use crate::syntax::{escape::number, reader::Reader};

/// Reads `[capture, lazy, …]` after the name of a definition. `terminal` is whether the name is that of a terminal.
pub(super) fn read(
    reader: &mut Reader<'_>,
    terminal: bool,
    (name, name_at): (&str, usize),
) -> Result<Attributes, SyntaxError> {
    reader.cursor.next();
    let mut read = Attributes { end: End::Any, chars: None, budget: None };
    loop {
        reader.cursor.take_while(|char| char == ' ' || char == ',');
        if reader.cursor.eat("]") {
            return Ok(read);
        }
        let at = reader.cursor.at();
        let attribute = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
        body::blank(&mut reader.cursor);
        let valued = reader.cursor.eat("=");
        body::blank(&mut reader.cursor);
        let is_first = matches!(read.end, End::Any);
        match (attribute, valued) {
            ("capture" | "stop_capture", _) => {
                let mut of = name.to_owned();
                if valued {
                    if reader.cursor.peek() != Some('"') {
                        return Err(reader.cursor.unexpected("a name in quotes"));
                    }
                    let begin = reader.cursor.at();
                    of = super::super::escape::quoted(&mut reader.cursor, body::OTHERS)?;
                    if of.is_empty() {
                        return Err(reader
                            .cursor
                            .invalid(begin, "the name of a part of the output is empty"));
                    }
                }
                if attribute == "capture" {
                    reader.tree.captures.insert(name_at, of);
                    let why = "its texts are reported by this name, and no text changes";
                    reader.tree.notes.push((at, "`capture`", Fate::Enforced, why));
                } else {
                    let why = "the text of a stop is not written, so there is nothing to report; it changes no text";
                    reader.tree.notes.push((at, "`stop_capture`", Fate::Annotation, why));
                }
            }
            ("temperature", true) => {
                let digits =
                    |char: char| char.is_ascii_digit() || matches!(char, '.' | '-' | '+' | 'e' | 'E');
                let begin = reader.cursor.at();
                let Ok(number) = reader.cursor.take_while(digits).parse::<f64>() else {
                    return Err(reader.cursor.unexpected("a number"));
                };
                if !(number >= 0.0 && number <= f64::from(f32::MAX)) {
                    return Err(reader.cursor.invalid(begin, "a temperature is a number from 0"));
                }
                reader.tree.temperatures.insert(name_at, number);
                let why = "its number is reported to the sampler where its texts stand, and no text changes";
                reader.tree.notes.push((at, "`temperature`", Fate::Annotation, why));
            }
            ("max_tokens" | "max_chars", true) if terminal => {
                let way_out = "give it to a rule (in lower case) whose body is the terminal";
                return Err(reader.cursor.unsupported(at, format!("`{attribute}` of a terminal"), way_out));
            }
            ("max_chars", true) if read.chars.is_none() => {
                read.chars = Some(number(&mut reader.cursor, "a number of characters")?);
                let why = "the rule ends at the first place after so many characters, or before";
                reader.tree.notes.push((at, "`max_chars`", Fate::Enforced, why));
            }
            ("max_tokens", true) if read.budget.is_none() => {
                read.budget = Some(number(&mut reader.cursor, "a number of tokens")?);
                reader.tree.ends.push((at, "`max_tokens`"));
            }
            ("lazy", false) if is_first => {
                reader.tree.ends.push((at, "`lazy`"));
                read.end = End::First;
            }
            ("suffix", true) if is_first => {
                reader.tree.ends.push((at, "`suffix`"));
                read.end = End::After(body::value(reader)?);
            }
            ("stop", true) if is_first => {
                let rest = reader.cursor.rest();
                if rest.starts_with("\"\"") {
                    reader.cursor.eat("\"\"");
                    let why = "an empty `stop` is the end of the sequence: the text may end wherever the next one begins";
                    reader.tree.notes.push((at, "`stop`", Fate::Annotation, why));
                } else {
                    reader.tree.ends.push((at, "`stop`"));
                    read.end = End::Before(body::value(reader)?);
                }
            }
            ("lazy" | "suffix" | "stop", _) => {
                let message = "the end of a text is given by `lazy` without a value, or by `suffix=` or `stop=` with a value, and \
                               only once";
                return Err(reader.cursor.invalid(at, message));
            }
            ("max_tokens" | "max_chars" | "temperature", _) => {
                return Err(reader
                    .cursor
                    .invalid(at, format!("`{attribute}` needs one value: `{attribute}=…`")));
            }
            _ => {
                let message = format!(
                    "there is no attribute `{attribute}`, only `capture`, `stop_capture`, `lazy`, `suffix`, `stop`, `max_tokens`, \
                     `max_chars` and `temperature`"
                );
                return Err(reader.cursor.invalid(at, message));
            }
        }
    }
}
