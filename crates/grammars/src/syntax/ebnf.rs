//! EBNF with `::=`: the notation of the W3C (XML 1.0, section 6), and that of transformers-CFG and its kin, which is GBNF
//! with freer lines. Both have the extension `.ebnf`, and one front end reads what either writes.
//!
//! | | W3C | GBNF-like | here |
//! |---|---|---|---|
//! | `"…"` | no escapes | escapes | escapes |
//! | `'…'` | no escapes | none | no escapes; a backslash before a letter or quote is an error, as it looks like one |
//! | `[…]` | `#xN` | escapes | both, but not in one file |
//! | `#xN` | a character | a comment | a character; an error where something else follows `#x` without a blank |
//! | `#` else | none | a comment | a comment |
//! | `/* … */` | a comment | none | a comment |
//! | `A - B` | texts of A that are not of B | none | so, if both sides are regular |
//! | `.` | none | any character | any character |
//! | `{n,m}` | none | a repetition | a repetition |
//! | lines | mean nothing | end rules | mean nothing: a rule ends where `name ::=` follows |
//! | `[12]` before `name ::=` on its line | a number | none | passed over |
//! | `[ wfc: … ]` | a condition in words | none | an error: nothing enforces it |
//! | start | the first rule | `root` | `root` if there is one, else the first rule |
//!
//! A file in which both `#xN` and a backslash escape stand is an error, since a backslash of the W3C means itself. So no
//! file of either family is read in the other's sense in silence. A dash belongs to a name where a letter, digit, dash or
//! underscore follows it at once, and is the difference otherwise.

use super::{
    bnf::{OTHERS, hexadecimal, open},
    chars::CharSet,
    cursor::Cursor,
    error::SyntaxError,
    escape::{postfix, quoted},
    reader::Reader,
    tree::{Group, Tree},
};
use crate::GrammarLimits;

/// The first places at which a character stands by its number, and as an escape.
#[derive(Default)]
struct Notation {
    hex: Option<usize>,
    escape: Option<usize>,
}

pub(super) fn read<'t>(text: &'t str, limits: &GrammarLimits) -> Result<Tree<'t>, SyntaxError> {
    let mut reader = Reader::new(text, limits);
    reader.cursor.eat("\u{feff}");
    let mut notation = Notation::default();
    loop {
        space(&mut reader.cursor)?;
        number_of_production(&mut reader.cursor);
        space(&mut reader.cursor)?;
        if reader.cursor.peek().is_none() {
            break;
        }
        rule(&mut reader, &mut notation)?;
    }
    if let (Some(hex), Some(escape)) = (notation.hex, notation.escape) {
        let message = "a backslash in a file with characters such as `#xA`: in one notation it is an escape and in the \
                       other itself; write `#x5C` for a backslash and `#xA` for a newline, or `\\x41` for `#x41`";
        return Err(reader.cursor.invalid(hex.max(escape), message));
    }
    Ok(reader.tree)
}

fn rule(reader: &mut Reader<'_>, notation: &mut Notation) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let name = name(&mut reader.cursor);
    if name.is_empty() {
        return Err(reader.cursor.unexpected("the name of a rule"));
    }
    space(&mut reader.cursor)?;
    if !reader.cursor.eat("::=") {
        return Err(reader.cursor.unexpected("`::=` after the name of a rule"));
    }
    space(&mut reader.cursor)?;
    reader.body.begin(reader.cursor.at());
    while !ends(reader)? {
        item(reader, notation)?;
        reader.check_size()?;
    }
    reader.end(name, at, false)
}

/// Passes what means nothing, and answers whether the rule ends here: at the end, or before the next.
fn ends(reader: &mut Reader<'_>) -> Result<bool, SyntaxError> {
    space(&mut reader.cursor)?;
    let mut ahead = reader.cursor;
    let numbered = number_of_production(&mut ahead);
    space(&mut ahead)?;
    let Some(first) = ahead.peek() else { return Ok(!numbered) };
    if !first.is_ascii_alphanumeric() && first != '_' {
        return Ok(false);
    }
    name(&mut ahead);
    space(&mut ahead)?;
    Ok(ahead.eat("::="))
}

