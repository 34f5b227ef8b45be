//! Languages inside a body: `%json {…}`, `%lark {…}`, `@name` and `%regex {…}`.
//!
//! The first three are [grammars inside this one](crate::syntax::nested), and `%regex` is a part of a terminal.

use serde_json::{Deserializer, Map, Value};
use unskew_grammar::{Grammar, SyntaxError, SyntaxErrorKind};

use super::{
    apply_changes,
    body::{blank, name},
    definitions,
};
use crate::{
    GrammarOptions,
    syntax::{
        error::nearest,
        expand::expand,
        lower::Ignored,
        nested::{MAX_DEPTH, Nested, Part, Resolver},
        parameters::condition,
        reader::Reader,
        tree::Tree,
    },
};

/// Reads an item that begins with `%` or `@`. `terminal` is whether it is in the body of a terminal.
pub(super) fn read(reader: &mut Reader<'_>, terminal: bool) -> Result<(), SyntaxError> {
    let at = reader.cursor.at();
    if reader.cursor.eat("@") {
        return named(reader, at, terminal);
    }
    reader.cursor.next();
    let word = reader.cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_');
    match word {
        "regex" => substring(reader, at),
        "if" => {
            let condition = condition(&mut reader.cursor)?;
            let node = reader.tree.guard(condition, at);
            reader.body.item(&mut reader.tree, node);
            Ok(())
        }
        "json" | "lark" if terminal => Err(in_terminal(reader, at)),
        "json" => schema(reader, at),
        "lark" => grammar(reader, at),
        _ => Err(reader.cursor.invalid(at, format!("`%{word}` cannot be used in a body"))),
    }
}

fn in_terminal(reader: &Reader<'_>, at: usize) -> SyntaxError {
    let way_out = "use it in a rule (in lower case): a terminal is one automaton";
    reader.cursor.unsupported(at, "a grammar in a terminal", way_out)
}

/// Adds a grammar from the outside, or the reason why there is none.
fn add(
    reader: &mut Reader<'_>,
    at: usize,
    construct: String,
    answer: impl FnOnce(&Resolver) -> Result<Grammar, String>,
) -> Result<(), SyntaxError> {
    match answer(&reader.resolver) {
        Ok(grammar) => {
            let node = reader.tree.grammar(Nested::Ready(grammar), at);
            reader.body.item(&mut reader.tree, node);
            Ok(())
        }
        Err(message) => Err(reader.cursor.error(at, SyntaxErrorKind::Nested { construct, message })),
    }
}

/// Reads `@name`.
fn named(reader: &mut Reader<'_>, at: usize, terminal: bool) -> Result<(), SyntaxError> {
    if terminal {
        return Err(in_terminal(reader, at));
    }
    let name = name(&mut reader.cursor);
    if name.is_empty() {
        return Err(reader.cursor.unexpected("the name of a grammar after `@`"));
    }
    add(reader, at, format!("`@{name}`"), |resolver| resolver.get().named(name))
}

/// Reads the value of `%json`.
fn schema(reader: &mut Reader<'_>, at: usize) -> Result<(), SyntaxError> {
    blank(&mut reader.cursor);
    let begin = reader.cursor.at();
    let mut values = Deserializer::from_str(reader.cursor.rest()).into_iter::<Value>();
    match values.next() {
        Some(Ok(_)) => {}
        Some(Err(error)) => {
            return Err(reader.cursor.invalid(begin, format!("not JSON: {error}, counted from here")));
        }
        None => return Err(reader.cursor.unexpected("a JSON Schema after `%json`")),
    }
    let end = values.byte_offset();
    reader.cursor.skip(end);
    let schema = reader.cursor.since(begin);
    add(reader, at, "`%json`".to_owned(), |resolver| resolver.get().json_schema(schema))
}

