//! Reads the bodies of definitions in Lark: the text after the colon.
//!
//! Bodies of rules and of terminals share one reader, because they differ in a few operators only.

use unskew_automata::{Dialect, dfa::CharSet};
use unskew_grammar::{Fate, SyntaxError};

use super::{check_name, inline, is_terminal};
use crate::syntax::{
    assembler::Group,
    cursor::Cursor,
    escape::{number, ordered, postfix, quoted},
    expand::{Arguments, Call},
    parameters::parameter,
    reader::Reader,
    tokens::token,
    tree::{Node, NodeId, Pattern},
};

/// Characters that may follow a backslash in a text, in addition to those that every language has.
pub(super) const OTHERS: &str = "\"f";

/// Constructs of other notations that Lark lacks, each with the text to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("'", QUOTES),
    ("“", QUOTES),
    ("”", QUOTES),
    ("‘", QUOTES),
    ("’", QUOTES),
    ("`", QUOTES),
    (".", "any character is the regex `/./`"),
    ("\\", "a regex is written between slashes, such as `/[0-9]+/`"),
    ("^", "a terminal is read as a whole: no mark of its beginning is needed"),
    ("$", "an output is read as a whole: no mark of its end is needed"),
    (
        ",",
        "the parts of a sequence are separated by blanks and not by commas; Lark has no calls with arguments",
    ),
    (";", "a rule ends with its line, without a semicolon"),
    ("=", "Lark has no calls with arguments; a regex is written between slashes, such as `/[a-z]+/`"),
    (
        "!",
        "look-ahead is a part of a regex, such as `/=(?!=)/`; a terminal leaves texts out as in `NAME: /[a-z]+/ & ~\"if\"`",
    ),
    ("-", "a terminal leaves texts out as in `NAME: /[a-z]+/ & ~\"if\"`, and a comment begins with `//`"),
];

const QUOTES: &str = "a text is written in double quotes, `\"…\"`";

/// Reads a body up to the end of its last line. `terminal` is whether it is the body of a terminal.
pub(super) fn read(reader: &mut Reader<'_>, terminal: bool) -> Result<(), SyntaxError> {
    reader.body.begin(reader.cursor.at());
    while !ends(reader) {
        item(reader, terminal)?;
        reader.check_size()?;
    }
    Ok(())
}

/// Skips blanks and comments. Returns whether the body ends here.
fn ends(reader: &mut Reader<'_>) -> bool {
    if reader.body.depth() > 0 {
        space(&mut reader.cursor);
        let cursor = reader.cursor;
        return cursor.peek().is_none() || (cursor.is_first_on_line() && is_definition(cursor));
    }
    blank(&mut reader.cursor);
    if reader.depth > 0 && reader.cursor.peek() == Some('}') {
        return true;
    }
    if matches!(reader.cursor.peek(), None | Some('\n' | '\r')) {
        let mut ahead = reader.cursor;
        space(&mut ahead);
        if ahead.peek() != Some('|') {
            return true;
        }
        reader.cursor = ahead;
    }
    false
}

