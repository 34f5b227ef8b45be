//! White space, separators and brackets: how the parts of a value are put together.

use unskew_grammar::{ExprId, MemberChoice, RuleId};

use super::{elements::Form, emitter::Emitter};
use crate::{SchemaError, Separators, Whitespace, text::standard};

/// The number of terminals, more or less, that are read side by side as a value.
const VALUES: usize = 16;

impl Emitter {
    /// Builds the expression of white space between the parts of a value.
    pub(super) fn begin(&mut self) -> Result<(), SchemaError> {
        let Separators { item, name, space } = self.separators.clone();
        let mut made = |what, pattern: Option<String>| {
            pattern.map(|pattern| self.builder.regex(what, &pattern)).transpose()
        };
        (self.item_separator, self.name_separator) =
            (made("item separator", item)?, made("name separator", name)?);
        if let Some(space) = made("space", space)? {
            self.space = Some(self.builder.optional(space));
            return Ok(());
        }
        self.space = match (self.whitespace.pattern(), standard::space(self.whitespace)) {
            (None, _) => None,
            (_, Some(kept)) => Some(self.builder.automaton("space", self.ex.located(None, kept)?)),
            (Some(pattern), None) => Some(self.builder.regex("space", &pattern)?),
        };
        Ok(())
    }

    /// A call of a rule, once for each rule.
    pub(crate) fn call(&mut self, rule: RuleId) -> ExprId {
        *self.calls.entry(rule).or_insert_with(|| self.builder.call(rule))
    }

    /// Exactly this text, once for each text.
    pub(crate) fn literal(&mut self, text: impl AsRef<str>) -> ExprId {
        let text = text.as_ref();
        *self.literals.entry_ref(text).or_insert_with(|| self.builder.literal(text))
    }

    /// The empty text.
    pub(crate) fn nothing(&mut self) -> ExprId {
        self.literal("")
    }

    /// The concatenation of the parts, once for each list of parts. Branches of a schema agree in most of their
    /// members, and eight independent conditions are 256 branches.
    pub(crate) fn sequence(&mut self, parts: impl IntoIterator<Item = ExprId>) -> ExprId {
        let parts: Vec<ExprId> = parts.into_iter().collect();
        if let Some(known) = self.sequences.get(&parts) {
            return *known;
        }
        let made = self.builder.sequence(parts.iter().copied());
        self.sequences.insert(parts, made);
        made
    }

    /// `parts` with white space between them.
    pub(crate) fn spaced(&mut self, parts: &[ExprId]) -> ExprId {
        let mut all = vec![];
        for part in parts {
            if !all.is_empty() {
                all.extend(self.space);
            }
            all.push(*part);
        }
        self.sequence(all)
    }

    /// A line break and the blanks of a level, if output is indented.
    fn line(&mut self, level: u32) -> Option<ExprId> {
        let blanks = self.indent? as usize * level as usize;
        Some(self.literal(format!("\n{}", " ".repeat(blanks))))
    }

    /// A comma with the white space around it.
    fn separator(&mut self) -> ExprId {
        let comma = match (self.item_separator, self.whitespace) {
            (Some(other), _) => other,
            (None, Whitespace::Spaced) => self.literal(", "),
            (None, _) => self.literal(","),
        };
        let line = self.line(self.level + 1);
        let parts: Vec<ExprId> = [self.space, Some(comma), self.space, line].into_iter().flatten().collect();
        self.sequence(parts)
    }

    /// A separator, then `next`. Elements begin with the white space between them.
    pub(crate) fn comma(&mut self, next: ExprId) -> ExprId {
        if self.form != Form::Json {
            return next;
        }
        let separator = self.separator();
        self.sequence([separator, next])
    }

    /// `inner`, or nothing if `empty`, in brackets with white space. `None` if neither is possible. Elements have no
    /// brackets.
    pub(crate) fn enclosed(
        &mut self,
        open: &str,
        close: &str,
        inner: Option<ExprId>,
        empty: bool,
    ) -> Option<ExprId> {
        let is_json = self.form == Form::Json;
        let inner = match (inner, empty && (is_json || !self.has_parts)) {
            (None, false) => return None,
            (inner, empty) if !is_json => {
                let inner = inner.map(|inner| if empty { self.builder.optional(inner) } else { inner });
                return Some(self.sequence(inner.into_iter().chain(self.space)));
            }
            (None, true) => None,
            (Some(inner), empty) => {
                let (before, after) = (self.line(self.level + 1), self.line(self.level));
                let parts: Vec<ExprId> =
                    [before, Some(inner), self.space, after].into_iter().flatten().collect();
                let inner = self.sequence(parts);
                Some(if empty { self.builder.optional(inner) } else { inner })
            }
        };
        let (open, close) = (self.literal(open), self.literal(close));
        let parts: Vec<ExprId> = [Some(open), self.space, inner, Some(close)].into_iter().flatten().collect();
        Some(self.sequence(parts))
    }

