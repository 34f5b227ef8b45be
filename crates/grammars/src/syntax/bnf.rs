//! What GBNF and EBNF share: names, classes of characters, brackets, and definitions by `::=`.

use super::{
    chars::CharSet,
    cursor::Cursor,
    error::{SyntaxError, SyntaxErrorKind, location},
    escape::escaped,
    tree::{Assembler, Definition, Group, Tree},
};
use crate::GrammarLimits;

/// What may follow a backslash and then stands for itself.
pub(super) const OTHERS: &str = "\"'[]-^";

/// What is read, and what was made of it.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) cursor: Cursor<'t>,
    pub(super) tree: Tree<'t>,
    pub(super) body: Assembler,
    nodes: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, limits: &GrammarLimits) -> Self {
        let (cursor, body) = (Cursor::new(text), Assembler::new(limits));
        Self { text, cursor, tree: Tree::new(), body, nodes: limits.nodes }
    }

    /// To be called once for each item.
    pub(super) fn check_size(&self) -> Result<(), SyntaxError> {
        if self.tree.size() > self.nodes {
            let message = format!(
                "the grammar has more than {} nodes (GrammarLimits::nodes): split it, or raise the limit",
                self.nodes
            );
            return Err(self.cursor.invalid(self.cursor.at(), message));
        }
        Ok(())
    }

    /// An item that is a name.
    pub(super) fn reference(&mut self, name: &'t str, at: usize) {
        let name = self.tree.intern(name);
        let node = self.tree.push(super::tree::Node::Name(name), at);
        self.body.item(&mut self.tree, node);
    }

    pub(super) fn literal(&mut self, text: &str, at: usize) {
        let node = self.tree.literal(text.as_bytes(), at);
        self.body.item(&mut self.tree, node);
    }

    pub(super) fn class(&mut self, set: CharSet, at: usize) {
        let node = match set.single() {
            Some(char) => self.tree.literal(char.encode_utf8(&mut [0; 4]).as_bytes(), at),
            None => self.tree.class(set, at),
        };
        self.body.item(&mut self.tree, node);
    }

    /// `)`.
    pub(super) fn close(&mut self) -> Result<(), SyntaxError> {
        if self.body.depth() == 0 {
            return Err(self.cursor.unexpected("no `)`, since no `(` is open"));
        }
        if self.body.waits() {
            return Err(self.cursor.unexpected("something after the operator"));
        }
        self.cursor.next();
        self.body.close(&mut self.tree);
        Ok(())
    }

    /// Ends the body of the definition of `name` at `at`.
    pub(super) fn end(&mut self, name: &'t str, at: usize) -> Result<(), SyntaxError> {
        if self.body.depth() > 0 {
            let (_, open) = self.body.group();
            return Err(self.cursor.unclosed(open, "the group", "`)`"));
        }
        if self.body.waits() {
            return Err(self.cursor.unexpected("something after the operator"));
        }
        let body = self.body.end(&mut self.tree);
        let definition = Definition { name: self.tree.intern(name), at, body, terminal: false };
        self.tree.define(definition).map_err(|first| {
            let first = location(self.text, self.tree.definitions[first].at);
            self.cursor.error(at, SyntaxErrorKind::Redefined { name: name.to_owned(), first })
        })
    }

    /// The class of characters at whose `[` the cursor stands. `hex` reads `#xN` too. `hex` and `escape` are told of the
    /// first place at which the class uses them.
    pub(super) fn bracketed(
        &mut self,
        hex: Option<&mut Option<usize>>,
        escape: &mut Option<usize>,
    ) -> Result<CharSet, SyntaxError> {
        let begin = self.cursor.at();
        let cursor = &mut self.cursor;
        cursor.next();
        let negated = cursor.eat("^");
        let mut none = None;
        let (with_hex, hex) = (hex.is_some(), hex.unwrap_or(&mut none));
        let mut ranges = vec![];
        loop {
            let at = cursor.at();
            if cursor.eat("]") {
                break;
            }
            let first = Self::member(cursor, begin, with_hex, hex, escape)?;
            let mut last = first;
            if cursor.peek() == Some('-') && !cursor.rest().starts_with("-]") {
                cursor.next();
                last = Self::member(cursor, begin, with_hex, hex, escape)?;
            }
            if last < first {
                let range = cursor.since(at);
                return Err(cursor.invalid(at, format!("the range `{range}` ends before it begins")));
            }
            ranges.push((u32::from(first), u32::from(last)));
        }
        if ranges.is_empty() {
            return Err(cursor.invalid(begin, "a class without characters; write `.` for any character"));
        }
        let set = CharSet::new(ranges);
        let set = if negated { set.negated() } else { set };
        if set.is_empty() {
            return Err(cursor.invalid(begin, "a class that leaves out every character"));
        }
        Ok(set)
    }

    fn member(
        cursor: &mut Cursor<'_>,
        begin: usize,
        with_hex: bool,
        hex: &mut Option<usize>,
        escape: &mut Option<usize>,
    ) -> Result<char, SyntaxError> {
        let at = cursor.at();
        if with_hex && let Some(char) = hexadecimal(cursor)? {
            hex.get_or_insert(at);
            return Ok(char);
        }
        match cursor.peek() {
            None | Some('\n') => Err(cursor.unclosed(begin, "the class", "`]` on the same line")),
            Some('\\') => {
                escape.get_or_insert(at);
                cursor.next();
                escaped(cursor, OTHERS)
            }
            Some(char) => {
                cursor.next();
                Ok(char)
            }
        }
    }
}

/// `#xN`, a character by its number, if the cursor stands at one.
pub(super) fn hexadecimal(cursor: &mut Cursor<'_>) -> Result<Option<char>, SyntaxError> {
    let begin = cursor.at();
    let mut ahead = *cursor;
    if !ahead.eat("#x") || !ahead.peek().is_some_and(|digit| digit.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let digits = ahead.take_while(|digit| digit.is_ascii_hexdigit());
    let number = digits.trim_start_matches('0');
    let number = if number.is_empty() { Some(0) } else { u32::from_str_radix(number, 16).ok() };
    let Some(char) = number.and_then(char::from_u32) else {
        return Err(cursor
            .invalid(begin, "no character has this number: surrogates and numbers above #x10FFFF are none"));
    };
    *cursor = ahead;
    Ok(Some(char))
}

/// A name in which dashes may stand.
pub(super) fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_')
}

/// Opens a group at `(`.
pub(super) fn open(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    reader.body.open(Group::Round, &reader.cursor)?;
    reader.cursor.next();
    Ok(())
}
