//! The parameters of a call as models write them that do not write JSON: an element for each, named as the parameter.
//!
//! A parameter that is a string stands there as it is, without quotes and escapes, up to the closing mark, which it
//! may not contain. Other values are JSON ([`values`](super::values)). The schema of the whole is an object, and its
//! members as an object are read here. Conditions on the whole object are errors at their places.
//!
//! Two styles write values inside of values as elements too ([`nested`](super::nested)).
//!
//! Parameters that are not declared follow those that are, under names that differ from these and from each other.
//! There are some where `additionalProperties` or `patternProperties` says so, and where nothing is declared. A
//! parser remembers the names of each text (`GrammarBuilder::distinct`).
//!
//! Tried instead: a reader of our own for the keywords of strings. It refused each that it did not know, `format`
//! and `pattern` above all.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde_json::value::RawValue;
use unskew_automata::Dfa;
use unskew_grammars::{ExprId, RuleId};
use unskew_schema::Whitespace;

use super::{
    TagError,
    lower::{Json, Lowering, Made},
    style::{Style, Type},
    values::Values,
};
use crate::fields::{Fields, Members, child};

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
    pub(super) definitions: &'s str,
    /// The same by the references that lead to them.
    by_reference: &'s [(String, Box<RawValue>)],
    /// The rules of nested values that references lead to, by reference.
    pub(super) rules: RefCell<HashMap<String, RuleId>>,
}

