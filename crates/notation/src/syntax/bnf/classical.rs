//! Classical BNF: names in angle brackets, as in the report on ALGOL 60, and the extensions of SQL's standard.
//!
//! ```text
//! <order>      ::= <verb> " " <thing list>
//! <verb>       ::= "buy" | "sell"
//! <thing list> ::= <thing> | <thing> ", " <thing list>     // names have blanks
//! <thing>      ::= tea | salt                              ; and texts may have no quotes
//! ```
//!
//! There is no standard, and files differ in what a bracket is. What a file does elsewhere decides, and where both may
//! be meant the text is an error:
//!
//! | | in a file with texts in quotes | in a file with `...`, as SQL's | in any other file |
//! |---|---|---|---|
//! | `"…"` | a text with escapes | the same | none is there |
//! | `'…'` | a text without escapes | the same | none is there |
//! | `foo` | a text | a text | a text, up to a blank, a name or `\|` |
//! | `(…)` | a group | a group | a text |
//! | `[…]` | may be left out | may be left out | an error, but a text in `x[0]` |
//! | `{…}` | any number of times | a group | an error, but a text in `x{0}` |
//! | `x...` | one or more | one or more | none is there |
//! | `*`, `+`, `?`, `{n}` behind an item | a repetition | a repetition | a text |
//! | a sign that is all of an alternative | a text | a text | a text |
//! | `#`, `;`, `//`, `--` | comments | comments | comments at the beginning of a line |
//! | `;` after every rule | ends it | ends it | ends it |
//!
//! - Blanks and line breaks between the parts of a rule are no text. A rule ends before the next `<name> ::=`.
//! - `ε`, `<empty>` and `<epsilon>` without a definition, and an alternative without a part, are the empty text.
//! - `!!`, with which SQL's standard says something in words, is an error.
//! - The start rule is `root` if there is one, else the first rule.

use unskew_grammar::{Fate, GrammarLimits, SyntaxError};

use crate::syntax::{
    bnf::{Characters, OTHERS, ebnf::plain},
    text::cursor::Cursor,
    tree::{
        Tree,
        assembler::Group,
        escape::{postfix, quoted},
        reader::Reader,
    },
};

/// Names that are the empty text unless they have a definition.
const EMPTY: [&str; 2] = ["empty", "epsilon"];

/// What a file does, which decides what its signs are.
#[derive(Clone, Copy, Default)]
struct Style {
    /// Some text is in quotes.
    quotes: bool,
    /// Some item is followed by `...`.
    dots: bool,
    /// Every rule ends in `;`.
    terminated: bool,
}

impl Style {
    /// The style of the file at whose beginning `cursor` is.
    fn new(mut cursor: Cursor<'_>) -> Self {
        let mut style = Self::default();
        let (mut rules, mut terminated, mut last) = (0, 0, None);
        loop {
            space(&mut cursor, style);
            let before = cursor;
            if head(&mut cursor) {
                terminated += usize::from(last == Some(';'));
                rules += 1;
                last = None;
                continue;
            }
            if name(&mut cursor).is_some() {
                last = None;
                continue;
            }
            style.dots |= cursor.rest().starts_with("...");
            let Some(first) = cursor.next() else { break };
            last = Some(first);
            if matches!(first, '"' | '\'') && !before.is_after(char::is_alphanumeric) {
                let mut ahead = cursor;
                ahead.take_while(|char| char != first && char != '\n');
                if ahead.eat(if first == '"' { "\"" } else { "'" }) {
                    style.quotes = true;
                    cursor = ahead;
                }
            }
        }
        terminated += usize::from(last == Some(';'));
        style.terminated = rules > 1 && terminated == rules;
        style
    }

    /// Whether brackets and signs of repetition are operators.
    fn has_operators(self) -> bool {
        self.quotes || self.dots
    }
}

