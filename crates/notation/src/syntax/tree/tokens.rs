//! Tokens in grammars: `<name>` is the control token of that name, and brackets hold ids.
//!
//! | text | tokens |
//! |---|---|
//! | `<\|im_end\|>` | the control token of this name, or else the one token of this text |
//! | `<[1000]>`, `<[1-5,7]>` | the tokens with these ids |
//! | `<[^9,20-29]>` | all tokens without these ids |
//! | `<[*]>` | all tokens |
//! | `!<name>`, `!<[9]>` | all other tokens |
//!
//! The notations are those of llguidance and of llama.cpp. A token by its id stands for itself and not for its text,
//! so another spelling of the same text is no such token.

use unskew_grammar::{SyntaxError, TokenSet};

use crate::syntax::{
    text::cursor::Cursor,
    tree::{Node, escape::number, reader::Reader},
};

/// Reads a token or a set of tokens, and adds it as an item. The cursor is at the `<`, or at a `!` before it.
pub(crate) fn token(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let complement = reader.cursor.eat("!");
    if complement && reader.cursor.peek() != Some('<') {
        return Err(reader.cursor.unexpected("a token such as `<|end|>` or `<[9]>` after `!`"));
    }
    let set = if reader.cursor.rest().starts_with("<[") {
        ids(&mut reader.cursor)?
    } else {
        let name = name(&mut reader.cursor)?;
        if !complement {
            let name = reader.tree.intern(name);
            let node = reader.tree.push(Node::Token(name), at);
            reader.body.item(&mut reader.tree, node);
            return Ok(());
        }
        TokenSet::of_name(name)
    };
    let set = if complement { set.complement() } else { set };
    let node = reader.tree.tokens(set, at);
    reader.body.item(&mut reader.tree, node);
    Ok(())
}

/// Reads the name of a control token, including the angle brackets. The cursor is at the `<`.
fn name<'t>(cursor: &mut Cursor<'t>) -> Result<&'t str, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let inside = cursor.take_while(|char| !matches!(char, '>' | '\n' | ' ' | '\t' | '\r'));
    if !cursor.eat(">") {
        return Err(cursor.unclosed(begin, "the name of a token", "`>` before the next blank"));
    }
    if inside.is_empty() {
        return Err(cursor.invalid(begin, "a token without a name"));
    }
    Ok(cursor.since(begin))
}

/// Reads `<[…]>`.
fn ids(cursor: &mut Cursor<'_>) -> Result<TokenSet, SyntaxError> {
    let begin = cursor.at();
    cursor.eat("<[");
    let mut set = TokenSet::default();
    if cursor.eat("*") {
        set.complement = true;
    } else {
        set.complement = cursor.eat("^");
        loop {
            blank(cursor);
            let at = cursor.at();
            let first = number(cursor, "the id of a token")?;
            let last = if cursor.eat("-") { number(cursor, "the last id of a range")? } else { first };
            if last < first {
                let range = cursor.since(at);
                return Err(cursor.invalid(at, format!("the range {range} ends before it begins")));
            }
            set.ranges.push((first, last));
            blank(cursor);
            if !cursor.eat(",") {
                break;
            }
        }
    }
    if !cursor.eat("]>") {
        return Err(cursor.unclosed(begin, "the list of tokens", "`]>`"));
    }
    Ok(set)
}

fn blank(cursor: &mut Cursor<'_>) {
    cursor.take_while(|char| char == ' ');
}
