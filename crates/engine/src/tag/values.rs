//! The values of parameters, by how they are written: strings as they are, other values as JSON.
//!
//! Both come from `unskew-schema`, for any schema: the texts of the strings that satisfy it, and the grammar of its
//! other values. Where an element says nothing of the type of its value, a text may be both, and where every text is
//! a string, nothing else is added.
//!
//! In the styles that write values inside of values as elements, the keywords of a schema are read one by one, for
//! its arrays and objects are no JSON ([`nested`](super::nested)).

use std::sync::Arc;

use serde_json::value::RawValue;
use unskew_automata::Dfa;
use unskew_grammars::ExprId;

use super::{
    TagError,
    lower::{Lowering, Made},
    style::{Style, Type},
    xml::{ANNOTATIONS, Frame, MAX_STEPS, members_of, object_of, too_many_steps},
};
use crate::fields::Fields;

/// The types of JSON.
const TYPES: [&str; 6] = ["string", "number", "boolean", "null", "array", "object"];

/// The values of a schema, by how they are written.
pub(super) type Values = Vec<(Type, ExprId)>;

impl Lowering<'_> {
    /// The values of a schema, by how they are written: at least one.
    pub(super) fn values(&mut self, schema: &RawValue, at: &str, frame: &Frame<'_>) -> Made<Values> {
        let mut values = Values::new();
        if frame.style.nests() {
            self.nesting_values(schema, at, frame, MAX_STEPS, &mut values)?;
        } else {
            self.flat_values(schema, at, frame, &mut values)?;
        }
        match values.is_empty() {
            true => Err(TagError::new(at, "no value satisfies this schema")),
            false => Ok(values),
        }
    }

    /// The same where values inside of values are JSON.
    fn flat_values(
        &mut self,
        schema: &RawValue,
        at: &str,
        frame: &Frame<'_>,
        values: &mut Values,
    ) -> Made<()> {
        let mut types: Vec<String> = TYPES.map(str::to_owned).into();
        if schema.get() != "true" {
            let mut fields = Fields::read(schema, at)?;
            if let Some(own) = fields.get::<RawTypes>("type")? {
                types = own.into();
            }
            check_listed(fields, frame)?;
        }
        let has_string = types.iter().any(|of| of == "string");
        if has_string && self.string(schema, at, frame, values)? && !frame.style.names_strings() {
            return Ok(());
        }
        let others: Vec<&str> = types.iter().map(String::as_str).filter(|of| *of != "string").collect();
        let groups: Vec<(Type, Vec<&str>)> = if frame.style.names_types() {
            others.iter().map(|of| (type_named(of), vec![*of])).collect()
        } else if others.is_empty() {
            Vec::new()
        } else {
            vec![(Type::Any, others)]
        };
        for (of, types) in groups {
            let typed = with_types(schema, at, &types)?;
            if let Some(value) = self.json_values(&typed, at, frame)? {
                values.push((of, value));
            }
        }
        Ok(())
    }

    /// Adds the strings of a schema, if there are some. Answers whether they are all strings.
    fn string(&mut self, schema: &RawValue, at: &str, frame: &Frame<'_>, values: &mut Values) -> Made<bool> {
        let of = |error| TagError::of(at, &error);
        let without = self.free.without(&frame.not_in_strings()).map_err(of)?;
        let only_typed = |value: &RawValue| {
            let mut fields = Fields::read(value, at).ok()?;
            ANNOTATIONS.iter().for_each(|name| drop(fields.raw(name)));
            Some(matches!(fields.names()[..], [] | ["type"]))
        };
        if schema.get() == "true" || only_typed(schema) == Some(true) {
            values.push((Type::String, self.builder.automaton("text", without)));
            return Ok(true);
        }
        let whole = self.with_definitions(&with_types(schema, at, &["string"])?, at, frame)?;
        let Some(texts) = self.strings(&whole, at)? else { return Ok(false) };
        let is_any = *texts == *self.free.any().map_err(of)?;
        if let Some(left) = self.free.both(&texts, &without).map_err(of)? {
            values.push((Type::String, self.builder.automaton("string", left)));
        }
        Ok(is_any)
    }

    /// The texts of the strings that satisfy `schema`.
    pub(super) fn strings(&mut self, schema: &str, at: &str) -> Made<Option<Arc<Dfa>>> {
        let mut options = unskew_schema::SchemaOptions::default();
        options.cancel = self.options.cancel.clone();
        unskew_schema::strings(schema, &options, &self.options.limits.schema)
            .map_err(|error| TagError::of(at, &error))
    }

    /// The values of a schema as JSON, if there are some.
    fn json_values(&mut self, schema: &str, at: &str, frame: &Frame<'_>) -> Made<Option<ExprId>> {
        let whole = self.with_definitions(schema, at, frame)?;
        self.some_values(&whole, at, frame.json).map(std::result::Result::ok)
    }

    /// The schema, which is an object, with the definitions of the root.
    fn with_definitions(&self, schema: &str, at: &str, frame: &Frame<'_>) -> Made<String> {
        check_references(schema, frame.definitions).map_err(|reference| {
            TagError::new(
                at,
                format!("the reference {reference:?} leads out of `$defs`; put what it means there"),
            )
        })?;
        Ok(match schema.strip_suffix('}') {
            Some(body) if !frame.definitions.is_empty() => {
                let body = body.trim_end();
                let definitions =
                    if body.ends_with('{') { &frame.definitions[1..] } else { frame.definitions };
                format!("{body}{definitions}}}")
            }
            _ => schema.to_owned(),
        })
    }

    /// The same where values inside of values are elements.
    fn nesting_values(
        &mut self,
        schema: &RawValue,
        at: &str,
        frame: &Frame<'_>,
        steps: u32,
        values: &mut Values,
    ) -> Made<()> {
        let Some(steps) = steps.checked_sub(1) else { return Err(too_many_steps(at)) };
        if schema.get() == "true" {
            return self.any_value(at, frame, values);
        }
        let mut fields = Fields::read(schema, at)?;
        for name in ANNOTATIONS {
            fields.raw(name);
        }
        let names = fields.names();
        if names.is_empty() {
            return self.any_value(at, frame, values);
        }
        if names == ["anyOf"] {
            for (part, at) in fields.items("anyOf")? {
                self.nesting_values(&part, &at, frame, steps, values)?;
            }
            return Ok(());
        }
        if names == ["$ref"] {
            let reference: String = fields.required("$ref")?;
            let found = frame.referred(&reference, at)?;
            if let Some(of) = nested_type(found) {
                let rule = self.nested_rule(&reference, found, at, of, frame)?;
                values.push((of, self.builder.call(rule)));
                return Ok(());
            }
            return self.nesting_values(found, at, frame, steps, values);
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
        let types: Vec<String> = match fields.get::<RawTypes>("type")? {
            None => {
                let why = "this style writes strings as they are and other values as JSON; say by `type` which of these it is";
                return Err(TagError::new(at, why));
            }
            Some(types) => types.into(),
        };
        for of in types {
            match of.as_str() {
                "string" => {
                    self.string(schema, at, frame, values)?;
                }
                other => {
                    let of = type_named(other);
                    let typed = with_types(schema, at, &[other])?;
                    self.no_string(&typed, at, of, frame, values)?;
                }
            }
        }
        Ok(())
    }

    /// A value of any type, in the style of Cohere: a string as it is, JSON or elements.
    pub(super) fn any_value(&mut self, at: &str, frame: &Frame<'_>, values: &mut Values) -> Made<()> {
        if frame.style == Style::MinimaxNested {
            let why = "this style writes each type in a way of its own; say by `type` which of these it is";
            return Err(TagError::new(at, why));
        }
        let text = self.text(at, &frame.not_in_strings())?;
        values.push((Type::String, text));
        let scalar = r#"{"type":["number","boolean","null"]}"#;
        self.no_string(scalar, at, Type::Number, frame, values)?;
        let (list, dict) = self.any_nested(at, frame)?;
        values.extend([(Type::Array, list), (Type::Object, dict)]);
        Ok(())
    }

    /// Values that are no strings, as elements or as JSON.
    fn no_string(
        &mut self,
        schema: &str,
        at: &str,
        of: Type,
        frame: &Frame<'_>,
        values: &mut Values,
    ) -> Made<()> {
        if matches!(of, Type::Array | Type::Object) {
            let value: &RawValue =
                serde_json::from_str(schema).map_err(|error| TagError::new(at, error.to_string()))?;
            values.push((of, self.nested(value, at, of, frame)?));
            return Ok(());
        }
        let whole = self.with_definitions(schema, at, frame)?;
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
        values: &mut Values,
    ) -> Made<()> {
        let of: Option<Vec<String>> = of.map(Into::into);
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
                Ok(raw) if raw.contains(frame.style.end()) => return Err(unwritten(at, frame)),
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
                    // A listed value is JSON.
                    self.no_string(&format!("{{\"const\":{text}}}"), at, Type::Any, frame, values)?;
                }
            }
        }
        Ok(())
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

