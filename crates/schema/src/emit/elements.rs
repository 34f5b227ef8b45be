//! Members and items as elements ([`ElementStyle`]), and the texts of strings in them.
//!
//! A value in an element has a rule for each word of its type. Where several types have one word, a parser goes by the
//! text and the types of the schema: `12` is a number where there may be one, and what begins with `[` is an array. So
//! a text that reads as a value of another type is no string, unless every value of that type satisfies the schema
//! anyway.
//!
//! A string with a large bound on its length is counted from the mark that begins it to the mark that ends it, since
//! a character may be the first of that mark. With a line break that a parser takes away at each end, these are four
//! languages with a bound of their own.

use std::{rc::Rc, sync::Arc};

use unskew_automata::{Dfa, RegexError};
use unskew_grammar::{ExprId, GrammarError, RuleId};

use super::{emitter::Emitter, values::COPIED};
use crate::{
    ElementStyle, SchemaError, ValueType,
    document::{
        json::{Document, NodeId, Value},
        literal::Literal,
    },
    elements::{NAME, TYPE},
    normalize::shape::{
        ALL, ARRAY, FALSE, FiniteValue, NULL, NUMBER, OBJECT, STRING, Shape, TRUE, Types, type_of,
    },
    text::{enumerated::is_finite, languages::Language, standard::TEXT},
};

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Form {
    Json,
    /// The members of the whole object, as elements.
    Root,
    /// In an element, from the mark that begins it to the mark that ends it.
    Element,
}

/// What stands in front of a value.
#[derive(Clone, Copy)]
pub(super) enum Name<'n> {
    /// Nothing.
    Item,
    /// This name.
    Listed(&'n str),
    /// The name that this expression reads.
    Read(ExprId),
}

/// Texts that Python reads as numbers, integers, booleans and other values of JSON.
const NUMBERS: &str = r"\s*[+-]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][+-]?[0-9_]+)?\s*";
const INTEGERS: &str = r"\s*[+-]?[0-9][0-9_]*\s*";
const BOOLEANS: &str = r"\s*(?i:true|false|0|1)\s*";
const VALUES: &str = r#"\s*(?:[\[{"](?s:.*)|(?:true|false|null|NaN|-?Infinity)\s*)"#;

fn bits(types: &[ValueType]) -> Types {
    types.iter().fold(0, |all, one| {
        all | match one {
            ValueType::Null => NULL,
            ValueType::Boolean => TRUE | FALSE,
            ValueType::Number => NUMBER,
            ValueType::String => STRING,
            ValueType::Array => ARRAY,
            ValueType::Object => OBJECT,
        }
    })
}

/// The most schemas in which listed values are looked for.
const LISTED: usize = 100;

impl Emitter {
    fn style(&self) -> Arc<ElementStyle> {
        Arc::clone(self.style.as_ref().expect("only elements have a form that is not JSON"))
    }

    /// The form of arrays and objects in a value of this form.
    pub(super) fn inside(&self, form: Form) -> Form {
        match form {
            Form::Element if self.style().item.is_none() => Form::Json,
            form => form,
        }
    }

    /// The member or item with a value that satisfies `set`, and the rules of its values; `None` if there is none.
    pub(super) fn member_of(
        &mut self,
        name: Name<'_>,
        set: &[Literal],
    ) -> Result<Option<(ExprId, Vec<RuleId>)>, SchemaError> {
        if self.form == Form::Json {
            let Some(rule) = self.rule(set)? else { return Ok(None) };
            let value = self.call(rule);
            let member = match name {
                Name::Item => value,
                Name::Listed(name) => self.member(name, value),
                Name::Read(name) => self.named(name, value),
            };
            return Ok(Some((member, vec![rule])));
        }
        let node = set.first().map_or(Document::ROOT, |literal| literal.node);
        let types = self.ex.shapes(set)?.iter().fold(0, |all, shape| all | shape.types);
        let (mut ways, mut rules) = (vec![], vec![]);
        for (own, word) in self.style().types {
            if types & bits(own) != 0
                && let Some(rule) = self.rule_of(set, bits(own), Form::Element)?
            {
                let value = self.call(rule);
                ways.extend(self.element(name, node, word, value)?);
                rules.push(rule);
            }
        }
        Ok(self.shared("element", ways).map(|element| (element, rules)))
    }

