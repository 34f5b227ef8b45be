//! What is written: rules over texts, classes of characters, tokens and other rules.
//!
//! Forms are kept once, parts before the whole, so equal parts of a grammar are one form, which the text then has
//! once, as a rule. The constructors simplify: neighbouring texts become one, alternatives of one character become a
//! class, and a repeated neighbour becomes a count.

use hashbrown::{HashMap, HashSet};
use unskew_core::{id, ids::Table};

id! {
    /// A form.
    FormId
}

id! {
    /// A rule of the text.
    Written
}

/// The greatest bound that llama.cpp counts; it reads a greater one as none.
pub(super) const MAX_COUNT: u32 = 2000;

/// The greatest depth of forms. Deeper ones get rules, so that nothing here and in readers nests without a bound.
const MAX_DEPTH: u32 = 12;

/// The most parts of a list that becomes a part of another. Without a bound, shared lists double with each level.
const MAX_MERGED: usize = 64;

/// The greatest length of a text that is joined from two.
const MAX_JOINED: usize = 1 << 10;

/// A range of code points, inclusive.
pub(super) type Range = (u32, u32);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Form {
    Empty,
    /// At least one character.
    Text(Box<str>),
    /// One character of ranges that ascend and do not touch.
    Class(Box<[Range]>),
    /// A token in its notation.
    Token(Box<str>),
    Rule(Written),
    Sequence(Box<[FormId]>),
    /// None of the alternatives is the empty form.
    Choice(Box<[FormId]>),
    Repeat(FormId, u32, Option<u32>),
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    /// `None` until it is known.
    pub(super) body: Option<FormId>,
}

#[derive(Default)]
pub(super) struct Forms {
    forms: Table<FormId, Form>,
    ids: HashMap<Form, FormId>,
    depth: Table<FormId, u32>,
    pub(super) rules: Table<Written, Rule>,
}

impl Forms {
    pub(super) fn form(&self, of: FormId) -> &Form {
        &self.forms[of]
    }

    /// The number of forms.
    pub(super) fn len(&self) -> usize {
        self.forms.len()
    }

    pub(super) fn rule(&mut self, name: &str) -> Written {
        self.rules.push(Rule { name: name.to_owned(), body: None })
    }

    pub(super) fn define(&mut self, rule: Written, body: FormId) {
        self.rules[rule].body = Some(body);
    }

    pub(super) fn body(&self, rule: Written) -> FormId {
        self.rules[rule].body.expect("each rule is defined")
    }

    /// The forms of which `form` consists.
    pub(super) fn parts(&self, form: FormId) -> &[FormId] {
        match &self.forms[form] {
            Form::Sequence(parts) | Form::Choice(parts) => parts,
            Form::Repeat(item, ..) => std::slice::from_ref(item),
            Form::Empty | Form::Text(_) | Form::Class(_) | Form::Token(_) | Form::Rule(_) => &[],
        }
    }

    /// All forms of `roots` that are not `done`, parts before the whole. Those in rules that they call are not
    /// among them.
    pub(super) fn inside(
        &self,
        roots: impl IntoIterator<Item = FormId>,
        done: &mut HashSet<FormId>,
    ) -> Vec<FormId> {
        let mut open: Vec<FormId> = roots.into_iter().filter(|root| done.insert(*root)).collect();
        let mut found = vec![];
        while let Some(form) = open.pop() {
            found.push(form);
            open.extend(self.parts(form).iter().copied().filter(|part| done.insert(*part)));
        }
        found.sort_unstable();
        found
    }

    /// The rules that `start` calls, over others too, itself first.
    pub(super) fn reached(&self, start: Written) -> Vec<Written> {
        let (mut rules, mut done) = (vec![start], HashSet::new());
        let mut seen: HashSet<Written> = HashSet::from_iter([start]);
        let mut at = 0;
        while let Some(rule) = rules.get(at) {
            for form in self.inside([self.body(*rule)], &mut done) {
                if let Form::Rule(called) = self.forms[form]
                    && seen.insert(called)
                {
                    rules.push(called);
                }
            }
            at += 1;
        }
        rules
    }

