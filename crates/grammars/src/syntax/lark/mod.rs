//! Lark, in llguidance's dialect: rules, terminals and directives, one per line.
//!
//! ```text
//! start: "{" [pair ("," pair)*] "}"
//! pair: STRING ":" (NUMBER | start)
//! STRING: "\"" /[^"]/* "\""          // a terminal becomes one automaton
//! %import common.NUMBER
//! %ignore /[ \t]+/                   // allowed between terminals and before the first
//! ```
//!
//! # Differences from Lark
//!
//! There is no lexer. A terminal matches any of its texts, and every reading of an output counts. Priorities
//! choose among readings, so they have no effect here. `?`, `!` and `-> alias` shape parse trees and have no
//! effect either, and neither has `[capture]`. A lazy repetition (`*?`) has no meaning without a lexer and is
//! an error. So are anchors and look-around.
//!
//! - Regular expressions have the syntax of the `regex` crate, and the flags `i`, `m`, `s`, `u` and `x`.
//! - Escapes in texts are `\n \r \t \f \\ \"`, `\xHH`, `\uHHHH` and `\UHHHHHHHH`. Lark keeps any other
//!   backslash and JSON drops it. Here it is an error.
//! - Repetitions are `~n` and `~n..m`, and also `{n}`, `{n,}`, `{,m}` and `{n,m}`. Comments begin with `//` or `#`.
//! - In terminals, `A & B` is the intersection of A and B, and `~A` is any other text of valid UTF-8.
//! - `<name>` in a rule is the control token of that name, or the end of the output if the token ends sequences.
//! - `name[lazy]: …` matches the texts of the body that have no shorter text of it as a prefix.
//!   `name[suffix="…"]: …` ends after the first occurrence of the suffix. Such a body becomes one automaton,
//!   like a terminal. The first end is removed from all competing readings; see below.
//! - `%regex {"substring_chunks": ["…"]}` matches the concatenation of adjacent chunks of the list.
//!   `substring_words` and `substring_chars` take the words or characters of a text as the list. A word is a
//!   run of letters and digits, of white space, or of other characters.
//! - `%override` and `%extend` change rules and terminals of the same file.
//! - Templates, `%declare`, imports of files, `%json`, `%lark`, `@grammar`, tokens by number, and the
//!   attributes `stop`, `max_tokens` and `temperature` are errors that name the text to write instead.
//!
//! # The ends of lazy terminals
//!
//! [`lazy`](crate::lazy) defines the meaning. The behaviour of llguidance is from its documentation
//! (`docs/syntax.md`) and from experiments with version 1.9.1. The tests contain 60 grammars with the answers
//! of both.
//!
//! | | llguidance | here |
//! |---|---|---|
//! | `lazy` | as few bytes as possible | the same |
//! | beside other terminals | its first end is also the end of every terminal read beside it | the same |
//! | two lazy terminals | the first end counts; both continue if they end together | the same |
//! | a lazy terminal and a longer text of another terminal | the longer text is excluded | the same |
//! | another terminal ends first, while the lazy one is incomplete | the other cannot end: the scanner takes the longest text (`(tool \| LETTER)*` rejects `xy`) | the other ends, and the lazy one stays open: `xy` is accepted, and a trigger is never hidden |
//! | a lazy terminal that may be empty | documented to be always empty, but accepts longer texts too (`/a*/` accepts `a`) | always empty; removes nothing from competing readings |
//! | `suffix=` a text, regex or terminal | body and suffix as one lazy terminal | the same |
//! | `stop=` | the end is hidden from the output by going back | an error: a mask cannot go back. `suffix=` leaves the end in the output, and `s[stop=X]` before `X` is `s[suffix=X]` alone |
//! | `stop=""` | the token that ends the sequence ends the terminal | an error: the end of the sequence is the end of the output |
//! | `max_tokens=`, `temperature=` | apply to the terminal | an error: a grammar does not depend on tokens or sampling |
//! | `lazy` on a terminal in upper case | an error | allowed; inside another terminal it is only a language |
//! | a text of two terminals, of which only one is followed by a lazy terminal | the text is read as both | the same if the lazy terminal was open before; else an error |
//! | a rule that calls itself in the middle, beside a lazy terminal or containing one | its terminals compete like all others | an error, unless the bytes around it separate the two |
//!
//! # Ignored terminals
//!
//! Any number of ignored terminals may follow each terminal of a rule and precede the first one. A model can
//! therefore write unbounded white space; [`LarkOptions`] bounds it.

mod body;
mod common;

use super::{
    error::{SyntaxError, SyntaxErrorKind, location, nearest},
    lower::Ignored,
    reader::Reader,
    tree::{Definition, Node, NodeId, Pattern, Tree},
};
use crate::{Fate, GrammarLimits};

