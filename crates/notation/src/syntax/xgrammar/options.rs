//! Options of a rule: `name[max_chars=8, lazy] ::= …`.

use unskew_grammar::{Fate, SyntaxError};

use super::{Reader, quoted, unknown};
use crate::syntax::{
    cursor::Cursor,
    escape::number,
    tree::{Node, NodeId},
};

/// The options of a rule that change its texts.
#[derive(Default)]
pub(super) struct Options {
    lazy: bool,
    most_chars: Option<u32>,
    most_tokens: Option<u32>,
}

impl Options {
    /// The body of the rule at `at` with its options.
    pub(super) fn apply(&self, reader: &mut Reader<'_>, mut body: NodeId, at: usize) -> NodeId {
        let tree = &mut reader.tree;
        if self.lazy {
            body = tree.push(Node::Shortest(body), at);
        }
        if let Some(most) = self.most_chars {
            body = tree.within(body, most, at);
        }
        if let Some(most) = self.most_tokens {
            body = tree.push(Node::Budget(body, most), at);
        }
        body
    }
}

/// Skips the options of a rule, if `::=` follows them.
pub(super) fn skip(cursor: &mut Cursor<'_>) {
    let mut ahead = *cursor;
    if !ahead.eat("[") {
        return;
    }
    let mut inside = false;
    loop {
        match ahead.next() {
            Some('"') => inside = !inside,
            Some(']') if !inside => break,
            None | Some('\n' | '\r') => return,
            Some('[') if !inside => return,
            Some(_) => {}
        }
    }
    let after = ahead;
    ahead.take_while(|char| char == ' ' || char == '\t');
    if ahead.rest().starts_with("::=") {
        *cursor = after;
    }
}

/// Reads the options of a rule, if there are any. The cursor is after the name.
pub(super) fn read(reader: &mut Reader<'_>, (rule, rule_at): (&str, usize)) -> Result<Options, SyntaxError> {
    /// The names of all options.
    const KNOWN: [&str; 9] = [
        "max_tokens",
        "max_chars",
        "capture",
        "lazy",
        "temperature",
        "stop_capture",
        "capture_hidden_suffix_bytes",
        "capture_hidden_stop_bytes",
        "capture_hidden_body_rule_id",
    ];
    let mut options = Options::default();
    if !reader.cursor.eat("[") {
        return Ok(options);
    }
    let mut seen = vec![];
    loop {
        blank(&mut reader.cursor);
        let at = reader.cursor.at();
        let name = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
        if seen.contains(&name) {
            return Err(reader.cursor.invalid(at, format!("the option `{name}` is given a second time")));
        }
        seen.push(name);
        match name {
            "" => {
                return Err(reader.cursor.unexpected("an option of a rule, such as `lazy` or `max_chars=8`"));
            }
            "lazy" => {
                options.lazy = true;
                reader.tree.notes.push((
                    at,
                    "`lazy`",
                    Fate::Enforced,
                    "the rule ends at the first place where it can",
                ));
            }
            "max_chars" => {
                options.most_chars = Some(value(reader)?);
                let why = "the rule ends at the first place after so many characters, or before";
                reader.tree.notes.push((at, "`max_chars`", Fate::Enforced, why));
            }
            "max_tokens" => {
                let most = value(reader)?;
                if most == 0 {
                    return Err(reader
                        .cursor
                        .invalid(at, "a rule of no tokens; the least number of tokens is 1"));
                }
                options.most_tokens = Some(most);
                reader.tree.ends.push((at, "`max_tokens`"));
            }
            "capture" | "stop_capture" => {
                let mut of = rule.to_owned();
                blank(&mut reader.cursor);
                if name == "stop_capture" || reader.cursor.rest().starts_with('=') {
                    equals(reader)?;
                    if reader.cursor.peek() != Some('"') {
                        return Err(reader.cursor.unexpected("a name in double quotes"));
                    }
                    let at = reader.cursor.at();
                    let given = quoted(&mut reader.cursor)?.text;
                    if given.is_empty() {
                        return Err(reader.cursor.invalid(at, "the name of a part of the output is empty"));
                    }
                    of = given;
                }
                if name == "capture" {
                    reader.tree.captures.insert(rule_at, of);
                    let why = "its texts are reported by this name, and no text changes";
                    reader.tree.notes.push((at, "`capture`", Fate::Enforced, why));
                } else {
                    let why =
                        "only XGrammar's printer of Lark writes it; it changes no text and is not reported";
                    reader.tree.notes.push((at, "`stop_capture`", Fate::Annotation, why));
                }
            }
            "temperature" => {
                equals(reader)?;
                let begin = reader.cursor.at();
                let digits =
                    |char: char| char.is_ascii_digit() || matches!(char, '.' | '-' | '+' | 'e' | 'E');
                let number = reader.cursor.take_while(digits).parse::<f64>();
                let number = number.ok().filter(|number| *number >= 0.0 && *number <= f64::from(f32::MAX));
                let Some(number) = number else {
                    return Err(reader.cursor.invalid(begin, "a temperature is a number from 0"));
                };
                reader.tree.temperatures.insert(rule_at, number);
                let why = "its number is reported to the sampler where its texts stand, and no text changes";
                reader.tree.notes.push((at, "`temperature`", Fate::Annotation, why));
            }
            _ if name.starts_with("capture_hidden_") => {
                value(reader)?;
                let why = "it hides a part of what is named, and changes no text";
                reader.tree.notes.push((at, "`capture_hidden`", Fate::Annotation, why));
            }
            _ => return Err(unknown(&reader.cursor, at, "the option", name, &KNOWN)),
        }
        blank(&mut reader.cursor);
        if reader.cursor.eat("]") {
            return Ok(options);
        }
        if !reader.cursor.eat(",") {
            return Err(reader.cursor.unexpected("`,` or `]` after an option of a rule"));
        }
    }
}

fn equals(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    blank(&mut reader.cursor);
    if !reader.cursor.eat("=") {
        return Err(reader.cursor.unexpected("`=` and the value of the option"));
    }
    blank(&mut reader.cursor);
    Ok(())
}

fn value(reader: &mut Reader<'_>) -> Result<u32, SyntaxError> {
    equals(reader)?;
    number(&mut reader.cursor, "a number")
}

fn blank(cursor: &mut Cursor<'_>) {
    cursor.take_while(|char| char == ' ' || char == '\t');
}