/// Reads the value of `%lark`: definitions in braces.
fn grammar<'t>(reader: &mut Reader<'t>, at: usize) -> Result<(), SyntaxError> {
    blank(&mut reader.cursor);
    let open = reader.cursor.at();
    if !reader.cursor.eat("{") {
        return Err(reader.cursor.unexpected("`{` and definitions after `%lark`"));
    }
    if reader.depth == MAX_DEPTH {
        let message = format!("grammars nest deeper than {MAX_DEPTH} levels: flatten them");
        return Err(reader.cursor.invalid(at, message));
    }
    let mut inner = Reader::<'t>::new(reader.text, reader.limits);
    inner.cursor = reader.cursor;
    inner.resolver = reader.resolver.clone();
    inner.files = reader.files;
    inner.tree.enter(reader.tree.file());
    inner.depth = reader.depth + 1;
    let mut ignored = Ignored::new("`%ignore`", &GrammarOptions::default());
    definitions(&mut inner, &mut ignored)?;
    apply_changes(&mut inner)?;
    if !inner.cursor.eat("}") {
        return Err(inner.cursor.unclosed(open, "the grammar", "`}` after its last definition"));
    }
    reader.cursor = inner.cursor;
    let Reader { mut tree, .. } = inner;
    expand(&mut tree, reader.text, reader.limits)?;
    let Some(start) = tree.find("start") else {
        let what = "start rule";
        let nearest = nearest("start", tree.definitions.iter().map(|definition| tree.name(definition.name)));
        let kind = SyntaxErrorKind::Undefined { what, name: "start".to_owned(), nearest, way_out: None };
        return Err(reader.cursor.error(at, kind));
    };
    check_size(reader, &tree, at)?;
    let node = reader.tree.grammar(Nested::Text(Box::new(Part { tree, ignored, start })), at);
    reader.body.item(&mut reader.tree, node);
    Ok(())
}

/// Checks the limit of nodes for a grammar and the one inside it together.
fn check_size(reader: &Reader<'_>, inner: &Tree<'_>, at: usize) -> Result<(), SyntaxError> {
    let limit = reader.limits.nodes;
    if reader.tree.size() + inner.size() > limit {
        let message = format!(
            "the grammar has more than {limit} nodes (GrammarLimits::nodes): split it, or raise the limit"
        );
        return Err(reader.cursor.invalid(at, message));
    }
    Ok(())
}

/// Reads the argument of `%regex`: a JSON object with one key, which gives the kind of the chunks.
fn substring(reader: &mut Reader<'_>, at: usize) -> Result<(), SyntaxError> {
    blank(&mut reader.cursor);
    let begin = reader.cursor.at();
    // The deserializer stops after the object, and bounds its nesting.
    let mut values = Deserializer::from_str(reader.cursor.rest()).into_iter::<Map<String, Value>>();
    let object = match values.next() {
        Some(Ok(object)) => object,
        Some(Err(error)) => {
            return Err(reader
                .cursor
                .invalid(begin, format!("not an object of JSON: {error}, counted from here")));
        }
        None => return Err(reader.cursor.unexpected("an object of JSON after `%regex`")),
    };
    let end = values.byte_offset();
    reader.cursor.skip(end);
    let known = "write `substring_chunks` with a list of texts, or `substring_words` or `substring_chars` with a text";
    let chunks = match object.iter().next() {
        Some((key, value)) if object.len() == 1 => chunks(key, value),
        _ => None,
    };
    let Some(chunks) = chunks else {
        return Err(reader.cursor.unsupported(at, "this form of `%regex`", known));
    };
    let node = reader.tree.neighbours(chunks, at);
    reader.body.item(&mut reader.tree, node);
    Ok(())
}

/// The chunks of a key and its value.
fn chunks(key: &str, value: &Value) -> Option<Vec<String>> {
    let chunks: Option<Vec<String>> = match (key, value) {
        ("substring_chunks", Value::Array(chunks)) => {
            chunks.iter().map(|chunk| chunk.as_str().map(str::to_owned)).collect()
        }
        ("substring_chars", Value::String(text)) => Some(text.chars().map(String::from).collect()),
        ("substring_words", Value::String(text)) => {
            let kind = |char: char| (char.is_alphanumeric(), char.is_whitespace());
            let mut words: Vec<String> = vec![];
            let mut last = None;
            for char in text.chars() {
                if last.replace(kind(char)) == Some(kind(char)) {
                    words.last_mut().expect("it has the last character").push(char);
                } else {
                    words.push(char.to_string());
                }
            }
            Some(words)
        }
        _ => None,
    };
    // An empty chunk changes nothing.
    chunks.map(|chunks| chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect())
}
