//! The keywords of each draft and the values that each may have: the metaschemas as one table.
//!
//! A keyword with a forbidden value would be read as if it were absent, so it is an error at every schema, whether
//! a value reaches the schema or not. The table also lists the keywords that hold schemas, for `roles`.
//!
//! Tried instead: each keyword checks its value where it is read. Then no code looks at keywords without effect, at
//! schemas that no value reaches, and at values of a second kind (`prefixItems` without a list was the same as no
//! `prefixItems`). The published metaschemas with an evaluator would be a second reading of all keywords, and their
//! errors would name positions in the metaschema.
//!
//! The table differs from the published metaschemas in three points. Values that are formats there
//! (`uri-reference`) are not checked; references are checked at their use. A pattern is an error everywhere if it
//! is no pattern of ECMA-262. In draft 4, `enum` may be empty and may repeat values, as later drafts allow.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::json::{Document, NodeId, Value};
use crate::draft::Draft;
use crate::{
    decimal::Decimal,
    text::pattern::{self, UnsupportedConstruct},
};

/// The kinds of values that a keyword may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Any,
    Text,
    Bool,
    Number,
    /// A number greater than zero.
    Positive,
    /// An integer from zero on.
    Count,
    /// The name of a type, or a list of such names.
    Type,
    /// A list of different texts.
    Names,
    /// A list of any values.
    Values,
    /// A URI without a fragment, or with an empty one.
    Id,
    Anchor,
    /// A map of booleans.
    Booleans,
    Schema,
    /// A list of schemas.
    Schemas,
    /// A schema or a list of schemas.
    SchemaOrSchemas,
    /// A map of schemas.
    Map,
    /// A map of schemas that apply only by reference.
    Definitions,
    /// A map of [`Names`](Self::Names).
    MapOfNames,
    /// A map of schemas and [`Names`](Self::Names).
    Dependencies,
}

/// The values that `keyword` may have in a draft; `None` if the draft has no such keyword.
pub(crate) fn kind(keyword: &str, draft: Draft) -> Option<Kind> {
    use Draft::{Draft4, Draft6, Draft7, Draft201909, Draft202012, OpenApi30};
    let (since, kind) = match keyword {
        "id" if draft > Draft4 => return None,
        "$recursiveAnchor" if draft == Draft202012 => (Draft4, Kind::Anchor),
        "additionalItems" if draft == Draft202012 => return None,
        "items" if draft == Draft202012 => (Draft4, Kind::Schema),
        "exclusiveMinimum" | "exclusiveMaximum" if draft.is_draft4() => (Draft4, Kind::Bool),
        "nullable" if draft == OpenApi30 => (Draft4, Kind::Bool),
        "discriminator" | "example" | "xml" | "externalDocs" | "deprecated" | "readOnly" | "writeOnly"
            if draft == OpenApi30 =>
        {
            (Draft4, Kind::Any)
        }
        "required" => (Draft4, Kind::Names),
        "$schema" | "id" | "title" | "description" | "pattern" | "format" => (Draft4, Kind::Text),
        "default" => (Draft4, Kind::Any),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => (Draft4, Kind::Number),
        "multipleOf" => (Draft4, Kind::Positive),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            (Draft4, Kind::Count)
        }
        "uniqueItems" => (Draft4, Kind::Bool),
        "enum" => (Draft4, Kind::Values),
        "type" => (Draft4, Kind::Type),
        "not" | "additionalProperties" | "additionalItems" => (Draft4, Kind::Schema),
        "items" => (Draft4, Kind::SchemaOrSchemas),
        "allOf" | "anyOf" | "oneOf" => (Draft4, Kind::Schemas),
        "properties" | "patternProperties" => (Draft4, Kind::Map),
        "definitions" => (Draft4, Kind::Definitions),
        "dependencies" => (Draft4, Kind::Dependencies),
        // In draft 4 a `$ref` with a text is a reference, and any other `$ref` is ignored
        // (draft-pbryan-zyp-json-ref-03, section 3).
        "$ref" if draft == Draft4 => (Draft4, Kind::Any),
        "$ref" => (Draft4, Kind::Text),
        "$id" if draft <= Draft7 => (Draft6, Kind::Text),
        "const" => (Draft6, Kind::Any),
        "examples" => (Draft6, Kind::Values),
        "contains" | "propertyNames" => (Draft6, Kind::Schema),
        "$comment" | "contentMediaType" | "contentEncoding" => (Draft7, Kind::Text),
        "readOnly" | "writeOnly" => (Draft7, Kind::Bool),
        "if" | "then" | "else" => (Draft7, Kind::Schema),
        "$id" => (Draft201909, Kind::Id),
        "$anchor" => (Draft201909, Kind::Anchor),
        "$recursiveRef" => (Draft201909, Kind::Text),
        "$recursiveAnchor" | "deprecated" => (Draft201909, Kind::Bool),
        "$vocabulary" => (Draft201909, Kind::Booleans),
        "$defs" => (Draft201909, Kind::Definitions),
        "minContains" | "maxContains" => (Draft201909, Kind::Count),
        "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" => (Draft201909, Kind::Schema),
        "dependentSchemas" => (Draft201909, Kind::Map),
        "dependentRequired" => (Draft201909, Kind::MapOfNames),
        "$dynamicRef" => (Draft202012, Kind::Text),
        "$dynamicAnchor" => (Draft202012, Kind::Anchor),
        "prefixItems" => (Draft202012, Kind::Schemas),
        _ => return None,
    };
    (since <= draft).then_some(kind)
}

