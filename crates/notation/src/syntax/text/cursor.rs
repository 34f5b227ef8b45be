//! A cursor over a text that is read from left to right, with the constructors of errors at a position.
//!
//! It is a copyable offset instead of an iterator, so that copying it looks ahead.

use unskew_grammar::{SyntaxError, SyntaxErrorKind};

use crate::syntax::text::error::location;

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// A cursor at `begin` of `text`, which ends at `end` for it.
    pub(crate) fn within(text: &'t str, begin: usize, end: usize) -> Self {
        Self { text: &text[..end], at: begin }
    }

    /// The number of bytes read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Whether only blanks precede the position on its line.
    pub(crate) fn is_first_on_line(&self) -> bool {
        let before = self.text[..self.at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    }

    /// Whether the character before the position is one of these, or there is none.
    pub(crate) fn is_after(&self, wanted: impl Fn(char) -> bool) -> bool {
        self.text[..self.at].chars().next_back().is_none_or(wanted)
    }

    pub(crate) fn since(&self, begin: usize) -> &'t str {
        &self.text[begin..self.at]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        // Most of a grammar is ASCII.
        match self.text.as_bytes().get(self.at)? {
            ascii @ ..0x80 => Some(char::from(*ascii)),
            _ => self.rest().chars().next(),
        }
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += char.len_utf8();
        Some(char)
    }

    /// Advances past `expected` if the rest begins with it.
    pub(crate) fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().as_bytes().starts_with(expected.as_bytes());
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// Advances past all characters that satisfy `wanted`, and returns them.
    pub(crate) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let begin = self.at;
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
        self.since(begin)
    }

    /// Advances by `bytes` bytes. The new position must be the beginning of a character.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Advances to the end of the line.
    pub(crate) fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// Advances past the next occurrence of `end`. Returns whether there is one.
    pub(crate) fn skip_past(&mut self, end: &str) -> bool {
        let Some(found) = self.rest().find(end) else { return false };
        self.at += found + end.len();
        true
    }

    pub(crate) fn error(&self, offset: usize, kind: SyntaxErrorKind) -> SyntaxError {
        SyntaxError { kind, location: location(self.text, offset) }
    }

    /// An error: the text at the position is not the expected one.
    pub(crate) fn unexpected(&self, expected: &'static str) -> SyntaxError {
        self.error(self.at, SyntaxErrorKind::Unexpected { found: self.found(), expected })
    }

    /// As [`unexpected`](Self::unexpected). If the rest begins with a construct in `foreign`, the message
    /// names the text to write instead.
    pub(crate) fn foreign(&self, foreign: &[(&str, &str)], expected: &'static str) -> SyntaxError {
        let known = foreign.iter().find(|(beginning, _)| self.rest().starts_with(beginning));
        match known {
            Some((beginning, way_out)) => {
                let found = if beginning.is_ascii() { format!("`{beginning}`") } else { self.found() };
                self.invalid(self.at, format!("found {found}: {way_out}"))
            }
            None => self.unexpected(expected),
        }
    }

    pub(crate) fn unclosed(&self, begin: usize, what: &'static str, close: &'static str) -> SyntaxError {
        self.error(begin, SyntaxErrorKind::Unclosed { what, close })
    }

    pub(crate) fn invalid(&self, offset: usize, message: impl Into<String>) -> SyntaxError {
        self.error(offset, SyntaxErrorKind::Invalid { message: message.into() })
    }

    pub(crate) fn unsupported(
        &self,
        offset: usize,
        construct: impl Into<String>,
        way_out: &'static str,
    ) -> SyntaxError {
        self.error(offset, SyntaxErrorKind::Unsupported { construct: construct.into(), way_out })
    }

    /// The word or character at the position, for a message.
    fn found(&self) -> String {
        /// The length at which a word is cut, in characters.
        const LONGEST: usize = 32;
        let word = |char: &char| char.is_alphanumeric() || *char == '_';
        match self.peek() {
            None => "the end of the grammar".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(char) if word(&char) => {
                let word: String = self.rest().chars().take_while(word).take(LONGEST).collect();
                format!("`{word}`")
            }
            Some(char) if char.is_control() => format!("{char:?}"),
            Some(char) if char.is_whitespace() && char != ' ' => {
                format!("U+{:04X}, which looks like a blank and is none", u32::from(char))
            }
            Some(char) if !char.is_ascii() => format!("`{char}` (U+{:04X})", u32::from(char)),
            Some(char) => format!("`{char}`"),
        }
    }
}
