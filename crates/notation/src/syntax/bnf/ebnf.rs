//! EBNF with `::=`: the notation of the W3C (XML 1.0, section 6), and the notation of transformers-CFG and similar
//! programs, which is GBNF with free line breaks. Both use the extension `.ebnf`, so one front end reads both.
//!
//! | | W3C | GBNF-like | here |
//! |---|---|---|---|
//! | `#xN` | a character | a comment | a character; an error if other text follows `#x` without a blank |
//! | `"…"` | no escapes | escapes | escapes; none in a file with `#xN` |
//! | `'…'` | no escapes | none | no escapes; a backslash that looks like an escape is an error |
//! | `[…]` | `#xN` | escapes | escapes; in a file with `#xN`, `#xN` and an ordinary backslash |
//! | other `#` | none | a comment | a comment |
//! | `/* … */` | a comment | none | a comment |
//! | `A - B` | texts of A that are not texts of B | none | as the W3C, if both sides are regular |
//! | `.` | none | any character | any character |
//! | `{n,m}` | none | a repetition | a repetition |
//! | line breaks | no meaning | end rules | no meaning: a rule ends before the next `name ::=` |
//! | `[12]` before `name ::=` on its line | a number | none | skipped |
//! | `[ wfc: … ]` | a condition in words | none | an error, since it cannot be enforced |
//! | `@terminals` | the definitions after it are terminals | none | as the W3C |
//! | `@pass A` | A may stand between terminals | none | as the W3C, also before the first one |
//! | `@caseless - 'a'` | said in words | none | texts of rules in upper and lower case, but for `a` |
//! | start rule | the first rule | `root` | `root` if there is one, else the first rule |
//!
//! **A backslash is an ordinary character in every file that contains a character as `#xN`**, and only there.
//! So the terminals of SPARQL and Turtle can be used as published (`ECHAR ::= '\' [tbnrf\"']`). No file is
//! silently read in the sense of the other family: in a file with `#xN`, a backslash that looks like an escape
//! (`\n`, `\\`, `\x41`) is an error with a location and a way out. So is an escape in a file with numbered
//! productions, which only the W3C writes. [`explain`](crate::explain()) reports the reading of a backslash.
//!
//! **Directives.** `@terminals` and `@pass` are of the tools with which the W3C writes its grammars (the gem `ebnf`).
//! The files of SPARQL and Turtle have `@terminals`; that white space and comments separate terminals, and that
//! keywords have no case, their specifications say in words, so a user adds it. For Turtle, whose `a` and `true` have
//! a case:
//!
//! ```text
//! @pass WS | '#' [^#xA#xD]*
//! @caseless - 'a' - 'true' - 'false' - '@prefix' - '@base'
//! ```
//!
//! A text of `@pass` is as long as possible, as the tools read it: a comment ends where its line does, or the output.
//! In a file with `@pass` and without `@terminals` the terminals are the names without a lower-case letter, as both
//! specifications have it. Without `@pass` nothing may stand between terminals.
//!
//! A dash is part of a name if a letter, digit, dash or underscore follows it immediately. Otherwise it is
//! the difference operator.

use unskew_automata::dfa::CharSet;
use unskew_grammar::{Fate, GrammarLimits, SyntaxError};

use crate::{
    GrammarOptions,
    syntax::{
        bnf::{
            ANGLES, Characters, FOREIGN, OTHERS, hexadecimal, is_escape, itself, note_named_classes, open,
        },
        lower::Ignored,
        text::{cursor::Cursor, error::nearest},
        tree::{
            Node, NodeId, Tree,
            assembler::Group,
            escape::{postfix, quoted},
            reader::Reader,
        },
    },
};

/// The notation of a file.
struct Notation {
    characters: Characters,
    /// The offset of the first backslash in a class or in double quotes.
    backslash: Option<usize>,
    directives: Directives,
}

/// The directives of a file.
#[derive(Default)]
struct Directives {
    /// The number of definitions before `@terminals`.
    terminals: Option<usize>,
    /// The texts between terminals.
    pass: Vec<NodeId>,
    /// The texts that have a case, with their offsets, in a file in which others have none.
    cased: Option<Vec<(usize, String)>>,
    /// The texts of each definition.
    literals: Vec<Vec<NodeId>>,
}