/// Whether any draft has the keyword.
pub(crate) fn is_known(keyword: &str) -> bool {
    [Draft::Draft4, Draft::Draft201909, Draft::Draft202012]
        .iter()
        .any(|draft| kind(keyword, *draft).is_some())
}

/// The rule that the value of `keyword` in the schema `node` breaks, if it breaks one. Subschemas are not checked.
pub(crate) fn wrong(
    document: &Document,
    node: NodeId,
    keyword: &str,
    draft: Draft,
) -> Option<Cow<'static, str>> {
    let message = broken_rule(document, node, keyword, draft)?;
    let value = document.member(node, keyword)?;
    Some(match (kind(keyword, draft)?, document.value(value)) {
        (_, Value::Null) => format!("{message}, and is null: leave it out").into(),
        (Kind::Number, Value::Bool(is_exclusive)) if keyword.starts_with("exclusive") => {
            let inclusive = if keyword == "exclusiveMinimum" { "minimum" } else { "maximum" };
            let bound = document.member(node, inclusive).and_then(|bound| quoted(document, bound));
            let way_out = match (is_exclusive, bound) {
                (true, Some(bound)) => format!("write \"{keyword}\": {bound} in place of both"),
                (true, None) => "write the number, or leave it out".to_owned(),
                (false, _) => "leave it out".to_owned(),
            };
            format!(
                "must be a number, and `{is_exclusive}` beside `{inclusive}` is of draft 4 and OpenAPI 3.0: {way_out}, or name \
                 the draft"
            )
            .into()
        }
        (Kind::Type, _) => {
            let names = document.items(value).unwrap_or(std::slice::from_ref(&value));
            let wrong = names.iter().find(|name| !document.text(**name).is_some_and(is_type));
            let Some(wrong) = wrong else { return Some(message.into()) };
            let meant = document.text(*wrong).and_then(meant_type);
            let meant = meant.map_or_else(String::new, |meant| format!("; write \"{meant}\""));
            let wrong = quoted(document, *wrong).unwrap_or_else(|| "this".to_owned());
            format!(
                "has {wrong}, which is no type: the types are null, boolean, integer, number, string, array and \
                 object{meant}"
            )
            .into()
        }
        (Kind::Names, Value::Bool(_)) if keyword == "required" => {
            format!("{message}: list the required members in the object around them").into()
        }
        _ => message.into(),
    })
}

/// The type that a name of another language means.
fn meant_type(name: &str) -> Option<&'static str> {
    Some(match &*name.to_ascii_lowercase() {
        "null" | "none" | "nil" => "null",
        "bool" | "boolean" => "boolean",
        "int" | "integer" | "long" | "int32" | "int64" => "integer",
        "number" | "float" | "double" | "decimal" => "number",
        "str" | "string" | "text" => "string",
        "list" | "array" | "tuple" | "set" => "array",
        "dict" | "object" | "map" | "record" | "struct" => "object",
        _ => return None,
    })
}

/// The longest value that a message quotes, in bytes.
const QUOTED: usize = 60;

