//! Values with one text each, as an automaton: the items that `uniqueItems` compares.
//!
//! Two items are equal if their texts are equal, so each value must have one text. Strings and numbers have one
//! spelling that all of them can be written in. Objects have one text if their members come in one order for the
//! whole schema, with one white space; the order is that in which the schema names them. Two schemas of one array
//! that name the same members in different orders write them in the same order for this reason.
//!
//! Objects and arrays nest, and an automaton does not. So a value is left out where its text cannot be an automaton
//! of modest size: members that the schema does not name, values inside of themselves, arrays of anything, members
//! whose values have a large automaton and are optional. Every text that is left is valid, and
//! [`explain`](crate::explain()) says what is left out. If nothing of an item's objects or arrays can be written, the
//! keyword is refused.
//!
//! Tried instead: keys that are no terminals, compared when they end. A prefix of a key must be known to have an unused
//! end, and that question has no finite table for values that nest.

use std::{rc::Rc, sync::Arc};

use hashbrown::{HashMap, HashSet};
use unskew_automata::Dfa;

use super::emitter::Emitter;
use crate::{
    SchemaError, Separators, Whitespace,
    document::{
        json::{Document, NodeId, Value},
        literal::Literal,
    },
    normalize::shape::{ARRAY, FALSE, NULL, NUMBER, OBJECT, STRING, Shape, TRUE},
    text::{composed::Member, languages::Language, number},
};

/// The depth of objects and arrays in an item, and how many of them may be around each other where they are optional:
/// an automaton has a copy of each.
const DEPTH: usize = 12;
const OPTIONAL: u32 = 2;

/// The states of the values of an optional member, and of an item.
const MEMBER: usize = 1 << 10;
const ITEM: usize = 1 << 16;

/// The largest number of items that an array inside of an item counts.
const COUNTED: u32 = 8;

/// By set and number of optional values around it.
pub(super) type OneTexts = HashMap<(Vec<Literal>, u32), Language>;

/// Texts of values.
#[derive(Default)]
pub(super) struct OneText {
    /// The sets of schemas around the value at hand.
    around: Vec<Vec<Literal>>,
    /// How many of them are optional.
    optional: u32,
    known: OneTexts,
    /// Whether something was left out for what is around it.
    is_cut: bool,
    /// Whether the item may be an object or array, and whether one of them has a text.
    pub(super) may_compose: bool,
    pub(super) composes: bool,
}

impl OneText {
    /// Whether the value at hand is inside of one of this set, so that it is left out.
    fn is_around(&mut self, set: &Vec<Literal>) -> bool {
        let is_around = self.around.contains(set);
        self.is_cut |= is_around;
        is_around
    }
}

impl Emitter {
    /// The texts of the values that satisfy `set`, one for each value.
    pub(super) fn one_text(&mut self, set: &[Literal], of: &mut OneText) -> Result<Language, SchemaError> {
        let key = (set.to_vec(), of.optional);
        // An item itself is looked at, for what it may be.
        if let Some(known) = self.one_texts.get(&key).filter(|_| !of.around.is_empty()) {
            return Ok(known.clone());
        }
        if let Some(known) = of.known.get(&key) {
            of.is_cut = true;
            return Ok(known.clone());
        }
        let was_cut = std::mem::take(&mut of.is_cut);
        let node = set.first().map(|literal| literal.node);
        let shapes = self.ex.shapes(set)?;
        let mut parts: Vec<Arc<Dfa>> = vec![];
        of.around.push(set.to_vec());
        for shape in shapes.iter() {
            self.ex.refuse(shape, shape.types & !(ARRAY | OBJECT));
            if shape.types & STRING != 0 {
                let texts = self.ex.texts(shape);
                if let Some(texts) = self.ex.located(node, texts)? {
                    let written = self.ex.languages.spelled_once(&texts);
                    parts.extend(self.ex.located(node, written)?);
                }
            }
            if shape.types & NUMBER != 0 {
                let plain = self.ex.languages.pattern(number::SHORTEST);
                let both = plain.and_then(|plain| match &shape.numbers {
                    Some(own) => self.ex.languages.and(&plain, &Some(Arc::clone(own))),
                    None => Ok(plain),
                });
                parts.extend(self.ex.located(node, both)?);
            }
            if shape.types & (ARRAY | OBJECT) != 0 {
                self.composed(node, shape, of, &mut parts)?;
            }
        }
        of.around.pop();
        for (types, word) in [(NULL, "null"), (FALSE, "false"), (TRUE, "true")] {
            if shapes.iter().any(|shape| shape.types & types != 0) {
                parts.extend(self.text_of(node, word)?);
            }
        }
        let all = self.ex.languages.any(parts);
        let all = self.ex.located(node, all)?;
        // A language that depends on the set alone is the same in the items of every array.
        let known = if of.is_cut { &mut of.known } else { &mut self.one_texts };
        known.insert(key, all.clone());
        of.is_cut |= was_cut;
        Ok(all)
    }

