//! Fields of a JSON object, with errors that name them.
//!
//! A field that is `null` is one that is absent.

use serde_json::{Map, Value};

use super::ConfigError;

pub(super) type Object = Map<String, Value>;

pub(super) fn invalid(
    field: impl Into<String>,
    value: impl ToString,
    expected: impl Into<String>,
) -> ConfigError {
    ConfigError::Invalid { field: field.into(), value: value.to_string(), expected: expected.into() }
}

pub(super) fn unsupported(field: impl Into<String>, value: impl ToString, supported: &str) -> ConfigError {
    ConfigError::Unsupported {
        field: field.into(),
        value: value.to_string(),
        supported: supported.to_owned(),
    }
}

/// A field that is present and not `null`.
pub(super) fn present<'a>(object: &'a Object, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

pub(super) fn size(object: &Object, field: &str) -> Result<Option<usize>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .map(Some)
        .ok_or_else(|| invalid(field, value, "a whole number, zero or more"))
}

pub(super) fn required(object: &Object, field: &'static str) -> Result<usize, ConfigError> {
    size(object, field)?.ok_or(ConfigError::Missing { field })
}

pub(super) fn number(object: &Object, field: &str) -> Result<Option<f64>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value.as_f64().map(Some).ok_or_else(|| invalid(field, value, "a number"))
}

pub(super) fn flag(object: &Object, field: &str) -> Result<Option<bool>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value.as_bool().map(Some).ok_or_else(|| invalid(field, value, "true or false"))
}

pub(super) fn text<'a>(object: &'a Object, field: &str) -> Result<Option<&'a str>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value.as_str().map(Some).ok_or_else(|| invalid(field, value, "a text"))
}

pub(super) fn list<'a>(object: &'a Object, field: &str) -> Result<Option<&'a [Value]>, ConfigError> {
    let Some(value) = present(object, field) else { return Ok(None) };
    value.as_array().map(|list| Some(&list[..])).ok_or_else(|| invalid(field, value, "a list"))
}

pub(super) fn token(field: &str, value: &Value) -> Result<u32, ConfigError> {
    value
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| invalid(field, value, "a token id from 0 to 4294967295"))
}

pub(super) fn root(text: &str) -> Result<Object, ConfigError> {
    match serde_json::from_str(text).map_err(|error| ConfigError::Json { reason: error.to_string() })? {
        Value::Object(root) => Ok(root),
        _ => Err(ConfigError::Json { reason: "it is another kind of JSON value".to_owned() }),
    }
}

/// The ids of a field that holds one, a list, or none.
pub(super) fn tokens(object: &Object, field: &str) -> Result<Vec<u32>, ConfigError> {
    match present(object, field) {
        None => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(|id| token(field, id)).collect(),
        Some(id) => Ok(vec![token(field, id)?]),
    }
}