    /// The element of a value with its marks; `None` if the name cannot be written, which is recorded.
    fn element(
        &mut self,
        name: Name<'_>,
        node: NodeId,
        word: &str,
        value: ExprId,
    ) -> Result<Option<ExprId>, SchemaError> {
        let style = self.style();
        let before = match name {
            Name::Item => style.item.unwrap_or_default(),
            _ => style.before,
        };
        let before = before.replace(TYPE, word);
        let mut parts: Vec<ExprId> = self.space.into_iter().collect();
        let mut after = style.after.to_owned();
        match name {
            Name::Item => {
                parts.push(self.literal(before));
                after = after.replace(NAME, "item");
            }
            Name::Listed(name) => {
                let Some(written) = self.written(name, node)? else { return Ok(None) };
                parts.push(self.literal(before.replace(NAME, &written)));
                after = after.replace(NAME, &written);
            }
            Name::Read(name) => {
                let (first, last) = before.split_once(NAME).unwrap_or((&before, ""));
                let (first, last) = (self.literal(first), self.literal(last));
                parts.extend([first, name, last]);
            }
        }
        parts.extend(self.space.filter(|_| style.is_spaced));
        let after = self.literal(after);
        parts.extend([value, after]);
        Ok(Some(self.sequence(parts)))
    }

    /// The name as an element has it.
    fn written(&mut self, name: &str, node: NodeId) -> Result<Option<String>, SchemaError> {
        let style = self.style();
        let written = style.escaped(name);
        let all = self.element_names(Some(node), None)?;
        if all.is_some_and(|all| all.accepts(written.as_bytes())) {
            return Ok(Some(written));
        }
        let reason = match style.excludes.iter().find(|excluded| written.contains(*excluded)) {
            Some(excluded) => format!("the name {name:?} has the excluded {excluded:?} in it"),
            None => format!("the name {name:?} cannot stand in an element of this style"),
        };
        self.ex.reject(
            node,
            "properties",
            &reason,
            "give the member another name, or write the object as JSON",
        );
        Ok(None)
    }

    /// These names as elements have them, without those that cannot be written.
    pub(super) fn element_texts(&self, names: &[Rc<str>]) -> Vec<String> {
        names.iter().map(|name| self.style().escaped(name)).collect()
    }

    /// The names of an element as they are written: all, or those of `names` that have no escapes.
    pub(super) fn element_names(
        &mut self,
        node: Option<NodeId>,
        names: Option<&Arc<Dfa>>,
    ) -> Result<Language, SchemaError> {
        let style = self.style();
        let pattern = if names.is_some() { style.names } else { style.escaped.unwrap_or(style.names) };
        let contains = self.contains(style.excludes.iter().map(|text| escape(text)).collect());
        let all = self.ex.languages.pattern(pattern);
        let all = all.and_then(|all| self.ex.languages.minus(&all, &contains?));
        let made = match names {
            None => all,
            Some(names) => all.and_then(|all| self.ex.languages.and(&all, &Some(Arc::clone(names)))),
        };
        self.ex.located(node, made)
    }

    /// Texts in which one of these patterns has a match.
    fn contains(&mut self, patterns: Vec<String>) -> Result<Language, RegexError> {
        let patterns: Vec<String> = patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect();
        match &*patterns {
            [] => Ok(None),
            all => self.ex.languages.pattern(&format!("(?s:.*)(?:{})(?s:.*)", all.join("|"))),
        }
    }

