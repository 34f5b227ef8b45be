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
//! effect either. `[capture]` names the texts of a rule or terminal in reports (`GrammarConstraint::captures` of
//! `unskew-grammars`).
//!
//! - Regular expressions are in [Python's dialect](unskew_automata::Dialect::Python), with the flags `i`, `m`, `s`,
//!   `u` and
//!   `x`. [Lazy repetitions, look-around and
//!   anchors](super::lower::looking) mean what they mean to Python's `re.match`; back-references are errors.
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
//! - `%json {…}`, `%lark {…}` and `@name` are [grammars inside this one](super::nested).
//! - `<[…]>` are [tokens by their ids](super::tokens).
//! - Rules with [parameters](super::expand): templates of Lark, and a number as in llguidance.
//! - `name[max_tokens=n]: …` is at most n whole tokens ([`TokenBudget`](unskew_grammar::TokenBudget)). Where its rules
//!   recur, they have no captures, no budgets of their own and no lazy terminals, and [`GrammarLimits::budget_bytes`]
//!   bounds the states that so many tokens reach.
//! - `name[max_chars=n]: …` ends at the first place after n characters, or before. The body is regular.
//! - `name[stop=…]: …` is a text before the first end of the stop. `temperature` changes no text and is reported.
//! - [Imports of files](imports), through the [resolver](crate::Resolve), and of the modules `common`, `unicode`,
//!   `python` and `lark`.
//! - `%declare` of the two terminals of an [indenter](crate::Indenter): [blocks by columns](crate::layout). The option
//!   `indenter` of `%grammar_options` (or `%llguidance`) has its fields, where the program gives none.
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
//! | `stop=` | the end is written, and hidden from the output by going back | the end is not written, because a mask cannot go back. The outputs are those of llguidance after it has gone back |
//! | `stop=""` | the token that ends the sequence ends the terminal | the next text ends it |
//! | `max_tokens=` | ends the terminal once so many tokens are written | no token crosses the border, and no text is cut |
//! | `lazy` on a terminal in upper case | an error | allowed; inside another terminal it is only a language |
//! | a text of two terminals, of which only one is followed by a lazy terminal | the text is read as both | the same if the lazy terminal was open before; else an error |
//! | a rule that calls itself in the middle, beside a lazy terminal or containing one | its terminals compete like all others | an error, unless the bytes around it separate the two |
//!
//! # Ignored terminals
//!
//! Any number of ignored terminals may follow each terminal of a rule and precede the first one. A model can
//! therefore write unbounded white space; [`GrammarOptions`] bounds it. Each is as long as possible in a grammar that
//! Lark could read, as for its lexers: where one ends, no beginning of the text after it makes a longer ignored text.
//! Of several that match at one place the longest counts, where Lark takes the first in its order of terminals.
//! Where there are tokens, grammars inside, budgets, lazy terminals, blocks, or look-around in an ignored terminal,
//! one may end anywhere.

mod attributes;
mod body;
mod common;
pub(super) mod imports;
mod inline;
mod options;

use unskew_automata::Dialect;
use unskew_grammar::{Fate, GrammarLimits, SyntaxError, SyntaxErrorKind};

use self::imports::Sources;
use super::{
    cursor::Cursor,
    error::{location, nearest},
    expand::{Parameters, expand},
    lower::Ignored,
    reader::{Change, Reader},
    tree::{Definition, Node, NodeId, Pattern, Tree},
};
use crate::GrammarOptions;

