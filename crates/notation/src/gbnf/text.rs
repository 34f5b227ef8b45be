//! Forms as a text in GBNF.
//!
//! A form that is used several times and is not short gets a rule, and so does one that a reader would count too
//! often: llama.cpp makes a rule for each group, and refuses a repetition of more than 2,000 of them.

use std::{collections::VecDeque, fmt::Write as _};

use hashbrown::{HashMap, HashSet};

use super::forms::{Form, FormId, Forms, Range, Written};

/// The least length of a form with several uses that gets a rule, in bytes, and of one that has a name.
const SHARED: usize = 24;
const NAMED: usize = 14;

/// The most rules that a reader makes of a group.
const MAX_GROUP: usize = 300;

/// The longest name of a rule that a name of the grammar becomes.
const MAX_NAME: usize = 24;

/// The last code point.
const LAST: u32 = 0x10_ffff;

impl Forms {
    /// The text of the rules that `start` calls; `None` if it is longer than `max_bytes`.
    pub(super) fn printed(
        &self,
        start: Written,
        names: &HashMap<FormId, String>,
        max_bytes: usize,
    ) -> Option<String> {
        let mut printer = Printer {
            forms: self,
            names,
            shared: self.shared(start, names),
            of_rule: HashMap::new(),
            of_form: HashMap::new(),
            numbers: HashMap::from_iter([("root".to_owned(), 1)]),
            open: VecDeque::from([("root".to_owned(), self.body(start))]),
            text: String::new(),
        };
        printer.of_rule.insert(start, "root".to_owned());
        while let Some((name, body)) = printer.open.pop_front() {
            printer.text += &name;
            printer.text += " ::= ";
            printer.form(body, Place::Rule, true);
            printer.text.push('\n');
            if printer.text.len() > max_bytes {
                return None;
            }
        }
        Some(printer.text)
    }

    /// The forms that get rules, or are the bodies of some.
    fn shared(&self, start: Written, names: &HashMap<FormId, String>) -> HashMap<FormId, Option<Written>> {
        let rules = self.reached(start);
        let bodies: HashMap<FormId, Written> =
            rules.iter().rev().map(|rule| (self.body(*rule), *rule)).collect();
        let all = self.inside(bodies.keys().copied(), &mut HashSet::new());
        let mut uses: HashMap<FormId, usize> = HashMap::new();
        bodies.keys().for_each(|body| *uses.entry(*body).or_default() += 1);
        for form in &all {
            self.parts(*form).iter().for_each(|part| *uses.entry(*part).or_default() += 1);
        }
        let mut shared: HashMap<FormId, Option<Written>> = HashMap::new();
        // By form: its length, and the rules that a reader makes of it.
        let mut sizes: HashMap<FormId, (usize, usize)> = HashMap::new();
        for form in all {
            let parts = self.parts(form);
            let (bytes, made) = parts
                .iter()
                .fold((0, 0), |(bytes, made), part| (bytes + sizes[part].0 + 2, made + sizes[part].1));
            let mut size = match self.form(form) {
                Form::Empty | Form::Rule(_) => (8, 1),
                Form::Text(text) | Form::Token(text) => (text.len() + 2, 0),
                Form::Class(ranges) => (ranges.len() * 4 + 2, 0),
                Form::Sequence(_) | Form::Choice(_) => (bytes, made + 1),
                Form::Repeat(item, min, max) => {
                    let is_counted = *min > 1 || max.is_some_and(|max| max > 1);
                    let is_atom = matches!(
                        self.form(*item),
                        Form::Text(_) | Form::Class(_) | Form::Token(_) | Form::Rule(_)
                    );
                    if is_counted && !is_atom {
                        shared.entry(*item).or_insert_with(|| bodies.get(item).copied());
                    }
                    (bytes + 4, made + 1 + max.map_or(0, |max| (max - min) as usize))
                }
            };
            let least = if names.contains_key(&form) { NAMED } else { SHARED };
            let is_often = uses.get(&form).is_some_and(|uses| *uses > 1) && size.0 >= least;
            if is_often || size.1 > MAX_GROUP {
                shared.insert(form, bodies.get(&form).copied());
                size = (8, 1);
            }
            sizes.insert(form, size);
        }
        shared
    }
}

/// What stands around a form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Rule,
    Choice,
    Sequence,
    Repeat,
}

struct Printer<'f> {
    forms: &'f Forms,
    names: &'f HashMap<FormId, String>,
    shared: HashMap<FormId, Option<Written>>,
    of_rule: HashMap<Written, String>,
    of_form: HashMap<FormId, String>,
    /// By name, the number of its last use.
    numbers: HashMap<String, usize>,
    open: VecDeque<(String, FormId)>,
    text: String,
}