pub(crate) fn read<'t>(text: &'t str, limits: &'t GrammarLimits) -> Result<Tree<'t>, SyntaxError> {
    let mut reader = Reader::new(text, limits);
    reader.cursor.eat("\u{feff}");
    let style = Style::new(reader.cursor);
    let mut empty: Vec<(&'t str, usize)> = vec![];
    loop {
        space(&mut reader.cursor, style);
        if reader.cursor.peek().is_none() {
            break;
        }
        let at = reader.cursor.at();
        let Some(name) = name(&mut reader.cursor) else {
            return Err(reader.cursor.unexpected("the name of a rule in angle brackets, such as `<name>`"));
        };
        space(&mut reader.cursor, style);
        if !reader.cursor.eat("::=") {
            return Err(reader.cursor.unexpected("`::=` after the name of a rule"));
        }
        body(&mut reader, style, &mut empty)?;
        reader.end(name, at, false)?;
    }
    for (name, at) in empty {
        if reader.tree.find(name).is_none() {
            let nothing = reader.tree.sequence(&[], at);
            reader.define(name, at, nothing, false)?;
        }
    }
    Ok(reader.tree)
}

/// Reads the body of a rule.
fn body<'t>(
    reader: &mut Reader<'t>,
    style: Style,
    empty: &mut Vec<(&'t str, usize)>,
) -> Result<(), SyntaxError> {
    let begin = reader.cursor.at();
    reader.body.begin(begin);
    // A round bracket that is a text, and is open in this alternative.
    let mut brackets: Vec<usize> = vec![];
    let mut begins = true;
    loop {
        space(&mut reader.cursor, style);
        let at = reader.cursor.at();
        if reader.cursor.peek().is_none() || head(&mut { reader.cursor }) {
            return unbalanced(&reader.cursor, &brackets);
        }
        let mut ahead = reader.cursor;
        let is_first = reader.cursor.since(begin).trim_start().is_empty();
        if is_first && ahead.eat("|") {
            space(&mut ahead, style);
            // A rule of two empty alternatives says nothing, so it is the sign itself.
            if ahead.peek().is_none() || head(&mut { ahead }) {
                reader.cursor.next();
                bare(reader, "|", at);
                continue;
            }
        }
        if reader.cursor.peek() == Some('|') {
            unbalanced(&reader.cursor, &brackets)?;
            brackets.clear();
            reader.cursor.next();
            reader.body.bar(&mut reader.tree);
            begins = true;
            continue;
        }
        if style.terminated && reader.cursor.eat(";") {
            space(&mut reader.cursor, style);
            if reader.cursor.peek().is_none() || head(&mut { reader.cursor }) {
                return unbalanced(&reader.cursor, &brackets);
            }
            return Err(reader.cursor.unexpected("the next rule after `;`, with which every rule ends here"));
        }
        let depth = reader.body.depth();
        let is_close =
            depth > 0 && style.has_operators() && reader.cursor.rest().starts_with([')', ']', '}']);
        if let Some(name) = name(&mut reader.cursor) {
            if EMPTY.contains(&name) {
                empty.push((name, at));
            }
            reader.reference(name, at);
        } else if let Some(sign) =
            (begins && !is_close).then(|| alone(&mut reader.cursor, depth > 0, style)).flatten()
        {
            bare(reader, sign, at);
        } else if style.has_operators() {
            operator_or_text(reader, style)?;
        } else {
            text(reader, &mut brackets)?;
        }
        begins = reader.body.depth() > depth;
        reader.check_size()?;
    }
}

/// Reads an item of a file in which brackets are operators.
fn operator_or_text(reader: &mut Reader<'_>, style: Style) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    match reader.cursor.peek() {
        Some('"') => {
            let text = quoted(&mut reader.cursor, OTHERS)?;
            reader.literal(&text, at);
        }
        Some('\'') => {
            let text = plain(&mut reader.cursor, '\'', Characters::Escaped, &mut None)?;
            reader.literal(text, at);
        }
        Some('(') => open(reader, Group::Round)?,
        Some('[') => open(reader, Group::Square)?,
        Some('{') if !(is_behind(reader) && is_bound(&reader.cursor)) => open(reader, Group::Curly)?,
        Some(')') => reader.close(Group::Round)?,
        Some(']') => reader.close(Group::Square)?,
        Some('}') => {
            reader.close(Group::Curly)?;
            if !style.dots {
                reader.body.repeat(&mut reader.tree, 0, u32::MAX);
            }
        }
        Some('.') if reader.cursor.rest().starts_with("...") => {
            if reader.body.last().is_none() {
                return Err(reader.cursor.unexpected("something to repeat before `...`"));
            }
            reader.cursor.eat("...");
            reader.body.repeat(&mut reader.tree, 1, u32::MAX);
        }
        Some('*' | '+' | '?' | '{') if is_behind(reader) => {
            let Reader { cursor, tree, body, .. } = reader;
            postfix(cursor, tree, body, true, |cursor| _ = cursor.take_while(|char| char == ' '))?;
        }
        Some('ε') => {
            reader.cursor.next();
            reader.literal("", at);
        }
        Some('!') if reader.cursor.rest().starts_with("!!") => {
            let way_out = "write the texts that are meant";
            return Err(reader.cursor.unsupported(at, "`!!`, a rule in words,", way_out));
        }
        Some(first) if first.is_alphanumeric() || first == '_' => {
            let word = word(&mut reader.cursor);
            bare(reader, word, at);
        }
        Some(';') => {
            let message = "found `;`, which is the end of a rule where every rule has one, a comment with text behind it, or a text: \
                           write `\";\"` for the text, and end all rules or none";
            return Err(reader.cursor.invalid(at, message));
        }
        _ => {
            let expected = "a name in angle brackets, a text in quotes, a word, a group, `|` or the next rule; a sign that is a text \
                            is in quotes";
            return Err(reader.cursor.unexpected(expected));
        }
    }
    Ok(())
}