/// Reads a text in Lark and the files that it imports.
pub(super) fn read<'t>(
    sources: &'t Sources,
    options: &GrammarOptions,
    limits: &'t GrammarLimits,
) -> Result<(Tree<'t>, Ignored), SyntaxError> {
    let mut reader = Reader::new(&sources.text, limits);
    reader.resolver = options.resolver.clone();
    reader.files = &sources.files;
    let mut ignored = Ignored::new("`%ignore`", options);
    for (number, file) in (0u32..).zip(&sources.files) {
        reader.cursor = Cursor::within(&sources.text, file.begin, file.end);
        reader.cursor.eat("\u{feff}");
        reader.tree.enter(number);
        match number {
            0 => definitions(&mut reader, &mut ignored)?,
            // As in Lark, a file ignores nothing in those that import it.
            _ => definitions(&mut reader, &mut Ignored::new("`%ignore`", options))?,
        }
    }
    reader.tree.enter(0);
    apply_changes(&mut reader)?;
    if let [main, _, ..] = &sources.files[..] {
        reader.tree.remove_unreached(main.end);
    }
    expand(&mut reader.tree, &sources.text, limits)?;
    ignored.longest = reads_in_lark(&reader.tree);
    Ok((reader.tree, ignored))
}

/// Whether ignored texts are as long as possible: the grammar has no tokens, other grammars, budgets or lazy terminals,
/// which Lark lacks, and no blocks, whose columns would be written once more for each way to end.
fn reads_in_lark(tree: &Tree<'_>) -> bool {
    let is_foreign = |node| {
        matches!(
            tree.node(node),
            Node::Token(_)
                | Node::Tokens(_)
                | Node::Grammar(_)
                | Node::Budget(..)
                | Node::Shortest(_)
                | Node::Before(..)
        )
    };
    tree.declared.is_none() && !tree.nodes().any(is_foreign)
}

