//! ABNF, the grammars of RFCs: RFC 5234 with its errata, and RFC 7405.
//!
//! ```text
//! list  = "[" item *( "," item ) "]"   ; a comment
//! item  = 1*DIGIT / %s"null"
//! item =/ list
//! ```
//!
//! | | RFC | here |
//! |---|---|---|
//! | the start rule | none is said | the first rule, or the one that is given |
//! | names | case does not count; letters, digits and dashes | the same |
//! | `"…"`, `%i"…"` | letters of ASCII in both cases | the same |
//! | `%x41-5A`, `%d13.10`, `%b1` | numbers, which an encoding makes characters | code points, written in UTF-8; a surrogate is an error |
//! | `<…>` | words for a human, or the name of a rule | the name of a rule; else an error |
//! | `=/` | further alternatives of a rule | the same |
//! | core rules of appendix B | defined | the same, if the grammar does not define them |
//! | `OCTET` | any byte | an error: outputs are texts, in which `%x80-FF` are code points |
//! | the end of a rule | the next line that is not indented more | the next `name =` or `name =/` |
//!
//! A published grammar stands in the text of an RFC with an indentation of its own, so a rule ends before the next
//! definition, and not by its indentation alone: `name =` occurs nowhere inside of a rule. A line inside of a rule
//! that is not indented more than its first line is an error, because a part of the grammar may be missing there.

use std::collections::HashMap;

use unskew_automata::{Dialect, dfa::CharSet};
use unskew_grammar::{Fate, GrammarLimits, SyntaxError, SyntaxErrorKind};

use crate::syntax::{
    text::{
        cursor::Cursor,
        error::{location, nearest},
    },
    tree::{
        Definition, Node, NodeId, Pattern, Tree,
        assembler::Group,
        escape::{self, ordered},
        expand::Parameters,
        reader::Reader,
    },
};

/// Constructs of other notations that ABNF lacks, each with the text to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("|", "alternatives are separated by `/`"),
    ("::=", "a rule is defined by `=`"),
    (":", "a rule is defined by `=`"),
    ("'", "a text is written in double quotes, `\"…\"`"),
    ("+", "at least one is `1*` before the item"),
    ("?", "a part that may be left out is `[…]`"),
    ("{", "a number of repetitions stands before the item, such as `2*4`"),
    (",", "the parts of a sequence are separated by blanks"),
    ("#", "lists of HTTP such as `#item` are not part of ABNF; write `item *( \",\" item )`"),
    ("-", "a range of characters is `%x41-5A`; ABNF has no differences"),
];

/// The state of a reading.
struct Names<'t> {
    /// By name in lower case: the name as it is first written.
    spelled: HashMap<String, &'t str>,
}

impl<'t> Names<'t> {
    fn spelled(&mut self, name: &'t str) -> &'t str {
        self.spelled.entry(name.to_ascii_lowercase()).or_insert(name)
    }
}

/// Reads a text in ABNF. The first definition is that of the first rule.
pub(crate) fn read<'t>(text: &'t str, limits: &'t GrammarLimits) -> Result<Tree<'t>, SyntaxError> {
    let mut reader = Reader::new(text, limits);
    let mut names = Names { spelled: HashMap::new() };
    reader.cursor.eat("\u{feff}");
    loop {
        space(&mut reader.cursor);
        if reader.cursor.peek().is_none() && !reader.tree.definitions.is_empty() {
            break;
        }
        rule(&mut reader, &mut names)?;
    }
    core_rules(&mut reader)?;
    Ok(reader.tree)
}

/// The name of the start rule as the grammar spells it.
pub(crate) fn spelling<'t>(tree: &Tree<'t>, name: &str) -> Option<&'t str> {
    let names = tree.definitions.iter().map(|definition| tree.name(definition.name));
    names.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

fn rule<'t>(reader: &mut Reader<'t>, names: &mut Names<'t>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let name = name(&mut reader.cursor);
    if name.is_empty() {
        return Err(reader.cursor.foreign(FOREIGN, "the name of a rule"));
    }
    let indentation = indentation(reader.text, at);
    if indentation.is_none() {
        return Err(reader
            .cursor
            .invalid(at, format!("the name of the rule `{name}` must be the first on its line")));
    }
    space(&mut reader.cursor);
    if !reader.cursor.eat("=") {
        return Err(reader.cursor.foreign(FOREIGN, "`=` or `=/` after the name of a rule"));
    }
    let more = reader.cursor.eat("/");
    space(&mut reader.cursor);
    reader.body.begin(reader.cursor.at());
    // By open group: the repetitions before it.
    let mut before: Vec<Option<(u32, u32)>> = vec![];
    while !ends(&reader.cursor) {
        let here = reader.cursor.at();
        let is_less = self::indentation(reader.text, here).is_some_and(|here| Some(here) <= indentation);
        if is_less && reader.cursor.peek() != Some('=') {
            let message = format!(
                "this line belongs to the rule `{name}` and is not indented more than its first line; is a rule missing here?"
            );
            return Err(reader.cursor.invalid(here, message));
        }
        element(reader, names, &mut before)?;
        space(&mut reader.cursor);
        reader.check_size()?;
    }
    check_item(reader)?;
    let body = reader.end_body()?;
    define(reader, names.spelled(name), at, body, more)
}

