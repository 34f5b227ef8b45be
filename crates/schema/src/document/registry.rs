//! Schemas that others may refer to, by their URI.

use std::{collections::BTreeMap, sync::Arc};

use fluent_uri::{Uri, UriRef};
use unskew_core::Cancel;

use super::json::{Document, Value};
use crate::{SchemaError, SchemaLimits};

/// Schemas that others may refer to, each by the name given on insertion and by its own `$id`.
///
/// A relative name, such as a file name, is resolved against a base URI that a schema without an absolute `$id` has
/// too. So `{"$ref": "address.json"}` finds the schema that was inserted as `address.json`. In a schema with the
/// `$id` `https://example.org/person.json` the same reference finds the schema with the `$id`
/// `https://example.org/address.json`. A document is read at the first reference to it, in the draft that it names,
/// or else in the draft of the referring schema.
///
/// The registry does not contain the metaschemas of the drafts unless they are inserted.
///
/// # Example
///
/// ```
/// use unskew_schema::{Registry, SchemaLimits, SchemaOptions, grammar};
///
/// let mut options = SchemaOptions::default();
/// options.registry.insert("size.json", r#"{"$id": "https://example.org/size", "type": "integer"}"#)?;
/// for reference in ["size.json", "https://example.org/size", "https://example.org/a/../size#"] {
///     let schema = format!(r#"{{"$ref": "{reference}"}}"#);
///     assert!(grammar(&schema, &options, &SchemaLimits::default()).is_ok());
/// }
/// let error = grammar(r#"{"$ref": "other.json"}"#, &options, &SchemaLimits::default()).unwrap_err();
/// assert_eq!(error.keyword(), Some("$ref"));
/// # Ok::<(), unskew_schema::SchemaError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registry {
    texts: BTreeMap<String, Arc<str>>,
}

impl Registry {
    /// The base URI of relative names (RFC 3986, section 5.1.4).
    pub(crate) const BASE: &str = "unskew:///";

    /// A registry without schemas.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the schema `text` under `name`, a URI or a path such as `common/size.json`, and under its own `$id`
    /// (`id` in draft 4) if it has one. Earlier schemas of these names are replaced.
    ///
    /// # Errors
    ///
    /// [`SchemaError::Json`] if `text` is not JSON; [`SchemaError::Limit`] if it exceeds the default limits.
    pub fn insert(&mut self, name: &str, text: &str) -> Result<(), SchemaError> {
        let document = Document::read(text, &SchemaLimits::default(), &Cancel::default())?;
        let shared: Arc<str> = text.into();
        let uri = Self::resolve(Self::BASE, without_fragment(name));
        for keyword in ["$id", "id"] {
            let id = document.member(Document::ROOT, keyword).map(|id| document.value(id));
            if let Some(Value::String(id)) = id
                && !id.starts_with('#')
            {
                self.texts.insert(Self::resolve(&uri, without_fragment(id)), Arc::clone(&shared));
                break;
            }
        }
        self.texts.insert(uri, shared);
        Ok(())
    }

    pub(crate) fn get(&self, uri: &str) -> Option<&str> {
        self.texts.get(uri).map(|text| &**text)
    }

    /// The URI of a reference without a fragment, resolved by RFC 3986, section 5.2, and normalised by section
    /// 6.2.2. A text that is no URI reference is returned unchanged.
    pub(crate) fn resolve(base: &str, reference: &str) -> String {
        let resolved = Uri::parse(base).ok().and_then(|base| {
            let reference = UriRef::parse(reference).ok()?;
            Some(reference.resolve_against(&base).ok()?.normalize().into_string())
        });
        resolved.unwrap_or_else(|| reference.to_owned())
    }
}

fn without_fragment(name: &str) -> &str {
    name.split_once('#').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_by_rfc_3986() {
        for (base, reference, expected) in [
            (Registry::BASE, "a.json", "unskew:///a.json"),
            (Registry::BASE, "b/../a.json", "unskew:///a.json"),
            (Registry::BASE, "HTTP://Example.org/%61", "http://example.org/a"),
            ("https://example.org/x/y.json", "z.json", "https://example.org/x/z.json"),
            ("https://example.org/x/y.json", "/z.json", "https://example.org/z.json"),
            ("https://example.org/x/y.json", "?q", "https://example.org/x/y.json?q"),
            ("https://example.org/x/y.json", "//h/z", "https://h/z"),
            ("urn:x:y", "urn:x:z", "urn:x:z"),
            (Registry::BASE, "not a uri", "not a uri"),
        ] {
            assert_eq!(Registry::resolve(base, reference), expected, "{base} {reference}");
        }
    }
}
