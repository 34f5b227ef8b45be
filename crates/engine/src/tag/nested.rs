//! Values inside of values as elements: the styles of Cohere and of MiniMax M3.
//!
//! Members of objects are elements with a name, and items of arrays are elements without (Cohere) or with the name
//! `item` (MiniMax). An array has the keywords `items`, `prefixItems`, `minItems` and `maxItems`; others are errors
//! at their places, as for parameters.
//!
//! A reference to an object or an array is a rule, so that schemas may recur.

use serde_json::value::RawValue;
use unskew_grammars::{ExprId, RuleId};

use super::{
    TagError,
    lower::{Lowering, Made},
    style::{Style, Type},
    xml::{ANNOTATIONS, Frame, Name, any_schema},
};
use crate::fields::{Fields, Members};

impl Lowering<'_> {
    /// An array or an object of a schema that has this type.
    pub(super) fn nested(&mut self, schema: &RawValue, at: &str, of: Type, frame: &Frame<'_>) -> Made {
        let mut fields = Fields::read(schema, at)?;
        fields.raw("type");
        match of {
            Type::Object => self.members(fields, frame),
            _ => self.items(fields, frame),
        }
    }

    /// The rule of an array or an object that a reference leads to.
    pub(super) fn nested_rule(
        &mut self,
        reference: &str,
        schema: &RawValue,
        at: &str,
        of: Type,
        frame: &Frame<'_>,
    ) -> Made<RuleId> {
        if let Some(known) = frame.rules.borrow().get(reference) {
            return Ok(*known);
        }
        let rule = self.builder.rule(reference);
        frame.rules.borrow_mut().insert(reference.to_owned(), rule);
        let body = self.nested(schema, at, of, frame)?;
        self.builder.define(rule, body);
        Ok(rule)
    }

    /// Members of which some are written, with white space after them; or nothing, if none is required.
    pub(super) fn some_members(&mut self, members: Vec<(ExprId, bool)>, frame: &Frame<'_>) -> ExprId {
        let is_required = members.iter().any(|(_, required)| *required);
        if members.is_empty() {
            return self.builder.empty();
        }
        if frame.json.any_order {
            let some = self.builder.unordered(members, None, None, 1, None);
            return self.with_space(some, !is_required, frame);
        }
        // From the last one on: those that may follow, and those that begin with a certain one.
        let mut rest = self.builder.empty();
        let mut beginnings = Vec::new();
        for (member, required) in members.into_iter().rev() {
            let whole = self.builder.sequence([member, rest]);
            if required {
                beginnings.clear();
            }
            beginnings.push(whole);
            rest = match required {
                true => whole,
                false => {
                    let member = self.builder.optional(member);
                    self.builder.sequence([member, rest])
                }
            };
        }
        let some = self.builder.choice(beginnings);
        self.with_space(some, !is_required, frame)
    }

    /// `some` with white space after it; or nothing, if it may be missing.
    fn with_space(&mut self, some: ExprId, may_be_missing: bool, frame: &Frame<'_>) -> ExprId {
        let spaced = self.builder.sequence([some, frame.space]);
        if may_be_missing { self.builder.optional(spaced) } else { spaced }
    }

    /// The items of an array.
    fn items(&mut self, mut fields: Fields, frame: &Frame<'_>) -> Made {
        if self.builder.size() > self.options.limits.grammar.nodes {
            let limit = self.options.limits.grammar.nodes;
            return Err(fields.error(format!(
                "the grammar has more than {limit} nodes (GrammarLimits::nodes); make the schema smaller"
            )));
        }
        for name in ANNOTATIONS {
            fields.raw(name);
        }
        let min: u32 = fields.get("minItems")?.unwrap_or(0);
        let max: Option<u32> = fields.get("maxItems")?;
        let first = match fields.has("prefixItems") {
            true => fields.items("prefixItems")?,
            false => Vec::new(),
        };
        let others = fields.raw("items");
        let at = fields.at.clone();
        fields.finish().map_err(|error| {
            TagError::new(
                &error.pointer,
                "this style does not enforce this keyword on an array; use the style \"json\"",
            )
        })?;
        let most = min.max(max.unwrap_or(0));
        self.check_count(most, &at)?;
        let mut all = Vec::new();
        let written = max.map_or(first.len(), |max| first.len().min(max as usize));
        for (schema, at) in &first[..written] {
            all.push(self.item(schema, at, frame)?);
        }
        let begun = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let mut rest = match others {
            _ if max.is_some_and(|max| max <= begun) => None,
            Some((schema, _)) if schema.get() == "false" => None,
            Some((schema, at)) => Some(self.item(&schema, &at, frame)?),
            None => Some(self.item(&any_schema(), &at, frame)?),
        };
        if max.is_some_and(|max| max < min) || rest.is_none() && min > begun {
            return Err(TagError::new(&at, format!("no array has at least {min} items here")));
        }
        let least = min.saturating_sub(begun);
        let mut whole = match rest.take() {
            Some(item) if all.is_empty() && frame.style == Style::MinimaxNested => {
                // Without items there is no white space either.
                let some = self.builder.repeat(item, least.max(1), max);
                return Ok(self.with_space(some, min == 0, frame));
            }
            Some(item) => self.builder.repeat(item, least, max.map(|max| max - begun)),
            None => self.builder.empty(),
        };
        let count = all.len();
        for (index, item) in all.into_iter().enumerate().rev() {
            whole = self.builder.sequence([item, whole]);
            let is_needed = index < min as usize;
            if !is_needed && (index > 0 || frame.style != Style::MinimaxNested) {
                whole = self.builder.optional(whole);
            }
        }
        Ok(match frame.style {
            Style::MinimaxNested if count > 0 => self.with_space(whole, min == 0, frame),
            _ => whole,
        })
    }

    /// An item as an element.
    fn item(&mut self, schema: &RawValue, at: &str, frame: &Frame<'_>) -> Made {
        let values = self.values(schema, at, frame)?;
        let element = self.element(Name::None, values, frame);
        Ok(match frame.style {
            Style::MinimaxNested => self.builder.sequence([frame.space, element]),
            _ => element,
        })
    }

    /// Any array and any object, in the style of Cohere. Names come once each.
    pub(super) fn any_nested(&mut self, at: &str, frame: &Frame<'_>) -> Made<(ExprId, ExprId)> {
        /// No reference is called so.
        const ANY: &str = "any";
        let known = frame.rules.borrow().get(ANY).copied();
        let (list, dict) = match known {
            Some(list) => (list, frame.rules.borrow()["any object"]),
            None => {
                let (list, dict) = (self.builder.rule("any array"), self.builder.rule("any object"));
                frame.rules.borrow_mut().extend([(ANY.to_owned(), list), ("any object".to_owned(), dict)]);
                let mut values = Vec::new();
                self.any_value(at, frame, &mut values)?;
                let item = self.element(Name::None, values.clone(), frame);
                let items = self.builder.repeat(item, 0, None);
                self.builder.define(list, items);
                let names = self.names(at, frame, true)?;
                let names = names.ok_or_else(|| TagError::new(at, "every name is excluded"))?;
                let key = self.builder.distinct("name", &names, [""; 0], None);
                let key = key.map_err(|error| TagError::of(at, &error))?;
                let element = self.element(Name::Read(key), values, frame);
                let member = self.builder.sequence([frame.space, element]);
                let all = self.builder.repeat(member, 0, None);
                let body = self.builder.sequence([all, frame.space]);
                self.builder.define(dict, body);
                self.builder.scope(dict);
                (list, dict)
            }
        };
        Ok((self.builder.call(list), self.builder.call(dict)))
    }

    /// A listed array or object in the style of MiniMax M3, which has no white space.
    pub(super) fn constant(&mut self, value: &RawValue, at: &str, frame: &Frame<'_>) -> Made {
        let mut parts = Vec::new();
        self.add_constant(value.get(), at, frame, 0, &mut parts)?;
        Ok(self.builder.literal(parts.concat()))
    }

    fn add_constant(
        &self,
        text: &str,
        at: &str,
        frame: &Frame<'_>,
        nest: usize,
        parts: &mut Vec<String>,
    ) -> Made<()> {
        /// Each level is read once more for each around it.
        const MOST: usize = 60;
        if nest > MOST {
            return Err(TagError::new(at, format!("a listed value nests deeper than {MOST}")));
        }
        let error = |error: serde_json::Error| TagError::new(at, error.to_string());
        let members: Vec<(Option<String>, Box<RawValue>)> = match text.as_bytes().first() {
            Some(b'{') => {
                let members: Members = serde_json::from_str(text).map_err(error)?;
                members.0.into_iter().map(|(name, value)| (Some(name), value)).collect()
            }
            Some(b'[') => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(text).map_err(error)?;
                items.into_iter().map(|item| (None, item)).collect()
            }
            Some(b'"') => {
                let raw: String = serde_json::from_str(text).map_err(error)?;
                let excluded = frame.not_in_strings();
                if let Some(excluded) = excluded.iter().find(|excluded| raw.contains(excluded.as_str())) {
                    let why = format!("a string with {excluded:?} in it cannot be written in this style");
                    return Err(TagError::new(at, why));
                }
                parts.push(raw);
                return Ok(());
            }
            _ => {
                parts.push(text.to_owned());
                return Ok(());
            }
        };
        for (name, value) in members {
            let written = match &name {
                Some(name) => Some(frame.style.written(name).ok_or_else(|| {
                    TagError::new(at, format!("the name {name:?} cannot stand in an element"))
                })?),
                None => None,
            };
            parts.extend(frame.style.open(written.as_deref(), Type::Any));
            self.add_constant(value.get(), at, frame, nest + 1, parts)?;
            parts.push(frame.style.close(written.as_deref()));
        }
        Ok(())
    }
}