impl Lowering<'_> {
    /// The parameters of a schema.
    pub(super) fn parameters(&mut self, schema: &RawValue, at: &str, style: Style, json: Json<'_>) -> Made {
        let (mut definitions, mut by_reference) = (String::new(), Vec::new());
        let mut root = schema.get().to_owned();
        if schema.get() != "true" {
            let mut fields = Fields::read(schema, at)?;
            for name in ["$defs", "definitions"] {
                let Some((value, at)) = fields.raw(name) else { continue };
                definitions.push_str(&format!(",{name:?}:{}", value.get()));
                let members = members_of(&value, &at)?.into_iter();
                by_reference.extend(members.map(|(member, value)| (format!("#/{name}/{member}"), value)));
            }
            for name in OF_ROOT {
                fields.raw(name);
            }
            root = object_of(fields.into_members());
        }
        let space = self.space(at, json.whitespace)?;
        let (definitions, by_reference) = (&*definitions, &*by_reference);
        let rules = RefCell::default();
        let frame = Frame { style, json, space, definitions, by_reference, rules };
        self.object(&root, at, &frame, MAX_STEPS)
    }

    /// The members of an object that satisfies `schema`: a schema of an object, alternatives, or listed objects.
    fn object(&mut self, schema: &str, at: &str, frame: &Frame<'_>, steps: u32) -> Made {
        let Some(steps) = steps.checked_sub(1) else { return Err(too_many_steps(at)) };
        let schema = if schema == "true" { "{}" } else { schema };
        let value: &RawValue =
            serde_json::from_str(schema).map_err(|error| TagError::new(at, error.to_string()))?;
        let mut fields = Fields::read(value, at)?;
        for name in ANNOTATIONS {
            fields.raw(name);
        }
        if fields.names() == ["$ref"] {
            let reference: String = fields.required("$ref")?;
            return self.object(frame.referred(&reference, at)?.get(), at, frame, steps);
        }
        let of: Option<String> = fields.get("type")?;
        if of.is_some_and(|of| of != "object") {
            return Err(TagError::new(&fields.place("type"), "parameters are an \"object\""));
        }
        let mut ways = Vec::new();
        match fields.names()[..] {
            ["anyOf"] => {
                for (way, at) in fields.items("anyOf")? {
                    ways.push(self.object(way.get(), &at, frame, steps)?);
                }
            }
            ["const"] => {
                let (listed, at) = fields.required_raw("const")?;
                ways.push(self.object(&object_like(&listed, &at)?, &at, frame, steps)?);
            }
            ["enum"] => {
                for (listed, at) in fields.items("enum")? {
                    ways.push(self.object(&object_like(&listed, &at)?, &at, frame, steps)?);
                }
            }
            _ => return self.members(fields, frame),
        }
        if ways.is_empty() {
            return Err(TagError::new(at, "no alternative is left"));
        }
        Ok(self.builder.choice(ways))
    }

    /// The members of an object, each as an element.
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
        let required: Vec<String> = fields.get("required")?.unwrap_or_default();
        let declared = fields.raw("properties");
        let patterns = fields.raw("patternProperties");
        let more = fields.raw("additionalProperties");
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
        // An object that declares members and says nothing of others has no others.
        let is_open = declared.is_none() && patterns.is_none() && frame.style != Style::MinimaxNested;
        let more = more.or_else(|| is_open.then(|| (any_schema(), at.clone())));
        let properties = match declared {
            Some((properties, at)) => members_of(&properties, &at)?,
            None => Vec::new(),
        };
        let mut members = Vec::new();
        for (name, schema) in &properties {
            let at = child(&place, name);
            members.push((self.parameter(name, schema, &at, frame)?, required.contains(name)));
        }
        let missing = required.iter().find(|name| !properties.iter().any(|(other, _)| other == *name));
        if let Some(name) = missing {
            return Err(TagError::new(&at, format!("the required {name:?} is not in `properties`")));
        }
        let mut names: Vec<String> = properties.into_iter().map(|(name, _)| name).collect();
        let others = self.others(patterns, more, &mut names, &mut members, frame)?;
        let whole = match (frame.style, others) {
            (Style::MinimaxNested, None) => return Ok(self.some_members(members, frame)),
            (_, others) if frame.json.any_order && !members.is_empty() => {
                self.builder.unordered(members, others, None, 0, None)
            }
            (_, others) => {
                let others = others.map(|others| self.builder.repeat(others, 0, None));
                let in_order = members.into_iter().map(|(member, required)| match required {
                    true => member,
                    false => self.builder.optional(member),
                });
                let in_order: Vec<ExprId> = in_order.collect();
                self.builder.sequence(in_order.into_iter().chain(others))
            }
        };
        let whole = self.builder.sequence([whole, frame.space]);
        if others.is_none() {
            return Ok(whole);
        }
        let rule = self.builder.rule("members");
        self.builder.define(rule, whole);
        self.builder.scope(rule);
        Ok(self.builder.call(rule))
    }

    /// A member that is not declared, with a name that is none of `declared`; if there may be one. Where a pattern has
    /// few names, these become `members`.
    fn others(
        &mut self,
        patterns: Option<(Box<RawValue>, String)>,
        more: Option<(Box<RawValue>, String)>,
        declared: &mut Vec<String>,
        members: &mut Vec<(ExprId, bool)>,
        frame: &Frame<'_>,
    ) -> Made<Option<ExprId>> {
        let patterns = match patterns {
            Some((patterns, at)) => {
                let each = |(pattern, schema): (String, Box<RawValue>)| {
                    let at = child(&at, &pattern);
                    (pattern, schema, at)
                };
                members_of(&patterns, &at)?.into_iter().map(each).collect()
            }
            None => Vec::new(),
        };
        let more = more.filter(|(more, _)| more.get() != "false");
        let Some(at) = patterns.first().map(|(.., at)| at).or(more.as_ref().map(|(_, at)| at)).cloned()
        else {
            return Ok(None);
        };
        if frame.style == Style::MinimaxNested {
            return Err(TagError::new(
                &at,
                "this style repeats a name after its value, which cannot be enforced for any name; list the names in `properties`",
            ));
        }
        // Patterns are of names without escapes.
        let Some(names) = self.names(&at, frame, patterns.is_empty())? else { return Ok(None) };
        // Those that match no pattern.
        let mut left = Some(Arc::clone(&names));
        let mut ways = Vec::new();
        for (pattern, schema, at) in patterns {
            let of = |error| TagError::of(&at, &error);
            let pattern = serde_json::json!({ "pattern": pattern }).to_string();
            let Some(matched) = self.strings(&pattern, &at)? else { continue };
            if let Some(name) = declared.iter().find(|name| matched.accepts(name.as_bytes())) {
                let why = format!(
                    "the name {name:?} matches this pattern, or is listed elsewhere too; make them different"
                );
                return Err(TagError::new(&at, why));
            }
            let Some(own) = self.free.both(&names, &matched).map_err(of)? else { continue };
            let is_new = match &left {
                Some(left) => self.free.minus(&own, left).map_err(of)?.is_none(),
                None => false,
            };
            if !is_new {
                let why = "a name matches this pattern and one before it; make them different, or use the style \"json\"";
                return Err(TagError::new(&at, why));
            }
            left = match left {
                Some(left) => self.free.minus(&left, &own).map_err(of)?.map(Arc::new),
                None => None,
            };
            if schema.get() == "false" {
                continue;
            }
            match few_texts(&own) {
                Some(few) => {
                    for name in few {
                        members.push((self.parameter(&name, &schema, &at, frame)?, false));
                        declared.push(name);
                    }
                }
                None => ways.push((Arc::new(own), schema, at)),
            }
        }
        if let (Some(names), Some((more, at))) = (left, more) {
            ways.push((names, more, at));
        }
        let mut others = Vec::new();
        let declared: Vec<String> = declared.iter().filter_map(|name| frame.style.written(name)).collect();
        for (names, schema, at) in ways {
            let key = self.builder.distinct("name", &names, &declared, None);
            let key = key.map_err(|error| TagError::of(&at, &error))?;
            let values = self.values(&schema, &at, frame)?;
            let element = self.element(Name::Read(key), values, frame);
            others.push(self.builder.sequence([frame.space, element]));
        }
        Ok(if others.is_empty() { None } else { Some(self.builder.choice(others)) })
    }

    /// All names as they are written, or those without escapes; `None` where each is excluded.
    pub(super) fn names(
        &mut self,
        at: &str,
        frame: &Frame<'_>,
        with_escapes: bool,
    ) -> Made<Option<Arc<Dfa>>> {
        let of = |error| TagError::of(at, &error);
        let names = self.free.pattern(frame.style.names(with_escapes)).map_err(of)?;
        let without = self.free.without(frame.json.excludes).map_err(of)?;
        Ok(self.free.both(&names, &without).map_err(of)?.map(Arc::new))
    }

    fn space(&mut self, at: &str, whitespace: Whitespace) -> Made {
        if let Whitespace::Indent(_) = whitespace {
            let message = "this style has no indentation; make white space `compact` or `bounded:N`";
            return Err(TagError::new(at, message));
        }
        let Some(pattern) = whitespace.pattern() else { return Ok(self.builder.empty()) };
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
        let values = self.values(schema, at, frame)?;
        let element = self.element(Name::Written(&written), values, frame);
        Ok(self.builder.sequence([frame.space, element]))
    }

    /// One of the values with the marks around it.
    pub(super) fn element(&mut self, name: Name<'_>, values: Values, frame: &Frame<'_>) -> ExprId {
        /// In the place of a name that is read.
        const READ: &str = "\n";
        let written = match name {
            Name::Written(name) => Some(name),
            Name::Read(_) => Some(READ),
            Name::None => None,
        };
        let mut elements = Vec::new();
        for (of, value) in values {
            let mut parts = Vec::new();
            for (index, text) in frame.style.open(written, of).iter().enumerate() {
                if index > 0 {
                    parts.push(frame.space);
                }
                match (name, text.split_once(READ)) {
                    (Name::Read(key), Some((before, after))) => {
                        parts.extend([self.builder.literal(before), key, self.builder.literal(after)]);
                    }
                    _ => parts.push(self.builder.literal(text)),
                }
            }
            match of {
                Type::String => parts.push(value),
                _ if !frame.style.is_spaced() => parts.push(value),
                _ => parts.extend([frame.space, value, frame.space]),
            }
            parts.push(self.builder.literal(frame.style.close(written)));
            elements.push(self.builder.sequence(parts));
        }
        self.builder.choice(elements)
    }
}