    fn intern(&mut self, form: Form) -> FormId {
        if let Some(known) = self.ids.get(&form) {
            return *known;
        }
        let new = self.forms.push(form.clone());
        self.ids.insert(form, new);
        let depth = self.parts(new).iter().map(|part| self.depth[*part] + 1).max().unwrap_or(0);
        self.depth.push(depth);
        new
    }

    /// `form`, or a rule of it if it is deep.
    fn shallow(&mut self, form: FormId) -> FormId {
        if self.depth[form] < MAX_DEPTH {
            return form;
        }
        let rule = self.rule("part");
        self.define(rule, form);
        self.call(rule)
    }

    pub(super) fn empty(&mut self) -> FormId {
        self.intern(Form::Empty)
    }

    pub(super) fn text(&mut self, text: &str) -> FormId {
        if text.is_empty() { self.empty() } else { self.intern(Form::Text(text.into())) }
    }

    pub(super) fn token(&mut self, notation: &str) -> FormId {
        self.intern(Form::Token(notation.into()))
    }

    pub(super) fn call(&mut self, rule: Written) -> FormId {
        self.intern(Form::Rule(rule))
    }

    /// One character of `ranges`, of which there is at least one.
    pub(super) fn class(&mut self, mut ranges: Vec<Range>) -> FormId {
        ranges.sort_unstable();
        let mut merged: Vec<Range> = vec![];
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        match merged[..] {
            [(first, last)] if first == last && char::from_u32(first).is_some() => {
                let char = char::from_u32(first).expect("it is one").to_string();
                self.text(&char)
            }
            _ => self.intern(Form::Class(merged.into())),
        }
    }

    /// The ranges of a form of one character.
    fn ranges(&self, form: FormId) -> Option<Vec<Range>> {
        match &self.forms[form] {
            Form::Class(ranges) => Some(ranges.to_vec()),
            Form::Text(text) => {
                let mut chars = text.chars();
                let first = u32::from(chars.next()?);
                chars.next().is_none().then(|| vec![(first, first)])
            }
            _ => None,
        }
    }

    /// The item and the bounds of a form that neighbours of the same item can join.
    fn counted(&self, form: FormId) -> (FormId, u32, Option<u32>) {
        match self.forms[form] {
            Form::Repeat(item, min, max) => (item, min, max),
            _ => (form, 1, Some(1)),
        }
    }

    pub(super) fn sequence(&mut self, parts: impl IntoIterator<Item = FormId>) -> FormId {
        let mut list: Vec<FormId> = vec![];
        for part in parts {
            match &self.forms[part] {
                Form::Sequence(inner) if inner.len() <= MAX_MERGED => {
                    for part in inner.clone() {
                        self.append(&mut list, part);
                    }
                }
                _ => self.append(&mut list, part),
            }
        }
        match list[..] {
            [] => self.empty(),
            [only] => only,
            _ => {
                let list = list.into_iter().map(|part| self.shallow(part)).collect();
                self.intern(Form::Sequence(list))
            }
        }
    }

    fn append(&mut self, list: &mut Vec<FormId>, part: FormId) {
        if self.forms[part] == Form::Empty {
            return;
        }
        let Some(before) = list.last().copied() else { return list.push(part) };
        if let (Form::Text(left), Form::Text(right)) = (&self.forms[before], &self.forms[part])
            && left.len() + right.len() <= MAX_JOINED
        {
            let joined = [&**left, right].concat();
            list.pop();
            return list.push(self.text(&joined));
        }
        let ((left, min, max), (right, more, most)) = (self.counted(before), self.counted(part));
        let joined = (min.saturating_add(more), max.zip(most).map(|(max, most)| max.saturating_add(most)));
        if left == right
            && joined.1.unwrap_or(joined.0) <= MAX_COUNT
            && !matches!(self.forms[left], Form::Text(_))
        {
            list.pop();
            return list.push(self.repeat(left, joined.0, joined.1));
        }
        list.push(part);
    }

