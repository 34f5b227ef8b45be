//! The parameters of a call as models write them that do not write JSON: an element for each, named as the parameter.
//!
//! A parameter that is a string stands there as it is, without quotes and escapes, up to the closing mark, which it
//! may not contain. Other values are JSON. So the schema of the whole is an object, and its members as an object are
//! read here; the schema of each member that is no string goes to `unskew-schema`. Other keywords, conditions on the
//! whole object and formats of strings above all, are errors at their places.
//!
//! Two styles write values inside of values as elements too (`nested`).
//!
//! Parameters are those that are declared: with `additionalProperties` a model could name others, and these styles
//! say nothing of how their values are read.

use std::{cell::RefCell, collections::HashMap};

use serde_json::value::RawValue;
use unskew_grammars::{ExprId, RuleId};
use unskew_schema::Whitespace;

use super::{
    TagError,
    lower::{Json, Lowering, Made},
    style::{Style, Type},
};
use crate::fields::{Fields, Members};

/// How many references and alternatives may lead to a value.
pub(super) const MAX_STEPS: u32 = 32;

/// Keywords that say nothing of a value.
pub(super) const ANNOTATIONS: &[&str] =
    &["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Keywords of the schema of all parameters that are read elsewhere or say nothing.
const OF_ROOT: &[&str] = &["$schema", "$id", "$defs", "definitions", "strict"];

/// The common facts of all members.
pub(super) struct Frame<'s> {
    pub(super) style: Style,
    pub(super) json: Json<'s>,
    /// White space between elements.
    pub(super) space: ExprId,
    /// The definitions of the root, as members of an object.
    definitions: &'s str,
    /// The same by the references that lead to them.
    by_reference: &'s [(String, Box<RawValue>)],
    /// The rules of nested values that references lead to, by reference.
    pub(super) rules: RefCell<HashMap<String, RuleId>>,
}