/// Defines a rule, or adds alternatives to it if there are `more`.
fn define<'t>(
    reader: &mut Reader<'t>,
    name: &'t str,
    at: usize,
    body: NodeId,
    more: bool,
) -> Result<(), SyntaxError> {
    match (reader.tree.find(name), more) {
        (None, false) => reader.define(name, at, body, false),
        (Some(earlier), true) => {
            let old = reader.tree.definitions[earlier].body;
            reader.tree.definitions[earlier].body = reader.tree.choice(&[old, body], at);
            Ok(())
        }
        (Some(earlier), false) => {
            let first = location(reader.text, reader.tree.definitions[earlier].at);
            let message = format!(
                "`{name}` is defined a second time; the first definition is at {first}: add alternatives with `=/`"
            );
            Err(reader.cursor.invalid(at, message))
        }
        (None, true) => {
            let defined = reader.tree.definitions.iter().map(|definition| reader.tree.name(definition.name));
            let nearest = nearest(name, defined);
            let way_out = Some("its first definition has `=` and precedes those with `=/`");
            let kind = SyntaxErrorKind::Undefined { what: "rule", name: name.to_owned(), nearest, way_out };
            Err(reader.cursor.error(at, kind))
        }
    }
}

/// The number of bytes before `at` on its line, if they are blanks.
fn indentation(text: &str, at: usize) -> Option<usize> {
    // Only blanks are read, as a line may be long.
    let before = text[..at].trim_end_matches([' ', '\t', '\u{feff}']);
    (before.is_empty() || before.ends_with(['\n', '\r'])).then_some(at - before.len())
}

/// Whether the rule ends here: at the end of the text, or before the next rule.
fn ends(cursor: &Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    if ahead.peek().is_none() {
        return true;
    }
    if name(&mut ahead).is_empty() {
        return false;
    }
    space(&mut ahead);
    ahead.rest().starts_with('=')
}

/// An alternative needs an item.
fn check_item(reader: &Reader<'_>) -> Result<(), SyntaxError> {
    match reader.body.last() {
        Some(_) => Ok(()),
        None => Err(reader.cursor.unexpected("an item; the empty text is `\"\"`")),
    }
}

/// Reads an element with its repetitions, an operator or a bracket.
fn element<'t>(
    reader: &mut Reader<'t>,
    names: &mut Names<'t>,
    before: &mut Vec<Option<(u32, u32)>>,
) -> Result<(), SyntaxError> {
    let times = repetition(&mut reader.cursor)?;
    let at = reader.cursor.at();
    let first = reader.cursor.peek();
    if times.is_some() && matches!(first, None | Some('/' | ')' | ']' | ' ' | '\t' | '\r' | '\n' | ';')) {
        return Err(reader.cursor.unexpected("an item immediately after its number of repetitions"));
    }
    match first {
        Some('(' | '[') => {
            let group = if first == Some('(') { Group::Round } else { Group::Square };
            reader.body.open(group, &reader.cursor)?;
            reader.cursor.next();
            before.push(times);
            return Ok(());
        }
        Some(close @ (')' | ']')) => {
            if reader.body.depth() > 0 {
                check_item(reader)?;
            }
            reader.close(if close == ')' { Group::Round } else { Group::Square })?;
            let times = before.pop().expect("a group was open");
            repeat(reader, times);
            return Ok(());
        }
        Some('/') => {
            check_item(reader)?;
            reader.cursor.next();
            reader.body.bar(&mut reader.tree);
            return Ok(());
        }
        Some('"') => string(reader, at, true)?,
        Some('%') => number(reader)?,
        Some('<') => in_angles(reader, names)?,
        Some(letter) if letter.is_ascii_alphabetic() => {
            let name = name(&mut reader.cursor);
            reader.reference(names.spelled(name), at);
        }
        _ => {
            return Err(reader
                .cursor
                .foreign(FOREIGN, "a name, a text in double quotes, `%x…`, a group, `/` or the next rule"));
        }
    }
    repeat(reader, times);
    Ok(())
}

