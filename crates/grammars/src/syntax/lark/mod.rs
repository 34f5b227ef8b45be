//! Lark, in the dialect that llguidance made of it: rules, terminals and directives, a line each.
//!
//! ```text
//! start: "{" [pair ("," pair)*] "}"
//! pair: STRING ":" (NUMBER | start)
//! STRING: "\"" /[^"]/* "\""          // a terminal is read as a whole
//! %import common.NUMBER
//! %ignore /[ \t]+/                   // may stand between terminals, and before the first
//! ```
//!
//! # What differs from Lark
//!
//! There is no lexer. A terminal stands for each of its texts, and all ways to read an output count. So priorities, which
//! choose among readings, change nothing and are passed over, and so are `?`, `!` and `-> alias`, which shape trees, and
//! `[capture]`. A lazy repetition (`*?`) has no meaning without a lexer and is an error, and so are anchors and look-around.
//!
//! - Regular expressions have the syntax of the `regex` crate, and the flags `i`, `m`, `s`, `u` and `x`.
//! - Escapes in texts are `\n \r \t \f \\ \"`, `\xHH`, `\uHHHH` and `\UHHHHHHHH`. Lark leaves any other backslash where it
//!   is, and JSON drops it: here it is an error.
//! - Beside `~n` and `~n..m`, repetitions are `{n}`, `{n,}`, `{,m}` and `{n,m}`. Comments begin with `//` or `#`.
//! - In terminals, `A & B` is what both match, and `~A` any other text (of valid UTF-8).
//! - `<name>` in a rule is the control token of that name, or, if it ends sequences, the end of the output.
//! - `name[lazy]: …` are the texts of the body that do not begin with a shorter one, and `name[suffix="…"]: …` end behind the
//!   first suffix. What stands in such a body is read as a whole, as in a terminal. Their first end is taken away from all that competes
//!   with them; see below.
//! - `%regex {"substring_chunks": ["…"]}` is what neighbours among the chunks spell, with `substring_words` and
//!   `substring_chars` for those of a text. Words are runs of letters and digits, of white space, and of other characters.
//! - `%override` and `%extend` change rules and terminals of the same file.
//! - Templates, `%declare`, imports of files, `%json`, `%lark`, `@grammar`, tokens by number, and the attributes `stop`,
//!   `max_tokens` and `temperature` are errors that name what to write instead.
//!
//! # Where texts end
//!
//! The meaning is told in [`lazy`](crate::lazy). What llguidance does was read in its documentation (`docs/syntax.md`) and tried on its
//! version 1.9.1; the tests have 60 grammars with the answers of both.
//!
//! | | llguidance | here |
//! |---|---|---|
//! | `lazy` | as few bytes as possible | the same |
//! | beside others | its first end is the end of all that is read beside it | the same |
//! | two lazy terminals | the first end counts; both go on where they end together | the same |
//! | a lazy terminal and a longer text of another | the longer one is no more to be had | the same |
//! | another terminal that ends first, while the lazy one goes on | it cannot end: its scanner takes the longest text (`(tool \| LETTER)*` does not accept `xy`) | it ends, and the lazy one stays open: `xy` is accepted, and a trigger is never hidden |
//! | a lazy terminal that may be empty | is documented to be empty always, but accepts longer texts too (`/a*/` accepts `a`) | it is empty always, and takes nothing away |
//! | `suffix=` a text, regex or terminal | body and suffix as one lazy terminal | the same |
//! | `stop=` | its end is hidden from the output by going back | refused: a mask cannot go back. `suffix=` leaves the end in the output, and `s[stop=X]` in front of `X` is `s[suffix=X]` alone |
//! | `stop=""` | the token that ends the sequence ends it | refused: what ends the output is the end of it |
//! | `max_tokens=`, `temperature=` | of the terminal | refused: a grammar says nothing about tokens or sampling |
//! | `lazy` of a terminal in upper case | refused | allowed; inside of other terminals it is its language alone |
//! | a text that two terminals may be, with the lazy one behind only one of them | the text is both | the same where the lazy one was open before; else refused |
//! | a rule that calls itself in the middle, beside a lazy terminal or with one in it | its terminals compete as all do | refused, but where the bytes around it tell them apart |
//!
//! # Ignored terminals
//!
//! After every terminal of a rule, and before the first, any number of ignored terminals may stand. A model can so write
//! white space without end; [`LarkOptions`] bounds how much may stand in one place.

