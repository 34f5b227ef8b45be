//! Constructs that GBNF, EBNF and Lark write alike: escapes, quoted texts, and bounds of repetitions.
//!
//! One implementation keeps the meaning of an escape the same in all three languages.

use unskew_grammar::SyntaxError;

use crate::syntax::{
    text::cursor::Cursor,
    tree::{Tree, assembler::Assembler},
};

/// Reads the rest of an escape. The cursor is after its backslash. Every language has `\n`, `\r`, `\t`, `\\`,
/// and `\x`, `\u`, `\U` with 2, 4 and 8 hexadecimal digits. `others` are the further characters that may
/// follow the backslash. They stand for themselves, except `f`, which is a form feed.
pub(crate) fn escaped(cursor: &mut Cursor<'_>, others: &str) -> Result<char, SyntaxError> {
    let begin = cursor.at() - 1;
    let before = *cursor;
    let digits = match cursor.next() {
        Some('n') => return Ok('\n'),
        Some('r') => return Ok('\r'),
        Some('t') => return Ok('\t'),
        Some('\\') => return Ok('\\'),
        Some('f') if others.contains('f') => return Ok('\u{c}'),
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        Some(other) if others.contains(other) => return Ok(other),
        Some(other @ ('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P')) => {
            let message = format!(
                "`\\{other}` is no escape but a class of regexes: list the characters that are meant"
            );
            return Err(cursor.invalid(begin, message));
        }
        Some(other @ ('0' | 'a' | 'b' | 'e' | 'f' | 'v')) => {
            let number = match other {
                '0' => "00",
                'a' => "07",
                'b' => "08",
                'v' => "0b",
                'f' => "0c",
                _ => "1b",
            };
            return Err(cursor.invalid(begin, format!("`\\{other}` is no escape: write `\\x{number}`")));
        }
        Some(other) if !other.is_control() => {
            return Err(cursor.invalid(
                begin,
                format!(
                    "`\\{other}` is no escape: write `{other}` for the character alone, or `\\\\{other}` with a backslash"
                ),
            ));
        }
        _ => return Err(before.unexpected("a character after `\\`")),
    };
    let mut value = 0;
    for _ in 0..digits {
        let digit = cursor.peek().and_then(|digit| digit.to_digit(16));
        let Some(digit) = digit else {
            return Err(cursor.unexpected(match digits {
                2 => "two hexadecimal digits after `\\x`",
                4 => "four hexadecimal digits after `\\u`",
                _ => "eight hexadecimal digits after `\\U`",
            }));
        };
        // Eight digits fit.
        value = value << 4 | digit;
        cursor.next();
    }
    char::from_u32(value).ok_or_else(|| no_character(cursor, begin))
}

/// Reads the rest of an escape of XGrammar. The cursor is after its backslash. The escapes are those of C; `\x` takes
/// all hexadecimal digits that follow. `others` are further characters that stand for themselves.
pub(crate) fn escaped_as_in_c(cursor: &mut Cursor<'_>, others: &str) -> Result<char, SyntaxError> {
    let begin = cursor.at() - 1;
    let control = match cursor.peek() {
        Some('0') => '\0',
        Some('a') => '\u{7}',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('v') => '\u{b}',
        Some('e') => '\u{1b}',
        Some(char @ ('"' | '\'' | '?' | '/')) => char,
        Some('x') => {
            cursor.next();
            let digits = cursor.take_while(|digit| digit.is_ascii_hexdigit());
            if digits.is_empty() {
                return Err(cursor.unexpected("hexadecimal digits after `\\x`"));
            }
            let digits = digits.trim_start_matches('0');
            let value = if digits.is_empty() { Some(0) } else { u32::from_str_radix(digits, 16).ok() };
            return value.and_then(char::from_u32).ok_or_else(|| no_character(cursor, begin));
        }
        _ => return escaped(cursor, others),
    };
    cursor.next();
    Ok(control)
}

