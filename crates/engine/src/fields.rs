//! The fields of an object of JSON, each taken by its name and type: of structural tags, and of the requests of
//! servers.
//!
//! Values stay as they are written until a field is read: a schema keeps the order of its names and the digits of its
//! numbers, which a tree of values would not. A field that nobody takes is an error, and so is a name that comes
//! twice.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::tag::TagError;

/// The members of an object, in their order.
pub(crate) struct Members(pub(crate) Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` comes twice")));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reads)
    }
}

/// An object and its place, a JSON pointer.
pub(crate) struct Fields {
    pub(crate) at: String,
    /// Fields that were not taken.
    left: Vec<(String, Box<RawValue>)>,
}

/// The place of a member of the object at this place, both as JSON pointers.
pub(crate) fn child(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

impl Fields {
    pub(crate) fn read(value: &RawValue, at: &str) -> Result<Self, TagError> {
        let members: Members =
            serde_json::from_str(value.get()).map_err(|error| TagError::new(at, json_error(&error)))?;
        Ok(Self { at: at.to_owned(), left: members.0 })
    }

    /// The fields that are left, as they are written.
    pub(crate) fn into_members(self) -> Vec<(String, Box<RawValue>)> {
        self.left
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(other, _)| other == name)
    }

    /// The value of a field as it is written, and its place.
    pub(crate) fn raw(&mut self, name: &str) -> Option<(Box<RawValue>, String)> {
        let at = self.left.iter().position(|(other, _)| other == name)?;
        Some((self.left.remove(at).1, self.place(name)))
    }

    /// A field that must be there, as it is written.
    pub(crate) fn required_raw(&mut self, name: &str) -> Result<(Box<RawValue>, String), TagError> {
        self.raw(name).ok_or_else(|| TagError::new(&self.at, format!("`{name}` is missing")))
    }

    /// A field that may be missing or null.
    pub(crate) fn get<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, TagError> {
        let Some((value, at)) = self.raw(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|error| TagError::new(&at, json_error(&error)))
    }

    /// A field that must be there.
    pub(crate) fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, TagError> {
        let (value, at) = self.required_raw(name)?;
        serde_json::from_str(value.get()).map_err(|error| TagError::new(&at, json_error(&error)))
    }

    /// The items of a field that is an array, each with its place.
    pub(crate) fn items(&mut self, name: &str) -> Result<Vec<(Box<RawValue>, String)>, TagError> {
        let values: Vec<Box<RawValue>> = self.required(name)?;
        let at = self.place(name);
        Ok(values.into_iter().enumerate().map(|(index, value)| (value, format!("{at}/{index}"))).collect())
    }

    pub(crate) fn place(&self, name: &str) -> String {
        child(&self.at, name)
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> TagError {
        TagError::new(&self.at, message)
    }

    /// An error if a field is left.
    pub(crate) fn finish(self) -> Result<(), TagError> {
        match self.left.first() {
            Some((name, _)) => Err(TagError::new(
                &self.place(name),
                "no field of this format; take it out, or look for a slip in its name",
            )),
            None => Ok(()),
        }
    }
}

/// Without the line and column, which are those of a part of the text.
fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}