/// Reads a text of a file that quotes none.
fn text(reader: &mut Reader<'_>, brackets: &mut Vec<usize>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    if reader.cursor.rest().starts_with(['#', ';']) || reader.cursor.rest().starts_with("//") {
        let mut ahead = reader.cursor;
        ahead.take_while(|char| matches!(char, '#' | ';' | '/'));
        let blanks = ahead.take_while(|char| char == ' ' || char == '\t');
        if !blanks.is_empty() && ahead.peek().is_some_and(char::is_alphanumeric) {
            let message =
                "this is a comment or a text: write comments in lines of their own, and texts in quotes";
            return Err(reader.cursor.invalid(at, message));
        }
    }
    while let Some(first) = reader.cursor.peek() {
        if first.is_whitespace() || first == '|' || name(&mut { reader.cursor }).is_some() {
            break;
        }
        match first {
            '(' => brackets.push(reader.cursor.at()),
            ')' if brackets.pop().is_none() => unbalanced(&reader.cursor, &[reader.cursor.at()])?,
            '[' | '{' if reader.cursor.at() == at || !is_closed(&reader.cursor) => {
                let message = format!(
                    "`{first}` is a text, or the beginning of a group, in a file without quotes: write all texts in quotes, \
                     and brackets that are no texts without them"
                );
                return Err(reader.cursor.invalid(reader.cursor.at(), message));
            }
            _ => {}
        }
        reader.cursor.next();
    }
    let text = reader.cursor.since(at);
    bare(reader, text, at);
    Ok(())
}

/// Whether the bracket at the cursor is closed before the next blank, name or `|`.
fn is_closed(cursor: &Cursor<'_>) -> bool {
    let close = if cursor.peek() == Some('[') { ']' } else { '}' };
    let mut ahead = *cursor;
    let inside = ahead.take_while(|char| !char.is_whitespace() && !matches!(char, '<' | '|'));
    inside.contains(close)
}

/// Adds a text without quotes.
fn bare<'t>(reader: &mut Reader<'t>, text: &'t str, at: usize) {
    const CONSTRUCT: &str = "texts without quotes";
    if !reader.tree.notes.iter().any(|(_, construct, ..)| *construct == CONSTRUCT) {
        let why = "they stand for themselves, and blanks between them for nothing";
        reader.tree.notes.push((at, CONSTRUCT, Fate::Enforced, why));
    }
    reader.literal(if text == "ε" { "" } else { text }, at);
}

/// An error if a round bracket in an alternative is a text there and has no other one.
fn unbalanced(cursor: &Cursor<'_>, brackets: &[usize]) -> Result<(), SyntaxError> {
    let Some(at) = brackets.first() else { return Ok(()) };
    let message = "a bracket without another one in its alternative, in a file in which brackets are texts because it quotes no text: \
                   write texts in quotes, and a group without";
    Err(cursor.invalid(*at, message))
}

fn open(reader: &mut Reader<'_>, group: Group) -> Result<(), SyntaxError> {
    reader.body.open(group, &reader.cursor)?;
    reader.cursor.next();
    Ok(())
}

/// Whether the cursor is directly behind an item.
fn is_behind(reader: &Reader<'_>) -> bool {
    reader.body.last().is_some() && !reader.cursor.is_after(char::is_whitespace)
}

