//! Directives of Lark that set options of the whole grammar: `%declare`, `%llguidance` and `%grammar_options`.

use serde_json::{Deserializer, Map, Value};
use unskew_grammar::{Fate, SyntaxError};

use super::body;
use crate::{
    Indenter,
    syntax::{
        expand::Parameters,
        lower::Ignored,
        reader::Reader,
        tree::{Definition, Node},
    },
};

/// Reads `%declare A B`: terminals without texts, of which only an indenter's are known.
pub(super) fn declare(reader: &mut Reader<'_>, indenter: &Indenter, at: usize) -> Result<(), SyntaxError> {
    if reader.depth > 0 {
        let way_out = "declare it in a grammar of its own";
        return Err(reader.cursor.unsupported(at, "`%declare` in a grammar inside another", way_out));
    }
    loop {
        body::blank(&mut reader.cursor);
        let name_at = reader.cursor.at();
        if !reader.cursor.peek().is_some_and(|char| char.is_ascii_alphabetic() || char == '_') {
            return Ok(());
        }
        let name = super::name(reader)?;
        if name != indenter.indent && name != indenter.dedent {
            let construct = format!("`%declare` of `{name}`, which is no terminal of the indenter,");
            let way_out = "define the terminal, since only a definition gives its texts; those of blocks are `_INDENT` and `_DEDENT`, \
                           unless `%grammar_options {\"indenter\": {\"indent\": \"IN\", \"dedent\": \"OUT\"}}` before it names others";
            return Err(reader.cursor.unsupported(name_at, construct, way_out));
        }
        let file = reader.tree.file();
        if reader.tree.declared.is_some_and(|(_, other)| other != file) {
            let way_out = "declare the terminals in one file, and import the rules";
            return Err(reader.cursor.unsupported(name_at, "`%declare` in two files", way_out));
        }
        reader.tree.declared = Some((at, file));
        let body = reader.tree.push(Node::Declared, name_at);
        let name = reader.tree.intern(name);
        let parameters = Parameters::None;
        reader.define_as(Definition { name, at: name_at, body, terminal: true, parameters })?;
    }
}

/// Reads the options of `%llguidance`, which is `%grammar_options` in XGrammar.
pub(super) fn llguidance(
    reader: &mut Reader<'_>,
    ignored: &mut Ignored,
    at: usize,
) -> Result<(), SyntaxError> {
    let begin = reader.cursor.at();
    let mut values = Deserializer::from_str(reader.cursor.rest()).into_iter::<Map<String, Value>>();
    let options = match values.next() {
        Some(Ok(options)) => options,
        Some(Err(error)) => {
            let message = format!("not an object of JSON: {error}, counted from here");
            return Err(reader.cursor.invalid(begin, message));
        }
        None => return Err(reader.cursor.unexpected("an object of JSON after `%llguidance`")),
    };
    let end = values.byte_offset();
    reader.cursor.skip(end);
    for (name, value) in &options {
        match (name.as_str(), value) {
            ("ignore_once", Value::Bool(once)) => {
                ignored.options.max_ignored = once.then_some(1).or(ignored.options.max_ignored);
            }
            ("allow_initial_skip", Value::Bool(initial)) => ignored.only_after = !initial,
            ("indenter", Value::Object(fields)) => {
                indenter(reader, &mut ignored.options.indenter, fields, begin)?;
            }
            // Nothing is forced, and texts are UTF-8.
            ("no_forcing", Value::Bool(_)) | ("allow_invalid_utf8", Value::Bool(false)) => {}
            _ => {
                let construct = format!("the option `{name}` of llguidance with this value");
                let way_out =
                    "remove it; `ignore_once`, `allow_initial_skip`, `no_forcing` and `indenter` are read";
                return Err(reader.cursor.unsupported(begin, construct, way_out));
            }
        }
    }
    reader.tree.notes.push((
        at,
        "`%llguidance`",
        Fate::Annotation,
        "it says which program the grammar is for; of its options, `ignore_once`, `allow_initial_skip` and `indenter` are enforced",
    ));
    Ok(())
}

/// Reads the option `indenter`: how blocks are indented, where the program says nothing else.
fn indenter(
    reader: &Reader<'_>,
    indenter: &mut Indenter,
    fields: &Map<String, Value>,
    at: usize,
) -> Result<(), SyntaxError> {
    let refuse = |what: String, way_out| Err(reader.cursor.unsupported(at, what, way_out));
    if reader.tree.declared.is_some() || reader.tree.file() > 0 {
        let way_out = "write it before `%declare`, into the file of the start rule";
        return refuse("the option `indenter` here".to_owned(), way_out);
    }
    let texts = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    for (name, value) in fields {
        let Indenter { newline, indent, dedent, open, close, tab } = &mut *indenter;
        let name_of = |field: &mut String| value.as_str().map(|text| text.clone_into(field));
        let set = match name.as_str() {
            "newline" => name_of(newline),
            "indent" => name_of(indent),
            "dedent" => name_of(dedent),
            "open" => texts(value).map(|texts| *open = texts),
            "close" => texts(value).map(|texts| *close = texts),
            "tab" => value.as_u64().and_then(|number| u32::try_from(number).ok()).map(|number| *tab = number),
            _ => None,
        };
        if set.is_none() {
            let way_out = "give names of terminals as `newline`, `indent` and `dedent`, lists of texts as `open` and `close`, and a \
                           number of columns as `tab`";
            return refuse(format!("`{name}` of the option `indenter` with this value"), way_out);
        }
    }
    Ok(())
}