pub(crate) fn read<'t>(text: &'t str, limits: &'t GrammarLimits) -> Result<(Tree<'t>, Ignored), SyntaxError> {
    let mut reader = Reader::new(text, limits);
    let directives = Directives::default();
    let mut notation = Notation { characters: characters(&reader.cursor)?, backslash: None, directives };
    reader.cursor.eat("\u{feff}");
    let mut numbered = None;
    loop {
        space(&mut reader.cursor)?;
        if number_of_production(&mut reader.cursor) {
            numbered = Some(reader.cursor.at());
        }
        space(&mut reader.cursor)?;
        match reader.cursor.peek() {
            None => break,
            Some('@') => directive(&mut reader, &mut notation)?,
            Some(_) => rule(&mut reader, &mut notation)?,
        }
    }
    if let Some((at, text)) = notation.directives.apply(&mut reader.tree) {
        let message = format!("no rule has the text `{text}`, which `@caseless` leaves out");
        return Err(reader.cursor.invalid(at, message));
    }
    note_named_classes(&mut reader);
    let mut ignored = Ignored::new("`@pass`", &GrammarOptions::default());
    ignored.nodes.append(&mut notation.directives.pass);
    ignored.longest = true;
    match (notation, numbered) {
        (Notation { characters: Characters::Escaped, backslash: Some(at), .. }, Some(_)) => {
            let message = "a backslash in a file with numbered productions, as the W3C writes them: there it is itself, and here an \
                           escape; write `#x5C` for a backslash and `#xA` for a newline, or leave the numbers out";
            Err(reader.cursor.invalid(at, message))
        }
        (Notation { characters: Characters::Numbered, backslash: Some(at), .. }, _) => {
            let why = "it is itself, and no escape, for the file has characters by their number";
            reader.tree.notes.push((at, "a backslash", Fate::Enforced, why));
            Ok((reader.tree, ignored))
        }
        _ => Ok((reader.tree, ignored)),
    }
}

impl Directives {
    /// Makes terminals of definitions, and texts of rules that have no case. Returns a text with a case that no rule
    /// has.
    fn apply(&self, tree: &mut Tree<'_>) -> Option<(usize, String)> {
        let mut unused = self.cased.clone().unwrap_or_default();
        for definition in 0..tree.definitions.len() {
            let name = tree.name(tree.definitions[definition].name);
            let is_terminal = match self.terminals {
                Some(before) => definition >= before,
                None => !self.pass.is_empty() && !name.chars().any(|char| char.is_ascii_lowercase()),
            };
            tree.definitions[definition].terminal = is_terminal;
            let Some(cased) = self.cased.as_ref().filter(|_| !is_terminal) else { continue };
            for literal in &self.literals[definition] {
                let Node::Literal(text) = tree.node(*literal) else { continue };
                let letters = tree.text(text);
                let is_cased = cased.iter().any(|(_, cased)| cased.as_bytes() == letters);
                unused.retain(|(_, unused)| unused.as_bytes() != letters);
                if letters.iter().any(u8::is_ascii_alphabetic) && !is_cased {
                    tree.replace(*literal, Node::AnyCase(text));
                }
            }
        }
        unused.into_iter().next()
    }
}

/// Reads a directive. The cursor is at its `@`.
fn directive(reader: &mut Reader<'_>, notation: &mut Notation) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    reader.cursor.next();
    let word = reader.cursor.take_while(|char| char.is_ascii_alphanumeric());
    let (construct, why) = match word {
        "terminals" => {
            notation.directives.terminals.get_or_insert(reader.tree.definitions.len());
            ("`@terminals`", "each definition after it is read as one text")
        }
        "pass" => {
            let body = body(reader, notation)?;
            notation.directives.pass.push(body);
            // A report has the place of its expression.
            return Ok(());
        }
        "caseless" => {
            let mut cased = notation.directives.cased.take().unwrap_or_default();
            space(&mut reader.cursor)?;
            while reader.cursor.eat("-") {
                space(&mut reader.cursor)?;
                let at = reader.cursor.at();
                let quote = reader.cursor.peek().filter(|first| ['"', '\''].contains(first));
                let Some(quote) = quote else {
                    return Err(reader.cursor.unexpected("a text in quotes, which has a case"));
                };
                cased.push((
                    at,
                    plain(&mut reader.cursor, quote, notation.characters, &mut notation.backslash)?
                        .to_owned(),
                ));
                space(&mut reader.cursor)?;
            }
            if reader.cursor.peek().is_some_and(|next| ['"', '\''].contains(&next)) {
                return Err(reader.cursor.unexpected("`-` before a text that has a case"));
            }
            notation.directives.cased = Some(cased);
            (
                "`@caseless`",
                "texts of rules are read in upper and lower case, but for those that it leaves out",
            )
        }
        _ => {
            let hint = nearest(word, ["terminals", "pass", "caseless"].into_iter());
            let hint = hint.map(|near| format!("; is `@{near}` meant?"));
            let hint = hint.unwrap_or_else(|| ", only `@terminals`, `@pass` and `@caseless`".to_owned());
            return Err(reader.cursor.invalid(at, format!("there is no directive `@{word}`{hint}")));
        }
    };
    reader.tree.notes.push((at, construct, Fate::Enforced, why));
    Ok(())
}