/// Options for reading a grammar in Lark. Begin with the default and set fields.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LarkOptions {
    /// The name of the start rule. Default: `start`.
    pub start: String,
    /// The greatest number of consecutive ignored terminals. Default: unbounded.
    ///
    /// A single ignored terminal may still be long, for example one of `[ \t]+`.
    pub max_ignored: Option<u32>,
    /// The greatest number of ignored characters in one place, between two terminals. Default: unbounded, as
    /// in Lark. An ignored text consists of whole ignored terminals, and a terminal that would exceed the
    /// bound is not allowed.
    pub max_ignored_chars: Option<u32>,
}

impl Default for LarkOptions {
    fn default() -> Self {
        Self { start: "start".to_owned(), max_ignored: None, max_ignored_chars: None }
    }
}

/// Reads a text in Lark.
pub(super) fn read<'t>(
    text: &'t str,
    options: &LarkOptions,
    limits: &GrammarLimits,
) -> Result<(Tree<'t>, Ignored), SyntaxError> {
    let mut reader = Reader::new(text, limits);
    let mut ignored = Ignored { nodes: vec![], options: options.clone() };
    reader.cursor.eat("\u{feff}");
    loop {
        body::space(&mut reader.cursor);
        match reader.cursor.peek() {
            None => return Ok((reader.tree, ignored)),
            Some('%') => directive(&mut reader, &mut ignored)?,
            _ => {
                let head = head(&mut reader)?;
                let body = head.body(&mut reader)?;
                reader.define(head.name, head.at, body, head.terminal)?;
            }
        }
    }
}

/// The part of a definition before its body.
struct Head<'t> {
    name: &'t str,
    at: usize,
    terminal: bool,
    end: End,
}

/// The rule that determines where a text of a definition ends.
#[derive(Clone, Copy)]
enum End {
    /// Any end.
    Any,
    /// The first end: `lazy`.
    First,
    /// After the first occurrence of a suffix: `suffix`.
    Behind(NodeId),
}

impl Head<'_> {
    /// Reads the body.
    fn body(&self, reader: &mut Reader<'_>) -> Result<NodeId, SyntaxError> {
        body::read(reader, self.terminal)?;
        let body = reader.end_body()?;
        let whole = match self.end {
            End::Any => return Ok(body),
            End::First => body,
            End::Behind(suffix) => reader.tree.sequence(&[body, suffix], self.at),
        };
        Ok(reader.tree.push(Node::Shortest(whole), self.at))
    }
}

/// Reads a definition up to its colon, inclusive.
fn head<'t>(reader: &mut Reader<'t>) -> Result<Head<'t>, SyntaxError> {
    let begin = reader.cursor.at();
    let flags = reader.cursor.take_while(|char| char == '?' || char == '!');
    if !flags.is_empty() {
        reader.tree.notes.push((
            begin,
            "`?` or `!` before a rule",
            Fate::Annotation,
            "it shapes trees and changes no text",
        ));
    }
    let at = reader.cursor.at();
    let name = name(reader)?;
    let terminal = is_terminal(name);
    if reader.cursor.peek() == Some('.') {
        let begin = reader.cursor.at();
        reader.cursor.next();
        let _signed = reader.cursor.eat("-") || reader.cursor.eat("+");
        if reader.cursor.take_while(|char| char.is_ascii_digit()).is_empty() {
            return Err(reader.cursor.unexpected("a number after the dot, as priority"));
        }
        reader.tree.notes.push((
            begin,
            "a priority",
            Fate::Annotation,
            "all ways to read an output count, so none is chosen",
        ));
    }
    body::blank(&mut reader.cursor);
    let end = match reader.cursor.peek() {
        Some('{') => {
            let way_out = "write a rule for each use";
            return Err(reader.cursor.unsupported(reader.cursor.at(), "a template", way_out));
        }
        Some('[') => attributes(reader)?,
        _ => End::Any,
    };
    body::blank(&mut reader.cursor);
    if reader.cursor.rest().starts_with("::=") {
        let message = "found `::=`, which defines rules in GBNF and EBNF: in Lark it is `:`";
        return Err(reader.cursor.invalid(reader.cursor.at(), message));
    }
    if reader.cursor.rest().starts_with("::") {
        let way_out = "write a rule for each value";
        return Err(reader.cursor.unsupported(reader.cursor.at(), "a parameter of a rule", way_out));
    }
    if !reader.cursor.eat(":") {
        return Err(reader.cursor.unexpected("`:` after the name of a rule or terminal"));
    }
    Ok(Head { name, at, terminal, end })
}