fn item(reader: &mut Reader<'_>, notation: &mut Notation) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    match reader.cursor.peek() {
        Some('"') => {
            let text = quoted(&mut reader.cursor, OTHERS)?;
            if reader.cursor.since(at).contains('\\') {
                notation.escape.get_or_insert(at);
            }
            reader.literal(&text, at);
        }
        Some('\'') => {
            let text = single_quoted(&mut reader.cursor)?;
            reader.literal(text, at);
        }
        Some('[') => {
            condition(&reader.cursor)?;
            let set = reader.bracketed(Some(&mut notation.hex), &mut notation.escape)?;
            reader.class(set, at);
        }
        Some('#') => {
            // `space` has passed the comments.
            let char = hexadecimal(&mut reader.cursor)?;
            let ends = !reader.cursor.peek().is_some_and(char::is_alphanumeric);
            let Some(char) = char.filter(|_| ends) else {
                let message = "`#x` begins the number of a character, in hexadecimal digits; a comment that begins with \
                               `x` needs a blank behind `#`";
                return Err(reader.cursor.invalid(at, message));
            };
            notation.hex.get_or_insert(at);
            reader.literal(char.encode_utf8(&mut [0; 4]), at);
        }
        Some('.') => {
            reader.cursor.next();
            reader.class(CharSet::all(), at);
        }
        Some('(') => open(reader)?,
        Some(')') => reader.close(Group::Round)?,
        Some('|') => {
            if reader.body.waits() {
                return Err(reader.cursor.unexpected("something after `-`"));
            }
            reader.cursor.next();
            reader.body.bar(&mut reader.tree);
        }
        Some('-') => {
            if reader.body.last().is_none() {
                return Err(reader.cursor.unexpected("something before `-`"));
            }
            reader.cursor.next();
            reader.body.minus();
        }
        Some('<') => {
            let way_out = "write the name of a rule without angle brackets; control tokens can be used in GBNF and Lark";
            return Err(reader.cursor.unsupported(at, "a name in angle brackets", way_out));
        }
        Some(char) if char.is_ascii_alphanumeric() || char == '_' => {
            let name = name(&mut reader.cursor);
            reader.reference(name, at);
        }
        _ => {
            let Reader { cursor, tree, body, .. } = reader;
            let blank = |cursor: &mut Cursor<'_>| {
                cursor.take_while(char::is_whitespace);
            };
            if !postfix(cursor, tree, body, false, blank)? {
                return Err(cursor.unexpected(
                    "a name, a text in quotes, a class, `#xN`, a group, `|`, `-` or the next rule",
                ));
            }
        }
    }
    Ok(())
}

/// The text of a literal in single quotes, in which a backslash is itself.
fn single_quoted<'t>(cursor: &mut Cursor<'t>) -> Result<&'t str, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let text = cursor.take_while(|char| char != '\'' && char != '\n');
    if !cursor.eat("'") {
        return Err(cursor.unclosed(begin, "the text in quotes", "`'` on the same line"));
    }
    let escape = text
        .split('\\')
        .skip(1)
        .any(|after| after.starts_with(['n', 'r', 't', 'x', 'u', 'U', '"', '[', ']']));
    if escape || text.contains("\\\\") || (text.ends_with('\\') && cursor.peek() == Some('\'')) {
        let message = "a backslash in single quotes is itself and no escape: write double quotes for escapes, and \
                       `\"\\\\n\"` for a backslash with a letter";
        return Err(cursor.invalid(begin, message));
    }
    Ok(text)
}

/// A name. A dash at its end is none of it.
fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    let begin = cursor.at();
    let letter = |char: char| char.is_ascii_alphanumeric() || char == '_';
    loop {
        cursor.take_while(letter);
        let mut ahead = *cursor;
        let dashes = ahead.take_while(|char| char == '-');
        if dashes.is_empty() || cursor.at() == begin || !ahead.peek().is_some_and(letter) {
            return cursor.since(begin);
        }
        *cursor = ahead;
    }
}

/// Passes the number of a production, such as `[12a]`: first on its line, and before a rule.
fn number_of_production(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    if !ahead.eat("[") {
        return false;
    }
    let number = ahead.take_while(|char| char.is_ascii_alphanumeric());
    if !number.starts_with(|first: char| first.is_ascii_digit()) || !ahead.eat("]") {
        return false;
    }
    let after = ahead;
    ahead.take_while(|char| char == ' ' || char == '\t');
    let named = !name(&mut ahead).is_empty();
    ahead.take_while(char::is_whitespace);
    let numbered = named && ahead.eat("::=") && cursor.is_first_on_line();
    if numbered {
        *cursor = after;
    }
    numbered
}

/// `[ wfc: … ]` and its kin, which say in words what no grammar does.
fn condition(cursor: &Cursor<'_>) -> Result<(), SyntaxError> {
    let mut ahead = *cursor;
    ahead.next();
    ahead.take_while(|char| char == ' ');
    let kind = ahead.take_while(|char| char.is_ascii_alphabetic());
    let known = ["wfc", "vc", "nsc"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    if known && ahead.eat(":") {
        let way_out = "remove it, or write what it says as rules";
        return Err(cursor.unsupported(cursor.at(), "a condition in words", way_out));
    }
    Ok(())
}

/// Passes white space and comments.
fn space(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    loop {
        cursor.take_while(char::is_whitespace);
        let begin = cursor.at();
        if cursor.rest().starts_with('#') {
            // `#xN` is a character, and `#xyz` a mistake in one rather than a comment.
            let mut ahead = *cursor;
            if ahead.eat("#x") && ahead.peek().is_some_and(char::is_alphanumeric) {
                return Ok(());
            }
            cursor.skip_line();
        } else if cursor.eat("/*") {
            if !cursor.skip_past("*/") {
                return Err(cursor.unclosed(begin, "the comment", "`*/`"));
            }
        } else {
            return Ok(());
        }
    }
}