/// Reads definitions up to the end of the text, or up to the brace that closes a grammar inside another.
fn definitions(reader: &mut Reader<'_>, ignored: &mut Ignored) -> Result<(), SyntaxError> {
    loop {
        body::space(&mut reader.cursor);
        match reader.cursor.peek() {
            None => return Ok(()),
            Some('}') if reader.depth > 0 => return Ok(()),
            Some('%') => directive(reader, ignored)?,
            _ => {
                let head = head(reader)?;
                let body = head.body(reader)?;
                let Head { name, at, terminal, parameters, .. } = head;
                let name = reader.tree.intern(name);
                reader.define_as(Definition { name, at, body, terminal, parameters })?;
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
    /// The greatest number of characters, from `max_chars`.
    chars: Option<u32>,
    /// The greatest number of tokens, from `max_tokens`.
    budget: Option<u32>,
    parameters: Parameters,
}

/// The attributes of a definition.
#[derive(Clone, Copy)]
struct Attributes {
    end: End,
    chars: Option<u32>,
    budget: Option<u32>,
}

/// The rule that determines where a text of a definition ends.
#[derive(Clone, Copy)]
enum End {
    /// Any end.
    Any,
    /// The first end: `lazy`.
    First,
    /// After the first occurrence of a suffix: `suffix`.
    After(NodeId),
    /// Before the first occurrence of a text: `stop`.
    Before(NodeId),
}

impl Head<'_> {
    /// Reads the body.
    fn body(&self, reader: &mut Reader<'_>) -> Result<NodeId, SyntaxError> {
        body::read(reader, self.terminal)?;
        let body = reader.end_body()?;
        let whole = match self.end {
            End::Any => body,
            End::First => reader.tree.push(Node::Shortest(body), self.at),
            End::After(suffix) => {
                let whole = reader.tree.sequence(&[body, suffix], self.at);
                reader.tree.push(Node::Shortest(whole), self.at)
            }
            End::Before(stop) => reader.tree.push(Node::Before(body, stop), self.at),
        };
        let whole = match self.chars {
            Some(most) => reader.tree.within(whole, most, self.at),
            None => whole,
        };
        Ok(match self.budget {
            Some(tokens) => reader.tree.push(Node::Budget(whole, tokens), self.at),
            None => whole,
        })
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
    let mut parameters = match reader.cursor.peek() {
        Some('{') if terminal => {
            let way_out = "write a template of rules, with a name in lower case";
            return Err(reader.cursor.unsupported(reader.cursor.at(), "a template of a terminal", way_out));
        }
        Some('{') => names(reader)?,
        _ => Parameters::None,
    };
    let Attributes { end, chars, budget } = match reader.cursor.peek() {
        Some('[') => attributes::read(reader, terminal, (name, at))?,
        _ => Attributes { end: End::Any, chars: None, budget: None },
    };
    body::blank(&mut reader.cursor);
    if reader.cursor.rest().starts_with("::=") {
        let message = "found `::=`, which defines rules in GBNF and EBNF: in Lark it is `:`";
        return Err(reader.cursor.invalid(reader.cursor.at(), message));
    }
    if reader.cursor.eat("::") {
        if terminal || parameters != Parameters::None {
            let message = "only a rule that is no template has a number as its parameter";
            return Err(reader.cursor.invalid(reader.cursor.at(), message));
        }
        body::blank(&mut reader.cursor);
        if !reader.cursor.eat("_") {
            return Err(reader.cursor.unexpected("`_`, which stands for the parameter of the rule"));
        }
        parameters = Parameters::Number;
        body::blank(&mut reader.cursor);
    }
    if !reader.cursor.eat(":") {
        return Err(reader.cursor.unexpected("`:` after the name of a rule or terminal"));
    }
    Ok(Head { name, at, terminal, end, chars, budget, parameters })
}

/// Reads the names of the parameters of a template, `{item, separator}`.
fn names(reader: &mut Reader<'_>) -> Result<Parameters, SyntaxError> {
    reader.cursor.next();
    let mut names = Vec::new();
    loop {
        body::space(&mut reader.cursor);
        let at = reader.cursor.at();
        let name = name(reader)?;
        let name = reader.tree.intern(name);
        if names.contains(&name) {
            return Err(reader.cursor.invalid(at, "a template with two parameters of the same name"));
        }
        names.push(name);
        body::space(&mut reader.cursor);
        if reader.cursor.eat("}") {
            body::blank(&mut reader.cursor);
            return Ok(Parameters::Names(names));
        }
        if !reader.cursor.eat(",") {
            return Err(reader.cursor.unexpected("`,` and another parameter, or `}`"));
        }
    }
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
        "declare" => options::declare(reader, &ignored.options.indenter, at),
        "llguidance" | "grammar_options" => options::llguidance(reader, ignored, at),
        _ => {
            let known = ["ignore", "import", "override", "extend", "declare"];
            let hint = nearest(word, known.into_iter()).map(|near| format!("; is `%{near}` meant?"));
            let hint = hint.unwrap_or_else(|| {
                ", only `%ignore`, `%import`, `%override`, `%extend` and `%declare`".to_owned()
            });
            Err(reader.cursor.invalid(at, format!("there is no directive `%{word}`{hint}")))
        }
    }
}

/// Reads `%override` or `%extend`: a definition that replaces an earlier one, or adds alternatives to it.
fn change(reader: &mut Reader<'_>, extend: bool) -> Result<(), SyntaxError> {
    let head = head(reader)?;
    let new = head.body(reader)?;
    let Head { name, at, terminal, .. } = head;
    let name = reader.tree.intern(name);
    reader.changes.push(Change { name, at, body: new, terminal, extend });
    Ok(())
}

/// Applies `%override` and `%extend`, once all definitions are read: a file that is imported is read after the text.
fn apply_changes(reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
    for Change { name, at, body: new, terminal, extend } in std::mem::take(&mut reader.changes) {
        let tree = &mut reader.tree;
        let error = |kind| SyntaxError { kind, location: location(reader.text, at) };
        let Some(earlier) = tree.definition_of(name) else {
            let defined = tree.definitions.iter().map(|definition| tree.name(definition.name));
            return Err(error(SyntaxErrorKind::Undefined {
                what: if terminal { "terminal" } else { "rule" },
                name: tree.name(name).to_owned(),
                nearest: nearest(tree.name(name), defined),
                way_out: None,
            }));
        };
        let old = tree.definitions[earlier].body;
        let is_lazy = |body| matches!(tree.node(body), Node::Shortest(_));
        if extend && terminal && (is_lazy(old) || is_lazy(new)) {
            let construct = "`%extend` of a lazy terminal, or by one,".to_owned();
            let way_out = "write all alternatives into one terminal that is lazy";
            return Err(error(SyntaxErrorKind::Unsupported { construct, way_out }));
        }
        let body = if extend { tree.choice(&[old, new], at) } else { new };
        tree.definitions[earlier].body = body;
    }
    Ok(())
}

/// Reads `%import module.A`, optionally followed by `-> B`, or `%import module (A, B)`.
fn import<'t>(reader: &mut Reader<'t>, at: usize) -> Result<(), SyntaxError> {
    let mut module = imports::module(&mut reader.cursor);
    body::blank(&mut reader.cursor);
    let mut names: Vec<(&'t str, &'t str, usize)> = Vec::new();
    let lists = reader.cursor.eat("(");
    if lists {
        loop {
            body::space(&mut reader.cursor);
            let (name, name_at) = imported(reader)?;
            names.push((name, name, name_at));
            body::space(&mut reader.cursor);
            if reader.cursor.eat(")") {
                break;
            }
            if !reader.cursor.eat(",") {
                return Err(reader.cursor.unexpected("`,` or `)`"));
            }
        }
    } else {
        if module.names.len() < 2 {
            if module.names == [""] {
                return Err(reader.cursor.unexpected("the name of a file, or `common`"));
            }
            if module.dots == 0 {
                return Err(reader.cursor.unexpected("`.` and a name, or `(` and names"));
            }
        }
        let name = module.names.last().copied().expect("there is a name");
        let name_at = reader.cursor.since(module.at).rfind(name).map_or(module.at, |found| module.at + found);
        let mut alias = name;
        if reader.cursor.eat("->") {
            body::blank(&mut reader.cursor);
            alias = self::name(reader)?;
            if is_terminal(name) != is_terminal(alias) {
                let (kind, case) = if is_terminal(name) { ("terminal", "upper") } else { ("rule", "lower") };
                let message = format!("the imported {kind} `{name}` needs a name in {case} case");
                return Err(reader.cursor.invalid(name_at, message));
            }
        }
        names.push((name, alias, name_at));
    }
    let is_common = module.dots == 0
        && match lists {
            true => module.names == [common::MODULE],
            false => module.names.len() == 2 && module.names[0] == common::MODULE,
        };
    if is_common {
        let at_of = |name_at| if lists { name_at } else { at };
        return names.into_iter().try_for_each(|(name, alias, name_at)| {
            define_common(reader, name, alias, name_at, at_of(name_at))
        });
    }
    if !lists {
        module.names.pop();
    }
    if reader.depth > 0 {
        let way_out = "import it in the grammar around, or give the inner grammar a text of its own";
        return Err(reader.cursor.unsupported(module.at, "an import in a grammar inside another", way_out));
    }
    let own = reader.files.get(reader.tree.file() as usize).map_or("", |file| file.path.as_str());
    let file = imports::path(own, module.dots, &module.names);
    let Some(file) = file.and_then(|path| reader.files.iter().position(|file| file.path == path)) else {
        let way_out = "name a file in the folder of the grammar, in a line of its own";
        return Err(reader.cursor.unsupported(module.at, "an import from there", way_out));
    };
    let file = u32::try_from(file).expect("files are few");
    for (name, alias, name_at) in names {
        let own = reader.tree.intern(alias);
        if let Some(known) = reader.tree.import(file, name, own) {
            // The name has another name already: through another import.
            let body = reader.tree.push(Node::Name(known), name_at);
            let terminal = is_terminal(alias);
            let parameters = Parameters::None;
            reader.define_as(Definition { name: own, at: name_at, body, terminal, parameters })?;
        }
    }
    Ok(())
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
    let body: NodeId = {
        let (regex, dialect) = (pattern.to_owned(), Dialect::Python);
        reader.tree.regex(Pattern { regex, dialect, added: Some(0) }, name_at)
    };
    let definition = Definition {
        name: reader.tree.intern(alias),
        at: name_at,
        body,
        terminal: true,
        parameters: Parameters::None,
    };
    reader.tree.define(definition).map_err(|first| {
        let first = location(reader.text, reader.tree.definitions[first].at);
        reader.cursor.error(at, SyntaxErrorKind::Redefined { name: alias.to_owned(), first })
    })
}