impl From<RawTypes> for Vec<String> {
    fn from(types: RawTypes) -> Self {
        match types {
            RawTypes::One(only) => vec![only],
            RawTypes::Several(several) => several,
        }
    }
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

/// The schema with these types alone.
fn with_types(schema: &RawValue, at: &str, of: &[&str]) -> Made<String> {
    let of = match of {
        [only] => serde_json::to_string(only),
        several => serde_json::to_string(several),
    };
    let of = RawValue::from_string(of.expect("strings are JSON")).expect("it is JSON");
    if schema.get() == "true" {
        return Ok(object_of(vec![("type".to_owned(), of)]));
    }
    let mut members = members_of(schema, at)?;
    match members.iter_mut().find(|(name, _)| name == "type") {
        Some((_, own)) => *own = of,
        None => members.push(("type".to_owned(), of)),
    }
    Ok(object_of(members))
}

/// An error where a listed string has the closing mark in it.
fn check_listed(mut fields: Fields, frame: &Frame<'_>) -> Made<()> {
    let mut listed: Vec<(Box<RawValue>, String)> = fields.raw("const").into_iter().collect();
    if fields.has("enum") {
        listed.extend(fields.items("enum")?);
    }
    for (value, at) in listed {
        if serde_json::from_str::<String>(value.get()).is_ok_and(|raw| raw.contains(frame.style.end())) {
            return Err(unwritten(&at, frame));
        }
    }
    Ok(())
}

fn unwritten(at: &str, frame: &Frame<'_>) -> TagError {
    TagError::new(at, format!("a string with {:?} in it cannot be written in this style", frame.style.end()))
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
