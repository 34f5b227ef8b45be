//! Where in a text the fault of a constraint is, as a range of bytes.
//!
//! Faults of regexes, grammars, schemas and structural tags have places of four kinds. All of them become a range of
//! bytes, which a command line draws and a page marks. [`place`](fn@crate::place) says the same for people.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    error::Error,
    ops::Range,
    sync::Arc,
};

use serde_json::value::RawValue;
use unskew_automata::RegexError;
use unskew_grammar::{GrammarError, SyntaxError};
use unskew_schema::SchemaError;

use crate::tag::TagError;

/// Where in the text of a constraint a fault is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums, reason = "texts have these places")]
pub enum Place {
    /// A range of bytes, which may be empty.
    Bytes(Range<usize>),
    /// A value of JSON, by the names and numbers that lead to it: a JSON pointer, with or without a `#`.
    Pointer(String),
}

impl Place {
    /// The place of the first error of the chain that could have one. The places of its sources are in other texts.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            // The error of a text is shared with the file around it.
            if let Some(shared) = error.downcast_ref::<Arc<crate::Error>>() {
                return match &**shared {
                    crate::Error::Constraint(source) => Self::of(&**source),
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

    /// The bytes of `text` that it is: of a pointer, those of the value that it leads to, as far as it leads. `None`
    /// where it is in another text.
    ///
    /// Cost of a pointer: reading the values around it, each once.
    pub fn range(&self, text: &str) -> Option<Range<usize>> {
        match self {
            Self::Bytes(range) => Some(range.clone()),
            Self::Pointer(pointer) => {
                let mut value: &RawValue = serde_json::from_str(text).ok()?;
                for step in steps(pointer) {
                    let Some(part) = part(value, &step) else { break };
                    value = part;
                }
                range_of(value, text)
            }
        }
    }
}

/// The ranges of all values of a text of JSON, for whom many places are asked.
///
/// Cost: each value is read once for each value around it, and 64 times the length of the text in all. Values that are
/// deeper have the place of the one around them.
#[derive(Debug, Default)]
pub struct Places(HashMap<String, Range<usize>>);

impl Places {
    /// The values of `text`, up to `most` of them; none where it is no JSON.
    pub fn of(text: &str, most: usize) -> Self {
        let mut places = Self::default();
        let Ok(value) = serde_json::from_str::<&RawValue>(text) else { return places };
        let mut open = VecDeque::from([(String::new(), value)]);
        let mut left = text.len().saturating_mul(64);
        while let Some((pointer, value)) = open.pop_front() {
            let Some(range) = range_of(value, text).filter(|_| places.0.len() < most) else { break };
            let Some(rest) = left.checked_sub(range.len()) else { break };
            left = rest;
            for (step, part) in parts(value) {
                open.push_back((format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1")), part));
            }
            places.0.insert(pointer, range);
        }
        places
    }

    /// The bytes of the value that a pointer leads to, as far as it leads.
    pub fn range(&self, pointer: &str) -> Option<Range<usize>> {
        let mut inside = pointer.strip_prefix('#').unwrap_or(pointer);
        loop {
            if let Some(range) = self.0.get(inside) {
                return Some(range.clone());
            }
            inside = &inside[..inside.rfind('/')?];
        }
    }
}

/// The names and numbers of a pointer.
fn steps(pointer: &str) -> impl Iterator<Item = String> {
    let inside = pointer.strip_prefix('#').unwrap_or(pointer);
    inside.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The bytes of a value that is a part of the text.
fn range_of(value: &RawValue, text: &str) -> Option<Range<usize>> {
    let begin = (value.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(begin..begin + value.get().len())
}

/// A member of an object or an item of an array.
fn part<'a>(value: &'a RawValue, step: &str) -> Option<&'a RawValue> {
    match value.get().as_bytes().first()? {
        b'{' => members(value).remove(step),
        b'[' => items(value).get(step.parse::<usize>().ok()?).copied(),
        _ => None,
    }
}

/// All members of an object or items of an array.
fn parts(value: &RawValue) -> Vec<(String, &RawValue)> {
    match value.get().as_bytes().first() {
        Some(b'{') => members(value).into_iter().map(|(name, value)| (name.into_owned(), value)).collect(),
        Some(b'[') => {
            items(value).into_iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    }
}

fn members(value: &RawValue) -> BTreeMap<Cow<'_, str>, &RawValue> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

fn items(value: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_many_levels_is_not_read_once_for_each() {
        let text = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
        for (text, step) in [(text, "/0"), (deep, "/a")] {
            let places = Places::of(&text, 1 << 20);
            assert_eq!(places.range("#"), Some(0..text.len()));
            let inside = places.range(&step.repeat(100)).unwrap();
            assert!(inside.len() < text.len() / 2);
        }
        assert_eq!(Places::of("[[2]]", 9).range("/0/0"), Some(2..3));
    }

    #[test]
    fn pointers_lead_to_values() {
        let text = "{\n \"a/b\": [1, {\"c\": {\"pattern\": \"(\"}}]\n}";
        let places = Places::of(text, 100);
        let at = |pointer: &str| {
            let range = Place::Pointer(pointer.to_owned()).range(text);
            assert_eq!(range, places.range(pointer), "{pointer}");
            range.map(|range| &text[range])
        };
        assert_eq!(at("#/a~1b/1/c/pattern"), Some("\"(\""));
        assert_eq!(at("/a~1b/0"), Some("1"));
        assert_eq!(at("#"), Some(text));
        // As far as it leads.
        assert_eq!(at("#/a~1b/1/c/type"), Some("{\"pattern\": \"(\"}"));
        assert_eq!(Place::Pointer("#".to_owned()).range("{"), None);
        assert_eq!(Places::of("{", 100).range("#"), None);
        assert_eq!(Places::of(&format!("[{}1]", "1,".repeat(1000)), 10).0.len(), 10);
    }
}