mod body;
mod common;

use super::{
    error::{SyntaxError, SyntaxErrorKind, location, nearest},
    lower::Ignored,
    reader::Reader,
    tree::{Definition, Node, NodeId, Pattern, Tree},
};
use crate::{Fate, GrammarLimits};

/// How a grammar in Lark is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LarkOptions {
    /// The rule that whole outputs are made of. Default: `start`.
    pub start: String,
    /// How many ignored terminals may follow each other. Default: no bound.
    ///
    /// One of them may still be long, such as one of `[ \t]+`.
    pub max_ignored: Option<u32>,
    /// How many characters may be ignored in one place, between two terminals. Default: no bound, as in Lark. What
    /// is longer is not cut: no more may be written there than whole terminals within the bound.
    pub max_ignored_chars: Option<u32>,
}

impl Default for LarkOptions {
    fn default() -> Self {
        Self { start: "start".to_owned(), max_ignored: None, max_ignored_chars: None }
    }
}

/// What a text in Lark says.
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

/// What stands before the body of a definition.
struct Head<'t> {
    name: &'t str,
    at: usize,
    terminal: bool,
    end: End,
}

/// Where a text of a definition ends.
#[derive(Clone, Copy)]
enum End {
    /// Wherever it may.
    Any,
    /// Where it first may: `lazy`.
    First,
    /// Behind the first of these: `suffix`.
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

/// Reads up to the colon and passes it.
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

/// A name of a rule or terminal, which must stand here.
fn name<'t>(reader: &mut Reader<'t>) -> Result<&'t str, SyntaxError> {
    let begin = reader.cursor.at();
    let name = body::name(&mut reader.cursor);
    if name.is_empty() {
        let foreign =
            [("/*", "a comment begins with `//`"), ("<", "the name of a rule stands without angle brackets")];
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

/// `[capture, lazy, …]` behind the name of a definition.
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
                let message =
                    "the attributes that say where a text ends are `lazy` alone, or `suffix=` with its end";
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
            let way_out = "define the terminal: nothing else could say what it matches";
            Err(reader.cursor.unsupported(at, "`%declare`", way_out))
        }
        "llguidance" => {
            let begin = reader.cursor.at();
            let empty = reader.cursor.eat("{") && {
                reader.cursor.take_while(char::is_whitespace);
                reader.cursor.eat("}")
            };
            if !empty {
                let way_out = "remove it; `LarkOptions` has what concerns the language";
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

/// `%override` and `%extend`: a definition that replaces an earlier one, or adds alternatives to it.
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

/// `%import common.A`, with `-> B` behind it, or `%import common (A, B)`.
fn import<'t>(reader: &mut Reader<'t>, at: usize) -> Result<(), SyntaxError> {
    let module_at = reader.cursor.at();
    let module = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
    if module != "common" {
        let way_out = "copy what is needed into this grammar; only terminals of `common` can be imported";
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
    // Nothing of it stands in the text, so that its errors would have the place of the name.
    let body: NodeId = reader.tree.regex(Pattern { regex: pattern.to_owned(), added: 0 }, name_at);
    let definition = Definition { name: reader.tree.intern(alias), at: name_at, body, terminal: true };
    reader.tree.define(definition).map_err(|first| {
        let first = location(reader.text, reader.tree.definitions[first].at);
        reader.cursor.error(at, SyntaxErrorKind::Redefined { name: alias.to_owned(), first })
    })
}
