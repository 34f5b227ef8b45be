//! What GBNF and EBNF share: names, classes of characters, brackets, and definitions by `::=`.

use super::{
    chars::CharSet, cursor::Cursor, error::SyntaxError, escape::escaped, reader::Reader, tree::Group,
};

/// What may follow a backslash and then stands for itself.
pub(super) const OTHERS: &str = "\"'[]-^";

impl Reader<'_> {
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
        let (mut ranges, mut compact_at) = (vec![], 1 << 12);
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
            // A class may name a character a million times.
            if ranges.len() >= compact_at {
                ranges = CharSet::new(ranges).into_ranges();
                compact_at = compact_at.max(2 * ranges.len());
            }
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
