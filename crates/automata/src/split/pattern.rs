//! Split patterns to syntax trees over sets of characters.
//!
//! Split patterns are written for backtracking engines: they use look-ahead and possessive quantifiers, and
//! `regex-syntax` refuses both. So this file reads the outer syntax, and passes only classes to `regex-syntax`, which
//! knows Unicode. Patterns are in the syntax of `fancy-regex`, into which the loader of a `tokenizer.json` translates
//! those of Oniguruma. `$` is the end of the text, `{n,m}+` is possessive, `(?i:…)` folds characters one by one, POSIX
//! classes such as `[:alpha:]` are ASCII, and `--` and `~~` in a class are operators. Constructs that no pattern needs
//! are refused.
//!
//! Look-ahead is supported for one character or the end of the text. It is then a condition on the next symbol, which
//! the construction knows. Longer look-ahead could become a part of the automaton as well; no pattern in use has it.

mod escapes;

use std::ops::Range;

use super::{
    SplitError,
    chars::{Sets, View},
    limits::{Budget, SplitLimits},
};
use crate::{Place, dfa::CharSet};

/// A pattern over numbered sets of characters. In an alternation, and in the choice between another repetition and
/// the end of a loop, the first alternative that leads to a match wins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ast {
    Empty,
    /// One character of the set.
    Set(usize),
    /// The next character is in the set, or, if `end`, the text ends. Nothing is read.
    Look {
        set: usize,
        end: bool,
    },
    /// The start of the text.
    Start,
    Concat(Vec<Ast>),
    Alternation(Vec<Ast>),
    Repeat {
        part: Box<Ast>,
        min: u32,
        max: Option<u32>,
        lazy: bool,
    },
    /// As many characters of the set as possible, up to `max`, without giving any back.
    Possessive {
        set: usize,
        /// The number of the complement.
        others: usize,
        min: u32,
        max: Option<u32>,
    },
}

impl Ast {
    /// The lengths of the shortest and of the longest match, in characters, if all conditions hold.
    pub(super) fn width(&self) -> (u32, Option<u32>) {
        let times = |(low, high): (u32, Option<u32>), min: u32, max: Option<u32>| {
            let high = match (high, max) {
                (Some(0), _) => Some(0),
                (Some(high), Some(max)) => Some(high.saturating_mul(max)),
                _ => None,
            };
            (low.saturating_mul(min), high)
        };
        match self {
            Self::Empty | Self::Look { .. } | Self::Start => (0, Some(0)),
            Self::Set(_) => (1, Some(1)),
            Self::Concat(parts) => parts.iter().fold((0, Some(0)), |(low, high), part| {
                let (part_low, part_high) = part.width();
                (
                    low.saturating_add(part_low),
                    high.zip(part_high).map(|(left, right)| left.saturating_add(right)),
                )
            }),
            Self::Alternation(parts) => {
                let widths = parts.iter().map(Self::width);
                widths
                    .reduce(|left, right| {
                        (left.0.min(right.0), left.1.zip(right.1).map(|(left, right)| left.max(right)))
                    })
                    .unwrap_or((0, Some(0)))
            }
            Self::Repeat { part, min, max, .. } => times(part.width(), *min, *max),
            Self::Possessive { min, max, .. } => (*min, *max),
        }
    }
}

/// Parses `pattern`, the pattern of split step `step`, which sees texts through `view`.
pub(super) fn parse(
    pattern: &str,
    step: usize,
    view: View,
    sets: &mut Sets,
    budget: &mut Budget<'_>,
) -> Result<Ast, SplitError> {
    let limit = budget.limits.pattern_bytes;
    if pattern.len() > limit {
        return Err(SplitError::PatternTooLong { step, bytes: pattern.len(), limit });
    }
    let mut parser =
        Parser { text: pattern, at: 0, step, view, flags: Flags::default(), depth: 0, sets, budget };
    let ast = parser.alternation()?;
    match parser.peek() {
        None => Ok(ast),
        Some(_) => Err(parser.syntax("a group is closed that was not opened", parser.at)),
    }
}