impl Printer<'_> {
    fn form(&mut self, form: FormId, place: Place, is_body: bool) {
        if !is_body && let Some(rule) = self.shared.get(&form).copied() {
            match rule {
                Some(rule) => self.rule(rule),
                None => self.hoisted(form),
            }
            return;
        }
        // Forms are not deep.
        match self.forms.form(form) {
            Form::Empty => self.text += "\"\"",
            Form::Text(text) => {
                self.text.push('"');
                text.chars().for_each(|char| character(&mut self.text, u32::from(char), "\"\\"));
                self.text.push('"');
            }
            Form::Class(ranges) => class(&mut self.text, ranges),
            Form::Token(notation) => self.text += notation,
            Form::Rule(rule) => self.rule(*rule),
            Form::Sequence(parts) => self.list(parts, " ", Place::Sequence, place == Place::Repeat),
            Form::Choice(parts) => {
                let in_brackets = matches!(place, Place::Sequence | Place::Repeat);
                self.list(parts, " | ", Place::Choice, in_brackets);
            }
            Form::Repeat(item, min, max) => {
                if place == Place::Repeat {
                    self.text.push('(');
                }
                self.form(*item, Place::Repeat, false);
                _ = match (min, max) {
                    (0, None) => write!(self.text, "*"),
                    (1, None) => write!(self.text, "+"),
                    (0, Some(1)) => write!(self.text, "?"),
                    (min, None) => write!(self.text, "{{{min},}}"),
                    (min, Some(max)) if min == max => write!(self.text, "{{{min}}}"),
                    (min, Some(max)) => write!(self.text, "{{{min},{max}}}"),
                };
                if place == Place::Repeat {
                    self.text.push(')');
                }
            }
        }
    }

    fn list(&mut self, parts: &[FormId], between: &str, place: Place, in_brackets: bool) {
        if in_brackets {
            self.text.push('(');
        }
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.text += between;
            }
            self.form(*part, place, false);
        }
        if in_brackets {
            self.text.push(')');
        }
    }

    fn rule(&mut self, rule: Written) {
        let name = match self.of_rule.get(&rule) {
            Some(known) => known.clone(),
            None => {
                let name = self.name(&self.forms.rules[rule].name);
                self.of_rule.insert(rule, name.clone());
                self.open.push_back((name.clone(), self.forms.body(rule)));
                name
            }
        };
        self.text += &name;
    }

    fn hoisted(&mut self, form: FormId) {
        let name = match self.of_form.get(&form) {
            Some(known) => known.clone(),
            None => {
                let name = self.name(self.names.get(&form).map_or("part", |name| name));
                self.of_form.insert(form, name.clone());
                self.open.push_back((name.clone(), form));
                name
            }
        };
        self.text += &name;
    }

    /// A name for a rule that no other has.
    fn name(&mut self, wanted: &str) -> String {
        let base = plain_name(wanted);
        loop {
            let number = self.numbers.entry(base.clone()).or_default();
            *number += 1;
            let name = if *number == 1 { base.clone() } else { format!("{base}-{number}") };
            // The name with a number may be the name of another rule.
            if name == base || !self.numbers.contains_key(&name) {
                self.numbers.entry(name.clone()).or_insert(1);
                return name;
            }
        }
    }
}

/// A name in letters, digits and `-`: the last two steps of a pointer, or the words of another name.
fn plain_name(wanted: &str) -> String {
    // Of the place in another document, the pointer; of a whole document, the end of its name.
    let pointer = wanted.split_once("://").map_or(wanted, |(_, rest)| match rest.split_once('#') {
        Some((document, "")) => document.rsplit('/').next().unwrap_or_default(),
        Some((_, pointer)) => pointer,
        None => rest,
    });
    let steps: Vec<&str> = pointer
        .split('/')
        .filter(|step| !matches!(*step, "#" | "" | "properties" | "$defs" | "definitions"))
        .collect();
    let mut name = String::new();
    for char in steps[steps.len().saturating_sub(2)..].join("-").chars() {
        match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(char),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
        if name.len() == MAX_NAME {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    match name.bytes().next() {
        None => "part".to_owned(),
        Some(b'0'..=b'9') => format!("r{name}"),
        Some(_) => name.to_owned(),
    }
}

/// Writes a character, with a backslash before those of `special`.
fn character(text: &mut String, point: u32, special: &str) {
    _ = match char::from_u32(point) {
        Some('\n') => write!(text, "\\n"),
        Some('\r') => write!(text, "\\r"),
        Some('\t') => write!(text, "\\t"),
        Some(char) if special.contains(char) => write!(text, "\\{char}"),
        Some(char) if (' '..='~').contains(&char) => write!(text, "{char}"),
        Some(char) if char.is_alphanumeric() => write!(text, "{char}"),
        _ if point <= 0xff => write!(text, "\\x{point:02X}"),
        _ if point <= 0xffff => write!(text, "\\u{point:04X}"),
        _ => write!(text, "\\U{point:08X}"),
    };
}

/// Writes a class of characters. One that leaves out some beyond ASCII is written as what it has.
fn class(text: &mut String, ranges: &[Range]) {
    let (mut own, mut others): (Vec<Range>, Vec<Range>) = (vec![], vec![]);
    let mut next = 0;
    for (first, last) in ranges.iter().copied() {
        match own.last_mut() {
            // Surrogates are no characters.
            Some(before) if (next, first) == (0xd800, 0xe000) => before.1 = last,
            _ => {
                own.push((first, last));
                if first > next {
                    others.push((next, first - 1));
                }
            }
        }
        next = last + 1;
    }
    if next <= LAST {
        others.push((next, LAST));
    }
    if others.is_empty() {
        text.push('.');
        return;
    }
    text.push('[');
    if others.iter().all(|(_, last)| *last < 0x80) {
        text.push('^');
        own = others;
    }
    for (first, last) in own {
        one_of_class(text, first);
        if last > first {
            if last > first + 1 {
                text.push('-');
            }
            one_of_class(text, last);
        }
    }
    text.push(']');
}

fn one_of_class(text: &mut String, point: u32) {
    match point {
        // At the beginning it would exclude what follows, and it has no other escape.
        0x5e => *text += "\\x5E",
        // Alone, many of them are marks, which are shown on the character before.
        0x80..=0xff => _ = write!(text, "\\x{point:02X}"),
        0x100..=0xffff => _ = write!(text, "\\u{point:04X}"),
        0x1_0000.. => _ = write!(text, "\\U{point:08X}"),
        _ => character(text, point, "[]\\-"),
    }
}
