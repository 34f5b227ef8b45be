//! From the objects of a structural tag to the expressions of a grammar, in one pass.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use unskew_automata::{Dfa, Dialect};
use unskew_core::Vocabulary;
use unskew_grammar::{ExprId, Grammar, GrammarBuilder};
use unskew_notation::{GrammarFormat, GrammarOptions};
use unskew_schema::KnownAutomata;

use super::{
    TagError, TagOptions,
    free::Free,
    schemas::{Strings, Written},
    tokens::{Named, Sets},
};
use crate::{Explained, fields::Fields};

/// How deep objects may nest: each is read once more for each object around it.
const MAX_NEST: usize = 60;

pub(super) type Made<T = ExprId> = Result<T, TagError>;

/// The surroundings of an object.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// Texts that free text may not contain: the ends of the tag that it is in.
    pub(super) ends: &'a [String],
    /// The token that ends the tag.
    pub(super) end_token: Option<&'a Named>,
    /// The beginning of the tag, by which messages name it.
    pub(super) tag: Option<&'a str>,
    pub(super) nest: usize,
}

/// One end or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ends {
    One(String),
    Several(Vec<String>),
}

/// A tag whose beginning is known.
pub(super) struct Tag {
    pub(super) at: String,
    pub(super) begin: Begin,
    /// The content and the end.
    pub(super) rest: ExprId,
}

pub(super) enum Begin {
    Text(String),
    /// The pattern of a regex, and its texts.
    Regex(String, Dfa),
    Token(Named),
}

impl Begin {
    /// As messages show it.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Regex(pattern, _) => format!("/{pattern}/"),
            Self::Token(token) => format!("{:?}", token.name),
        }
    }
}