fn no_character(cursor: &Cursor<'_>, begin: usize) -> SyntaxError {
    let escape = cursor.since(begin);
    cursor.invalid(begin, format!("`{escape}` is no character: surrogates and numbers above 10FFFF are not"))
}

/// Reads the literal in double quotes at which the cursor is.
pub(crate) fn quoted(cursor: &mut Cursor<'_>, others: &str) -> Result<String, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let mut text = String::new();
    loop {
        match cursor.peek() {
            Some('"') => break,
            None | Some('\n') => {
                return Err(cursor.unclosed(begin, "the text in quotes", "`\"` on the same line"));
            }
            Some('\\') => {
                cursor.next();
                text.push(escaped(cursor, others)?);
            }
            Some(char) => {
                cursor.next();
                text.push(char);
            }
        }
    }
    cursor.next();
    Ok(text)
}

/// Reads digits as a number. `expected` is named in the error if there are none.
pub(crate) fn number(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<u32, SyntaxError> {
    let begin = cursor.at();
    let digits = cursor.take_while(|char| char.is_ascii_digit());
    if digits.is_empty() {
        return Err(cursor.unexpected(expected));
    }
    // The largest number is reserved for unbounded repetitions.
    digits.parse().ok().filter(|number| *number < u32::MAX).ok_or_else(|| {
        cursor
            .invalid(begin, format!("a repetition of more than {} times; leave the bound out", u32::MAX - 1))
    })
}

/// Reads the bounds of a repetition in braces at which the cursor is: `{n}`, `{n,}`, `{n,m}`, and, if
/// `open_below`, `{,m}`.
pub(crate) fn bounds(
    cursor: &mut Cursor<'_>,
    open_below: bool,
    space: impl Fn(&mut Cursor<'_>),
) -> Result<(u32, u32), SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    space(cursor);
    let min = match cursor.peek() {
        Some(',') if open_below => 0,
        _ => number(cursor, "a number of repetitions, `0` for no least")?,
    };
    space(cursor);
    let mut max = min;
    if cursor.eat(",") {
        space(cursor);
        max = u32::MAX;
        if cursor.peek() != Some('}') {
            max = number(cursor, "a number of repetitions or `}`")?;
        }
        space(cursor);
    }
    if !cursor.eat("}") {
        return Err(cursor.unexpected("`,` or `}` in the bounds of a repetition"));
    }
    ordered(cursor, begin, min, max)
}

/// Returns the bounds if the upper one is not below the lower one.
pub(crate) fn ordered(
    cursor: &Cursor<'_>,
    begin: usize,
    min: u32,
    max: u32,
) -> Result<(u32, u32), SyntaxError> {
    if max < min {
        return Err(cursor.invalid(begin, format!("a repetition of at least {min} and at most {max} times")));
    }
    Ok((min, max))
}

/// Applies the postfix operator at which the cursor is. Returns whether there is one.
pub(crate) fn postfix(
    cursor: &mut Cursor<'_>,
    tree: &mut Tree<'_>,
    body: &mut Assembler,
    open_below: bool,
    space: impl Fn(&mut Cursor<'_>),
) -> Result<bool, SyntaxError> {
    let Some(operator @ ('*' | '+' | '?' | '{')) = cursor.peek() else { return Ok(false) };
    if body.last().is_none() {
        return Err(cursor.unexpected(match operator {
            '{' => "something to repeat before `{n,m}`; any number of repetitions is `(…)*`",
            '*' => "something to repeat before the operator; a comment does not begin with `(*`",
            _ => "something to repeat before the operator",
        }));
    }
    let (min, max) = match operator {
        '{' => bounds(cursor, open_below, space)?,
        operator => {
            cursor.next();
            match operator {
                '*' => (0, u32::MAX),
                '+' => (1, u32::MAX),
                _ => (0, 1),
            }
        }
    };
    body.repeat(tree, min, max);
    Ok(true)
}