fn repeat(reader: &mut Reader<'_>, times: Option<(u32, u32)>) {
    if let Some((min, max)) = times {
        reader.body.repeat(&mut reader.tree, min, max);
    }
}

/// Reads `3`, `*`, `1*`, `*2` or `1*2`, if the cursor is at one.
fn repetition(cursor: &mut Cursor<'_>) -> Result<Option<(u32, u32)>, SyntaxError> {
    let begin = cursor.at();
    let bound = |cursor: &mut Cursor<'_>| match cursor.peek() {
        Some('0'..='9') => escape::number(cursor, "a number of repetitions").map(Some),
        _ => Ok(None),
    };
    let min = bound(cursor)?;
    if cursor.eat("*") {
        let max = bound(cursor)?;
        return ordered(cursor, begin, min.unwrap_or(0), max.unwrap_or(u32::MAX)).map(Some);
    }
    Ok(min.map(|times| (times, times)))
}

/// Reads a text in double quotes. `at` is the offset of its beginning, its prefix included.
fn string(reader: &mut Reader<'_>, at: usize, any_case: bool) -> Result<(), SyntaxError> {
    let begin = reader.cursor.at();
    reader.cursor.next();
    let text = reader.cursor.take_while(|char| matches!(char, ' '..='~') && char != '"');
    match reader.cursor.peek() {
        Some('"') => _ = reader.cursor.next(),
        None | Some('\n' | '\r') => {
            return Err(reader.cursor.unclosed(begin, "the text in quotes", "`\"` on the same line"));
        }
        Some(char) => {
            let message =
                format!("{char:?} is not ASCII, and texts in quotes are: write `%x{:X}`", u32::from(char));
            return Err(reader.cursor.invalid(reader.cursor.at(), message));
        }
    }
    if !any_case || !text.contains(|char: char| char.is_ascii_alphabetic()) {
        reader.literal(text, at);
        return Ok(());
    }
    let most = reader.limits.regex.pattern_bytes / 4;
    if text.len() > most {
        let message = format!(
            "a text in upper and lower case of more than {most} bytes; write `%s` before it, or split it"
        );
        return Err(reader.cursor.invalid(begin, message));
    }
    // `(?i)` would add characters beyond ASCII, such as the sign for kelvin to `k`.
    let mut regex = String::with_capacity(4 * text.len());
    for char in text.chars() {
        match char {
            letter if letter.is_ascii_alphabetic() => {
                regex.extend(['[', letter.to_ascii_lowercase(), letter.to_ascii_uppercase(), ']']);
            }
            other => regex.push_str(&regex_syntax::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    let node = reader.tree.regex(Pattern { regex, dialect: Dialect::Rust, added: None }, at);
    reader.body.item(&mut reader.tree, node);
    Ok(())
}

/// Reads `%x41`, `%x41-5A`, `%x41.42`, the same with `d` and `b`, and `%s"…"` and `%i"…"`.
fn number(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    reader.cursor.next();
    let base = match reader.cursor.peek() {
        Some('x' | 'X') => 16,
        Some('d' | 'D') => 10,
        Some('b' | 'B') => 2,
        Some(prefix @ ('s' | 'S' | 'i' | 'I')) => {
            reader.cursor.next();
            if reader.cursor.peek() != Some('"') {
                return Err(reader.cursor.unexpected("a text in double quotes after `%s` or `%i`"));
            }
            return string(reader, at, prefix.eq_ignore_ascii_case(&'i'));
        }
        _ => return Err(reader.cursor.unexpected("`x`, `d`, `b`, `s` or `i` after `%`")),
    };
    reader.cursor.next();
    let first = value(&mut reader.cursor, base)?;
    if reader.cursor.eat("-") {
        let last = value(&mut reader.cursor, base)?;
        if last < first {
            let range = reader.cursor.since(at);
            return Err(reader.cursor.invalid(at, format!("the range `{range}` ends before it begins")));
        }
        let set = CharSet::new(vec![(first, last)]);
        if set.is_empty() {
            return Err(reader.cursor.invalid(at, "surrogates are no characters"));
        }
        if last > 0x7f {
            note(reader, at);
        }
        reader.class(set, at);
        return Ok(());
    }
    let mut values = vec![first];
    while reader.cursor.eat(".") {
        values.push(value(&mut reader.cursor, base)?);
    }
    let mut text = String::new();
    for value in values {
        let Some(char) = char::from_u32(value) else {
            return Err(reader.cursor.invalid(at, "surrogates are no characters"));
        };
        text.push(char);
    }
    if !text.is_ascii() {
        note(reader, at);
    }
    reader.literal(&text, at);
    Ok(())
}

fn note(reader: &mut Reader<'_>, at: usize) {
    let why = "its numbers are code points, which are written in UTF-8, and no bytes";
    reader.tree.notes.push((at, "numbers above `%x7F`", Fate::Enforced, why));
}

/// Reads the digits of a number.
fn value(cursor: &mut Cursor<'_>, base: u32) -> Result<u32, SyntaxError> {
    let begin = cursor.at();
    let digits = cursor.take_while(|char| char.is_digit(base));
    if digits.is_empty() {
        return Err(cursor.unexpected(match base {
            16 => "hexadecimal digits",
            10 => "decimal digits",
            _ => "binary digits",
        }));
    }
    let digits = digits.trim_start_matches('0');
    let value = if digits.is_empty() { Some(0) } else { u32::from_str_radix(digits, base).ok() };
    value
        .filter(|value| *value <= 0x10_ffff)
        .ok_or_else(|| cursor.invalid(begin, "no character has a number above 10FFFF"))
}

/// Reads `<…>`: the name of a rule, or words.
fn in_angles<'t>(reader: &mut Reader<'t>, names: &mut Names<'t>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    reader.cursor.next();
    let name = name(&mut reader.cursor);
    if name.is_empty() || !reader.cursor.eat(">") {
        let way_out = "write a rule for the texts that are meant";
        return Err(reader.cursor.unsupported(at, "a description in words, `<…>`,", way_out));
    }
    reader.reference(names.spelled(name), at + 1);
    Ok(())
}

/// Reads a name; it is empty if the cursor is at none.
fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    if !cursor.peek().is_some_and(|first| first.is_ascii_alphabetic()) {
        return "";
    }
    cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '-')
}

