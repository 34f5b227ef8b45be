//! The dialects of Python, ECMA-262 and XGrammar, to the tree that `regex-syntax` has.
//!
//! A text is read once, from left to right, and each part becomes its node at once: `a|[b-d]+` gives the literal, the
//! class and its repetition, and the end of the text makes the alternation. Open groups are on a stack, so that nesting
//! takes no stack of the machine. The differences between the dialects stand here, in `groups`, in `escapes` and in
//! `case`.
//!
//! Tried instead: writing each dialect anew in the syntax of the crate `regex`, as two readers did. The places of
//! errors were lost, classes were printed and read again, and each reader knew a part of what the others knew.

use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use super::{
    Dialect, case,
    groups::{Flags, Open},
    parsed::place,
};
use crate::{Construct, Limits, Place, RegexError};

/// The tree of `text`, and its first part that looks around. `whole` is whether it matches whole texts.
pub(super) fn read(
    text: &str,
    dialect: Dialect,
    limits: &Limits,
    whole: bool,
) -> Result<(Hir, Option<(Construct, Place)>), RegexError> {
    let mut reader = Reader::new(text, dialect, limits, whole);
    reader.exact_ends = !whole;
    let mut hir = reader.whole()?;
    if whole && reader.early_end && reader.line_ends {
        // A `$` may stand before the last line break, which something else reads.
        let steps = reader.steps;
        reader = Reader::new(text, dialect, limits, whole);
        (reader.steps, reader.exact_ends) = (steps, true);
        hir = reader.whole()?;
    }
    Ok((hir, reader.look))
}

/// What stands before a quantifier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Nothing,
    Part,
    Repeated,
    Anchor,
}

pub(super) struct Reader<'p> {
    pub(super) text: &'p str,
    pub(super) at: usize,
    pub(super) dialect: Dialect,
    pub(super) limits: &'p Limits,
    steps: u64,
    pub(super) flags: Flags,
    /// Whether the text is inside of look-behind.
    pub(super) behind: bool,
    pub(super) open: Vec<Open>,
    pub(super) sequence: Vec<Hir>,
    pub(super) ways: Vec<Hir>,
    pub(super) last: Last,
    look: Option<(Construct, Place)>,
    /// Whether nothing follows the pattern.
    whole: bool,
    /// Whether a `$` is followed by more.
    early_end: bool,
    /// Whether some part reads a line break.
    line_ends: bool,
    /// Whether `$` is read as Python has it.
    exact_ends: bool,
}

/// A part that is one character, one of several, or none.
pub(super) enum Item {
    /// A code point, which may be a surrogate.
    Char(u32),
    Set(ClassUnicode),
    Look(Look),
}

pub(super) type Read<T> = Result<T, RegexError>;

impl<'p> Reader<'p> {
    fn new(text: &'p str, dialect: Dialect, limits: &'p Limits, whole: bool) -> Self {
        Self {
            text,
            at: 0,
            dialect,
            limits,
            steps: 0,
            flags: Flags { dot_all: dialect == Dialect::Xgrammar, ..Flags::default() },
            behind: false,
            open: vec![],
            sequence: vec![],
            ways: vec![],
            last: Last::Nothing,
            look: None,
            whole,
            early_end: false,
            line_ends: false,
            exact_ends: false,
        }
    }