/// The value as JSON, if it is short.
pub(crate) fn quoted(document: &Document, node: NodeId) -> Option<String> {
    let text = match document.value(node) {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_json(64)?,
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Option<Vec<String>> =
                items.iter().take(QUOTED).map(|item| quoted(document, *item)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(_) => return None,
    };
    (text.len() <= QUOTED).then_some(text)
}

fn broken_rule(document: &Document, node: NodeId, keyword: &str, draft: Draft) -> Option<&'static str> {
    let (kind, value) = (kind(keyword, draft)?, document.member(node, keyword)?);
    let list = document.items(value);
    let map = document.members(value);
    let number = match document.value(value) {
        Value::Number(number) => Some(number),
        _ => None,
    };
    let is_bool = |node| matches!(document.value(node), Value::Bool(_));
    let fewer = draft.is_draft4();
    let (fits, message) = match kind {
        Kind::Any => (true, ""),
        Kind::Text => (document.text(value).is_some(), "must be a text"),
        Kind::Bool if fewer && keyword.starts_with("exclusive") => {
            let bound = if keyword == "exclusiveMinimum" { "minimum" } else { "maximum" };
            if document.member(node, bound).is_none() {
                return Some("needs the bound that it is about in draft 4");
            }
            (is_bool(value), "must be `true` or `false` in draft 4")
        }
        Kind::Bool => (is_bool(value), "must be `true` or `false`"),
        Kind::Number => (number.is_some(), "must be a number"),
        Kind::Positive => {
            let positive = number.is_some_and(|number| !number.negative && !number.is_zero());
            (positive, "must be a number of more than zero")
        }
        // In draft 4 an integer has no point and no exponent. Readers do not know how a number beyond `u64` was
        // written.
        Kind::Count => {
            let count = number.and_then(Decimal::count);
            let is_whole = |count| count == u64::MAX || !(fewer && document.is_pointed(value));
            let message = match count {
                Some(_) => "must be written without a point and without an exponent in draft 4",
                None => "must be a whole number from zero on",
            };
            (count.is_some_and(is_whole), message)
        }
        Kind::Type => {
            let is_type = |node: &NodeId| document.text(*node).is_some_and(is_type);
            let fits = list.map_or_else(|| is_type(&value), |list| list.iter().all(is_type))
                && list.is_none_or(|list| !list.is_empty() && all_differ(document, list));
            (fits, "must be the name of a type or a list of different ones")
        }
        Kind::Names => (is_names(document, value, draft), "must be a list of different names"),
        Kind::Values => (list.is_some(), "must be a list of values"),
        Kind::Id => {
            let fits = document
                .text(value)
                .is_some_and(|text| text.split_once('#').is_none_or(|(_, fragment)| fragment.is_empty()));
            (fits, "must be a text without a fragment")
        }
        Kind::Anchor => {
            let fits = document.text(value).is_some_and(|text| is_anchor(text, draft));
            (fits, "must be a text that begins with a letter and has letters, digits and `-_.` alone")
        }
        Kind::Booleans => {
            let fits = map.is_some_and(|map| map.iter().all(|(_, mark)| is_bool(*mark)));
            (fits, "must be an object of `true` and `false`")
        }
        // `Schemas::check` checks the value itself.
        Kind::Schema if keyword == "items" && list.is_some() => (
            false,
            "must be a schema in draft 2020-12: write `prefixItems`, or name an older draft in `$schema`",
        ),
        Kind::Schema => (true, ""),
        Kind::Schemas => (list.is_some_and(|list| !list.is_empty()), "must be a list of schemas"),
        Kind::SchemaOrSchemas => {
            (list.is_none_or(|list| !list.is_empty()), "must be a schema or a list of some")
        }
        Kind::Map | Kind::Definitions => (map.is_some(), "must be an object"),
        Kind::MapOfNames => {
            let fits = map.is_some_and(|map| map.iter().all(|(_, names)| is_names(document, *names, draft)));
            (fits, "must be an object of lists of different names")
        }
        Kind::Dependencies => {
            let fits = |value: NodeId| document.items(value).is_none() || is_names(document, value, draft);
            let fits = map.is_some_and(|map| map.iter().all(|(_, needed)| fits(*needed)));
            (fits, "must be an object of schemas and lists of different names")
        }
    };
    (!fits).then_some(message)
}

/// A text under the keyword that is no pattern of ECMA-262, and the reason.
pub(crate) fn broken_pattern<'d>(
    document: &'d Document,
    node: NodeId,
    keyword: &str,
) -> Option<(&'d str, UnsupportedConstruct)> {
    let value = document.member(node, keyword)?;
    let broken = |text: &'d str| Some((text, pattern::broken(text)?));
    match keyword {
        "pattern" => document.text(value).and_then(broken),
        "patternProperties" => document.members(value)?.iter().find_map(|(text, _)| broken(text)),
        _ => None,
    }
}

/// Whether the value is a schema of the draft. In draft 4 that depends on its keyword.
pub(crate) fn is_schema(document: &Document, node: NodeId, draft: Draft) -> bool {
    match document.value(node) {
        Value::Object(_) => true,
        Value::Bool(_) if draft.is_draft4() => {
            matches!(document.key(node), Some("additionalProperties" | "additionalItems"))
        }
        Value::Bool(_) => true,
        _ => false,
    }
}

fn is_type(name: &str) -> bool {
    matches!(name, "null" | "boolean" | "integer" | "number" | "string" | "array" | "object")
}

fn is_names(document: &Document, node: NodeId, draft: Draft) -> bool {
    document.items(node).is_some_and(|items| {
        let some = !draft.is_draft4() || !items.is_empty();
        some && items.iter().all(|item| document.text(*item).is_some()) && all_differ(document, items)
    })
}

/// Whether all texts of the list are different.
fn all_differ(document: &Document, items: &[NodeId]) -> bool {
    let mut seen = HashSet::new();
    items.iter().filter_map(|item| document.text(*item)).all(|text| seen.insert(text))
}

fn is_anchor(text: &str, draft: Draft) -> bool {
    let (first, inner) = if draft == Draft::Draft201909 { ("", "-.:_") } else { ("_", "-._") };
    text.starts_with(|char: char| char.is_ascii_alphabetic() || first.contains(char))
        && text.chars().all(|char| char.is_ascii_alphanumeric() || inner.contains(char))
}