    /// Records what a style leaves out of every schema.
    pub(super) fn narrowed_by_style(&mut self) -> Result<(), SchemaError> {
        let Some(style) = self.style.clone() else { return Ok(()) };
        let why = format!(
            "the output is an object of elements: strings have no {:?} in them, and names are those that the style can write",
            style.end
        );
        self.ex.narrow_down(Document::ROOT, "", why);
        let root = self.ex.schemas.literal(Document::ROOT)?;
        if self.ex.shapes(&[root])?.iter().any(|shape| shape.types & !OBJECT != 0) {
            let why = "values that are no objects have no elements, and are left out";
            self.ex.narrow_down(Document::ROOT, "type", why.to_owned());
        }
        Ok(())
    }

    /// Whether an object of elements has listed members alone. Names beyond those that a schema declares are left out
    /// where no keyword is about them, and everywhere if a name is repeated after its value.
    pub(super) fn is_closed_by_style(&mut self, shape: &Shape, names: &[Rc<str>]) -> bool {
        if self.form == Form::Json {
            return false;
        }
        let document = &self.ex.schemas.document;
        let has = |keyword: &str| {
            let with = |group: &&NodeId| document.member(**group, keyword).is_some();
            shape.properties.iter().find(with).copied()
        };
        let declared = has("properties");
        let more = has("additionalProperties").or(has("patternProperties"));
        let is_silent = more.is_none()
            && shape.unevaluated_properties.is_empty()
            && shape.names.is_empty()
            && shape.witnesses.is_empty()
            && shape.min_properties as usize <= names.len();
        if let Some(node) = declared.filter(|_| is_silent) {
            let why = "members that are not declared are left out; `additionalProperties` true lets them in";
            self.ex.narrow_down(node, "properties", why.to_owned());
            return true;
        }
        if self.style().repeats_names() {
            let (node, why) = (
                more.or(declared),
                "this style repeats a name after its value, so that it has declared names",
            );
            let why = format!("{why} alone; list the names in `properties`");
            self.ex.narrow_down(node.unwrap_or(Document::ROOT), "", why);
            return true;
        }
        false
    }

    /// A value in an element, between its marks. `others` are the values that are no strings.
    pub(super) fn in_element(
        &mut self,
        node: Option<NodeId>,
        shapes: &[Shape],
        others: Vec<ExprId>,
        is_any: bool,
    ) -> Result<Option<ExprId>, SchemaError> {
        let style = self.style();
        let (mut inner, mut ways) = (vec![], vec![]);
        let has_strings = shapes.iter().any(|shape| shape.types & STRING != 0);
        if has_strings {
            self.raw_strings(node, shapes, is_any, (&mut inner, &mut ways))?;
        }
        if !others.is_empty() {
            // Beside strings, white space may be a part of the text.
            let space = match style.wrap {
                _ if !has_strings => self.space,
                "" => None,
                wrap => {
                    let wrap = self.literal(wrap);
                    Some(self.builder.optional(wrap))
                }
            };
            let value = self.builder.choice(others);
            inner.push(self.sequence([space, Some(value), space].into_iter().flatten()));
        }
        if !inner.is_empty() {
            let (begin, end) = (self.literal(style.begin), self.literal(style.end));
            let inner = self.builder.choice(inner);
            ways.push(self.sequence([begin, inner, end]));
        }
        Ok(self.one_of(ways))
    }

    /// Adds the strings of the shapes: their texts to `inner`, and with the marks around them to `whole`.
    fn raw_strings(
        &mut self,
        node: Option<NodeId>,
        shapes: &[Shape],
        is_any: bool,
        (inner, whole): (&mut Vec<ExprId>, &mut Vec<ExprId>),
    ) -> Result<(), SchemaError> {
        let read = if is_any { Ok(None) } else { self.read_as_others(node, shapes) };
        let read = self.ex.located(node, read)?;
        let mut texts = vec![];
        for shape in shapes.iter().filter(|shape| shape.types & STRING != 0) {
            if let Some(own) = self.long_text(node, shape, &read)? {
                whole.extend(own);
                continue;
            }
            let own = self.ex.texts(shape);
            texts.extend(self.ex.located(node, own)?);
        }
        let texts = self.ex.languages.any(texts);
        let texts = self.ex.located(node, texts)?;
        let left = self.ex.languages.minus(&texts, &read);
        let left = self.ex.located(node, left)?;
        if read.is_some() && left != texts {
            let why = "a string that reads as a value of another type of its schema is left out";
            self.ex.narrow_down(node.unwrap_or(Document::ROOT), "", why.to_owned());
        }
        let raw = self.raw(&left);
        if let Some(raw) = self.ex.located(node, raw)? {
            inner.push(self.terminal("text", &raw));
        }
        Ok(())
    }