    /// Adds the texts of the arrays and objects of a shape.
    fn composed(
        &mut self,
        node: Option<NodeId>,
        shape: &Shape,
        of: &mut OneText,
        parts: &mut Vec<Arc<Dfa>>,
    ) -> Result<(), SchemaError> {
        // The item itself, and not one of its parts.
        let is_whole = of.around.len() == 1;
        of.may_compose |= is_whole;
        let Some((comma, colon)) = self.between().filter(|_| of.optional <= OPTIONAL) else { return Ok(()) };
        if of.around.len() > DEPTH {
            of.is_cut = true;
            return Ok(());
        }
        if !shape.factors.is_empty() {
            let set = of.around.last().cloned().unwrap_or_default();
            for shape in self.ex.multiplied(&set, shape)? {
                self.composed(node, &shape, of, parts)?;
            }
            return Ok(());
        }
        if let Some(values) = &shape.one_of {
            for value in values {
                if self.ex.constant_has_shape(*value, shape)? {
                    let Some(text) = self.text_of_value(*value, comma, colon) else { continue };
                    parts.extend(self.text_of(node, &text)?);
                    of.composes |= is_whole;
                }
            }
            return Ok(());
        }
        for types in [ARRAY, OBJECT] {
            if shape.types & types == 0 {
                continue;
            }
            let made = match types {
                ARRAY => self.text_of_array(node, shape, of, comma)?,
                _ => self.text_of_object(node, shape, of, comma, colon)?,
            };
            if let Some(made) = made {
                self.ex.refuse(shape, types);
                parts.extend(made);
                of.composes |= is_whole;
            }
        }
        Ok(())
    }

    /// The text after a comma and after a colon. White space that depends on the level has none, and neither have
    /// other separators.
    fn between(&self) -> Option<(&'static str, &'static str)> {
        match self.whitespace {
            _ if self.separators != Separators::default() => None,
            Whitespace::Compact | Whitespace::Bounded(0) => Some((",", ":")),
            Whitespace::Indent(_) => None,
            _ => Some((", ", ": ")),
        }
    }

    /// The arrays of a shape; `None` if they are left out.
    #[allow(clippy::option_option, reason = "no answer, or that there are none")]
    fn text_of_array(
        &mut self,
        node: Option<NodeId>,
        shape: &Shape,
        of: &mut OneText,
        comma: &str,
    ) -> Result<Option<Language>, SchemaError> {
        // One item differs from all others.
        let most = shape.unique.map(|_| 1).into_iter().chain(shape.max_items).min();
        let is_plain = shape.counts.is_empty() && shape.repeating.is_none();
        let is_plain = is_plain && most.is_none_or(|most| shape.min_items <= most);
        let bound = most.unwrap_or(shape.min_items);
        let items = self.ex.item_conditions(shape);
        if !is_plain || bound > COUNTED || items.alike > 0 {
            return Ok(None);
        }
        let mut ways = vec![];
        for set in self.ex.item_sets(shape, &items, 0)? {
            if of.is_around(&set) || set.is_empty() {
                return Ok(None);
            }
            let optional = u32::from(shape.min_items == 0);
            of.optional += optional;
            let item = self.one_text(&set, of);
            of.optional -= optional;
            ways.extend(item?);
        }
        let item = self.ex.languages.any(ways);
        let item = self.ex.located(node, item)?;
        let states = if shape.min_items == 0 { MEMBER } else { ITEM };
        match item.filter(|item| item.len() <= states && most != Some(0)) {
            Some(item) => {
                let made = self.ex.languages.array(&item, shape.min_items, most, comma);
                self.ex.located(node, made).map(Some)
            }
            None if shape.min_items == 0 => self.text_of(node, "[]").map(Some),
            None => Ok(Some(None)),
        }
    }