/// The tree of a literal text.
pub(super) fn literal(
    text: &str,
    step: usize,
    view: View,
    sets: &mut Sets,
    budget: &mut Budget<'_>,
) -> Result<Ast, SplitError> {
    let limit = budget.limits.pattern_bytes;
    if text.len() > limit {
        return Err(SplitError::PatternTooLong { step, bytes: text.len(), limit });
    }
    let mut parser = Parser { text, at: 0, step, view, flags: Flags::default(), depth: 0, sets, budget };
    let mut parts = Vec::new();
    while let Some(char) = parser.next() {
        parts.push(parser.char(char, parser.at - char.len_utf8())?);
    }
    Ok(concat(parts))
}

/// The characters of words, by the definition of the library that matches added tokens.
pub(super) fn word(budget: &mut Budget<'_>) -> Result<CharSet, SplitError> {
    let mut sets = Sets::default();
    Ok(match parse(r"\w", 0, View::Text, &mut sets, budget)? {
        Ast::Set(number) => sets.get(number).clone(),
        _ => CharSet::default(),
    })
}

fn concat(mut parts: Vec<Ast>) -> Ast {
    match parts.len() {
        0 => Ast::Empty,
        1 => parts.remove(0),
        _ => Ast::Concat(parts),
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    dot_newline: bool,
}

struct Parser<'p, 'l> {
    text: &'p str,
    at: usize,
    step: usize,
    view: View,
    flags: Flags,
    depth: usize,
    sets: &'p mut Sets,
    budget: &'p mut Budget<'l>,
}

impl Parser<'_, '_> {
    fn rest(&self) -> &str {
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

    /// The range from `from` to the current position, or one character.
    fn place(&self, from: usize) -> Place {
        let one = self.text[from..].chars().next().map_or(0, char::len_utf8);
        place(self.text, from..self.at.max(from + one))
    }

    fn syntax(&self, message: &str, from: usize) -> SplitError {
        SplitError::Syntax { step: self.step, message: message.to_owned(), place: self.place(from) }
    }

    fn unsupported(&self, construct: &'static str, from: usize) -> SplitError {
        SplitError::Unsupported { step: self.step, construct, place: self.place(from) }
    }

    fn alternation(&mut self) -> Result<Ast, SplitError> {
        let mut branches = vec![self.branch()?];
        while self.eat("|") {
            branches.push(self.branch()?);
        }
        if branches.len() == 1 {
            return Ok(branches.remove(0));
        }
        // Alternatives of one character each have the same continuation, so their order does not matter.
        let mut union = CharSet::default();
        for branch in &branches {
            let Ast::Set(number) = branch else { return Ok(Ast::Alternation(branches)) };
            let set = self.sets.get(*number);
            self.budget.spend(union.ranges().len() + set.ranges().len())?;
            union = union.union(set);
        }
        Ok(Ast::Set(self.add(union, self.at)?))
    }

    fn branch(&mut self) -> Result<Ast, SplitError> {
        let mut parts = Vec::new();
        while !matches!(self.peek(), None | Some('|' | ')')) {
            match self.piece()? {
                Ast::Empty => {}
                part => parts.push(part),
            }
        }
        Ok(concat(parts))
    }

    fn piece(&mut self) -> Result<Ast, SplitError> {
        let from = self.at;
        let atom = self.atom()?;
        let quantifier = self.at;
        let Some((min, max, interval)) = self.quantifier()? else { return Ok(atom) };
        let lazy = self.eat("?");
        let possessive = self.eat("+");
        if lazy && (possessive || interval && max == Some(min)) {
            // `{n}?` is lazy in one engine and optional in the other.
            return Err(self.unsupported("this mix of quantifiers", quantifier));
        }
        let end = self.at;
        if self.quantifier()?.is_some() {
            return Err(self.unsupported("a quantifier after a quantifier", end));
        }
        if matches!(atom, Ast::Empty | Ast::Look { .. } | Ast::Start) {
            return Err(self.unsupported("a quantifier after a part that reads nothing", quantifier));
        }
        if max.is_none() && atom.width().0 == 0 {
            return Err(
                self.unsupported("a repetition without bound of a part that can match the empty text", from)
            );
        }
        let repeat = Ast::Repeat { part: Box::new(atom), min, max, lazy };
        if possessive { self.atomic(repeat, from) } else { Ok(repeat) }
    }

    /// `?`, `*`, `+` or an interval: its bounds, and whether it is an interval.
    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>, bool)>, SplitError> {
        let from = self.at;
        let bounds = match self.peek() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                if self.rest().starts_with("{,}") {
                    return Err(self.unsupported("an interval without bounds", from));
                }
                let Some((min, max, len)) = interval(self.rest()) else { return Ok(None) };
                self.at += len;
                if max.is_some_and(|max| max < min) {
                    return Err(self.syntax("the interval ends before it begins", from));
                }
                return Ok(Some((min, max, true)));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some((bounds.0, bounds.1, false)))
    }

    /// `part` without backtracking into it.
    fn atomic(&mut self, part: Ast, from: usize) -> Result<Ast, SplitError> {
        match part {
            Ast::Set(_) => Ok(part),
            Ast::Repeat { part, min, max, lazy: false } if matches!(*part, Ast::Set(_)) => {
                let Ast::Set(set) = *part else { unreachable!("checked by the guard") };
                let others = self.add(self.sets.get(set).complement(), from)?;
                Ok(Ast::Possessive { set, others, min, max })
            }
            _ => Err(self.unsupported(
                "a possessive quantifier or an atomic group around more than a repeated character",
                from,
            )),
        }
    }

    fn atom(&mut self) -> Result<Ast, SplitError> {
        let from = self.at;
        if self.rest().starts_with('{') && interval(self.rest()).is_some() {
            return Err(self.syntax("there is nothing to repeat", from));
        }
        let Some(char) = self.next() else { return Ok(Ast::Empty) };
        match char {
            '.' => {
                let newline = CharSet::from_iter(['\n']);
                let excluded = if self.flags.dot_newline { CharSet::default() } else { newline };
                Ok(Ast::Set(self.add(self.view.seen(excluded.complement()), from)?))
            }
            '^' => Ok(Ast::Start),
            '$' => self.end(from),
            '(' => {
                self.depth += 1;
                let limit = self.budget.limits.nest.min(SplitLimits::MAX_NEST);
                if self.depth > limit {
                    return Err(SplitError::NestTooDeep { step: self.step, limit, place: self.place(from) });
                }
                let flags = self.flags;
                let group = self.group(from)?;
                self.depth -= 1;
                if group.is_some() {
                    self.flags = flags;
                }
                Ok(group.unwrap_or(Ast::Empty))
            }
            '[' => {
                let text = self.class(from)?;
                self.set(&text, from)
            }
            '\\' => self.escaped(from),
            '*' | '+' | '?' => Err(self.syntax("there is nothing to repeat", from)),
            char => self.char(char, from),
        }
    }

    fn end(&mut self, from: usize) -> Result<Ast, SplitError> {
        Ok(Ast::Look { set: self.add(CharSet::default(), from)?, end: true })
    }

    /// The inside of a group that begins at `from`, and its end. `None` if the group only sets flags.
    fn group(&mut self, from: usize) -> Result<Option<Ast>, SplitError> {
        if !self.eat("?") {
            return self.inside(from).map(Some);
        }
        if self.eat("=") || self.eat("!") {
            let negative = self.text[..self.at].ends_with('!');
            let inside = self.inside(from)?;
            return self.look(&inside, negative, from).map(Some);
        }
        if self.eat("<=") || self.eat("<!") {
            return Err(self.unsupported("look-behind", from));
        }
        if self.eat("#") {
            return Err(self.unsupported("a comment", from));
        }
        if self.eat("(") {
            return Err(self.unsupported("a conditional group", from));
        }
        if self.eat("P=") || self.eat("P>") {
            return Err(self.unsupported("a back-reference or a call of a group", from));
        }
        if self.eat(">") {
            let inside = self.inside(from)?;
            return self.atomic(inside, from).map(Some);
        }
        if self.eat("P<") || self.eat("<") || self.eat("'") {
            let close = if self.text[..self.at].ends_with('\'') { '\'' } else { '>' };
            let name = self.rest().split(close).next().unwrap_or("");
            let len = name.len();
            if len == 0 || !name.chars().all(|char| char.is_alphanumeric() || char == '_') {
                return Err(self.syntax("a group with a name that is not one", from));
            }
            self.at += len;
            if !self.eat(">") && !self.eat("'") {
                return Err(self.syntax("a group with a name that is not one", from));
            }
            return self.inside(from).map(Some);
        }
        let mut on = true;
        while let Some(char) = self.next() {
            match char {
                'i' => self.flags.ignore_case = on,
                's' => self.flags.dot_newline = on,
                'u' if on => {}
                '-' if on => on = false,
                ':' => return self.inside(from).map(Some),
                // Engines differ in the scope of such flags: up to the next `|`, or to the end of the group.
                ')' if from > 0 => {
                    return Err(self.unsupported("setting flags in the middle of the pattern", from));
                }
                ')' => return Ok(None),
                'm' | 'x' | 'U' => return Err(self.unsupported("a flag other than `i`, `s` and `u`", from)),
                _ => return Err(self.syntax("a group of an unknown kind", from)),
            }
        }
        Err(self.syntax("a group is not closed", from))
    }

    fn inside(&mut self, from: usize) -> Result<Ast, SplitError> {
        let inside = self.alternation()?;
        if !self.eat(")") {
            return Err(self.syntax("a group is not closed", from));
        }
        Ok(inside)
    }

    /// Look-ahead at `inside`.
    fn look(&mut self, inside: &Ast, negative: bool, from: usize) -> Result<Ast, SplitError> {
        let parts = match inside {
            Ast::Alternation(parts) => &parts[..],
            one => std::slice::from_ref(one),
        };
        let (mut set, mut end) = (CharSet::default(), false);
        for part in parts {
            let number = match part {
                Ast::Set(number) => *number,
                // Look-ahead at a look-ahead is that look-ahead.
                Ast::Look { set, end: at_end } => {
                    end |= *at_end;
                    *set
                }
                _ => {
                    return Err(self.unsupported(
                        "look-ahead at anything but one character or the end of the text",
                        from,
                    ));
                }
            };
            let part = self.sets.get(number);
            self.budget.spend(set.ranges().len() + part.ranges().len())?;
            set = set.union(part);
        }
        if negative {
            (set, end) = (set.complement(), !end);
        }
        Ok(Ast::Look { set: self.add(set, from)?, end })
    }

    /// The number of a set, which is in the view of the step already. Sets that are computed from others keep their
    /// view.
    fn add(&mut self, set: CharSet, from: usize) -> Result<usize, SplitError> {
        self.budget.spend(1 + set.ranges().len())?;
        let number = self.sets.add(set);
        let limit = self.budget.limits.sets;
        if self.sets.len() > limit {
            return Err(SplitError::TooManySets { step: self.step, limit, place: self.place(from) });
        }
        Ok(number)
    }
}

/// The interval at the start of `text`: its bounds and its length. Any other text in braces is literal.
fn interval(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let inner = text.strip_prefix('{')?;
    let inner = &inner[..inner.find('}')?];
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number above any limit becomes the largest one.
        digits.then(|| text.parse::<u32>().unwrap_or(u32::MAX))
    };
    let (min, max) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some(("", "")) => return None,
        Some(("", max)) => (0, Some(number(max)?)),
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    Some((min, max, inner.len() + 2))
}

fn place(text: &str, span: Range<usize>) -> Place {
    let before = &text[..span.start];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place {
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        span,
    }
}