    /// One of the alternatives, of which there is at least one.
    pub(super) fn choice(&mut self, alternatives: impl IntoIterator<Item = FormId>) -> FormId {
        let (mut flat, mut is_nullable) = (vec![], false);
        for form in alternatives {
            let (item, is_optional) = match self.forms[form] {
                Form::Repeat(item, 0, Some(1)) => (item, true),
                _ => (form, false),
            };
            is_nullable |= is_optional;
            match &self.forms[item] {
                Form::Choice(inner) if inner.len() <= MAX_MERGED => flat.extend(inner),
                Form::Empty => is_nullable = true,
                _ => flat.push(item),
            }
        }
        let (mut list, mut seen) = (vec![], HashSet::new());
        let (mut class, mut class_at) = (vec![], None);
        for form in flat {
            match self.ranges(form) {
                Some(ranges) => {
                    class_at.get_or_insert(list.len());
                    class.extend(ranges);
                }
                None if seen.insert(form) => list.push(form),
                None => {}
            }
        }
        if let Some(at) = class_at {
            let class = self.class(class);
            list.insert(at, class);
        }
        let list: Vec<FormId> = list.into_iter().map(|part| self.shallow(part)).collect();
        let made = match list[..] {
            [] => return self.empty(),
            [only] => only,
            _ => self.intern(Form::Choice(list.into())),
        };
        if is_nullable { self.repeat(made, 0, Some(1)) } else { made }
    }

    pub(super) fn optional(&mut self, form: FormId) -> FormId {
        self.repeat(form, 0, Some(1))
    }

    /// `item` at least `min` and at most `max` times. Bounds beyond those of readers are written in blocks.
    pub(super) fn repeat(&mut self, item: FormId, min: u32, max: Option<u32>) -> FormId {
        let (item, min, max) = match (&self.forms[item], min, max) {
            (Form::Empty, ..) | (_, _, Some(0)) => return self.empty(),
            (_, 1, Some(1)) => return item,
            // The inner one may be left out, or is without a bound.
            (&Form::Repeat(inner, 0 | 1, None), 0 | 1, _) => {
                let is_nullable = min == 0 || matches!(self.forms[item], Form::Repeat(_, 0, _));
                (inner, u32::from(!is_nullable), None)
            }
            (&Form::Repeat(inner, 0, Some(1)), _, None) => (inner, 0, None),
            (&Form::Repeat(inner, 0, most), 0, Some(1)) => (inner, 0, most),
            (&Form::Repeat(inner, 0, Some(1)), _, Some(max)) => (inner, 0, Some(max)),
            _ => (item, min, max),
        };
        if max.unwrap_or(min) <= MAX_COUNT {
            let item = self.shallow(item);
            return self.intern(Form::Repeat(item, min, max));
        }
        /// The items of a block, so that a block and the items after the last one are counted.
        const BLOCK: u32 = MAX_COUNT / 2;
        let rule = self.rule("repeated");
        let block = self.repeat(item, BLOCK, Some(BLOCK));
        self.define(rule, block);
        let block = self.call(rule);
        let (blocks, rest) = (min / BLOCK, min % BLOCK);
        let mut parts = vec![self.repeat(block, blocks, Some(blocks)), self.repeat(item, rest, Some(rest))];
        match max {
            None => parts.push(self.repeat(item, 0, None)),
            // All numbers up to the difference are some blocks and at most two blocks of single items.
            Some(max) => {
                let left = max - min;
                let whole = (left / BLOCK).saturating_sub(1);
                parts.push(self.repeat(block, 0, Some(whole)));
                parts.push(self.repeat(item, 0, Some(left - whole * BLOCK)));
            }
        }
        self.sequence(parts)
    }

    /// The same form of other parts.
    pub(super) fn with_parts(&mut self, form: FormId, mut new: impl FnMut(FormId) -> FormId) -> FormId {
        match self.forms[form].clone() {
            Form::Sequence(parts) => self.sequence(parts.into_iter().map(new).collect::<Vec<_>>()),
            Form::Choice(parts) => self.choice(parts.into_iter().map(new).collect::<Vec<_>>()),
            Form::Repeat(item, min, max) => self.repeat(new(item), min, max),
            Form::Empty | Form::Text(_) | Form::Class(_) | Form::Token(_) | Form::Rule(_) => form,
        }
    }
}
