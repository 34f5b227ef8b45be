//! The schemas of a tag: values as JSON, or the arguments of a call in the style of a model; what is left of a tag
//! whose schema cannot be enforced; and the fates of keywords.

use std::sync::Arc;

use unskew_automata::{Dfa, Limits, RegexError};
use unskew_grammar::{Grammar, kit::within::Narrowed};
use unskew_schema::{ElementStyle, MemberOrder, SchemaError, SchemaOptions, Whitespace};

use super::{
    TagError,
    free::Free,
    lower::{Around, Lowering, Made},
    style,
};
use crate::{chain, explain::of_fates, fields::Fields};

/// How the values of a schema are written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) whitespace: Whitespace,
    pub(super) any_order: bool,
    /// Texts that no string and no name has, as they are written between their quotes.
    pub(super) excludes: Vec<String>,
    /// As elements; `None` is JSON.
    pub(super) style: Option<ElementStyle>,
}

/// Strings without some texts, for all schemas that are written alike.
pub(super) struct Strings {
    excludes: Vec<String>,
    style: Option<ElementStyle>,
    without: Dfa,
    narrowed: Narrowed,
}

impl Strings {
    fn new(written: &Written, limits: &Limits) -> Result<Self, RegexError> {
        let Written { excludes, style, .. } = written;
        let without = Free::new(limits).strings_without(excludes, style.as_ref())?;
        Ok(Self { excludes: excludes.clone(), style: style.clone(), without, narrowed: Narrowed::default() })
    }
}

impl Lowering<'_> {
    pub(super) fn json_schema(&mut self, fields: &mut Fields, style: &str, around: Around<'_>) -> Made {
        let (schema, at) = fields.required_raw("json_schema")?;
        let any_order = fields.get("any_order")?.unwrap_or(false);
        let most: Option<u32> = fields.get("max_whitespace_cnt")?;
        let named: Option<String> = fields.get("whitespace")?;
        let whitespace = match (named, most) {
            (Some(_), Some(_)) => {
                let message = "`whitespace` and `max_whitespace_cnt` say the same; give one";
                return Err(TagError::new(&at, message));
            }
            (Some(name), None) => {
                name.parse().map_err(|why: String| TagError::new(&fields.place("whitespace"), why))?
            }
            (None, most) => most.map_or(self.options.whitespace, Whitespace::Bounded),
        };
        let excludes = self.excludes(fields)?;
        let style = match style {
            "json" => None,
            name => {
                let known = style::named(name)
                    .ok_or_else(|| TagError::new(&fields.place("style"), format!("{name:?} is no style")))?;
                Some(ElementStyle { excludes: excludes.clone(), ..known })
            }
        };
        if let (Some(_), Whitespace::Indent(_)) = (&style, whitespace) {
            let message = "this style has no indentation; make white space `compact` or `bounded:N`";
            return Err(TagError::new(&at, message));
        }
        self.schema(schema.get(), &at, Written { whitespace, any_order, excludes, style }, around)
    }

    /// The values of a schema.
    pub(super) fn schema(&mut self, text: &str, at: &str, written: Written, around: Around<'_>) -> Made {
        let mut options = SchemaOptions::default();
        options.whitespace = written.whitespace;
        options.spelling = self.options.spelling;
        options.cancel = self.options.cancel.clone();
        options.elements = written.style.clone().map(Arc::new);
        if written.any_order {
            options.order = MemberOrder::Any;
        }
        let before = self.read.len();
        if self.explains {
            let fates = unskew_schema::explain(text, &options, &self.options.limits.schema);
            self.read.extend(of_fates(fates, at));
        }
        let mut error = match self.grammar_of(text, at, &written, &options) {
            Ok(grammar) => return Ok(self.builder.import(&grammar)),
            Err(error) => error,
        };
        if let Some(tag) = around.tag.filter(|tag| !tag.is_empty()) {
            error.message = format!("in the tag {tag:?}: {}", error.message);
        }
        let is_free = self.frees && around.tag.is_some();
        if self.options.cancel.is_cancelled() || !(is_free || self.explains) {
            return Err(error);
        }
        if !self.read[before..].iter().any(|one| one.fate == "rejected") {
            self.explained(&error.pointer, "json_schema", "rejected", error.message);
        }
        let excludes: Vec<String> = around.ends.iter().cloned().chain(written.excludes).collect();
        let (left, as_text) = match (&written.style, around.tag) {
            (None, _) | (_, None) => ("any JSON", false),
            _ => ("free text", true),
        };
        if is_free {
            let why =
                format!("the schema cannot be enforced, and `unenforced_tools` leaves {left} in its place");
            self.explained(at, "unenforced_tools", "rejected", why);
        }
        if as_text {
            return self.text(at, &excludes);
        }
        let written = Written { whitespace: written.whitespace, ..Written::default() };
        options.elements = None;
        let any = self.grammar_of("true", at, &written, &options)?;
        Ok(self.builder.import(&any))
    }

    fn grammar_of(
        &mut self,
        text: &str,
        at: &str,
        written: &Written,
        options: &SchemaOptions,
    ) -> Made<Grammar> {
        let of = |error: &SchemaError| {
            let message = chain(error);
            let pointer = error.pointer().and_then(|pointer| Some((pointer, pointer.strip_prefix('#')?)));
            let Some((pointer, inside)) = pointer else { return TagError::new(at, message) };
            // The message begins with the place in the schema, which is a part of the place in the tag.
            let why = message.strip_prefix(pointer).and_then(|rest| rest.strip_prefix(": "));
            TagError::new(&format!("{at}{inside}"), why.unwrap_or(&message))
        };
        let limits = &self.options.limits;
        let made = unskew_schema::grammar_with(text, options, &limits.schema, &mut self.known);
        let mut grammar = made.map_err(|error| of(&error))?;
        if !written.excludes.is_empty() {
            // A string and a name are one terminal each. The tools of a request are written alike.
            let known = self.strings.take();
            let known =
                known.filter(|known| known.excludes == written.excludes && known.style == written.style);
            let mut strings = match known {
                Some(known) => known,
                None => {
                    Strings::new(written, &limits.grammar.regex).map_err(|error| TagError::of(at, &error))?
                }
            };
            let within = grammar.within_known(&strings.without, &limits.grammar, &mut strings.narrowed);
            self.strings = Some(strings);
            grammar = within.map_err(|error| TagError::of(at, &error))?;
        }
        match grammar.analysis().rule(grammar.start()).productive {
            true => Ok(grammar),
            false => Err(TagError::new(at, "no text without `excludes` satisfies the schema")),
        }
    }
}