    pub(super) fn rest(&self) -> &'p str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += char.map_or(0, char::len_utf8);
        char
    }

    pub(super) fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// The characters from here on for which `is` holds.
    pub(super) fn take(&mut self, most: usize, is: impl Fn(char) -> bool) -> &'p str {
        let rest = self.rest();
        let end = rest.char_indices().take(most).take_while(|(_, char)| is(*char)).last();
        let taken = &rest[..end.map_or(0, |(at, char)| at + char.len_utf8())];
        self.at += taken.len();
        taken
    }

    pub(super) fn fault<T>(&self, from: usize, message: impl Into<String>) -> Read<T> {
        Err(RegexError::Syntax { message: message.into(), place: place(self.text, from, self.at.max(from)) })
    }

    pub(super) fn refused<T>(&self, from: usize, construct: Construct) -> Read<T> {
        Err(RegexError::Unsupported { construct, place: place(self.text, from, self.at.max(from)) })
    }

    /// Counts the ranges of a class.
    pub(super) fn spend(&mut self, class: &ClassUnicode, from: usize) -> Read<()> {
        /// The cost of a range, rounded up.
        const RANGE_STEPS: u64 = 5;
        self.steps += 1 + RANGE_STEPS * class.ranges().len() as u64;
        let limit = self.limits.syntax_steps;
        if self.steps > limit {
            let place = place(self.text, from, self.at);
            return Err(RegexError::SyntaxTooCostly { steps: self.steps, limit, place });
        }
        Ok(())
    }

    /// The class whose letters are in any case, if the case does not count.
    pub(super) fn folded(&self, mut class: ClassUnicode) -> ClassUnicode {
        match (self.flags.ignore_case, self.dialect) {
            (false, _) => class,
            (true, Dialect::Xgrammar) => case::ascii(&class),
            (true, Dialect::Python) if self.flags.ascii => case::ascii(&class),
            (true, Dialect::Python) => case::python(&class),
            (true, _) => {
                // The tables of Unicode are there, or this crate would not compile.
                let _ = class.try_case_fold_simple();
                class
            }
        }
    }

    pub(super) fn is_ascii(&self) -> bool {
        self.flags.ascii || self.dialect != Dialect::Python
    }

    fn whole(&mut self) -> Read<Hir> {
        loop {
            let from = self.at;
            let Some(char) = self.next() else { break };
            match char {
                _ if self.flags.verbose && char.is_ascii_whitespace() | (char == '\x0b') => {}
                '#' if self.flags.verbose => {
                    self.take(usize::MAX, |char| char != '\n');
                }
                '|' => {
                    let way = Hir::concat(std::mem::take(&mut self.sequence));
                    self.ways.push(way);
                    self.last = Last::Nothing;
                }
                '(' => self.group(from)?,
                ')' => self.close(from)?,
                '*' => self.repeated(from, 0, None)?,
                '+' => self.repeated(from, 1, None)?,
                '?' => self.repeated(from, 0, Some(1))?,
                '{' => match self.bounds(from)? {
                    Some((min, max)) => self.repeated(from, min, max)?,
                    None => self.item(Item::Char('{'.into()), from)?,
                },
                '^' | '$' => self.anchor(char, from)?,
                '.' => {
                    let class = self.dot();
                    self.class(class, from)?;
                }
                '[' => {
                    let class = self.bracketed(from)?;
                    self.class(class, from)?;
                }
                ']' if self.dialect == Dialect::Xgrammar => {
                    return self.fault(from, "`]` without `[`: a bracket is `\\]`");
                }
                '\\' => {
                    let item = self.escape(from, false)?;
                    self.item(item, from)?;
                }
                char => self.item(Item::Char(char.into()), from)?,
            }
        }
        match self.open.pop() {
            Some(open) => {
                self.fault(open.at, "a group that is not closed: add `)`, or write `\\(` for the character")
            }
            None => Ok(self.alternation()),
        }
    }

    /// Takes the alternatives that were read.
    pub(super) fn alternation(&mut self) -> Hir {
        let way = Hir::concat(std::mem::take(&mut self.sequence));
        let mut ways = std::mem::take(&mut self.ways);
        ways.push(way);
        Hir::alternation(ways)
    }

    fn item(&mut self, item: Item, from: usize) -> Read<()> {
        match item {
            Item::Set(class) => self.class(class, from),
            Item::Look(look) => self.look(look, from),
            Item::Char(code) => {
                let Some(char) = char::from_u32(code) else {
                    return self.fault(
                        from,
                        "half of a pair of surrogates is no character: write the character, or `\\U` and eight digits",
                    );
                };
                if self.flags.ignore_case {
                    let class = self.folded(ClassUnicode::new([ClassUnicodeRange::new(char, char)]));
                    return self.class(class, from);
                }
                self.line_ends |= char == '\n';
                self.push(Hir::literal(char.encode_utf8(&mut [0; 4]).as_bytes()), Last::Part);
                Ok(())
            }
        }
    }

    fn class(&mut self, class: ClassUnicode, from: usize) -> Read<()> {
        self.spend(&class, from)?;
        self.line_ends |= class.iter().any(|range| range.start() <= '\n' && '\n' <= range.end());
        self.push(Hir::class(Class::Unicode(class)), Last::Part);
        Ok(())
    }

    pub(super) fn push(&mut self, hir: Hir, last: Last) {
        self.sequence.push(hir);
        self.last = last;
    }

    fn dot(&self) -> ClassUnicode {
        let ends = match self.dialect {
            _ if self.flags.dot_all => &[][..],
            Dialect::Ecma => &['\n', '\r', '\u{2028}', '\u{2029}'],
            _ => &['\n'],
        };
        let mut class = ClassUnicode::new(ends.iter().map(|end| ClassUnicodeRange::new(*end, *end)));
        class.negate();
        class
    }

    fn anchor(&mut self, char: char, from: usize) -> Read<()> {
        let (start, multi_line) = (char == '^', self.flags.multi_line);
        if self.dialect == Dialect::Xgrammar {
            let is_first = self.open.is_empty() && self.ways.is_empty() && self.sequence.is_empty() && start;
            if !is_first && (start || !self.rest().is_empty()) {
                return self.fault(
                    from,
                    "an anchor inside of a regex has no effect in XGrammar: remove it, or write `\\^` or `\\$`",
                );
            }
            return Ok(());
        }
        match (start, multi_line) {
            (true, false) => self.look(Look::Start, from),
            (true, true) => self.look(Look::StartLF, from),
            (false, true) => self.look(Look::EndLF, from),
            (false, false) => {
                let is_last = self.whole && self.rest().bytes().all(|byte| byte == b')');
                self.early_end |= !is_last && self.dialect == Dialect::Python;
                self.look(Look::End, from)?;
                if self.exact_ends && !is_last && self.dialect == Dialect::Python {
                    let end = self.sequence.pop().expect("it was pushed");
                    let line = Hir::concat(vec![Hir::literal(*b"\n"), Hir::look(Look::End)]);
                    let line = self.around("?=", line, from)?;
                    self.push(Hir::alternation(vec![end, line]), Last::Anchor);
                }
                Ok(())
            }
        }
    }

    fn look(&mut self, look: Look, from: usize) -> Read<()> {
        if self.behind && !matches!(look, Look::Start | Look::StartLF) {
            return self.refused(from, Construct::AheadInBehind);
        }
        let construct = match look {
            Look::Start | Look::End => None,
            Look::StartLF | Look::EndLF => Some(Construct::LineAnchor),
            _ => Some(Construct::WordBoundary),
        };
        self.looks(construct, from);
        self.push(Hir::look(look), Last::Anchor);
        Ok(())
    }

    fn looks(&mut self, construct: Option<Construct>, from: usize) {
        if self.look.is_none() {
            self.look = construct.map(|construct| (construct, place(self.text, from, self.at)));
        }
    }

    /// A look-around at `item`.
    pub(super) fn around(&mut self, opening: &'static str, item: Hir, from: usize) -> Read<Hir> {
        if self.behind && opening.len() == 2 {
            return self.refused(from, Construct::AheadInBehind);
        }
        self.looks(Some(Construct::LookAround), from);
        Ok(Hir::capture(Capture { index: 1, name: Some(opening.into()), sub: Box::new(item) }))
    }

    /// Repeats the last part.
    fn repeated(&mut self, from: usize, min: u32, max: Option<u32>) -> Read<()> {
        match (self.last, self.dialect) {
            (Last::Part, _) | (Last::Repeated, Dialect::Xgrammar) => {}
            (Last::Nothing, _) => {
                return self
                    .fault(from, "there is nothing to repeat: write a backslash in front of the character");
            }
            (Last::Anchor, _) => {
                return self
                    .fault(from, "a repetition of an anchor, which is empty: leave the repetition out");
            }
            (Last::Repeated, _) => {
                return self.fault(from, "a repetition of a repetition: put the repeated part in a group");
            }
        }
        if max.is_some_and(|max| max < min) {
            return self.fault(from, "the bounds of a repetition are in the wrong order: swap them");
        }
        let item = self.sequence.pop().expect("a part was read");
        // The whole texts of a lazy repetition are the same, and XGrammar knows no other reading.
        let lazy = self.eat("?");
        let greedy = !lazy || self.dialect == Dialect::Xgrammar;
        let possessive = !lazy && self.dialect == Dialect::Python && self.eat("+");
        let made = match possessive {
            true => self.possessive(item, min, max, from)?,
            false => repetition(item, min, max, greedy),
        };
        self.push(made, Last::Repeated);
        Ok(())
    }

    /// A repetition that gives nothing back. Of single characters it is one that the same characters do not follow.
    pub(super) fn possessive(&mut self, item: Hir, min: u32, max: Option<u32>, from: usize) -> Read<Hir> {
        if !is_char(&item) {
            return self.refused(from, Construct::Atomic);
        }
        if max == Some(min) {
            return Ok(repetition(item, min, max, true));
        }
        let no_more = self.around("?!", item.clone(), from)?;
        let less = repetition(item.clone(), min, max.map(|max| max - 1), true);
        let less = Hir::concat(vec![less, no_more]);
        Ok(match max {
            None => less,
            Some(max) => Hir::alternation(vec![repetition(item, max, Some(max), true), less]),
        })
    }

    /// Reads the bounds of a repetition behind `{`, if there are any.
    fn bounds(&mut self, from: usize) -> Read<Option<(u32, Option<u32>)>> {
        let strict = self.dialect == Dialect::Xgrammar;
        let number = |reader: &mut Self| {
            if strict {
                reader.take(usize::MAX, |char| char == ' ');
            }
            let digits = reader.take(usize::MAX, |char| char.is_ascii_digit());
            if strict {
                reader.take(usize::MAX, |char| char == ' ');
            }
            digits
        };
        let begin = self.at;
        let min = number(self);
        let max = if self.eat(",") { number(self) } else { min };
        let is_bounds = match self.dialect {
            // `{}` is two characters, and `{,}` any number.
            Dialect::Python => self.at > begin,
            _ => !min.is_empty(),
        };
        if !self.eat("}") || !is_bounds {
            if strict {
                return self
                    .fault(from, "a repetition has the form `{2}`, `{2,}` or `{2,5}`: a brace is `\\{`");
            }
            self.at = begin;
            return Ok(None);
        }
        let value = |text: &str| text.parse::<u32>().ok();
        let least = if min.is_empty() { Some(0) } else { value(min) };
        let most = if max.is_empty() { Some(None) } else { value(max).map(Some) };
        match (least, most) {
            (Some(min), Some(max)) => Ok(Some((min, max))),
            _ => self.fault(from, "a bound beyond 4294967295: leave it out"),
        }
    }
}

fn repetition(item: Hir, min: u32, max: Option<u32>, greedy: bool) -> Hir {
    Hir::repetition(Repetition { min, max, greedy, sub: Box::new(item) })
}

/// Whether the texts of `item` are single characters.
fn is_char(item: &Hir) -> bool {
    match item.kind() {
        HirKind::Class(_) => true,
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).is_ok_and(|text| text.chars().count() == 1)
        }
        _ => false,
    }
}