/// Reads the name of a rule or terminal, which is mandatory here.
fn name<'t>(reader: &mut Reader<'t>) -> Result<&'t str, SyntaxError> {
    let begin = reader.cursor.at();
    let name = body::name(&mut reader.cursor);
    if name.is_empty() {
        let foreign = [
            ("/*", "a comment begins with `//`"),
            ("<", "the name of a rule is written without angle brackets"),
        ];
        return Err(reader
            .cursor
            .foreign(&foreign, "the name of a rule or terminal, or a directive such as `%ignore`"));
    }
    check_name(reader, name, begin)?;
    Ok(name)
}

/// Terminals are in upper case and rules in lower case.
fn check_name(reader: &Reader<'_>, name: &str, begin: usize) -> Result<(), SyntaxError> {
    let letter = |wanted: fn(&char) -> bool| name.chars().any(|char| wanted(&char));
    let message = match (letter(char::is_ascii_lowercase), letter(char::is_ascii_uppercase)) {
        (true, true) => "is in upper and lower case: rules are in lower case, terminals in upper case",
        (false, false) => "has no letter: rules are in lower case, terminals in upper case",
        _ => return Ok(()),
    };
    Err(reader.cursor.invalid(begin, format!("the name `{name}` {message}")))
}

fn is_terminal(name: &str) -> bool {
    !name.chars().any(|char| char.is_ascii_lowercase())
}

/// Reads `[capture, lazy, …]` after the name of a definition.
fn attributes(reader: &mut Reader<'_>) -> Result<End, SyntaxError> {
    reader.cursor.next();
    let mut end = End::Any;
    loop {
        reader.cursor.take_while(|char| char == ' ' || char == ',');
        if reader.cursor.eat("]") {
            return Ok(end);
        }
        let at = reader.cursor.at();
        let attribute = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
        body::blank(&mut reader.cursor);
        let valued = reader.cursor.eat("=");
        body::blank(&mut reader.cursor);
        let way_out = match (attribute, valued) {
            ("capture" | "stop_capture", _) => {
                if valued {
                    if reader.cursor.peek() != Some('"') {
                        return Err(reader.cursor.unexpected("a name in quotes"));
                    }
                    super::escape::quoted(&mut reader.cursor, body::OTHERS)?;
                }
                reader.tree.notes.push((
                    at,
                    "`capture`",
                    Fate::Annotation,
                    "it names a part of the output and changes no text",
                ));
                continue;
            }
            ("lazy", false) if matches!(end, End::Any) => {
                reader.tree.ends.push((at, "`lazy`"));
                end = End::First;
                continue;
            }
            ("suffix", true) if matches!(end, End::Any) => {
                reader.tree.ends.push((at, "`suffix`"));
                end = End::Behind(body::value(reader)?);
                continue;
            }
            ("lazy" | "suffix", _) => {
                let message = "the end of a text is given by `lazy` without a value, or by `suffix=` with a value, and only once";
                return Err(reader.cursor.invalid(at, message));
            }
            ("stop", _) => "write `suffix=` instead, which leaves the end in the output",
            ("max_tokens", _) => "bound the characters instead, such as `/(?s:.{0,200})/`",
            ("temperature", _) => "set the temperature of the sampler",
            _ => {
                let message =
                    format!("there is no attribute `{attribute}`, only `capture`, `lazy` and `suffix`");
                return Err(reader.cursor.invalid(at, message));
            }
        };
        return Err(reader.cursor.unsupported(at, format!("the attribute `{attribute}`"), way_out));
    }
}

fn directive<'t>(reader: &mut Reader<'t>, ignored: &mut Ignored) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    reader.cursor.next();
    let word = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
    body::blank(&mut reader.cursor);
    match word {
        "ignore" => {
            body::read(reader, true)?;
            let body = reader.end_body()?;
            ignored.nodes.push(body);
            Ok(())
        }
        "import" => import(reader, at),
        "override" | "extend" => change(reader, word == "extend"),
        "declare" => {
            let way_out = "define the terminal, since only a definition gives its texts";
            Err(reader.cursor.unsupported(at, "`%declare`", way_out))
        }
        "llguidance" => {
            let begin = reader.cursor.at();
            let empty = reader.cursor.eat("{") && {
                reader.cursor.take_while(char::is_whitespace);
                reader.cursor.eat("}")
            };
            if !empty {
                let way_out = "remove it; `LarkOptions` has the options of the language";
                return Err(reader.cursor.unsupported(begin, "an option of llguidance", way_out));
            }
            reader.tree.notes.push((
                at,
                "`%llguidance {}`",
                Fate::Annotation,
                "it says which program the grammar is for",
            ));
            Ok(())
        }
        _ => {
            let known = ["ignore", "import", "override", "extend"];
            let hint = nearest(word, known.into_iter()).map(|near| format!("; is `%{near}` meant?"));
            let hint =
                hint.unwrap_or_else(|| ", only `%ignore`, `%import`, `%override` and `%extend`".to_owned());
            Err(reader.cursor.invalid(at, format!("there is no directive `%{word}`{hint}")))
        }
    }
}