pub(super) struct Lowering<'a> {
    pub(super) builder: GrammarBuilder,
    pub(super) free: Free,
    pub(super) options: &'a TagOptions,
    pub(super) vocabulary: Option<&'a Vocabulary>,
    pub(super) sets: Sets,
    pub(super) read: Vec<Explained>,
    /// Of the schemas so far.
    pub(super) known: KnownAutomata,
    pub(super) strings: Option<Strings>,
    /// Whether the fates of keywords are asked for.
    pub(super) explains: bool,
    /// Whether a tag whose schema cannot be enforced is left as free text.
    pub(super) frees: bool,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(vocabulary: Option<&'a Vocabulary>, options: &'a TagOptions, explains: bool) -> Self {
        let free = Free::new(&options.limits.grammar.regex);
        let builder = Grammar::builder(&options.limits.grammar);
        let (sets, read) = (Sets::default(), Vec::new());
        let known = KnownAutomata::default();
        Self { builder, free, options, vocabulary, sets, read, known, strings: None, explains, frees: false }
    }

    pub(super) fn finish(mut self, whole: Made) -> (Result<Grammar, TagError>, Vec<Explained>) {
        let grammar = whole.and_then(|body| {
            let start = self.builder.rule("structural tag");
            self.builder.define(start, body);
            self.builder.build(start).map_err(|error| TagError::of("", &error))
        });
        (grammar, self.read)
    }

    pub(super) fn whole(&mut self, value: &RawValue) -> Made {
        let mut fields = Fields::read(value, "")?;
        let kind: Option<String> = fields.get("type")?;
        if let Some(kind) = kind.filter(|kind| kind != "structural_tag") {
            return Err(fields.error(format!("`type` is {kind:?}, and has to be \"structural_tag\"")));
        }
        self.frees = match fields.get::<String>("unenforced_tools")?.as_deref() {
            None | Some("error") => false,
            Some("free") => true,
            Some(other) => {
                let why = format!("{other:?} is neither \"error\" nor \"free\"");
                return Err(TagError::new("/unenforced_tools", why));
            }
        };
        let around = Around { ends: &[], end_token: None, tag: None, nest: 0 };
        if fields.has("structures") {
            return self.structures(fields);
        }
        let (format, at) = fields.required_raw("format")?;
        fields.finish()?;
        self.format(&format, &at, around)
    }

    /// The older form.
    fn structures(&mut self, mut fields: Fields) -> Made {
        let triggers: Vec<String> = fields.required("triggers")?;
        let structures = fields.items("structures")?;
        let at = fields.at.clone();
        fields.finish()?;
        let mut tags = Vec::new();
        for (structure, at) in structures {
            let mut fields = Fields::read(&structure, &at)?;
            let (begin, end): (String, String) = (fields.required("begin")?, fields.required("end")?);
            let (schema, place) = fields.required_raw("schema")?;
            fields.finish()?;
            // A string holds the text of a schema.
            let text = serde_json::from_str(schema.get()).unwrap_or_else(|_| schema.get().to_owned());
            let written = Written { whitespace: self.options.whitespace, ..Written::default() };
            let around = Around { ends: &[], end_token: None, tag: Some(&begin), nest: 0 };
            let content = self.schema(&text, &place, written, around)?;
            let end = self.builder.literal(&end);
            let rest = self.builder.sequence([content, end]);
            tags.push(Tag { at, begin: Begin::Text(begin), rest });
        }
        let around = Around { ends: &[], end_token: None, tag: None, nest: 0 };
        self.triggered(&at, &triggers, &tags, &[], (false, false), around)
    }

    /// The texts of an object.
    pub(super) fn format(&mut self, value: &RawValue, at: &str, around: Around<'_>) -> Made {
        if around.nest > MAX_NEST {
            return Err(TagError::new(at, format!("objects nest deeper than {MAX_NEST}; take levels out")));
        }
        if self.options.cancel.is_cancelled() {
            return Err(TagError::new(at, "cancelled"));
        }
        let mut fields = Fields::read(value, at)?;
        let kind: String = fields.required("type")?;
        let made = self.of_kind(&kind, &mut fields, around)?;
        fields.finish()?;
        if self.builder.size() > self.options.limits.grammar.nodes {
            let limit = self.options.limits.grammar.nodes;
            return Err(TagError::new(
                at,
                format!(
                    "the grammar has more than {limit} nodes (GrammarLimits::nodes); make the tag smaller"
                ),
            ));
        }
        // The keywords of a schema have fates of their own.
        if !matches!(&*kind, "json_schema" | "qwen_xml_parameter") {
            self.explained(at, &kind, "enforced", "as the format says".to_owned());
        }
        Ok(made)
    }

    pub(super) fn explained(&mut self, at: &str, construct: &str, fate: &'static str, why: String) {
        let (pointer, construct) = (Some(at.to_owned()), construct.to_owned());
        self.read.push(Explained { pointer, span: None, construct, fate, why });
    }

    fn of_kind(&mut self, kind: &str, fields: &mut Fields, around: Around<'_>) -> Made {
        match kind {
            "const_string" => {
                let value: String = fields.required("value")?;
                Ok(self.builder.literal(value))
            }
            "json_schema" => {
                let style: Option<String> = fields.get("style")?;
                self.json_schema(fields, style.as_deref().unwrap_or("json"), around)
            }
            "qwen_xml_parameter" => self.json_schema(fields, "qwen_xml", around),
            "any_text" => self.any_text(fields, around),
            "regex" => {
                let (pattern, dfa) = self.regex(fields)?;
                Ok(self.builder.automaton(&pattern, dfa))
            }
            "grammar" => {
                let text: String = fields.required("grammar")?;
                let (format, options) = (GrammarFormat::Xgrammar, GrammarOptions::default());
                let grammar = unskew_notation::parse(&text, format, &options, &self.options.limits.grammar);
                let grammar = grammar.map_err(|error| TagError::of(&fields.place("grammar"), &error))?;
                Ok(self.builder.import(&grammar))
            }
            "sequence" | "or" => {
                let elements = self.elements(fields, around)?;
                Ok(match kind {
                    "sequence" => self.builder.sequence(elements),
                    _ => self.builder.choice(elements),
                })
            }
            "optional" | "plus" | "star" | "repeat" => self.repeated(kind, fields, around),
            "tag" => {
                let tag = self.tag_of(fields, around)?;
                self.begun(&tag)
            }
            "triggered_tags" => {
                let triggers: Vec<String> = fields.required("triggers")?;
                let tags = self.tags(fields, around)?;
                let mut excludes = self.excludes(fields)?;
                excludes.extend_from_slice(around.ends);
                let once = once(fields)?;
                let at = fields.at.clone();
                self.triggered(&at, &triggers, &tags, &excludes, once, around)
            }
            "dispatch" => self.dispatch(fields, around),
            "tags_with_separator" => {
                let tags = self.tags(fields, around)?;
                let separator: String = fields.required("separator")?;
                let (at_least_one, stop_after_first) = once(fields)?;
                let tags: Vec<ExprId> = tags.iter().map(|tag| self.begun(tag)).collect::<Made<_>>()?;
                let any = self.builder.choice(tags);
                let mut all = any;
                if !stop_after_first {
                    let separator = self.builder.literal(separator);
                    let more = self.builder.sequence([separator, any]);
                    let more = self.builder.repeat(more, 0, None);
                    all = self.builder.sequence([any, more]);
                }
                Ok(if at_least_one { all } else { self.builder.optional(all) })
            }
            "token" => {
                if fields.get("or_text")?.unwrap_or(false) {
                    return self.token_or_text(fields);
                }
                let token = self.token(fields, "token")?;
                self.named(&fields.at, &token)
            }
            "exclude_token" => {
                let excluded = self.token_names(fields, "exclude_tokens")?;
                let one = self.one_but(&fields.at, &excluded, around)?;
                one.ok_or_else(|| fields.error("every token is excluded; leave one out of `exclude_tokens`"))
            }
            "any_tokens" => {
                let excluded = self.token_names(fields, "exclude_tokens")?;
                let most: Option<u32> = fields.get("max_tokens")?;
                self.check_count(most.unwrap_or(0), &fields.place("max_tokens"))?;
                self.free_tokens(&fields.at, &excluded, most, around)
            }
            "token_triggered_tags" => {
                let triggers = self.token_names(fields, "trigger_tokens")?;
                let excluded = self.token_names(fields, "exclude_tokens")?;
                let tags = self.tags(fields, around)?;
                let once = once(fields)?;
                self.token_triggered(fields, &triggers, &excluded, tags, once, around)
            }
            "token_dispatch" => self.token_dispatch(fields, around),
            other => {
                Err(fields.error(format!("`type` is {other:?}, which is no format of a structural tag")))
            }
        }
    }

    fn elements(&mut self, fields: &mut Fields, around: Around<'_>) -> Made<Vec<ExprId>> {
        let items = fields.items("elements")?;
        if items.is_empty() {
            return Err(TagError::new(&fields.place("elements"), "at least one is needed"));
        }
        let inside = Around { nest: around.nest + 1, ..around };
        items.iter().map(|(item, at)| self.format(item, at, inside)).collect()
    }

    fn repeated(&mut self, kind: &str, fields: &mut Fields, around: Around<'_>) -> Made {
        let (min, max) = match kind {
            "optional" => (0, Some(1)),
            "plus" => (1, None),
            "star" => (0, None),
            _ => {
                let (min, max): (u32, i64) = (fields.required("min")?, fields.required("max")?);
                let max = if max == -1 { None } else { Some(u32::try_from(max).unwrap_or(u32::MAX)) };
                let most = max.unwrap_or(0).max(min);
                self.check_count(most, &fields.at)?;
                if max.is_some_and(|max| max < min) {
                    return Err(fields.error("`max` is less than `min`; -1 is any number"));
                }
                (min, max)
            }
        };
        let (content, at) = fields.required_raw("content")?;
        let item = self.format(&content, &at, Around { nest: around.nest + 1, ..around })?;
        Ok(self.builder.repeat(item, min, max))
    }

    /// Refuses a number beyond the limit.
    pub(super) fn check_count(&self, count: u32, at: &str) -> Made<()> {
        let most = self.options.limits.tag.count;
        if count <= most {
            return Ok(());
        }
        let why = format!("{count} is more than {most} (the limit `tag.count`); take less, or any number");
        Err(TagError::new(at, why))
    }

    fn any_text(&mut self, fields: &mut Fields, around: Around<'_>) -> Made {
        let mut excludes = self.excludes(fields)?;
        excludes.extend_from_slice(around.ends);
        let (chars, tokens): (Option<u32>, Option<u32>) =
            (fields.get("max_chars")?, fields.get("max_tokens")?);
        let at = fields.place("max_chars");
        let of = |error| TagError::of(&at, &error);
        let mut text = self.free.without(&excludes).map_err(of)?;
        if let Some(most) = chars {
            self.check_count(most, &at)?;
            let short = self.free.pattern(&format!("(?s:.{{0,{most}}})")).map_err(of)?;
            text = Arc::new(self.free.both(&text, &short).map_err(of)?.expect("the empty text is in both"));
        }
        let Some(most) = tokens else { return Ok(self.builder.automaton("text", text)) };
        self.check_count(most, &fields.place("max_tokens"))?;
        Ok(self.builder.token_budget("text", text, most))
    }

    /// Free text.
    pub(super) fn text(&mut self, at: &str, excludes: &[String]) -> Made {
        let without = self.free.without(excludes).map_err(|error| TagError::of(at, &error))?;
        Ok(self.builder.automaton("text", without))
    }

    pub(super) fn excludes(&self, fields: &mut Fields) -> Made<Vec<String>> {
        let excludes: Vec<String> = fields.get("excludes")?.unwrap_or_default();
        match excludes.iter().any(String::is_empty) {
            true => Err(TagError::new(
                &fields.place("excludes"),
                "the empty text is part of every text; leave it out",
            )),
            false => Ok(excludes),
        }
    }

    fn tags(&mut self, fields: &mut Fields, around: Around<'_>) -> Made<Vec<Tag>> {
        let items = fields.items("tags")?;
        if items.is_empty() {
            return Err(TagError::new(&fields.place("tags"), "at least one is needed"));
        }
        let inside = Around { nest: around.nest + 1, ..around };
        let tag = |(item, at): &(Box<RawValue>, String)| {
            let mut fields = Fields::read(item, at)?;
            let kind: Option<String> = fields.get("type")?;
            if kind.is_some_and(|kind| kind != "tag") {
                return Err(fields.error("only a `tag` may stand here"));
            }
            let tag = self.tag_of(&mut fields, inside)?;
            fields.finish()?;
            Ok(tag)
        };
        items.iter().map(tag).collect()
    }

    fn tag_of(&mut self, fields: &mut Fields, around: Around<'_>) -> Made<Tag> {
        let (begin, at) = fields.required_raw("begin")?;
        let begin = match serde_json::from_str(begin.get()) {
            Ok(text) => Begin::Text(text),
            Err(_) => self.begin_format(&begin, &at)?,
        };
        let (end, at) = fields.required_raw("end")?;
        let (ends, end_token) = match serde_json::from_str(end.get()) {
            Ok(Ends::One(end)) => (vec![end], None),
            Ok(Ends::Several(ends)) => (ends, None),
            Err(_) => (Vec::new(), Some(self.token_format(&end, &at)?)),
        };
        if ends.is_empty() && end_token.is_none() {
            return Err(TagError::new(&at, "at least one end is needed; it may be the empty text"));
        }
        let (content, at) = fields.required_raw("content")?;
        let excluded: Vec<String> = ends.iter().filter(|end| !end.is_empty()).cloned().collect();
        let tag = match &begin {
            Begin::Text(text) | Begin::Regex(text, _) => Some(text.as_str()),
            Begin::Token(_) => Some(around.tag.unwrap_or_default()),
        };
        let inside = Around { ends: &excluded, end_token: end_token.as_ref(), tag, nest: around.nest + 1 };
        let content = self.format(&content, &at, inside)?;
        let end = match &end_token {
            Some(token) => self.named(&fields.at, token)?,
            None => {
                let ends: Vec<ExprId> = ends.iter().map(|end| self.builder.literal(end)).collect();
                self.builder.choice(ends)
            }
        };
        Ok(Tag { at: fields.at.clone(), begin, rest: self.builder.sequence([content, end]) })
    }

    /// A beginning that is no text.
    fn begin_format(&mut self, value: &RawValue, at: &str) -> Made<Begin> {
        let mut fields = Fields::read(value, at)?;
        let kind: Option<String> = fields.get("type")?;
        if kind.as_deref() != Some("regex") {
            return Ok(Begin::Token(self.token_format(value, at)?));
        }
        let (pattern, dfa) = self.regex(&mut fields)?;
        fields.finish()?;
        Ok(Begin::Regex(pattern, dfa))
    }

    /// The pattern of a regex, and its texts.
    fn regex(&mut self, fields: &mut Fields) -> Made<(String, Dfa)> {
        let pattern: String = fields.required("pattern")?;
        let dfa = self.free.pattern(Dialect::Python.pattern(&pattern));
        let dfa = dfa.map_err(|error| TagError::of(&fields.place("pattern"), &error))?;
        Ok((pattern, dfa))
    }

    /// The rest of a beginning behind `trigger`; `None` if it does not begin with it.
    fn behind(&mut self, at: &str, begin: &Begin, trigger: &str) -> Made<Option<ExprId>> {
        match begin {
            Begin::Text(text) => Ok(text.strip_prefix(trigger).map(|left| self.builder.literal(left))),
            Begin::Regex(pattern, dfa) => {
                let left = self.free.behind(dfa, trigger).map_err(|error| TagError::of(at, &error))?;
                Ok(left.map(|left| self.builder.automaton(pattern, left)))
            }
            Begin::Token(_) => Err(TagError::new(at, "`begin` is a token; use `token_triggered_tags`")),
        }
    }

    /// A tag from its beginning on.
    fn begun(&mut self, Tag { at, begin, rest }: &Tag) -> Made {
        let begin = match begin {
            Begin::Text(text) => self.builder.literal(text),
            Begin::Regex(pattern, dfa) => self.builder.automaton(pattern, dfa.clone()),
            Begin::Token(token) => self.named(at, token)?,
        };
        Ok(self.builder.sequence([begin, *rest]))
    }

    /// Free text with tags. `once`: whether it begins with a tag, and whether it ends with the first.
    fn triggered(
        &mut self,
        at: &str,
        triggers: &[String],
        tags: &[Tag],
        excludes: &[String],
        once: (bool, bool),
        _around: Around<'_>,
    ) -> Made {
        let mut behind: Vec<Vec<ExprId>> = vec![Vec::new(); triggers.len()];
        let mut whole = Vec::new();
        for tag in tags {
            let Tag { at, begin, rest } = tag;
            let mut found = Vec::new();
            for (which, trigger) in triggers.iter().enumerate() {
                found.extend(self.behind(at, begin, trigger)?.map(|left| (which, left)));
            }
            let (which, left) = match found[..] {
                [only] => only,
                [] => {
                    return Err(TagError::new(
                        at,
                        format!("`begin` {} begins with no trigger", begin.shown()),
                    ));
                }
                _ => {
                    let why = format!("`begin` {} begins with several triggers", begin.shown());
                    return Err(TagError::new(at, why));
                }
            };
            behind[which].push(self.builder.sequence([left, *rest]));
            whole.push(self.begun(tag)?);
        }
        let mut rules = Vec::new();
        for (trigger, behind) in triggers.iter().zip(behind) {
            if behind.is_empty() {
                return Err(TagError::new(at, format!("no tag begins with the trigger {trigger:?}")));
            }
            rules.push((trigger.clone(), self.builder.choice(behind)));
        }
        let (at_least_one, stop_after_first) = once;
        if at_least_one {
            let first = self.builder.choice(whole);
            if stop_after_first {
                return Ok(first);
            }
            let (unit, tail) = self.units(at, &rules, excludes)?;
            let units = self.builder.repeat(unit, 0, None);
            return Ok(self.builder.sequence([first, units, tail]));
        }
        self.looped(at, &rules, excludes, !stop_after_first)
    }

    fn dispatch(&mut self, fields: &mut Fields, around: Around<'_>) -> Made {
        let excludes = self.excludes(fields)?;
        let loops = fields.get("loop")?.unwrap_or(true);
        let mut rules: Vec<(String, ExprId)> = Vec::new();
        let inside = Around { nest: around.nest + 1, ..around };
        for (rule, at) in fields.items("rules")? {
            let (pattern, content): (String, Box<RawValue>) = pair(&rule, &at)?;
            let content = self.format(&content, &format!("{at}/1"), inside)?;
            // Two rules of one pattern are alternatives.
            match rules.iter_mut().find(|(other, _)| *other == pattern) {
                Some((_, other)) => *other = self.builder.choice([*other, content]),
                None => rules.push((pattern, content)),
            }
        }
        let at = fields.at.clone();
        self.looped(&at, &rules, &excludes, loops)
    }

    fn looped(&mut self, at: &str, rules: &[(String, ExprId)], excludes: &[String], loops: bool) -> Made {
        let (unit, tail) = self.units(at, rules, excludes)?;
        if loops {
            let units = self.builder.repeat(unit, 0, None);
            return Ok(self.builder.sequence([units, tail]));
        }
        Ok(self.builder.choice([unit, tail]))
    }

    /// Free text up to a trigger with the format after it; and free text without any trigger.
    fn units(&mut self, at: &str, rules: &[(String, ExprId)], excludes: &[String]) -> Made<(ExprId, ExprId)> {
        let triggers: Vec<String> = rules.iter().map(|(trigger, _)| trigger.clone()).collect();
        if triggers.is_empty() {
            return Err(TagError::new(at, "at least one trigger is needed"));
        }
        if triggers.iter().any(String::is_empty) {
            return Err(TagError::new(at, "the empty text is no trigger"));
        }
        let mut units = Vec::new();
        for (which, (trigger, behind)) in rules.iter().enumerate() {
            if triggers[..which].contains(trigger) {
                return Err(TagError::new(at, format!("the trigger {trigger:?} comes twice")));
            }
            let first =
                self.free.first(&triggers, which, excludes).map_err(|error| TagError::of(at, &error))?;
            let first = first.ok_or_else(|| {
                let why = "another trigger, an excluded text or the end of the tag is a part of it";
                TagError::new(at, format!("the trigger {trigger:?} can never fire: {why}"))
            })?;
            let first = self.builder.automaton("text and a trigger", first);
            units.push(self.builder.sequence([first, *behind]));
        }
        let all: Vec<String> = triggers.iter().chain(excludes).cloned().collect();
        let tail = self.text(at, &all)?;
        Ok((self.builder.choice(units), tail))
    }
}

/// `at_least_one` and `stop_after_first`.
fn once(fields: &mut Fields) -> Made<(bool, bool)> {
    let at_least_one = fields.get("at_least_one")?.unwrap_or(false);
    Ok((at_least_one, fields.get("stop_after_first")?.unwrap_or(false)))
}

/// A trigger and the format after it.
pub(super) fn pair<T: serde::de::DeserializeOwned>(value: &RawValue, at: &str) -> Made<(T, Box<RawValue>)> {
    let [first, second]: [Box<RawValue>; 2] = serde_json::from_str(value.get())
        .map_err(|_| TagError::new(at, "a rule is an array of a trigger and a format"))?;
    let first = serde_json::from_str(first.get())
        .map_err(|_| TagError::new(&format!("{at}/0"), "this is no trigger"))?;
    Ok((first, second))
}