    /// Texts that a parser reads as values of other types, not all of which satisfy the schema.
    fn read_as_others(&mut self, node: Option<NodeId>, shapes: &[Shape]) -> Result<Language, RegexError> {
        let types = shapes.iter().fold(0, |all, shape| all | shape.types);
        // A type with another word than strings is told from them.
        let mut words = self.style().types.iter().map(|(own, _)| bits(own));
        let untold = words.find(|own| own & STRING != 0).unwrap_or(0);
        let listed = node.map_or(0, |node| self.listed_types(node)) & untold & !types;
        let mut patterns = vec![];
        let whole = self.ex.languages.whole()?;
        let (mut has_all, mut has_fractions) = (false, false);
        for shape in shapes.iter().filter(|shape| shape.types & NUMBER != 0) {
            has_all |= shape.numbers.is_none() || (shape.is_integer && shape.numbers == whole);
            has_fractions |= !shape.is_integer;
        }
        if listed & NUMBER != 0 {
            patterns.push(NUMBERS);
        } else if types & NUMBER != 0 && !has_all {
            patterns.push(if has_fractions { NUMBERS } else { INTEGERS });
        }
        if listed & (TRUE | FALSE) != 0 || !matches!(types & (TRUE | FALSE), 0 | 6) {
            patterns.push(BOOLEANS);
        }
        if (types | listed) & (ARRAY | OBJECT) != 0 {
            patterns.extend([NUMBERS, VALUES]);
        }
        if patterns.is_empty() { Ok(None) } else { self.ex.languages.pattern(&patterns.join("|")) }
    }

    /// The types of the values that the schema lists, or one of its alternatives, even if it allows none of that type:
    /// `{"oneOf": [{"enum": [1, "2"]}, {"enum": [1]}]}` has no numbers, and a parser reads the text `2` as one.
    fn listed_types(&self, node: NodeId) -> Types {
        let document = &self.ex.schemas.document;
        let (mut types, mut nodes, mut at) = (0, vec![node], 0);
        while let Some(node) = nodes.get(at).copied().filter(|_| at < LISTED) {
            at += 1;
            let list = |keyword| document.member(node, keyword).and_then(|list| document.items(list));
            let values =
                list("enum").unwrap_or_default().iter().copied().chain(document.member(node, "const"));
            types = values.fold(types, |types, value| types | type_of(document.value(value)));
            nodes
                .extend(["anyOf", "oneOf"].into_iter().flat_map(|keyword| list(keyword).unwrap_or_default()));
            let reference = document.member(node, "$ref").and_then(|text| document.text(text));
            nodes.extend(reference.and_then(|text| self.ex.schemas.target(node, text).ok()));
        }
        types
    }

    /// These texts as they stand in an element: without those that have a mark in them, and with what a parser takes
    /// away around them.
    fn raw(&mut self, texts: &Language) -> Result<Language, RegexError> {
        let left = self.unmarked(texts)?;
        let wrap = self.style().wrap;
        if wrap.is_empty() {
            return Ok(left);
        }
        let mark = self.ex.languages.text(wrap)?;
        let [led, trailed] = self.wrapped(wrap)?;
        let open = self.ex.languages.minus(&left, &trailed)?;
        let closed = self.ex.languages.join(&left, &mark)?;
        let closed = self.ex.languages.or(&closed, &open)?;
        let open = self.ex.languages.minus(&closed, &led)?;
        let closed = self.ex.languages.join(&mark, &closed)?;
        self.ex.languages.or(&closed, &open)
    }