fn item(reader: &mut Reader<'_>, terminal: bool) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    match reader.cursor.peek() {
        Some('"') => text(reader),
        Some('/') => regex(reader),
        Some('(') => group(reader, Group::Round),
        Some('[') => group(reader, Group::Square),
        Some(')') => reader.close(Group::Round),
        Some(']') => reader.close(Group::Square),
        Some('|') => {
            if reader.body.waits() {
                return Err(reader.cursor.unexpected("something after the operator"));
            }
            reader.cursor.next();
            reader.body.bar(&mut reader.tree);
            let mut ahead = reader.cursor;
            space(&mut ahead);
            // An alternative goes on in the next line, unless a definition begins there: then it is empty.
            if reader.body.depth() > 0 || !is_definition(ahead) {
                reader.cursor = ahead;
            }
            Ok(())
        }
        Some('~') => tilde(reader, terminal),
        Some('&') => {
            if !terminal {
                let way_out = "define a terminal (in upper case) by it: only terminals have this operator";
                return Err(reader.cursor.unsupported(at, "`&` in a rule", way_out));
            }
            if reader.body.last().is_none() {
                return Err(reader.cursor.unexpected("something before `&`"));
            }
            reader.cursor.next();
            reader.body.and();
            Ok(())
        }
        Some('-') if reader.cursor.rest().starts_with("->") => alias(reader, terminal),
        Some('<' | '!') if reader.cursor.rest().trim_start_matches('!').starts_with('<') => {
            if terminal {
                let way_out = "use it in a rule, next to the terminal";
                return Err(reader.cursor.unsupported(at, "a control token in a terminal", way_out));
            }
            token(reader)
        }
        Some('%' | '@') => inline::read(reader, terminal),
        Some(char) if char.is_ascii_alphabetic() || char == '_' => reference(reader, terminal),
        _ => {
            let Reader { cursor, tree, body, .. } = reader;
            if postfix(cursor, tree, body, true, space)? {
                return Ok(());
            }
            let expected = "a name, a text in quotes, a regex, a group, `|` or the end of the line";
            Err(cursor.foreign(FOREIGN, expected))
        }
    }
}

fn group(reader: &mut Reader<'_>, group: Group) -> Result<(), SyntaxError> {
    reader.body.open(group, &reader.cursor)?;
    reader.cursor.next();
    Ok(())
}

/// Reads `"text"`, `"text"i`, or `"a".."z"`.
fn text(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let text = quoted(&mut reader.cursor, OTHERS)?;
    if reader.cursor.eat("i") {
        let node = if text.chars().any(char::is_alphabetic) {
            let span = reader.tree.text_span(text.as_bytes());
            reader.tree.push(Node::AnyCase(span), at)
        } else {
            reader.tree.literal(text.as_bytes(), at)
        };
        reader.body.item(&mut reader.tree, node);
        return Ok(());
    }
    let mut ahead = reader.cursor;
    blank(&mut ahead);
    if !ahead.eat("..") {
        reader.literal(&text, at);
        return Ok(());
    }
    blank(&mut ahead);
    if ahead.peek() != Some('"') {
        return Err(ahead.unexpected("a character in quotes, as the end of a range"));
    }
    let last = quoted(&mut ahead, OTHERS)?;
    let single = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|_| chars.next().is_none())
    };
    let (Some(first), Some(last)) = (single(&text), single(&last)) else {
        return Err(ahead.invalid(at, "the ends of a range are one character each"));
    };
    if last < first {
        let range = ahead.since(at);
        return Err(ahead.invalid(at, format!("the range {range} ends before it begins")));
    }
    reader.cursor = ahead;
    let set = CharSet::new(vec![(u32::from(first), u32::from(last))]);
    if set.is_empty() {
        return Err(reader.cursor.invalid(at, "a range without characters"));
    }
    reader.class(set, at);
    Ok(())
}

/// Reads `/regex/flags`.
fn regex(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let cursor = &mut reader.cursor;
    cursor.next();
    let begin = cursor.at();
    let content = loop {
        match cursor.peek() {
            None => {
                let close = "`/`; alternatives are joined by `|`, and a comment begins with `//`";
                return Err(cursor.unclosed(at, "the regex", close));
            }
            Some('/') => break cursor.since(begin),
            Some('\\') => {
                cursor.next();
                cursor.next();
            }
            Some(_) => drop(cursor.next()),
        }
    };
    cursor.next();
    let mut flags = String::new();
    loop {
        let flag = cursor.peek().filter(char::is_ascii_lowercase);
        match flag {
            Some(flag @ ('i' | 'm' | 's' | 'x')) => flags.push(flag),
            // Patterns are about characters anyway.
            Some('u') => {}
            Some('l') => {
                let way_out = "write the characters that are meant";
                return Err(cursor.unsupported(cursor.at(), "the flag `l` of a regex", way_out));
            }
            Some(_) => {
                return Err(cursor.unexpected("one of the flags `i`, `m`, `s`, `u` and `x`, or a blank"));
            }
            None => break,
        }
        cursor.next();
    }
    let mut regex = String::new();
    if !flags.is_empty() {
        regex = format!("(?{flags})");
    }
    let added = regex.len();
    regex.push_str(content);
    let node = reader.tree.regex(Pattern { regex, dialect: Dialect::Python, added: Some(added) }, at);
    reader.body.item(&mut reader.tree, node);
    Ok(())
}

