//! The line of a text in which a fault is, with carets below it, as compilers show it.
//!
//! Faults of regexes, grammars, schemas and structural tags have places of four kinds. All of them become a range of
//! bytes, and one function draws it. Texts are those of strangers: a line of megabytes is cut to what is around the
//! fault, and what moves a terminal is escaped. The crates that draw such lines do neither.

use std::{borrow::Cow, collections::BTreeMap, error::Error, ops::Range, sync::Arc};

use serde_json::value::RawValue;

use crate::{
    automata::RegexError,
    command_line::plain,
    engine::{self, tag::TagError},
    grammar::{GrammarError, SyntaxError},
    schema::SchemaError,
};

/// Characters that are shown in front of a fault, and from its beginning on.
const AROUND: usize = 60;

/// Where in a text a fault is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Bytes(Range<usize>),
    /// A value of JSON, by the names and numbers that lead to it.
    Pointer(String),
}

impl Place {
    /// The place of the first error of the chain that could have one. The places of its sources are in other texts.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            // The error of a text is shared with the file around it.
            if let Some(shared) = error.downcast_ref::<Arc<engine::Error>>() {
                return match &**shared {
                    engine::Error::Constraint(source) => Self::of(&**source),
                    _ => None,
                };
            }
            if let Some(error) = error.downcast_ref::<GrammarError>() {
                let location = error.location().filter(|location| location.file == 0)?;
                return Some(Self::Bytes(location.offset..location.offset));
            }
            if let Some(SyntaxError { location, .. }) = error.downcast_ref() {
                return (location.file == 0).then_some(Self::Bytes(location.offset..location.offset));
            }
            if let Some(error) = error.downcast_ref::<RegexError>() {
                return Some(Self::Bytes(error.place()?.span.clone()));
            }
            if let Some(error) = error.downcast_ref::<SchemaError>() {
                return match error {
                    SchemaError::Json { offset, .. } => Some(Self::Bytes(*offset..*offset)),
                    error => {
                        let keyword = error.keyword().map(|keyword| format!("/{keyword}"));
                        Some(Self::Pointer(format!("{}{}", error.pointer()?, keyword.unwrap_or_default())))
                    }
                };
            }
            if let Some(TagError { pointer, .. }) = error.downcast_ref() {
                return Some(Self::Pointer(pointer.clone()));
            }
            next = error.source();
        }
        None
    }

    /// The bytes of `text` that it is; `None` where it is in another text.
    fn range(&self, text: &str) -> Option<Range<usize>> {
        match self {
            Self::Bytes(range) => Some(range.clone()),
            Self::Pointer(pointer) => {
                let inside = pointer.strip_prefix('#').unwrap_or(pointer);
                let mut value: &RawValue = serde_json::from_str(text).ok()?;
                for step in inside.split('/').skip(1) {
                    let Some(part) = part(value, &step.replace("~1", "/").replace("~0", "~")) else { break };
                    value = part;
                }
                // The value is a part of the text.
                let begin = (value.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
                Some(begin..begin + value.get().len())
            }
        }
    }
}

/// A member of an object or an item of an array.
fn part<'a>(value: &'a RawValue, step: &str) -> Option<&'a RawValue> {
    match value.get().as_bytes().first()? {
        b'{' => {
            let mut members: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(value.get()).ok()?;
            members.remove(step)
        }
        b'[' => serde_json::from_str::<Vec<&'a RawValue>>(value.get())
            .ok()?
            .get(step.parse::<usize>().ok()?)
            .copied(),
        _ => None,
    }
}

/// The line of `text`, which has this name, in which a place begins; nothing where it is in another text.
pub(crate) fn excerpt(name: &str, text: &str, place: &Place, is_coloured: bool) -> Option<String> {
    let range = place.range(text)?;
    let before = text.get(..range.start)?;
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let number = before.matches('\n').count() + 1;
    let column = before[begin..].chars().count();
    let line = text[begin..].lines().next().unwrap_or_default();
    // A range may go on in the next lines, which are not shown.
    let marked = text.get(range).unwrap_or_default().lines().next().unwrap_or_default().chars().count();

    let skipped = column.saturating_sub(AROUND);
    let (mut shown, mut carets) = (String::new(), String::new());
    for (index, char) in line.chars().enumerate().skip(skipped).take(2 * AROUND) {
        let char = match char {
            '\t' => " ".into(),
            char => plain::line(char.encode_utf8(&mut [0; 4])).into_owned(),
        };
        let width = char.chars().count();
        shown.push_str(&char);
        let mark = match index {
            index if index < column => " ",
            index if index < column + marked.max(1) => "^",
            _ => continue,
        };
        carets.push_str(&mark.repeat(width));
    }
    // Behind the end of a line.
    if !carets.contains('^') {
        carets.push('^');
    }
    let [bar, mark, end] = if is_coloured { ["\x1b[1;34m", "\x1b[1;31m", "\x1b[0m"] } else { [""; 3] };
    let number = number.to_string();
    let margin = " ".repeat(number.len());
    let name = plain::line(name);
    Some(format!(
        "{margin}{bar}-->{end} {name}:{number}:{}\n{margin} {bar}|{end}\n{bar}{number} |{end} {shown}\n{margin} {bar}|{end} {mark}{carets}{end}",
        column + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, place: &Place) -> Option<String> {
        excerpt("a.txt", text, place, false)
    }

    #[test]
    fn places_are_shown_below_their_line() {
        assert_eq!(
            drawn("ab\n\tcd\u{7}é!\n", &Place::Bytes(6..9)).unwrap(),
            " --> a.txt:2:4\n  |\n2 |  cd\\u{7}é!\n  |    ^^^^^^"
        );
        assert_eq!(drawn("ab", &Place::Bytes(2..2)).unwrap(), " --> a.txt:1:3\n  |\n1 | ab\n  |   ^");
        assert_eq!(drawn("ab", &Place::Bytes(9..9)), None);
        assert_eq!(drawn("é", &Place::Bytes(1..2)), None);
        let long = "x".repeat(1_000_000);
        let cut = drawn(&long, &Place::Bytes(500_000..700_000)).unwrap();
        assert!(cut.len() < 400 && cut.contains(":500001\n") && cut.ends_with(&"^".repeat(60)), "{cut}");
    }

    #[test]
    fn pointers_lead_to_values() {
        let text = "{\n \"a/b\": [1, {\"c\": {\"pattern\": \"(\"}}]\n}";
        let at = |pointer: &str| Place::Pointer(pointer.to_owned()).range(text).map(|range| &text[range]);
        assert_eq!(at("#/a~1b/1/c/pattern"), Some("\"(\""));
        assert_eq!(at("/a~1b/0"), Some("1"));
        assert_eq!(at("#"), Some(text));
        // As far as it leads.
        assert_eq!(at("#/a~1b/1/c/type"), Some("{\"pattern\": \"(\"}"));
        assert_eq!(Place::Pointer("#".to_owned()).range("{"), None);
    }
}