/// The notation of characters in the file. `cursor` is at its beginning.
fn characters(cursor: &Cursor<'_>) -> Result<Characters, SyntaxError> {
    let seen = [Characters::Escaped, Characters::Numbered].map(|read_as| Seen::new(*cursor, read_as));
    let [escaped, numbered] = &seen;
    let number = match (escaped.is_closed, numbered.is_closed) {
        (true, false) => escaped.number,
        (false, true) => numbered.number,
        _ if escaped.number.is_some() == numbered.number.is_some() => escaped.number,
        _ => {
            let at = escaped.number.or(numbered.number).expect("one of them has it");
            let message = "this is a character by its number, or a part of a text or class: it depends on whether backslashes before it \
                           are themselves or escapes; write `#x5C` for a backslash and `#x22` for `\"`";
            return Err(cursor.invalid(at, message));
        }
    };
    Ok(if number.is_some() { Characters::Numbered } else { Characters::Escaped })
}

/// The result of a quick scan of a file.
struct Seen {
    /// The offset of the first `#xN` outside of texts and comments.
    number: Option<usize>,
    /// Whether every text and class is closed on its line.
    is_closed: bool,
}

impl Seen {
    /// Scans the text from `cursor` on, with the meaning of backslashes given by `characters`.
    fn new(mut cursor: Cursor<'_>, characters: Characters) -> Self {
        let is_number = |cursor: &Cursor<'_>| {
            let digit = cursor.rest().strip_prefix("#x").and_then(|digits| digits.chars().next());
            digit.is_some_and(|digit| digit.is_ascii_hexdigit())
        };
        let mut seen = Self { number: None, is_closed: true };
        while let Some(first) = cursor.peek() {
            match first {
                '#' if is_number(&cursor) => {
                    seen.number.get_or_insert(cursor.at());
                    cursor.next();
                }
                '#' => cursor.skip_line(),
                '/' if cursor.eat("/*") => drop(cursor.skip_past("*/")),
                '\'' | '"' | '[' => {
                    let close = if first == '[' { ']' } else { first };
                    cursor.next();
                    while cursor.peek().is_some_and(|char| char != close && char != '\n') {
                        if first == '[' && is_number(&cursor) {
                            seen.number.get_or_insert(cursor.at());
                        }
                        let escapes = characters == Characters::Escaped && first != '\'';
                        if cursor.next() == Some('\\') && escapes && cursor.peek() != Some('\n') {
                            cursor.next();
                        }
                    }
                    seen.is_closed &= cursor.next() == Some(close);
                }
                _ => drop(cursor.next()),
            }
        }
        seen
    }
}

fn rule(reader: &mut Reader<'_>, notation: &mut Notation) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    let name = name(&mut reader.cursor);
    if name.is_empty() {
        let foreign = [&[("<", ANGLES)], FOREIGN].concat();
        return Err(reader.cursor.foreign(&foreign, "the name of a rule"));
    }
    space(&mut reader.cursor)?;
    if !reader.cursor.eat("::=") {
        return Err(reader.cursor.unexpected(
            "`::=` after the name of a rule; a file whose first rule has `=` is read as the EBNF of ISO 14977",
        ));
    }
    notation.directives.literals.push(vec![]);
    let body = body(reader, notation)?;
    reader.define(name, at, body, false)
}

/// Reads an expression up to the next rule or directive.
fn body(reader: &mut Reader<'_>, notation: &mut Notation) -> Result<NodeId, SyntaxError> {
    space(&mut reader.cursor)?;
    reader.body.begin(reader.cursor.at());
    while !ends(reader)? {
        item(reader, notation)?;
        reader.check_size()?;
    }
    reader.end_body()
}

