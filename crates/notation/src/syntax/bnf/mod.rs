//! Constructs that GBNF and EBNF share: names, character classes, groups, and definitions by `::=`.
//!
//! They are here because both languages write them alike, apart from escapes ([`Characters`]). Lark writes
//! them differently.

pub(crate) mod abnf;
mod classical;
mod ebnf;
pub(crate) mod gbnf;
mod iso;

use unskew_automata::dfa::CharSet;
use unskew_grammar::{Fate, GrammarLimits, SyntaxError};

use crate::syntax::{
    lower::Ignored,
    options::GrammarOptions,
    text::cursor::Cursor,
    tree::{
        Node, Tree,
        assembler::Group,
        escape::{escaped, escaped_as_in_c},
        reader::Reader,
    },
};

/// Characters that stand for themselves after a backslash.
pub(crate) const OTHERS: &str = "\"'[]-^";

/// Characters that stand for themselves after a backslash in a class of XGrammar.
const CLASS: &str = "^$.*+()[]{}|-";

/// Constructs of other notations that GBNF and EBNF lack, each with the text to write instead.
pub(crate) const FOREIGN: &[(&str, &str)] = &[
    ("“", QUOTES),
    ("”", QUOTES),
    ("‘", QUOTES),
    ("’", QUOTES),
    ("`", QUOTES),
    ("'", QUOTES),
    ("//", "a comment begins with `#`"),
    ("/*", "a comment begins with `#`"),
    (
        "/",
        "a regex is written as classes and repetitions, such as `[a-z]+`, and alternatives are joined by `|`",
    ),
    ("\\", "a class of characters is written as `[…]`, such as `[0-9]`"),
    ("^", "an output is read as a whole: no mark of its beginning is needed"),
    ("$", "an output is read as a whole: no mark of its end is needed"),
    (
        ",",
        "the parts of a sequence are separated by blanks and not by commas; this notation has no calls with arguments",
    ),
    (";", "a rule ends before the next one, without a semicolon"),
    ("!", "look-ahead is not supported; list the allowed texts"),
    ("&", "look-ahead is not supported; write the text without it"),
    ("~", "list the allowed texts, or, for a single character, write a class such as `[^a-z]`"),
    ("=", "look-ahead such as `(=…)` is not supported; leave it out"),
    ("%x", "a character by its number is `\"\\x41\"`, or in EBNF `#x41`"),
    ("%", "directives such as `%ignore` are read in a file that ends in `.lark`"),
    ("ε", "the empty text is `\"\"`"),
];

/// The way out for the name of a rule in `<…>`.
pub(crate) const ANGLES: &str = "the name of a rule is written without angle brackets";

const QUOTES: &str = "a text is written in double quotes, `\"…\"`";

/// The notation for characters that cannot be typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Characters {
    /// Escapes after a backslash, as in GBNF.
    Escaped,
    /// Code points as `#xN`, as in the W3C's notation. A backslash is an ordinary character.
    Numbered,
    /// Escapes after a backslash, as in XGrammar, and a class may be all characters, `[^]`.
    OfC,
}

/// Reads a text in EBNF or BNF, in the notation of its first rule. Returns the name of the notation too, which an error
/// has, unless it is the W3C's.
pub(super) fn read<'t>(
    text: &'t str,
    limits: &'t GrammarLimits,
) -> (Option<&'static str>, Result<(Tree<'t>, Ignored), SyntaxError>) {
    let ignored = || Ignored::new("`@pass`", &GrammarOptions::default());
    let mut cursor = Cursor::new(text);
    cursor.eat("\u{feff}");
    loop {
        cursor.take_while(char::is_whitespace);
        let rest = cursor.rest();
        let is_number = rest.strip_prefix("#x").is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
        if !is_number && ["#", "//", ";", "--"].iter().any(|mark| rest.starts_with(mark)) {
            cursor.skip_line();
        } else if !(rest.starts_with("/*") && cursor.skip_past("*/")) {
            break;
        }
    }
    let is_iso = cursor.rest().starts_with("(*") || {
        let mut ahead = cursor;
        let word = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | ' ' | '\t');
        ahead.peek().is_some_and(|first| first.is_alphabetic() || first == '_') && {
            ahead.take_while(word);
            ahead.take_while(char::is_whitespace);
            ahead.peek() == Some('=')
        }
    };
    if is_iso {
        return (Some("the EBNF of ISO 14977"), iso::read(text, limits).map(|tree| (tree, ignored())));
    }
    if classical::head(&mut cursor) {
        return (Some("classical BNF"), classical::read(text, limits).map(|tree| (tree, ignored())));
    }
    (None, ebnf::read(text, limits))
}

/// Notes classes that are written like a rule in brackets.
pub(super) fn note_named_classes(reader: &mut Reader<'_>) {
    for node in reader.tree.nodes() {
        let at = reader.tree.place(node);
        let inside = reader.text[at..].strip_prefix('[').and_then(|rest| rest.split(']').next());
        if matches!(reader.tree.node(node), Node::Class(_))
            && inside.is_some_and(|name| reader.tree.find(name).is_some())
        {
            let why = "it is one of these characters, and not the rule of this name, which is written without brackets";
            reader.tree.notes.push((at, "a class with the name of a rule", Fate::Enforced, why));
        }
    }
}

/// The error of a range at `at`, after which the cursor is or which a class follows.
fn backwards(cursor: &Cursor<'_>, at: usize) -> SyntaxError {
    let range: String = cursor.since(at).split(']').next().unwrap_or_default().into();
    cursor.invalid(at, format!("the range `{range}` ends before it begins"))
}

