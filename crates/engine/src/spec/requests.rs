//! JSON as servers are sent it: `response_format` and tools, in the form of OpenAI's interface.
//!
//! A server passes these objects on as it got them, and they become a [`Spec`]. A demand that cannot be kept is an
//! error that names the field, as everywhere.
//!
//! **Closed objects.** By the specification of JSON Schema an object may have members that its schema does not name.
//! OpenAI's strict mode demands `additionalProperties: false` of every object, and clients forget it. So
//! [`JsonRequest::closed`] closes every object that declares `properties` and says nothing of others, before the
//! schema is compiled: at the root, and below members, items, alternatives and definitions. Where other keywords of
//! the same object may add members (`allOf`, `$ref`, `if` and such) it is an error, for closing would forbid those
//! members. A schema with `additionalProperties` of its own is not touched.

use std::borrow::Cow;

use serde_json::value::RawValue;
use unskew_schema::Whitespace;

use super::{Language, SchemaSpec, Source, Spec};
use crate::{
    Error, Result,
    fields::{Fields, quoted},
};

/// How deep schemas are looked into.
const MAX_NEST: usize = 200;

/// How the JSON of a request is made into a [`Spec`].
///
/// # Example
///
/// ```
/// use unskew_engine::{JsonRequest, Spec};
///
/// let format = r#"{"type": "json_schema", "json_schema": {"name": "age", "strict": true,
///     "schema": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}}}"#;
/// let spec = JsonRequest::default().response_format(format)?;
/// assert_eq!(
///     spec.to_json(),
///     r#"{"json_schema":{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}}"#
/// );
/// # Ok::<(), unskew_engine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JsonRequest {
    /// White space in JSON; `None`: [`Whitespace::default`].
    pub whitespace: Option<Whitespace>,
    /// Whether objects that declare members have no others; `None`: where the request is `strict`.
    pub closed: Option<bool>,
}

/// Which calls a request with tools asks for.
enum Choice {
    None,
    Required,
    Named(String),
}