/// Whether the cursor is at a number in braces.
fn is_bound(cursor: &Cursor<'_>) -> bool {
    cursor.rest()[1..].trim_start().starts_with(|first: char| first.is_ascii_digit() || first == ',')
}

/// Reads a sign that is all of its alternative: nothing but blanks is on its sides up to `|`, the end of the line, or
/// that of the group.
fn alone<'t>(cursor: &mut Cursor<'t>, is_inside: bool, style: Style) -> Option<&'t str> {
    let mut ahead = *cursor;
    let begin = ahead.at();
    let sign = |char: char| !char.is_whitespace() && !char.is_alphanumeric() && char != '|' && char != '_';
    ahead.take_while(sign);
    let text = ahead.since(begin);
    let end = ahead;
    ahead.take_while(|char| matches!(char, ' ' | '\t' | '\r'));
    // Several signs are no text where quotes and brackets have a meaning.
    let operators: &[char] =
        if style.has_operators() { &['"', '\'', '(', ')', '[', ']', '{', '}'] } else { &[] };
    let is_operator = text.len() > 1 && text.contains(operators);
    let closes = ahead.peek().is_some_and(|next| ")]}".contains(next)) && end.at() < ahead.at();
    let is_alone = (matches!(ahead.peek(), None | Some('|' | '\n')) || is_inside && closes)
        && !text.is_empty()
        && !is_operator;
    // A group that begins at the end of a line has alternatives in the next ones.
    let opens = text.starts_with(['(', '[', '{']) && {
        let mut next = ahead;
        next.take_while(char::is_whitespace);
        ahead.peek() == Some('\n') && !is_end(next)
    };
    if !is_alone || opens || text == "!!" || text == "..." {
        return None;
    }
    *cursor = end;
    Some(text)
}

/// Whether an alternative ends at the cursor.
fn is_end(mut cursor: Cursor<'_>) -> bool {
    cursor.peek().is_none() || cursor.peek() == Some('|') || head(&mut cursor)
}

/// Reads a word: letters, digits, underscores, and dashes between them.
fn word<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    let begin = cursor.at();
    let letter = |char: char| char.is_alphanumeric() || char == '_';
    loop {
        cursor.take_while(letter);
        let mut ahead = *cursor;
        if !ahead.eat("-") || !ahead.peek().is_some_and(letter) {
            return cursor.since(begin);
        }
        *cursor = ahead;
    }
}

/// Reads a name in angle brackets, without them. A name begins with a letter or digit.
fn name<'t>(cursor: &mut Cursor<'t>) -> Option<&'t str> {
    let mut ahead = *cursor;
    if !ahead.eat("<") {
        return None;
    }
    let name = ahead.take_while(|char| !matches!(char, '<' | '>' | '|' | '"' | '\n')).trim();
    let is_name = name.starts_with(|first: char| first.is_alphanumeric() || first == '_') && ahead.eat(">");
    is_name.then(|| {
        *cursor = ahead;
        name
    })
}

/// Reads `<name> ::=`. Returns whether it is there; if not, the cursor stays.
pub(super) fn head(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    let is_head = name(&mut ahead).is_some() && {
        ahead.take_while(char::is_whitespace);
        ahead.eat("::=")
    };
    if is_head {
        *cursor = ahead;
    }
    is_head
}

/// Skips white space and comments.
fn space(cursor: &mut Cursor<'_>, style: Style) {
    const MARKS: [&str; 4] = ["#", "//", "--", ";"];
    loop {
        cursor.take_while(char::is_whitespace);
        let mark = MARKS.into_iter().find(|mark| cursor.rest().starts_with(mark));
        if let Some(mark) = mark {
            let mut ahead = *cursor;
            ahead.eat(mark);
            ahead.take_while(|char| char == ' ' || char == '\t');
            let is_text = matches!(ahead.peek(), None | Some('|' | '\n' | '\r'));
            let may_end = style.has_operators() && cursor.is_after(char::is_whitespace);
            if cursor.is_first_on_line() || (may_end && !is_text) {
                cursor.skip_line();
                continue;
            }
        }
        let may_begin = style.has_operators() || cursor.is_first_on_line();
        let close = match cursor.rest() {
            rest if may_begin && rest.starts_with("/*") => "*/",
            rest if may_begin && rest.starts_with("(*") => "*)",
            _ => return,
        };
        let mut ahead = *cursor;
        if !ahead.skip_past(close) {
            return;
        }
        *cursor = ahead;
    }
}
