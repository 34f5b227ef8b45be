//! Regexes of a `tokenizer.json`, from the syntax of Oniguruma to that of `fancy-regex`.
//!
//! The `tokenizers` library compiles them with Oniguruma, which reads Ruby's syntax. Here they run on `fancy-regex`,
//! whose syntax looks the same and differs in meaning: `{1,3}+` is possessive there and a repetition of a repetition
//! in Ruby, `^` and `$` are the ends of the text there and of a line in Ruby, `(?m)` lets a dot match a line break in
//! Ruby, and `\w` is another set of characters. So each construct is written anew where it differs, left as it stands
//! where both engines agree, and refused where neither is known.
//!
//! The sets of characters were compared code point by code point, and translations on random texts, with the library
//! itself. It knows the Unicode version of `regex-syntax`: a property that both know by a name is the same set.
//!
//! Tried instead: refusing whatever differs. Then tokenizers with `\w` or `$` do not load, though both have an exact
//! translation.

mod sets;
#[cfg(test)]
mod tests;

use sets::{Member, WORD};

/// Pairs of letters that ignoring case also matches by one character (`ß`, `ﬆ`, `ﬀ`, `ﬁ`, `ﬂ`).
const LIGATURES: [(char, char); 5] = [('s', 's'), ('s', 't'), ('f', 'f'), ('f', 'i'), ('f', 'l')];

/// How deep groups and classes may nest.
const NEST_LIMIT: usize = 100;

/// A construct without an exact translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// Where it begins, in bytes.
    pub(crate) at: usize,
    pub(crate) construct: &'static str,
}

/// `pattern` in the syntax of `fancy-regex`.
pub(crate) fn translate(pattern: &str) -> Result<String, Refusal> {
    let mut translator = Translator {
        text: pattern,
        at: 0,
        out: String::with_capacity(pattern.len()),
        ignores_case: false,
        begun: Vec::new(),
        depth: 0,
    };
    translator.alternation()?;
    match translator.peek() {
        None => Ok(translator.out),
        Some(_) => Err(refusal(translator.at, "a group is closed that was not opened")),
    }
}

fn refusal(at: usize, construct: &'static str) -> Refusal {
    Refusal { at, construct }
}

struct Translator<'a> {
    text: &'a str,
    at: usize,
    out: String,
    ignores_case: bool,
    /// The letters with which a pair of [`LIGATURES`] may have begun right here, if case is ignored.
    begun: Vec<char>,
    depth: usize,
}

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It reads a character at least.
    Reads,
    /// It may match the empty text.
    MayBeEmpty,
    /// A condition or a comment, which cannot be repeated.
    Condition,
}