/// Skips white space and comments. Returns whether the rule ends here: at the end of the text, or before the
/// next rule or directive.
fn ends(reader: &mut Reader<'_>) -> Result<bool, SyntaxError> {
    space(&mut reader.cursor)?;
    let mut ahead = reader.cursor;
    let numbered = number_of_production(&mut ahead);
    space(&mut ahead)?;
    let Some(first) = ahead.peek().filter(|first| *first != '@') else { return Ok(!numbered) };
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
        Some('"') if notation.characters == Characters::Numbered => {
            let text = plain(&mut reader.cursor, '"', notation.characters, &mut notation.backslash)?;
            literal(reader, notation, text, at);
        }
        Some('"') => {
            let text = quoted(&mut reader.cursor, OTHERS)?;
            if reader.cursor.since(at).contains('\\') {
                notation.backslash.get_or_insert(at);
            }
            literal(reader, notation, &text, at);
        }
        Some('\'') => {
            let text = plain(&mut reader.cursor, '\'', notation.characters, &mut notation.backslash)?;
            literal(reader, notation, text, at);
        }
        Some('[') => {
            condition(&reader.cursor)?;
            let set = reader.bracketed(notation.characters, &mut notation.backslash)?;
            reader.class(set, at);
        }
        Some('#') => {
            // `space` has skipped the comments.
            let char = hexadecimal(&mut reader.cursor)?;
            let ends = !reader.cursor.peek().is_some_and(char::is_alphanumeric);
            let Some(char) = char.filter(|_| ends) else {
                let message = "`#x` begins the number of a character, in hexadecimal digits; a comment that begins with \
                               `x` needs a blank behind `#`";
                return Err(reader.cursor.invalid(at, message));
            };
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
                let expected = "a name, a text in quotes, a class, `#xN`, a group, `|`, `-` or the next rule";
                return Err(cursor.foreign(FOREIGN, expected));
            }
        }
    }
    Ok(())
}

/// Adds a text as an item.
fn literal(reader: &mut Reader<'_>, notation: &mut Notation, text: &str, at: usize) {
    reader.literal(text, at);
    if let (Some(literals), Some(node)) = (notation.directives.literals.last_mut(), reader.body.last()) {
        literals.push(node);
    }
}

/// Reads a literal between two `quote`s in which a backslash is an ordinary character.
pub(super) fn plain<'t>(
    cursor: &mut Cursor<'t>,
    quote: char,
    characters: Characters,
    backslash: &mut Option<usize>,
) -> Result<&'t str, SyntaxError> {
    let begin = cursor.at();
    cursor.next();
    let inside = *cursor;
    let text = cursor.take_while(|char| char != quote && char != '\n');
    let close = match quote {
        '"' => "`\"` on the same line",
        _ => "`'` on the same line",
    };
    let closes = cursor.next() == Some(quote);
    if !closes {
        return Err(cursor.unclosed(begin, "the text in quotes", close));
    }
    let is_followed = cursor.peek() == Some(quote);
    if characters == Characters::Numbered {
        for (at, _) in text.match_indices('\\') {
            let mut after = inside;
            after.skip(at + 1);
            itself(&after, inside.at() + at)?;
            if quote == '"' {
                backslash.get_or_insert(inside.at() + at);
            }
        }
        if text.ends_with('\\') && is_followed {
            let message = "a backslash is itself in a file with characters such as `#xA`, and here it looks like an escape of the \
                           quote after it: write `#x5C` for a backslash and `#x22` or `#x27` for a quote, each by its number";
            return Err(cursor.invalid(begin, message));
        }
        return Ok(text);
    }
    let mut afters = text.split('\\').skip(1);
    let looks_like_one = |after: &str| is_escape(after) || after.starts_with(['"', '[', ']']);
    if afters.any(looks_like_one) || text.contains("\\\\") || (text.ends_with('\\') && is_followed) {
        let message = "a backslash in single quotes is itself and no escape: write double quotes for escapes, and \
                       `\"\\\\n\"` for a backslash with a letter";
        return Err(cursor.invalid(begin, message));
    }
    Ok(text)
}

/// Reads a name. A trailing dash is not part of it.
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

/// Skips the number of a production, such as `[12a]`, if it is the first text on its line and precedes a rule.
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

/// Rejects `[ wfc: … ]` and similar conditions in words.
fn condition(cursor: &Cursor<'_>) -> Result<(), SyntaxError> {
    let mut ahead = *cursor;
    ahead.next();
    ahead.take_while(|char| char == ' ');
    let kind = ahead.take_while(|char| char.is_ascii_alphabetic());
    let known = ["wfc", "vc", "nsc"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    if known && ahead.eat(":") {
        let way_out = "remove it, or express it by rules";
        return Err(cursor.unsupported(cursor.at(), "a condition in words", way_out));
    }
    Ok(())
}

/// Skips white space and comments.
fn space(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    loop {
        cursor.take_while(char::is_whitespace);
        let begin = cursor.at();
        if cursor.rest().starts_with('#') {
            // `#xN` is a character. `#xyz` is more likely a mistyped character than a comment.
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