/// Skips white space, line ends and comments.
fn space(cursor: &mut Cursor<'_>) {
    loop {
        cursor.take_while(|char| matches!(char, ' ' | '\t' | '\r' | '\n'));
        if cursor.peek() != Some(';') {
            return;
        }
        cursor.take_while(|char| char != '\n' && char != '\r');
    }
}

/// A core rule: its name, its ranges of characters, and its text if it has no ranges.
type Core = (&'static str, &'static [(u32, u32)], &'static str);

const CORE: [Core; 14] = [
    ("ALPHA", &[(0x41, 0x5a), (0x61, 0x7a)], ""),
    ("BIT", &[(0x30, 0x31)], ""),
    ("CHAR", &[(0x1, 0x7f)], ""),
    ("CR", &[], "\r"),
    ("CRLF", &[], "\r\n"),
    ("CTL", &[(0, 0x1f), (0x7f, 0x7f)], ""),
    ("DIGIT", &[(0x30, 0x39)], ""),
    ("DQUOTE", &[], "\""),
    ("HEXDIG", &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)], ""),
    ("HTAB", &[], "\t"),
    ("LF", &[], "\n"),
    ("SP", &[], " "),
    ("VCHAR", &[(0x21, 0x7e)], ""),
    ("WSP", &[(0x9, 0x9), (0x20, 0x20)], ""),
];

/// Defines the core rules that the grammar uses and does not define.
fn core_rules(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    // More undefined names than there are core rules are an error elsewhere, and only as many are looked up.
    let mut used: Vec<(u32, usize)> = vec![];
    for node in reader.tree.nodes() {
        if let Node::Name(name) = reader.tree.node(node)
            && reader.tree.definition_of(name).is_none()
            && !used.iter().any(|(known, _)| *known == name)
            && used.len() <= CORE.len() + 2
        {
            used.push((name, reader.tree.place(node)));
        }
    }
    for (name, at) in used {
        let spelled = reader.tree.name(name);
        let is = |core: &str| spelled.eq_ignore_ascii_case(core);
        if is("OCTET") {
            let way_out = "an output is a text and not bytes; write `%x0-10FFFF` for any character";
            return Err(reader.cursor.unsupported(at, "the core rule `OCTET`", way_out));
        }
        let tree = &mut reader.tree;
        let body = if is("LWSP") {
            // *( WSP / CRLF WSP )
            let blanks = CharSet::new(vec![(0x9, 0x9), (0x20, 0x20)]);
            let (line, blank) = (tree.literal(b"\r\n", at), tree.class(blanks, at));
            let folded = tree.sequence(&[line, blank], at);
            let one = tree.choice(&[blank, folded], at);
            tree.push(Node::Repeat(one, 0, u32::MAX), at)
        } else {
            match CORE.iter().find(|(core, ..)| is(core)) {
                Some((_, [], text)) => tree.literal(text.as_bytes(), at),
                Some((_, ranges, _)) => tree.class(CharSet::new(ranges.to_vec()), at),
                None => continue,
            }
        };
        let parameters = Parameters::None;
        reader.define_as(Definition { name, at, body, terminal: false, parameters })?;
    }
    Ok(())
}
