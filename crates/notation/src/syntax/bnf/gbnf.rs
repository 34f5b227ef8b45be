//! GBNF, the grammars of llama.cpp.
//!
//! ```text
//! root  ::= "[" ws (value ("," ws value)*)? "]"     # a comment
//! value ::= [0-9]+ | [^\x00-\x1f"\\]{1,8} |
//!           root
//! ws    ::= [ \t\n]*
//! ```
//!
//! - Texts, classes and the escapes `\xHH`, `\uHHHH` and `\UHHHHHHHH` are about characters: `"\xe9"` is `é`, two
//!   bytes. `.` is any character, including a newline. The other escapes are `\n \r \t \\ \" \' \[ \] \- \^`.
//! - A rule continues after the end of a line inside brackets, after `::=` and after `|`. Here it also
//!   continues before `|`, unlike in llama.cpp.
//! - The start rule is `root`.
//! - `<name>` is the control token of that name, or the end of the output if the token ends sequences; a token that
//!   is no control token is named by its text.
//!   [`tokens`](crate::syntax::tokens) lists the notations for ids and for all other tokens (`!<name>`).
//! - A range in a class that ends before it begins has no character, as in llama.cpp; `explain` names it.
//! - A second rule of the same name is an error. In llama.cpp it replaces the first.

use unskew_automata::dfa::CharSet;
use unskew_grammar::{GrammarLimits, SyntaxError};

use crate::syntax::{
    bnf::{ANGLES, Characters, FOREIGN, OTHERS, name, note_named_classes, open},
    text::cursor::Cursor,
    tree::{
        Tree,
        assembler::Group,
        escape::{postfix, quoted},
        reader::Reader,
        tokens::token,
    },
};

pub(crate) fn read<'t>(text: &'t str, limits: &'t GrammarLimits) -> Result<Tree<'t>, SyntaxError> {
    let mut reader = Reader::new(text, limits);
    reader.cursor.eat("\u{feff}");
    loop {
        space(&mut reader.cursor);
        if reader.cursor.peek().is_none() {
            note_named_classes(&mut reader);
            return Ok(reader.tree);
        }
        rule(&mut reader)?;
    }
}

fn rule(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let name = name(&mut reader.cursor);
    if name.is_empty() {
        let foreign = [&[("<", ANGLES)], FOREIGN].concat();
        return Err(reader.cursor.foreign(
            &foreign,
            "the name of a rule; a rule continues on the next line only inside brackets and next to `|`",
        ));
    }
    blank(&mut reader.cursor);
    if !reader.cursor.eat("::=") {
        return Err(reader.cursor.unexpected(
            "`::=` after the name of a rule; a rule continues on the next line only inside brackets and next to `|`",
        ));
    }
    space(&mut reader.cursor);
    reader.body.begin(reader.cursor.at());
    while !ends(reader) {
        item(reader)?;
        reader.check_size()?;
    }
    reader.end(name, at, false)
}

/// Skips blanks and comments. Returns whether the rule ends here.
fn ends(reader: &mut Reader<'_>) -> bool {
    if reader.body.depth() > 0 {
        space(&mut reader.cursor);
        let mut ahead = reader.cursor;
        let is_named = ahead.is_first_on_line() && !name(&mut ahead).is_empty();
        blank(&mut ahead);
        return reader.cursor.peek().is_none() || (is_named && ahead.eat("::="));
    }
    blank(&mut reader.cursor);
    let here = reader.cursor;
    if matches!(here.peek(), None | Some('\n' | '\r')) {
        let mut ahead = here;
        space(&mut ahead);
        if ahead.peek() != Some('|') {
            return true;
        }
        reader.cursor = ahead;
    }
    false
}

fn item(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    match reader.cursor.peek() {
        Some('"') => {
            let text = quoted(&mut reader.cursor, OTHERS)?;
            reader.literal(&text, at);
        }
        Some('[') => {
            let set = reader.bracketed(Characters::Escaped, &mut None)?;
            reader.class(set, at);
        }
        Some('.') => {
            reader.cursor.next();
            reader.class(CharSet::all(), at);
        }
        Some('(') => open(reader)?,
        Some(')') => reader.close(Group::Round)?,
        Some('|') => {
            reader.cursor.next();
            reader.body.bar(&mut reader.tree);
            space(&mut reader.cursor);
        }
        Some('<' | '!') => token(reader)?,
        Some(char) if char.is_ascii_alphanumeric() || char == '-' || char == '_' => {
            let name = name(&mut reader.cursor);
            reader.reference(name, at);
        }
        _ => {
            let Reader { cursor, tree, body, .. } = reader;
            if !postfix(cursor, tree, body, false, space)? {
                let expected = "a name, a text in quotes, a class, a group, `|` or the end of the rule";
                return Err(cursor.foreign(FOREIGN, expected));
            }
        }
    }
    Ok(())
}

/// Skips blanks, comments and line ends.
fn space(cursor: &mut Cursor<'_>) {
    loop {
        cursor.take_while(|char| matches!(char, ' ' | '\t' | '\r' | '\n'));
        if cursor.peek() != Some('#') {
            return;
        }
        cursor.skip_line();
    }
}

/// Skips blanks and a comment within the line.
fn blank(cursor: &mut Cursor<'_>) {
    cursor.take_while(|char| matches!(char, ' ' | '\t'));
    if cursor.peek() == Some('#') {
        cursor.skip_line();
    }
}