impl JsonRequest {
    /// The constraint of a `response_format`: `text`, `json_object`, `json_schema` or `structural_tag`.
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] with the field that is meant.
    pub fn response_format(&self, text: &str) -> Result<Spec> {
        let value: &RawValue = serde_json::from_str(text)
            .map_err(|error| Error::combination(format!("`response_format`: no JSON: {error}")))?;
        let mut fields = Fields::read(value, "response_format").map_err(refused)?;
        let kind: String = fields.required("type").map_err(refused)?;
        match kind.as_str() {
            "text" => {
                fields.finish().map_err(refused)?;
                Ok(Spec::default())
            }
            "json_object" => {
                fields.finish().map_err(refused)?;
                Ok(self.schema(r#"{"type":"object"}"#.to_owned()))
            }
            "json_schema" => {
                let (inner, at) = fields.required_raw("json_schema").map_err(refused)?;
                fields.finish().map_err(refused)?;
                let mut fields = Fields::read(&inner, &at).map_err(refused)?;
                for name in ["name", "description"] {
                    fields.get::<String>(name).map_err(refused)?;
                }
                let strict: Option<bool> = fields.get("strict").map_err(refused)?;
                let (schema, at) = fields.required_raw("schema").map_err(refused)?;
                fields.finish().map_err(refused)?;
                Ok(self.schema(closing(schema.get(), &at, self.closed, strict)?))
            }
            "structural_tag" => Ok(Spec::structural_tag(text)),
            other => Err(Error::combination(format!(
                "`response_format/type` is {other:?}, and has to be \"text\", \"json_object\", \"json_schema\" or \"structural_tag\""
            ))),
        }
    }

    /// The constraint of `tools` and a `tool_choice`, as JSON without a model's marks around it: for a tool by its
    /// name its arguments, for `"required"` an array of one call or more, each `{"name": ..., "parameters": ...}`,
    /// and for `"none"` no constraint.
    ///
    /// A model that writes calls in a form of its own is served by a [structural tag](crate::tag).
    ///
    /// # Errors
    ///
    /// [`Error::Combination`] with the field that is meant: for `"auto"` too, in which free text says whether there
    /// is a call.
    pub fn tools(&self, tools: &str, tool_choice: &str) -> Result<Spec> {
        let tools: Vec<Box<RawValue>> = serde_json::from_str(tools)
            .map_err(|error| Error::combination(format!("`tools` is an array of tools: {error}")))?;
        let choice = choice(tool_choice)?;
        let mut calls = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            let (name, parameters) = self.tool(tool, &format!("tools/{index}"))?;
            if calls.iter().any(|(other, _)| *other == name) {
                return Err(Error::combination(format!(
                    "`tools/{index}`: there is another tool with the name {name:?}"
                )));
            }
            calls.push((name, parameters));
        }
        match choice {
            Choice::None => Ok(Spec::default()),
            Choice::Named(wanted) => {
                let found = calls.into_iter().find(|(name, _)| *name == wanted);
                let (_, parameters) = found.ok_or_else(|| {
                    Error::combination(format!("`tool_choice` names {wanted:?}, which is none of `tools`"))
                })?;
                Ok(self.schema(parameters))
            }
            Choice::Required if calls.is_empty() => {
                Err(Error::combination("`tool_choice` is \"required\", and there are no `tools`"))
            }
            Choice::Required => {
                if let Some((name, _)) = calls.iter().find(|(_, parameters)| parameters.contains("\"$ref\""))
                {
                    return Err(Error::combination(format!(
                        "`tools`: the parameters of {name:?} have references, which mean something else in the schema of all calls; \
                         name the tool, or write out what they refer to"
                    )));
                }
                let calls = calls.iter().map(|(name, parameters)| {
                    let name = quoted(name);
                    format!(
                        r#"{{"type":"object","properties":{{"name":{{"const":{name}}},"parameters":{parameters}}},"required":["name","parameters"],"additionalProperties":false}}"#
                    )
                });
                let calls = calls.collect::<Vec<_>>().join(",");
                Ok(self.schema(format!(r#"{{"type":"array","minItems":1,"items":{{"anyOf":[{calls}]}}}}"#)))
            }
        }
    }

    /// The name of a tool and the schema of its arguments.
    fn tool(&self, tool: &RawValue, at: &str) -> Result<(String, String)> {
        let mut fields = Fields::read(tool, at).map_err(refused)?;
        let kind: String = fields.required("type").map_err(refused)?;
        if kind != "function" {
            return Err(Error::combination(format!(
                "`{at}/type` is {kind:?}, and only a \"function\" has arguments"
            )));
        }
        let (function, at) = fields.required_raw("function").map_err(refused)?;
        fields.finish().map_err(refused)?;
        let mut fields = Fields::read(&function, &at).map_err(refused)?;
        let name: String = fields.required("name").map_err(refused)?;
        fields.get::<String>("description").map_err(refused)?;
        let strict: Option<bool> = fields.get("strict").map_err(refused)?;
        let parameters = match fields.raw("parameters") {
            Some((parameters, at)) => closing(parameters.get(), &at, self.closed, strict)?,
            None => NO_PARAMETERS.to_owned(),
        };
        fields.finish().map_err(refused)?;
        Ok((name, parameters))
    }

    fn schema(&self, schema: String) -> Spec {
        let whitespace = self.whitespace;
        Spec::new(Language::JsonSchema(SchemaSpec { whitespace, ..SchemaSpec::new(Source::Text(schema)) }))
    }
}

pub(crate) fn refused(error: crate::tag::TagError) -> Error {
    Error::combination(format!("`{}`: {}", error.pointer, error.message))
}

fn choice(text: &str) -> Result<Choice> {
    if let Ok(word) = serde_json::from_str::<String>(text) {
        return match word.as_str() {
            "none" => Ok(Choice::None),
            "required" => Ok(Choice::Required),
            "auto" => Err(Error::combination(
                "`tool_choice` is \"auto\", so that an output may be text or calls, which JSON alone does not say: give a structural \
                 tag of the model's own form",
            )),
            _ => Err(Error::combination(format!(
                "`tool_choice` is {word:?}, and has to be \"none\", \"required\" or a function"
            ))),
        };
    }
    let value: &RawValue = serde_json::from_str(text)
        .map_err(|error| Error::combination(format!("`tool_choice`: no JSON: {error}")))?;
    let mut fields = Fields::read(value, "tool_choice").map_err(refused)?;
    let kind: String = fields.required("type").map_err(refused)?;
    if kind != "function" {
        return Err(Error::combination(format!(
            "`tool_choice/type` is {kind:?}, and has to be \"function\""
        )));
    }
    let (function, at) = fields.required_raw("function").map_err(refused)?;
    fields.finish().map_err(refused)?;
    let mut fields = Fields::read(&function, &at).map_err(refused)?;
    let name = fields.required("name").map_err(refused)?;
    fields.finish().map_err(refused)?;
    Ok(Choice::Named(name))
}

/// Keywords whose value is a schema, is an array of schemas, and is an object of schemas.
const ONE: &[&str] = &["items", "contains", "additionalItems"];
const SEVERAL: &[&str] = &["anyOf", "oneOf", "prefixItems"];
const NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];

/// Keywords that say something of other members of the same object.
const OTHERS: &[&str] = &["additionalProperties", "unevaluatedProperties", "patternProperties"];

/// Keywords that may add members to the same object.
const ADDING: &[&str] = &[
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "if",
    "dependentSchemas",
    "dependencies",
];

/// The schema of a function without parameters, which takes none.
pub(crate) const NO_PARAMETERS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

/// The schema, closed where the caller says so, or, where the caller says nothing, the request by `strict`.
pub(crate) fn closing(schema: &str, at: &str, closes: Option<bool>, strict: Option<bool>) -> Result<String> {
    match closes.or(strict) {
        Some(true) => closed(schema, at, 0).map(Cow::into_owned),
        _ => Ok(schema.to_owned()),
    }
}

/// The schema with every object closed that declares members.
fn closed<'s>(schema: &'s str, at: &str, nest: usize) -> Result<Cow<'s, str>> {
    if nest > MAX_NEST {
        return Err(Error::combination(format!("`{at}`: schemas nest deeper than {MAX_NEST}")));
    }
    if !schema.trim_start().starts_with('{') {
        return Ok(schema.into());
    }
    let value: &RawValue =
        serde_json::from_str(schema).map_err(|error| Error::combination(format!("`{at}`: {error}")))?;
    let members = Fields::read(value, at).map_err(refused)?.into_members();
    let has = |names: &[&str]| {
        members.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(name, _)| name)
    };
    let closes = has(&["properties"]).is_some() && has(OTHERS).is_none();
    if let Some(adding) = has(ADDING).filter(|_| closes) {
        return Err(Error::combination(format!(
            "`{at}`: this object cannot be closed, for `{adding}` may add members; say `additionalProperties` in it"
        )));
    }
    let mut parts = Vec::with_capacity(members.len() + 1);
    for (name, value) in &members {
        let place = format!("{at}/{name}");
        let text = value.get();
        let new = if ONE.contains(&name.as_str()) && text.starts_with('{') {
            closed(text, &place, nest + 1)?.into_owned()
        } else if (SEVERAL.contains(&name.as_str()) || name == "items") && text.starts_with('[') {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text)
                .map_err(|error| Error::combination(format!("`{place}`: {error}")))?;
            let items = items.iter().map(|item| closed(item.get(), &place, nest + 1));
            format!("[{}]", items.collect::<Result<Vec<_>>>()?.join(","))
        } else if NAMED.contains(&name.as_str()) && text.starts_with('{') {
            let named = Fields::read(value, &place).map_err(refused)?.into_members();
            let named = named.iter().map(|(name, value)| {
                let inner = closed(value.get(), &format!("{place}/{name}"), nest + 1)?;
                Ok(format!("{}:{inner}", quoted(name)))
            });
            format!("{{{}}}", named.collect::<Result<Vec<_>>>()?.join(","))
        } else {
            text.to_owned()
        };
        parts.push(format!("{}:{new}", quoted(name)));
    }
    if closes {
        parts.push("\"additionalProperties\":false".to_owned());
    }
    Ok(format!("{{{}}}", parts.join(",")).into())
}