impl Reader<'_> {
    /// Reads a character class. The cursor is at its `[`. `backslash` receives the offset of the first
    /// backslash in the class, if it has no value yet.
    pub(crate) fn bracketed(
        &mut self,
        characters: Characters,
        backslash: &mut Option<usize>,
    ) -> Result<CharSet, SyntaxError> {
        let begin = self.cursor.at();
        let cursor = &mut self.cursor;
        // As a character class it would end before its last bracket.
        let posix = cursor.rest().trim_start_matches(['[', '^']).strip_prefix(':');
        let name = posix.map(|name| name.trim_start_matches(|char: char| char.is_ascii_lowercase()));
        if cursor.rest().starts_with(['[']) && name.is_some_and(|after| after.starts_with(":]]")) {
            let way_out = "list the characters that are meant, such as `[a-zA-Z]`";
            return Err(cursor.unsupported(begin, "a class by its name, such as `[[:alpha:]]`", way_out));
        }
        cursor.next();
        let negated = cursor.eat("^");
        let (mut ranges, mut compact_at, mut emptied) = (vec![], 1 << 12, None);
        loop {
            let at = cursor.at();
            if cursor.eat("]") {
                break;
            }
            let first = Self::member(cursor, begin, characters, backslash)?;
            let mut last = first;
            if cursor.peek() == Some('-') && !cursor.rest().starts_with("-]") {
                cursor.next();
                last = Self::member(cursor, begin, characters, backslash)?;
            }
            if last < first && characters == Characters::Escaped {
                let why = "it ends before it begins, and so has no character, as llama.cpp reads it";
                self.tree.notes.push((at, "a range", Fate::Enforced, why));
                emptied = Some(at);
                continue;
            }
            if last < first {
                return Err(backwards(cursor, at));
            }
            ranges.push((u32::from(first), u32::from(last)));
            // A class may list a character a million times, so the list is compacted now and then.
            if ranges.len() >= compact_at {
                ranges = CharSet::new(ranges).ranges().to_vec();
                compact_at = compact_at.max(2 * ranges.len());
            }
        }
        if ranges.is_empty() && negated && characters == Characters::OfC {
            return Ok(CharSet::all());
        }
        match emptied {
            Some(_) if negated => {}
            Some(at) if ranges.is_empty() => return Err(backwards(cursor, at)),
            _ => {}
        }
        if ranges.is_empty() && emptied.is_none() {
            let any = if characters == Characters::OfC { "[^]" } else { "." };
            let message = format!("a class without characters; write `{any}` for any character");
            return Err(cursor.invalid(begin, message));
        }
        let set = CharSet::new(ranges);
        let set = if negated { set.complement() } else { set };
        if set.is_empty() {
            return Err(cursor.invalid(begin, "a class that leaves out every character"));
        }
        Ok(set)
    }

    fn member(
        cursor: &mut Cursor<'_>,
        begin: usize,
        characters: Characters,
        backslash: &mut Option<usize>,
    ) -> Result<char, SyntaxError> {
        let at = cursor.at();
        if characters == Characters::Numbered
            && let Some(char) = hexadecimal(cursor)?
        {
            return Ok(char);
        }
        match cursor.peek() {
            None | Some('\n') => {
                let escaped = characters != Characters::Numbered && cursor.since(begin).contains("\\]");
                let close = match escaped {
                    true => "`]` on the same line; `\\]` is a bracket in it, and `\\\\` a backslash",
                    false => "`]` on the same line",
                };
                Err(cursor.unclosed(begin, "the class", close))
            }
            Some('\\') => {
                backslash.get_or_insert(at);
                cursor.next();
                match characters {
                    Characters::Escaped => escaped(cursor, OTHERS),
                    Characters::Numbered => itself(cursor, at),
                    Characters::OfC => escaped_as_in_c(cursor, CLASS),
                }
            }
            Some(char) => {
                cursor.next();
                Ok(char)
            }
        }
    }
}

/// The backslash at `at`, as an ordinary character. A backslash that looks like an escape is an error,
/// because the author may have meant an escape.
pub(crate) fn itself(cursor: &Cursor<'_>, at: usize) -> Result<char, SyntaxError> {
    match is_escape(cursor.rest()) {
        false => Ok('\\'),
        true => Err(cursor.invalid(
            at,
            "a backslash is itself in a file with characters such as `#xA`, and here it looks like an escape: write `#x5C` for \
             a backslash and `#xA` for a newline, each by its number",
        )),
    }
}

/// Whether `after`, the text after a backslash, looks like an escape of GBNF for a character other than
/// itself, or for a backslash.
pub(crate) fn is_escape(after: &str) -> bool {
    let digits = |count: usize| {
        let digits = after.chars().skip(1).take(count);
        digits.filter(char::is_ascii_hexdigit).count() == count
    };
    match after.chars().next() {
        Some('n' | 'r' | 't' | '\\') => true,
        Some('x') => digits(2),
        Some('u') => digits(4),
        Some('U') => digits(8),
        _ => false,
    }
}

/// Reads `#xN`, a character by its code point, if the cursor is at one.
pub(crate) fn hexadecimal(cursor: &mut Cursor<'_>) -> Result<Option<char>, SyntaxError> {
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

/// Reads a name, which may contain dashes.
pub(crate) fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_')
}

/// Opens a group at `(`.
pub(crate) fn open(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    reader.body.open(Group::Round, &reader.cursor)?;
    reader.cursor.next();
    Ok(())
}