    /// `members` in any order, separated by commas, with `others` among them.
    pub(crate) fn in_any_order(
        &mut self,
        members: Vec<(ExprId, bool)>,
        others: Option<ExprId>,
        min: u32,
        max: Option<u32>,
    ) -> ExprId {
        let (members, others, separator) = self.parts_of_group(members, others);
        self.builder.unordered(members, others, separator, min, max)
    }

    /// The same with choices between members, and at least one member.
    pub(crate) fn in_any_order_with(
        &mut self,
        members: Vec<(ExprId, bool)>,
        choices: Vec<MemberChoice>,
        others: Option<ExprId>,
    ) -> ExprId {
        let (members, others, separator) = self.parts_of_group(members, others);
        self.builder.unordered_with_choices(members, choices, others, separator)
    }

    /// Members, others and the separator, each as a rule.
    fn parts_of_group(
        &mut self,
        members: Vec<(ExprId, bool)>,
        others: Option<ExprId>,
    ) -> (Vec<(ExprId, bool)>, Option<ExprId>, Option<ExprId>) {
        // An item for each member, and one for each terminal that its value may be, each with a frame.
        self.side_by_side = self.side_by_side.saturating_add(2 * (members.len() + VALUES));
        let separator = (self.form == Form::Json).then(|| self.separator());
        let one = |emitter: &mut Self, name, part| emitter.shared(name, vec![part]).expect("it is one");
        let separator = separator.map(|separator| one(self, "separator", separator));
        let others = others.map(|others| one(self, "other members", others));
        let members = members.into_iter().map(|(member, required)| (one(self, "member", member), required));
        (members.collect(), others, separator)
    }

    /// One of `ways`, if there are any.
    pub(crate) fn one_of(&mut self, ways: Vec<ExprId>) -> Option<ExprId> {
        (!ways.is_empty()).then(|| self.builder.choice(ways))
    }

    /// One of `ways` as a rule, so that it can be used many times; `None` without any. Equal lists have one rule.
    pub(crate) fn shared(&mut self, name: &'static str, ways: Vec<ExprId>) -> Option<ExprId> {
        if ways.is_empty() {
            return None;
        }
        let key = (name, ways);
        if let Some(known) = self.choices.get(&key) {
            return Some(*known);
        }
        let rule = self.builder.rule(name);
        let body = self.builder.choice(key.1.iter().copied());
        self.builder.define(rule, body);
        let made = self.call(rule);
        self.choices.insert(key, made);
        Some(made)
    }

    /// At least `min` and, with a `max`, at most `max` repetitions of `item`, each after a separator. Up to
    /// `written_out` they are rules; beyond it the parser counts them.
    pub(crate) fn more(
        &mut self,
        item: ExprId,
        min: u32,
        max: Option<u32>,
        written_out: u32,
    ) -> Result<Option<ExprId>, SchemaError> {
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        if max == Some(0) {
            return Ok(Some(self.nothing()));
        }
        if max.unwrap_or(min) <= written_out {
            let item = self.comma(item);
            return self.repeated(item, min, max).map(Some);
        }
        // The parser counts them as members in any order.
        let items = self.in_any_order(vec![], Some(item), min.max(1), max);
        let items = self.comma(items);
        Ok(Some(if min == 0 { self.builder.optional(items) } else { items }))
    }

    pub(super) fn bracketed(&mut self, open: &str, close: &str, parts: Vec<ExprId>) -> ExprId {
        let mut all = vec![];
        for part in parts {
            all.push(if all.is_empty() { part } else { self.comma(part) });
        }
        let inner = (!all.is_empty()).then(|| self.sequence(all));
        let empty = inner.is_none();
        let brackets = self.enclosed(open, close, inner, empty);
        brackets.unwrap_or_else(|| self.nothing())
    }

    pub(crate) fn member(&mut self, name: &str, value: ExprId) -> ExprId {
        let name = self.json_string(name);
        if self.space.is_none() && self.name_separator.is_none() {
            let name = self.literal(name + self.colon());
            return self.sequence([name, value]);
        }
        let name = self.literal(name);
        self.named(name, value)
    }

    /// The text between a name and its value.
    fn colon(&self) -> &'static str {
        match self.whitespace {
            Whitespace::Spaced | Whitespace::Indent(_) => ": ",
            _ => ":",
        }
    }

    pub(crate) fn named(&mut self, name: ExprId, value: ExprId) -> ExprId {
        let colon = self.name_separator.unwrap_or_else(|| self.literal(self.colon()));
        self.spaced(&[name, colon, value])
    }

    /// `inner` as a scope of unique texts.
    pub(crate) fn scope(&mut self, name: &str, inner: ExprId) -> ExprId {
        let rule = self.builder.rule(name);
        self.builder.define(rule, inner);
        self.builder.scope(rule);
        self.call(rule)
    }

    pub(crate) fn repeated(
        &mut self,
        item: ExprId,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, SchemaError> {
        let limit = self.ex.limits.count;
        if min > limit || max.is_some_and(|max| max > limit) {
            return Err(SchemaError::limit("", "the items that are counted out", limit as usize, "count"));
        }
        Ok(self.builder.repeat(item, min, max))
    }
}