/// Reads `~`. Before an item it is the complement, after an item it repeats: `~ n` and `~ n..m`.
fn tilde(reader: &mut Reader<'_>, terminal: bool) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    reader.cursor.next();
    blank(&mut reader.cursor);
    let is_count = reader.cursor.peek().is_some_and(|digit| digit.is_ascii_digit());
    if is_count {
        if reader.body.last().is_none() {
            return Err(reader
                .cursor
                .invalid(at, "`~` and a number repeat an item, and there is none before them"));
        }
        let min = number(&mut reader.cursor, "a number of repetitions")?;
        let mut max = min;
        let mut ahead = reader.cursor;
        blank(&mut ahead);
        if ahead.eat("..") {
            blank(&mut ahead);
            max = number(&mut ahead, "a number of repetitions after `..`")?;
            reader.cursor = ahead;
        }
        let (min, max) = ordered(&reader.cursor, at, min, max)?;
        reader.body.repeat(&mut reader.tree, min, max);
        return Ok(());
    }
    if !terminal {
        let way_out = "define a terminal (in upper case) by it; to repeat, write a number after `~`";
        return Err(reader.cursor.unsupported(at, "`~` in a rule", way_out));
    }
    if reader.body.waits() && reader.body.negates() {
        return Err(reader.cursor.invalid(at, "`~~`: leave both out"));
    }
    reader.body.not();
    Ok(())
}

/// Reads `-> name` after an alternative.
fn alias(reader: &mut Reader<'_>, terminal: bool) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    if terminal || reader.body.depth() > 0 {
        return Err(reader
            .cursor
            .invalid(at, "only an alternative of a rule, outside of groups, has an alias"));
    }
    reader.cursor.eat("->");
    blank(&mut reader.cursor);
    if name(&mut reader.cursor).is_empty() {
        return Err(reader.cursor.unexpected("the name of the alias"));
    }
    reader.tree.notes.push((at, "an alias", Fate::Annotation, "it shapes trees and changes no text"));
    if !ends(reader) && reader.cursor.peek() != Some('|') {
        return Err(reader.cursor.unexpected("`|` or the end of the line after an alias"));
    }
    Ok(())
}

/// Reads a text in quotes, a regex, or the name of a terminal, as the value of an attribute.
pub(super) fn value(reader: &mut Reader<'_>) -> Result<NodeId, SyntaxError> {
    reader.body.begin(reader.cursor.at());
    match reader.cursor.peek() {
        Some('"') => text(reader)?,
        Some('/') => regex(reader)?,
        Some(first) if first.is_ascii_alphabetic() || first == '_' => reference(reader, true)?,
        _ => return Err(reader.cursor.unexpected("a text in quotes, a regex, or the name of a terminal")),
    }
    reader.end_body()
}

fn reference(reader: &mut Reader<'_>, terminal: bool) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let name = name(&mut reader.cursor);
    if reader.cursor.peek() == Some('(')
        && name.chars().any(|char| char.is_ascii_uppercase())
        && !is_terminal(name)
    {
        let construct = format!("the call `{name}(…)`");
        let way_out =
            "a regex is written between slashes, such as `/[a-z]+/`; write everything else as a rule";
        return Err(reader.cursor.unsupported(at, construct, way_out));
    }
    if name == "common" && reader.cursor.peek() == Some('.') {
        let message = "`%import common.NAME` defines `NAME`: write that name alone";
        return Err(reader.cursor.invalid(at, message));
    }
    check_name(reader, name, at)?;
    if terminal && !is_terminal(name) {
        let message =
            format!("the rule `{name}` in a terminal: a terminal consists of texts, regexes and terminals");
        return Err(reader.cursor.invalid(at, message));
    }
    let rest = reader.cursor.rest();
    if let Some(inside) = rest.strip_prefix('{')
        && !inside.trim_start().starts_with(|first: char| first.is_ascii_digit() || first == ',')
    {
        let arguments = arguments(reader, terminal)?;
        let name = reader.tree.intern(name);
        let node = reader.tree.called(Call { name, arguments: Arguments::Nodes(arguments) }, at);
        reader.body.item(&mut reader.tree, node);
        return Ok(());
    }
    if reader.cursor.eat("::") {
        let arguments = Arguments::Number(parameter(&mut reader.cursor)?);
        let name = reader.tree.intern(name);
        let node = reader.tree.called(Call { name, arguments }, at);
        reader.body.item(&mut reader.tree, node);
        return Ok(());
    }
    reader.reference(name, at);
    Ok(())
}

