//! The parameters of a call as models write them that do not write JSON: an element for each, named as the parameter.
//!
//! A parameter that is a string stands there as it is, without quotes and escapes, up to the closing mark, which it may not contain.
//! Other values are JSON. So the schema of the whole is an object, and its members as an object are read here; the schema
//! of each member that is no string goes to `unskew-schema`. Other keywords, conditions on the whole object and formats of
//! strings above all, are errors at their places.
//!
//! Parameters are those that are declared: with `additionalProperties` a model could name others, and these styles say nothing of how their
//! values are read.

use serde_json::value::RawValue;
use unskew_grammars::ExprId;
use unskew_schema::Whitespace;

use super::{
    TagError,
    lower::{Lowering, Made},
};
use crate::fields::{Fields, Members};

/// How a model writes parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    Qwen,
    Minimax,
    Deepseek,
    DeepseekSpaced,
    Glm,
    Kimi,
}

/// The JSON type that an element names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    String,
    Number,
    Boolean,
    Null,
    Array,
    Object,
    /// One that is known only once it is written.
    Any,
}

/// How many references and alternatives may lead to a value.
const MAX_STEPS: u32 = 32;

/// Keywords that say nothing of a value.
const ANNOTATIONS: &[&str] =
    &["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Keywords of the schema of all parameters that are read elsewhere or say nothing.
const OF_ROOT: &[&str] = &["$schema", "$id", "$defs", "definitions", "strict"];

impl Style {
    pub(super) fn named(name: &str) -> Result<Self, String> {
        match name {
            "qwen_xml" => Ok(Self::Qwen),
            "minimax_xml" => Ok(Self::Minimax),
            "deepseek_xml" => Ok(Self::Deepseek),
            "deepseek_v4_1_xml" => Ok(Self::DeepseekSpaced),
            "glm_xml" => Ok(Self::Glm),
            "kimi_k3_xml" => Ok(Self::Kimi),
            "cohere_xml" | "minimax_m3_xml" => Err(format!(
                "{name:?} writes values inside of values as elements too, which is not supported; use \"json\" or another style"
            )),
            _ => Err(format!("{name:?} is no style")),
        }
    }

    /// The texts in front of a value, with white space between them.
    fn open(self, name: &str, of: Type) -> Vec<String> {
        let is_string = if of == Type::String { "true" } else { "false" };
        match self {
            Self::Qwen => vec![format!("<parameter={name}>")],
            Self::Minimax => vec![format!("<parameter name=\"{name}\">")],
            Self::Deepseek => {
                vec![format!("<\u{ff5c}DSML\u{ff5c}parameter name=\"{name}\" string=\"{is_string}\">")]
            }
            Self::DeepseekSpaced => {
                vec![format!("<\u{ff5c}DSML\u{ff5c} parameter name=\"{name}\" string=\"{is_string}\">")]
            }
            Self::Glm => vec![format!("<arg_key>{name}</arg_key>"), "<arg_value>".to_owned()],
            Self::Kimi => {
                let of = match of {
                    Type::String => "string",
                    Type::Number => "number",
                    Type::Boolean => "boolean",
                    Type::Null => "null",
                    Type::Array => "array",
                    Type::Object | Type::Any => "object",
                };
                vec![format!("<|open|>argument key=\"{name}\" type=\"{of}\"<|sep|>")]
            }
        }
    }

    /// The text after a value.
    fn close(self) -> &'static str {
        match self {
            Self::Qwen | Self::Minimax => "</parameter>",
            Self::Deepseek => "</\u{ff5c}DSML\u{ff5c}parameter>",
            Self::DeepseekSpaced => "</\u{ff5c}DSML\u{ff5c} parameter>",
            Self::Glm => "</arg_value>",
            Self::Kimi => "<|close|>argument<|sep|>",
        }
    }

    /// Whether an element names the type of its value.
    fn names_types(self) -> bool {
        self == Self::Kimi
    }
}

/// The common facts of all members.
struct Frame<'s> {
    style: Style,
    whitespace: Whitespace,
    any_order: bool,
    /// White space between elements.
    space: ExprId,
    /// The definitions of the root, as members of an object.
    definitions: &'s str,
    /// The same by the references that lead to them.
    by_reference: &'s [(String, Box<RawValue>)],
}