impl Lowering<'_> {
    /// The parameters of a schema.
    pub(super) fn parameters(&mut self, schema: &RawValue, at: &str, style: Style, json: Json<'_>) -> Made {
        if schema.get() == "true" {
            return Err(TagError::new(
                at,
                "this style writes declared parameters; list them in `properties`",
            ));
        }
        let mut fields = Fields::read(schema, at)?;
        let of: Option<String> = fields.get("type")?;
        if of.is_some_and(|of| of != "object") {
            return Err(TagError::new(&fields.place("type"), "parameters are an \"object\""));
        }
        let (mut definitions, mut by_reference) = (String::new(), Vec::new());
        for name in ["$defs", "definitions"] {
            let Some((value, at)) = fields.raw(name) else { continue };
            definitions.push_str(&format!(",{name:?}:{}", value.get()));
            let members: Members =
                serde_json::from_str(value.get()).map_err(|error| TagError::new(&at, error.to_string()))?;
            by_reference
                .extend(members.0.into_iter().map(|(member, value)| (format!("#/{name}/{member}"), value)));
        }
        for name in OF_ROOT {
            fields.raw(name);
        }
        let space = self.space(at, json.whitespace)?;
        let (definitions, by_reference) = (&*definitions, &*by_reference);
        let rules = RefCell::default();
        self.members(fields, &Frame { style, json, space, definitions, by_reference, rules })
    }

    /// The declared members of an object, each as an element.
    pub(super) fn members(&mut self, mut fields: Fields, frame: &Frame<'_>) -> Made {
        if self.options.cancel.is_cancelled() {
            return Err(fields.error("cancelled"));
        }
        if self.builder.size() > self.options.limits.grammar.nodes {
            let limit = self.options.limits.grammar.nodes;
            return Err(fields.error(format!(
                "the grammar has more than {limit} nodes (GrammarLimits::nodes); make the schema smaller"
            )));
        }
        if let Some((more, at)) = fields.raw("additionalProperties")
            && more.get() != "false"
        {
            return Err(TagError::new(
                &at,
                "this style writes declared parameters alone; make it false, or list them in `properties`",
            ));
        }
        let required: Vec<String> = fields.get("required")?.unwrap_or_default();
        let properties = match fields.raw("properties") {
            Some((properties, at)) => {
                let members: Members = serde_json::from_str(properties.get())
                    .map_err(|error| TagError::new(&at, error.to_string()))?;
                members.0
            }
            None => Vec::new(),
        };
        for name in ANNOTATIONS {
            fields.raw(name);
        }
        let (at, place) = (fields.at.clone(), fields.place("properties"));
        fields.finish().map_err(|error| {
            TagError::new(
                &error.pointer,
                "this style does not enforce this keyword on all parameters; use the style \"json\"",
            )
        })?;
        if let Some(name) = required.iter().find(|name| !properties.iter().any(|(other, _)| other == *name)) {
            return Err(TagError::new(&at, format!("the required {name:?} is not in `properties`")));
        }
        let mut members = Vec::new();
        for (name, schema) in &properties {
            let at = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
            members.push((self.parameter(name, schema, &at, frame)?, required.contains(name)));
        }
        if frame.style == Style::MinimaxNested {
            return Ok(self.some_members(members, frame));
        }
        let all = match frame.json.any_order {
            true if !members.is_empty() => self.builder.unordered(members, None, None, 0, None),
            _ => {
                let in_order = members.into_iter().map(|(member, required)| match required {
                    true => member,
                    false => self.builder.optional(member),
                });
                let in_order: Vec<ExprId> = in_order.collect();
                self.builder.sequence(in_order)
            }
        };
        Ok(self.builder.sequence([all, frame.space]))
    }

    fn space(&mut self, at: &str, whitespace: Whitespace) -> Made {
        let pattern = match whitespace {
            Whitespace::Compact | Whitespace::Spaced => return Ok(self.builder.empty()),
            Whitespace::Bounded(most) => format!("[ \\n\\r\\t]{{0,{most}}}"),
            Whitespace::Flexible => "[ \\n\\r\\t]*".to_owned(),
            _ => {
                return Err(TagError::new(
                    at,
                    "this style has no indentation; make white space `compact` or `bounded:N`",
                ));
            }
        };
        let dfa = self.free.pattern(&pattern).map_err(|error| TagError::of(at, &error))?;
        Ok(self.builder.automaton("white space", dfa))
    }

    /// An element, with the white space in front of it.
    fn parameter(&mut self, name: &str, schema: &RawValue, at: &str, frame: &Frame<'_>) -> Made {
        let written = frame.style.written(name).ok_or_else(|| {
            TagError::new(
                at,
                format!(
                    "the name {name:?} cannot stand in an element; use letters, digits, `_`, `-`, `.` and `$`"
                ),
            )
        })?;
        if let Some(excluded) = frame.json.excludes.iter().find(|excluded| written.contains(*excluded)) {
            return Err(TagError::new(at, format!("the name {name:?} has the excluded {excluded:?} in it")));
        }
        let mut values = Vec::new();
        self.values(schema.get(), at, frame, MAX_STEPS, &mut values)?;
        let element = self.element(Some(&written), values, frame);
        Ok(self.builder.sequence([frame.space, element]))
    }

    /// One of the values with the marks around it.
    pub(super) fn element(
        &mut self,
        name: Option<&str>,
        values: Vec<(Type, ExprId)>,
        frame: &Frame<'_>,
    ) -> ExprId {
        let mut elements = Vec::new();
        for (of, value) in values {
            let mut parts = Vec::new();
            for (index, text) in frame.style.open(name, of).iter().enumerate() {
                if index > 0 {
                    parts.push(frame.space);
                }
                parts.push(self.builder.literal(text));
            }
            match of {
                Type::String => parts.push(value),
                _ if !frame.style.is_spaced() => parts.push(value),
                _ => parts.extend([frame.space, value, frame.space]),
            }
            parts.push(self.builder.literal(frame.style.close(name)));
            elements.push(self.builder.sequence(parts));
        }
        self.builder.choice(elements)
    }

    /// The values of a schema, by how they are written.
    pub(super) fn values(
        &mut self,
        schema: &str,
        at: &str,
        frame: &Frame<'_>,
        steps: u32,
        values: &mut Vec<(Type, ExprId)>,
    ) -> Made<()> {
        let Some(steps) = steps.checked_sub(1) else {
            return Err(TagError::new(
                at,
                format!("more than {MAX_STEPS} references and `anyOf` lead to a value"),
            ));
        };
        if schema == "true" {
            return self.any_value(at, frame, values);
        }
        let value: &RawValue =
            serde_json::from_str(schema).map_err(|error| TagError::new(at, error.to_string()))?;
        let mut fields = Fields::read(value, at)?;
        for name in ANNOTATIONS {
            fields.raw(name);
        }
        let names = fields.names();
        if names.is_empty() {
            return self.any_value(at, frame, values);
        }
        if names == ["anyOf"] {
            for (part, at) in fields.items("anyOf")? {
                self.values(part.get(), &at, frame, steps, values)?;
            }
            return Ok(());
        }
        if names == ["$ref"] {
            let reference: String = fields.required("$ref")?;
            let found = frame.by_reference.iter().find(|(name, _)| *name == reference);
            let (_, found) = found.ok_or_else(|| {
                TagError::new(
                    at,
                    format!("the reference {reference:?} is to none of `$defs`; put what it means there"),
                )
            })?;
            if frame.style.nests()
                && let Some(of) = nested_type(found)
            {
                let rule = self.nested_rule(&reference, found, at, of, frame)?;
                values.push((of, self.builder.call(rule)));
                return Ok(());
            }
            return self.values(found.get(), at, frame, steps, values);
        }
        let listed = if fields.has("const") {
            let (only, at) = fields.required_raw("const")?;
            Some((vec![(only, at.clone())], at))
        } else if fields.has("enum") {
            let place = fields.place("enum");
            Some((fields.items("enum")?, place))
        } else {
            None
        };
        if let Some((listed, _)) = listed {
            let of: Option<RawTypes> = fields.get("type")?;
            fields.finish().map_err(|error| {
                TagError::new(&error.pointer, "this does not go with listed values in this style")
            })?;
            return self.listed(&listed, of, frame, values);
        }
        let types = match fields.get::<RawTypes>("type")? {
            None => {
                let why = "this style writes strings as they are and other values as JSON; say by `type` which of these it is";
                return Err(TagError::new(at, why));
            }
            Some(RawTypes::One(only)) => vec![only],
            Some(RawTypes::Several(several)) => several,
        };
        for of in types {
            match of.as_str() {
                "string" => {
                    let text = self.raw_string(Fields::read(value, at)?, frame)?;
                    values.push((Type::String, text));
                }
                other => {
                    let of = type_named(other);
                    let typed = with_type(value, at, other)?;
                    self.no_string(&typed, at, of, frame, values)?;
                }
            }
        }
        Ok(())
    }

    /// A value of any type: a string as it is, or JSON.
    pub(super) fn any_value(
        &mut self,
        at: &str,
        frame: &Frame<'_>,
        values: &mut Vec<(Type, ExprId)>,
    ) -> Made<()> {
        if frame.style == Style::MinimaxNested {
            let why = "this style writes each type in a way of its own; say by `type` which of these it is";
            return Err(TagError::new(at, why));
        }
        let text = self.text(at, &frame.not_in_strings())?;
        values.push((Type::String, text));
        if frame.style == Style::Cohere {
            let scalar = r#"{"type":["number","boolean","null"]}"#;
            self.no_string(scalar, at, Type::Number, frame, values)?;
            let (list, dict) = self.any_nested(at, frame)?;
            values.extend([(Type::Array, list), (Type::Object, dict)]);
            return Ok(());
        }
        if frame.style.names_types() {
            for of in ["number", "boolean", "null", "array", "object"] {
                let schema = format!("{{\"type\":{of:?}}}");
                self.no_string(&schema, at, type_named(of), frame, values)?;
            }
            return Ok(());
        }
        // Everything else is a string too, but for where an element says which of the two it is.
        if matches!(frame.style, Style::Deepseek | Style::DeepseekSpaced) {
            let no_string = r#"{"type":["number","boolean","null","array","object"]}"#;
            self.no_string(no_string, at, Type::Any, frame, values)?;
        }
        Ok(())
    }

    /// JSON.
    pub(super) fn no_string(
        &mut self,
        schema: &str,
        at: &str,
        of: Type,
        frame: &Frame<'_>,
        values: &mut Vec<(Type, ExprId)>,
    ) -> Made<()> {
        if frame.style.nests() && matches!(of, Type::Array | Type::Object) {
            let value: &RawValue =
                serde_json::from_str(schema).map_err(|error| TagError::new(at, error.to_string()))?;
            values.push((of, self.nested(value, at, of, frame)?));
            return Ok(());
        }
        check_references(schema, frame.definitions).map_err(|reference| {
            TagError::new(
                at,
                format!("the reference {reference:?} leads out of `$defs`; put what it means there"),
            )
        })?;
        let whole = match schema.strip_suffix('}') {
            Some(body) if !frame.definitions.is_empty() => {
                let body = body.trim_end();
                let definitions =
                    if body.ends_with('{') { &frame.definitions[1..] } else { frame.definitions };
                format!("{body}{definitions}}}")
            }
            _ => schema.to_owned(),
        };
        let value = self.schema(&whole, at, frame.json)?;
        values.push((of, value));
        Ok(())
    }

    /// Values that are listed: strings as they are, others as JSON.
    fn listed(
        &mut self,
        listed: &[(Box<RawValue>, String)],
        of: Option<RawTypes>,
        frame: &Frame<'_>,
        values: &mut Vec<(Type, ExprId)>,
    ) -> Made<()> {
        let of = match of {
            None => None,
            Some(RawTypes::One(only)) => Some(vec![only]),
            Some(RawTypes::Several(several)) => Some(several),
        };
        for (value, at) in listed {
            let text = value.get();
            let of_value = match text.as_bytes().first() {
                Some(b'"') => "string",
                Some(b't' | b'f') => "boolean",
                Some(b'n') => "null",
                Some(b'[') => "array",
                Some(b'{') => "object",
                _ => "number",
            };
            let is_allowed = of.as_ref().is_none_or(|of| {
                of.iter().any(|of| of == of_value || (of == "integer" && of_value == "number"))
            });
            if !is_allowed {
                return Err(TagError::new(
                    at,
                    format!("a listed value of the type {of_value:?} is none of `type`"),
                ));
            }
            match serde_json::from_str::<String>(text) {
                Ok(raw) if raw.contains(frame.style.end()) => {
                    return Err(TagError::new(
                        at,
                        format!(
                            "a string with {:?} in it cannot be written in this style",
                            frame.style.end()
                        ),
                    ));
                }
                Ok(raw) if frame.json.excludes.iter().any(|excluded| raw.contains(excluded.as_str())) => {}
                Ok(raw) => {
                    let literal = self.builder.literal(raw);
                    values.push((Type::String, literal));
                }
                Err(_) if frame.style == Style::MinimaxNested && matches!(of_value, "array" | "object") => {
                    let constant = self.constant(value, at, frame)?;
                    values.push((type_named(of_value), constant));
                }
                Err(_) => {
                    // A listed value is JSON also where a nested one would not be.
                    let of = if frame.style.nests() { Type::Any } else { type_named(of_value) };
                    self.no_string(&format!("{{\"const\":{text}}}"), at, of, frame, values)?;
                }
            }
        }
        if values.is_empty() {
            let at = listed.first().map_or("", |(_, at)| at);
            return Err(TagError::new(at, "no listed value is left"));
        }
        Ok(())
    }

    /// A string as it is, of so many characters.
    fn raw_string(&mut self, mut fields: Fields, frame: &Frame<'_>) -> Made {
        for name in ANNOTATIONS.iter().chain(["type"].iter()) {
            fields.raw(name);
        }
        let (min, max): (Option<u32>, Option<u32>) = (fields.get("minLength")?, fields.get("maxLength")?);
        let at = fields.at.clone();
        // Keywords of other types say nothing of a string.
        for name in [
            "minimum",
            "maximum",
            "items",
            "properties",
            "required",
            "additionalProperties",
            "minItems",
            "maxItems",
        ] {
            fields.raw(name);
        }
        fields.finish().map_err(|error| {
            TagError::new(&error.pointer, "this style does not enforce this keyword on a string; take it out, or use the style \"json\"")
        })?;
        let close = frame.not_in_strings();
        if min.is_none() && max.is_none() {
            return self.text(&at, &close);
        }
        let of = |error| TagError::of(&at, &error);
        let counts = match max {
            Some(max) => format!("(?s:.{{{},{max}}})", min.unwrap_or(0)),
            None => format!("(?s:.{{{},}})", min.unwrap_or(0)),
        };
        let (without, counts) =
            (self.free.without(&close).map_err(of)?, self.free.pattern(&counts).map_err(of)?);
        let both = self.free.both(&without, &counts).map_err(of)?;
        let both = both.ok_or_else(|| TagError::new(&at, "no string has such a length"))?;
        Ok(self.builder.automaton("string", both))
    }
}