    /// Those of the texts that have no mark in them.
    fn unmarked(&mut self, texts: &Language) -> Result<Language, RegexError> {
        let style = self.style();
        let marks = [escape(style.end), style.forbidden.to_owned()];
        let excluded = style.excludes.iter().map(|text| escape(text));
        let contains = self.contains(marks.into_iter().chain(excluded).collect())?;
        self.ex.languages.minus(texts, &contains)
    }

    /// Texts that begin, and that end, with `mark`.
    fn wrapped(&mut self, mark: &str) -> Result<[Language; 2], RegexError> {
        let mark = escape(mark);
        Ok([
            self.ex.languages.pattern(&format!("{mark}(?s:.*)"))?,
            self.ex.languages.pattern(&format!("(?s:.*){mark}"))?,
        ])
    }

    /// The strings of a shape with a large bound on their length, each with its marks; `None` if they are better built
    /// than counted.
    fn long_text(
        &mut self,
        node: Option<NodeId>,
        shape: &Shape,
        read: &Language,
    ) -> Result<Option<Vec<ExprId>>, SchemaError> {
        let Some(max) = shape.max_length else { return Ok(None) };
        let texts = match &shape.strings {
            Some(own) => Ok(Some(Arc::clone(own))),
            None => self.ex.languages.pattern(TEXT),
        };
        let texts = self.ex.located(node, texts)?;
        let states = texts.as_ref().map_or(0, |texts| texts.len());
        let style = self.style();
        let size = u64::from(max) * (states + style.end.len()) as u64;
        if size < COPIED || texts.as_ref().is_none_or(|texts| is_finite(texts)) {
            return Ok(None);
        }
        self.check_characters(node, max)?;
        let long = self.ex.languages.pattern(&format!("(?s:.){{{},}}", shape.min_length));
        let texts = long.and_then(|long| self.ex.languages.and(&texts, &long));
        let texts = texts.and_then(|texts| self.ex.languages.minus(&texts, read));
        let texts = texts.and_then(|texts| self.unmarked(&texts));
        let texts = self.ex.located(node, texts)?;
        let character = self.ex.languages.pattern("(?s:.)");
        let character = self.ex.located(node, character)?.ok_or(SchemaError::unsatisfiable())?;
        let mut made = vec![];
        let wraps: &[[bool; 2]] = match style.wrap {
            "" => &[[false; 2]],
            _ => &[[false, false], [false, true], [true, false], [true, true]],
        };
        for [leads, trails] in wraps.iter().copied() {
            let wrap = |is_wrapped| if is_wrapped { style.wrap } else { "" };
            let (open, close) = (style.begin.to_owned() + wrap(leads), wrap(trails).to_owned() + style.end);
            let own = self.marked(&texts, (&open, &close), [leads, trails]);
            let Some(own) = self.ex.located(node, own)? else { continue };
            let marks = u32::try_from(close.chars().count()).unwrap_or(u32::MAX);
            match self.builder.bounded_length(
                "text",
                &own,
                &open,
                &character,
                None,
                max.saturating_add(marks),
            ) {
                Err(GrammarError::Uncountable { .. }) => return Ok(None),
                counted => made.push(counted?),
            }
        }
        Ok(Some(made))
    }

    /// These texts between marks: where a mark has nothing to take away, a text without it.
    fn marked(
        &mut self,
        texts: &Language,
        (open, close): (&str, &str),
        wraps: [bool; 2],
    ) -> Result<Language, RegexError> {
        let wrap = self.style().wrap;
        let mut own = texts.clone();
        for (mark, is_wrapped) in self.wrapped(wrap)?.into_iter().zip(wraps) {
            if !is_wrapped && !wrap.is_empty() {
                own = self.ex.languages.minus(&own, &mark)?;
            }
        }
        let (open, close) = (self.ex.languages.text(open)?, self.ex.languages.text(close)?);
        let own = self.ex.languages.join(&open, &own)?;
        self.ex.languages.join(&own, &close)
    }

