//! Classes in brackets and escapes: the parts of the reader that end in a set of characters.
//!
//! The sets of Unicode come from `regex-syntax`, by the names of its own syntax.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind, Look};

use super::{
    Dialect,
    case::contains,
    reader::{Item, Read, Reader},
};
use crate::{Construct, RegexError};

/// The class that this pattern of the crate `regex` is.
pub(crate) fn known(pattern: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        // A class of ASCII alone may be one of bytes.
        HirKind::Class(Class::Bytes(class)) => class.to_unicode_class(),
        HirKind::Literal(literal) => {
            let char = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(char, char)]))
        }
        _ => None,
    }
}

/// The characters of words in Python: `str.isalnum`, and the underscore.
pub(crate) const PYTHON_WORD: &str = r"[\p{L}\p{N}_]";
const PYTHON_SPACE: &str = r"[\s\x1c-\x1f]";
const ECMA_SPACE: &str =
    r"[\t\n\x0b\x0c\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]";
const ASCII_SPACE: &str = r"[\t\n\x0b\x0c\r ]";

/// The names of the classes of POSIX.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

impl Reader<'_> {
    /// Reads a class behind its `[`.
    pub(super) fn bracketed(&mut self, from: usize) -> Read<ClassUnicode> {
        let negated = self.eat("^");
        // Characters, which the flag `i` concerns, and sets, which it does not.
        let (mut ranges, mut sets) = (vec![], ClassUnicode::empty());
        let mut is_empty = true;
        loop {
            let at = self.at;
            let item = match self.next() {
                None => {
                    return self.fault(
                        from,
                        "a class that is not closed: add `]`, or write `\\[` for the character",
                    );
                }
                // Python has no empty class: a bracket at the beginning is one of its characters.
                Some(']') if !(is_empty && self.dialect == Dialect::Python) => break,
                Some('\\') => self.escape(at, true)?,
                Some('[') if self.dialect == Dialect::Python && self.posix() => {
                    return self.fault(
                        at,
                        "classes of POSIX are single characters in Python: write the characters, such as `a-z`",
                    );
                }
                Some(char) => Item::Char(char.into()),
            };
            is_empty = false;
            let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            let first = match item {
                Item::Char(first) => first,
                Item::Set(set) => {
                    if is_range && self.dialect == Dialect::Python {
                        return self
                            .fault(at, "a range that begins with a class: write `\\-` for the character");
                    }
                    sets.union(&set);
                    self.spend(&sets, at)?;
                    continue;
                }
                Item::Look(_) => unreachable!("a class has no anchors"),
            };
            let mut last = first;
            if is_range {
                self.at += 1;
                let end = self.at;
                last = match self.next() {
                    Some('\\') => match self.escape(end, true)? {
                        Item::Char(last) => last,
                        _ => {
                            return self
                                .fault(at, "a range that ends in a class: write `\\-` for the character");
                        }
                    },
                    Some(char) => char.into(),
                    None => return self.fault(from, "a class that is not closed: add `]`"),
                };
            }
            if last < first {
                return self
                    .fault(at, "a range from a higher to a lower character: swap them, or write `\\-`");
            }
            ranges.extend(range(first, last));
        }
        if is_empty && !negated && self.dialect == Dialect::Xgrammar {
            return self.fault(from, "a class without characters, which matches nothing: leave it out");
        }
        let mut class = self.folded(ClassUnicode::new(ranges));
        self.spend(&class, from)?;
        class.union(&sets);
        // `regex-syntax` does not see that nothing is between these two, and negates them wrongly.
        if contains(&class, '\u{d7ff}') && contains(&class, '\u{e000}') {
            class.union(&ClassUnicode::new([ClassUnicodeRange::new('\u{d7ff}', '\u{e000}')]));
        }
        if negated {
            class.negate();
        }
        if class.ranges().is_empty() && self.dialect == Dialect::Xgrammar {
            return self.fault(from, "a class that leaves out every character: write one that does not");
        }
        Ok(class)
    }

    /// Whether a class of POSIX begins behind the `[` that was read.
    fn posix(&self) -> bool {
        let name = self.rest().strip_prefix(':').map(|rest| rest.strip_prefix('^').unwrap_or(rest));
        name.is_some_and(|rest| {
            POSIX.iter().any(|name| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(":]")))
        })
    }

    /// Reads an escape behind its backslash.
    pub(super) fn escape(&mut self, from: usize, in_class: bool) -> Read<Item> {
        use Dialect::{Ecma, Python, Xgrammar};
        let Some(char) = self.next() else {
            return self.fault(from, "a backslash at the end: write `\\\\` for the character");
        };
        let one = |char: char| Ok(Item::Char(char.into()));
        match (char, self.dialect) {
            ('d' | 'D' | 'w' | 'W' | 's' | 'S', _) => self.perl(char).map(Item::Set),
            ('p' | 'P', Python | Ecma) => self.property(char == 'P', from).map(Item::Set),
            ('b', _) if in_class => one('\x08'),
            ('b' | 'B', Python | Ecma) if !in_class => Ok(Item::Look(match (char, self.is_ascii()) {
                ('b', true) => Look::WordAscii,
                ('b', false) => Look::WordUnicode,
                (_, true) => Look::WordAsciiNegate,
                (_, false) => Look::WordUnicodeNegate,
            })),
            ('b' | 'B', Xgrammar) => {
                self.fault(from, "word boundaries are not supported: write the characters around it")
            }
            ('A', Python | Ecma) if !in_class => Ok(Item::Look(Look::Start)),
            ('z', Python | Ecma) | ('Z', Python) if !in_class => Ok(Item::Look(Look::End)),
            ('t', _) => one('\t'),
            ('n', _) => one('\n'),
            ('v', _) => one('\x0b'),
            ('f', _) => one('\x0c'),
            ('r', _) => one('\r'),
            ('a', Python | Xgrammar) => one('\x07'),
            ('e', Xgrammar) => one('\x1b'),
            ('0', Xgrammar) => one('\0'),
            ('0', Ecma) if !self.rest().starts_with(|char: char| char.is_ascii_digit()) => one('\0'),
            ('0'..='9', Python) => self.octal(from, in_class),
            ('0'..='9', _) | ('k', Ecma | Xgrammar) => self.refused(from, Construct::BackReference),
            ('c', Ecma | Xgrammar) => match self.peek().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    Ok(Item::Char(u32::from(letter) & 0x1f))
                }
                None => self.fault(from, "`\\c` stands before a letter: write `\\x` and two digits"),
            },
            ('x', _) => self.number(2, from),
            ('u', _) => self.unit(from),
            ('U', Python) => self.number(8, from),
            (char, _) if char.is_ascii_alphanumeric() => self.refused(from, Construct::Escape),
            (char, _) => one(char),
        }
    }

    /// `\d`, `\w`, `\s`, or what is not one of them.
    fn perl(&self, letter: char) -> Read<ClassUnicode> {
        let pattern = match (letter.to_ascii_lowercase(), self.is_ascii()) {
            ('d', true) => "[0-9]",
            ('d', false) => r"\d",
            ('w', true) => "[0-9A-Za-z_]",
            ('w', false) => PYTHON_WORD,
            (_, true) if self.dialect == Dialect::Ecma => ECMA_SPACE,
            (_, true) => ASCII_SPACE,
            (_, false) => PYTHON_SPACE,
        };
        let mut class = known(pattern).expect("a class");
        if letter.is_ascii_uppercase() {
            class.negate();
        }
        Ok(class)
    }

    /// Reads an escape of digits in Python behind its first digit: a character by its octal number, or a
    /// back-reference.
    fn octal(&mut self, from: usize, in_class: bool) -> Read<Item> {
        let begin = self.at - 1;
        self.at = begin;
        let digits = self.take(3, |char| matches!(char, '0'..='7'));
        if !in_class && digits.len() < 3 && !digits.starts_with('0') {
            self.at = begin;
            self.take(2, |char| char.is_ascii_digit());
            return self.refused(from, Construct::BackReference);
        }
        match u32::from_str_radix(digits, 8) {
            Ok(number) if number <= 0o377 => Ok(Item::Char(number)),
            Ok(_) => self.fault(from, "an octal number beyond 377: write `\\u` and four digits"),
            Err(_) => {
                self.next();
                self.refused(from, Construct::Escape)
            }
        }
    }

    /// Reads the number of a character behind `\x` or `\U`: so many digits, or digits in braces.
    fn number(&mut self, digits: usize, from: usize) -> Read<Item> {
        let braces = self.dialect != Dialect::Xgrammar && self.eat("{");
        let text = self.take(if braces { 8 } else { digits }, |char| char.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|number| *number <= u32::from(char::MAX));
        match number {
            Some(number) if if braces { self.eat("}") } else { text.len() == digits } => {
                Ok(Item::Char(number))
            }
            _ => self.fault(from, format!("expected {digits} hexadecimal digits, the number of a character")),
        }
    }

    /// Reads the number of a character behind `\u`.
    fn unit(&mut self, from: usize) -> Read<Item> {
        if self.eat("{") {
            let text = self.take(8, |char| char.is_ascii_hexdigit());
            let number = u32::from_str_radix(text, 16).ok().filter(|number| *number <= u32::from(char::MAX));
            return match number {
                Some(number) if self.eat("}") => Ok(Item::Char(number)),
                _ => self.fault(from, "expected hexadecimal digits and `}`, the number of a character"),
            };
        }
        let item = self.number(4, from)?;
        let Item::Char(high @ 0xd800..0xdc00) = item else { return Ok(item) };
        if self.dialect == Dialect::Ecma && self.eat("\\u") {
            if let Item::Char(low @ 0xdc00..0xe000) = self.number(4, from)? {
                return Ok(Item::Char(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
            }
            return self.fault(from, "half of a pair of surrogates is no character: add the other half");
        }
        Ok(item)
    }

    /// Reads a property of Unicode behind `\p`.
    fn property(&mut self, negated: bool, from: usize) -> Read<ClassUnicode> {
        let name = match self.eat("{") {
            true => {
                let name = self.take(usize::MAX, |char| char != '}');
                if !self.eat("}") {
                    return self.fault(from, "a property that is not closed: add `}`");
                }
                name
            }
            // In ECMA-262 it is not a property; in Python it is nothing.
            false if self.dialect == Dialect::Python => self.take(1, |char| char.is_ascii_alphabetic()),
            false => return self.fault(from, "a property has a name in braces: write `\\p{L}`"),
        };
        let valid = !name.is_empty()
            && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '=' | ' ' | '-'));
        let of = |text: String| if valid { known(&text) } else { None };
        // A script has its key in front of it.
        let is_script = self.dialect == Dialect::Ecma
            && of(format!("\\p{{sc={name}}}")).is_some()
            && of(format!("\\p{{gc={name}}}")).is_none();
        let found = if is_script { None } else { of(format!("\\p{{{name}}}")) };
        match found {
            Some(mut class) => {
                if negated {
                    class.negate();
                }
                self.spend(&class, from)?;
                Ok(class)
            }
            None => Err(RegexError::Unsupported {
                construct: if is_script { Construct::Script } else { Construct::Property },
                place: super::parsed::place(self.text, from, self.at),
            }),
        }
    }
}

/// The characters with these numbers. Surrogates are none.
fn range(first: u32, last: u32) -> Option<ClassUnicodeRange> {
    let is_surrogate = |number| (0xd800..0xe000).contains(&number);
    let first = if is_surrogate(first) { 0xe000 } else { first };
    let last = if is_surrogate(last) { 0xd7ff } else { last };
    (first <= last).then_some(ClassUnicodeRange::new(char::from_u32(first)?, char::from_u32(last)?))
}