impl Frame<'_> {
    /// The texts that a string may not contain.
    pub(super) fn not_in_strings(&self) -> Vec<String> {
        let end = self.style.end().to_owned();
        self.json.excludes.iter().cloned().chain([end]).collect()
    }
}

/// Whether a schema is of arrays or of objects alone, which are not listed.
fn nested_type(schema: &RawValue) -> Option<Type> {
    let mut fields = Fields::read(schema, "").ok()?;
    let of: String = fields.get("type").ok()??;
    let of = type_named(&of);
    let is_listed = fields.has("const") || fields.has("enum");
    (!is_listed && matches!(of, Type::Array | Type::Object)).then_some(of)
}

/// `type`: a name or several.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum RawTypes {
    One(String),
    Several(Vec<String>),
}

fn type_named(name: &str) -> Type {
    match name {
        "string" => Type::String,
        "number" | "integer" => Type::Number,
        "boolean" => Type::Boolean,
        "null" => Type::Null,
        "array" => Type::Array,
        "object" => Type::Object,
        _ => Type::Any,
    }
}

/// The schema with one `type` of its several.
fn with_type(schema: &RawValue, at: &str, of: &str) -> Made<String> {
    let members: Members =
        serde_json::from_str(schema.get()).map_err(|error| TagError::new(at, error.to_string()))?;
    let members = members.0.iter().map(|(name, value)| {
        let name = serde_json::to_string(name).expect("a string is JSON");
        if name == "\"type\"" { format!("{name}:{of:?}") } else { format!("{name}:{}", value.get()) }
    });
    Ok(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

/// Whether all references lead to definitions; else one that does not. They are looked for in the text, in names and
/// values alike.
fn check_references(schema: &str, definitions: &str) -> Result<(), String> {
    for text in [schema, definitions] {
        for (at, found) in text
            .match_indices("\"$ref\"")
            .chain(text.match_indices("\"$dynamicRef\""))
            .chain(text.match_indices("\"$recursiveRef\""))
        {
            let rest = text[at + found.len()..].trim_start();
            let Some(value) = rest.strip_prefix(':') else { continue };
            let value = value.trim_start();
            let is_known = ["\"#/$defs/", "\"#/definitions/"].iter().any(|begin| value.starts_with(begin));
            if !is_known {
                return Err(value.chars().take(60).collect());
            }
        }
    }
    Ok(())
}