    /// The member or item of a listed value.
    pub(super) fn constant_part(&mut self, name: Name<'_>, node: NodeId) -> Result<ExprId, SchemaError> {
        if self.form == Form::Json {
            let value = self.constant(node)?;
            return Ok(match name {
                Name::Listed(name) => self.member(name, value),
                _ => value,
            });
        }
        self.element_part(name, node)
    }

    /// As [`constant_part`](Self::constant_part), as an element. It is apart, so that values as JSON nest on a small
    /// stack.
    #[inline(never)]
    fn element_part(&mut self, name: Name<'_>, node: NodeId) -> Result<ExprId, SchemaError> {
        let types = type_of(self.ex.schemas.document.value(node));
        let form = self.form;
        self.form = if types & (ARRAY | OBJECT) != 0 { self.inside(Form::Element) } else { Form::Json };
        let value = if types == STRING { None } else { Some(self.constant(node)) };
        self.form = form;
        let mut shape = Shape { types, ..Shape::any() };
        if let Value::String(text) = self.ex.schemas.document.value(node).clone() {
            let own = self.ex.languages.text(&text);
            shape.strings = self.ex.located(Some(node), own)?;
        }
        self.listed_part(name, node, shape, value.transpose()?)
    }

    /// The item of one value of a set.
    pub(super) fn finite_element(
        &mut self,
        node: NodeId,
        value: &FiniteValue,
    ) -> Result<ExprId, SchemaError> {
        let (types, other, text) = match value {
            FiniteValue::Node(node) => return self.constant_part(Name::Item, *node),
            FiniteValue::Text(text) => (STRING, None, Some(text)),
            FiniteValue::Word(word) => {
                let types = if *word == "null" { NULL } else { TRUE };
                (types, Some(self.literal(*word)), None)
            }
            FiniteValue::Number(_, spelled) => (NUMBER, Some(self.terminal("number", spelled)), None),
        };
        let texts = text.map(|text| self.ex.languages.text(text)).transpose();
        let strings = self.ex.located(Some(node), texts)?.flatten();
        self.listed_part(Name::Item, node, Shape { types, strings, ..Shape::any() }, other)
    }

    /// The element of one value, which is a string of the shape if it is not `other`.
    fn listed_part(
        &mut self,
        name: Name<'_>,
        node: NodeId,
        shape: Shape,
        other: Option<ExprId>,
    ) -> Result<ExprId, SchemaError> {
        let types = shape.types;
        let value = self.in_element(Some(node), &[shape], other.into_iter().collect(), false)?;
        let word = self.style().types.iter().find(|(own, _)| bits(own) & types != 0).map(|(_, word)| *word);
        let made = match value {
            Some(value) => self.element(name, node, word.unwrap_or_default(), value)?,
            None => {
                let reason =
                    format!("a string with {:?} in it cannot be written in this style", self.style().end);
                self.ex.reject(node, "const", &reason, "leave the value out, or write the object as JSON");
                None
            }
        };
        Ok(made.unwrap_or_else(|| self.nothing()))
    }

    /// The types of a value, and whether a string has to be told apart from arrays and objects by its text.
    pub(super) fn types_in_element(&mut self, node: Option<NodeId>, shapes: &mut [Shape]) {
        let types = shapes.iter().fold(0, |all, shape| all | shape.types);
        self.has_parts = types & STRING != 0;
        if self.style().item.is_some() && types & (ARRAY | OBJECT) == ARRAY | OBJECT {
            let why = "an object reads as an array where there may be one, and is left out".to_owned();
            self.ex.narrow_down(node.unwrap_or(Document::ROOT), "", why);
            shapes.iter_mut().for_each(|shape| shape.types &= ALL & !OBJECT);
        }
    }
}

/// The text as a pattern.
fn escape(text: &str) -> String {
    text.chars().map(|c| format!(r"\x{{{:x}}}", u32::from(c))).collect()
}