/// The name of an element.
#[derive(Clone, Copy)]
pub(super) enum Name<'n> {
    /// It has none.
    None,
    /// This one, as it is written.
    Written(&'n str),
    /// The text that this expression reads.
    Read(ExprId),
}

impl Frame<'_> {
    /// The texts that a string may not contain.
    pub(super) fn not_in_strings(&self) -> Vec<String> {
        let end = self.style.end().to_owned();
        self.json.excludes.iter().cloned().chain([end]).collect()
    }

    /// The schema that a reference leads to.
    pub(super) fn referred(&self, reference: &str, at: &str) -> Made<&RawValue> {
        let found = self.by_reference.iter().find(|(name, _)| name == reference);
        found.map(|(_, found)| &**found).ok_or_else(|| {
            let why = format!("the reference {reference:?} is to none of `$defs`; put what it means there");
            TagError::new(at, why)
        })
    }
}

pub(super) fn too_many_steps(at: &str) -> TagError {
    TagError::new(at, format!("more than {MAX_STEPS} references and `anyOf` lead to a value"))
}

/// The schema of all values.
pub(super) fn any_schema() -> Box<RawValue> {
    RawValue::from_string("true".to_owned()).expect("it is JSON")
}

pub(super) fn members_of(object: &RawValue, at: &str) -> Made<Vec<(String, Box<RawValue>)>> {
    let members: Members =
        serde_json::from_str(object.get()).map_err(|error| TagError::new(at, error.to_string()))?;
    Ok(members.0)
}

/// An object of these members.
pub(super) fn object_of(members: Vec<(String, Box<RawValue>)>) -> String {
    let members = members.into_iter().map(|(name, value)| {
        let name = serde_json::to_string(&name).expect("a string is JSON");
        format!("{name}:{}", value.get())
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// The schema of objects with exactly these members.
fn object_like(listed: &RawValue, at: &str) -> Made<String> {
    let members = members_of(listed, at)?;
    let required: Vec<&String> = members.iter().map(|(name, _)| name).collect();
    let required = serde_json::to_string(&required).expect("strings are JSON");
    let constant = |(name, value): (String, Box<RawValue>)| {
        let value = format!("{{\"const\":{}}}", value.get());
        (name, RawValue::from_string(value).expect("it is JSON"))
    };
    let members = object_of(members.into_iter().map(constant).collect());
    Ok(format!("{{\"properties\":{members},\"required\":{required},\"additionalProperties\":false}}"))
}

/// The texts of `dfa`, if they are few.
fn few_texts(dfa: &Dfa) -> Option<Vec<String>> {
    /// The most texts, and prefixes of texts that are looked at.
    const MOST: [usize; 2] = [64, 4096];
    let mut open = VecDeque::from([(dfa.start(), Vec::new())]);
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while let Some((state, text)) = open.pop_front() {
        looked_at += 1;
        if dfa.is_accepting(state) {
            found.push(String::from_utf8(text.clone()).ok()?);
        }
        if found.len() > MOST[0] || looked_at > MOST[1] {
            return None;
        }
        for edge in dfa.edges(state) {
            open.extend(edge.bytes.map(|byte| (edge.target, [&text[..], &[byte]].concat())));
        }
    }
    Some(found)
}