impl<'a> Translator<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn deeper(&mut self, from: usize) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > NEST_LIMIT { Err(refusal(from, "groups nest too deep")) } else { Ok(()) }
    }

    /// Up to the end of the group. Returns whether it may match the empty text.
    fn alternation(&mut self) -> Result<bool, Refusal> {
        let (mut may_be_empty, mut ends) = (false, Vec::new());
        let before = self.begun.clone();
        loop {
            let mut is_empty = true;
            while !matches!(self.peek(), None | Some('|' | ')')) {
                is_empty &= self.repeated()? != Part::Reads;
            }
            may_be_empty |= is_empty;
            ends.append(&mut self.begun);
            if !self.eat("|") {
                self.begun = ends;
                return Ok(may_be_empty);
            }
            self.out.push('|');
            self.begun.clone_from(&before);
        }
    }

    /// A part and its quantifier.
    fn repeated(&mut self) -> Result<Part, Refusal> {
        let (from, begin, begun) = (self.at, self.out.len(), self.begun.clone());
        let part = self.part()?;
        let quantifier = self.at;
        let (mut min, mut max, len) = match self.peek() {
            Some('?') => (0, Some(1), 1),
            Some('*') => (0, None, 1),
            Some('+') => (1, None, 1),
            _ => match interval(self.rest()) {
                Some(interval) => interval,
                None => return Ok(part),
            },
        };
        self.at += len;
        let text = &self.text[quantifier..self.at];
        let is_interval = text.starts_with('{');
        if part == Part::Condition {
            return Err(refusal(quantifier, "a quantifier behind a part that reads nothing"));
        }
        if max.is_some_and(|max| max < min) {
            return Err(refusal(quantifier, "an interval that ends before it begins"));
        }
        if is_interval && !self.begun.is_empty() {
            return Err(refusal(quantifier, "an interval behind `s` or `f` where case is ignored"));
        }
        let quantified = self.out.len();
        self.out.push_str(&text.replacen("{,", "{0,", 1));
        match self.peek() {
            // A repetition of the repetition of one character, which an engine would try in all its divisions.
            Some('+') if is_interval && min == 1 && !self.text[from..].starts_with('(') => {
                self.at += 1;
                max = None;
                self.out.truncate(quantified);
                self.out.push('+');
            }
            // A repetition of the repetition, neither possessive nor lazy.
            Some(again) if is_interval && (again == '+' || again == '?' && !text.contains(',')) => {
                self.at += 1;
                self.out.insert_str(begin, "(?:");
                self.out.push(')');
                self.out.push(again);
                if again == '+' { max = None } else { min = 0 }
            }
            Some(mode @ ('?' | '+')) => {
                self.at += 1;
                self.out.push(mode);
            }
            _ => {}
        }
        if max.is_none() && (part == Part::MayBeEmpty || is_interval && min == 0) {
            return Err(refusal(from, "a repetition without end of a part that may be empty"));
        }
        if matches!(self.peek(), Some('?' | '*' | '+')) || interval(self.rest()).is_some() {
            return Err(refusal(self.at, "a quantifier behind a quantifier"));
        }
        if min == 0 {
            self.begun.extend(begun);
            return Ok(Part::MayBeEmpty);
        }
        Ok(part)
    }

    fn part(&mut self) -> Result<Part, Refusal> {
        let from = self.at;
        let Some(char) = self.next() else { return Ok(Part::Condition) };
        match char {
            '(' => {
                self.deeper(from)?;
                let part = self.group(from);
                self.depth -= 1;
                return part;
            }
            '\\' => return self.escape(from),
            '^' => {
                self.out.push_str(r"(?:\A|(?<=\n)(?!\z))");
                return Ok(Part::Condition);
            }
            '$' => {
                self.out.push_str(r"(?=\n|\z)");
                return Ok(Part::Condition);
            }
            '.' => {
                self.out.push('.');
                self.begun.clear();
            }
            '[' => {
                self.class(from)?;
                self.begun.clear();
            }
            '*' | '+' | '?' => return Err(refusal(from, "there is nothing to repeat")),
            '{' if interval(&self.text[from..]).is_some() => {
                return Err(refusal(from, "there is nothing to repeat"));
            }
            char => self.literal(char, from)?,
        }
        Ok(Part::Reads)
    }

    fn literal(&mut self, char: char, from: usize) -> Result<(), Refusal> {
        if self.ignores_case && !char.is_ascii() {
            return Err(refusal(from, "a character beyond ASCII whose case is ignored"));
        }
        let lower = char.to_ascii_lowercase();
        if LIGATURES.iter().any(|(first, second)| self.begun.contains(first) && *second == lower) {
            return Err(refusal(from, "a pair of letters that is one character where case is ignored"));
        }
        self.begun.clear();
        if self.ignores_case && LIGATURES.iter().any(|(first, _)| *first == lower) {
            self.begun.push(lower);
        }
        push(&mut self.out, char, r"\.+*?()|[]{}^$");
        Ok(())
    }

    /// A group, behind its bracket at `from`.
    fn group(&mut self, from: usize) -> Result<Part, Refusal> {
        if !self.rest().starts_with('?') {
            self.out.push('(');
            return self.inside(from);
        }
        for kind in ["?:", "?>", "?=", "?!", "?<=", "?<!"] {
            if !self.eat(kind) {
                continue;
            }
            self.out.push('(');
            self.out.push_str(kind);
            if matches!(kind, "?:" | "?>") {
                return self.inside(from);
            }
            let begun = std::mem::take(&mut self.begun);
            self.inside(from)?;
            self.begun = begun;
            return Ok(Part::Condition);
        }
        if self.eat("?#") {
            let end = self.rest().find([')', '\\']).filter(|end| self.rest()[*end..].starts_with(')'));
            self.at += end.ok_or_else(|| refusal(from, "a comment without an end"))? + 1;
            return Ok(Part::Condition);
        }
        if self.eat("?<") || self.eat("?'") {
            let close = if self.text[..self.at].ends_with('<') { '>' } else { '\'' };
            let name = self.rest().split(close).next().unwrap_or_default();
            if name.is_empty() || !name.chars().all(|char| char.is_alphanumeric() || char == '_') {
                return Err(refusal(from, "a group with a name that is not one"));
            }
            self.at = self.text.len().min(self.at + name.len() + 1);
            self.out.push_str("(?:");
            return self.inside(from);
        }
        self.at += 1;
        self.flags(from)
    }

    /// The inside of a group, and its end.
    fn inside(&mut self, from: usize) -> Result<Part, Refusal> {
        let may_be_empty = self.alternation()?;
        if !self.eat(")") {
            return Err(refusal(from, "a group is not closed"));
        }
        self.out.push(')');
        Ok(if may_be_empty { Part::MayBeEmpty } else { Part::Reads })
    }

    /// Flags, for a group or for the rest of the group around them.
    fn flags(&mut self, from: usize) -> Result<Part, Refusal> {
        let (outer, mut on) = (self.ignores_case, true);
        self.out.push_str("(?");
        loop {
            let flag = self.next();
            match flag {
                Some('i') => {
                    self.ignores_case = on;
                    self.out.push('i');
                }
                // A dot matches a line break.
                Some('m') => self.out.push('s'),
                Some('-') if on => {
                    on = false;
                    self.out.push('-');
                }
                Some(end @ (':' | ')')) => {
                    if self.out.ends_with('-') {
                        self.out.pop();
                    }
                    self.out.push(':');
                    self.begun.clear();
                    let may_be_empty = self.alternation()?;
                    // Flags without a group of their own reach to the end of the group around them, over all of its
                    // alternatives.
                    if end == ':' && !self.eat(")") {
                        return Err(refusal(from, "a group is not closed"));
                    }
                    self.out.push(')');
                    self.ignores_case = outer;
                    self.begun.clear();
                    return Ok(if may_be_empty { Part::MayBeEmpty } else { Part::Reads });
                }
                Some('x') => return Err(refusal(from, "the flag `x`, for white space without meaning")),
                _ => return Err(refusal(from, "a group of a kind that is not known")),
            }
        }
    }

    /// An escape outside of a class, behind its backslash at `from`.
    fn escape(&mut self, from: usize) -> Result<Part, Refusal> {
        let condition = match self.peek() {
            Some('A') => r"\A".to_owned(),
            Some('z') => r"\z".to_owned(),
            Some('Z') => r"(?=\n?\z)".to_owned(),
            Some('b') => format!("(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"),
            Some('B') => format!("(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))"),
            _ => String::new(),
        };
        if !condition.is_empty() {
            self.at += 1;
            self.out.push_str(&condition);
            return Ok(Part::Condition);
        }
        match self.member(from, WORD)? {
            // As it stands, where both read it so.
            Member::Char(_) if self.text[from + 1..].starts_with(['n', 'r', 't', 'f', 'v']) => {
                self.begun.clear();
                self.out.push_str(&self.text[from..self.at]);
            }
            Member::Char(char) => self.literal(char, from)?,
            Member::Set(set) => {
                self.begun.clear();
                // A set by itself is not widened where case is ignored.
                self.out.push_str(if self.ignores_case { "(?-i:" } else { "" });
                let is_plain = set.starts_with('\\') && set.matches('\\').count() == 1;
                if is_plain || set.starts_with('[') && set.ends_with(']') && set.matches('[').count() == 1 {
                    self.out.push_str(&set);
                } else {
                    self.out.extend(["[", &set, "]"]);
                }
                self.out.push_str(if self.ignores_case { ")" } else { "" });
            }
        }
        Ok(Part::Reads)
    }
}

/// Writes `char`, escaped where it is one of `special`.
fn push(out: &mut String, char: char, special: &str) {
    if special.contains(char) {
        out.push('\\');
    }
    out.push(char);
}

/// The interval at the start of `text`: its bounds and its length. Any other text in braces is literal.
fn interval(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let (inner, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number above any limit becomes the largest one.
        digits.then(|| text.parse::<u32>().unwrap_or(u32::MAX))
    };
    let (min, max) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some(("", max)) => (0, Some(number(max)?)),
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    Some((min, max, inner.len() + 2))
}