/// Reads `%override` or `%extend`: a definition that replaces an earlier one, or adds alternatives to it.
fn change(reader: &mut Reader<'_>, extend: bool) -> Result<(), SyntaxError> {
    let head = head(reader)?;
    let new = head.body(reader)?;
    let Head { name, at, terminal, .. } = head;
    let Some(earlier) = reader.tree.find(name) else {
        let defined = reader.tree.definitions.iter().map(|definition| reader.tree.name(definition.name));
        let kind = SyntaxErrorKind::Undefined {
            what: if terminal { "terminal" } else { "rule" },
            name: name.to_owned(),
            nearest: nearest(name, defined),
            way_out: None,
        };
        return Err(reader.cursor.error(at, kind));
    };
    let old = reader.tree.definitions[earlier].body;
    let is_lazy = |body| matches!(reader.tree.node(body), Node::Shortest(_));
    if extend && terminal && (is_lazy(old) || is_lazy(new)) {
        let way_out = "write all alternatives into one terminal that is lazy";
        return Err(reader.cursor.unsupported(at, "`%extend` of a lazy terminal, or by one,", way_out));
    }
    let body = if extend { reader.tree.choice(&[old, new], at) } else { new };
    reader.tree.definitions[earlier].body = body;
    Ok(())
}

/// Reads `%import common.A`, optionally followed by `-> B`, or `%import common (A, B)`.
fn import<'t>(reader: &mut Reader<'t>, at: usize) -> Result<(), SyntaxError> {
    let module_at = reader.cursor.at();
    let module = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
    if module != "common" {
        let way_out = "copy the definitions into this grammar; only terminals of `common` can be imported";
        return Err(reader.cursor.unsupported(module_at, "an import of another grammar", way_out));
    }
    body::blank(&mut reader.cursor);
    if reader.cursor.eat(".") {
        let (name, name_at) = imported(reader)?;
        body::blank(&mut reader.cursor);
        let mut alias = name;
        if reader.cursor.eat("->") {
            body::blank(&mut reader.cursor);
            alias = self::name(reader)?;
            if !is_terminal(alias) {
                let message =
                    format!("`{alias}` is the name of a rule; an imported terminal needs one in upper case");
                return Err(reader.cursor.invalid(name_at, message));
            }
        }
        return define_common(reader, name, alias, name_at, at);
    }
    if !reader.cursor.eat("(") {
        return Err(reader.cursor.unexpected("`.` and a name, or `(` and names"));
    }
    loop {
        body::space(&mut reader.cursor);
        let (name, name_at) = imported(reader)?;
        define_common(reader, name, name, name_at, name_at)?;
        body::space(&mut reader.cursor);
        if reader.cursor.eat(")") {
            return Ok(());
        }
        if !reader.cursor.eat(",") {
            return Err(reader.cursor.unexpected("`,` or `)`"));
        }
    }
}

fn imported<'t>(reader: &mut Reader<'t>) -> Result<(&'t str, usize), SyntaxError> {
    let at = reader.cursor.at();
    let name = body::name(&mut reader.cursor);
    if name.is_empty() {
        return Err(reader.cursor.unexpected("the name of a terminal"));
    }
    Ok((name, at))
}

fn define_common<'t>(
    reader: &mut Reader<'t>,
    name: &'t str,
    alias: &'t str,
    name_at: usize,
    at: usize,
) -> Result<(), SyntaxError> {
    let Some(pattern) = common::pattern(name) else {
        let nearest = nearest(name, common::names());
        let what = "common terminal";
        let kind = SyntaxErrorKind::Undefined { what, name: name.to_owned(), nearest, way_out: None };
        return Err(reader.cursor.error(name_at, kind));
    };
    // The pattern is not in the text, so its errors carry the location of the name.
    let body: NodeId = reader.tree.regex(Pattern { regex: pattern.to_owned(), added: 0 }, name_at);
    let definition = Definition { name: reader.tree.intern(alias), at: name_at, body, terminal: true };
    reader.tree.define(definition).map_err(|first| {
        let first = location(reader.text, reader.tree.definitions[first].at);
        reader.cursor.error(at, SyntaxErrorKind::Redefined { name: alias.to_owned(), first })
    })
}