    /// The objects of a shape; `None` if they are left out.
    #[allow(clippy::option_option, reason = "no answer, or that there are none")]
    fn text_of_object(
        &mut self,
        node: Option<NodeId>,
        shape: &Shape,
        of: &mut OneText,
        comma: &str,
        colon: &str,
    ) -> Result<Option<Language>, SchemaError> {
        let required = u32::try_from(shape.required.len()).unwrap_or(u32::MAX);
        if !shape.witnesses.is_empty()
            || shape.max_properties.is_some()
            || shape.min_properties > required
            || shape.min_properties > 0 && shape.required.is_empty()
        {
            return Ok(None);
        }
        let mut names = self.listed_names(shape);
        if names.is_empty() {
            return Ok(None);
        }
        self.rank(names.iter());
        names.sort_by_key(|name| self.name_ranks[name]);
        let mut members = vec![];
        for name in &names {
            let required = shape.required.contains(name);
            let value = match self.ex.member_conditions(shape, name)? {
                Some(set) if of.is_around(&set) => None,
                Some(set) => {
                    of.optional += u32::from(!required);
                    let value = self.one_text(&set, of);
                    of.optional -= u32::from(!required);
                    value?
                }
                None => None,
            };
            match value.filter(|value| required || value.len() <= MEMBER) {
                Some(value) => {
                    let name = self.json_string(name) + colon;
                    members.push(Member { name, value, required });
                }
                // It may have none, or none that is written.
                None if required => return Ok(None),
                None => {}
            }
        }
        if members.iter().map(|member| member.value.len()).sum::<usize>() > ITEM {
            return Ok(None);
        }
        let made = self.ex.languages.object(&members, comma);
        self.ex.located(node, made).map(Some)
    }

    /// The names of members that the schemas of a shape list, each once.
    pub(super) fn listed_names(&self, shape: &Shape) -> Vec<Rc<str>> {
        let (mut names, mut known): (Vec<Rc<str>>, HashSet<Rc<str>>) = Default::default();
        for group in &shape.properties {
            let declared = self.ex.schemas.document.member(*group, "properties");
            let declared = declared.and_then(|declared| self.ex.schemas.document.members(declared));
            names.extend(declared.unwrap_or_default().iter().map(|(name, _)| name.clone()));
        }
        names.extend(shape.property.iter().map(|(name, _)| name.clone()));
        names.extend(shape.required.iter().cloned());
        names.retain(|name| known.insert(name.clone()));
        names
    }

    /// The one text of the value at `node`; `None` if it has a number that is only written with an exponent.
    fn text_of_value(&mut self, node: NodeId, comma: &str, colon: &str) -> Option<String> {
        // Recursion is as deep as the limit on nesting.
        Some(match self.ex.schemas.document.value(node).clone() {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(value) => {
                let (whole, fraction) = value.plain(self.ex.limits.digits)?;
                let sign = if value.negative { "-" } else { "" };
                let point = if fraction.is_empty() { "" } else { "." };
                format!("{sign}{whole}{point}{fraction}")
            }
            Value::String(text) => self.json_string(&text),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.text_of_value(*item, comma, colon));
                format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(comma))
            }
            Value::Object(mut members) => {
                self.rank(members.iter().map(|(name, _)| name));
                members.sort_by_key(|(name, _)| self.name_ranks[name]);
                let members = members.iter().map(|(name, value)| {
                    let value = self.text_of_value(*value, comma, colon)?;
                    Some(self.json_string(name) + colon + &value)
                });
                format!("{{{}}}", members.collect::<Option<Vec<_>>>()?.join(comma))
            }
        })
    }

    /// Gives each new name its place in the order of all members.
    fn rank<'n>(&mut self, names: impl Iterator<Item = &'n Rc<str>>) {
        for name in names {
            let rank = self.name_ranks.len();
            self.name_ranks.entry(name.clone()).or_insert(rank);
        }
    }

    fn text_of(&mut self, node: Option<NodeId>, text: &str) -> Result<Language, SchemaError> {
        let made = self.ex.languages.text(text);
        self.ex.located(node.or(Some(Document::ROOT)), made)
    }
}