impl Lowering<'_> {
    /// The parameters of a schema.
    pub(super) fn parameters(
        &mut self,
        schema: &RawValue,
        at: &str,
        style: Style,
        whitespace: Whitespace,
        any_order: bool,
    ) -> Made {
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
        let (mut definitions, mut by_reference) = (String::new(), Vec::new());
        for name in ["$defs", "definitions"] {
            let Some((value, at)) = fields.raw(name) else { continue };
            definitions.push_str(&format!(",{name:?}:{}", value.get()));
            let members: Members =
                serde_json::from_str(value.get()).map_err(|error| TagError::new(&at, error.to_string()))?;
            by_reference
                .extend(members.0.into_iter().map(|(member, value)| (format!("#/{name}/{member}"), value)));
        }
        for name in ANNOTATIONS.iter().chain(OF_ROOT) {
            fields.raw(name);
        }
        let place = fields.place("properties");
        fields.finish().map_err(|error| {
            TagError::new(
                &error.pointer,
                "this style does not enforce this keyword on all parameters; use the style \"json\"",
            )
        })?;
        if let Some(name) = required.iter().find(|name| !properties.iter().any(|(other, _)| other == *name)) {
            return Err(TagError::new(at, format!("the required {name:?} is not in `properties`")));
        }
        let space = self.space(at, whitespace)?;
        let (definitions, by_reference) = (&*definitions, &*by_reference);
        let frame = Frame { style, whitespace, any_order, space, definitions, by_reference };
        let mut members = Vec::new();
        for (name, schema) in &properties {
            let at = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
            members.push((self.parameter(name, schema, &at, &frame)?, required.contains(name)));
        }
        let all = match any_order {
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
        Ok(self.builder.sequence([all, space]))
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
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(TagError::new(
                at,
                format!(
                    "the name {name:?} cannot stand in an element; use letters, digits, `_`, `-`, `.` and `$`"
                ),
            ));
        }
        let mut values = Vec::new();
        self.values(schema.get(), at, frame, MAX_STEPS, &mut values)?;
        let mut elements = Vec::new();
        for (of, value) in values {
            let mut parts = vec![frame.space];
            for (index, text) in frame.style.open(name, of).iter().enumerate() {
                if index > 0 {
                    parts.push(frame.space);
                }
                parts.push(self.builder.literal(text));
            }
            match of {
                Type::String => parts.push(value),
                _ => parts.extend([frame.space, value, frame.space]),
            }
            parts.push(self.builder.literal(frame.style.close()));
            elements.push(self.builder.sequence(parts));
        }
        Ok(self.builder.choice(elements))
    }

    /// The values of a schema, by how they are written.
    fn values(
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
            return self.any_value(schema, at, frame, values);
        }
        let value: &RawValue =
            serde_json::from_str(schema).map_err(|error| TagError::new(at, error.to_string()))?;
        let mut fields = Fields::read(value, at)?;
        for name in ANNOTATIONS {
            fields.raw(name);
        }
        let names = fields.names();
        if names.is_empty() {
            return self.any_value("true", at, frame, values);
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
                    let text = self.raw_string(Fields::read(value, at)?, frame.style.close())?;
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
    fn any_value(
        &mut self,
        schema: &str,
        at: &str,
        frame: &Frame<'_>,
        values: &mut Vec<(Type, ExprId)>,
    ) -> Made<()> {
        let text = self.text(at, &[frame.style.close().to_owned()])?;
        values.push((Type::String, text));
        if frame.style.names_types() {
            for of in ["number", "boolean", "null", "array", "object"] {
                let schema = format!("{{\"type\":{of:?}}}");
                self.no_string(&schema, at, type_named(of), frame, values)?;
            }
            return Ok(());
        }
        // Everything else is a string too, but for where an element says which of the two it is.
        if matches!(frame.style, Style::Deepseek | Style::DeepseekSpaced) {
            let _ = schema;
            let no_string = r#"{"type":["number","boolean","null","array","object"]}"#;
            self.no_string(no_string, at, Type::Any, frame, values)?;
        }
        Ok(())
    }

    /// JSON.
    fn no_string(
        &mut self,
        schema: &str,
        at: &str,
        of: Type,
        frame: &Frame<'_>,
        values: &mut Vec<(Type, ExprId)>,
    ) -> Made<()> {
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
        let value = self.schema(&whole, at, frame.whitespace, frame.any_order)?;
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
                Ok(raw) if raw.contains(frame.style.close()) => {
                    return Err(TagError::new(
                        at,
                        format!(
                            "a string with {:?} in it cannot be written in this style",
                            frame.style.close()
                        ),
                    ));
                }
                Ok(raw) => {
                    let literal = self.builder.literal(raw);
                    values.push((Type::String, literal));
                }
                Err(_) => {
                    let schema = format!("{{\"const\":{text}}}");
                    self.no_string(&schema, at, type_named(of_value), frame, values)?;
                }
            }
        }
        if values.is_empty() {
            return Err(TagError::new("", "no value is listed"));
        }
        Ok(())
    }

    /// A string as it is, of so many characters.
    fn raw_string(&mut self, mut fields: Fields, close: &str) -> Made {
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
        let close = [close.to_owned()];
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

/// Whether all references lead to definitions; else one that does not. They are looked for in the text, in names and values alike.
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
