//! Escapes and classes of split patterns: the part of the parser that ends in a set of characters.
//!
//! Escapes are read here, since engines differ in them. `regex-syntax` reads the classes, because it has the tables of
//! Unicode.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::{Ast, Parser};
use crate::{
    Limits, RegexError,
    dfa::CharSet,
    regex::{parse, parsed::Parsed},
    split::SplitError,
};

/// The meaning of an escape.
enum Escape {
    Char(char),
    /// A class in the syntax of `regex-syntax`.
    Class(String),
}

impl Parser<'_, '_> {
    pub(super) fn escaped(&mut self, from: usize) -> Result<Ast, SplitError> {
        match self.peek() {
            Some('A') => {
                self.at += 1;
                Ok(Ast::Start)
            }
            Some('z') => {
                self.at += 1;
                self.end(from)
            }
            Some('Z') => Err(self.unsupported("`\\Z`", from)),
            Some('b' | 'B' | '<' | '>') => Err(self.unsupported("a word boundary", from)),
            Some('K') => Err(self.unsupported("`\\K`", from)),
            Some('G') => Err(self.unsupported("`\\G`", from)),
            Some('R' | 'X' | 'N' | 'O' | 'y' | 'Y') => {
                Err(self.unsupported("an escape for more than a class", from))
            }
            Some('k' | 'g') => Err(self.unsupported("a back-reference or a call of a group", from)),
            _ => match self.escape(from)? {
                Escape::Char(char) => self.char(char, from),
                Escape::Class(text) => self.set(&text, from),
            },
        }
    }

    /// An escape that denotes characters, after the backslash at `from`.
    fn escape(&mut self, from: usize) -> Result<Escape, SplitError> {
        let Some(char) = self.next() else {
            return Err(self.syntax("a backslash at the end of the pattern", from));
        };
        Ok(match char {
            '0'..='9' => return Err(self.unsupported("a back-reference or an octal escape", from)),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Escape::Class(self.text[from..self.at].to_owned()),
            'h' => Escape::Class("[0-9A-Fa-f]".to_owned()),
            'H' => Escape::Class("[^0-9A-Fa-f]".to_owned()),
            'p' | 'P' => {
                if self.next() == Some('{') {
                    let Some(len) = self.rest().find('}') else {
                        return Err(self.syntax("a property is not closed", from));
                    };
                    self.at += len + 1;
                }
                Escape::Class(self.text[from..self.at].to_owned())
            }
            'x' => Escape::Char(self.hex(2, from)?),
            'u' => Escape::Char(self.hex(4, from)?),
            'U' => Escape::Char(self.hex(8, from)?),
            'a' => Escape::Char('\x07'),
            'b' => Escape::Char('\x08'),
            'e' => Escape::Char('\x1b'),
            'f' => Escape::Char('\x0c'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            't' => Escape::Char('\t'),
            'v' => Escape::Char('\x0b'),
            char if char.is_ascii_alphabetic() || !char.is_ascii() => {
                return Err(self.syntax("an unknown escape", from));
            }
            char => Escape::Char(char),
        })
    }

    /// The number after `\x`, `\u` or `\U`: `digits` digits, or up to 8 in braces.
    fn hex(&mut self, digits: usize, from: usize) -> Result<char, SplitError> {
        let rest = self.rest();
        let (number, len) = match rest.strip_prefix('{') {
            Some(inner) => {
                let number = inner.split('}').next().unwrap_or("");
                (number, number.len() + 2)
            }
            None => (rest.get(..digits).unwrap_or(""), digits),
        };
        let valid = (1..=8).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        let closed = rest.get(..len).is_some();
        let char = u32::from_str_radix(number, 16).ok().and_then(char::from_u32);
        match char {
            Some(char) if valid && closed => {
                self.at += len;
                Ok(char)
            }
            _ => Err(self.syntax("not the number of a character", from)),
        }
    }

    /// The class that begins at `from`, in the syntax of `regex-syntax`.
    pub(super) fn class(&mut self, from: usize) -> Result<String, SplitError> {
        let mut text = "[".to_owned();
        if self.eat("^") {
            text.push('^');
        }
        if self.eat("]") {
            text.push(']');
        }
        let mut nest = 1;
        while nest > 0 {
            let at = self.at;
            let Some(char) = self.next() else {
                return Err(self.syntax("a class is not closed", from));
            };
            match char {
                '\\' => match self.escape(at)? {
                    Escape::Char(char) => {
                        regex_syntax::escape_into(char.encode_utf8(&mut [0; 4]), &mut text);
                    }
                    Escape::Class(class) => text.push_str(&class),
                },
                char => {
                    nest += i32::from(char == '[') - i32::from(char == ']');
                    text.push(char);
                }
            }
        }
        Ok(text)
    }

    /// One character, in both cases if case is ignored.
    pub(super) fn char(&mut self, char: char, from: usize) -> Result<Ast, SplitError> {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(char, char)]);
        if self.flags.ignore_case && class.try_case_fold_simple().is_err() {
            return Err(self.unsupported("ignoring case without case tables", from));
        }
        Ok(Ast::Set(self.add(self.view.seen(CharSet::from(&class)), from)?))
    }

    /// The set of a class.
    pub(super) fn set(&mut self, text: &str, from: usize) -> Result<Ast, SplitError> {
        /// The limit on the cost of one class; the most expensive class takes half of it.
        const STEPS: u64 = 3_000_000;
        let limits = Limits { syntax_steps: STEPS, ..Limits::default() };
        let text = if self.flags.ignore_case { format!("(?i:{text})") } else { text.to_owned() };
        let class = parse(&text, &limits).and_then(Parsed::plain).map_err(|error| match error {
            RegexError::Syntax { message, .. } => self.syntax(&message, from),
            error => self.syntax(&error.to_string(), from),
        })?;
        let set = match class.kind() {
            HirKind::Class(Class::Unicode(class)) => CharSet::from(class),
            HirKind::Class(Class::Bytes(class)) if class.ranges().is_empty() => CharSet::default(),
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) if text.chars().count() == 1 => text.chars().collect(),
                _ => return Err(self.syntax("not a class", from)),
            },
            _ => return Err(self.syntax("not a class", from)),
        };
        self.budget.spend(100 + 10 * set.ranges().len())?;
        Ok(Ast::Set(self.add(self.view.seen(set), from)?))
    }
}