/// Reads the arguments of a template, `{item, ("," | ";")}`.
fn arguments(reader: &mut Reader<'_>, terminal: bool) -> Result<Vec<NodeId>, SyntaxError> {
    let open = reader.cursor.at();
    reader.cursor.next();
    let mut arguments = Vec::new();
    loop {
        reader.body.begin(reader.cursor.at());
        loop {
            space(&mut reader.cursor);
            match reader.cursor.peek() {
                None => return Err(reader.cursor.unclosed(open, "the list of arguments", "`}`")),
                Some(',' | '}') if reader.body.group().0 == Group::Body => break,
                _ => item(reader, terminal)?,
            }
            reader.check_size()?;
        }
        arguments.push(reader.end_body()?);
        if reader.cursor.eat("}") {
            return Ok(arguments);
        }
        reader.cursor.next();
    }
}

/// Reads a name. A dash is part of it if a letter, digit or underscore follows.
pub(super) fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    let begin = cursor.at();
    let letter = |char: char| char.is_ascii_alphanumeric() || char == '_';
    if cursor.peek().is_some_and(|first| first.is_ascii_digit()) {
        return "";
    }
    loop {
        cursor.take_while(letter);
        let mut ahead = *cursor;
        if cursor.at() == begin || !ahead.eat("-") || !ahead.peek().is_some_and(letter) {
            return cursor.since(begin);
        }
        *cursor = ahead;
    }
}

/// Whether a definition or a directive begins at the cursor, and no item of a body.
fn is_definition(mut cursor: Cursor<'_>) -> bool {
    const DIRECTIVES: [&str; 7] =
        ["ignore", "import", "override", "extend", "declare", "llguidance", "grammar_options"];
    if cursor.eat("%") {
        let word = cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
        return DIRECTIVES.contains(&word);
    }
    cursor.take_while(|char| char == '?' || char == '!');
    if name(&mut cursor).is_empty() {
        return false;
    }
    if cursor.eat(".") {
        cursor.take_while(|char| matches!(char, '+' | '-' | '0'..='9'));
    }
    blank(&mut cursor);
    for (open, close) in [("{", '}'), ("[", ']')] {
        if cursor.eat(open) {
            cursor.take_while(|char| char != close && char != '\n');
            cursor.next();
            blank(&mut cursor);
        }
    }
    if cursor.eat("::") {
        blank(&mut cursor);
        if !cursor.eat("_") {
            return false;
        }
        blank(&mut cursor);
    }
    cursor.peek() == Some(':')
}

/// Skips blanks, comments and line ends.
pub(super) fn space(cursor: &mut Cursor<'_>) {
    loop {
        blank(cursor);
        if cursor.take_while(|char| char == '\n' || char == '\r').is_empty() {
            return;
        }
    }
}

/// Skips blanks, a comment within the line, and a line end after a backslash.
pub(super) fn blank(cursor: &mut Cursor<'_>) {
    loop {
        cursor.take_while(|char| matches!(char, ' ' | '\t' | '\u{c}'));
        if cursor.rest().starts_with("//") || cursor.peek() == Some('#') {
            cursor.skip_line();
            return;
        }
        let mut ahead = *cursor;
        if !ahead.eat("\\") {
            return;
        }
        ahead.take_while(|char| char == ' ');
        ahead.eat("\r");
        if !ahead.eat("\n") {
            return;
        }
        *cursor = ahead;
    }
}
